//! Allocations: a small closure needs none, a task with a handle one. The memory of a burst is
//! returned.
//!
//! A counting allocator sees the whole process, so each test runs in its own process. It counts the
//! allocations of all threads between two times at which all workers are parked. One-time
//! allocations happen in a first round that is not counted.
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use crate::counting::{allocations_so_far, live_bytes, recent_sizes};
use crate::support::{Gate, end, eventually, in_a_process_of_its_own, keep_busy, soon};
use millpond::{Task, TaskHandle, ThreadPoolExecutor, executors, interrupt};

/// Tasks to submit before waiting for them. They fit into one segment of the queue, whatever their
/// size. So the queue needs the segment being filled and the one being drained, never a third.
const BATCH: usize = 64;
const BATCHES: usize = 100;
const TASKS: usize = BATCH * BATCHES;

/// Tasks that have run. A static, because one closure must capture nothing at all.
static RAN: AtomicUsize = AtomicUsize::new(0);

fn ran() -> usize {
    RAN.load(Ordering::Acquire)
}

/// A pool whose threads are parked. Each has run a task, which allocates its histograms.
fn pool() -> ThreadPoolExecutor {
    let pool = executors::fixed(2).unwrap();
    let both = Arc::new(Barrier::new(2));
    for _ in 0..2 {
        let both = Arc::clone(&both);
        pool.execute(move || _ = both.wait()).unwrap();
    }
    quiet(&pool);
    pool
}

/// Waits until every worker is parked and has no work: from then on none allocates or frees.
#[track_caller]
fn quiet(pool: &ThreadPoolExecutor) {
    eventually(|| pool.queued_count() == 0 && pool.parked_workers().all == pool.pool_size());
}

/// Allocations, including some that are not caused by tasks: at most every three seconds, a thread
/// that is about to park queries the number of processors, for which std allocates.
#[derive(Debug)]
struct Counted {
    all: usize,
    by_each_question: usize,
    most_questions: usize,
}

/// Equal if the remaining allocations are a small whole number of such queries.
impl PartialEq<usize> for Counted {
    fn eq(&self, expected: &usize) -> bool {
        let questions = (0..=self.most_questions).map(|questions| questions * self.by_each_question);
        questions.map(|by_questions| expected + by_questions).any(|all| all == self.all)
    }
}

fn allocations_of_a_question() -> usize {
    let before = allocations_so_far();
    let _ = black_box(std::thread::available_parallelism());
    allocations_so_far() - before
}

/// Counts the allocations of repeated calls of `batch`, by all threads until they are parked.
#[track_caller]
fn allocations(pool: &ThreadPoolExecutor, mut batch: impl FnMut()) -> Counted {
    // A thread allocates its interrupt flag on first use, which could otherwise be during the
    // count.
    assert!(!interrupt::is_interrupted());
    // Enough batches to use every word of the queue's segments, and every list of the pool, twice.
    (0..BATCHES).for_each(|_| batch());
    quiet(pool);
    let by_each_question = allocations_of_a_question();
    let (before, begin) = (allocations_so_far(), Instant::now());
    (0..BATCHES).for_each(|_| batch());
    quiet(pool);
    let all = allocations_so_far() - before;
    println!("{all} allocations, the last of {:?} bytes, in some order", recent_sizes());
    Counted { all, by_each_question, most_questions: 1 + begin.elapsed().as_secs() as usize / 3 }
}

/// Counts the allocations of `execute` for `TASKS` closures.
#[track_caller]
fn allocations_of<F: FnOnce() + Send + 'static>(make: impl Fn() -> F) -> Counted {
    let pool = pool();
    let many = allocations(&pool, || {
        let before = ran();
        for _ in 0..BATCH {
            pool.execute(make()).unwrap();
        }
        eventually(|| ran() == before + BATCH);
    });
    end(&pool);
    many
}

