//! Puts jobs through a pool: the intake on the calling thread, a job on a worker.
//!
//! The queue is bounded and its policy is to wait: a full pool holds the intake up, the intake does not read on, and so whoever
//! writes our input is held up as well.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use millpond::{RejectReason, ThreadPoolExecutor, WorkQueue, interrupt, policy};
use signal_hook::consts::SIGPIPE;

use super::halt::Halt;
use super::input::{Input, Next};
use super::joblog::{Entry, JobLog, Known, OK, Past};
use super::no_program;
use super::output::{Output, Spool};
use super::printer::{self, Finished, Printer, Problem};
use super::process::{self, Ended, Limits, Outputs};
use super::progress::Progress;
use super::signals::Listener;
use super::stop::{Reason, Step, Stop};
use super::tally::{Tally, status};
use super::template::{Job, Template};
use crate::error::{Error, Outcome};
use crate::term;

/// After the third Ctrl-C, how long we wait for what cannot be hurried: a reader of our output that does not read.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// What is to be done, and how.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) template: Template,
    pub(super) size: PoolSize,
    pub(super) limits: Limits,
    pub(super) retries: u32,
    pub(super) halt: Halt,
    pub(super) keep_order: bool,
    pub(super) ungroup: bool,
    pub(super) progress: bool,
    pub(super) resume_failed: bool,
}

/// The pool that is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolSize {
    pub(super) core: usize,
    pub(super) max: usize,
    /// 0: a job waits at the door, not in a queue.
    pub(super) queue: usize,
    pub(super) eager: bool,
}

impl PoolSize {
    fn build(self) -> Result<ThreadPoolExecutor, Error> {
        let queue = match self.queue {
            0 => WorkQueue::synchronous(),
            length => WorkQueue::linked_bounded(length),
        };
        let builder = ThreadPoolExecutor::builder()
            .core_pool_size(self.core)
            .maximum_pool_size(self.max)
            .work_queue(queue)
            .rejected_execution_handler(policy::Block::forever())
            .thread_name_prefix("job-");
        let builder = if self.eager { builder.eager() } else { builder };
        Ok(builder.build()?)
    }
}

/// Prints the commands.
pub(super) fn dry_run(template: &Template, mut input: Input) -> Result<Outcome, Error> {
    let stop = Stop::new().map_err(no_pipes)?;
    let mut number = 0;
    while let Next::Argument(argument) = input.next(stop.intake_alarm()).map_err(Error::new)? {
        number += 1;
        let command = template.show(&Job { argument: &argument, number, slot: 0 });
        term::print_bytes(&[&command, b"\n".as_slice()].concat())?;
    }
    Ok(Outcome::Yes)
}

/// Runs a job for each argument of `input`.
pub(super) fn run(order: Order, input: Input, log: Option<JobLog>, past: Past) -> Result<Outcome, Error> {
    let logs = log.is_some();
    let progress = Progress::begin(order.progress);
    let run = Arc::new(Run {
        stop: Arc::new(Stop::new().map_err(no_pipes)?),
        printer: Printer::new(order.keep_order, log, progress).map_err(no_pipes)?,
        slots: Slots::default(),
        spool: Arc::new(Spool::default()),
        tally: Tally::default(),
        logs,
        order,
    });
    let pool = run.order.size.build()?;
    let listener = {
        let (run, pool) = (Arc::clone(&run), pool.clone());
        Listener::start(Arc::clone(&run.stop), move |step| run.told_to_stop(step, &pool)).map_err(no_pipes)?
    };
    let all_taken = run.take_in(input, &past, &pool);
    pool.shutdown();
    run.wait_for(&pool);
    drop(listener);
    run.printer.progress().end();
    for line in run.tally.summary(run.stop.reason().as_ref(), all_taken, run.logs) {
        run.printer.progress().note(&line);
    }
    Ok(Outcome::Status(status(run.stop.reason(), all_taken, &run.tally)))
}

fn no_pipes(error: std::io::Error) -> Error {
    Error::new(format_args!("cannot begin: {error}"))
}

/// What all jobs of a run share.
#[derive(Debug)]
struct Run {
    order: Order,
    stop: Arc<Stop>,
    printer: Printer,
    slots: Slots,
    spool: Arc<Spool>,
    tally: Tally,
    /// There is a job log.
    logs: bool,
}

