//! Threads that do not start: a failed spawn leaves no trace, strands no task and blocks no other
//! thread.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::support::{Gate, LONG, Rng, assert_settled, block, end, eventually, rounds, soon};
use millpond::{
    Builder, JoinError, RejectReason, Rejected, TaskHandle, ThreadPoolExecutor, WorkQueue, WorkerBody, policy,
};

fn pool(core: usize, maximum: usize) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum)
}

fn start(body: WorkerBody) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(body.name().to_owned()).spawn(move || body.run())
}

/// A factory whose first call opens `knock`, waits for `gate` and fails. Later calls succeed.
fn fails_once(knock: Gate, gate: Gate) -> impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> {
    let calls = AtomicUsize::new(0);
    move |body| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            knock.open();
            gate.pass();
            return Err(io::Error::other("out of threads"));
        }
        start(body)
    }
}

// The first submission counts a worker whose thread it cannot start. A second submission sees this
// worker and queues its task. When the start fails, there is a task but no worker.
#[test]
fn a_task_queued_behind_a_thread_that_fails_to_start_still_runs() {
    let (knock, gate) = (Gate::new(), Gate::new());
    let pool = pool(1, 1).thread_factory(fails_once(knock.clone(), gate.clone())).build().unwrap();
    thread::scope(|s| {
        let first = s.spawn(|| pool.submit(|| "first"));
        knock.pass();
        let second = pool.submit(|| "second").unwrap();
        gate.open();
        let refused = first.join().unwrap();
        assert_eq!(soon(second).unwrap(), "second");
        match refused {
            Ok(first) => assert_eq!(soon(first).unwrap(), "first"),
            Err(refused) => assert_eq!(refused.reason(), RejectReason::SpawnFailed),
        }
    });
    end(&pool);
}

// As above, but for some time no thread can be started. No submission follows, so only a joining
// thread can try again.
#[test]
fn who_joins_a_task_without_a_thread_tries_until_there_is_one() {
    let (knock, gate) = (Gate::new(), Gate::new());
    let (calls, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let factory = {
        let (knock, gate, calls, enough) =
            (knock.clone(), gate.clone(), Arc::clone(&calls), Arc::clone(&enough));
        move |body| {
            calls.fetch_add(1, Ordering::SeqCst);
            knock.open();
            gate.pass();
            if enough.load(Ordering::SeqCst) { start(body) } else { Err(io::Error::other("out of threads")) }
        }
    };
    let pool = pool(1, 1).thread_factory(factory).build().unwrap();
    thread::scope(|s| {
        let first = s.spawn(|| pool.submit(|| "first"));
        knock.pass();
        let second = pool.submit(|| "second").unwrap();
        gate.open();
        assert_eq!(first.join().unwrap().unwrap_err().reason(), RejectReason::SpawnFailed);
        assert_eq!((pool.pool_size(), pool.queued_count()), (0, 1));
        let in_vain = calls.load(Ordering::SeqCst);
        let joiner = s.spawn(|| soon(second));
        eventually(|| calls.load(Ordering::SeqCst) >= in_vain + 3);
        enough.store(true, Ordering::SeqCst);
        assert_eq!(joiner.join().unwrap().unwrap(), "second");
    });
    end(&pool);
    assert_settled(&pool, 1);
}

#[test]
fn a_task_queued_behind_a_prestart_that_fails_still_runs() {
    let (knock, gate) = (Gate::new(), Gate::new());
    let pool = pool(1, 1).thread_factory(fails_once(knock.clone(), gate.clone())).build().unwrap();
    thread::scope(|s| {
        let prestart = s.spawn(|| pool.prestart_core_thread());
        knock.pass();
        let task = pool.submit(|| "ran").unwrap();
        gate.open();
        assert!(!prestart.join().unwrap());
        assert_eq!(soon(task).unwrap(), "ran");
    });
    end(&pool);
}

// The blocked submitter finds the pool full, because a worker without a thread is counted. When its
// start fails, there is room for another thread, and the submitter must be woken.
#[test]
fn a_failed_spawn_makes_room_for_a_submitter_that_waits() {
    let (knock, gate) = (Gate::new(), Gate::new());
    let pool = pool(0, 1)
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy::Block::timeout(LONG))
        .thread_factory(fails_once(knock.clone(), gate.clone()))
        .build()
        .unwrap();
    thread::scope(|s| {
        let first = s.spawn(|| pool.submit(|| "first"));
        knock.pass();
        let second = block(s, || pool.submit(|| "second"));
        gate.open();
        let first = first.join().unwrap();
        assert_eq!(soon(second.join().unwrap()).unwrap(), "second");
        match first {
            Ok(first) => assert_eq!(soon(first).unwrap(), "first"), // by the worker of the second
            Err(refused) => assert_eq!(refused.reason(), RejectReason::SpawnFailed),
        }
    });
    end(&pool);
}

