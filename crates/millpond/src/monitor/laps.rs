//! [`Laps`]: measures the tasks of a thread without reading the clock for each task.
//!
//! A *lap* is a sequence of tasks. The thread reads the clock once at its end, which is also the
//! start of the next lap. A lap is long enough that measuring costs about 1 %: 64 empty tasks,
//! twenty of 1 µs, or one of 20 µs or more. A long task shortens the next lap to one task, and each
//! lap is at most twice as long as the previous one. So only the first long task after many short
//! ones shares its lap, with at most 63 others. It is charged the time that exceeds the mean of the
//! others.
//!
//! All tasks of a lap count as having waited as long as the first one. Tasks behind a long one wait
//! longer, which shows in the next lap.
//!
//! A thread that waits for work pauses its lap. After 1 ms it starts again with a lap of one task.
//! So in a pool with little work nearly every task is measured individually. The time between two
//! laps counts neither as waiting nor as running. The sum of the run times is the time that threads
//! spent in tasks.
//!
//! # Counting
//!
//! The thread counts its finished tasks anyway. For most tasks, the only extra cost is the
//! comparison of that count with the end of the lap in [`Laps::is_over`]. Everything else is under
//! a lock, because a reader ends the lap of a thread that runs nothing. So a snapshot of an idle
//! pool contains every task. `counted` is the number of finished tasks that the histograms contain.
//! It changes together with them under the lock, so no task is counted twice. Model:
//! `a_lap_that_a_reader_closes`.

use std::time::Duration;

use super::meter::{Meter, Times};
use super::settings::Timing;
use crate::sync::{AtomicU64, Ordering, SpinLock};
use crate::time::clock::Tick;

/// The target work per lap, in nanoseconds: about a hundred times the cost of ending a lap. Most of
/// that cost is cache lines that other threads write.
const WORK_PER_LAP: u64 = 20_000;
/// The largest number of tasks in a lap.
const LONGEST: u64 = 64;
const NO_LAP: u64 = u64::MAX;
/// After a longer pause, in nanoseconds, the next lap has one task.
const LONG_PAUSE: u64 = 1_000_000;

/// The laps of one thread.
#[derive(Debug)]
pub(crate) struct Laps {
    /// The number of finished tasks at which the lap ends; [`NO_LAP`] if no lap has begun. Written
    /// under the lock. Relaxed: a value that is seen late makes a lap longer or shorter, but no
    /// task is lost.
    until: AtomicU64,
    lap: SpinLock<Lap>,
}

/// How many tasks a thread has finished.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// The number of the thread, which selects its histograms.
    pub(crate) thread: usize,
    /// The tasks that the thread has finished so far.
    pub(crate) finished: u64,
}

/// The task that will end first in a new lap.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FirstTask {
    /// The next task to be taken, with its time of acceptance. `None` means that it did not wait.
    AcceptedAt(Option<Tick>),
    /// The current task: the task that ended the previous lap ran inside it.
    Outer,
}

#[derive(Debug, Default)]
struct Lap {
    /// When the lap began. `None` while the thread waits for work, or if nothing is measured.
    opened: Option<Tick>,
    /// When the last lap ended.
    closed: Option<Tick>,
    /// The number of finished tasks that the histograms contain or must not contain.
    counted: u64,
    /// The number of tasks after which the lap ends.
    length: u64,
    /// The mean run time of the previous lap, in nanoseconds.
    mean: u64,
    /// How long the first task of this lap waited, in nanoseconds. It represents the other tasks.
    wait: u64,
    /// The number of tasks of this lap that ran inside another task, and how long the first of them
    /// waited.
    inline: (u64, u64),
    /// A time not later than the start of the running task, if there is one.
    since: Option<Tick>,
    /// The total length of all ended laps, in nanoseconds.
    busy: u64,
    /// The time of the open lap that readers have already reported as busy, in nanoseconds.
    reported: u64,
}