/// A closure of `N` words.
fn closure<const N: usize>() -> impl FnOnce() + Send + 'static {
    let words = black_box([7_usize; N]);
    let closure = move || {
        assert_eq!(black_box(words), [7; N]);
        RAN.fetch_add(1, Ordering::Release);
    };
    assert_eq!(size_of_val(&closure), N * size_of::<usize>());
    closure
}

#[test]
fn execute_of_up_to_five_words_allocates_nothing() {
    in_a_process_of_its_own("allocations::execute_of_up_to_five_words_allocates_nothing", || {
        assert_eq!(allocations_of(closure::<0>), 0, "for no words");
        assert_eq!(allocations_of(closure::<1>), 0, "for one word");
        assert_eq!(allocations_of(closure::<2>), 0, "for two words");
        assert_eq!(allocations_of(closure::<3>), 0, "for three words");
        assert_eq!(allocations_of(closure::<4>), 0, "for four words");
        assert_eq!(allocations_of(closure::<5>), 0, "for five words");
    });
}

#[test]
fn execute_of_six_words_allocates_once() {
    in_a_process_of_its_own("allocations::execute_of_six_words_allocates_once", || {
        assert_eq!(allocations_of(closure::<6>), TASKS);
    });
}

/// The queue's words are not aligned to cache lines, so such a closure is boxed, however small.
#[test]
fn execute_of_a_coarsely_aligned_closure_allocates_once() {
    #[derive(Clone, Copy)]
    #[repr(align(32))]
    struct Line(u8);

    in_a_process_of_its_own("allocations::execute_of_a_coarsely_aligned_closure_allocates_once", || {
        let many = allocations_of(|| {
            let line = Line(7);
            move || {
                assert_eq!(black_box(line).0, 7);
                RAN.fetch_add(1, Ordering::Release);
            }
        });
        assert_eq!(many, TASKS);
    });
}

// Regression: the worker copied the name, to show it in snapshots.
#[test]
fn a_worker_allocates_nothing_for_an_owned_name() {
    in_a_process_of_its_own("allocations::a_worker_allocates_nothing_for_an_owned_name", || {
        let pool = pool();
        let named = || Task::new(|| _ = RAN.fetch_add(1, Ordering::Release)).named("owned".to_owned());
        let before = allocations_so_far();
        drop(black_box(named()));
        let of_a_task = allocations_so_far() - before;
        let many = allocations(&pool, || {
            let before = ran();
            (0..BATCH).for_each(|_| pool.execute_task(named()).unwrap());
            eventually(|| ran() == before + BATCH);
        });
        assert_eq!(many, (of_a_task + 1) * TASKS); // one more, because it is too long for the queue
        end(&pool);
    });
}

/// The single allocation is the state that task and handle share. Joining from a thread that may
/// park, and dropping the handle, are included.
#[test]
fn submit_allocates_once() {
    in_a_process_of_its_own("allocations::submit_allocates_once", || {
        let pool = pool();
        let mut handles: Vec<TaskHandle<usize>> = Vec::with_capacity(BATCH);
        let mut next = 0;
        let many = allocations(&pool, || {
            for _ in 0..BATCH {
                let n = next;
                next += 1;
                handles.push(pool.submit(move || n).unwrap());
            }
            let first = next - BATCH;
            for (n, handle) in handles.drain(..).enumerate() {
                assert_eq!(soon(handle).unwrap(), first + n);
            }
        });
        assert_eq!(many, TASKS);
        end(&pool);
    });
}

/// One task at a time, so that the worker and the joining thread park and wake each other.
#[test]
fn submit_and_join_in_turns_allocates_once() {
    const IN_TURNS: usize = 16;
    in_a_process_of_its_own("allocations::submit_and_join_in_turns_allocates_once", || {
        let pool = pool();
        let many = allocations(&pool, || {
            for n in 0..IN_TURNS {
                assert_eq!(soon(pool.submit(move || n).unwrap()).unwrap(), n);
            }
        });
        assert_eq!(many, IN_TURNS * BATCHES);
        end(&pool);
    });
}

