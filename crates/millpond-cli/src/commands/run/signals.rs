//! Handles signals: the first Ctrl-C starts no more jobs, the second terminates jobs, the third
//! kills them.
//!
//! `SIGTERM` and `SIGHUP` begin with the second step and `SIGQUIT` with the third, because jobs
//! have their own process groups and would outlive this process. `SIGUSR1` requests a progress
//! report. A signal that was ignored at the start remains ignored, for `nohup` and for background
//! jobs of a shell.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use signal_hook::iterator::{Handle, Signals};

use super::stop::{Reason, Step, Stop};

/// The meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The run ends, and is at this step.
    Stop(Step),
    /// The user requests a progress report.
    Report,
}

/// Handles signals until it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// `tell` is called for each signal, after the run was told to stop.
    pub(super) fn start(stop: Arc<Stop>, tell: impl Fn(Heard) + Send + 'static) -> io::Result<Listener> {
        let ignored = ignored();
        let handled = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1];
        let mut signals =
            Signals::new(handled.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
        let handle = signals.handle();
        let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    tell(Heard::Report);
                    continue;
                }
                let step = next(stop.step(), signal);
                stop.advance(step, Reason::Signal(signal));
                tell(Heard::Stop(step));
            }
        })?;
        Ok(Listener { handle, thread: Some(thread) })
    }
}

fn next(step: Step, signal: i32) -> Step {
    match (step, signal) {
        (_, SIGQUIT) | (Step::Terminating | Step::Killing, _) => Step::Killing,
        (Step::Going | Step::Draining, SIGINT) => Step::Finishing,
        (Step::Going | Step::Draining | Step::Finishing, _) => Step::Terminating,
    }
}

/// The ignored signals, as a bit set. Only Linux provides it.
pub(crate) fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_goes_one_step_further() {
        for (step, signal, expected) in [
            (Step::Going, SIGINT, Step::Finishing),
            (Step::Draining, SIGINT, Step::Finishing),
            (Step::Finishing, SIGINT, Step::Terminating),
            (Step::Terminating, SIGINT, Step::Killing),
            (Step::Going, SIGTERM, Step::Terminating),
            (Step::Terminating, SIGHUP, Step::Killing),
            (Step::Going, SIGQUIT, Step::Killing),
        ] {
            assert_eq!(next(step, signal), expected, "{step:?}, signal {signal}");
        }
    }
}
