//! Quantities that change over time: threads, queue length, busy cores. Keeps their means, their
//! peaks, and a curve of bounded length.

use crate::Nanos;

/// Maximum number of points of a curve. A long curve has at least half as many.
const MOST_BINS: usize = 512;

/// Threads, busy threads, tasks that wait for a thread, tasks that wait or run, busy cores.
type Level = [usize; 5];

/// Means, peaks and the curve.
#[derive(Debug, Clone, Default)]
pub struct Levels {
    now: Nanos,
    /// Start of the period over which means are taken.
    from: Nanos,
    areas: [f64; 5],
    /// Length of the time that `areas` covers; after a merge, summed over all runs.
    length: f64,
    /// Largest number of threads at any moment.
    pub peak_threads: usize,
    /// Largest number of tasks that waited for a thread.
    pub peak_queue: usize,
    bins: Vec<Bin>,
    /// A bin is 2^shift nanoseconds long. The length doubles when there are too many bins.
    shift: u32,
    threads: usize,
    queue: usize,
}

/// One point of the curve: what happened during one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bin {
    /// Largest number of threads.
    pub threads: usize,
    /// Largest number of waiting tasks.
    pub queue: usize,
    /// Smallest number of waiting tasks.
    pub least_queue: usize,
    /// Number of waiting tasks, integrated over time.
    queue_area: f64,
    length: f64,
    /// Tasks that started.
    pub started: u64,
    /// Sum of their waits.
    pub waits: f64,
    /// Tasks that were rejected.
    pub lost: u64,
}

impl Bin {
    /// Mean number of waiting tasks.
    pub fn mean_queue(&self) -> f64 {
        if self.length == 0.0 { self.queue as f64 } else { self.queue_area / self.length }
    }

    fn merged(one: Bin, other: Bin) -> Bin {
        Bin {
            threads: one.threads.max(other.threads),
            queue: one.queue.max(other.queue),
            least_queue: one.least_queue.min(other.least_queue),
            queue_area: one.queue_area + other.queue_area,
            length: one.length + other.length,
            started: one.started + other.started,
            waits: one.waits + other.waits,
            lost: one.lost + other.lost,
        }
    }
}

impl Levels {
    /// Takes means from the time `from` on.
    pub(crate) fn new(from: Nanos) -> Levels {
        Levels { from, ..Levels::default() }
    }

    /// Advances the clock to `to`. Until then the levels were `level`.
    pub(crate) fn advance(&mut self, to: Nanos, level: Level) {
        let length = to.saturating_sub(self.now.max(self.from)) as f64;
        for (area, level) in self.areas.iter_mut().zip(level) {
            *area += level as f64 * length;
        }
        self.length += length;
        self.extend_curve(to);
        self.now = to;
    }

    /// Adds the time from `now` to `to` to the curve.
    fn extend_curve(&mut self, to: Nanos) {
        let mut at = self.now;
        loop {
            while self.bins.len() as u64 <= at >> self.shift {
                if self.bins.len() == MOST_BINS {
                    self.double();
                } else {
                    let (threads, queue) = (self.threads, self.queue);
                    self.bins.push(Bin { threads, queue, least_queue: queue, ..Bin::default() });
                }
            }
            if at == to {
                return;
            }
            let end = ((at >> self.shift) + 1).checked_shl(self.shift).map_or(to, |end| end.min(to));
            let length = (end - at) as f64;
            let area = self.queue as f64 * length;
            let bin = self.bin();
            bin.length += length;
            bin.queue_area += area;
            at = end;
        }
    }

    fn double(&mut self) {
        for at in 0..MOST_BINS / 2 {
            self.bins[at] = Bin::merged(self.bins[2 * at], self.bins[2 * at + 1]);
        }
        self.bins.truncate(MOST_BINS / 2);
        self.shift += 1;
    }

    fn bin(&mut self) -> &mut Bin {
        self.bins.last_mut().expect("the first call is `advance`")
    }

    /// Records that the levels changed at the current time.
    pub(crate) fn note(&mut self, threads: usize, queue: usize) {
        (self.threads, self.queue) = (threads, queue);
        self.peak_threads = self.peak_threads.max(threads);
        self.peak_queue = self.peak_queue.max(queue);
        let bin = self.bin();
        bin.threads = bin.threads.max(threads);
        bin.queue = bin.queue.max(queue);
        bin.least_queue = bin.least_queue.min(queue);
    }

    pub(crate) fn started(&mut self, wait: Nanos) {
        let bin = self.bin();
        bin.started += 1;
        bin.waits += wait as f64;
    }

    pub(crate) fn lost(&mut self) {
        self.bin().lost += 1;
    }

    /// Adds another run to means and peaks. The curve does not change.
    pub(crate) fn merge(&mut self, other: &Levels) {
        for (area, others) in self.areas.iter_mut().zip(other.areas) {
            *area += others;
        }
        self.length += other.length;
        self.peak_threads = self.peak_threads.max(other.peak_threads);
        self.peak_queue = self.peak_queue.max(other.peak_queue);
    }

