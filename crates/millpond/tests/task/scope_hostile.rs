//! Scopes with hostile policies, queues and destructors: nothing that borrows may outlive its
//! scope.

use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::pools::{saturated, sized, thread_for};
use crate::support::{
    Gate, Wrapped, await_end, block, die, end, eventually, in_a_process_of_its_own, occupy, rounds,
};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    RejectReason, Rejected, RejectedExecutionHandler, Task, ThreadPoolExecutor, WorkQueue, WorkerBody,
    executors, interrupt,
};

type Stash = Arc<Mutex<Vec<Task>>>;

/// A policy that stores the tasks and then calls `end`, and the place where it stores them.
fn keeping(end: fn() -> Result<(), Rejected>) -> (Stash, impl RejectedExecutionHandler) {
    let stash = Stash::default();
    let kept = Arc::clone(&stash);
    (stash, move |task: Task, _: &ThreadPoolExecutor| {
        kept.lock().unwrap().push(task);
        end()
    })
}

fn take(stash: &Stash) -> Vec<Task> {
    std::mem::take(&mut *stash.lock().unwrap())
}

/// Calls a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

// Regression: the scope had taken the list of stored tasks, and dropped the captures of the first.
// Their destructor started another task, which the policy stored too. The scope returned without
// checking the list again, and the other closure could run afterwards.
#[test]
fn a_kept_task_that_a_destructor_started_at_the_end_of_the_scope_is_inert_too() {
    let (stash, policy) = keeping(|| Ok(()));
    let (pool, gate) = saturated(policy);
    let ran = Arc::new(AtomicUsize::new(0));
    pool.scope(|scope| {
        let ran = &ran;
        let again = OnDrop(move || {
            let ran = Arc::clone(ran);
            scope.execute(move || _ = ran.fetch_add(1, Ordering::SeqCst)).unwrap();
        });
        scope.execute(move || drop(again)).unwrap();
    });
    let kept = take(&stash);
    assert_eq!(kept.len(), 2);
    kept.into_iter().for_each(Task::run);
    assert_eq!(ran.load(Ordering::SeqCst), 0, "they do nothing any more");
    gate.open();
    end(&pool);
}

// Regression: a worker that ends a scope searches the queue for the scope's tasks. The panic of a
// custom queue unwound through the scope, while its task could still run.
#[test]
fn a_queue_that_panics_when_it_is_searched_does_not_end_the_scope() {
    let gate = Gate::new();
    let searched = gate.clone();
    let on_call = move |called: &str| {
        if called == "remove_if" {
            searched.open();
            die("not supported");
        }
    };
    let queue = Wrapped { on_call: Box::new(on_call), ..Wrapped::new(LinkedBlockingQueue::unbounded()) };
    let pool = sized(2, 2).work_queue(WorkQueue::custom(queue)).build().unwrap();
    // The other worker is busy until the queue has been searched.
    occupy(&pool, &gate);
    let inside = pool.clone();
    let ran = pool.submit(move || {
        let ran = AtomicBool::new(false);
        inside.scope(|scope| scope.execute(|| ran.store(true, Ordering::SeqCst)).unwrap());
        ran.load(Ordering::SeqCst)
    });
    assert!(ran.unwrap().join().unwrap());
    end(&pool);
}

// Regression: the submission unwound before it knew that the policy had stored the task. So the
// closure was dropped together with the task, which the scope did not count.
#[test]
fn the_scope_waits_for_a_task_that_is_dropped_after_its_policy_kept_it_and_panicked() {
    let (stash, policy) = keeping(|| die("policy"));
    let (pool, gate) = saturated(policy);
    let (dropping, go_on) = (Gate::new(), Gate::new());
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        let ender = block(threads, || {
            pool.scope(|scope| {
                let (begun, pass, over) = (dropping.clone(), go_on.clone(), &over);
                let slow = OnDrop(move || {
                    begun.open();
                    pass.pass();
                    assert!(!over.load(Ordering::SeqCst), "what it borrows is gone");
                });
                let given = catch_unwind(AssertUnwindSafe(|| scope.execute(move || drop(slow))));
                assert!(given.is_err(), "the policy's panic is the submitter's");
                let task = take(&stash).pop().unwrap();
                threads.spawn(move || drop(task));
                dropping.pass();
            });
            over.store(true, Ordering::SeqCst);
        });
        assert!(!ender.is_finished());
        go_on.open();
        ender.join();
    });
    gate.open();
    end(&pool);
}

