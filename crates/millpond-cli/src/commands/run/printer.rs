//! Prints the output of jobs: each in one piece, in the order of the input if requested.
//!
//! In order, a job that finishes before an earlier one waits here. To bound the memory, the intake
//! reads at most [`WINDOW`] jobs ahead of the next one to print, and waiting outputs move to a file
//! once they exceed [`IN_MEMORY`].

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::joblog::JobLog;
use super::lines::Tagged;
use super::output::{Failure, Output};
use super::process::{Outputs, Which};
use super::progress::Progress;

/// Maximum number of jobs between the next one to print and the next one to read.
const WINDOW: u64 = 10_000;

/// Maximum number of bytes of waiting outputs in memory.
const IN_MEMORY: usize = 8 * 1024 * 1024;

/// What a finished job leaves to print.
#[derive(Debug, Default)]
pub(super) struct Finished {
    pub(super) outputs: Option<Outputs>,
    /// The argument, with `--tag`.
    pub(super) tag: Option<Vec<u8>>,
    /// The line for the job log.
    pub(super) log_line: Option<String>,
}

impl Finished {
    fn is_nothing(&self) -> bool {
        self.outputs.is_none() && self.log_line.is_none()
    }

    /// Approximate number of bytes in memory.
    fn in_memory(&self) -> usize {
        let outputs =
            self.outputs.as_ref().map_or(0, |both| both.stdout.in_memory() + both.stderr.in_memory());
        outputs + self.log_line.as_ref().map_or(0, String::len)
    }
}

/// Why something could not be written.
#[derive(Debug)]
pub(super) enum Problem {
    /// The reader of stdout closed the pipe.
    ReaderGone,
    /// One line that says what is wrong.
    Message(String),
}

/// The output stage that all jobs share.
#[derive(Debug)]
pub(super) struct Printer {
    /// Held while writing, even if the reader is slow.
    queue: Mutex<Queue>,
    /// Never held while writing, so that a stop does not wait for the reader. Lock order: `queue`,
    /// then `window`.
    window: Mutex<Window>,
    /// Notified when the window has changed.
    moved: Condvar,
    keep_order: bool,
    progress: Progress,
}

#[derive(Debug)]
struct Queue {
    stdout: Stream,
    stderr: Stream,
    /// `None`: not requested, or a write failed. After an incomplete line, no line could be
    /// trusted.
    log: Option<JobLog>,
    /// In order: the number of the next job to print.
    next: u64,
    /// In order: job `next`, `next + 1`, ... None: not finished yet.
    waiting: VecDeque<Option<Finished>>,
    /// Bytes of memory used by `waiting`.
    bytes: usize,
}

/// Limits how far ahead the intake may read.
#[derive(Debug)]
struct Window {
    /// A copy of the fields of [`Queue`].
    next: u64,
    bytes: usize,
    /// Whether the run ends: the intake must not wait.
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

    /// Ends all waits of the intake. Does not block.
    pub(super) fn close(&self) {
        self.lock_window().closed = true;
        self.moved.notify_all();
    }

    /// Prints the output of job `number`, now or in its turn. In order, every number must be
    /// printed exactly once.
    pub(super) fn print(&self, number: u64, finished: Finished) -> Result<(), Problem> {
        if !self.keep_order && finished.is_nothing() {
            return Ok(());
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.keep_order {
            return queue.print_one(finished, &self.progress);
        }
        let enqueued = queue.enqueue(number, finished);
        let printed = queue.print_all(&self.progress);
        let mut window = self.lock_window();
        (window.next, window.bytes) = (queue.next, queue.bytes);
        drop(window);
        self.moved.notify_all();
        enqueued.and(printed)
    }

    /// Prints complete lines at once (`--line-buffer`). An error of stderr is ignored.
    pub(super) fn print_now(&self, which: Which, bytes: &[u8]) -> io::Result<()> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match which {
            Which::Stdout => queue.stdout.aside(&self.progress, |stream| stream.write_all(bytes)),
            Which::Stderr => {
                let _ = queue.stderr.aside(&self.progress, |stream| stream.write_all(bytes));
                Ok(())
            }
        }
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
    /// Stores the job until its turn. If it cannot be moved to the file, it remains in memory.
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

    /// Prints all jobs whose turn has come. Continues after a problem with one of them.
    fn print_all(&mut self, progress: &Progress) -> Result<(), Problem> {
        let mut result = Ok(());
        while let Some(Some(_)) = self.waiting.front() {
            let finished = self.waiting.pop_front().flatten().expect("it was there a moment ago");
            self.bytes -= finished.in_memory();
            self.next += 1;
            result = self.print_one(finished, progress).and(result);
        }
        result
    }

    /// Prints the output before the log line, so that no logged job has lost output.
    fn print_one(&mut self, finished: Finished, progress: &Progress) -> Result<(), Problem> {
        if let Some(outputs) = &finished.outputs {
            self.write(outputs, finished.tag.as_deref(), progress)?;
        }
        let (Some(log), Some(line)) = (&mut self.log, &finished.log_line) else { return Ok(()) };
        let Err(error) = log.append(line) else { return Ok(()) };
        let message = log.cannot_write(&error);
        self.log = None;
        Err(Problem::Message(message))
    }

    fn write(&mut self, outputs: &Outputs, tag: Option<&[u8]>, progress: &Progress) -> Result<(), Problem> {
        let stdout = self.stdout.print(&outputs.stdout, tag, progress);
        // A closed stderr is not an error.
        let stderr = match self.stderr.print(&outputs.stderr, tag, progress) {
            Err(Failure::Sink(_)) => Ok(()),
            other => other,
        };
        stdout.and(stderr).map_err(|failure| match failure {
            Failure::Sink(error) if error.kind() == ErrorKind::BrokenPipe => Problem::ReaderGone,
            Failure::Sink(error) => Problem::Message(stdout_message(&error)),
            Failure::Spool(error) => spool(&error),
        })
    }
}

pub(super) fn stdout_message(error: &io::Error) -> String {
    format!("cannot write to stdout: {error}")
}

/// The message for an error of the temporary file.
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

/// Whether the reader of stdout has closed the pipe. Jobs that write to it get `SIGPIPE`; this
/// process has to check.
pub(super) fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Stdout or stderr, unbuffered. Polls if another process has made it non-blocking.
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

    fn print(&mut self, output: &Output, tag: Option<&[u8]>, progress: &Progress) -> Result<(), Failure> {
        if output.is_empty() {
            return Ok(());
        }
        self.aside(progress, |stream| match tag {
            Some(tag) => output.write_to(&mut Tagged::new(stream, tag)),
            None => output.write_to(stream),
        })
    }

    /// Hides the progress line while writing, but only on a terminal. Elsewhere this would hold its
    /// lock while a pipe is full.
    fn aside<R>(&mut self, progress: &Progress, write: impl FnOnce(&mut Stream) -> R) -> R {
        if self.is_terminal { progress.aside(|| write(self)) } else { write(self) }
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
