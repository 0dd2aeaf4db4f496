//! Compares the simulated pool with guarantees of the real one and with figures computed by hand.

use super::*;

const S: Nanos = 1_000_000_000;
const MS: Nanos = 1_000_000;

const MANY: World = World { cores: 1_000_000, one_caller: false };
const ONE: World = World { one_caller: true, ..MANY };

fn pool(core: usize, maximum: usize, queue: Option<usize>) -> Pool {
    Pool { maximum, ..Pool::fixed(core, queue) }
}

/// `count` tasks that arrive at time zero and wait for `wait`.
fn at_once(count: usize, wait: Nanos) -> Vec<Task> {
    vec![Task { arrival: 0, wait, compute: 0 }; count]
}

fn run(pool: &Pool, world: World, tasks: &[Task]) -> Figures {
    simulate(pool, world, tasks.iter().copied(), &Observe::default(), &mut ())
}

/// Keeps arrival, wait and total time of each task, in the order in which they end.
#[derive(Default)]
struct Diary(Vec<(Nanos, Nanos, Nanos)>);

impl Watch for Diary {
    fn finished(&mut self, arrival: Nanos, wait: Nanos, total: Nanos) {
        self.0.push((arrival, wait, total));
    }
}

fn diary(pool: &Pool, world: World, tasks: &[Task]) -> Vec<(Nanos, Nanos, Nanos)> {
    let mut diary = Diary::default();
    simulate(pool, world, tasks.iter().copied(), &Observe::default(), &mut diary);
    diary.0
}

/// Random tasks with a mean distance of `gap` and a mean duration of `length`.
fn random(seed: u64, count: usize, gap: Nanos, length: Nanos, cpu: f64) -> Vec<Task> {
    let mix = Mix::new(vec![
        Kind { weight: 0.7, length: Length::Exponential(length as f64), cpu },
        Kind { weight: 0.3, length: Length::Uniform(0.0, 2.0 * length as f64), cpu: cpu / 2.0 },
    ]);
    let arrivals = [Arrivals::Poisson(1e9 / gap as f64)];
    Stream::new(&arrivals, Limit::Count(count as u64), &mix, seed).collect()
}

#[test]
fn a_pool_grows_when_its_queue_is_full_and_rejects_at_its_maximum() {
    for (tasks, threads, rejected) in [(2, 2, 0), (6, 2, 0), (7, 3, 0), (8, 4, 0), (9, 4, 1)] {
        let figures = run(&pool(2, 4, Some(4)), MANY, &at_once(tasks, S));
        assert_eq!((figures.levels.peak_threads, figures.rejected), (threads, rejected), "{tasks} tasks");
    }
    let figures = run(&pool(2, 4, None), MANY, &at_once(9, S));
    assert_eq!((figures.levels.peak_threads, figures.rejected, figures.end), (2, 0, 5 * S));
}

#[test]
fn hundred_to_two_hundred_threads_and_queue_of_thousand_admit_1200_tasks() {
    let custom = pool(100, 200, Some(1000));
    let outcome = |tasks| {
        let figures = run(&custom, MANY, &at_once(tasks, S));
        (figures.levels.peak_threads, figures.rejected, figures.end / S)
    };
    assert_eq!(outcome(1100), (100, 0, 11));
    assert_eq!(outcome(1200), (200, 0, 6));
    assert_eq!(outcome(1201), (200, 1, 6));
}

#[test]
fn eager_pool_grows_to_its_maximum_before_it_queues() {
    let eager = Pool { rule: GrowthRule::Eager, ..pool(1, 4, Some(4)) };
    for (tasks, threads, queued, rejected) in [(3, 3, 0, 0), (4, 4, 0, 0), (8, 4, 4, 0), (9, 4, 4, 1)] {
        let figures = run(&eager, MANY, &at_once(tasks, S));
        let levels = &figures.levels;
        assert_eq!((levels.peak_threads, levels.peak_queue, figures.rejected), (threads, queued, rejected));
    }
    // An idle worker is used before a new one is started.
    let apart: Vec<Task> = (0..5).map(|k| Task { arrival: k * 2 * S, wait: S, compute: 0 }).collect();
    assert_eq!(run(&eager, MANY, &apart).levels.peak_threads, 1);
}

