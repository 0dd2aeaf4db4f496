//! Tasks that borrow: when `scope` returns, all have ended and all captures are dropped, whatever
//! happened to the tasks.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::support::pools::fixed;
use crate::support::{
    Counter, Gate, LONG, MEDIUM, PanicsOnDrop, block, eventually, interrupt_myself, occupied, rounds,
};
use millpond::{
    ConfigError, Hooks, JoinError, RejectReason, Rejected, RejectedExecutionHandler, ScopedTaskHandle, Task,
    TaskInfo, TaskState, ThreadPoolExecutor, WorkQueue, interrupt, policy,
};

/// A pool whose only thread is busy and whose queue has no room: every further task goes to
/// `policy`.
struct Busy {
    pool: ThreadPoolExecutor,
    gate: Gate,
}

impl Busy {
    fn new(policy: impl RejectedExecutionHandler) -> Busy {
        let pool = one_thread(WorkQueue::synchronous(), policy).unwrap();
        let gate = occupied(&pool);
        Busy { pool, gate }
    }

    fn close(self) {
        self.gate.open();
        self.pool.close();
    }
}

fn one_thread(
    queue: WorkQueue,
    policy: impl RejectedExecutionHandler,
) -> Result<ThreadPoolExecutor, ConfigError> {
    ThreadPoolExecutor::builder()
        .core_pool_size(1)
        .maximum_pool_size(1)
        .work_queue(queue)
        .rejected_execution_handler(policy)
        .build()
}

type Stash = Arc<Mutex<Vec<Task>>>;

/// A policy that stores the tasks, and the place where it stores them.
fn stashing() -> (Stash, impl RejectedExecutionHandler) {
    let stash = Stash::default();
    let kept = Arc::clone(&stash);
    (stash, move |task: Task, _: &ThreadPoolExecutor| {
        kept.lock().unwrap().push(task);
        Ok(())
    })
}

fn add(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload.downcast_ref::<&str>().copied().unwrap_or("not a string")
}

#[test]
fn tasks_borrow_from_the_caller_and_their_writes_are_seen_after_the_scope() {
    let pool = fixed(2);
    let mut numbers: Vec<usize> = (0..64).collect();
    let factor = String::from("xx");
    let returned = pool.scope(|scope| {
        for part in numbers.chunks_mut(8) {
            scope.execute(|| part.iter_mut().for_each(|n| *n *= factor.len())).unwrap();
        }
        "the closure's value"
    });
    assert_eq!(returned, "the closure's value");
    assert!(numbers.iter().enumerate().all(|(at, n)| *n == 2 * at));
    pool.close();
}

#[test]
fn submit_gives_results_that_borrow() {
    let pool = fixed(2);
    let text = String::from("one two three");
    let longest = pool.scope(|scope| {
        let handles: Vec<_> =
            text.split(' ').map(|word| scope.submit(move || (word.len(), word)).unwrap()).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).max().unwrap()
    });
    assert_eq!(longest, (5, "three"));
    pool.close();
}

#[test]
fn an_empty_scope_returns_at_once_even_on_a_terminated_pool() {
    let pool = fixed(1);
    pool.close();
    assert_eq!(pool.scope(|_| 7), 7);
}

#[test]
fn the_scope_waits_for_tasks_that_tasks_have_started() {
    let pool = fixed(2);
    let ended = AtomicUsize::new(0);
    pool.scope(|scope| {
        scope
            .execute(|| {
                for _ in 0..4 {
                    scope
                        .execute(|| {
                            scope.execute(|| add(&ended)).unwrap();
                            add(&ended);
                        })
                        .unwrap();
                }
            })
            .unwrap();
    });
    assert_eq!(ended.into_inner(), 8);
    pool.close();
}

#[test]
fn a_panic_is_raised_again_when_all_tasks_have_ended() {
    let pool = fixed(2);
    let ended = AtomicBool::new(false);
    let panicked = Gate::new();
    let raised = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            scope
                .execute(|| {
                    panicked.pass();
                    thread::sleep(MEDIUM); // only makes an early return of the scope visible
                    ended.store(true, Ordering::Relaxed);
                })
                .unwrap();
            scope
                .execute(|| {
                    panicked.open();
                    resume_unwind(Box::new("broken"))
                })
                .unwrap();
        })
    }));
    assert_eq!(message(&*raised.unwrap_err()), "broken");
    assert!(ended.into_inner());
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    assert_eq!(pool.stats().panicked, 1);
    pool.close();
}

