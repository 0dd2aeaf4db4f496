//! The load of a plan: what arrives, for how long, and what is known about it before any
//! simulation.

use std::time::Duration;

use millpond::sizing;
use millpond_sim::{Arrivals, Limit, Mix, Nanos, Stream, World};

use crate::units;

/// Minimum number of tasks of a run whose length the user does not set.
const USUAL_TASKS: f64 = 100_000.0;
/// A run lasts for at least this many mean task durations. Otherwise a large pool would be judged
/// by the time in which its queue absorbs an overload.
const LEAST_DURATIONS: f64 = 300.0;
/// Maximum number of tasks of a run whose length the user does not set.
const MOST_USUAL_TASKS: f64 = 5_000_000.0;
/// Maximum number of tasks of one run. A queued task needs 24 bytes, so a run needs at most half a
/// gigabyte.
pub(super) const MOST_TASKS: u64 = 20_000_000;
/// Maximum number of tasks of a run that a search repeats dozens of times. The search shortens a
/// stationary load and only confirms at full length.
const MOST_SEARCHED: f64 = 5e6;
const MOST_SEARCHED_WHOLE: f64 = 1e6;
/// The initial part of a run with stationary arrivals that is not counted.
const WARM_UP: f64 = 0.05;
/// The longest run in nanoseconds: a hundred years.
const LONGEST: f64 = 3.15e18;
/// Finite random loads are replayed until a run has this many tasks: a p99 of ten tasks is noise.
const REPLAYED_TASKS: u64 = 20_000;

/// Tasks and the machine that they run on.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    pub(super) arrivals: Vec<Arrivals>,
    pub(super) mix: Mix,
    pub(super) world: World,
    pub(super) seed: u64,
    /// The end that the user set. `None`: the plan chooses.
    pub(super) asked: Option<Limit>,
    pub(super) limit: Limit,
    pub(super) warm_up: Nanos,
}

impl Workload {
    pub(super) fn new(
        arrivals: Vec<Arrivals>,
        mix: Mix,
        world: World,
        seed: u64,
        asked: Option<Limit>,
    ) -> Workload {
        let mut workload = Workload { arrivals, mix, world, seed, asked, limit: Limit::None, warm_up: 0 };
        workload.set_length();
        workload
    }

    /// The load multiplied by `factor`, with a run that is long enough for it.
    pub(super) fn scaled(&self, factor: f64) -> Workload {
        let arrivals = self.arrivals.iter().map(|one| one.scaled(factor)).collect();
        let mut scaled = Workload { arrivals, ..self.clone() };
        scaled.set_length();
        scaled
    }

    /// Like `self`, but at most of the usual length. Only stationary loads can be shortened.
    pub(super) fn shortened(&self) -> Workload {
        let mut short = Workload { asked: None, ..self.clone() };
        short.set_length();
        if self.is_stationary() && short.expected_tasks() < self.expected_tasks() {
            short
        } else {
            self.clone()
        }
    }

    fn set_length(&mut self) {
        (self.limit, self.warm_up) = match self.asked {
            Some(limit) => (limit, 0),
            None => self.usual_length(),
        };
    }

    fn usual_length(&self) -> (Limit, Nanos) {
        let Some(rate) = self.lasting_rate() else { return (Limit::None, 0) };
        let tasks = (self.mix.mean() / 1e9 * rate * LEAST_DURATIONS).clamp(USUAL_TASKS, MOST_USUAL_TASKS);
        let length = tasks * 1e9 / rate;
        let before = self.arrivals.iter().map(|one| match one {
            Arrivals::Ramp { over, .. } => *over as f64,
            Arrivals::Times(times) => times.last().map_or(0.0, |last| *last as f64),
            _ => 0.0,
        });
        let warm_up = if self.is_stationary() { length * WARM_UP } else { 0.0 };
        let end = (before.fold(0.0, f64::max) + length + warm_up).min(LONGEST);
        (Limit::Until(end as Nanos), warm_up.min(LONGEST * WARM_UP) as Nanos)
    }

    /// Whether the load is constant over time.
    fn is_stationary(&self) -> bool {
        let lasts = |one: &Arrivals| {
            matches!(
                one,
                Arrivals::Constant(_) | Arrivals::Poisson(_) | Arrivals::Burst { every: Some(_), .. }
            )
        };
        self.arrivals.iter().all(lasts)
    }

    /// Whether another seed gives different tasks.
    pub(super) fn is_random(&self) -> bool {
        !self.mix.is_deterministic() || self.arrivals.iter().any(|one| matches!(one, Arrivals::Poisson(_)))
    }