#[test]
fn synchronous_queue_admits_only_for_an_idle_worker() {
    let cached = pool(0, usize::MAX, Some(0));
    let figures = run(&cached, MANY, &at_once(50, S));
    assert_eq!((figures.levels.peak_threads, figures.waited, figures.end), (50, 0, S));
    let narrow = pool(0, 3, Some(0));
    let figures = run(&narrow, MANY, &at_once(5, S));
    assert_eq!((figures.levels.peak_threads, figures.rejected), (3, 2));
}

#[test]
fn pool_without_core_threads_starts_one_for_its_queue() {
    let figures = run(&pool(0, 2, Some(10)), MANY, &at_once(5, S));
    assert_eq!((figures.levels.peak_threads, figures.completed, figures.end), (1, 5, 5 * S));
}

#[test]
fn extra_threads_exit_after_keep_alive_and_core_threads_only_with_time_out() {
    let mut tasks = at_once(6, 2 * S);
    tasks.push(Task { arrival: 20 * S, wait: S, compute: 0 });
    let threads_at = |pool: &Pool, at: Nanos| {
        let figures = run(pool, MANY, &tasks);
        let bin = figures.levels.curve().take_while(|(begin, _)| *begin <= at).last();
        bin.expect("it has begun").1.threads
    };
    let usual = Pool { keep_alive: S, ..pool(2, 4, Some(2)) };
    assert_eq!(threads_at(&usual, 3 * S), 4);
    assert_eq!(threads_at(&usual, 10 * S), 2);
    let to_nothing = Pool { core_time_out: true, ..usual.clone() };
    assert_eq!(threads_at(&to_nothing, 10 * S), 0);
    let patient = Pool { keep_alive: 15 * S, ..usual };
    assert_eq!(threads_at(&patient, 10 * S), 4);
}

#[test]
fn longest_idle_worker_exits_first_and_newest_gets_the_next_task() {
    // Two extra threads, then one task per second: one of them stays busy, the other exits.
    let mut tasks = at_once(3, S / 2);
    tasks.extend((1..20).map(|k| Task { arrival: k * S, wait: S / 2, compute: 0 }));
    let figures = run(&Pool { keep_alive: 3 * S, ..pool(0, 3, Some(0)) }, MANY, &tasks);
    let last = figures.levels.curve().last().expect("a curve").1.threads;
    assert_eq!((figures.levels.peak_threads, last), (3, 1));
}

#[test]
fn refused_tasks_are_rejected_discarded_or_run_by_the_caller() {
    let tasks: Vec<Task> = (0..10).map(|k| Task { arrival: k, wait: 2 * S, compute: 0 }).collect();
    let with = |policy| Pool { policy, ..pool(2, 4, Some(2)) };

    let abort = run(&with(Policy::Abort), MANY, &tasks);
    assert_eq!((abort.completed, abort.rejected, abort.discarded), (6, 4, 0));

    let discard = run(&with(Policy::Discard), MANY, &tasks);
    assert_eq!((discard.completed, discard.rejected, discard.discarded), (6, 0, 4));

    // The third and fourth were queued first. Each later task replaced the oldest, so the last
    // two remain.
    let oldest = diary(&with(Policy::DiscardOldest), MANY, &tasks);
    let mut arrivals: Vec<Nanos> = oldest.iter().map(|(arrival, ..)| *arrival).collect();
    arrivals.sort_unstable();
    assert_eq!(arrivals, [0, 1, 4, 5, 8, 9]);
    assert_eq!(run(&with(Policy::DiscardOldest), MANY, &tasks).discarded, 4);

    let callers = run(&with(Policy::CallerRuns), MANY, &tasks);
    assert_eq!((callers.completed, callers.in_caller, callers.lost()), (10, 4, 0));
    assert_eq!((callers.levels.peak_threads, callers.end), (4, 4 * S + 1));

    // The caller is busy with its own task for two seconds. Then four workers are idle, and two of
    // them take the queued tasks.
    let caller = run(&with(Policy::CallerRuns), ONE, &tasks);
    assert_eq!((caller.completed, caller.in_caller), (10, 1));
    assert_eq!(caller.end / S, 6);
}

