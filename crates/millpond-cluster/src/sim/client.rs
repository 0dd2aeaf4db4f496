//! Workers of the simulation: the real ledger, driven by events instead of threads.

use std::time::Duration;

use super::Mutant;
use super::world::{Call, Event, LEASE, POLL, QUEUE, Reply, TICK, World};
use crate::engine::{Claimed, Fence, Report, Retry, Verdict};
use crate::id::WorkerId;
use crate::worker::ledger::{Begin, Ledger};

/// A worker process. After a crash it restarts with a new identity.
pub(super) struct SimWorker {
    pub(super) id: WorkerId,
    pub(super) incarnation: u32,
    pub(super) ledger: Ledger,
    pub(super) is_alive: bool,
    stalled_until: u64,
    /// Reports that were not sent, and those that were sent without an answer.
    reports: Vec<Report>,
    began: u64,
}

impl SimWorker {
    pub(super) fn new(number: usize, incarnation: u32) -> SimWorker {
        let id = WorkerId::from_name(&format!("w{number}-{incarnation}"));
        let mut ledger = Ledger::new(id.clone(), QUEUE, Duration::from_millis(LEASE), 2);
        // Fewer threads than claims, so that some tasks wait and a drain has something to give
        // back.
        ledger.set_threads(3);
        SimWorker {
            id,
            incarnation,
            ledger,
            is_alive: false,
            stalled_until: 0,
            reports: Vec::new(),
            began: 0,
        }
    }
}

impl World {
    fn local_time(&self, worker: usize) -> Duration {
        Duration::from_millis(self.now - self.workers[worker].began)
    }

    /// Returns true if a worker is alive and would take another task.
    pub(super) fn has_room(&self, number: usize) -> bool {
        let worker = &self.workers[number];
        let is_running = worker.is_alive && worker.stalled_until <= self.now;
        is_running && worker.ledger.ask(self.local_time(number)).is_some()
    }

    /// Handles events of workers. A dead worker ignores them; a stalled one handles them later.
    pub(super) fn worker_event(&mut self, event: Event) -> Result<(), String> {
        let number = match event {
            Event::Start(number) => return self.start(number),
            Event::Feed(number)
            | Event::Begin(number, ..)
            | Event::Finish(number, ..)
            | Event::Report(number)
            | Event::Renew(number)
            | Event::Tick(number)
            | Event::Crash(number)
            | Event::Stall(number)
            | Event::Drain(number) => number,
            _ => unreachable!("not an event of a worker"),
        };
        let worker = &mut self.workers[number];
        if !worker.is_alive {
            return Ok(());
        }
        if worker.stalled_until > self.now {
            // After the stall all postponed events happen at once, in their order.
            let wait = worker.stalled_until - self.now;
            self.after(wait, event);
            return Ok(());
        }
        match event {
            Event::Crash(_) => {
                self.fault();
                self.workers[number].is_alive = false;
                let wait = 500 + self.random.below(4000);
                self.after(wait, Event::Start(number));
            }
            Event::Stall(_) => {
                self.fault();
                self.workers[number].stalled_until = self.now + LEASE / 2 + self.random.below(2 * LEASE);
                self.last_fault = self.workers[number].stalled_until;
            }
            Event::Drain(_) => self.drain(number),
            Event::Feed(_) => self.feed(number)?,
            Event::Begin(_, incarnation, fence, is_new) => self.begin(number, incarnation, fence, is_new),
            Event::Finish(_, incarnation, fence, is_ok) => self.finish(number, incarnation, fence, is_ok),
            Event::Report(_) => self.report(number)?,
            Event::Renew(_) => self.renew_leases(number)?,
            Event::Tick(_) => {
                // The next tick comes even if this one is lost.
                let reply = self.call(Call::Tick)?;
                let is_full = matches!(reply, Some(Reply::Ticked(tick)) if tick.is_full);
                let period = if self.mutant == Mutant::SlowTick { 10 * TICK } else { TICK };
                self.after(if is_full { 1 } else { period }, Event::Tick(number));
            }
            _ => unreachable!("handled above"),
        }
        Ok(())
    }

    fn start(&mut self, number: usize) -> Result<(), String> {
        let incarnation = self.workers[number].incarnation + 1;
        let mut worker = SimWorker::new(number, incarnation);
        worker.is_alive = true;
        worker.began = self.now;
        self.workers[number] = worker;
        let jitter = self.random.below(200);
        self.after(1, Event::Feed(number));
        self.after(200 + jitter, Event::Renew(number));
        self.after(500 + jitter, Event::Tick(number));
        Ok(())
    }

    fn drain(&mut self, number: usize) {
        let fences = self.workers[number].ledger.drain();
        let give_back = |fence| Report { fence, verdict: Verdict::GivenBack };
        fences.into_iter().for_each(|fence| self.push(number, give_back(fence)));
        // It still reports, and restarts a little later.
        let wait = 2000 + self.random.below(3000);
        self.after(wait, Event::Crash(number));
    }