/// A factory that returns success for each body, but only stores the body.
fn keeps_bodies(
    kept: &Arc<Mutex<Vec<WorkerBody>>>,
) -> impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + use<> {
    let kept = Arc::clone(kept);
    move |body| {
        kept.lock().unwrap().push(body);
        Ok(thread::spawn(|| {}))
    }
}

#[test]
fn a_body_dropped_after_the_factory_returned_does_not_lose_its_task() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let pool = pool(1, 1).thread_factory(keeps_bodies(&kept)).build().unwrap();
    let first = pool.submit(|| "first").unwrap();
    let second = pool.submit(|| "second").unwrap();
    pool.set_thread_factory(start);
    let body = kept.lock().unwrap().pop().unwrap();
    let (done, dropped) = std::sync::mpsc::channel();
    // On a thread that is joined only after it has reported: a failure here is a deadlock.
    let dropper = thread::spawn(move || {
        drop(body);
        done.send(()).unwrap();
    });
    dropped.recv_timeout(LONG).expect("dropping a body does not block");
    dropper.join().unwrap();
    assert_eq!((soon(first).unwrap(), soon(second).unwrap()), ("first", "second"));
    assert_eq!(pool.pool_size(), 1);
    end(&pool);
    assert_settled(&pool, 2);
}

#[test]
fn a_body_dropped_late_leaves_no_trace_of_an_idle_worker() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let pool = pool(1, 1).thread_factory(keeps_bodies(&kept)).build().unwrap();
    assert!(pool.prestart_core_thread());
    assert_eq!(pool.pool_size(), 1);
    let body = kept.lock().unwrap().pop().unwrap();
    let (done, dropped) = std::sync::mpsc::channel();
    let dropper = thread::spawn(move || {
        drop(body);
        done.send(()).unwrap();
    });
    dropped.recv_timeout(LONG).expect("dropping a body does not block");
    dropper.join().unwrap();
    assert_eq!(pool.pool_size(), 0);
    end(&pool);
}