#[test]
fn a_panic_that_a_join_has_taken_is_not_raised_again() {
    let pool = fixed(1);
    let outcome = pool.scope(|scope| {
        let handle = scope.submit(|| -> u8 { resume_unwind(Box::new(String::from("broken"))) }).unwrap();
        handle.join()
    });
    assert!(matches!(outcome, Err(JoinError::Panicked(panic)) if panic.message() == Some("broken")));
    pool.close();
}

#[test]
fn the_panic_of_a_task_whose_handle_was_dropped_is_raised() {
    for drop_early in [true, false] {
        let pool = fixed(1);
        let gate = Gate::new();
        let raised = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                let wait = gate.clone();
                let submitted = scope.submit(move || {
                    wait.pass();
                    resume_unwind(Box::new("broken"))
                });
                let handle: millpond::ScopedTaskHandle<'_, ()> = submitted.unwrap();
                if !drop_early {
                    gate.open();
                    eventually(|| handle.is_done());
                    assert_eq!(handle.state(), TaskState::Failed);
                }
                drop(handle);
                gate.open();
            })
        }));
        assert_eq!(message(&*raised.unwrap_err()), "broken", "dropped early: {drop_early}");
        pool.close();
    }
}

#[test]
fn the_panic_of_the_closure_itself_comes_out_when_all_tasks_have_ended() {
    let pool = fixed(1);
    let ended = AtomicBool::new(false);
    let gate = Gate::new();
    let raised = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            scope
                .execute(|| {
                    gate.pass();
                    thread::sleep(MEDIUM); // as above
                    ended.store(true, Ordering::Relaxed);
                })
                .unwrap();
            gate.open();
            resume_unwind(Box::new("the closure"))
        })
    }));
    let payload: Box<dyn std::any::Any + Send> = match raised {
        Ok(()) => unreachable!("the closure panics"),
        Err(payload) => payload,
    };
    assert_eq!(message(&*payload), "the closure");
    assert!(ended.into_inner());
    pool.close();
}

#[test]
fn scopes_nest_on_a_pool_of_one_thread() {
    fn sum(pool: &ThreadPoolExecutor, numbers: &[u64]) -> u64 {
        if numbers.len() <= 1 {
            return numbers.iter().sum();
        }
        let (left, right) = numbers.split_at(numbers.len() / 2);
        pool.scope(|scope| {
            let left = scope.submit(|| sum(pool, left)).unwrap();
            let right = scope.submit(|| sum(pool, right)).unwrap();
            left.join().unwrap() + right.join().unwrap()
        })
    }
    let pool = fixed(1);
    let numbers: Vec<u64> = (1..=32).collect();
    assert_eq!(sum(&pool, &numbers), 32 * 33 / 2);
    pool.close();
}

#[test]
fn a_worker_that_calls_scope_runs_the_waiting_tasks_itself() {
    let pool = fixed(1);
    let inside = pool.clone();
    let (here, ran_on) = pool
        .submit(move || {
            let mut ran_on = Vec::new();
            let seen = Mutex::new(&mut ran_on);
            inside.scope(|scope| {
                for _ in 0..5 {
                    scope.execute(|| seen.lock().unwrap().push(thread::current().id())).unwrap();
                }
            });
            (thread::current().id(), ran_on)
        })
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(ran_on, vec![here; 5]);
    eventually(|| pool.completed_task_count() == 6);
    pool.close();
}