/// The state is allocated even if no thread waits for the task.
#[test]
fn submit_with_a_dropped_handle_allocates_once() {
    in_a_process_of_its_own("allocations::submit_with_a_dropped_handle_allocates_once", || {
        let pool = pool();
        let many = allocations(&pool, || {
            let before = ran();
            for _ in 0..BATCH {
                drop(pool.submit(|| RAN.fetch_add(1, Ordering::Release)).unwrap());
            }
            eventually(|| ran() == before + BATCH);
        });
        assert_eq!(many, TASKS);
        end(&pool);
    });
}

/// An overloaded pool must reject cheaply. `submit` allocates the state of the task first, and
/// returns it inside the error.
#[test]
fn a_refusal_by_a_full_pool_allocates_nothing() {
    in_a_process_of_its_own("allocations::a_refusal_by_a_full_pool_allocates_nothing", || {
        let pool = executors::bounded(1, 1, 1).unwrap();
        let gate = Gate::new();
        let busy = keep_busy(&pool, &gate);
        let waiting = pool.submit(|| ()).unwrap();
        let count = |refuse: &dyn Fn()| {
            refuse();
            let before = allocations_so_far();
            (0..BATCH).for_each(|_| refuse());
            allocations_so_far() - before
        };
        assert_eq!(count(&|| drop(pool.execute(closure::<5>()).unwrap_err())), 0, "execute");
        assert_eq!(count(&|| drop(pool.try_submit(closure::<9>()).unwrap_err())), 0, "try_submit");
        assert_eq!(count(&|| drop(pool.submit(closure::<5>()).unwrap_err())), BATCH, "submit");
        gate.open();
        soon(busy).unwrap();
        soon(waiting).unwrap();
        end(&pool);
    });
}

/// Queues many tasks while the only worker of a pool is busy. Returns the live bytes before, while
/// they wait, and after they have run and the worker is parked.
fn burst<R>(execute: impl Fn(&ThreadPoolExecutor) -> R) -> [i64; 3] {
    const MANY: usize = 100_000;
    let live = live_bytes;
    let pool = executors::fixed(1).unwrap();
    // One-time allocations: of the gate, the worker, and the queue's spare segments.
    let fill = |many: usize| {
        let gate = Gate::new();
        let busy = keep_busy(&pool, &gate);
        let before = ran();
        (0..many).for_each(|_| drop(execute(&pool)));
        assert_eq!(pool.queued_count(), many);
        let full = live();
        gate.open();
        soon(busy).unwrap();
        eventually(|| ran() == before + many);
        quiet(&pool);
        full
    };
    fill(1000);
    let before = live();
    let full = fill(MANY);
    let after = live();
    end(&pool);
    [before, full, after]
}

/// Bytes that may remain after a burst. One more spare segment of the queue: 8 KiB. The list of
/// segments: one word each, about 800 for 100 000 tasks, doubled by growth: 16 KiB. 1 KiB margin.
const LEFT: i64 = 8 * 1024 + 16 * 1024 + 1024;

#[test]
fn the_memory_of_a_burst_of_closures_is_given_back() {
    in_a_process_of_its_own("allocations::the_memory_of_a_burst_of_closures_is_given_back", || {
        let [before, full, after] = burst(|pool| pool.execute(closure::<2>()).unwrap());
        assert!(full >= 100_000 * 4 * size_of::<usize>() as i64, "{before} {full}: they were there");
        assert!(after - before <= LEFT, "{before} before, {after} after");
    });
}

#[test]
fn the_memory_of_a_burst_of_submits_is_given_back() {
    in_a_process_of_its_own("allocations::the_memory_of_a_burst_of_submits_is_given_back", || {
        let [before, full, after] =
            burst(|pool| pool.submit(|| RAN.fetch_add(1, Ordering::Release)).unwrap());
        assert!(full >= 100_000 * 4 * size_of::<usize>() as i64, "{before} {full}: they were there");
        assert!(after - before <= LEFT, "{before} before, {after} after");
    });
}
