//! What goes up and down: threads, queue, cores. Means over the whole time, peaks, and a curve of bounded length.

use crate::Nanos;

/// At most so many points, at least half of it: enough for a picture.
const MOST_BINS: usize = 512;

/// Threads, busy threads, tasks that wait for a thread, tasks inside, cores at work.
type Level = [usize; 5];

/// Areas under the levels, and the curve.
#[derive(Debug, Clone, Default)]
pub struct Levels {
    now: Nanos,
    areas: [f64; 5],
    /// The most threads at any moment.
    pub peak_threads: usize,
    /// The most tasks that waited for a thread.
    pub peak_queue: usize,
    bins: Vec<Bin>,
    /// A bin is 2 to this power nanoseconds long; doubled whenever the bins do not suffice.
    shift: u32,
    threads: usize,
    queue: usize,
}

/// One point of the curve: what happened in a short time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bin {
    /// The most threads in this time.
    pub threads: usize,
    /// The most tasks that waited.
    pub queue: usize,
    /// Tasks that began.
    pub started: u64,
    /// The sum of their waits.
    pub waits: f64,
    /// Tasks that were refused.
    pub lost: u64,
}

impl Bin {
    fn merged(one: Bin, other: Bin) -> Bin {
        Bin {
            threads: one.threads.max(other.threads),
            queue: one.queue.max(other.queue),
            started: one.started + other.started,
            waits: one.waits + other.waits,
            lost: one.lost + other.lost,
        }
    }
}

impl Levels {
    /// Time goes on to `to`; until then the levels were these.
    pub(crate) fn advance(&mut self, to: Nanos, level: Level) {
        let length = (to - self.now) as f64;
        for (area, level) in self.areas.iter_mut().zip(level) {
            *area += level as f64 * length;
        }
        self.now = to;
        // Bins in which nothing happens have the level before.
        while self.bins.len() as u64 <= to >> self.shift {
            if self.bins.len() == MOST_BINS {
                self.double();
            } else {
                self.bins.push(Bin { threads: self.threads, queue: self.queue, ..Bin::default() });
            }
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
        self.bins.last_mut().expect("time begins with `advance`")
    }

    /// The levels have changed.
    pub(crate) fn note(&mut self, threads: usize, queue: usize) {
        (self.threads, self.queue) = (threads, queue);
        self.peak_threads = self.peak_threads.max(threads);
        self.peak_queue = self.peak_queue.max(queue);
        let bin = self.bin();
        bin.threads = bin.threads.max(threads);
        bin.queue = bin.queue.max(queue);
    }

    pub(crate) fn started(&mut self, wait: Nanos) {
        let bin = self.bin();
        bin.started += 1;
        bin.waits += wait as f64;
    }

    pub(crate) fn lost(&mut self) {
        self.bin().lost += 1;
    }

    fn mean(&self, at: usize) -> f64 {
        if self.now == 0 { 0.0 } else { self.areas[at] / self.now as f64 }
    }

    /// Threads, over the whole time.
    pub fn mean_threads(&self) -> f64 {
        self.mean(0)
    }

    /// Threads with a task.
    pub fn mean_busy(&self) -> f64 {
        self.mean(1)
    }

    /// Tasks that wait for a thread, in the queue or before it.
    pub fn mean_queue(&self) -> f64 {
        self.mean(2)
    }

    /// Tasks that wait or run, by their number at each moment: one side of Little's law.
    pub fn mean_inside(&self) -> f64 {
        self.mean(3)
    }

    /// Cores on which a task computes.
    pub fn mean_cores(&self) -> f64 {
        self.mean(4)
    }

    /// The share of the threads' time in which they had a task.
    pub fn utilisation(&self) -> f64 {
        if self.areas[0] == 0.0 { 0.0 } else { self.areas[1] / self.areas[0] }
    }

    /// The points of the curve, each with the moment at which it begins.
    pub fn curve(&self) -> impl Iterator<Item = (Nanos, &Bin)> {
        self.bins.iter().enumerate().map(|(at, bin)| ((at as u64) << self.shift, bin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_time_and_peaks_are_seen_however_short() {
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
    fn the_curve_stays_short_and_loses_nothing() {
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
