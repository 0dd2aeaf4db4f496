//! Processor sharing: computing tasks share the cores evenly.
//!
//! With n tasks on c cores each runs at the speed min(1, c/n). One clock therefore serves all
//! tasks: it shows the work that a task present from the beginning would have received. A task ends
//! when the clock shows its value at the task's start plus the task's own work. Starts and ends
//! only change the speed of the clock.

use std::collections::BinaryHeap;

use crate::simulation::Running;
use crate::{NEVER, Nanos};

#[derive(Debug)]
pub(crate) struct Processor {
    cores: usize,
    /// `due` is the clock value at which the task is done, as the bits of an `f64`. Non-negative
    /// numbers and their bits have the same order.
    tasks: BinaryHeap<Running>,
    /// The value of the clock, and the time at which it had this value.
    clock: f64,
    since: Nanos,
}

impl Processor {
    pub(crate) fn new(cores: usize) -> Processor {
        Processor { cores, tasks: BinaryHeap::new(), clock: 0.0, since: 0 }
    }

    fn speed(&self) -> f64 {
        let tasks = self.tasks.len();
        if tasks <= self.cores { 1.0 } else { self.cores as f64 / tasks as f64 }
    }

    fn advance(&mut self, now: Nanos) {
        if self.tasks.is_empty() {
            self.clock = 0.0; // keeps values small, and so precise
        } else {
            self.clock += (now - self.since) as f64 * self.speed();
        }
        self.since = now;
    }

    pub(crate) fn push(&mut self, now: Nanos, mut task: Running) {
        self.advance(now);
        task.due = (self.clock + task.compute as f64).to_bits();
        self.tasks.push(task);
    }

    /// When the first task is done.
    pub(crate) fn next(&self) -> Nanos {
        self.tasks.peek().map_or(NEVER, |task| {
            let left = (f64::from_bits(task.due) - self.clock) / self.speed();
            self.since.saturating_add(left.max(0.0).ceil() as Nanos)
        })
    }

    /// Removes the task that is done at `now`.
    pub(crate) fn pop(&mut self, now: Nanos) -> Running {
        self.advance(now);
        self.tasks.pop().expect("`next` announced it")
    }

    pub(crate) fn busy_cores(&self) -> usize {
        self.tasks.len().min(self.cores)
    }
}