impl Run {
    /// Takes arguments until there are no more, or until it is told to stop. Tells whether all were taken.
    fn take_in(self: &Arc<Self>, mut input: Input, past: &Past, pool: &ThreadPoolExecutor) -> bool {
        if let (true, Some(total)) = (past.is_empty(), input.total()) {
            self.printer.progress().set_total(total);
        }
        let mut number = 0;
        let mut taken = 0;
        loop {
            self.printer.wait_for_window(number + 1);
            if self.stop.step() > Step::Going {
                return false;
            }
            let argument = match input.next(self.stop.intake_alarm()) {
                Ok(Next::Argument(argument)) => argument,
                Ok(Next::Stopped) => return false,
                Ok(Next::End) => break,
                Err(message) => {
                    self.advance(Step::Draining, Reason::Trouble { message, status: status::TROUBLE });
                    return false;
                }
            };
            number += 1;
            if self.was_done(number, &argument, past) {
                self.print(number, Finished::default());
                continue;
            }
            taken += 1;
            self.submit(number, argument, pool);
        }
        self.printer.progress().set_total(taken);
        true
    }

    /// Waits for room.
    fn submit(self: &Arc<Self>, number: u64, argument: Vec<u8>, pool: &ThreadPoolExecutor) {
        let run = Arc::clone(self);
        let Err(rejected) = pool.execute(move || run.job(number, &argument)) else { return };
        if rejected.reason() != RejectReason::Interrupted {
            let message = format!("cannot start a thread for a job: {rejected}; lower --max");
            self.advance(Step::Finishing, Reason::Trouble { message, status: status::TROUBLE });
        }
        self.never_run(number);
    }

    /// Whether an earlier run has done this job.
    fn was_done(&self, number: u64, argument: &[u8], past: &Past) -> bool {
        if past.is_empty() {
            return false;
        }
        let command = self.order.template.show(&Job { argument, number, slot: 0 });
        match past.knows(number, &command) {
            Known::Succeeded => true,
            Known::Failed => !self.order.resume_failed,
            Known::Different => {
                self.tally.different();
                false
            }
            Known::Unknown => false,
        }
    }

    /// Does one job, on a worker.
    fn job(&self, number: u64, argument: &[u8]) {
        if self.stop.step() >= Step::Finishing || self.has_lost_its_reader() {
            return self.never_run(number);
        }
        let slot = self.order.template.uses_slot().then(|| self.slots.take());
        let job = Job { argument, number, slot: slot.unwrap_or(0) };
        let mut outputs = (!self.order.ungroup)
            .then(|| Outputs { stdout: Output::new(&self.spool), stderr: Output::new(&self.spool) });
        let (started, began) = (SystemTime::now(), Instant::now());
        let (ended, attempts) = self.attempts(&job, &mut outputs);
        if let Some(slot) = slot {
            self.slots.give_back(slot);
        }
        let Some(verdict) = self.judge(number, ended) else { return self.never_run(number) };
        let log_line = self.logs.then(|| {
            let command = self.order.template.show(&job);
            let took = began.elapsed();
            Entry { number, started, took, attempts, outcome: &verdict, command: &command }.to_line()
        });
        self.print(number, Finished { outputs, log_line });
        self.count(number, &verdict);
    }

    /// Where jobs write straight to our stdout, no write of ours would tell; without this, endless input would go on for ever.
    fn has_lost_its_reader(&self) -> bool {
        let gone = self.order.ungroup && printer::reader_is_gone();
        if gone {
            self.advance(Step::Finishing, Reason::ReaderGone);
        }
        gone
    }

    /// Runs the command until it succeeds, as often as it may.
    fn attempts(&self, job: &Job<'_>, outputs: &mut Option<Outputs>) -> (Ended, u32) {
        let words: Vec<OsString> = self.order.template.expand(job);
        let mut attempts = 1;
        loop {
            let ended = process::run(&words, self.order.limits, &self.stop, outputs.as_mut());
            let fate = matches!(&ended, Ended::Exit(0) | Ended::Interrupted | Ended::OutputLost(_))
                || self.is_hopeless(&ended);
            let in_vain = || self.stop.step() >= Step::Finishing || self.has_lost_its_reader();
            if fate || attempts > self.order.retries || in_vain() {
                if let (true, Ended::NotStarted(error)) = (self.is_hopeless(&ended), &ended) {
                    self.cannot_be_run(&words[0], error);
                }
                return (ended, attempts);
            }
            attempts += 1;
            if let Some(outputs) = outputs {
                outputs.stdout.clear();
                outputs.stderr.clear();
            }
        }
    }

