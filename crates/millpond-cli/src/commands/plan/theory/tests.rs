//! Compares the formulas with published values, and the simulator with the formulas.
//!
//! The simulator is compared by confidence intervals, not by a tolerance. Each run is divided into
//! batches that are long enough to be nearly independent. The batch means of several seeds give an
//! interval that contains the true mean with a probability of 99.9 %, and the formula must be in
//! it. The interval is narrow: the formula for a slightly different load must be outside.

use millpond_sim::{Kind, Limit, Nanos, Observe, Stream, Watch, simulate};

use super::*;

const MS: f64 = 1e6;
const ENOUGH_CORES: World = World { cores: 1_000_000, one_caller: false };

fn mix(length: Length, cpu: f64) -> Mix {
    Mix::new(vec![Kind { weight: 1.0, length, cpu }])
}

/// Means of batches: their mean, and the half width of the 99.9 % interval around it.
#[derive(Debug, Clone, Copy)]
struct Interval {
    mean: f64,
    half: f64,
}

impl Interval {
    fn of(batches: &[f64]) -> Interval {
        // Student's t for 99.9 %, two-sided, with 99 degrees of freedom.
        const T: f64 = 3.392;
        assert!(batches.len() >= 100);
        let n = batches.len() as f64;
        let mean = batches.iter().sum::<f64>() / n;
        let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Interval { mean, half: T * (variance / n).sqrt() }
    }

    fn contains(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half
    }
}

/// Divides a run into batches of tasks, in the order of their ends, and stores the batch means.
struct Batches<'a, const N: usize> {
    of: &'a dyn Fn(Nanos, Nanos) -> [f64; N],
    length: usize,
    sums: [f64; N],
    count: usize,
    means: Vec<[f64; N]>,
}

impl<const N: usize> Watch for Batches<'_, N> {
    fn finished(&mut self, _arrival: Nanos, wait: Nanos, total: Nanos) {
        for (sum, value) in self.sums.iter_mut().zip((self.of)(wait, total)) {
            *sum += value;
        }
        self.count += 1;
        if self.count == self.length {
            self.means.push(self.sums.map(|sum| sum / self.length as f64));
            (self.sums, self.count) = ([0.0; N], 0);
        }
    }
}

const SEEDS: u64 = 5;
const BATCHES: usize = 20;

/// Confidence intervals of functions of wait and total time. Omits the first batch, because the
/// pool starts empty.
fn measured<const N: usize>(
    pool: &Pool,
    world: World,
    arrivals: &Arrivals,
    mix: &Mix,
    batch: usize,
    of: &dyn Fn(Nanos, Nanos) -> [f64; N],
) -> [Interval; N] {
    let mut all: Vec<[f64; N]> = Vec::new();
    for seed in 1..=SEEDS {
        let mut batches = Batches { of, length: batch, sums: [0.0; N], count: 0, means: Vec::new() };
        let count = Limit::Count((batch * (BATCHES + 3)) as u64);
        simulate(
            pool,
            world,
            Stream::new(std::slice::from_ref(arrivals), count, mix, seed),
            &Observe::default(),
            &mut batches,
        );
        all.extend_from_slice(&batches.means[1..]);
    }
    std::array::from_fn(|at| Interval::of(&all.iter().map(|means| means[at]).collect::<Vec<f64>>()))
}

/// A load of 10 ms tasks that uses a `share` of the capacity of `threads`.
fn poisson(threads: usize, share: f64) -> Arrivals {
    Arrivals::Poisson(threads as f64 * share * 100.0)
}

fn formula(arrivals: &Arrivals, mix: &Mix, pool: &Pool, world: World) -> ClosedForm {
    closed_form(std::slice::from_ref(arrivals), mix, pool, world).expect("a formula").expect("no overload")
}

#[test]
fn erlangs_formulas_have_the_values_of_the_tables() {
    // One thread: B = a / (1 + a), C = a.
    assert!((erlang_b(0.5, 1) - 1.0 / 3.0).abs() < 1e-15);
    assert!((erlang_c(0.5, 1) - 0.5).abs() < 1e-15);
    // Two threads that are half busy: C = 1/3.
    assert!((erlang_c(1.0, 2) - 1.0 / 3.0).abs() < 1e-15);
    // From published tables of B.
    assert!((erlang_b(10.0, 10) - 0.214_582).abs() < 1e-6);
    assert!((erlang_b(5.0, 10) - 0.018_385).abs() < 1e-6);
    assert!((erlang_b(100.0, 100) - 0.075_700).abs() < 1e-6);
    // Thousands of threads cause no overflow.
    assert!((0.0..1.0).contains(&erlang_c(9990.0, 10_000)));
}