impl Default for Laps {
    fn default() -> Self {
        Laps { until: AtomicU64::new(NO_LAP), lap: SpinLock::new(Lap::default()) }
    }
}

/// Methods for the measured thread.
impl Laps {
    /// Returns true if the lap ends with the task that was just finished.
    #[inline]
    pub(crate) fn is_over(&self, finished: u64) -> bool {
        finished >= self.until.load(Ordering::Relaxed)
    }

    /// Ends the lap and begins the next one. Returns the length of the next lap.
    pub(crate) fn next(&self, meter: &Meter, progress: Progress, now: Tick, first: FirstTask) -> u64 {
        let mut lap = self.lap.lock();
        let now = lap.close(now, progress, meter);
        let outer = (lap.since, lap.wait);
        match first {
            FirstTask::AcceptedAt(since) => lap.open(now, since),
            FirstTask::Outer => {
                lap.open(now, None);
                (lap.since, lap.wait) = outer;
            }
        }
        self.until.store(progress.finished + lap.length, Ordering::Relaxed);
        lap.length
    }

    /// Ends the lap without counting its tasks, because nothing is measured.
    pub(crate) fn stop(&self, meter: &Meter, progress: Progress) {
        self.until.store(self.lap.lock().stop(meter, progress), Ordering::Relaxed);
    }

    /// Ends the lap, because the thread waits for work. Returns false if it was already paused.
    pub(crate) fn pause(&self, meter: &Meter, progress: Progress) -> bool {
        if self.until.load(Ordering::Relaxed) == NO_LAP {
            return false;
        }
        let mut lap = self.lap.lock();
        let was_open = lap.opened.is_some();
        if was_open
            && progress.finished > lap.counted
            && let Some(now) = meter.now()
        {
            lap.close(now, progress, meter);
        }
        self.until.store(lap.stop(meter, progress), Ordering::Relaxed);
        was_open
    }

    /// Begins a lap after a pause, with a task that was accepted at `since`. Without a pause, ends
    /// the lap if `since` is long after its start, because then a task of this lap took long.
    pub(crate) fn resume(&self, meter: &Meter, progress: Progress, since: Option<Tick>) {
        if meter.timing() == Timing::Off {
            return;
        }
        let mut lap = self.lap.lock();
        let is_late = |opened| since.is_some_and(|since| nanos_between(opened, since) > WORK_PER_LAP);
        if lap.opened.is_some_and(|opened| !is_late(opened)) {
            return;
        }
        if let Some(now) = meter.now() {
            let now = lap.close(now, progress, meter);
            if lap.closed.is_none_or(|closed| nanos_between(closed, now) > LONG_PAUSE) {
                lap.length = 1;
            }
            lap.open(now, since);
            self.until.store(progress.finished + lap.length, Ordering::Relaxed);
        }
    }

    /// Counts a task that was accepted at `since` and runs inside the current task.
    pub(crate) fn inside(&self, meter: &Meter, since: Option<Tick>) {
        let mut lap = self.lap.lock();
        let (count, mut wait) = lap.inline;
        if count == 0 {
            wait = since.zip(meter.now()).map_or(0, |(since, now)| nanos_between(since, now));
        }
        lap.inline = (count + 1, wait);
    }
}

/// Methods for readers.
impl Laps {
    /// Counts the tasks of a thread that runs none, up to `now`. `since` is when its next task was
    /// accepted.
    pub(crate) fn settle(&self, meter: &Meter, now: Tick, progress: Progress, since: Option<Tick>) {
        let mut lap = self.lap.lock();
        if lap.opened.is_some() && progress.finished > lap.counted {
            let now = lap.close(now, progress, meter);
            lap.open(now, since);
            self.until.store(progress.finished + lap.length, Ordering::Relaxed);
        }
    }