#[test]
fn the_owner_helps_with_tasks_that_come_while_it_waits() {
    let pool = fixed(2);
    let inside = pool.clone();
    let ended = pool.submit(move || {
        let ended = AtomicUsize::new(0);
        inside.scope(|scope| {
            // The other worker starts five tasks and then waits for them without helping: only the
            // owner can run them.
            scope
                .execute(|| {
                    for _ in 0..5 {
                        scope.execute(|| add(&ended)).unwrap();
                    }
                    eventually(|| ended.load(Ordering::SeqCst) == 5);
                })
                .unwrap();
            // The other worker must take this task first. If the owner did, it would wait for
            // itself.
            eventually(|| inside.active_count() == 2);
        });
        ended.into_inner()
    });
    assert_eq!(ended.unwrap().join().unwrap(), 5);
    pool.close();
}

#[test]
fn a_refused_task_gives_its_closure_back() {
    let busy = Busy::new(policy::Abort);
    let dropped = Counter::new();
    let mut ran = false;
    busy.pool.scope(|scope| {
        let guard = dropped.on_drop();
        let refused = scope
            .execute(|| {
                let _guard = guard;
                ran = true;
            })
            .unwrap_err();
        assert_eq!(refused.reason(), RejectReason::Saturated);
        assert!(refused.to_string().contains("saturated"), "{refused}");
        assert_eq!(dropped.get(), 0);
        refused.into_inner()();
    });
    assert!(ran);
    assert_eq!(dropped.get(), 1);
    assert_eq!(busy.pool.stats().rejected, 1);
    busy.close();
}

#[test]
fn a_scope_on_a_pool_that_is_shut_down_says_so() {
    let pool = fixed(1);
    pool.shutdown();
    let text = String::from("text");
    let back = pool.scope(|scope| {
        let refused = scope.submit(|| text.len()).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::Shutdown);
        refused.into_inner()()
    });
    assert_eq!(back, 4);
    pool.close();
}

#[test]
fn a_spawn_that_fails_gives_the_closure_back() {
    let pool = ThreadPoolExecutor::builder()
        .thread_factory(|_| Err(std::io::Error::other("no threads today")))
        .build()
        .unwrap();
    let dropped = Counter::new();
    let guard = dropped.on_drop();
    pool.scope(|scope| {
        let refused = scope.execute(move || drop(guard)).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::SpawnFailed);
        drop(refused);
    });
    assert_eq!(dropped.get(), 1);
    pool.close();
}

#[test]
fn a_task_that_a_policy_keeps_is_inert_after_the_scope() {
    let (stash, policy) = stashing();
    let busy = Busy::new(policy);
    let dropped = Counter::new();
    let ran = Arc::new(AtomicBool::new(false));
    busy.pool.scope(|scope| {
        for _ in 0..2 {
            let (guard, ran) = (dropped.on_drop(), &ran);
            scope
                .execute(move || {
                    let _guard = guard;
                    ran.store(true, Ordering::Relaxed);
                })
                .unwrap();
        }
        assert_eq!(stash.lock().unwrap().len(), 2);
        assert_eq!(dropped.get(), 0);
    });
    assert_eq!(dropped.get(), 2, "the captures are gone when the scope returns");
    let mut tasks = mem::take(&mut *stash.lock().unwrap());
    tasks.pop().unwrap().run();
    let other = fixed(1);
    other.execute_task(tasks.pop().unwrap()).unwrap();
    other.close();
    assert_eq!(dropped.get(), 2);
    assert!(!ran.load(Ordering::Relaxed));
    busy.close();
}

#[test]
fn a_task_that_a_policy_keeps_may_run_while_the_scope_lasts() {
    let (stash, policy) = stashing();
    let busy = Busy::new(policy);
    let text = String::from("text");
    busy.pool.scope(|scope| {
        let here = scope.submit(|| text.len()).unwrap();
        assert_eq!(here.state(), TaskState::Pending);
        let task = stash.lock().unwrap().pop().unwrap();
        task.run();
        assert_eq!(here.state(), TaskState::Succeeded);
        assert_eq!(here.join().unwrap(), 4);

        let elsewhere = scope.submit(|| text.len() + 1).unwrap();
        let task = stash.lock().unwrap().pop().unwrap();
        thread::spawn(move || task.run()).join().unwrap();
        assert_eq!(elsewhere.join().unwrap(), 5);
    });
    busy.close();
}

