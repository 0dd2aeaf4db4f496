//! Runs jobs through a pool: the intake on the calling thread, each job on a worker.
//!
//! The queue is bounded, and a submission to a full pool blocks. So the intake stops reading, which
//! also slows down the process that writes the input.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond::{RejectReason, ThreadPoolExecutor, WorkQueue, interrupt, policy};

use super::halt::Halt;
use super::input::{Input, Next};
use super::job::Run;
use super::joblog::JobLog;
use super::output::Spool;
use super::pace::Pace;
use super::past::Past;
use super::printer::{Finished, Printer};
use super::process::Limits;
use super::progress::Progress;
use super::signals::{Heard, Listener};
use super::slots::Slots;
use super::stop::{Reason, Step, Stop};
use super::tally::{Tally, status};
use super::template::{Arguments, Job, Template};
use crate::error::{Error, Outcome};
use crate::{term, units};

/// After the third Ctrl-C, how long to wait for a reader of stdout that does not read.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// The command and its settings.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) template: Template,
    pub(super) size: PoolSize,
    pub(super) limits: Limits,
    pub(super) delay: Option<Duration>,
    /// `None`: one, because the user did not set it.
    pub(super) attempts: Option<u32>,
    pub(super) halt: Halt,
    pub(super) keep_order: bool,
    pub(super) ungroup: bool,
    pub(super) line_buffer: bool,
    pub(super) tag: bool,
    pub(super) verbose: bool,
    pub(super) progress: bool,
    pub(super) resume_failed: bool,
}

/// The size of the pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolSize {
    pub(super) core: usize,
    pub(super) max: usize,
    /// 0: jobs are handed over to workers directly.
    pub(super) queue: usize,
    pub(super) eager: bool,
}

impl PoolSize {
    /// Whether jobs are handed to workers in order.
    fn is_fixed(self) -> bool {
        self.core == self.max
    }

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
    let stop = Stop::new().map_err(cannot_begin)?;
    let mut number = 0;
    while let Next::Some(arguments) = input.next(stop.intake_alarm()).map_err(Error::new)? {
        number += 1;
        let command = template.show(&Job { arguments: &arguments, number, slot: 0 });
        term::print_bytes(&[&command, b"\n".as_slice()].concat())?;
    }
    Ok(Outcome::Yes)
}

/// Runs a job for each element of `input`.
pub(super) fn run(order: Order, input: Input, log: Option<JobLog>, past: Past) -> Result<Outcome, Error> {
    let has_log = log.is_some();
    let progress = Progress::begin(order.progress);
    let run = Arc::new(Run {
        stop: Arc::new(Stop::new().map_err(cannot_begin)?),
        printer: Printer::new(order.keep_order, log, progress).map_err(cannot_begin)?,
        slots: Slots::default(),
        pace: Pace::new(order.delay, order.size.is_fixed()),
        spool: Arc::new(Spool::default()),
        tally: Tally::default(),
        has_log,
        order,
    });
    let pool = run.order.size.build()?;
    let listener = listen(&run, &pool)?;
    let mut intake = Intake { run: Arc::clone(&run), pool: pool.clone(), past, number: 0, taken: 0 };
    let all_read = intake.read_all(input);
    pool.shutdown();
    wait_for(&pool, &run.stop);
    drop(listener);
    run.printer.progress().end();
    if all_read && intake.past.matched_nothing() {
        run.printer.progress().note("the job log has other commands than this run; nothing was skipped");
    }
    for line in run.tally.summary(run.stop.reason().as_ref(), all_read, run.has_log) {
        run.printer.progress().note(&line);
    }
    Ok(Outcome::Status(status(run.stop.reason(), &run.tally)))
}

fn cannot_begin(error: std::io::Error) -> Error {
    Error::new(format_args!("cannot begin: {error}"))
}

fn listen(run: &Arc<Run>, pool: &ThreadPoolExecutor) -> Result<Listener, Error> {
    let (run, pool, begin) = (Arc::clone(run), pool.clone(), Instant::now());
    let stop = Arc::clone(&run.stop);
    let tell = move |heard| {
        if heard != Heard::Report {
            run.printer.close();
        }
        if let Some(line) = signal_line(heard, &run, &pool, begin) {
            run.printer.progress().note(&line);
        }
    };
    Listener::start(stop, tell).map_err(cannot_begin)
}