    fn mean(&self, at: usize) -> f64 {
        if self.length == 0.0 { 0.0 } else { self.areas[at] / self.length }
    }

    /// Mean number of threads.
    pub fn mean_threads(&self) -> f64 {
        self.mean(0)
    }

    /// Mean number of threads with a task.
    pub fn mean_busy(&self) -> f64 {
        self.mean(1)
    }

    /// Mean number of tasks that wait for a thread, in the queue or in a blocked caller.
    pub fn mean_queue(&self) -> f64 {
        self.mean(2)
    }

    /// Mean number of tasks that wait or run: one side of Little's law.
    pub fn mean_inside(&self) -> f64 {
        self.mean(3)
    }

    /// Mean number of busy cores.
    pub fn mean_cores(&self) -> f64 {
        self.mean(4)
    }

    /// The fraction of the threads' time in which they had a task.
    pub fn utilisation(&self) -> f64 {
        if self.areas[0] == 0.0 { 0.0 } else { self.areas[1] / self.areas[0] }
    }

    /// The points of the curve, each with its start time.
    pub fn curve(&self) -> impl Iterator<Item = (Nanos, &Bin)> {
        self.bins.iter().enumerate().map(|(at, bin)| ((at as u64) << self.shift, bin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_time_and_short_peaks_are_seen() {
        let mut levels = Levels::default();
        levels.advance(0, [0; 5]);
        levels.note(2, 0);
        levels.advance(10, [2, 1, 0, 1, 1]);
        levels.note(9, 5);
        levels.note(2, 0);
        levels.advance(40, [2, 2, 0, 2, 0]);
        assert_eq!((levels.mean_threads(), levels.mean_busy()), (2.0, 1.75));
        assert_eq!((levels.mean_cores(), levels.utilisation()), (0.25, 0.875));
        assert_eq!((levels.peak_threads, levels.peak_queue), (9, 5));
    }

    #[test]
    fn means_begin_after_the_warm_up() {
        let mut levels = Levels::new(10);
        levels.advance(4, [1; 5]);
        levels.advance(15, [3; 5]);
        levels.advance(20, [5; 5]);
        assert_eq!(levels.mean_threads(), 4.0);
    }

    #[test]
    fn curve_stays_short_and_loses_nothing() {
        let mut levels = Levels::default();
        levels.advance(0, [0; 5]);
        for at in 1..=100_000_u64 {
            levels.note(if at == 777 { 50 } else { 3 }, 1);
            levels.started(2);
            levels.lost();
            levels.advance(at * 1000, [3, 3, 1, 4, 0]);
        }
        let bins: Vec<(Nanos, Bin)> = levels.curve().map(|(at, bin)| (at, *bin)).collect();
        assert!((MOST_BINS / 2..=MOST_BINS).contains(&bins.len()), "{}", bins.len());
        assert_eq!(bins.iter().map(|(_, bin)| bin.started).sum::<u64>(), 100_000);
        assert_eq!(bins.iter().map(|(_, bin)| bin.lost).sum::<u64>(), 100_000);
        assert_eq!(bins.iter().filter(|(_, bin)| bin.threads == 50).count(), 1);
        assert!(bins.iter().all(|(_, bin)| bin.threads >= 3 && bin.queue == 1), "{bins:?}");
        assert!(bins.iter().all(|(_, bin)| (bin.mean_queue() - 1.0).abs() < 1e-9), "{bins:?}");
    }

    #[test]
    fn a_point_of_the_curve_has_mean_and_range() {
        let mut levels = Levels { shift: 5, ..Levels::default() };
        levels.advance(0, [0; 5]);
        levels.note(1, 8);
        levels.advance(8, [1, 1, 8, 9, 0]);
        levels.note(1, 2);
        levels.advance(40, [1, 1, 2, 3, 0]);
        let bins: Vec<Bin> = levels.curve().map(|(_, bin)| *bin).collect();
        // 8 ns at 8 and 24 ns at 2, then 8 ns at 2. The curve begins with an empty queue.
        assert_eq!(bins.iter().map(Bin::mean_queue).collect::<Vec<_>>(), [3.5, 2.0]);
        assert_eq!((bins[0].least_queue, bins[0].queue), (0, 8));
        assert_eq!((bins[1].least_queue, bins[1].queue), (2, 2));
    }

    #[test]
    fn a_quiet_time_has_the_level_before_it() {
        let mut levels = Levels::default();
        levels.advance(0, [0; 5]);
        levels.note(4, 2);
        levels.advance(100, [4, 4, 2, 6, 0]);
        assert!(levels.curve().all(|(_, bin)| bin.threads == 4 && bin.queue == 2));
        assert_eq!(levels.curve().count(), 101);
    }
}