    /// Makes the thread check [`Meter::timing`] when it next finishes a task.
    pub(crate) fn recheck(&self) {
        let _lap = self.lap.lock();
        self.until.store(0, Ordering::Relaxed);
    }

    /// Returns the time that the thread has spent in tasks, in nanoseconds. `now` is set if it runs
    /// a task.
    pub(crate) fn busy(&self, now: Option<Tick>) -> u64 {
        let mut lap = self.lap.lock();
        let open = now.zip(lap.opened).map_or(0, |(now, opened)| nanos_between(opened, now));
        lap.reported = lap.reported.max(open);
        lap.busy + open
    }

    /// Returns when the running task began, or a slightly earlier time.
    pub(crate) fn since(&self) -> Option<Tick> {
        self.lap.lock().since
    }
}

impl Lap {
    /// Counts the tasks that have finished since the lap began. Returns the end of the lap, where
    /// the next one begins: `now`, or later if the thread was preempted after it read the clock and
    /// a reader has reported a later time as busy.
    fn close(&mut self, now: Tick, progress: Progress, meter: &Meter) -> Tick {
        let tasks = progress.finished.saturating_sub(self.counted);
        self.counted = progress.finished;
        let Some(opened) = self.opened else { return now };
        let now = now.max(opened.plus(Duration::from_nanos(self.reported)));
        if tasks == 0 {
            self.charge_reported(progress, meter);
            return now;
        }
        let total = nanos_between(opened, now);
        self.reported = 0;
        let times = meter.times(progress.thread);
        self.count_runs(times, tasks, total);
        self.count_waits(times, tasks);
        self.busy += total;
        self.mean = total / tasks;
        let wanted = WORK_PER_LAP / self.mean.max(1);
        let longest = if meter.timing() == Timing::Every { 1 } else { (2 * self.length).min(LONGEST) };
        self.length = wanted.clamp(1, longest);
        self.closed = Some(now);
        now
    }

    /// Ends a lap whose tasks are not counted. A reader may have reported its time as busy, between
    /// two tasks or before the timing was switched off. So add that time to the run time of the
    /// previous task.
    fn charge_reported(&mut self, progress: Progress, meter: &Meter) {
        let reported = std::mem::take(&mut self.reported);
        if reported > 0 {
            self.busy += reported;
            meter.times(progress.thread).run.add_to_sum(reported);
        }
    }

    /// Counts the runs. If the lap took more than twice the expected time, one task is charged the
    /// excess.
    fn count_runs(&self, times: &Times, tasks: u64, total: u64) {
        let others = (tasks - 1) * self.mean;
        if others + self.mean < total / 2 && tasks > 1 {
            times.run.add_total(others, tasks - 1);
            times.run.add_total(total - others, 1);
        } else {
            times.run.add_total(total, tasks);
        }
    }

    fn count_waits(&self, times: &Times, tasks: u64) {
        let (inline, wait) = self.inline;
        let inline = inline.min(tasks);
        times.wait.add_total(inline * wait, inline);
        times.wait.add_total((tasks - inline) * self.wait, tasks - inline);
    }

    fn open(&mut self, now: Tick, since: Option<Tick>) {
        self.opened = Some(now);
        self.since = Some(now);
        self.length = self.length.max(1);
        self.wait = since.map_or(0, |since| nanos_between(since, now));
        self.inline = (0, 0);
        self.reported = 0;
    }

    /// Ends the lap without counting its tasks. Returns the new value of `until`.
    fn stop(&mut self, meter: &Meter, progress: Progress) -> u64 {
        self.charge_reported(progress, meter);
        (self.opened, self.since, self.counted) = (None, None, progress.finished);
        NO_LAP
    }
}

/// Returns the nanoseconds between two ticks. Zero if `from` is [`Tick::NEVER`].
pub(crate) fn nanos_between(from: Tick, to: Tick) -> u64 {
    to.nanos().saturating_sub(from.nanos())
}

#[cfg(all(test, not(loom)))]
mod tests;