// Regression: a task whose submission unwound has no handle, but its result was kept for one and
// dropped with the task: after the scope.
#[test]
fn the_result_of_a_task_whose_policy_kept_it_and_panicked_goes_before_the_scope_ends() {
    let (stash, policy) = keeping(|| die("policy"));
    let (pool, gate) = saturated(policy);
    let other = executors::fixed(1).unwrap();
    let (dropping, go_on) = (Gate::new(), Gate::new());
    thread::scope(|threads| {
        let ender = block(threads, || {
            pool.scope(|scope| {
                let (begun, pass) = (&dropping, &go_on);
                let slow = move || {
                    begun.open();
                    pass.pass();
                };
                let result = move || OnDrop(slow);
                assert!(catch_unwind(AssertUnwindSafe(|| scope.submit(result))).is_err());
                other.execute_task(take(&stash).pop().unwrap()).unwrap();
                dropping.pass();
            });
        });
        assert!(!ender.is_finished(), "what the result borrows may be gone");
        go_on.open();
        ender.join();
    });
    gate.open();
    end(&pool);
    end(&other);
}

// Regression: a task was queued, and removed again because no thread could be started. It was not
// marked as removed: the scope considered it accepted, and its closure was dropped unrun.
#[test]
fn a_scoped_task_that_was_queued_and_taken_back_gives_its_closure_back() {
    let no_threads = |_: WorkerBody| Err(io::Error::other("no threads today"));
    let pool = sized(0, 1).thread_factory(no_threads).build().unwrap();
    let mut ran = false;
    pool.scope(|scope| {
        let refused = scope.execute(|| ran = true).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::SpawnFailed);
        refused.into_inner()();
    });
    assert!(ran);
    end(&pool);
}

#[test]
fn scoped_tasks_racing_shutdown_run_or_come_back() {
    for _ in rounds(300) {
        let pool = executors::fixed(1).unwrap();
        pool.prestart_all_core_threads();
        let (ran, mut accepted) = (AtomicUsize::new(0), 0);
        thread::scope(|threads| {
            threads.spawn(|| pool.shutdown());
            pool.scope(|scope| {
                let run = || _ = ran.fetch_add(1, Ordering::SeqCst);
                while scope.execute(run).is_ok() {
                    accepted += 1;
                }
            });
        });
        assert_eq!(ran.load(Ordering::SeqCst), accepted);
        await_end(&pool);
    }
}

// Regression: a thread that cannot be started leaves its task in the queue. A joining thread tries
// again, but a scope waited forever.
#[test]
fn a_scope_and_its_handles_get_a_thread_for_tasks_that_were_left_without_one() {
    for by_handle in [false, true] {
        let (asked, gate, works) = (Gate::new(), Gate::new(), Arc::new(AtomicBool::new(false)));
        let (tell, wait, now) = (asked.clone(), gate.clone(), Arc::clone(&works));
        let factory = move |body: WorkerBody| {
            if now.load(Ordering::SeqCst) {
                return thread_for(body);
            }
            tell.open();
            wait.pass();
            Err(io::Error::other("no threads now"))
        };
        let pool = sized(1, 1).thread_factory(factory).build().unwrap();
        thread::scope(|threads| {
            let first = threads.spawn(|| pool.prestart_core_thread());
            asked.pass(); // the worker is counted, but its thread will not start
            let ended = threads.spawn(|| {
                pool.scope(|scope| {
                    let handle = scope.submit(|| 7).unwrap();
                    gate.open();
                    if by_handle { handle.join().unwrap() } else { 7 }
                })
            });
            assert!(!first.join().unwrap());
            works.store(true, Ordering::SeqCst);
            assert_eq!(ended.join().unwrap(), 7);
        });
        end(&pool);
    }
}

// Regression: the owner polled for a task of its own pool that it could run, although the task was
// in another pool.
#[test]
fn a_worker_whose_scoped_task_is_in_another_pool_sleeps_until_it_has_run() {
    let other = executors::fixed(1).unwrap();
    let gate = Gate::new();
    occupy(&other, &gate);
    let second = other.clone();
    let pass_on = move |task: Task, _: &ThreadPoolExecutor| second.execute_task(task);
    let pool =
        sized(1, 1).work_queue(WorkQueue::synchronous()).rejected_execution_handler(pass_on).build().unwrap();
    let inside = pool.clone();
    let worker = Arc::new(Mutex::new(None));
    let me = Arc::clone(&worker);
    let outer = pool.submit(move || {
        *me.lock().unwrap() = Some(interrupt::current());
        inside.scope(|scope| scope.execute(|| ()).unwrap());
    });
    eventually(|| worker.lock().unwrap().as_ref().is_some_and(interrupt::Interrupter::is_parked));
    gate.open();
    outer.unwrap().join().unwrap();
    end(&pool);
    end(&other);
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        die("destructor");
    }
}

// Regression: the values were dropped while the panic of the scope unwound, which aborts.
#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn a_scope_panics_once_whatever_the_destructors_of_payloads_and_results_do() {
    let name = "scope_hostile::a_scope_panics_once_whatever_the_destructors_of_payloads_and_results_do";
    in_a_process_of_its_own(name, || {
        let pool = executors::fixed(2).unwrap();
        let ends = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                (0..3).for_each(|_| scope.execute(|| resume_unwind(Box::new(Bomb))).unwrap());
                Bomb
            })
        }));
        let payload = ends.err().expect("the scope panics");
        assert!(payload.is::<Bomb>());
        mem::forget(payload);
        end(&pool);
    });
}
