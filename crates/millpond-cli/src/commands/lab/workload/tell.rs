//! Describes the pools and steps of a workload in words.

use std::fmt;
use std::time::Duration;

use super::words::plain;
use super::{Arrivals, Does, Limit, PoolKind, PoolPlan, Queue, Rhythm, Submit, TaskPlan};

impl fmt::Display for PoolPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            PoolKind::Threads { core: 0, max: usize::MAX, queue: Queue::Synchronous, .. } => {
                write!(f, "cached")?;
            }
            PoolKind::Threads { core, max, queue: Queue::Linked, .. } if core == max => {
                write!(f, "fixed, {core} {}", if *core == 1 { "thread" } else { "threads" })?;
            }
            PoolKind::Threads { core, max, queue, eager, .. } => {
                write!(f, "core {core}, max {max}, {queue}{}", if *eager { ", eager" } else { "" })?;
            }
            PoolKind::Scheduled { core } => write!(f, "scheduled, core {core}")?,
            PoolKind::Elastic { max, queue_per_thread } => {
                write!(f, "bounded elastic, max {max}, {queue_per_thread} waiting per thread")?;
            }
        }
        let may_leave = match &self.kind {
            PoolKind::Threads { core, max, .. } => max > core || self.core_time_out,
            PoolKind::Scheduled { .. } => self.core_time_out,
            PoolKind::Elastic { .. } => true,
        };
        if may_leave {
            write!(f, ", keep-alive {}", plain(self.keep_alive))?;
        }
        if self.core_time_out {
            f.write_str(" for core threads too")?;
        }
        match &self.kind {
            PoolKind::Threads { policy, max, .. } if self.capacity().is_some() && *max < usize::MAX => {
                write!(f, ", {policy}")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Does::Submit(submit) => submit.fmt(f),
            Does::Series(series) => {
                match series.rhythm {
                    Rhythm::FixedRate { period, .. } => write!(f, "every {}", plain(period))?,
                    Rhythm::FixedDelay(delay) => write!(f, "{} after each run", plain(delay))?,
                }
                write!(f, ", {} runs of {}", series.runs, series.task.takes)
            }
            Does::Wait(time) => write!(f, "wait {}", plain(*time)),
            Does::UntilIdle => f.write_str("until all is done"),
            Does::UntilThreads(1) => f.write_str("until 1 thread is left"),
            Does::UntilThreads(0) => f.write_str("until no thread is left"),
            Does::UntilThreads(n) => write!(f, "until {n} threads are left"),
            Does::Prestart(None) => f.write_str("start all core threads"),
            Does::Prestart(Some(1)) => f.write_str("start a core thread"),
            Does::Prestart(Some(n)) => write!(f, "start {n} core threads"),
            Does::Set(_) => f.write_str("change settings"),
            Does::Shutdown { grace, .. } => write!(f, "shut down, force after {}", plain(*grace)),
            Does::Look => f.write_str("look"),
        }
    }
}

impl fmt::Display for Submit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Limit::Count(1) => f.write_str("submit 1 task")?,
            Limit::Count(count) => write!(f, "submit {count} tasks")?,
            Limit::Until(end) => write!(f, "submit for {}", plain(Duration::from_nanos(end)))?,
            Limit::None => f.write_str("submit tasks")?,
        }
        if let [only] = self.mix.as_slice() {
            only.tell_length(f)?;
        }
        match &self.arrivals {
            Arrivals::Burst { .. } | Arrivals::Times(_) => Ok(()),
            Arrivals::Constant(rate) => write!(f, ", {rate}/s"),
            Arrivals::Poisson(rate) => write!(f, ", about {rate}/s"),
            Arrivals::Ramp { from, to, .. } => write!(f, ", {from}/s to {to}/s"),
        }
    }
}

impl TaskPlan {
    fn tell_length(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, " '{name}'"),
            None => write!(f, " of {}", self.takes),
        }
    }
}
