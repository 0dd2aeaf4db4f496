//! Waits for file descriptors, including one for the end of a child.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

/// Becomes readable at the end of a child, without reaping it.
pub(super) enum End {
    #[cfg(target_os = "linux")]
    Pidfd(std::os::fd::OwnedFd),
    Watched(PipeReader),
}

impl End {
    pub(super) fn of(pid: Pid) -> io::Result<End> {
        #[cfg(target_os = "linux")]
        if let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            return Ok(End::Pidfd(fd));
        }
        End::watched(pid)
    }

    /// For systems without pidfds: a thread waits for the end, without reaping the child.
    fn watched(pid: Pid) -> io::Result<End> {
        let (reader, writer) = io::pipe()?;
        thread::Builder::new().name("wait".to_owned()).stack_size(64 * 1024).spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
            drop(writer);
        })?;
        Ok(End::Watched(reader))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            #[cfg(target_os = "linux")]
            End::Pidfd(fd) => fd.as_fd(),
            End::Watched(reader) => reader.as_fd(),
        }
    }
}

/// Whether the child was stopped because it used the terminal from the background.
///
/// A child that was stopped by `SIGSTOP` or `SIGTSTP` is left alone.
pub(super) fn waits_for_terminal(pid: Pid) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let Ok(Some(status)) = waitid(WaitId::Pid(pid), options) else { return false };
    let signal = status.stopping_signal();
    [Signal::TTIN, Signal::TTOU].iter().any(|terminal| signal == Some(terminal.as_raw()))
}

/// For [`poll_until`]: woken by data, or when the other end is closed.
pub(super) fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Sleeps until one of `fds` is ready, or until `deadline`. May return early.
pub(super) fn poll_until(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<()> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // The system may reject a very long timeout. Callers check their deadline.
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
    use std::process::Command;

    use super::*;

    /// Test machines have pidfds, so the alternative needs its own test.
    #[test]
    fn the_end_of_a_child_can_be_watched_without_a_pidfd() {
        let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().expect("a shell");
        let end = End::watched(Pid::from_child(&child)).expect("a thread");
        poll_until(&mut [readable(end.as_fd())], None).expect("a wait");
        assert_eq!(child.wait().expect("it can still be reaped").code(), Some(7));
    }
}