#[test]
fn the_scope_waits_for_a_kept_task_that_somebody_runs() {
    let (stash, policy) = stashing();
    let busy = Busy::new(policy);
    let ended = AtomicBool::new(false);
    let running = Gate::new();
    let mut runner = None;
    busy.pool.scope(|scope| {
        scope
            .execute(|| {
                running.open();
                thread::sleep(MEDIUM); // only makes an early return of the scope visible
                ended.store(true, Ordering::Relaxed);
            })
            .unwrap();
        let task = stash.lock().unwrap().pop().unwrap();
        runner = Some(thread::spawn(move || task.run()));
        running.pass();
    });
    assert!(ended.into_inner());
    runner.unwrap().join().unwrap();
    busy.close();
}

/// Another thread may drop a stray task just when the scope ends. The captures, which may borrow,
/// must be dropped before the scope returns, even if that thread is still dropping them.
#[test]
fn the_scope_waits_for_a_kept_task_that_somebody_drops() {
    struct SlowDrop {
        begun: Gate,
        ended: Arc<AtomicBool>,
    }
    impl Drop for SlowDrop {
        fn drop(&mut self) {
            self.begun.open();
            thread::sleep(MEDIUM); // only makes an early return of the scope visible
            self.ended.store(true, Ordering::SeqCst);
        }
    }
    let (stash, policy) = stashing();
    let busy = Busy::new(policy);
    let (begun, ended) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let mut dropper = None;
    busy.pool.scope(|scope| {
        let slow = SlowDrop { begun: begun.clone(), ended: Arc::clone(&ended) };
        scope.execute(move || drop(slow)).unwrap();
        let task = stash.lock().unwrap().pop().unwrap();
        dropper = Some(thread::spawn(move || drop(task)));
        begun.pass();
    });
    let ended_in_time = ended.load(Ordering::SeqCst);
    dropper.unwrap().join().unwrap();
    assert!(ended_in_time, "the scope returned while a closure of it was being dropped");
    busy.close();
}

#[test]
fn a_task_that_a_policy_passes_to_another_pool_is_waited_for() {
    let other = fixed(1);
    let passed_on = other.clone();
    let busy = Busy::new(move |task: Task, _: &ThreadPoolExecutor| passed_on.execute_task(task));
    let gate = occupied(&other);
    let mut ran = false;
    let ended = Gate::new();
    thread::scope(|s| {
        let scoped = block(s, || {
            busy.pool.scope(|scope| scope.execute(|| ran = true).unwrap());
            ended.open();
        });
        assert!(!ended.is_open());
        gate.open();
        scoped.join();
    });
    assert!(ran);
    busy.close();
    other.close();
}

#[test]
fn a_policy_that_keeps_the_task_and_says_rejected_loses_the_closure_to_the_submitter() {
    let stash = Stash::default();
    let kept = Arc::clone(&stash);
    let busy = Busy::new(move |task: Task, _: &ThreadPoolExecutor| {
        kept.lock().unwrap().push(task);
        Err(Rejected::new(Task::new(|| ()), RejectReason::Saturated))
    });
    let dropped = Counter::new();
    let mut runs = 0;
    busy.pool.scope(|scope| {
        let guard = dropped.on_drop();
        let refused = scope
            .execute(|| {
                let _guard = guard;
                runs += 1;
            })
            .unwrap_err();
        stash.lock().unwrap().pop().unwrap().run();
        refused.into_inner()();
    });
    assert_eq!((runs, dropped.get()), (1, 1));
    busy.close();
}

#[test]
fn a_policy_that_panics_lets_the_scope_unwind_with_nothing_left_behind() {
    let busy = Busy::new(|_: Task, _: &ThreadPoolExecutor| panic_any("policy"));
    let dropped = Counter::new();
    let raised = catch_unwind(AssertUnwindSafe(|| {
        busy.pool.scope(|scope| {
            let guard = dropped.on_drop();
            scope.execute(move || drop(guard)).unwrap();
        })
    }));
    assert_eq!(message(&*raised.unwrap_err()), "policy");
    assert_eq!(dropped.get(), 1);
    busy.close();
}

