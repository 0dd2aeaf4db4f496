//! One attempt of one job: starts the command, collects its output, waits for its end, ends it if it must.
//!
//! The worker sleeps in one `poll` for all that can happen: output, the end of the child (a pidfd), the alarm, the time-out. It
//! wakes for nothing else. A child is the leader of a process group of its own: so a Ctrl-C at the terminal
//! reaches us and not the jobs, and what a job has started is ended with it.
//!
//! Nothing here keeps the standard library from `posix_spawn`: no code runs between fork and exec.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::group;
use super::output::Output;
use super::stop::{Step, Stop};

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Ended {
    Exit(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// Its time was over, and we ended it.
    TimedOut,
    /// The run ends, and we ended it.
    Interrupted,
    /// There was no such program, or the like.
    NotStarted(io::Error),
    /// Its output has no place to go; it was killed.
    OutputLost(io::Error),
}

/// A deadline must be a time that there is.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 86400);

/// Nobody tells of the end of a grandchild, nor of room for another process: we have to look.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// How long a job waits for room to be started in.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// How long a command may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) timeout: Option<Duration>,
    /// Between `SIGTERM` and `SIGKILL`.
    pub(super) grace: Duration,
}

/// Where the output goes: kept here, or, if there is no place for it, straight to our own stdout and stderr.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

/// Runs `words` to the end. `outputs` is to be empty.
pub(super) fn run(words: &[OsString], limits: Limits, stop: &Stop, outputs: Option<&mut Outputs>) -> Ended {
    let kept = || if outputs.is_some() { Stdio::piped() } else { Stdio::inherit() };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(kept()).stderr(kept()).process_group(0);
    let child = match patiently(stop, || command.spawn()) {
        Ok(child) => child,
        Err(error) if is_momentary(&error) && stop.step() >= Step::Finishing => return Ended::Interrupted,
        Err(error) => return Ended::NotStarted(error),
    };
    match Running::new(child, limits) {
        Ok(running) => running.watch(stop, outputs),
        Err(error) => Ended::NotStarted(error),
    }
}

/// There is no room for another process at the moment. That changes as soon as one ends, perhaps one of our own.
fn is_momentary(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Tries again for a while if there is no room: else all that is queued would fail within a moment, one after the other.
fn patiently<T>(stop: &Stop, mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        let waits = || begin.elapsed() < ROOM_PATIENCE && stop.step() < Step::Finishing;
        match start() {
            Err(error) if is_momentary(&error) && waits() => {}
            result => return result,
        }
        poll_until(&mut [readable(stop.terminate_alarm().as_fd())], Some(Instant::now() + BETWEEN_LOOKS))?;
    }
}

/// A child and what we wait for.
struct Running {
    child: Child,
    pid: Pid,
    end: End,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// When its time, or its grace, is over.
    deadline: Option<Instant>,
    grace: Duration,
    /// Why we are ending it, if we are. Then the next deadline kills.
    ending: Option<Ended>,
}

/// One output was read to its end, or is not read any more.
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
                // Without a way to wait for it, it is not to run at all.
                let _ = kill_process_group(pid, Signal::KILL);
                child.wait()?;
                return Err(error);
            }
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let deadline = limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Ok(Running { child, pid, end, stdout, stderr, deadline, grace: limits.grace, ending: None })
    }

    fn watch(mut self, stop: &Stop, mut outputs: Option<&mut Outputs>) -> Ended {
        loop {
            let woken = match self.wait(stop) {
                Ok(woken) => woken,
                Err(error) => return self.give_up(error),
            };
            if let Some(outputs) = outputs.as_deref_mut()
                && let Err(error) = self.collect(&woken, outputs)
            {
                return self.give_up(error);
            }
            if woken.ended {
                break;
            }
            // The alarm of the step that we are in, or the time: either takes us one step on.
            let time_is_over = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match (&self.ending, woken.alarm, time_is_over) {
                (None, true, _) => self.terminate(Ended::Interrupted),
                (None, false, true) => self.terminate(Ended::TimedOut),
                (Some(_), true, _) | (Some(_), _, true) => self.kill(),
                (_, false, false) => {}
            }
        }
        let status = self.child.wait();
        if self.ending.is_some() {
            self.end_the_rest(stop);
        }
        match (self.ending, status) {
            (Some(ending), _) => ending,
            (None, Ok(status)) => natural_end(status),
            (None, Err(error)) => Ended::NotStarted(error),
        }
    }

    /// Sleeps until something happens.
    fn wait(&self, stop: &Stop) -> io::Result<Woken> {
        let alarm = if self.ending.is_none() { stop.terminate_alarm() } else { stop.kill_alarm() };
        let mut fds = vec![readable(self.end.as_fd())];
        // After SIGKILL there is nothing left to be told.
        let waits_for_alarm = self.ending.is_none() || self.deadline.is_some();
        fds.extend(waits_for_alarm.then(|| readable(alarm.as_fd())));
        fds.extend(self.stdout.as_ref().map(|stdout| readable(stdout.as_fd())));
        fds.extend(self.stderr.as_ref().map(|stderr| readable(stderr.as_fd())));
        poll_until(&mut fds, self.deadline)?;
        let mut results = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut next = |present: bool| present && results.next().unwrap_or(false);
        Ok(Woken {
            ended: next(true),
            alarm: next(waits_for_alarm),
            stdout: next(self.stdout.is_some()),
            stderr: next(self.stderr.is_some()),
        })
    }

    /// Reads what there is to read; at the child's end all that it has left behind, but not what its own children add.
    fn collect(&mut self, woken: &Woken, outputs: &mut Outputs) -> io::Result<()> {
        if woken.ended || woken.stdout {
            take(&mut self.stdout, woken.ended, &mut outputs.stdout)?;
        }
        if woken.ended || woken.stderr {
            take(&mut self.stderr, woken.ended, &mut outputs.stderr)?;
        }
        Ok(())
    }

    fn terminate(&mut self, ending: Ended) {
        self.ending = Some(ending);
        self.deadline = Some(Instant::now() + self.grace.min(LONGEST_GRACE));
        self.signal(Signal::TERM);
    }

    fn kill(&mut self) {
        self.deadline = None;
        self.signal(Signal::KILL);
    }

    /// The command is gone because we have ended it. What it had started was told too, and has the same grace and no more.
    fn end_the_rest(&self, stop: &Stop) {
        let mut told_to_kill = false;
        while group::is_alive(self.pid) {
            if told_to_kill || self.deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                return self.signal(Signal::KILL);
            }
            let mut alarm = [readable(stop.kill_alarm().as_fd())];
            let slept = poll_until(&mut alarm, Some(Instant::now() + BETWEEN_LOOKS));
            told_to_kill = slept.is_err() || !alarm[0].revents().is_empty();
        }
    }

    /// The number is still the group's own: the child is not yet waited for, or somebody else of the group is alive.
    fn signal(&self, signal: Signal) {
        // It fails if all of the group have ended: then that is what was wanted.
        let _ = kill_process_group(self.pid, signal);
    }

    #[cold]
    fn give_up(mut self, error: io::Error) -> Ended {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        Ended::OutputLost(error)
    }
}

