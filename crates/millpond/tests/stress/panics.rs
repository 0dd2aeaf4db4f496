//! User code that panics wherever the pool calls it: no worker is lost, no task is miscounted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::support::{Gate, LONG, Rng, assert_settled, die, end, eventually, rounds, soon};
use millpond::{
    Builder, Hooks, JoinError, Panic, RejectReason, TaskInfo, ThreadPoolExecutor, WorkQueue, WorkerInfo,
    executors, interrupt,
};

fn pool(core: usize, maximum: usize) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum)
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        die("dropped");
    }
}

/// Hooks that panic at regular intervals, counted over all calls.
struct Moody {
    calls: AtomicUsize,
    every: usize,
    terminated: Arc<AtomicUsize>,
}

impl Moody {
    fn maybe(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every) {
            die("in a mood");
        }
    }
}

impl Hooks for Moody {
    fn before_execute(&self, _: &TaskInfo) {
        self.maybe();
    }
    fn after_execute(&self, _: &TaskInfo, _: Option<&Panic>) {
        self.maybe();
    }
    fn terminated(&self) {
        self.terminated.fetch_add(1, Ordering::Relaxed);
        die("at the very end");
    }
    fn rejected(&self, _: &TaskInfo, _: RejectReason) {
        self.maybe();
    }
    fn worker_started(&self, _: &WorkerInfo) {
        self.maybe();
    }
    fn worker_stopped(&self, _: &WorkerInfo) {
        self.maybe();
    }
}

// Peer cases 1 and 8.
#[test]
fn panics_of_tasks_and_hooks_on_every_worker_miscount_nothing() {
    let mut rng = Rng::new();
    for round in rounds(200) {
        let terminated = Arc::new(AtomicUsize::new(0));
        let queue = match round % 3 {
            0 => WorkQueue::linked(),
            1 => WorkQueue::array(3),
            _ => WorkQueue::delay(),
        };
        let hooks = Moody {
            calls: AtomicUsize::new(0),
            every: 3 + rng.below(5),
            terminated: Arc::clone(&terminated),
        };
        let pool = pool(2, 3)
            .keep_alive_time(if rng.once_in(2) { Duration::ZERO } else { LONG })
            .work_queue(queue)
            .hooks(hooks)
            .build()
            .unwrap();
        let (ran, begun) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let results: Vec<_> = thread::scope(|s| {
            let submitters: Vec<_> = (0..2)
                .map(|_| {
                    let (pool, ran, begun) = (&pool, &ran, &begun);
                    s.spawn(move || {
                        let submit = |n| {
                            let (ran, begun) = (Arc::clone(ran), Arc::clone(begun));
                            let task = move || {
                                begun.fetch_add(1, Ordering::Relaxed);
                                if n % 3 == 0 {
                                    die("third");
                                }
                                ran.fetch_add(1, Ordering::Relaxed);
                            };
                            // With and without a handle.
                            if n % 2 == 0 {
                                pool.execute(task).map(|()| None)
                            } else {
                                pool.submit(task).map(Some)
                            }
                        };
                        (0..50).map(submit).collect::<Vec<_>>()
                    })
                })
                .collect();
            submitters.into_iter().flat_map(|submitter| submitter.join().unwrap()).collect()
        });
        let accepted = results.iter().filter(|result| result.is_ok()).count();
        for handle in results.into_iter().flatten().flatten() {
            match soon(handle) {
                Ok(()) | Err(JoinError::Abandoned) => {} // abandoned because a before-hook panicked
                Err(JoinError::Panicked(panic)) => assert_eq!(panic.message(), Some("third")),
                Err(other) => panic!("{other}"),
            }
        }
        end(&pool);
        assert_settled(&pool, accepted);
        let stats = pool.stats();
        assert_eq!(stats.completed, ran.load(Ordering::Relaxed) as u64);
        assert_eq!(stats.panicked, (accepted - ran.load(Ordering::Relaxed)) as u64);
        assert_eq!(pool.completed_task_count(), accepted as u64);
        assert!(begun.load(Ordering::Relaxed) <= accepted);
        assert_eq!(terminated.load(Ordering::Relaxed), 1);
    }
}