#[test]
fn a_drain_by_shutdown_now_ends_the_scope_and_its_tasks_are_inert() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let dropped = Counter::new();
    let ran = AtomicBool::new(false);
    let drained = thread::scope(|s| {
        let scoped = block(s, || {
            pool.scope(|scope| {
                for _ in 0..3 {
                    let (guard, ran) = (dropped.on_drop(), &ran);
                    scope
                        .execute(move || {
                            let _guard = guard;
                            ran.store(true, Ordering::Relaxed);
                        })
                        .unwrap();
                }
            });
            dropped.get()
        });
        let drained = pool.shutdown_now();
        assert_eq!(scoped.join(), 3, "all captures are gone when the scope returns");
        drained
    });
    assert_eq!(drained.len(), 3);
    drained.into_iter().for_each(Task::run);
    assert_eq!(dropped.get(), 3);
    assert!(!ran.into_inner());
    gate.open();
    pool.close();
}

#[test]
fn drained_tasks_that_are_run_while_the_scope_lasts_do_their_work() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let mut words = Vec::new();
    pool.scope(|scope| {
        let word = scope.submit(|| words.push("drained")).unwrap();
        for task in pool.shutdown_now() {
            task.run();
        }
        word.join().unwrap();
    });
    assert_eq!(words, ["drained"]);
    gate.open();
    pool.close();
}

#[test]
fn a_join_in_the_scope_of_a_drained_and_dropped_task_is_abandoned() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    thread::scope(|s| {
        let joined = block(s, || pool.scope(|scope| scope.submit(|| 1).unwrap().join()));
        drop(pool.shutdown_now());
        assert!(matches!(joined.join(), Err(JoinError::Abandoned)));
    });
    gate.open();
    pool.close();
}

#[test]
fn a_scoped_task_can_be_removed_by_its_id() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let dropped = Counter::new();
    let outcome = pool.scope(|scope| {
        let guard = dropped.on_drop();
        let handle = scope.submit(move || drop(guard)).unwrap();
        let queued = pool.queued_tasks();
        assert_eq!(queued.len(), 1);
        assert!(pool.remove(queued[0]));
        assert_eq!(dropped.get(), 1);
        handle.join()
    });
    assert!(matches!(outcome, Err(JoinError::Abandoned)));
    gate.open();
    pool.close();
}

#[test]
fn caller_runs_runs_it_on_the_caller_and_its_panic_is_raised_at_the_end() {
    let busy = Busy::new(policy::CallerRuns);
    let mut ran_on = None;
    busy.pool.scope(|scope| scope.execute(|| ran_on = Some(thread::current().id())).unwrap());
    assert_eq!(ran_on, Some(thread::current().id()));

    let mut went_on = false;
    let raised = catch_unwind(AssertUnwindSafe(|| {
        busy.pool.scope(|scope| {
            scope.execute(|| resume_unwind(Box::new("broken"))).unwrap();
            went_on = true;
        })
    }));
    assert_eq!(message(&*raised.unwrap_err()), "broken");
    assert!(went_on);
    busy.close();
}

#[test]
fn a_discarded_task_is_dropped_at_once_and_its_handle_is_abandoned() {
    let busy = Busy::new(policy::Discard);
    let dropped = Counter::new();
    busy.pool.scope(|scope| {
        let guard = dropped.on_drop();
        scope.execute(move || drop(guard)).unwrap();
        assert_eq!(dropped.get(), 1);
        let guard = dropped.on_drop();
        let handle = scope.submit(move || drop(guard)).unwrap();
        assert_eq!(dropped.get(), 2);
        assert_eq!(handle.state(), TaskState::Abandoned);
        assert!(matches!(handle.join(), Err(JoinError::Abandoned)));
    });
    assert_eq!(dropped.get(), 2);
    busy.close();
}

#[test]
fn an_evicted_task_is_dropped_once_and_its_handle_is_abandoned() {
    let pool = one_thread(WorkQueue::array(1), policy::DiscardOldest).unwrap();
    let gate = occupied(&pool);
    let dropped = Counter::new();
    let mut ran = Vec::new();
    pool.scope(|scope| {
        let guard = dropped.on_drop();
        let oldest = scope.submit(move || drop(guard)).unwrap();
        scope.execute(|| ran.push("newer")).unwrap();
        assert!(matches!(oldest.join(), Err(JoinError::Abandoned)));
        assert_eq!(dropped.get(), 1);
        gate.open();
    });
    assert_eq!(ran, ["newer"]);
    assert_eq!(dropped.get(), 1);
    pool.close();
}

