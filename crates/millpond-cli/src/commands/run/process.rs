//! One attempt of one job: starts the command, collects its output, and waits for its end or ends
//! it.
//!
//! The worker waits in a single `poll` for all events: output, the end of the child (a pidfd), the
//! alarm, the timeout. Each child leads its own process group. So a Ctrl-C at the terminal reaches
//! this process but not the jobs, and processes that a job started end with it.
//!
//! The standard library uses `posix_spawn`, because no code runs between fork and exec.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process_group};

use super::group;
use super::output::Output;
use super::stop::{Step, Stop};
use super::wait::{End, poll_until, readable, waits_for_terminal};

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Ended {
    Exit(i32),
    /// By a signal that this command did not send.
    Signal(i32),
    /// It exceeded `--timeout` and was ended.
    TimedOut,
    /// It was ended because the run is ending.
    Interrupted,
    /// It used the terminal, which jobs do not have, and was ended.
    NeedsTerminal,
    /// It could not be started, for example because there is no such program.
    NotStarted(io::Error),
    /// Its output could not be kept or printed; it was killed.
    OutputLost(io::Error),
}

/// Keeps deadlines within the range of the clock.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 86400);

/// Grandchildren and free process slots are polled, because they give no notification.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval of checking whether a running job waits for the terminal.
const TERMINAL_CHECK: Duration = Duration::from_secs(1);

/// How long a job waits for a free process slot.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// Limits for each attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) timeout: Option<Duration>,
    /// Between `SIGTERM` and `SIGKILL`.
    pub(super) grace: Duration,
    /// There is a controlling terminal, which a job could wait for.
    pub(super) has_terminal: bool,
}

/// The collected output of a job.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Stdout,
    Stderr,
}

/// Receives output while a job runs. An error ends the job.
pub(super) trait Collect {
    fn collect(&mut self, which: Which, bytes: &[u8]) -> io::Result<()>;
}

impl Collect for Outputs {
    fn collect(&mut self, which: Which, bytes: &[u8]) -> io::Result<()> {
        match which {
            Which::Stdout => self.stdout.push(bytes),
            Which::Stderr => self.stderr.push(bytes),
        }
    }
}

/// Runs `words` to the end. Without a collector, the command inherits stdout and stderr. Calls
/// `started` when the process has started, or could not be started.
pub(super) fn run(
    words: &[OsString],
    limits: Limits,
    stop: &Stop,
    collector: Option<&mut dyn Collect>,
    started: impl FnOnce(),
) -> Ended {
    let stream = || if collector.is_some() { Stdio::piped() } else { Stdio::inherit() };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(stream()).stderr(stream()).process_group(0);
    let child = spawn_patiently(stop, || command.spawn());
    started();
    let child = match child {
        Ok(child) => child,
        Err(error) if is_temporary(&error) && stop.step() >= Step::Finishing => return Ended::Interrupted,
        Err(error) => return Ended::NotStarted(error),
    };
    match Running::new(child, limits) {
        Ok(running) => running.watch(stop, collector),
        Err(error) => Ended::NotStarted(error),
    }
}

/// Whether the system has no free process slot. This may change when another process ends.
fn is_temporary(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Retries for a while if there is no process slot. Otherwise all queued jobs would fail at once.
fn spawn_patiently<T>(stop: &Stop, mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        let waits = || begin.elapsed() < ROOM_PATIENCE && stop.step() < Step::Finishing;
        match start() {
            Err(error) if is_temporary(&error) && waits() => {}
            result => return result,
        }
        poll_until(&mut [readable(stop.terminate_alarm().as_fd())], Some(Instant::now() + POLL_INTERVAL))?;
    }
}

/// A child, and everything to wait for.
struct Running {
    child: Child,
    pid: Pid,
    end: End,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The end of the timeout or of the grace period.
    deadline: Option<Instant>,
    grace: Duration,
    /// Why the child is being ended, if it is. The next deadline then kills it.
    ending: Option<Ended>,
    /// When to check whether it waits for the terminal.
    terminal_check: Option<Instant>,
}

