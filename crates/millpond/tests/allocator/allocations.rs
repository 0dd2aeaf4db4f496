//! Allocations: a small closure costs none, a task with a handle one; and what a burst took is
//! given back.
//!
//! A counting allocator sees the whole process, so each test runs in a process of its own. It
//! counts on all threads, between two moments when all workers sleep. What is made once is made in
//! a first round that is not counted.
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use crate::counting::{allocations_so_far, live_bytes, recent_sizes};
use crate::support::{Gate, end, eventually, in_a_process_of_its_own, keep_busy, soon};
use millpond::{TaskHandle, ThreadPoolExecutor, executors, interrupt};

/// Tasks that are handed in before one waits for them: fewer than fit into a segment of the queue,
/// whatever their size. So the queue needs the segment that is being filled, the one that is being
/// emptied, and never a third.
const BATCH: usize = 64;
const BATCHES: usize = 100;
const TASKS: usize = BATCH * BATCHES;

/// Tasks that have run. Not captured: there is a closure of no words at all.
static RAN: AtomicUsize = AtomicUsize::new(0);

fn ran() -> usize {
    RAN.load(Ordering::Acquire)
}

/// A pool whose threads sleep. Each has run a task: with its first one it gets its histograms.
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

/// Waits until every worker sleeps, with nothing left to do: from then on none of them allocates or
/// frees.
#[track_caller]
fn quiet(pool: &ThreadPoolExecutor) {
    eventually(|| pool.queued_count() == 0 && pool.parked_workers().all == pool.pool_size());
}

/// Allocations, some of which may not belong to tasks: a thread that is about to park asks the
/// system for the number of processors at most every three seconds, and std allocates for the
/// answer.
#[derive(Debug)]
struct Counted {
    all: usize,
    by_each_question: usize,
    most_questions: usize,
}

/// Equal if what is left over is a whole number of questions, and not too many of them.
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

/// What `batch` allocates when it is called again and again, by all threads until they sleep.
#[track_caller]
fn allocations(pool: &ThreadPoolExecutor, mut batch: impl FnMut()) -> Counted {
    // A thread gets its interrupt flag when it first needs it: this one perhaps not before it
    // sleeps for the first time.
    assert!(!interrupt::is_interrupted());
    // Enough to have used every word of the queue's segments twice, and every list of the pool.
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

/// What `execute` allocates for as many closures as `TASKS` says.
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

/// The queue's words are not aligned to a cache line, so such a closure goes in a box, however
/// small it is.
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

/// The state shared by task and handle: the closure, then the result, and the waiter. This includes
/// joining, from a thread that may have to park, and dropping the handle.
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

/// One at a time, so that the worker and the joining thread park and wake each other.
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

/// A task has this state even if no thread waits for it.
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

/// An overloaded pool must say no cheaply. `submit` makes the state of the task first, and gives it
/// back inside the error.
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

/// Puts many tasks into the queue of a pool whose only worker is busy, and returns the bytes that
/// are live before, while they wait, and when they have run and the worker sleeps.
fn burst<R>(execute: impl Fn(&ThreadPoolExecutor) -> R) -> [i64; 3] {
    const MANY: usize = 100_000;
    let live = live_bytes;
    let pool = executors::fixed(1).unwrap();
    // What is made once: the gate's, the worker's, the queue's spare segments.
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

/// The bytes that may be left of a burst: a spare segment of the queue, of 8 KiB, more than before;
/// and the list of the segments, which keeps its room of a word for each, some 800 for 100 000
/// tasks of eight words at most, and up to twice that because it grows by doubling: 16 KiB.
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
