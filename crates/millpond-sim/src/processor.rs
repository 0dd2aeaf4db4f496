//! Cores that are shared evenly: each task that computes gets a whole core, or its share of all of them.
//!
//! With n tasks on c cores each goes on at the speed min(1, c/n), the same for all. So there is one clock for all of
//! them, the work that a task would have got since the beginning, and a task ends when that clock shows what it showed at its
//! start plus the task's own work. A task that comes or goes changes the speed of the clock and nothing else.

use std::collections::BinaryHeap;

use crate::{NEVER, Nanos, Running};

#[derive(Debug)]
pub(crate) struct Processor {
    cores: usize,
    /// `due` is what the clock shows when the task is done, as the bits of the number: for numbers that are not negative
    /// they have the same order.
    tasks: BinaryHeap<Running>,
    /// The clock, and when it showed that.
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
            self.clock = 0.0; // it keeps its digits
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

    /// When the first of them is done.
    pub(crate) fn next(&self) -> Nanos {
        self.tasks.peek().map_or(NEVER, |task| {
            let left = (f64::from_bits(task.due) - self.clock) / self.speed();
            self.since.saturating_add(left.max(0.0).ceil() as Nanos)
        })
    }

    /// Takes the one that is done now.
    pub(crate) fn pop(&mut self, now: Nanos) -> Running {
        self.advance(now);
        self.tasks.pop().expect("one is done")
    }

    pub(crate) fn busy_cores(&self) -> usize {
        self.tasks.len().min(self.cores)
    }
}
