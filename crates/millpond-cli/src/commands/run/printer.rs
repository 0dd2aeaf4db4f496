//! Hands over what jobs have written: each job's output in one piece, in the order of the input if that is asked for.
//!
//! In order, a job that is done before an earlier one waits here. So that a slow job among many quick ones does not fill the
//! memory, the intake goes at most [`WINDOW`] jobs ahead of the next to be printed, and what waits is put aside into a
//! file once it is more than [`IN_MEMORY`].

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::joblog::JobLog;
use super::output::{Failure, Output};
use super::process::Outputs;
use super::progress::Progress;

/// How many jobs may be between the next to be printed and the next to be taken in.
const WINDOW: u64 = 10_000;

/// How many bytes of waiting outputs are kept in memory.
const IN_MEMORY: usize = 8 * 1024 * 1024;

/// What is left of a job when it has ended.
#[derive(Debug, Default)]
pub(super) struct Finished {
    pub(super) outputs: Option<Outputs>,
    /// Its line in the job log.
    pub(super) log_line: Option<String>,
}

impl Finished {
    fn is_nothing(&self) -> bool {
        self.outputs.is_none() && self.log_line.is_none()
    }

    /// As many bytes as it takes, roughly.
    fn in_memory(&self) -> usize {
        let outputs =
            self.outputs.as_ref().map_or(0, |both| both.stdout.in_memory() + both.stderr.in_memory());
        outputs + self.log_line.as_ref().map_or(0, String::len)
    }
}

/// Why something could not be handed over.
#[derive(Debug)]
pub(super) enum Problem {
    /// Whoever read our stdout has left.
    ReaderGone,
    /// One line on what is wrong.
    Message(String),
}

/// The way out for all jobs.
#[derive(Debug)]
pub(super) struct Printer {
    /// Held while something is written, which lasts as long as the reader likes.
    queue: Mutex<Queue>,
    /// Never held for long, so that whoever ends the run need not wait for the reader. Taken after `queue`, if both are.
    window: Mutex<Window>,
    /// Told when the window has changed.
    moved: Condvar,
    keep_order: bool,
    progress: Progress,
}

#[derive(Debug)]
struct Queue {
    stdout: Stream,
    stderr: Stream,
    /// None: not wanted, or it has failed once. A line after a torn one could not be trusted.
    log: Option<JobLog>,
    /// In order: the number of the next job to be printed.
    next: u64,
    /// In order: what became of job `next`, `next + 1`, ... None: not done yet.
    waiting: VecDeque<Option<Finished>>,
    /// Of those in `waiting`.
    bytes: usize,
}

/// How far the intake may go.
#[derive(Debug)]
struct Window {
    /// As in [`Queue`].
    next: u64,
    bytes: usize,
    /// The intake has nothing to wait for any more.
    closed: bool,
}

impl Printer {
    pub(super) fn new(keep_order: bool, log: Option<JobLog>, progress: Progress) -> io::Result<Printer> {
        let queue = Queue {
            stdout: Stream::new(io::stdout().as_fd().try_clone_to_owned()?),
            stderr: Stream::new(io::stderr().as_fd().try_clone_to_owned()?),
            log,
            next: 1,
            waiting: VecDeque::new(),
            bytes: 0,
        };
        let window = Window { next: 1, bytes: 0, closed: false };
        Ok(Printer {
            queue: Mutex::new(queue),
            window: Mutex::new(window),
            moved: Condvar::new(),
            keep_order,
            progress,
        })
    }

    fn lock_window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until job `number` is not too far ahead, or until [`close`](Self::close).
    pub(super) fn wait_for_window(&self, number: u64) {
        if !self.keep_order {
            return;
        }
        let too_far = |window: &mut Window| {
            let ahead = number.saturating_sub(window.next);
            !window.closed && ahead > 0 && (ahead >= WINDOW || window.bytes >= 2 * IN_MEMORY)
        };
        drop(self.moved.wait_while(self.lock_window(), too_far).unwrap_or_else(PoisonError::into_inner));
    }

    /// The intake has nothing to wait for any more. Does not block.
    pub(super) fn close(&self) {
        self.lock_window().closed = true;
        self.moved.notify_all();
    }