    /// The program is not there, or none that can run, and it is the same for every job.
    fn is_hopeless(&self, ended: &Ended) -> bool {
        let Ended::NotStarted(error) = ended else { return false };
        self.order.template.program_is_fixed && no_program::is_so(error)
    }

    #[cold]
    fn cannot_be_run(&self, program: &OsString, error: &std::io::Error) {
        let (message, status) = no_program::told(program, error);
        self.advance(Step::Finishing, Reason::Trouble { message, status });
    }

    /// What the log says about a job that ended so. None: it does not count as having been run.
    fn judge(&self, number: u64, ended: Ended) -> Option<String> {
        match ended {
            Ended::Exit(0) => Some(OK.to_owned()),
            Ended::Exit(code) => Some(format!("exit {code}")),
            // It has not failed: what it had to say was not wanted any more.
            Ended::Signal(SIGPIPE) if self.has_lost_its_reader() => None,
            Ended::Signal(signal) => Some(format!("signal {signal}")),
            Ended::TimedOut => Some("timeout".to_owned()),
            Ended::Interrupted => None,
            Ended::NotStarted(_) if self.is_hopeless(&ended) => None,
            Ended::NotStarted(error) => {
                self.printer.progress().note(&format!("job {number} cannot be started: {error}"));
                Some("not started".to_owned())
            }
            Ended::OutputLost(error) => {
                let message = printer::spool_message(&error);
                self.advance(Step::Finishing, Reason::Trouble { message, status: status::TROUBLE });
                None
            }
        }
    }

    /// Counts a job that was run, and ends the run if that was one failure too many.
    fn count(&self, number: u64, verdict: &str) {
        let (finished, failed) = self.tally.finished(number, (verdict != OK).then_some(verdict));
        self.printer.progress().job_ended(failed);
        let step = match self.order.halt {
            Halt::Soon(failures) if failures.reached(failed, finished) => Step::Finishing,
            Halt::Now(failures) if failures.reached(failed, finished) => Step::Terminating,
            _ => return,
        };
        self.advance(step, Reason::Halt);
    }

    fn never_run(&self, number: u64) {
        self.tally.never_run();
        self.print(number, Finished::default());
    }

    fn print(&self, number: u64, finished: Finished) {
        match self.printer.print(number, finished) {
            Ok(()) => {}
            Err(Problem::ReaderGone) => self.advance(Step::Finishing, Reason::ReaderGone),
            Err(Problem::Message(message)) => {
                self.advance(Step::Finishing, Reason::Trouble { message, status: status::TROUBLE });
            }
        }
    }

    fn advance(&self, step: Step, reason: Reason) {
        self.stop.advance(step, reason);
        self.printer.close();
    }

    /// A signal has arrived.
    fn told_to_stop(&self, step: Step, pool: &ThreadPoolExecutor) {
        self.printer.close();
        let line = match step {
            Step::Going | Step::Finishing => return,
            Step::Draining => format!(
                "reading no more; {} running and {} waiting jobs are finished first; Ctrl-C again ends them",
                pool.active_count(),
                pool.queued_count()
            ),
            Step::Terminating => "ending the jobs; Ctrl-C again kills them".to_owned(),
            Step::Killing => "killing the jobs".to_owned(),
        };
        self.printer.progress().note(&line);
    }

    fn wait_for(&self, pool: &ThreadPoolExecutor) {
        loop {
            let patience = if self.stop.step() == Step::Killing { LAST_WAIT } else { Duration::MAX };
            // Interrupted: there is news, and perhaps less patience.
            if pool.await_termination(patience).is_ok() {
                return;
            }
            interrupt::interrupted();
        }
    }
}

/// The numbers that `{%}` stands for.
#[derive(Debug, Default)]
struct Slots {
    state: Mutex<FreeSlots>,
}

#[derive(Debug, Default)]
struct FreeSlots {
    free: BinaryHeap<Reverse<usize>>,
    /// How many were ever needed at a time.
    count: usize,
}

impl Slots {
    /// The smallest that nobody has.
    fn take(&self) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Reverse(slot)) = state.free.pop() {
            return slot;
        }
        state.count += 1;
        state.count
    }

    fn give_back(&self, slot: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).free.push(Reverse(slot));
    }
}