#[test]
fn discard_oldest_on_an_empty_queue_rejects() {
    let tasks = at_once(3, S);
    let figures = run(&Pool { policy: Policy::DiscardOldest, ..pool(0, 2, Some(0)) }, MANY, &tasks);
    assert_eq!((figures.completed, figures.rejected, figures.discarded), (2, 1, 0));
}

#[test]
fn blocked_caller_is_admitted_or_times_out() {
    let tasks = at_once(10, 2 * S);
    let with = |policy| Pool { policy, ..pool(2, 4, Some(2)) };
    for world in [MANY, ONE] {
        let block = run(&with(Policy::Block(None)), world, &tasks);
        assert_eq!((block.completed, block.lost(), block.end), (10, 0, 6 * S));
    }
    let each_for_a_second = run(&with(Policy::Block(Some(S))), MANY, &tasks);
    assert_eq!((each_for_a_second.completed, each_for_a_second.rejected), (6, 4));
    // The caller times out on the seventh after a second; the eighth is admitted a second later.
    let one = run(&with(Policy::Block(Some(S))), ONE, &tasks);
    assert_eq!((one.completed, one.rejected), (9, 1));
}

#[test]
fn blocked_callers_wait_as_long_as_in_an_unbounded_queue() {
    let tasks = random(3, 5000, MS, 4 * MS, 0.0);
    let mut open = diary(&pool(5, 5, None), MANY, &tasks);
    for world in [MANY, ONE] {
        let mut block = diary(&Pool { policy: Policy::Block(None), ..pool(5, 5, Some(3)) }, world, &tasks);
        block.sort_unstable();
        open.sort_unstable();
        assert_eq!(block, open);
    }
}

/// Waiting times on `servers` servers, first come, first served: each task goes to the server that
/// is free first. A second, simpler computation of the same figures.
fn waits_by_hand(tasks: &[Task], servers: usize) -> Vec<Nanos> {
    let mut free_at = vec![0; servers];
    let wait = |task: &Task| {
        let first = free_at.iter_mut().min().expect("a server");
        let start = task.arrival.max(*first);
        *first = start + task.wait + task.compute;
        start - task.arrival
    };
    tasks.iter().map(wait).collect()
}

#[test]
fn every_wait_equals_that_of_first_come_first_served_servers() {
    for (servers, seed) in [(1, 1), (2, 2), (7, 3), (40, 4)] {
        let tasks = random(seed, 20_000, MS, servers as Nanos * MS * 9 / 10, 0.0);
        let by_hand = waits_by_hand(&tasks, servers);
        assert!(by_hand.iter().filter(|wait| **wait > 0).count() > 1000, "the load must make tasks wait");
        let mut seen = diary(&pool(servers, servers, None), MANY, &tasks);
        seen.sort_unstable();
        let mut expected: Vec<_> = tasks
            .iter()
            .zip(by_hand)
            .map(|(task, wait)| (task.arrival, wait, wait + task.wait + task.compute))
            .collect();
        expected.sort_unstable();
        assert_eq!(seen, expected, "{servers} servers");
    }
}

#[test]
fn computing_tasks_share_the_cores_evenly() {
    let compute = |times: &[(Nanos, Nanos)]| -> Vec<Task> {
        times
            .iter()
            .map(|(arrival, compute)| Task { arrival: *arrival, wait: 0, compute: *compute })
            .collect()
    };
    let ends = |cores: usize, tasks: &[Task]| {
        let world = World { cores, one_caller: false };
        let diary = diary(&pool(100, 100, None), world, tasks);
        diary.iter().map(|(arrival, _, total)| arrival + total).collect::<Vec<Nanos>>()
    };
    assert_eq!(ends(1, &compute(&[(0, S), (0, S)])), [2 * S, 2 * S]);
    assert_eq!(ends(1, &compute(&[(0, S), (0, 2 * S)])), [2 * S, 3 * S]);
    assert_eq!(ends(2, &compute(&[(0, S), (0, 2 * S)])), [S, 2 * S]);
    // Three tasks on two cores get two thirds each. After the first ends, the others get a core
    // each.
    assert_eq!(ends(2, &compute(&[(0, 2 * S), (0, 4 * S), (0, 4 * S)])), [3 * S, 5 * S, 5 * S]);
    // The second arrives when the first is half done.
    assert_eq!(ends(1, &compute(&[(0, S), (S / 2, S / 4)])), [S, S * 5 / 4]);
    // Waiting needs no core.
    let waits = [Task { arrival: 0, wait: S, compute: S }, Task { arrival: 0, wait: 3 * S, compute: S }];
    assert_eq!(ends(1, &waits), [2 * S, 4 * S]);
}