    /// Prints what job `number` has left, now or in its turn. In order, every number must be told of exactly once.
    pub(super) fn print(&self, number: u64, finished: Finished) -> Result<(), Problem> {
        if !self.keep_order && finished.is_nothing() {
            return Ok(());
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.keep_order {
            return queue.hand_over(finished, &self.progress);
        }
        let enqueued = queue.enqueue(number, finished);
        let handed_over = queue.hand_over_all(&self.progress);
        let mut window = self.lock_window();
        (window.next, window.bytes) = (queue.next, queue.bytes);
        drop(window);
        self.moved.notify_all();
        enqueued.and(handed_over)
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }
}

impl Finished {
    fn put_aside(&mut self) -> Result<(), Problem> {
        let Some(outputs) = &mut self.outputs else { return Ok(()) };
        outputs.stdout.put_aside().and_then(|()| outputs.stderr.put_aside()).map_err(|error| spool(&error))
    }
}

impl Queue {
    /// If it cannot be put aside, it waits in memory all the same.
    fn enqueue(&mut self, number: u64, mut finished: Finished) -> Result<(), Problem> {
        let must_wait = number != self.next;
        let result = match must_wait && self.bytes + finished.in_memory() > IN_MEMORY {
            true => finished.put_aside(),
            false => Ok(()),
        };
        self.bytes += finished.in_memory();
        let place = usize::try_from(number - self.next).expect("the window is small");
        if self.waiting.len() <= place {
            self.waiting.resize_with(place + 1, || None);
        }
        self.waiting[place] = Some(finished);
        result
    }

    /// Hands over all whose turn has come. A problem with one does not keep the others.
    fn hand_over_all(&mut self, progress: &Progress) -> Result<(), Problem> {
        let mut result = Ok(());
        while let Some(Some(_)) = self.waiting.front() {
            let finished = self.waiting.pop_front().flatten().expect("it was there a moment ago");
            self.bytes -= finished.in_memory();
            self.next += 1;
            result = self.hand_over(finished, progress).and(result);
        }
        result
    }

    /// The output first: a job in the log has lost nothing.
    fn hand_over(&mut self, finished: Finished, progress: &Progress) -> Result<(), Problem> {
        if let Some(outputs) = &finished.outputs {
            self.write(outputs, progress)?;
        }
        let (Some(log), Some(line)) = (&mut self.log, &finished.log_line) else { return Ok(()) };
        let Err(error) = log.append(line) else { return Ok(()) };
        let message = log.cannot_write(&error);
        self.log = None;
        Err(Problem::Message(message))
    }

    fn write(&mut self, outputs: &Outputs, progress: &Progress) -> Result<(), Problem> {
        let stdout = self.stdout.print(&outputs.stdout, progress);
        // Without a stderr there is nobody to complain to.
        let stderr = match self.stderr.print(&outputs.stderr, progress) {
            Err(Failure::Sink(_)) => Ok(()),
            other => other,
        };
        stdout.and(stderr).map_err(|failure| match failure {
            Failure::Sink(error) if error.kind() == ErrorKind::BrokenPipe => Problem::ReaderGone,
            Failure::Sink(error) => Problem::Message(format!("cannot write to stdout: {error}")),
            Failure::Spool(error) => spool(&error),
        })
    }
}

/// What to say if the temporary file fails.
pub(super) fn spool_message(error: &io::Error) -> String {
    let directory = std::env::temp_dir();
    format!(
        "cannot keep the output of a job in {}: {error}; set TMPDIR to a place with room, or use --ungroup",
        directory.display()
    )
}

fn spool(error: &io::Error) -> Problem {
    Problem::Message(spool_message(error))
}

/// Whether whoever read our stdout has left. Jobs that write there themselves learn it by `SIGPIPE`; we have to ask.
pub(super) fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Stdout or stderr without a buffer. Somebody else may have made it non-blocking: then it waits.
#[derive(Debug)]
struct Stream {
    file: File,
    is_terminal: bool,
}

impl Stream {
    fn new(fd: OwnedFd) -> Stream {
        let is_terminal = fd.is_terminal();
        Stream { file: File::from(fd), is_terminal }
    }

    /// Only on a terminal is the progress in the way. Elsewhere its lock is not taken: a pipe may be full for long.
    fn print(&mut self, output: &Output, progress: &Progress) -> Result<(), Failure> {
        match (output.is_empty(), self.is_terminal) {
            (true, _) => Ok(()),
            (false, true) => progress.aside(|| output.write_to(self)),
            (false, false) => output.write_to(self),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _ = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], None);
                }
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
