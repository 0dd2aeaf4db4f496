//! Renews leases and interrupts tasks that must stop, on a thread that no handler can block. A
//! second thread does the maintenance of the whole queue.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::shared::{Shared, interrupt_all};
use crate::engine::{BATCH_LIMIT, Fence, Verdict};

/// Progress reports are sent at most this often.
const SHORTEST_BEAT: Duration = Duration::from_millis(100);
/// Maximum time between ticks: promotion, expiry, periodic tasks, purging and orders.
const LONGEST_TICK: Duration = Duration::from_secs(1);

/// The time between two ticks. The tasks of a dead worker wait for the end of their lease and then
/// for a tick. A tenth of the lease, and a tenth of that for jitter, leave time to claim within 1.2
/// leases.
fn tick_period(lease: Duration) -> Duration {
    (lease / 10).min(LONGEST_TICK)
}

pub(super) fn renew(shared: &Arc<Shared>) {
    loop {
        let now = shared.now();
        let (due, interrupts) = {
            let mut ledger = shared.ledger();
            let interrupts = ledger.pass_time(now);
            (ledger.renewals(now), interrupts)
        };
        interrupt_all(interrupts);
        if !due.is_empty() {
            send(shared, &due, now);
        }
        if shared.pause(SHORTEST_BEAT) {
            return;
        }
        let ledger = shared.ledger();
        let wait = ledger.next_wake(shared.now()).saturating_sub(shared.now());
        let wait = wait.min(Duration::from_secs(1));
        drop(shared.attention.wait_timeout(ledger, wait).unwrap_or_else(PoisonError::into_inner));
    }
}

fn send(shared: &Shared, due: &[(Fence, Option<Vec<u8>>)], asked: Duration) {
    let result = shared.engine.renew(&shared.id, shared.lease, due);
    let fences: Vec<Fence> = due.iter().map(|(fence, _)| *fence).collect();
    let interrupts = {
        let mut ledger = shared.ledger();
        match result {
            Ok(answers) => ledger.renewed(&fences, &answers, asked),
            Err(_) => {
                ledger.renew_failed(asked);
                shared.failed();
                ledger.pass_time(shared.now())
            }
        }
    };
    interrupt_all(interrupts);
}

/// Ticks, beats and orders. Any worker may tick; a tick that finds nothing to do is cheap.
pub(super) fn tick(shared: &Arc<Shared>) {
    let mut next_beat = Duration::ZERO;
    loop {
        while !shared.is_stopped() {
            match shared.engine.tick(&shared.queue, BATCH_LIMIT) {
                Ok(tick) if tick.is_full => {}
                Ok(_) => break,
                Err(_) => {
                    shared.failed();
                    break;
                }
            }
        }
        if shared.now() >= next_beat {
            let beat = shared.engine.beat(&shared.row());
            next_beat = if beat.is_ok() { shared.now() + shared.lease / 6 } else { next_beat };
        }
        if let Ok(orders) = shared.engine.orders(&shared.id) {
            let interrupts = {
                let mut ledger = shared.ledger();
                orders.cancel.iter().filter_map(|fence| ledger.cancel(*fence)).collect()
            };
            interrupt_all(interrupts);
            if orders.drain {
                shared.begin_drain();
            }
        }
        if shared.pause(tick_period(shared.lease).mul_f64(0.9 + fastrand::f64() / 5.0)) {
            return;
        }
    }
}

impl Shared {
    /// Stops claiming, and gives back tasks that have not begun. Returns their number.
    pub(super) fn begin_drain(&self) -> usize {
        let fences = {
            let mut ledger = self.ledger();
            if ledger.is_draining() {
                return 0;
            }
            ledger.drain()
        };
        self.room.notify_all();
        self.engine.wake();
        for fence in &fences {
            self.report(crate::engine::Report { fence: *fence, verdict: Verdict::GivenBack }, false);
        }
        super::shared::Counts::add(&self.counts.given_back, fences.len());
        fences.len()
    }
}
