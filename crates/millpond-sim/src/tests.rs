//! What the pool in virtual time does, beside what the real one promises and what can be worked out by hand.

use super::chance::Chance;
use super::*;

const S: Nanos = 1_000_000_000;
const MS: Nanos = 1_000_000;

const MANY: World = World { cores: 1_000_000, one_caller: false };
const ONE: World = World { one_caller: true, ..MANY };

fn pool(core: usize, maximum: usize, queue: Option<usize>) -> Pool {
    Pool { maximum, ..Pool::fixed(core, queue) }
}

/// So many tasks at once that each wait for so long.
fn at_once(count: usize, wait: Nanos) -> Vec<Task> {
    vec![Task { arrival: 0, wait, compute: 0 }; count]
}

fn run(pool: &Pool, world: World, tasks: &[Task]) -> Figures {
    simulate(pool, world, tasks.iter().copied(), None, &mut ())
}

/// Keeps arrival, wait and total of each task, in the order in which they end.
#[derive(Default)]
struct Diary(Vec<(Nanos, Nanos, Nanos)>);

impl Watch for Diary {
    fn finished(&mut self, arrival: Nanos, wait: Nanos, total: Nanos) {
        self.0.push((arrival, wait, total));
    }
}

fn diary(pool: &Pool, world: World, tasks: &[Task]) -> Vec<(Nanos, Nanos, Nanos)> {
    let mut diary = Diary::default();
    simulate(pool, world, tasks.iter().copied(), None, &mut diary);
    diary.0
}

/// Random tasks: arrivals apart by `gap` on average, each as long as `length` on average.
fn random(seed: u64, count: usize, gap: Nanos, length: Nanos, cpu: f64) -> Vec<Task> {
    let mix = Mix::new(vec![
        Kind { weight: 0.7, length: Length::Exponential(length as f64), cpu },
        Kind { weight: 0.3, length: Length::Uniform(0.0, 2.0 * length as f64), cpu: cpu / 2.0 },
    ]);
    let arrivals = [Arrivals::Poisson(1e9 / gap as f64)];
    Stream::new(&arrivals, Limit::Count(count as u64), &mix, seed).collect()
}

#[test]
fn a_pool_grows_only_when_its_queue_is_full_and_rejects_when_nothing_is_left() {
    for (tasks, threads, rejected) in [(2, 2, 0), (6, 2, 0), (7, 3, 0), (8, 4, 0), (9, 4, 1)] {
        let figures = run(&pool(2, 4, Some(4)), MANY, &at_once(tasks, S));
        assert_eq!((figures.levels.peak_threads, figures.rejected), (threads, rejected), "{tasks} tasks");
    }
    let figures = run(&pool(2, 4, None), MANY, &at_once(9, S));
    assert_eq!((figures.levels.peak_threads, figures.rejected, figures.end), (2, 0, 5 * S));
}

