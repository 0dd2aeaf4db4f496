//! Signals that arrive: the first Ctrl-C drains, the second terminates, the third kills.
//!
//! `SIGTERM` and `SIGHUP` mean that somebody else wants the end: they begin with the second step. A signal that was ignored
//! when we were started stays ignored, so that `nohup` and a shell's background jobs work as they should.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::stop::{Reason, Step, Stop};

/// Listens until it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// `tell` is called after each step, with what was reached.
    pub(super) fn start(stop: Arc<Stop>, tell: impl Fn(Step) + Send + 'static) -> io::Result<Listener> {
        let ignored = ignored();
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let mut signals = Signals::new(wanted)?;
        let handle = signals.handle();
        let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                let step = next(stop.step(), signal);
                stop.advance(step, Reason::Signal(signal));
                tell(step);
            }
        })?;
        Ok(Listener { handle, thread: Some(thread) })
    }
}

fn next(step: Step, signal: i32) -> Step {
    match step {
        Step::Going if signal == SIGINT => Step::Draining,
        Step::Going | Step::Draining | Step::Finishing => Step::Terminating,
        Step::Terminating | Step::Killing => Step::Killing,
    }
}

/// The signals that we were started without, as a set of bits. Only Linux tells.
fn ignored() -> u64 {
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