// Peer case 8: a capture panics in its destructor, however the task ends.
#[test]
fn captures_that_panic_when_dropped_take_no_worker_down() {
    let mut rng = Rng::new();
    let pool = pool(2, 2).build().unwrap();
    for round in rounds(1000) {
        let bomb = Bomb;
        match round % 5 {
            0 => pool.execute(move || drop(bomb)).unwrap(),
            1 => pool
                .execute(move || {
                    let _bomb = &bomb; // captured, so dropped with the closure
                })
                .unwrap(),
            2 => drop(pool.submit(move || bomb).unwrap()), // returned, so dropped as the result
            3 => {
                let handle = pool.submit(move || drop(bomb)).unwrap();
                rng.dawdle();
                handle.cancel(false);
            }
            _ => {
                let handle = pool.submit(move || drop(bomb)).unwrap();
                rng.dawdle();
                pool.remove(handle.id());
            }
        }
        if rng.once_in(16) {
            soon(pool.submit(|| ()).unwrap()).unwrap();
        }
    }
    let crowd: Vec<_> = (0..2).map(|_| Gate::new()).collect();
    let handles: Vec<_> = crowd
        .iter()
        .map(|gate| {
            let gate = gate.clone();
            pool.submit(move || gate.pass()).unwrap()
        })
        .collect();
    eventually(|| pool.active_count() == 2); // both workers are there and at work
    crowd.iter().for_each(Gate::open);
    handles.into_iter().for_each(|handle| soon(handle).unwrap());
    end(&pool);
    let stats = pool.stats();
    assert_settled(&pool, stats.submitted as usize);
}

// The callback is still registered when its task ends, so the worker drops it between two tasks.
#[test]
fn an_interrupt_callback_that_panics_when_dropped_takes_no_worker_down() {
    let pool = executors::fixed(1).unwrap();
    for _ in 0..20 {
        let kept = soon(
            pool.submit(|| {
                let bomb = Bomb;
                interrupt::current().on_interrupt(move || drop(bomb))
            })
            .unwrap(),
        )
        .unwrap();
        assert_eq!(soon(pool.submit(|| "goes on").unwrap()).unwrap(), "goes on");
        drop(kept);
    }
    end(&pool);
    assert_settled(&pool, 40);
}

struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        die("woken");
    }
}

#[test]
fn a_waker_that_panics_takes_no_worker_down() {
    let pool = executors::fixed(1).unwrap();
    for _ in 0..20 {
        let gate = Gate::new();
        let pass = gate.clone();
        let mut handle = pool.submit(move || pass.pass()).unwrap();
        let waker = Waker::from(Arc::new(BadWaker));
        assert!(Future::poll(Pin::new(&mut handle), &mut Context::from_waker(&waker)).is_pending());
        gate.open();
        eventually(|| handle.is_done()); // the task has ended
        soon(handle).unwrap();
        assert_eq!(soon(pool.submit(|| "goes on").unwrap()).unwrap(), "goes on");
    }
    end(&pool);
    assert_settled(&pool, 40);
}

#[test]
fn a_panic_whose_payload_panics_when_dropped_takes_no_worker_down() {
    let pool = executors::fixed(1).unwrap();
    for _ in 0..100 {
        pool.execute(|| std::panic::resume_unwind(Box::new(Bomb))).unwrap();
        drop(pool.submit(|| std::panic::resume_unwind(Box::new(Bomb))).unwrap());
        assert_eq!(soon(pool.submit(|| "goes on").unwrap()).unwrap(), "goes on");
    }
    end(&pool);
    assert_settled(&pool, 300);
}
