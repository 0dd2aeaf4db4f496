//! One job on a worker: its attempts, its outcome, its output.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use signal_hook::consts::SIGPIPE;

use super::engine::Order;
use super::halt::Halt;
use super::joblog::{self, Entry, OK};
use super::lines::LineBuffer;
use super::no_program;
use super::output::{Output, Spool};
use super::pace::{Pace, Place};
use super::printer::{self, Finished, Printer, Problem};
use super::process::{self, Collect, Ended, Outputs};
use super::slots::Slots;
use super::stop::{Reason, Step, Stop};
use super::tally::{Failure, Tally, status};
use super::template::{Arguments, Job, quote};

/// What all jobs of a run share.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) order: Order,
    pub(super) stop: Arc<Stop>,
    pub(super) printer: Printer,
    pub(super) slots: Slots,
    pub(super) pace: Arc<Pace>,
    pub(super) spool: Arc<Spool>,
    pub(super) tally: Tally,
    pub(super) has_log: bool,
}

/// Where the output of a job goes.
enum Sink<'a> {
    Kept(Outputs),
    Lines(LineBuffer<'a>),
    /// The job writes directly to stdout and stderr.
    Inherited,
}

impl Sink<'_> {
    fn collector(&mut self) -> Option<&mut dyn Collect> {
        match self {
            Sink::Kept(outputs) => Some(outputs),
            Sink::Lines(lines) => Some(lines),
            Sink::Inherited => None,
        }
    }

    /// Starts over for another attempt. Printed lines remain.
    fn restart(&mut self) {
        match self {
            Sink::Kept(outputs) => {
                outputs.stdout.clear();
                outputs.stderr.clear();
            }
            // If stdout is closed, the next attempt detects it.
            Sink::Lines(lines) => drop(lines.finish()),
            Sink::Inherited => {}
        }
    }

    fn finish(self) -> io::Result<Option<Outputs>> {
        match self {
            Sink::Kept(outputs) => Ok(Some(outputs)),
            Sink::Lines(mut lines) => lines.finish().map(|()| None),
            Sink::Inherited => Ok(None),
        }
    }
}

impl Run {
    /// Runs one job. It starts when its place comes up.
    pub(super) fn job(&self, number: u64, arguments: &Arguments, place: Option<Place>) {
        if self.must_not_start() {
            return self.not_run(number);
        }
        let slot = self.order.template.uses_slot().then(|| self.slots.take());
        let job = Job { arguments, number, slot: slot.unwrap_or(0) };
        self.run_in_slot(&job, place);
        if let Some(slot) = slot {
            self.slots.give_back(slot);
        }
    }

    fn run_in_slot(&self, job: &Job<'_>, place: Option<Place>) {
        let tag = self.order.tag.then(|| job.arguments.joined());
        let mut sink = self.sink(tag.as_deref());
        let (started, began) = (SystemTime::now(), Instant::now());
        let (ended, attempts) = self.attempts(job, place, &mut sink);
        let Some(outcome) = self.outcome(job, ended) else { return self.not_run(job.number) };
        let outputs = match sink.finish() {
            Ok(outputs) => outputs,
            Err(error) => return self.lose_output(job.number, &error),
        };
        let log_line = self.has_log.then(|| {
            let command = self.order.template.show(job);
            let took = began.elapsed();
            Entry { number: job.number, started, took, attempts, outcome: &outcome, command: &command }
                .to_line()
        });
        self.print(job.number, Finished { outputs, tag, log_line });
        self.count(job, outcome, attempts);
    }

    fn sink<'a>(&'a self, tag: Option<&'a [u8]>) -> Sink<'a> {
        match (self.order.ungroup, self.order.line_buffer) {
            (true, _) => Sink::Inherited,
            (false, true) => Sink::Lines(LineBuffer::new(&self.printer, tag)),
            (false, false) => {
                Sink::Kept(Outputs { stdout: Output::new(&self.spool), stderr: Output::new(&self.spool) })
            }
        }
    }

    fn must_not_start(&self) -> bool {
        self.stop.step() >= Step::Finishing || self.has_lost_reader()
    }

    /// With `--ungroup` this process writes nothing, so it must check whether stdout is still read.
    /// Otherwise a run with endless input would never end.
    fn has_lost_reader(&self) -> bool {
        let gone = self.order.ungroup && printer::reader_is_gone();
        if gone {
            self.advance(Step::Finishing, Reason::ReaderGone);
        }
        gone
    }