/// Whether a stream has more to read.
enum Flow {
    Open,
    Closed,
}

impl Running {
    fn new(mut child: Child, limits: Limits) -> io::Result<Running> {
        let pid = Pid::from_child(&child);
        let end = match End::of(pid) {
            Ok(end) => end,
            Err(error) => {
                // A child must not run if it cannot be waited for.
                let _ = kill_process_group(pid, Signal::KILL);
                child.wait()?;
                return Err(error);
            }
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let deadline = limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let terminal_check = limits.has_terminal.then(|| Instant::now() + TERMINAL_CHECK);
        let grace = limits.grace;
        Ok(Running { child, pid, end, stdout, stderr, deadline, grace, ending: None, terminal_check })
    }

    fn watch(mut self, stop: &Stop, mut collector: Option<&mut dyn Collect>) -> Ended {
        loop {
            let woken = match self.wait(stop) {
                Ok(woken) => woken,
                Err(error) => return self.give_up(error),
            };
            if let Some(collector) = collector.as_deref_mut()
                && let Err(error) = self.collect(&woken, collector)
            {
                return self.give_up(error);
            }
            if woken.ended {
                break;
            }
            // The alarm or the deadline escalates by one step.
            let time_is_over = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match (self.ending.is_some(), woken.alarm, time_is_over) {
                (false, true, _) => self.terminate(Ended::Interrupted),
                (false, false, true) => self.terminate(Ended::TimedOut),
                (true, true, _) | (true, _, true) => self.kill(),
                (false, false, false) if self.needs_terminal() => self.terminate(Ended::NeedsTerminal),
                (_, false, false) => {}
            }
        }
        let status = self.child.wait();
        if self.ending.is_some() {
            self.end_group(stop);
        }
        match (self.ending, status) {
            (Some(ending), _) => ending,
            (None, Ok(status)) => natural_end(status),
            (None, Err(error)) => Ended::NotStarted(error),
        }
    }

    /// Checks, from time to time, whether the child waits for the terminal.
    fn needs_terminal(&mut self) -> bool {
        let Some(check) = &mut self.terminal_check else { return false };
        if Instant::now() < *check {
            return false;
        }
        *check = Instant::now() + TERMINAL_CHECK;
        waits_for_terminal(self.pid)
    }

    /// Sleeps until something happens.
    fn wait(&self, stop: &Stop) -> io::Result<Woken> {
        let alarm = if self.ending.is_none() { stop.terminate_alarm() } else { stop.kill_alarm() };
        let mut fds = vec![readable(self.end.as_fd())];
        // After SIGKILL no step is left.
        let waits_for_alarm = self.ending.is_none() || self.deadline.is_some();
        fds.extend(waits_for_alarm.then(|| readable(alarm.as_fd())));
        fds.extend(self.stdout.as_ref().map(|stdout| readable(stdout.as_fd())));
        fds.extend(self.stderr.as_ref().map(|stderr| readable(stderr.as_fd())));
        let check = self.terminal_check.filter(|_| self.ending.is_none());
        let wake_at = match (self.deadline, check) {
            (Some(deadline), Some(check)) => Some(deadline.min(check)),
            (deadline, check) => deadline.or(check),
        };
        poll_until(&mut fds, wake_at)?;
        let mut results = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut next = |present: bool| present && results.next().unwrap_or(false);
        Ok(Woken {
            ended: next(true),
            alarm: next(waits_for_alarm),
            stdout: next(self.stdout.is_some()),
            stderr: next(self.stderr.is_some()),
        })
    }

    /// Reads available output. Once the child has ended, this reads what is left in the pipes, but
    /// not later output of its children.
    fn collect(&mut self, woken: &Woken, collector: &mut dyn Collect) -> io::Result<()> {
        if woken.ended || woken.stdout {
            take(&mut self.stdout, woken.ended, |bytes| collector.collect(Which::Stdout, bytes))?;
        }
        if woken.ended || woken.stderr {
            take(&mut self.stderr, woken.ended, |bytes| collector.collect(Which::Stderr, bytes))?;
        }
        Ok(())
    }

    fn terminate(&mut self, ending: Ended) {
        self.ending = Some(ending);
        self.deadline = Some(Instant::now() + self.grace.min(LONGEST_GRACE));
        self.signal(Signal::TERM);
        // A stopped process acts on SIGTERM only when it continues.
        self.signal(Signal::CONT);
    }

    fn kill(&mut self) {
        self.deadline = None;
        self.signal(Signal::KILL);
    }

    /// Ends the rest of the group. Processes that the command started got the same signal and have
    /// the same grace period.
    fn end_group(&self, stop: &Stop) {
        let mut must_kill = false;
        while group::is_alive(self.pid) {
            if must_kill || self.deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                return self.signal(Signal::KILL);
            }
            let mut alarm = [readable(stop.kill_alarm().as_fd())];
            let slept = poll_until(&mut alarm, Some(Instant::now() + POLL_INTERVAL));
            must_kill = slept.is_err() || !alarm[0].revents().is_empty();
        }
    }