/// The message that answers a signal.
fn signal_line(heard: Heard, run: &Run, pool: &ThreadPoolExecutor, begin: Instant) -> Option<String> {
    let running = pool.active_count();
    Some(match heard {
        Heard::Stop(Step::Going | Step::Draining) => return None,
        Heard::Stop(Step::Finishing) => {
            format!("starting no more jobs; waiting for {running} running; Ctrl-C again ends them")
        }
        Heard::Stop(Step::Terminating) => "ending the jobs; Ctrl-C again kills them".to_owned(),
        Heard::Stop(Step::Killing) => "killing the jobs".to_owned(),
        Heard::Report => {
            let (finished, failed) = run.tally.so_far();
            let (waiting, elapsed) = (pool.queued_count(), units::show(begin.elapsed()));
            format!(
                "{finished} finished, {failed} failed, {running} running, {waiting} waiting, after {elapsed}"
            )
        }
    })
}

fn wait_for(pool: &ThreadPoolExecutor, stop: &Stop) {
    loop {
        let patience = if stop.step() == Step::Killing { LAST_WAIT } else { Duration::MAX };
        // An interrupt may mean that the stop has reached another step, which changes the timeout.
        if pool.await_termination(patience).is_ok() {
            return;
        }
        interrupt::interrupted();
    }
}

/// Reads the input and submits jobs, on one thread.
struct Intake {
    run: Arc<Run>,
    pool: ThreadPoolExecutor,
    past: Past,
    /// Number of the last job that was read.
    number: u64,
    /// Jobs submitted.
    taken: u64,
}

impl Intake {
    /// Reads until the end of the input, or until the run stops. Returns true at the end.
    fn read_all(&mut self, mut input: Input) -> bool {
        if let (true, Some(total)) = (self.past.is_empty(), input.total()) {
            self.run.printer.progress().set_total(total);
        }
        loop {
            match self.read_one(&mut input) {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(all_read) => {
                    if all_read {
                        self.run.printer.progress().set_total(self.taken);
                    }
                    return all_read;
                }
            }
        }
    }

    fn read_one(&mut self, input: &mut Input) -> ControlFlow<bool> {
        self.run.printer.wait_for_window(self.number + 1);
        if self.run.stop.step() > Step::Going {
            return ControlFlow::Break(false);
        }
        match input.next(self.run.stop.intake_alarm()) {
            Ok(Next::Some(arguments)) => {
                self.number += 1;
                self.submit_unless_done(arguments);
                ControlFlow::Continue(())
            }
            Ok(Next::Stopped) => ControlFlow::Break(false),
            Ok(Next::End) => ControlFlow::Break(true),
            Err(message) => {
                self.run.advance(Step::Draining, Reason::Trouble { message, status: status::TROUBLE });
                ControlFlow::Break(false)
            }
        }
    }

    fn submit_unless_done(&mut self, arguments: Arguments) {
        if self.was_done(&arguments) {
            return self.run.print(self.number, Finished::default());
        }
        self.taken += 1;
        self.submit(arguments);
    }

    /// Whether an earlier run has done this job.
    fn was_done(&mut self, arguments: &Arguments) -> bool {
        if self.past.is_empty() {
            return false;
        }
        let job = Job { arguments, number: self.number, slot: 0 };
        self.past.take(&self.run.order.template.show(&job), self.run.order.resume_failed)
    }

    /// Blocks until the pool has room.
    fn submit(&mut self, arguments: Arguments) {
        let (run, number, place) = (Arc::clone(&self.run), self.number, self.run.pace.place());
        let Err(rejected) = self.pool.execute(move || run.job(number, &arguments, place)) else { return };
        if rejected.reason() != RejectReason::Interrupted {
            let message = format!("cannot start a thread for a job: {rejected}; lower --max");
            self.run.advance(Step::Finishing, Reason::Trouble { message, status: status::TROUBLE });
        }
        self.run.not_run(number);
    }
}
