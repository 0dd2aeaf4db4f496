//! Claims tasks for which the pool has room, and submits them to the pool.

use std::sync::Arc;
use std::time::Duration;

use super::ledger::Interrupts;
use super::run::run;
use super::shared::{Counts, Shared, interrupt_all, lock};
use crate::context::Flags;
use crate::engine::{Claimed, NewTask, Submitted, Verdict};

/// Hints can be lost: look for work at this interval anyway.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// How arguments are encoded by this version.
const CODEC: u8 = 0;

pub(super) fn feed(shared: &Arc<Shared>) {
    let mut backoff = Backoff::default();
    while !shared.is_stopped() {
        match step(shared) {
            Ok(()) => backoff = Backoff::default(),
            Err(Trouble) => drop(shared.pause(backoff.next())),
        }
    }
}

/// The engine or the pool refused: back off before the next attempt.
struct Trouble;

/// Back-off from 50 ms to 5 s, with jitter.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff(Duration::from_millis(50))
    }
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (self.0 * 2).min(Duration::from_secs(5));
        wait.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

/// Tasks that are in the ledger and not yet in the pool.
struct Taken {
    tasks: Vec<(Claimed, Arc<Flags>)>,
    /// Earlier attempts of the same tasks, which this worker lost without noticing.
    lost: Interrupts,
}

impl Shared {
    /// Enters claimed tasks into the ledger. The caller holds `feeding`.
    fn take(&self, tasks: Vec<Claimed>, asked: Duration) -> Taken {
        Counts::add(&self.counts.claimed, tasks.len());
        let (flags, lost) = self.ledger().claimed(&tasks, asked, self.now());
        Taken { tasks: tasks.into_iter().zip(flags).collect(), lost }
    }

    /// Submits tasks, and passes those that this worker may then claim to the pool. Only if the
    /// worker is idle: under load the feeder claims many tasks at a time. `None`: nothing was
    /// submitted.
    pub(crate) fn submit_if_idle(self: &Arc<Shared>, tasks: &[NewTask]) -> Option<Vec<Submitted>> {
        let turn = self.feeding.try_lock().ok()?;
        let asked = self.now();
        let ask = Some(self.ledger()).filter(|ledger| ledger.held() == 0)?.ask(asked)?;
        let (answers, claimed) = self.engine.submit_and_claim(tasks, &ask).ok()?;
        let taken = self.take(claimed, asked);
        drop(turn);
        // Tasks that the pool refuses are given back; the submitter need not know.
        let _ = dispatch(self, taken);
        Some(answers)
    }
}

fn step(shared: &Arc<Shared>) -> Result<(), Trouble> {
    let Some(taken) = claim(shared)? else {
        let ledger = shared.ledger();
        if ledger.ask(shared.now()).is_none() {
            // Woken by a finished task, by a drain, or by the timeout.
            drop(shared.room.wait_timeout(ledger, Duration::from_millis(500)));
        }
        return Ok(());
    };
    if !taken.tasks.is_empty() {
        return dispatch(shared, taken);
    }
    let before = shared.now();
    let suspects = shared.ledger().allows_suspects();
    shared.engine.wait_work(&shared.queue, suspects, SAFETY_POLL).map_err(|_| trouble(shared))?;
    if shared.now() - before >= SAFETY_POLL
        && let Some(taken) = claim(shared)?
    {
        // No hint came: work that is found now was found by the poll.
        Counts::add(&shared.counts.safety_poll, usize::from(!taken.tasks.is_empty()));
        return dispatch(shared, taken);
    }
    Ok(())
}

/// Claims as many tasks as there is room for. `None`: there is no room.
fn claim(shared: &Shared) -> Result<Option<Taken>, Trouble> {
    let _turn = lock(&shared.feeding);
    let asked = shared.now();
    let ask = {
        let mut ledger = shared.ledger();
        ledger.set_threads(shared.pool.maximum_pool_size().clamp(1, 512));
        ledger.ask(asked)
    };
    let Some(ask) = ask else { return Ok(None) };
    let tasks = shared.engine.claim(&ask).map_err(|_| trouble(shared))?;
    shared.succeeded();
    Ok(Some(shared.take(tasks, asked)))
}

fn trouble(shared: &Shared) -> Trouble {
    shared.failed();
    Trouble
}

/// Submits tasks to the pool, holding no lock: a pool may run them in this thread.
fn dispatch(shared: &Arc<Shared>, taken: Taken) -> Result<(), Trouble> {
    interrupt_all(taken.lost);
    let is_draining = shared.ledger().is_draining();
    let mut result = Ok(());
    for (task, flags) in taken.tasks {
        let fence = task.fence;
        if is_draining {
            shared.return_task(fence, Verdict::GivenBack);
        } else if task.codec != CODEC || !shared.handlers.contains_key(&task.name) {
            Counts::add(&shared.counts.no_handler, 1);
            shared.return_task(fence, Verdict::NoHandler);
        } else {
            let worker = Arc::clone(shared);
            if shared.pool.execute(move || run(&worker, &task, flags)).is_err() {
                // The pool is shut down or full of other work: give the task back.
                shared.return_task(fence, Verdict::GivenBack);
                result = Err(Trouble);
            }
        }
    }
    result
}