/// The results of `each` submissions of each of `threads` threads: handles, and rejections.
fn submit_from_many(
    pool: &ThreadPoolExecutor,
    threads: usize,
    each: usize,
    ran: &Arc<AtomicUsize>,
    rng: &mut Rng,
) -> (Vec<TaskHandle<()>>, Vec<Rejected>) {
    let (mut handles, mut refused) = (Vec::new(), Vec::new());
    thread::scope(|s| {
        let submitters: Vec<_> = (0..threads)
            .map(|_| {
                let mut rng = rng.fork();
                s.spawn(move || {
                    (0..each)
                        .map(|_| {
                            rng.dawdle();
                            let ran = Arc::clone(ran);
                            pool.submit(move || {
                                ran.fetch_add(1, Ordering::Relaxed);
                            })
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        for result in submitters.into_iter().flat_map(|submitter| submitter.join().unwrap()) {
            match result {
                Ok(handle) => handles.push(handle),
                Err(rejected) => refused.push(rejected),
            }
        }
    });
    (handles, refused)
}

#[test]
fn a_factory_that_fails_now_and_then_loses_no_task_under_load() {
    let mut rng = Rng::new();
    for round in rounds(600) {
        let (every, queue) = match round % 3 {
            0 => (2, WorkQueue::linked()),
            1 => (3, WorkQueue::synchronous()),
            _ => (2, WorkQueue::array(2)),
        };
        let calls = AtomicUsize::new(rng.below(every));
        let pool = pool(round % 2, 3)
            .keep_alive_time(std::time::Duration::ZERO)
            .work_queue(queue)
            .thread_factory(move |body| {
                if calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(every) {
                    thread::yield_now();
                    return Err(io::Error::other("out of threads"));
                }
                start(body)
            })
            .build()
            .unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (handles, refused) = submit_from_many(&pool, 3, 8, &ran, &mut rng);
        for rejected in &refused {
            assert!(matches!(rejected.reason(), RejectReason::SpawnFailed | RejectReason::Saturated));
        }
        // A task that was accepted because a worker was expected, which then failed to start, may
        // also be abandoned.
        let accepted = handles.len();
        let outcomes: Vec<_> = handles.into_iter().map(soon).collect();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(()) | Err(JoinError::Abandoned))));
        drop(refused);
        end(&pool);
        assert_eq!(ran.load(Ordering::Relaxed), outcomes.iter().filter(|outcome| outcome.is_ok()).count());
        assert_settled(&pool, accepted);
        assert_eq!(pool.pool_size(), 0);
    }
}

// A task may be accepted because a worker is expected, which then fails to start. It waits for
// another thread; a shutdown that cannot start one abandons it.
#[test]
fn a_pool_that_never_gets_a_thread_runs_nothing_and_ends() {
    let mut rng = Rng::new();
    for round in rounds(600) {
        let pool =
            pool(round % 3, 2).thread_factory(|_| Err(io::Error::other("out of threads"))).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (handles, refused) = submit_from_many(&pool, 2, 2, &ran, &mut rng);
        assert!(refused.iter().all(|rejected| rejected.reason() == RejectReason::SpawnFailed));
        assert_eq!((pool.pool_size(), pool.queued_count()), (0, handles.len()));
        end(&pool);
        let accepted = handles.len();
        for handle in handles {
            assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
        }
        assert_eq!((ran.load(Ordering::Relaxed), pool.largest_pool_size()), (0, 0));
        assert_settled(&pool, accepted);
    }
}

#[test]
fn a_slow_factory_does_not_keep_other_workers_from_the_queue() {
    let (knock, gate) = (Gate::new(), Gate::new());
    let pool = pool(1, 2).work_queue(WorkQueue::array(1)).build().unwrap();
    let busy = Gate::new();
    let pass = busy.clone();
    let running = pool.submit(move || pass.pass()).unwrap();
    pool.set_thread_factory(fails_once(knock.clone(), gate.clone()));
    let queued = pool.submit(|| "queued").unwrap();
    thread::scope(|s| {
        let extra = s.spawn(|| pool.submit(|| "extra"));
        knock.pass();
        busy.open();
        soon(running).unwrap();
        assert_eq!(soon(queued).unwrap(), "queued");
        gate.open();
        assert_eq!(soon(extra.join().unwrap().unwrap()).unwrap(), "extra"); // by the other
    });
    eventually(|| pool.pool_size() == 1); // the pool is back at its core size
    end(&pool);
    assert_settled(&pool, 3);
}

// The first worker's thread starts late. When it reads the size of the pool, a second worker is
// counted whose thread then fails to start.
#[test]
fn a_thread_that_failed_to_start_does_not_count_in_the_largest_size() {
    let (knock, gate, late) = (Gate::new(), Gate::new(), Gate::new());
    let pool = pool(2, 2).build().unwrap();
    let pass = late.clone();
    pool.set_thread_factory(move |body| {
        let pass = pass.clone();
        thread::Builder::new().spawn(move || {
            pass.pass();
            body.run();
        })
    });
    let first = pool.submit(|| "first").unwrap();
    pool.set_thread_factory(fails_once(knock.clone(), gate.clone()));
    thread::scope(|s| {
        let second = s.spawn(|| pool.submit(|| "second"));
        knock.pass();
        late.open();
        soon(first).unwrap();
        gate.open();
        assert_eq!(soon(second.join().unwrap().unwrap()).unwrap(), "second");
    });
    assert_eq!(pool.largest_pool_size(), 1);
    end(&pool);
    assert_settled(&pool, 2);
}