#[test]
fn a_before_hook_that_panics_keeps_the_task_from_running_and_the_scope_ends() {
    struct Refuse;
    impl Hooks for Refuse {
        fn before_execute(&self, _: &TaskInfo) {
            panic_any("hook");
        }
    }
    let pool = ThreadPoolExecutor::builder().hooks(Refuse).build().unwrap();
    let dropped = Counter::new();
    let outcome = pool.scope(|scope| {
        let guard = dropped.on_drop();
        scope.submit(move || drop(guard)).unwrap().join()
    });
    assert!(matches!(outcome, Err(JoinError::Abandoned)));
    assert_eq!(dropped.get(), 1);
    pool.close();
}

#[test]
fn a_closure_whose_destructor_panics_harms_neither_scope_nor_pool() {
    let dropped = Counter::new();
    let bomb = || PanicsOnDrop(dropped.on_drop());

    // Run: the captures are dropped during the run, so the task panics.
    let pool = fixed(1);
    let raised = catch_unwind(AssertUnwindSafe(|| {
        let bomb = bomb();
        pool.scope(|scope| scope.execute(move || drop(bomb)).unwrap());
    }));
    assert_eq!(message(&*raised.unwrap_err()), "destructor");
    assert_eq!(dropped.get(), 1);
    pool.close();

    // Discarded.
    let busy = Busy::new(policy::Discard);
    let captured = bomb();
    busy.pool.scope(|scope| scope.execute(move || drop(captured)).unwrap());
    assert_eq!(dropped.get(), 2);
    busy.close();

    // Kept, and revoked at the end of the scope.
    let (stash, policy) = stashing();
    let busy = Busy::new(policy);
    let captured = bomb();
    busy.pool.scope(|scope| scope.execute(move || drop(captured)).unwrap());
    assert_eq!(dropped.get(), 3);
    stash.lock().unwrap().drain(..).for_each(Task::run);
    busy.close();

    // Drained.
    let pool = fixed(1);
    let gate = occupied(&pool);
    let captured = bomb();
    pool.scope(|scope| {
        scope.execute(move || drop(captured)).unwrap();
        drop(pool.shutdown_now());
    });
    assert_eq!(dropped.get(), 4);
    gate.open();
    pool.close();
}

#[test]
fn a_result_whose_destructor_panics_harms_neither_scope_nor_pool() {
    let pool = fixed(1);
    let dropped = Counter::new();
    let captured = PanicsOnDrop(dropped.on_drop());
    pool.scope(|scope| drop(scope.submit(move || captured).unwrap()));
    assert_eq!(dropped.get(), 1);
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    pool.close();
}

#[test]
fn a_result_that_borrows_is_dropped_once_and_before_the_scope_returns() {
    struct Reads<'a>(&'a str, Counter);
    impl Drop for Reads<'_> {
        fn drop(&mut self) {
            assert_eq!(self.0, "borrowed");
            self.1.add();
        }
    }
    for drop_early in [true, false] {
        let pool = fixed(1);
        let dropped = Counter::new();
        let (gate, text) = (Gate::new(), String::from("borrowed"));
        pool.scope(|scope| {
            let handle = scope
                .submit(|| {
                    gate.pass();
                    Reads(&text, dropped.clone())
                })
                .unwrap();
            if !drop_early {
                gate.open();
                eventually(|| handle.is_done());
                assert_eq!(dropped.get(), 0);
            }
            drop(handle);
            gate.open();
        });
        assert_eq!(dropped.get(), 1, "dropped early: {drop_early}");
        drop(text);
        pool.close();
    }
}