    /// Runs the command until it succeeds, or until its attempts are used up.
    fn attempts(&self, job: &Job<'_>, mut place: Option<Place>, sink: &mut Sink<'_>) -> (Ended, u32) {
        let words: Vec<OsString> = self.order.template.expand(job);
        let allowed = self.order.attempts.unwrap_or(1);
        let mut attempts = 0;
        loop {
            let Some(turn) = self.pace.turn(place.as_ref(), &self.stop) else {
                return (Ended::Interrupted, attempts);
            };
            if self.order.verbose {
                self.printer.progress().line(&self.order.template.show(job));
            }
            attempts += 1;
            let pass_on = || drop((turn, place.take()));
            let ended = process::run(&words, self.order.limits, &self.stop, sink.collector(), pass_on);
            if self.is_final(&ended) || attempts >= allowed || self.must_not_start() {
                self.explain_start_failure(job.number, &words[0], &ended);
                return (ended, attempts);
            }
            sink.restart();
        }
    }

    /// Whether another attempt could not change the outcome.
    fn is_final(&self, ended: &Ended) -> bool {
        matches!(ended, Ended::Exit(0) | Ended::Interrupted | Ended::NeedsTerminal | Ended::OutputLost(_))
            || self.is_hopeless(ended)
    }

    /// Whether the program cannot be started, for any job.
    fn is_hopeless(&self, ended: &Ended) -> bool {
        let Ended::NotStarted(error) = ended else { return false };
        self.order.template.program_is_fixed && no_program::is_permanent(error)
    }

    fn explain_start_failure(&self, number: u64, program: &OsString, ended: &Ended) {
        let Ended::NotStarted(error) = ended else { return };
        if self.is_hopeless(ended) {
            let (message, status) = no_program::explain(program, error);
            self.advance(Step::Finishing, Reason::Trouble { message, status });
        } else {
            self.printer.progress().note(&no_program::explain_one(number, program, error));
        }
    }

    /// The outcome for the log. None: the job does not count as finished.
    fn outcome(&self, job: &Job<'_>, ended: Ended) -> Option<String> {
        match ended {
            Ended::Exit(0) => Some(OK.to_owned()),
            Ended::Exit(code) => Some(format!("exit {code}")),
            // Not a failure: the reader closed the output.
            Ended::Signal(SIGPIPE) if self.has_lost_reader() => None,
            Ended::Signal(signal) => Some(format!("signal {signal}")),
            Ended::TimedOut => Some("timeout".to_owned()),
            Ended::NeedsTerminal => {
                let line = format!("job {} waits for the terminal, which jobs do not have", job.number);
                self.printer.progress().note(&line);
                Some("needs a terminal".to_owned())
            }
            Ended::Interrupted => None,
            Ended::NotStarted(_) if self.is_hopeless(&ended) => None,
            Ended::NotStarted(_) => Some("not started".to_owned()),
            Ended::OutputLost(error) => {
                self.stop_for_output(&error);
                None
            }
        }
    }

    fn lose_output(&self, number: u64, error: &io::Error) {
        self.stop_for_output(error);
        self.not_run(number);
    }

    /// Ends the run because output cannot be stored or printed.
    #[cold]
    fn stop_for_output(&self, error: &io::Error) {
        let reason = match error.kind() {
            ErrorKind::BrokenPipe => Reason::ReaderGone,
            _ if self.order.line_buffer => {
                Reason::Trouble { message: printer::stdout_message(error), status: status::TROUBLE }
            }
            _ => Reason::Trouble { message: printer::spool_message(error), status: status::TROUBLE },
        };
        self.advance(Step::Finishing, reason);
    }

    /// Counts a finished job, and ends the run if `--halt` says so.
    fn count(&self, job: &Job<'_>, mut outcome: String, attempts: u32) {
        let failure = (outcome != OK).then(|| {
            if let Some(allowed) = self.order.attempts {
                outcome = format!("{outcome}, {attempts} of {allowed} attempts");
            }
            let names: Vec<Vec<u8>> = job.arguments.iter().map(quote).collect();
            let name = joblog::escape(&names.join(&b' '));
            Failure { number: job.number, name, outcome }
        });
        let (finished, failed) = self.tally.finished(failure);
        self.printer.progress().job_ended(failed);
        let step = match self.order.halt {
            Halt::Soon(failures) if failures.reached(failed, finished) => Step::Finishing,
            Halt::Now(failures) if failures.reached(failed, finished) => Step::Terminating,
            _ => return,
        };
        self.advance(step, Reason::Halt);
    }

    pub(super) fn not_run(&self, number: u64) {
        self.tally.not_run();
        self.print(number, Finished::default());
    }

    pub(super) fn print(&self, number: u64, finished: Finished) {
        match self.printer.print(number, finished) {
            Ok(()) => {}
            Err(Problem::ReaderGone) => self.advance(Step::Finishing, Reason::ReaderGone),
            Err(Problem::Message(message)) => {
                self.advance(Step::Finishing, Reason::Trouble { message, status: status::TROUBLE });
            }
        }
    }

    pub(super) fn advance(&self, step: Step, reason: Reason) {
        self.stop.advance(step, reason);
        self.printer.close();
    }
}