    pub(super) fn tasks(&self, seed: u64) -> Stream<'_> {
        Stream::new(&self.arrivals, self.limit, &self.mix, seed)
    }

    /// How often a run repeats a finite random load.
    pub(super) fn replays(&self) -> u64 {
        if self.limit == Limit::None && self.is_random() {
            (REPLAYED_TASKS as f64 / self.expected_tasks().max(1.0)).ceil() as u64
        } else {
            1
        }
    }

    /// Expected number of tasks of one simulation.
    pub(super) fn expected_tasks(&self) -> f64 {
        let within = |end: f64| self.arrivals.iter().map(|one| tasks_until(one, end)).sum();
        match self.limit {
            Limit::Until(end) => within(end as f64),
            Limit::Count(count) => f64::min(count as f64, within(f64::INFINITY)),
            Limit::None => within(f64::INFINITY),
        }
    }

    /// Refuses a run that needs too much memory or time.
    pub(super) fn check_size(&self, is_searched: bool) -> Result<(), String> {
        let (most, what) = match is_searched {
            false => (MOST_TASKS as f64, "plan"),
            true if self.is_stationary() => (MOST_SEARCHED * (1.0 + 2.0 * WARM_UP), "search"),
            true => (MOST_SEARCHED_WHOLE, "search"),
        };
        match self.expected_tasks() {
            tasks if tasks <= most => Ok(()),
            tasks => Err(format!(
                "a run would have {} tasks and need up to {:.1} GB; a {what} simulates at most {} tasks in a run, so \
                 give a smaller --count, a shorter --for or a smaller load",
                units::show_count(tasks.round() as u64),
                tasks * 24.0 / 1e9,
                units::show_count(most as u64),
            )),
        }
    }

    /// Tasks per second of the endless streams. For a ramp: its final rate.
    fn lasting_rate(&self) -> Option<f64> {
        Some(self.arrivals.iter().filter_map(lasting_rate).sum()).filter(|rate| *rate > 0.0)
    }
}

fn lasting_rate(arrivals: &Arrivals) -> Option<f64> {
    match arrivals {
        Arrivals::Constant(rate) | Arrivals::Poisson(rate) | Arrivals::Ramp { to: rate, .. } => Some(*rate),
        Arrivals::Burst { count, every } => every.map(|every| *count as f64 * 1e9 / every as f64),
        Arrivals::Times(_) => None,
    }
}

fn tasks_until(arrivals: &Arrivals, end: f64) -> f64 {
    let seconds = end / 1e9;
    match arrivals {
        Arrivals::Constant(rate) | Arrivals::Poisson(rate) => rate * seconds,
        Arrivals::Ramp { from, to, over } => {
            let ramp = (*over as f64 / 1e9).min(seconds);
            let reached = from + (to - from) * ramp / (*over as f64 / 1e9);
            f64::midpoint(*from, reached) * ramp + to * (seconds - ramp)
        }
        Arrivals::Burst { count, every: None } => *count as f64,
        Arrivals::Burst { count, every: Some(every) } => *count as f64 * (end / *every as f64).ceil(),
        Arrivals::Times(times) => times.partition_point(|at| (*at as f64) < end) as f64,
    }
}

/// What is known about a load without simulating it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offered {
    /// Tasks per second, on average during the arrivals. `None`: all tasks arrive at once.
    pub(super) rate: Option<f64>,
    /// Tasks per second of the endless streams.
    lasting_rate: Option<f64>,
    /// Mean times of a task, in nanoseconds.
    pub(super) wait: f64,
    pub(super) compute: f64,
    pub(super) cores: usize,
    is_random: bool,
}

impl Offered {
    pub(super) fn of(workload: &Workload) -> Offered {
        let compute = workload.mix.mean_compute();
        let wait = workload.mix.mean() - compute;
        let recorded = workload.arrivals.iter().filter_map(|one| match one {
            Arrivals::Times(times) => {
                let last = times.last().copied().filter(|last| *last > 0)?;
                Some((times.len() - 1) as f64 * 1e9 / last as f64)
            }
            _ => None,
        });
        let lasting_rate = workload.lasting_rate();
        let rate = lasting_rate.unwrap_or(0.0) + recorded.sum::<f64>();
        Offered {
            rate: Some(rate).filter(|rate| *rate > 0.0),
            lasting_rate,
            wait,
            compute,
            cores: workload.world.cores,
            is_random: workload.is_random(),
        }
    }

    /// Mean number of busy threads, by Little's law.
    pub(super) fn busy_threads(&self) -> Option<f64> {
        self.rate.map(|rate| rate * self.duration() / 1e9)
    }

    fn duration(&self) -> f64 {
        self.wait + self.compute
    }