#[test]
fn busy_cores_do_exactly_the_work_of_the_tasks() {
    let tasks = random(9, 5000, MS, 2 * MS, 1.0);
    let work: Nanos = tasks.iter().map(|task| task.compute).sum();
    let world = World { cores: 3, one_caller: false };
    let figures = run(&pool(64, 64, None), world, &tasks);
    let done = figures.levels.mean_cores() * figures.end as f64;
    // An event is at most 1 ns late, and a task has two.
    assert!((done - work as f64).abs() < 3.0 * 10_000.0, "{done} of {work}");
}

#[test]
fn every_task_completes_or_is_counted_as_lost_and_limits_hold() {
    let mut pools = Vec::new();
    for (core, maximum) in [(0, 1), (0, 5), (2, 2), (2, 6), (9, 9)] {
        for queue in [None, Some(0), Some(1), Some(10)] {
            for rule in [GrowthRule::QueueFirst, GrowthRule::Eager] {
                for policy in [
                    Policy::Abort,
                    Policy::Discard,
                    Policy::DiscardOldest,
                    Policy::CallerRuns,
                    Policy::Block(None),
                    Policy::Block(Some(3 * MS)),
                ] {
                    let core_time_out = core == 2;
                    pools.push(Pool {
                        keep_alive: 2 * MS,
                        core_time_out,
                        rule,
                        policy,
                        ..pool(core, maximum, queue)
                    });
                }
            }
        }
    }
    for (at, pool) in pools.iter().enumerate() {
        let tasks = random(at as u64, 400, MS, 5 * MS, 0.3);
        for world in [World { cores: 2, one_caller: false }, World { cores: 1, one_caller: true }] {
            let figures = run(pool, world, &tasks);
            let levels = &figures.levels;
            assert_eq!(figures.arrived, 400, "{pool:?}");
            assert_eq!(figures.arrived, figures.completed + figures.lost(), "{pool:?}");
            assert!(levels.peak_threads <= pool.maximum, "{pool:?}: {}", levels.peak_threads);
            assert!(levels.mean_busy() <= levels.mean_threads(), "{pool:?}");
            assert!(levels.mean_cores() <= world.cores as f64, "{pool:?}");
            if let (Some(capacity), false) = (pool.queue, matches!(pool.policy, Policy::Block(_))) {
                assert!(levels.peak_queue <= capacity, "{pool:?}: {}", levels.peak_queue);
            }
        }
    }
}

/// Little's law is exact over a period that begins and ends with an empty pool.
#[test]
fn littles_law_holds_exactly() {
    for policy in [Policy::Abort, Policy::Block(None), Policy::CallerRuns] {
        let tasks = random(4, 10_000, MS, 5 * MS, 0.4);
        let pool = Pool { policy, ..pool(3, 6, Some(8)) };
        let figures = run(&pool, World { cores: 2, one_caller: false }, &tasks);
        let by_little = figures.throughput() / 1e9 * figures.totals.mean();
        let ratio = figures.levels.mean_inside() / by_little;
        assert!((ratio - 1.0).abs() < 1e-9, "{policy:?}: {ratio}");
    }
}

#[test]
fn tasks_of_no_length_do_not_recurse() {
    let mut tasks = vec![Task { arrival: 0, wait: S, compute: 0 }];
    tasks.extend(vec![Task { arrival: 0, wait: 0, compute: 0 }; 200_000]);
    let figures = run(&pool(1, 1, None), MANY, &tasks);
    assert_eq!((figures.completed, figures.end, figures.waits.most()), (200_001, S, S));
}

