//! Claims what the pool has room for, and hands it to the pool.

use std::sync::Arc;
use std::time::Duration;

use super::run::run;
use super::shared::{Counts, Shared, interrupt_all};
use crate::engine::{Claimed, Verdict};

/// Hints can be lost: look for work this often anyway.
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

/// The engine or the pool refuses: wait a little before the next try.
struct Trouble;

/// From 50 ms to 5 s, with jitter.
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

fn step(shared: &Arc<Shared>) -> Result<(), Trouble> {
    let asked = shared.now();
    let ask = {
        let mut ledger = shared.ledger();
        ledger.set_threads(shared.pool.maximum_pool_size().clamp(1, 512));
        match ledger.ask(asked) {
            Some(ask) => ask,
            None => {
                // Woken by a task that finished, by a drain, or by the time.
                drop(shared.room.wait_timeout(ledger, Duration::from_millis(500)));
                return Ok(());
            }
        }
    };
    let result = shared.engine.claim(&ask);
    let tasks = result.map_err(|_| trouble(shared))?;
    shared.succeeded();
    if !tasks.is_empty() {
        return dispatch(shared, tasks, asked);
    }
    let before = shared.now();
    let suspects = shared.ledger().allows_suspects();
    shared.engine.wait_work(&shared.queue, suspects, SAFETY_POLL).map_err(|_| trouble(shared))?;
    if shared.now() - before >= SAFETY_POLL {
        // No hint came. Work that is found now was found by the poll.
        let tasks = shared.engine.claim(&ask).map_err(|_| trouble(shared))?;
        Counts::add(&shared.counts.safety_poll, usize::from(!tasks.is_empty()));
        return dispatch(shared, tasks, shared.now());
    }
    Ok(())
}

fn trouble(shared: &Shared) -> Trouble {
    shared.failed();
    Trouble
}

fn dispatch(shared: &Arc<Shared>, tasks: Vec<Claimed>, asked: Duration) -> Result<(), Trouble> {
    Counts::add(&shared.counts.claimed, tasks.len());
    let (flags, is_draining, lost) = {
        let mut ledger = shared.ledger();
        let (flags, lost) = ledger.claimed(&tasks, asked, shared.now());
        (flags, ledger.is_draining(), lost)
    };
    interrupt_all(lost);
    let mut result = Ok(());
    for (task, flags) in tasks.into_iter().zip(flags) {
        let fence = task.fence;
        if is_draining {
            shared.return_task(fence, Verdict::GivenBack);
        } else if task.codec != CODEC || !shared.handlers.contains_key(&task.name) {
            Counts::add(&shared.counts.no_handler, 1);
            shared.return_task(fence, Verdict::NoHandler);
        } else {
            let worker = Arc::clone(shared);
            if shared.pool.execute(move || run(&worker, &task, flags)).is_err() {
                // Shut down, or full of other work: that is no fault of the task.
                shared.return_task(fence, Verdict::GivenBack);
                result = Err(Trouble);
            }
        }
    }
    result
}