#[test]
#[cfg_attr(miri, ignore = "leaks on purpose")]
fn a_leaked_handle_does_not_keep_the_scope_from_returning() {
    let pool = fixed(1);
    let text = String::from("borrowed");
    pool.scope(|scope| mem::forget(scope.submit(|| text.as_str()).unwrap()));
    drop(text);
    pool.close();
}

#[test]
fn a_handle_may_go_to_another_task_of_the_scope() {
    let pool = fixed(1);
    let text = String::from("text");
    let length = pool.scope(|scope| {
        let inner = scope.submit(|| text.len()).unwrap();
        scope.submit(move || inner.join().unwrap() + 1).unwrap().join().unwrap()
    });
    assert_eq!(length, 5);
    pool.close();
}

#[test]
fn an_interrupt_does_not_end_the_scope_and_is_still_there_afterwards() {
    let pool = fixed(1);
    let gate = Gate::new();
    let ended = AtomicBool::new(false);
    thread::scope(|s| {
        let scoped = block(s, || {
            pool.scope(|scope| {
                scope
                    .execute(|| {
                        gate.pass();
                        ended.store(true, Ordering::SeqCst);
                    })
                    .unwrap();
            });
            (ended.load(Ordering::SeqCst), interrupt::interrupted())
        });
        scoped.interrupt();
        gate.open();
        assert_eq!(scoped.join(), (true, true));
    });
    pool.close();
}

#[test]
fn an_interrupted_join_in_a_scope_is_not_the_end_of_the_task() {
    let pool = fixed(1);
    let gate = Gate::new();
    let mut ended = false;
    pool.scope(|scope| {
        let handle = scope
            .submit(|| {
                gate.pass();
                ended = true;
            })
            .unwrap();
        interrupt_myself();
        assert!(matches!(handle.join(), Err(JoinError::Interrupted)));
        assert!(!interrupt::is_interrupted());
        gate.open();
    });
    assert!(ended);
    pool.close();
}

#[test]
fn debug_names_the_states() {
    let pool = fixed(1);
    pool.scope(|scope| {
        assert!(format!("{scope:?}").starts_with("Scope"));
        let handle = scope.submit(|| 1).unwrap();
        eventually(|| handle.is_done());
        assert!(format!("{handle:?}").contains("Succeeded"));
    });
    pool.close();
}

/// A drain, the drop of its tasks and the end of the scope race: every capture is dropped once, and
/// before the scope returns.
#[test]
fn scopes_racing_shutdown_now_leave_nothing_behind() {
    for round in rounds(500) {
        let pool = fixed(1 + round % 2);
        let text = String::from("borrowed");
        let dropped = Counter::new();
        let (tasks, drained) = thread::scope(|s| {
            let drain = s.spawn(|| {
                let drained = pool.shutdown_now();
                let count = drained.len();
                for (at, task) in drained.into_iter().enumerate() {
                    if at % 2 == 0 { drop(task) } else { task.run() }
                }
                count
            });
            let mut accepted = 0;
            pool.scope(|scope| {
                for _ in 0..4 {
                    let (guard, text) = (dropped.on_drop(), text.as_str());
                    let task = move || {
                        let _guard = guard;
                        assert_eq!(text, "borrowed");
                    };
                    accepted += usize::from(scope.execute(task).is_ok());
                }
            });
            assert_eq!(dropped.get(), 4, "round {round}");
            drop(text);
            (accepted, drain.join().unwrap())
        });
        assert!(drained <= tasks);
        pool.close();
    }
}

#[test]
fn a_scoped_task_that_joins_itself_is_told_so_at_once() {
    let pool = fixed(1);
    pool.scope(|scope| {
        let (give, given) = mpsc::channel::<ScopedTaskHandle<'_, ()>>();
        let (tell, told) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        let own = scope.submit(move || {
            begin.send(interrupt::current()).unwrap();
            tell.send(given.recv().unwrap().join()).unwrap();
        });
        give.send(own.unwrap()).unwrap();
        let inside = begun.recv_timeout(LONG).unwrap();
        let answer = told.recv_timeout(LONG / 4);
        inside.interrupt(); // so that a failure does not hang
        assert!(matches!(answer, Ok(Err(JoinError::WouldDeadlock))), "{answer:?}");
    });
    pool.close();
}