/// What has happened.
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

fn take<R: Read + AsFd>(stream: &mut Option<R>, to_the_end: bool, output: &mut Output) -> io::Result<()> {
    let Some(reader) = stream else { return Ok(()) };
    let flow = if to_the_end { read_what_is_left(reader, output) } else { read_once(reader, output) };
    if let Flow::Closed = flow? {
        *stream = None;
    }
    Ok(())
}

/// To be called when there is something: so it does not block.
fn read_once(reader: &mut impl Read, output: &mut Output) -> io::Result<Flow> {
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; 64 * 1024]);
    }
    BUFFER.with_borrow_mut(|buffer| match reader.read(buffer) {
        Ok(0) => Ok(Flow::Closed),
        Ok(length) => output.push(&buffer[..length]).map(|()| Flow::Open),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Flow::Open),
        Err(error) => Err(error),
    })
}

fn read_what_is_left<R: Read + AsFd>(reader: &mut R, output: &mut Output) -> io::Result<Flow> {
    let left = ioctl_fionread(&*reader)?;
    let mut left = reader.take(left);
    while left.limit() > 0 {
        if let Flow::Closed = read_once(&mut left, output)? {
            break;
        }
    }
    Ok(Flow::Closed)
}

/// Something to poll that becomes readable at the end of a child, without waiting for it.
enum End {
    #[cfg(target_os = "linux")]
    Pidfd(std::os::fd::OwnedFd),
    Watched(PipeReader),
}

impl End {
    fn of(pid: Pid) -> io::Result<End> {
        #[cfg(target_os = "linux")]
        if let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            return Ok(End::Pidfd(fd));
        }
        End::watched(pid)
    }

    /// Where there are no pidfds: a thread that waits, and leaves the child for us to wait for again.
    fn watched(pid: Pid) -> io::Result<End> {
        let (reader, writer) = io::pipe()?;
        thread::Builder::new().name("wait".to_owned()).stack_size(64 * 1024).spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
            drop(writer);
        })?;
        Ok(End::Watched(reader))
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            #[cfg(target_os = "linux")]
            End::Pidfd(fd) => fd.as_fd(),
            End::Watched(reader) => reader.as_fd(),
        }
    }
}

/// For [`poll_until`]: woken by something to read, or by the other end's leaving.
pub(super) fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Sleeps until one of `fds` has something to tell, or until `deadline`.
pub(super) fn poll_until(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<()> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A time too long for the system is as good as none: we look again after an hour.
        let left = left.map(|left| left.min(Duration::from_secs(3600)));
        let timeout = left.map(|left| Timespec::try_from(left).expect("an hour fits"));
        match poll(fds, timeout.as_ref()) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::run::stop::Reason;

    #[test]
    fn a_process_for_which_there_is_no_room_is_tried_again() {
        let stop = Stop::new().expect("pipes");
        let full = || Err(io::Error::from(Errno::AGAIN));
        let mut tries = 0;
        let third_time = patiently(&stop, || {
            tries += 1;
            if tries < 3 { full() } else { Ok(tries) }
        });
        assert_eq!(third_time.expect("there is room now"), 3);
        let missing = patiently(&stop, || Err::<(), _>(io::Error::from(Errno::NOENT)));
        assert_eq!(missing.expect_err("told at once").kind(), io::ErrorKind::NotFound);
        stop.advance(Step::Finishing, Reason::Halt);
        assert!(patiently(&stop, full).is_err(), "nothing is started any more");
        let _ = millpond::interrupt::interrupted();
    }

    /// The other way to learn of a child's end must work too, though no test machine may need it.
    #[test]
    fn the_end_of_a_child_can_be_watched_without_a_pidfd() {
        let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().expect("a shell");
        let end = End::watched(Pid::from_child(&child)).expect("a thread");
        poll_until(&mut [readable(end.as_fd())], None).expect("a wait");
        assert_eq!(child.wait().expect("still there to be waited for").code(), Some(7));
    }
}
