//! How a run ends before its time: in steps, each of which only goes further than the one before.
//!
//! Whoever sleeps in the operating system (the intake at its input, a worker beside its child) sleeps at an [`Alarm`] too: a
//! pipe whose writing end is closed. That wakes any number of sleepers, stays so for those who come later, and needs no
//! turn of a clock.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use millpond::interrupt::Interrupter;

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Step {
    /// All is well.
    Going,
    /// No more input is taken; what was taken is run.
    Draining,
    /// No job is started any more; those that run may end.
    Finishing,
    /// Jobs that run are terminated, and killed after the grace.
    Terminating,
    /// Jobs that run are killed.
    Killing,
}

const STEPS: [Step; 5] = [Step::Going, Step::Draining, Step::Finishing, Step::Terminating, Step::Killing];

/// Why a run ends before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    Signal(i32),
    /// A `--halt` rule.
    Halt,
    /// Nobody reads our output any more.
    ReaderGone,
    /// It cannot go on: the message, and the exit status that tells.
    Trouble {
        message: String,
        status: u8,
    },
}

impl Reason {
    /// If there are several reasons, the greatest decides how the run is said to have ended.
    fn rank(&self) -> u8 {
        match self {
            Reason::ReaderGone => 0,
            Reason::Halt => 1,
            Reason::Signal(_) => 2,
            Reason::Trouble { .. } => 3,
        }
    }
}

/// The brake of one run.
#[derive(Debug)]
pub(super) struct Stop {
    /// A [`Step`]; it only grows.
    step: AtomicU8,
    reason: Mutex<Option<Reason>>,
    /// The thread that takes the input: it may wait for room in the pool.
    intake_thread: Interrupter,
    intake: Alarm,
    terminate: Alarm,
    kill: Alarm,
}

impl Stop {
    /// To be called by the thread that will take the input.
    pub(super) fn new() -> io::Result<Stop> {
        Ok(Stop {
            step: AtomicU8::new(Step::Going as u8),
            reason: Mutex::new(None),
            intake_thread: millpond::interrupt::current(),
            intake: Alarm::new()?,
            terminate: Alarm::new()?,
            kill: Alarm::new()?,
        })
    }

    pub(super) fn step(&self) -> Step {
        // SeqCst: rare, and then nobody has to think.
        STEPS[usize::from(self.step.load(Ordering::SeqCst))]
    }

    /// Goes to `step`, unless it has gone further already.
    pub(super) fn advance(&self, step: Step, reason: Reason) {
        let mut kept = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.rank() < reason.rank()) {
            *kept = Some(reason);
        }
        drop(kept);
        self.step.fetch_max(step as u8, Ordering::SeqCst);
        if step >= Step::Draining {
            self.intake.ring();
            self.intake_thread.interrupt();
        }
        if step >= Step::Terminating {
            self.terminate.ring();
        }
        if step >= Step::Killing {
            self.kill.ring();
        }
    }

    pub(super) fn reason(&self) -> Option<Reason> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Rings when no more input is to be taken.
    pub(super) fn intake_alarm(&self) -> &Alarm {
        &self.intake
    }

    /// Rings when jobs that run are to be terminated.
    pub(super) fn terminate_alarm(&self) -> &Alarm {
        &self.terminate
    }

    /// Rings when jobs that run are to be killed.
    pub(super) fn kill_alarm(&self) -> &Alarm {
        &self.kill
    }
}

/// Rings once, for everybody and for ever: from then on it is readable.
#[derive(Debug)]
pub(super) struct Alarm {
    reader: PipeReader,
    /// None: it has rung.
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