#[test]
fn a_bounded_queue_is_between_erlang_b_and_erlang_c() {
    let (load, threads, mean) = (4.0, 5, 20.0 * MS);
    let none = bounded(load, threads, 0, mean);
    assert!((none.rejected.unwrap() - erlang_b(load, threads)).abs() < 1e-12);
    let long = bounded(load, threads, 10_000, mean);
    let open = erlang_c_form(load, threads, mean);
    assert!(long.rejected.unwrap() < 1e-12);
    assert!((long.wait_mean.unwrap() / open.wait_mean.unwrap() - 1.0).abs() < 1e-9);
    assert!((long.waited.unwrap() / open.waited.unwrap() - 1.0).abs() < 1e-9);
    // One thread, one place, a load of 1: three equally likely states.
    let small = bounded(1.0, 1, 1, mean);
    assert!((small.rejected.unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert!((small.wait_mean.unwrap() - mean / 2.0).abs() < 1e-3);
    // An extreme load fills any queue, and the numbers do not overflow.
    let flooded = bounded(50.0, 5, 1_000_000, mean);
    assert!((flooded.rejected.unwrap() - 0.9).abs() < 1e-9, "{flooded:?}");
}

#[test]
fn the_simulator_is_erlang_c_within_its_interval() {
    // Threads, utilisation, and the length of a batch.
    for (threads, share, batch) in [(1, 0.5, 4000), (2, 0.8, 8000), (5, 0.7, 6000), (20, 0.9, 12_000)] {
        let tasks = mix(Length::Exponential(10.0 * MS), 0.0);
        let arrivals = poisson(threads, share);
        let pool = Pool::fixed(threads, None);
        let expected = formula(&arrivals, &tasks, &pool, ENOUGH_CORES);
        assert_eq!(expected.name, "Erlang C");
        let (mean, p99) = (expected.wait_mean.unwrap(), expected.wait.unwrap()[2]);
        let one_if = |holds: bool| f64::from(u8::from(holds));
        let [wait, waited, beyond] = measured(&pool, ENOUGH_CORES, &arrivals, &tasks, batch, &|wait, _| {
            [wait as f64, one_if(wait > 0), one_if(wait as f64 > p99)]
        });
        let name = format!("{threads} threads at {share}");

        assert!(wait.contains(mean), "{name}: mean wait {mean}, measured {wait:?}");
        // The interval is narrow: 4 % more or less load is outside.
        for factor in [0.96, 1.04] {
            let other = formula(&arrivals.scaled(factor), &tasks, &pool, ENOUGH_CORES).wait_mean.unwrap();
            assert!(!wait.contains(other), "{name}: {wait:?} is so wide that it contains {other}");
        }
        assert!(waited.contains(expected.waited.unwrap()), "{name}: {expected:?}, measured {waited:?}");
        // One task in a hundred waits longer than the 99th percentile.
        assert!(beyond.contains(0.01), "{name}: beyond {p99}: {beyond:?}");
    }
}

/// One batch per seed, because a watcher does not see refused tasks.
fn rejected(pool: &Pool, arrivals: &Arrivals, tasks: &Mix) -> Interval {
    let shares: Vec<f64> = (1..=100)
        .map(|seed| {
            let stream = Stream::new(std::slice::from_ref(arrivals), Limit::Count(4000), tasks, seed);
            simulate(pool, ENOUGH_CORES, stream, &Observe::default(), &mut ()).lost_share()
        })
        .collect();
    Interval::of(&shares)
}

#[test]
fn the_simulator_refuses_as_many_as_the_formulas_say() {
    let exponential = mix(Length::Exponential(10.0 * MS), 0.0);
    let log_normal = mix(Length::LogNormal(8.0 * MS, 0.668), 0.0); // about 10 ms on average
    for (threads, share, queue, tasks) in [
        (5, 0.9, 0, &exponential),
        (5, 0.9, 0, &log_normal), // Erlang B holds for any distribution of lengths
        (2, 0.9, 5, &exponential),
        (4, 1.3, 8, &exponential), // above its capacity
    ] {
        let (pool, arrivals) = (Pool::fixed(threads, Some(queue)), poisson(threads, share));
        let expected = formula(&arrivals, tasks, &pool, ENOUGH_CORES).rejected.unwrap();
        let measured = rejected(&pool, &arrivals, tasks);
        assert!(measured.contains(expected), "{pool:?}: {expected}, measured {measured:?}");
        assert!(measured.half < 0.05 * expected, "{measured:?}");
    }
}

#[test]
fn the_simulator_is_pollaczek_khinchine_for_one_thread_and_any_lengths() {
    for (length, batch) in [
        (Length::Fixed(10.0 * MS), 4000),
        (Length::Uniform(0.0, 20.0 * MS), 4000),
        (Length::LogNormal(8.0 * MS, 0.668), 8000),
    ] {
        let (tasks, arrivals, pool) = (mix(length, 0.0), poisson(1, 0.7), Pool::fixed(1, None));
        let expected = formula(&arrivals, &tasks, &pool, ENOUGH_CORES);
        assert_eq!(expected.name, "M/G/1");
        let [wait] = measured(&pool, ENOUGH_CORES, &arrivals, &tasks, batch, &|wait, _| [wait as f64]);
        assert!(wait.contains(expected.wait_mean.unwrap()), "{length:?}: {expected:?}, measured {wait:?}");
        assert!(wait.half < 0.06 * wait.mean, "{length:?}: {wait:?}");
    }
}

/// The mean time of a task on a shared core depends on the mean duration only.
#[test]
fn the_simulator_shares_a_core_as_the_formula_says() {
    for (length, batch) in [
        (Length::Fixed(10.0 * MS), 4000),
        (Length::Exponential(10.0 * MS), 4000),
        (Length::LogNormal(8.0 * MS, 0.668), 6000),
    ] {
        let (tasks, arrivals) = (mix(length, 1.0), poisson(1, 0.7));
        let world = World { cores: 1, one_caller: false };
        let expected = formula(&arrivals, &tasks, &Pool::unlimited(), world);
        assert_eq!(expected.name, "M/G/1-PS");
        let [total] =
            measured(&Pool::unlimited(), world, &arrivals, &tasks, batch, &|_, total| [total as f64]);
        assert!(total.contains(expected.total_mean.unwrap()), "{length:?}: {expected:?}, measured {total:?}");
        assert!(total.half < 0.05 * total.mean, "{length:?}: {total:?}");
    }
}

#[test]
fn threads_that_share_enough_cores_do_as_if_they_only_waited() {
    let arrivals = poisson(3, 0.8);
    let (computes, waits) =
        (mix(Length::Exponential(10.0 * MS), 1.0), mix(Length::Exponential(10.0 * MS), 0.0));
    let world = World { cores: 3, one_caller: false };
    let computing = formula(&arrivals, &computes, &Pool::fixed(3, None), world);
    assert_eq!(computing, formula(&arrivals, &waits, &Pool::fixed(3, None), world));
    let tight = World { cores: 2, ..world };
    assert_eq!(closed_form(&[arrivals], &computes, &Pool::fixed(3, None), tight), None);
}

#[test]
fn where_no_formula_holds_none_is_given() {
    let tasks = mix(Length::Exponential(10.0 * MS), 0.0);
    let poisson = [Arrivals::Poisson(100.0)];
    let none = |arrivals: &[Arrivals], tasks: &Mix, pool: Pool| {
        assert_eq!(closed_form(arrivals, tasks, &pool, ENOUGH_CORES), None, "{pool:?}");
    };
    none(&[Arrivals::Constant(100.0)], &tasks, Pool::fixed(4, None));
    none(&poisson, &mix(Length::Fixed(10.0 * MS), 0.0), Pool::fixed(4, None));
    none(&poisson, &mix(Length::Fixed(10.0 * MS), 0.0), Pool::fixed(4, Some(3)));
    // The number of threads depends on the history.
    none(&poisson, &tasks, Pool { maximum: 8, ..Pool::fixed(4, Some(3)) });
    none(&poisson, &tasks, Pool { policy: Policy::CallerRuns, ..Pool::fixed(4, Some(3)) });
    none(&poisson, &tasks, Pool { policy: Policy::DiscardOldest, ..Pool::fixed(4, Some(3)) });
}

#[test]
fn a_formula_is_chosen_by_what_the_pool_does_and_not_by_what_it_is_called() {
    let tasks = mix(Length::Exponential(10.0 * MS), 0.0);
    let poisson = [Arrivals::Poisson(100.0), Arrivals::Poisson(200.0)];
    let model = |pool: Pool| match closed_form(&poisson, &tasks, &pool, ENOUGH_CORES) {
        Some(Ok(formula)) => formula.model,
        other => format!("{other:?}"),
    };
    assert_eq!(model(Pool::fixed(4, None)), "M/M/4");
    assert_eq!(
        model(Pool { maximum: 9, ..Pool::fixed(4, None) }),
        "M/M/4",
        "an unbounded queue is never full"
    );
    assert_eq!(model(Pool { rule: GrowthRule::Eager, maximum: 9, ..Pool::fixed(4, None) }), "M/M/9");
    assert_eq!(model(Pool { policy: Policy::Block(None), ..Pool::fixed(4, Some(7)) }), "M/M/4");
    assert_eq!(model(Pool::fixed(4, Some(7))), "M/M/4/11");
    assert_eq!(model(Pool { maximum: 6, ..Pool::fixed(4, Some(0)) }), "M/G/6/6");
    assert_eq!(model(Pool::unlimited()), "M/G/inf");
    let overload = closed_form(&poisson, &tasks, &Pool::fixed(3, None), ENOUGH_CORES);
    assert_eq!(overload, Some(Err(Overload { load: 3.0, threads: 3 })));
}

/// The values were computed independently: M/M/41/159 at a load of 40, tasks of 20 ms.
#[test]
fn bounded_queue_has_known_loss_and_percentile() {
    let steady = Steady::new(40.0, 41, Some(118), 20.0 * MS);
    assert!((steady.lost() - 0.001_139).abs() < 5e-7, "{}", steady.lost());
    let p99 = steady.percentile(Judged::Total, 0.99);
    assert!((p99 / MS - 112.2).abs() < 0.05, "{p99}");
    // The shortest queue that refuses at most 0.1 % has 124 places.
    assert!(steady.with_places(123).lost() > 0.001 && steady.with_places(124).lost() <= 0.001);
}

#[test]
fn distribution_of_a_bounded_queue_has_its_limits() {
    for (load, threads) in [(0.7, 1), (4.0, 5), (40.0, 43), (9.0, 10)] {
        let open = Steady::new(load, threads, None, 20.0 * MS);
        let long = open.with_places(3000);
        for of in [Judged::Wait, Judged::Total] {
            for limit in [0.0, 5.0, 20.0, 90.0, 150.0] {
                let (one, other) = (open.late(of, limit * MS), long.late(of, limit * MS));
                assert!((one - other).abs() < 1e-9, "{threads} threads, {of:?} {limit} ms: {one} {other}");
            }
        }
    }
    // No place to wait: the total time is the duration.
    let none = Steady::new(4.0, 5, Some(0), 20.0 * MS);
    assert_eq!(none.late(Judged::Wait, 0.0), 0.0);
    assert!((none.late(Judged::Total, 40.0 * MS) - libm::exp(-2.0)).abs() < 1e-12);
    // One thread, one place, a load of 1: half of the accepted tasks wait for one exponential time.
    let small = Steady::new(1.0, 1, Some(1), 20.0 * MS);
    assert!((small.late(Judged::Wait, 20.0 * MS) - 0.5 * libm::exp(-1.0)).abs() < 1e-12);
    let total = 0.5 * libm::exp(-1.0) + 0.5 * 2.0 * libm::exp(-1.0);
    assert!((small.late(Judged::Total, 20.0 * MS) - total).abs() < 1e-12);
    // A load at which no task ever waits, and an extreme overload.
    assert_eq!(Steady::new(0.01, 500, Some(10), 20.0 * MS).lost(), 0.0);
    assert!((Steady::new(50.0, 5, Some(1_000_000), 20.0 * MS).lost() - 0.9).abs() < 1e-9);
}

#[test]
fn simulator_has_the_distribution_of_the_formula() {
    for (threads, share, queue) in [(1, 0.8, 6), (5, 0.8, 22), (4, 0.9, 12)] {
        let tasks = mix(Length::Exponential(10.0 * MS), 0.0);
        let (arrivals, pool) = (poisson(threads, share), Pool::fixed(threads, Some(queue)));
        let expected = formula(&arrivals, &tasks, &pool, ENOUGH_CORES);
        let (wait, total) = (expected.wait.expect("known")[1], expected.total.expect("known")[2]);
        let one_if = |holds: bool| f64::from(u8::from(holds));
        let [waits, totals] =
            measured(&pool, ENOUGH_CORES, &arrivals, &tasks, 6000, &|seen_wait, seen_total| {
                [one_if(seen_wait as f64 > wait), one_if(seen_total as f64 > total)]
            });
        assert!(waits.contains(0.1), "{threads} threads: wait {waits:?}");
        assert!(totals.contains(0.01), "{threads} threads: total {totals:?}");
    }
}