#[test]
fn run_ends_early_only_if_it_exceeds_its_goal() {
    let tasks = at_once(10, S);
    let goal = |of, limit, most_late, most_lost| {
        let goal = Goal { bounds: vec![Bound { of, limit, most_late }], most_lost };
        let observe = Observe { warm_up: 0, goal };
        simulate(&pool(1, 1, Some(5)), MANY, tasks.iter().copied(), &observe, &mut ())
    };
    // Six run one after the other; four are rejected.
    let met = goal(Judged::Total, 4 * S, 2, 4);
    assert_eq!((met.given_up, met.late, met.completed), (false, vec![2], 6));
    assert!(goal(Judged::Total, 4 * S, 1, 4).given_up);
    assert!(goal(Judged::Total, 4 * S, 2, 3).given_up);
    assert!(!goal(Judged::Wait, 4 * S, 1, 4).given_up, "only the last waits for five seconds");
    assert!(goal(Judged::Wait, 4 * S, 0, 4).given_up);
}

#[test]
fn same_seed_gives_same_figures_and_another_seed_others() {
    let pool = pool(3, 6, Some(8));
    let world = World { cores: 2, one_caller: false };
    let figures = |seed| format!("{:?}", run(&pool, world, &random(seed, 5000, MS, 4 * MS, 0.5)));
    assert_eq!(figures(1), figures(1));
    assert_ne!(figures(1), figures(2));
}

/// A change here changes every published plan, and belongs into the changelog.
#[test]
fn a_seed_gives_known_figures() {
    let tasks = random(42, 20_000, MS, 4 * MS, 0.5);
    let figures = run(&pool(3, 6, Some(8)), World { cores: 2, one_caller: false }, &tasks);
    let numbers =
        [figures.completed, figures.waited, figures.waits.most(), figures.totals.most(), figures.end];
    assert_eq!(numbers, [19_158, 10_710, 20_370_416, 53_117_962, 20_165_580_690]);
}

#[test]
fn arrivals_and_durations_use_separate_random_numbers() {
    let draw = |length| {
        let mix = Mix::new(vec![Kind { weight: 1.0, length, cpu: 0.0 }]);
        let arrivals = [Arrivals::Poisson(1000.0)];
        Stream::new(&arrivals, Limit::Count(100), &mix, 5).map(|task| task.arrival).collect::<Vec<_>>()
    };
    assert_eq!(draw(Length::Fixed(1.0)), draw(Length::LogNormal(1e6, 1.0)));
    let first = |stream| Chance::new(5, stream).unit();
    assert!(first(0) != first(1) && first(1) != first(2));
}

#[test]
fn tasks_of_the_warm_up_load_the_pool_but_are_not_counted() {
    // One thread. A task of ten seconds at time zero, then a task of one second every second: the
    // second of these waits for the first.
    let task = |at: Nanos, wait: Nanos| Task { arrival: at, wait, compute: 0 };
    let tasks = [task(0, 10 * S), task(S, S), task(5 * S, S), task(30 * S, S)];
    let observe = Observe { warm_up: 5 * S, goal: Goal::default() };
    let figures = simulate(&pool(1, 1, None), MANY, tasks.iter().copied(), &observe, &mut ());
    assert_eq!((figures.arrived, figures.completed, figures.waited), (2, 2, 1));
    assert_eq!(figures.waits.most(), 6 * S);
    // Busy from 5 to 12 and from 30 to 31, of 26 seconds.
    assert!((figures.levels.mean_busy() - 8.0 / 26.0).abs() < 1e-12);
    assert!((figures.throughput() - 2.0 / 26.0).abs() < 1e-12);
    // Rejections during the warm-up are not counted either.
    let figures = simulate(&pool(1, 1, Some(1)), MANY, tasks.iter().copied(), &observe, &mut ());
    assert_eq!((figures.arrived, figures.lost()), (2, 1));
    let later = Observe { warm_up: 6 * S, goal: Goal::default() };
    let figures = simulate(&pool(1, 1, Some(1)), MANY, tasks.iter().copied(), &later, &mut ());
    assert_eq!((figures.arrived, figures.lost()), (1, 0));
}
