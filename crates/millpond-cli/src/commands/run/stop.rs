//! Ends a run early, in steps that never go back.
//!
//! Threads that block in the operating system (the intake reading input, a worker waiting for its
//! child) also poll an [`Alarm`]: a pipe whose write end gets closed. Closing wakes any number of
//! threads, stays readable for threads that poll later, and needs no timeout.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use millpond::interrupt::Interrupter;

/// The steps of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Step {
    Going,
    /// The input is invalid: no more is read, but queued jobs still run.
    Draining,
    /// No job is started any more; running jobs may finish.
    Finishing,
    /// Running jobs are terminated, and killed after the grace period.
    Terminating,
    /// Running jobs are killed.
    Killing,
}

const STEPS: [Step; 5] = [Step::Going, Step::Draining, Step::Finishing, Step::Terminating, Step::Killing];

/// Why a run ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    Signal(i32),
    /// A `--halt` rule.
    Halt,
    /// The reader of stdout closed the pipe.
    ReaderGone,
    /// The run cannot continue: the message and the exit status.
    Trouble {
        message: String,
        status: u8,
    },
}

impl Reason {
    /// Of several reasons, the one with the highest rank decides the exit status.
    fn rank(&self) -> u8 {
        match self {
            Reason::ReaderGone => 0,
            Reason::Halt => 1,
            Reason::Signal(_) => 2,
            Reason::Trouble { .. } => 3,
        }
    }
}

/// The stop state of one run.
#[derive(Debug)]
pub(super) struct Stop {
    /// A [`Step`]. It only grows.
    step: AtomicU8,
    reason: Mutex<Option<Reason>>,
    /// The thread that reads the input. Interrupted because it may also wait for the pool.
    intake_thread: Interrupter,
    intake: Alarm,
    start: Alarm,
    terminate: Alarm,
    kill: Alarm,
}

impl Stop {
    /// Must be called on the thread that reads the input.
    pub(super) fn new() -> io::Result<Stop> {
        Ok(Stop {
            step: AtomicU8::new(Step::Going as u8),
            reason: Mutex::new(None),
            intake_thread: millpond::interrupt::current(),
            intake: Alarm::new()?,
            start: Alarm::new()?,
            terminate: Alarm::new()?,
            kill: Alarm::new()?,
        })
    }

    pub(super) fn step(&self) -> Step {
        // SeqCst: not on a hot path, so the simplest ordering is used.
        STEPS[usize::from(self.step.load(Ordering::SeqCst))]
    }

    /// Advances to `step`, unless the run is already further.
    pub(super) fn advance(&self, step: Step, reason: Reason) {
        let mut kept = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.rank() < reason.rank()) {
            *kept = Some(reason);
        }
        drop(kept);
        self.step.fetch_max(step as u8, Ordering::SeqCst);
        for (at, alarm) in [
            (Step::Draining, &self.intake),
            (Step::Finishing, &self.start),
            (Step::Terminating, &self.terminate),
            (Step::Killing, &self.kill),
        ] {
            if step >= at {
                alarm.ring();
            }
        }
        if step >= Step::Draining {
            self.intake_thread.interrupt();
        }
    }

    pub(super) fn reason(&self) -> Option<Reason> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Rings when no more input must be read.
    pub(super) fn intake_alarm(&self) -> &Alarm {
        &self.intake
    }

    /// Rings when no more jobs must be started.
    pub(super) fn start_alarm(&self) -> &Alarm {
        &self.start
    }

    /// Rings when running jobs must be terminated.
    pub(super) fn terminate_alarm(&self) -> &Alarm {
        &self.terminate
    }

    /// Rings when running jobs must be killed.
    pub(super) fn kill_alarm(&self) -> &Alarm {
        &self.kill
    }
}

/// Rings once and remains readable.
#[derive(Debug)]
pub(super) struct Alarm {
    reader: PipeReader,
    /// `None` after it has rung.
    writer: Mutex<Option<PipeWriter>>,
}

impl Alarm {
    fn new() -> io::Result<Alarm> {
        let (reader, writer) = io::pipe()?;
        Ok(Alarm { reader, writer: Mutex::new(Some(writer)) })
    }

    fn ring(&self) {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
