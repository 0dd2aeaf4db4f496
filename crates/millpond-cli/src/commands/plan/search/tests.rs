//! The smallest pool is one, and one thread or one place less is none.

use millpond_sim::{Arrivals, Kind, Length, Limit, Mix, Stream};

use super::*;

const MS: Nanos = 1_000_000;
const WORLD: World = World { cores: 64, one_caller: false };

fn tasks(rate: f64, length: Length, cpu: f64) -> Vec<Task> {
    let mix = Mix::new(vec![Kind { weight: 1.0, length, cpu }]);
    Stream::new(&[Arrivals::Poisson(rate)], Limit::Count(3000), &mix, 1).collect()
}

fn target(of: Judged, p99: Nanos, lost: f64) -> Target {
    Target { of, p99, lost }
}

/// Counts who is late.
struct Late(Target, u64);

impl sim::Watch for Late {
    fn finished(&mut self, _arrival: Nanos, wait: Nanos, total: Nanos) {
        let judged = if self.0.of == Judged::Wait { wait } else { total };
        self.1 += u64::from(judged > self.0.p99);
    }
}

/// Does a pool of this size meet it? Asked directly, with all tasks to their end.
fn meets(tasks: &[Task], world: World, target: Target, threads: usize, queue: usize) -> bool {
    let mut late = Late(target, 0);
    let pool = Pool::fixed(threads, Some(queue));
    let figures = sim::simulate(&pool, world, tasks.iter().copied(), None, &mut late);
    late.1 as f64 <= 0.01 * figures.completed as f64 && figures.lost_share() <= target.lost + 1e-9
}

#[test]
fn one_thread_or_one_place_less_is_too_few() {
    let exponential = Length::Exponential(10e6);
    for (tasks, target) in [
        (tasks(400.0, exponential, 0.0), target(Judged::Total, 60 * MS, 0.001)),
        (tasks(400.0, exponential, 0.0), target(Judged::Total, 60 * MS, 0.0)),
        (tasks(400.0, exponential, 0.0), target(Judged::Wait, 5 * MS, 0.02)),
        (tasks(400.0, exponential, 0.0), target(Judged::Wait, 0, 0.05)),
        (tasks(3000.0, Length::LogNormal(5e6, 0.8), 0.0), target(Judged::Total, 40 * MS, 0.001)),
        (tasks(50.0, Length::Fixed(10e6), 0.0), target(Judged::Total, 30 * MS, 0.01)),
    ] {
        let answer = smallest(&tasks, WORLD, target, &|_| ());
        let (pool, figures) = answer.found.expect("there is one");
        let (threads, queue) = (pool.core, pool.queue.expect("a bound"));
        assert!(target.is_met(&figures));
        assert!(meets(&tasks, WORLD, target, threads, queue), "{threads} threads, queue {queue}, {target:?}");
        if let Some(shorter) = queue.checked_sub(1) {
            assert!(!meets(&tasks, WORLD, target, threads, shorter), "{threads} threads, queue {shorter}");
        }
        // With one thread less no queue at all will do.
        for queue in (0..50).chain([70, 100, 200, 3000]).filter(|_| threads > 1) {
            assert!(
                !meets(&tasks, WORLD, target, threads - 1, queue),
                "{} threads, queue {queue}",
                threads - 1
            );
        }
        let fewer = answer.tries.iter().find(|tried| tried.threads + 1 == threads);
        assert!(threads == 1 || fewer.is_some_and(|tried| !tried.meets), "{:?}", answer.tries);
    }
}

#[test]
fn what_no_pool_can_do_is_not_found() {
    // The tasks alone take longer.
    let slow = tasks(100.0, Length::Fixed(50e6), 0.0);
    let answer = smallest(&slow, WORLD, target(Judged::Total, 40 * MS, 0.001), &|_| ());
    assert!(answer.found.is_none() && answer.tries.iter().all(|tried| !tried.meets));
    assert_eq!(answer.unlimited.totals.percentile(0.99), 50 * MS);
    // For the wait alone there is one.
    assert!(smallest(&slow, WORLD, target(Judged::Wait, 40 * MS, 0.001), &|_| ()).found.is_some());
    // Two cores for the work of four.
    let computing = tasks(400.0, Length::Exponential(10e6), 1.0);
    let two = World { cores: 2, one_caller: false };
    assert!(smallest(&computing, two, target(Judged::Total, 100 * MS, 0.001), &|_| ()).found.is_none());
}

#[test]
fn a_target_is_met_to_the_very_task() {
    let target = target(Judged::Total, 10 * MS, 0.01);
    let figures = |late, completed, rejected| Figures {
        arrived: completed + rejected,
        late,
        completed,
        rejected,
        ..Figures::default()
    };
    assert!(target.is_met(&figures(1, 100, 0)));
    assert!(!target.is_met(&figures(2, 100, 0)));
    assert!(!target.is_met(&figures(1, 99, 0)));
    assert!(target.is_met(&figures(0, 99, 1)), "exactly 1 %");
    assert!(!target.is_met(&figures(0, 98, 2)));
}