    /// The feeder. Hints never arrive: only the safety poll finds tasks.
    fn feed(&mut self, number: usize) -> Result<(), String> {
        let now = self.local_time(number);
        if let Some(ask) = self.workers[number].ledger.ask(now) {
            let reply = self.call(Call::Claim(ask))?;
            if let Some(Reply::Claimed(tasks)) = reply {
                self.dispatch(number, &tasks, now);
            }
        }
        if self.mutant != Mutant::NoSafetyPoll || !self.is_quiet() {
            self.after(POLL, Event::Feed(number));
        }
        Ok(())
    }

    fn dispatch(&mut self, number: usize, tasks: &[Claimed], asked: Duration) {
        let now = self.local_time(number);
        let incarnation = self.workers[number].incarnation;
        self.workers[number].ledger.claimed(tasks, asked, now);
        for task in tasks {
            let fence = task.fence;
            let is_new = task.args[0] >= 10;
            if !is_new && self.random.chance(10) {
                // The pool refuses the task.
                if self.workers[number].ledger.skip(fence) {
                    self.push(number, Report { fence, verdict: Verdict::GivenBack });
                }
                continue;
            }
            // Some wait in the pool's queue first, where a drain finds them.
            let wait = if !is_new && self.random.chance(30) { self.random.below(LEASE) } else { 0 };
            self.after(wait, Event::Begin(number, incarnation, fence, is_new));
        }
    }

    fn begin(&mut self, number: usize, incarnation: u32, fence: Fence, is_new: bool) {
        let now = self.local_time(number);
        let worker = &mut self.workers[number];
        if worker.incarnation != incarnation {
            return;
        }
        match worker.ledger.begin(fence, None, None, now) {
            Begin::Run => {}
            Begin::Lost => return,
            Begin::Cancelled => return self.push(number, Report { fence, verdict: Verdict::Cancelled }),
        }
        let time = if is_new { 2 * LEASE + 500 } else { self.random.below(LEASE * 3 / 2) };
        let is_ok = is_new || self.random.chance(75);
        if self.mutant == Mutant::AckBeforeRun {
            let verdict = Verdict::Succeeded(vec![1]);
            self.push(number, Report { fence, verdict });
        }
        self.after(time, Event::Finish(number, incarnation, fence, is_ok));
    }

    fn finish(&mut self, number: usize, incarnation: u32, fence: Fence, is_ok: bool) {
        let now = self.local_time(number);
        let worker = &mut self.workers[number];
        if worker.incarnation != incarnation {
            return; // the process has died
        }
        if is_ok {
            self.completed.insert((worker.id.clone(), fence.id, fence.attempt));
        }
        let Some(finished) = worker.ledger.finish(fence, now) else { return };
        let wait = Duration::from_millis(self.random.below(3000));
        let result = vec![fence.attempt as u8, number as u8];
        let verdict = match is_ok {
            true => Verdict::Succeeded(result),
            false if finished.is_cancelled => Verdict::Cancelled,
            false => Verdict::Failed { error: "no luck".to_owned(), retry: Retry::After(wait) },
        };
        self.push(number, Report { fence, verdict });
    }

    /// Queues a report. The reporter settles the batch a little later.
    fn push(&mut self, number: usize, report: Report) {
        if self.workers[number].reports.is_empty() {
            self.after(50, Event::Report(number));
        }
        self.workers[number].reports.push(report);
    }

    fn report(&mut self, number: usize) -> Result<(), String> {
        let worker = &mut self.workers[number];
        let ledger = &worker.ledger;
        worker.reports.retain(|report| ledger.holds(report.fence));
        let (id, batch) = (worker.id.clone(), worker.reports.clone());
        if !batch.is_empty()
            && let Some(Reply::Settled(_)) = self.call(Call::Settle(id, batch.clone()))?
        {
            let worker = &mut self.workers[number];
            batch.iter().for_each(|report| worker.ledger.settled(report.fence));
            worker.reports.retain(|report| !batch.contains(report));
        }
        if !self.workers[number].reports.is_empty() {
            self.after(100, Event::Report(number));
        }
        Ok(())
    }

    fn renew_leases(&mut self, number: usize) -> Result<(), String> {
        let now = self.local_time(number);
        let worker = &mut self.workers[number];
        worker.ledger.pass_time(now);
        let due = worker.ledger.renewals(now);
        let fences: Vec<Fence> = due.iter().map(|(fence, _)| *fence).collect();
        if !due.is_empty() {
            let id = worker.id.clone();
            let reply = self.call(Call::Renew(id, due))?;
            let ledger = &mut self.workers[number].ledger;
            match reply {
                Some(Reply::Renewed(answers)) => drop(ledger.renewed(&fences, &answers, now)),
                _ => ledger.renew_failed(now),
            }
        }
        self.after(LEASE / 6, Event::Renew(number));
        Ok(())
    }
}