    /// The load bound: with fewer threads, the queue of an endless load grows without limit.
    ///
    /// Random arrivals need more threads than are busy on average. Without randomness all threads
    /// may be busy all the time.
    pub(super) fn least_threads(&self) -> Option<usize> {
        self.lasting_rate.map(|rate| {
            let least = sizing::for_rate(rate, nanos(self.duration()));
            let is_exact = (rate * self.duration() / 1e9 - least as f64).abs() < 1e-9;
            if self.is_random && is_exact { least + 1 } else { least }
        })
    }

    pub(super) fn busy_cores(&self) -> Option<f64> {
        self.rate.map(|rate| rate * self.compute / 1e9).filter(|cores| *cores > 0.0)
    }

    /// Whether an endless load needs more cores than there are.
    pub(super) fn exceeds_cores(&self) -> bool {
        self.lasting_rate.is_some_and(|rate| rate * self.compute / 1e9 > self.cores as f64)
    }

    /// The number of threads that keeps the cores busy: cores × (1 + waiting / computing).
    pub(super) fn threads_for_cores(&self) -> Option<usize> {
        (self.compute > 0.0).then(|| sizing::io_bound_on(self.cores, nanos(self.wait), nanos(self.compute)))
    }
}

fn nanos(nanos: f64) -> Duration {
    Duration::from_nanos(nanos.round() as u64)
}

#[cfg(test)]
mod tests {
    use millpond_sim::{Kind, Length};

    use super::*;

    const S: Nanos = 1_000_000_000;

    fn workload(arrivals: Arrivals, length: Length, asked: Option<Limit>) -> Workload {
        let mix = Mix::new(vec![Kind { weight: 1.0, length, cpu: 0.0 }]);
        Workload::new(vec![arrivals], mix, World { cores: 2, one_caller: false }, 1, asked)
    }

    #[test]
    fn expected_tasks_are_those_that_arrive() {
        let limit = Some(Limit::Until(30 * S));
        for arrivals in [
            Arrivals::Constant(40.0),
            Arrivals::Poisson(40.0),
            Arrivals::Ramp { from: 0.0, to: 60.0, over: 20 * S },
            Arrivals::Ramp { from: 60.0, to: 10.0, over: 50 * S },
            Arrivals::Burst { count: 70, every: Some(7 * S) },
            Arrivals::Burst { count: 70, every: None },
            Arrivals::Times([0, S, 31 * S].into()),
        ] {
            let workload = workload(arrivals, Length::Fixed(1e6), limit);
            let (expected, seen) = (workload.expected_tasks(), workload.tasks(1).count() as f64);
            assert!(
                (expected - seen).abs() <= 1.0 + 0.1 * seen * f64::from(workload.is_random()),
                "{workload:?}"
            );
        }
    }

    #[test]
    fn a_usual_run_grows_with_the_load_and_drops_its_warm_up() {
        let small = workload(Arrivals::Poisson(200.0), Length::Exponential(20e6), None);
        assert!((small.expected_tasks() - 105_000.0).abs() < 1.0);
        assert_eq!(small.warm_up, 25 * S);
        let large = small.scaled(1000.0);
        // 300 durations of 20 ms at 200 000 per second.
        assert!((large.expected_tasks() - 1_260_000.0).abs() < 1.0, "{}", large.expected_tasks());
        let ramp = workload(Arrivals::Ramp { from: 1.0, to: 50.0, over: 60 * S }, Length::Fixed(1e6), None);
        assert_eq!(ramp.warm_up, 0, "the beginning of a ramp counts");
        let asked = workload(Arrivals::Poisson(200.0), Length::Fixed(1e6), Some(Limit::Count(50)));
        assert_eq!((asked.limit, asked.warm_up), (Limit::Count(50), 0));
    }

    #[test]
    fn load_bound_is_above_the_offered_load_unless_nothing_is_random() {
        let least = |arrivals, length| Offered::of(&workload(arrivals, length, None)).least_threads();
        assert_eq!(least(Arrivals::Constant(100.0), Length::Fixed(20e6)), Some(2));
        assert_eq!(least(Arrivals::Poisson(100.0), Length::Fixed(20e6)), Some(3));
        assert_eq!(least(Arrivals::Constant(100.0), Length::Exponential(20e6)), Some(3));
        assert_eq!(least(Arrivals::Poisson(100.0), Length::Exponential(21e6)), Some(3));
        assert_eq!(least(Arrivals::Burst { count: 100, every: None }, Length::Fixed(20e6)), None);
        assert_eq!(least(Arrivals::Times([0, 1, 2].into()), Length::Fixed(20e6)), None);
    }

    #[test]
    fn rare_tasks_do_not_overflow_the_clock() {
        let rare = workload(Arrivals::Poisson(1e-6), Length::Exponential(20e6), None);
        assert!(rare.tasks(1).count() > 2000);
        assert!(rare.check_size(true).is_ok());
    }
}