    /// The id still belongs to the group: the child is not reaped, or another member is alive.
    fn signal(&self, signal: Signal) {
        // An error means that all members have ended.
        let _ = kill_process_group(self.pid, signal);
    }

    #[cold]
    fn give_up(mut self, error: io::Error) -> Ended {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        Ended::OutputLost(error)
    }
}

/// The events that ended a wait.
struct Woken {
    ended: bool,
    alarm: bool,
    stdout: bool,
    stderr: bool,
}

fn natural_end(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exit(code),
        (None, signal) => Ended::Signal(signal.unwrap_or(0)),
    }
}

fn take<R: Read + AsFd>(
    stream: &mut Option<R>,
    has_ended: bool,
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let Some(reader) = stream else { return Ok(()) };
    let flow = if has_ended { read_rest(reader, &mut sink) } else { read_once(reader, &mut sink) };
    if let Flow::Closed = flow? {
        *stream = None;
    }
    Ok(())
}

/// Does not block if the reader is ready.
fn read_once(reader: &mut impl Read, sink: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Flow> {
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; 64 * 1024]);
    }
    BUFFER.with_borrow_mut(|buffer| match reader.read(buffer) {
        Ok(0) => Ok(Flow::Closed),
        Ok(length) => sink(&buffer[..length]).map(|()| Flow::Open),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Flow::Open),
        Err(error) => Err(error),
    })
}

fn read_rest<R: Read + AsFd>(
    reader: &mut R,
    sink: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Flow> {
    let left = ioctl_fionread(&*reader)?;
    let mut left = reader.take(left);
    while left.limit() > 0 {
        if let Flow::Closed = read_once(&mut left, sink)? {
            break;
        }
    }
    Ok(Flow::Closed)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::commands::run::stop::Reason;

    #[test]
    fn a_process_without_a_slot_is_tried_again() {
        let stop = Stop::new().expect("pipes");
        let full = || Err(io::Error::from(Errno::AGAIN));
        let mut tries = 0;
        let third_time = spawn_patiently(&stop, || {
            tries += 1;
            if tries < 3 { full() } else { Ok(tries) }
        });
        assert_eq!(third_time.expect("there is room now"), 3);
        let missing = spawn_patiently(&stop, || Err::<(), _>(io::Error::from(Errno::NOENT)));
        assert_eq!(missing.expect_err("told at once").kind(), io::ErrorKind::NotFound);
        stop.advance(Step::Finishing, Reason::Halt);
        assert!(spawn_patiently(&stop, full).is_err(), "nothing is started any more");
        let _ = millpond::interrupt::interrupted();
    }
}