#[test]
fn a_hundred_threads_and_a_thousand_places_take_twelve_hundred_tasks_and_not_one_more() {
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
fn an_eager_pool_has_as_many_threads_as_tasks_before_it_uses_its_queue() {
    let eager = Pool { rule: GrowthRule::Eager, ..pool(1, 4, Some(4)) };
    for (tasks, threads, queued, rejected) in [(3, 3, 0, 0), (4, 4, 0, 0), (8, 4, 4, 0), (9, 4, 4, 1)] {
        let figures = run(&eager, MANY, &at_once(tasks, S));
        let levels = &figures.levels;
        assert_eq!((levels.peak_threads, levels.peak_queue, figures.rejected), (threads, queued, rejected));
    }
    // A free worker is used before a new one is made.
    let apart: Vec<Task> = (0..5).map(|k| Task { arrival: k * 2 * S, wait: S, compute: 0 }).collect();
    assert_eq!(run(&eager, MANY, &apart).levels.peak_threads, 1);
}

#[test]
fn a_synchronous_queue_takes_a_task_only_for_a_worker_that_waits() {
    let cached = pool(0, usize::MAX, Some(0));
    let figures = run(&cached, MANY, &at_once(50, S));
    assert_eq!((figures.levels.peak_threads, figures.waited, figures.end), (50, 0, S));
    let narrow = pool(0, 3, Some(0));
    let figures = run(&narrow, MANY, &at_once(5, S));
    assert_eq!((figures.levels.peak_threads, figures.rejected), (3, 2));
}

#[test]
fn a_pool_without_core_threads_makes_one_for_what_is_in_its_queue() {
    let figures = run(&pool(0, 2, Some(10)), MANY, &at_once(5, S));
    assert_eq!((figures.levels.peak_threads, figures.completed, figures.end), (1, 5, 5 * S));
}

#[test]
fn extra_threads_leave_after_their_keep_alive_and_core_threads_only_if_they_may() {
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
fn the_worker_that_has_been_idle_longest_leaves_first_and_the_last_gets_the_next_task() {
    // Two extra threads, then one task a second: one of them always has something to do, the other leaves.
    let mut tasks = at_once(3, S / 2);
    tasks.extend((1..20).map(|k| Task { arrival: k * S, wait: S / 2, compute: 0 }));
    let figures = run(&Pool { keep_alive: 3 * S, ..pool(0, 3, Some(0)) }, MANY, &tasks);
    let last = figures.levels.curve().last().expect("a curve").1.threads;
    assert_eq!((figures.levels.peak_threads, last), (3, 1));
}

#[test]
fn what_does_not_fit_is_rejected_discarded_or_run_by_its_caller() {
    let tasks: Vec<Task> = (0..10).map(|k| Task { arrival: k, wait: 2 * S, compute: 0 }).collect();
    let with = |policy| Pool { policy, ..pool(2, 4, Some(2)) };

    let abort = run(&with(Policy::Abort), MANY, &tasks);
    assert_eq!((abort.completed, abort.rejected, abort.discarded), (6, 4, 0));

    let discard = run(&with(Policy::Discard), MANY, &tasks);
    assert_eq!((discard.completed, discard.rejected, discard.discarded), (6, 0, 4));

    // The third and fourth were queued first; then each that came pushed the oldest out, and the last two remain.
    let oldest = diary(&with(Policy::DiscardOldest), MANY, &tasks);
    let mut arrivals: Vec<Nanos> = oldest.iter().map(|(arrival, ..)| *arrival).collect();
    arrivals.sort_unstable();
    assert_eq!(arrivals, [0, 1, 4, 5, 8, 9]);
    assert_eq!(run(&with(Policy::DiscardOldest), MANY, &tasks).discarded, 4);

    let callers = run(&with(Policy::CallerRuns), MANY, &tasks);
    assert_eq!((callers.completed, callers.in_caller, callers.lost()), (10, 4, 0));
    assert_eq!((callers.levels.peak_threads, callers.end), (4, 4 * S + 1));

    // Its own tasks keep it for two seconds. Then four workers are free, but two of them have the queue's.
    let caller = run(&with(Policy::CallerRuns), ONE, &tasks);
    assert_eq!((caller.completed, caller.in_caller), (10, 1));
    assert_eq!(caller.end / S, 6);
}

#[test]
fn discarding_the_oldest_of_none_is_a_rejection() {
    let tasks = at_once(3, S);
    let figures = run(&Pool { policy: Policy::DiscardOldest, ..pool(0, 2, Some(0)) }, MANY, &tasks);
    assert_eq!((figures.completed, figures.rejected, figures.discarded), (2, 1, 0));
}

#[test]
fn a_blocked_caller_gets_in_when_there_is_room_or_gives_up() {
    let tasks = at_once(10, 2 * S);
    let with = |policy| Pool { policy, ..pool(2, 4, Some(2)) };
    for world in [MANY, ONE] {
        let block = run(&with(Policy::Block(None)), world, &tasks);
        assert_eq!((block.completed, block.lost(), block.end), (10, 0, 6 * S));
    }
    let each_for_a_second = run(&with(Policy::Block(Some(S))), MANY, &tasks);
    assert_eq!((each_for_a_second.completed, each_for_a_second.rejected), (6, 4));
    // One caller gives up on the seventh after a second; the eighth gets in after another.
    let one = run(&with(Policy::Block(Some(S))), ONE, &tasks);
    assert_eq!((one.completed, one.rejected), (9, 1));
}

#[test]
fn blocked_callers_wait_as_long_as_in_a_queue_without_a_bound() {
    let tasks = random(3, 5000, MS, 4 * MS, 0.0);
    let mut open = diary(&pool(5, 5, None), MANY, &tasks);
    for world in [MANY, ONE] {
        let mut block = diary(&Pool { policy: Policy::Block(None), ..pool(5, 5, Some(3)) }, world, &tasks);
        block.sort_unstable();
        open.sort_unstable();
        assert_eq!(block, open);
    }
}

/// The waits of tasks on so many servers, first come first served: each goes to the server that is free first. Another way
/// to the same figures, in five lines.
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
fn every_single_wait_is_that_of_servers_which_take_the_first_that_came() {
    for (servers, seed) in [(1, 1), (2, 2), (7, 3), (40, 4)] {
        let tasks = random(seed, 20_000, MS, servers as Nanos * MS * 9 / 10, 0.0);
        let by_hand = waits_by_hand(&tasks, servers);
        assert!(by_hand.iter().filter(|wait| **wait > 0).count() > 1000, "a load that makes them wait");
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
fn tasks_that_compute_share_the_cores_evenly() {
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
    // Three on two cores have two thirds each; when the first is done, the others have one each.
    assert_eq!(ends(2, &compute(&[(0, 2 * S), (0, 4 * S), (0, 4 * S)])), [3 * S, 5 * S, 5 * S]);
    // The second comes when the first has half of its work behind it.
    assert_eq!(ends(1, &compute(&[(0, S), (S / 2, S / 4)])), [S, S * 5 / 4]);
    // Waiting needs no core.
    let waits = [Task { arrival: 0, wait: S, compute: S }, Task { arrival: 0, wait: 3 * S, compute: S }];
    assert_eq!(ends(1, &waits), [2 * S, 4 * S]);
}

#[test]
fn a_busy_core_does_all_the_work_and_no_more() {
    let tasks = random(9, 5000, MS, 2 * MS, 1.0);
    let work: Nanos = tasks.iter().map(|task| task.compute).sum();
    let world = World { cores: 3, one_caller: false };
    let figures = run(&pool(64, 64, None), world, &tasks);
    let done = figures.levels.mean_cores() * figures.end as f64;
    // An event is at most a nanosecond late, and there are two for a task.
    assert!((done - work as f64).abs() < 3.0 * 10_000.0, "{done} of {work}");
}

#[test]
fn no_task_is_lost_whatever_the_pool_and_no_limit_is_overstepped() {
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

/// Little's law holds exactly for a time that begins and ends with nobody inside, if nobody leaves early.
#[test]
fn the_tasks_inside_are_by_littles_law_those_that_come_times_their_stay() {
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
fn tasks_that_take_no_time_are_done_at_once_and_do_not_pile_up_the_stack() {
    let mut tasks = vec![Task { arrival: 0, wait: S, compute: 0 }];
    tasks.extend(vec![Task { arrival: 0, wait: 0, compute: 0 }; 200_000]);
    let figures = run(&pool(1, 1, None), MANY, &tasks);
    assert_eq!((figures.completed, figures.end, figures.waits.most()), (200_001, S, S));
}

#[test]
fn a_goal_that_is_missed_ends_the_run_and_one_that_is_met_does_not() {
    let tasks = at_once(10, S);
    let goal = |of, limit, most_late, most_lost| {
        let goal = Goal { of, limit, most_late, most_lost };
        simulate(&pool(1, 1, Some(5)), MANY, tasks.iter().copied(), Some(goal), &mut ())
    };
    // Six run, one after the other; four are rejected.
    let met = goal(Judged::Total, 4 * S, 2, 4);
    assert_eq!((met.given_up, met.late, met.completed), (false, 2, 6));
    assert!(goal(Judged::Total, 4 * S, 1, 4).given_up);
    assert!(goal(Judged::Total, 4 * S, 2, 3).given_up);
    assert!(!goal(Judged::Wait, 4 * S, 1, 4).given_up, "only the last waits for five seconds");
    assert!(goal(Judged::Wait, 4 * S, 0, 4).given_up);
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_seed_others() {
    let pool = pool(3, 6, Some(8));
    let world = World { cores: 2, one_caller: false };
    let figures = |seed| format!("{:?}", run(&pool, world, &random(seed, 5000, MS, 4 * MS, 0.5)));
    assert_eq!(figures(1), figures(1));
    assert_ne!(figures(1), figures(2));
}

/// If this changes, every plan changes that somebody has kept: say so in the changelog.
#[test]
fn a_seed_means_the_same_figures_on_every_machine_and_for_ever() {
    let tasks = random(42, 20_000, MS, 4 * MS, 0.5);
    let figures = run(&pool(3, 6, Some(8)), World { cores: 2, one_caller: false }, &tasks);
    let numbers =
        [figures.completed, figures.waited, figures.waits.most(), figures.totals.most(), figures.end];
    assert_eq!(numbers, [19_158, 10_710, 20_370_416, 53_117_962, 20_165_580_690]);
}

#[test]
fn lots_for_arrivals_and_lengths_do_not_disturb_each_other() {
    let draw = |length| {
        let mix = Mix::new(vec![Kind { weight: 1.0, length, cpu: 0.0 }]);
        let arrivals = [Arrivals::Poisson(1000.0)];
        Stream::new(&arrivals, Limit::Count(100), &mix, 5).map(|task| task.arrival).collect::<Vec<_>>()
    };
    assert_eq!(draw(Length::Fixed(1.0)), draw(Length::LogNormal(1e6, 1.0)));
    let first = |stream| Chance::new(5, stream).unit();
    assert!(first(0) != first(1) && first(1) != first(2));
}
