//! The interrupt flag: which threads set it, which see it, and which calls it ends.

use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::fixed;
use crate::support::{
    Counter, Gate, LONG, PanicsOnDrop, SMALL, block, eventually, interrupt_myself, occupied, rounds,
};
use millpond::interrupt::{self, Interrupted, Interrupter, Registration};
use millpond::queue::{
    ArrayBlockingQueue, BlockingQueue, DelayQueue, Delayed, LinkedBlockingQueue, OfferError,
    PriorityBlockingQueue, PutError, SynchronousQueue,
};
use millpond::{
    ExecutorCompletionService, Hooks, InvokeError, JoinError, RejectReason, Task, TaskInfo, TaskOf,
    ThreadPoolExecutor, WorkQueue, policy,
};

// ---- the flag

#[test]
fn looking_at_the_flag_keeps_it_and_taking_it_clears_it() {
    assert!(!interrupt::is_interrupted());
    assert!(!interrupt::interrupted());
    assert_eq!(interrupt::check(), Ok(()));
    interrupt_myself();
    assert!(interrupt::is_interrupted() && interrupt::is_interrupted());
    assert!(interrupt::interrupted());
    assert!(!interrupt::is_interrupted() && !interrupt::interrupted());
    interrupt_myself();
    interrupt_myself(); // one flag, however often it is set
    assert_eq!(interrupt::check(), Err(Interrupted));
    assert_eq!(interrupt::check(), Ok(()));
}

#[test]
fn every_thread_has_a_flag_of_its_own() {
    let mine = interrupt::current();
    let theirs = thread::spawn(move || {
        mine.interrupt();
        assert!(mine.is_interrupted());
        (interrupt::is_interrupted(), interrupt::current())
    });
    let (seen_there, theirs) = theirs.join().unwrap();
    assert!(!seen_there);
    assert!(interrupt::interrupted());
    theirs.interrupt(); // its thread is gone: nothing happens
    assert!(!interrupt::is_interrupted());
}

#[test]
fn sleep_sleeps_at_least_as_long_as_asked() {
    let begin = Instant::now();
    assert_eq!(interrupt::sleep(SMALL), Ok(()));
    assert!(begin.elapsed() >= SMALL);
}

#[test]
fn a_sleep_of_zero_returns_and_still_looks_at_the_flag() {
    assert_eq!(interrupt::sleep(Duration::ZERO), Ok(()));
    interrupt_myself();
    assert_eq!(interrupt::sleep(Duration::ZERO), Err(Interrupted));
    assert!(!interrupt::is_interrupted());
    assert_eq!(interrupt::sleep(Duration::ZERO), Ok(()));
}

#[test]
fn an_endless_sleep_ends_by_interrupt() {
    thread::scope(|s| {
        let sleeper = block(s, || (interrupt::sleep(Duration::MAX), interrupt::is_interrupted()));
        assert!(!sleeper.is_finished());
        sleeper.interrupt();
        assert_eq!(sleeper.join(), (Err(Interrupted), false));
    });
    interrupt_myself();
    assert_eq!(interrupt::sleep(Duration::MAX), Err(Interrupted));
}

#[test]
fn a_wake_up_for_something_else_does_not_end_a_sleep() {
    thread::scope(|s| {
        let (send, receive) = mpsc::channel();
        let begin = Instant::now();
        let sleeper = s.spawn(move || {
            send.send(thread::current()).unwrap();
            interrupt::sleep(SMALL)
        });
        let thread = receive.recv().unwrap();
        while !sleeper.is_finished() {
            thread.unpark();
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(sleeper.join().unwrap(), Ok(()));
        assert!(begin.elapsed() >= SMALL);
    });
}

#[test]
fn the_error_is_an_ordinary_error() {
    let error: Box<dyn std::error::Error + Send + Sync> = Box::new(Interrupted);
    assert!(error.to_string().contains("interrupted"));
    assert_eq!(Interrupted, Interrupted);
}

/// Code that retries on `ErrorKind::Interrupted`, as `read_exact` does, must not retry on this
/// error.
#[test]
fn as_an_io_error_it_does_not_mean_try_again() {
    fn reads() -> io::Result<()> {
        interrupt_myself();
        interrupt::check()?;
        Ok(())
    }
    let error = reads().unwrap_err();
    assert_ne!(error.kind(), io::ErrorKind::Interrupted);
    assert!(error.get_ref().unwrap().is::<Interrupted>(), "it can be told apart from others");

    struct Stops;
    impl io::Read for Stops {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            reads().map(|()| 0)
        }
    }
    assert!(io::Read::read_exact(&mut Stops, &mut [0]).is_err(), "and does not read for ever");
}

// ---- every blocking call

/// Runs `call` with the flag set before, and on a thread that is interrupted while it blocks. Both
/// calls must end, and leave the flag as `flag_after` says.
#[track_caller]
fn ends_by_interrupt(name: &str, flag_after: bool, call: impl Fn() -> bool + Sync) {
    interrupt_myself();
    assert!(call(), "{name}, with the flag set");
    assert_eq!(interrupt::interrupted(), flag_after, "{name}, with the flag set");
    thread::scope(|s| {
        let blocked = block(s, || (call(), interrupt::interrupted()));
        assert!(!blocked.is_finished(), "{name} blocks");
        blocked.interrupt();
        assert_eq!(blocked.join(), (true, flag_after), "{name}, while it blocks");
    });
}

#[derive(Debug, PartialEq)]
struct Later;

impl Delayed for Later {
    fn due(&self) -> Instant {
        Instant::now() + LONG
    }
}

#[test]
fn queue_calls_end_by_interrupt() {
    fn check(name: &str, full: &dyn BlockingQueue<u8>) {
        ends_by_interrupt(name, false, || matches!(full.put(2), Err(PutError::Interrupted(2))));
        ends_by_interrupt(name, false, || {
            matches!(full.offer_timeout(2, Duration::MAX), Err(OfferError::Interrupted(2)))
        });
        full.clear();
        ends_by_interrupt(name, false, || full.take() == Err(Interrupted));
        ends_by_interrupt(name, false, || full.poll_timeout(LONG) == Err(Interrupted));
    }
    let full = ArrayBlockingQueue::new(1).unwrap();
    full.add(1).unwrap();
    check("array", &full);
    let full = LinkedBlockingQueue::bounded(1).unwrap();
    full.add(1).unwrap();
    check("linked", &full);
    check("synchronous", &SynchronousQueue::new());
    check("fair synchronous", &SynchronousQueue::fair());

    let empty = PriorityBlockingQueue::<u8>::new();
    ends_by_interrupt("priority", false, || empty.take() == Err(Interrupted));
    ends_by_interrupt("priority", false, || empty.poll_timeout(LONG) == Err(Interrupted));
    let later = DelayQueue::new();
    later.add(Later).unwrap();
    ends_by_interrupt("delay", false, || later.take() == Err(Interrupted));
    ends_by_interrupt("delay", false, || later.poll_timeout(LONG) == Err(Interrupted));
    assert_eq!(later.len(), 1);
}

#[test]
fn joins_end_by_interrupt() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let submit = || pool.submit(|| ()).unwrap();
    ends_by_interrupt("join", false, || matches!(submit().join(), Err(JoinError::Interrupted)));
    ends_by_interrupt("join_timeout", false, || {
        matches!(submit().join_timeout(LONG), Some(Err(JoinError::Interrupted)))
    });
    ends_by_interrupt("guard", false, || {
        matches!(submit().cancel_on_drop().join(), Err(JoinError::Interrupted))
    });
    gate.open();
    pool.close();
}

#[test]
fn await_termination_ends_by_interrupt() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    pool.shutdown();
    ends_by_interrupt("await_termination", false, || pool.await_termination(LONG) == Err(Interrupted));
    ends_by_interrupt("await_termination", false, || {
        pool.await_termination(Duration::MAX) == Err(Interrupted)
    });
    gate.open();
    assert_eq!(pool.await_termination(LONG), Ok(true));
    interrupt_myself();
    assert_eq!(pool.await_termination(LONG), Ok(true), "completion wins");
    assert!(interrupt::interrupted());
}

#[test]
fn the_completion_service_ends_by_interrupt() {
    let pool = fixed(1);
    let service = ExecutorCompletionService::<u8>::new(pool.clone());
    ends_by_interrupt("take", false, || service.take().is_err());
    ends_by_interrupt("poll_timeout", false, || service.poll_timeout(LONG).is_err());
    pool.close();
}

#[test]
fn invoke_all_and_any_end_by_interrupt_and_cancel_what_they_started() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let tasks = || [|| (), || ()];
    let fallible = || [|| Ok::<_, String>(()), || Ok(())];
    ends_by_interrupt("invoke_all", false, || {
        matches!(pool.invoke_all(tasks()), Err(InvokeError::Interrupted))
    });
    ends_by_interrupt("invoke_all_timeout", false, || {
        matches!(pool.invoke_all_timeout(tasks(), LONG), Err(InvokeError::Interrupted))
    });
    ends_by_interrupt("invoke_any", false, || {
        matches!(pool.invoke_any(fallible()), Err(InvokeError::Interrupted))
    });
    ends_by_interrupt("invoke_any_timeout", false, || {
        matches!(pool.invoke_any_timeout(fallible(), LONG), Err(InvokeError::Interrupted))
    });
    assert_eq!(pool.queued_count(), 0, "all that waited was cancelled");
    assert_eq!(pool.stats().cancelled, 4 * 2 * 2);
    gate.open();
    pool.close();
}

#[test]
fn the_blocking_policy_ends_by_interrupt_and_leaves_the_flag() {
    for queue in [WorkQueue::array(1), WorkQueue::linked_bounded(1)] {
        let pool = ThreadPoolExecutor::builder()
            .work_queue(queue)
            .rejected_execution_handler(policy::Block::forever())
            .build()
            .unwrap();
        let gate = occupied(&pool);
        pool.execute(|| ()).unwrap();
        let refused = || {
            let rejected = pool.execute(|| ()).unwrap_err();
            rejected.reason() == RejectReason::Interrupted
        };
        ends_by_interrupt("Block::forever", true, refused);
        pool.set_rejected_execution_handler(policy::Block::timeout(LONG));
        ends_by_interrupt("Block::timeout", true, refused);
        gate.open();
        pool.close();
    }
}

/// `close` and `shutdown_gracefully` escalate to force, and set the flag again when they return.
#[test]
fn closing_goes_on_to_force_by_interrupt_and_leaves_the_flag() {
    for gracefully in [false, true] {
        let pool = fixed(1);
        let (begun, tell) = (Gate::new(), Gate::new());
        let told = begun.clone();
        pool.execute(move || {
            told.open();
            assert_eq!(interrupt::sleep(Duration::MAX), Err(Interrupted));
            tell.open();
        })
        .unwrap();
        begun.pass();
        thread::scope(|s| {
            let closer = block(s, || {
                if gracefully {
                    let report = pool.shutdown_gracefully(LONG, LONG);
                    assert_eq!(report.outcome, millpond::ShutdownOutcome::Interrupted);
                } else {
                    pool.close();
                }
                interrupt::interrupted()
            });
            assert!(!closer.is_finished());
            closer.interrupt();
            assert!(closer.join());
        });
        assert!(pool.is_terminated());
    }
}

// ---- tasks

/// AES-007, for all three ways to set it: `cancel(true)`, `shutdown_now`, an `Interrupter`.
#[test]
fn a_task_is_interrupted_by_cancel_true_by_shutdown_now_and_by_its_interrupter() {
    for way in 0..3 {
        let pool = fixed(1);
        let (send, receive) = mpsc::channel();
        let (tell, slept) = mpsc::channel();
        let handle = pool
            .submit(move || {
                send.send(interrupt::current()).unwrap();
                tell.send(interrupt::sleep(Duration::MAX)).unwrap();
            })
            .unwrap();
        let interrupter = receive.recv().unwrap();
        match way {
            0 => assert!(handle.cancel(true)),
            1 => assert!(pool.shutdown_now().is_empty()),
            _ => interrupter.interrupt(),
        }
        assert_eq!(slept.recv_timeout(LONG).unwrap(), Err(Interrupted), "way {way}");
        pool.close();
    }
}

#[test]
fn an_interrupter_that_was_kept_does_nothing_when_its_task_has_ended() {
    let pool = fixed(1);
    let old: Interrupter = pool.submit(interrupt::current).unwrap().join().unwrap();
    let called = Counter::new();
    let (begun, gate) = (Gate::new(), Gate::new());
    let (tell, wait) = (begun.clone(), gate.clone());
    let next = pool
        .submit(move || {
            tell.open();
            wait.pass();
            interrupt::is_interrupted()
        })
        .unwrap();
    begun.pass();
    old.interrupt();
    assert!(!old.is_interrupted());
    let count = called.clone();
    let registration = old.on_interrupt(move || count.add());
    old.interrupt();
    gate.open();
    assert!(!next.join().unwrap(), "the flag is not for the next task");
    drop(registration);
    assert_eq!(called.get(), 0);
    pool.close();
}

#[test]
fn a_flag_that_a_task_leaves_set_is_gone_with_it() {
    let pool = fixed(1);
    for _ in 0..10 {
        pool.execute(interrupt_myself).unwrap();
        assert!(!pool.submit(interrupt::is_interrupted).unwrap().join().unwrap());
        let panics = pool.submit(|| -> u8 {
            interrupt_myself();
            resume_unwind(Box::new("broken"))
        });
        assert!(panics.unwrap().join().is_err());
        assert!(!pool.submit(interrupt::is_interrupted).unwrap().join().unwrap());
    }
    pool.close();
}

#[test]
fn an_interrupt_does_not_make_a_worker_leave() {
    let pool = fixed(1);
    let id = || thread::current().id();
    let before = pool
        .submit(move || {
            interrupt_myself();
            id()
        })
        .unwrap();
    assert_eq!(before.join().unwrap(), pool.submit(id).unwrap().join().unwrap());
    assert_eq!(pool.largest_pool_size(), 1);
    pool.close();
}

#[test]
fn hooks_run_with_the_flag_of_their_task() {
    #[derive(Default, Clone)]
    struct Look(Arc<Mutex<Vec<bool>>>);
    impl Hooks for Look {
        fn before_execute(&self, _: &TaskInfo) {
            self.0.lock().unwrap().push(interrupt::is_interrupted());
        }
        fn after_execute(&self, _: &TaskInfo, _: Option<&millpond::Panic>) {
            self.0.lock().unwrap().push(interrupt::is_interrupted());
        }
    }
    let look = Look::default();
    let pool = ThreadPoolExecutor::builder().hooks(look.clone()).build().unwrap();
    pool.execute(interrupt_myself).unwrap();
    pool.execute(|| ()).unwrap();
    pool.close();
    assert_eq!(*look.0.lock().unwrap(), [false, true, false, false]);
}

/// FUT-032: a `cancel(true)` that races the end of its task interrupts that task or none.
#[test]
fn fut_032_a_late_interrupt_never_reaches_the_next_task() {
    for kind in 0..2 {
        let queue =
            if kind == 0 { WorkQueue::linked() } else { WorkQueue::custom(LinkedBlockingQueue::unbounded()) };
        let pool = ThreadPoolExecutor::builder().work_queue(queue).build().unwrap();
        let leaks = Counter::new();
        let start = Arc::new(Barrier::new(2));
        let (send, receive) = mpsc::channel::<(millpond::Canceller, Interrupter)>();
        let canceller_start = Arc::clone(&start);
        let canceller = thread::spawn(move || {
            for (at, (canceller, interrupter)) in receive.into_iter().enumerate() {
                canceller_start.wait();
                canceller.cancel(true);
                if at % 2 == 0 {
                    interrupter.interrupt();
                }
            }
        });
        for _ in rounds(4000) {
            let (tell, told) = mpsc::sync_channel(1);
            let go = Arc::clone(&start);
            let victim = pool
                .submit(move || {
                    tell.send(interrupt::current()).unwrap();
                    go.wait();
                })
                .unwrap();
            let count = leaks.clone();
            let next = pool
                .submit(move || {
                    if interrupt::is_interrupted() {
                        count.add();
                    }
                })
                .unwrap();
            let interrupter = told.recv().unwrap();
            send.send((victim.canceller(), interrupter)).unwrap();
            next.join().unwrap();
        }
        drop(send);
        canceller.join().unwrap();
        pool.close();
        assert_eq!(leaks.get(), 0, "kind {kind}");
    }
}

// ---- tasks inside tasks

#[test]
fn task_run_has_a_flag_of_its_own() {
    interrupt_myself();
    Task::new(|| {
        assert!(!interrupt::is_interrupted());
        interrupt_myself();
        assert!(interrupt::is_interrupted());
    })
    .run();
    assert!(interrupt::interrupted(), "that of the outside is as it was");
    Task::new(interrupt_myself).run();
    assert!(!interrupt::is_interrupted());

    let (task, handle) = TaskOf::new(|| {
        interrupt_myself();
        interrupt::current()
    })
    .into_parts();
    task.run();
    handle.join().unwrap().interrupt();
    assert!(!interrupt::is_interrupted());
}

#[test]
fn a_task_that_unwinds_restores_the_flag_of_the_outside() {
    interrupt_myself();
    let task = Task::new(|| resume_unwind(Box::new("broken")));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.run())).is_err());
    assert!(interrupt::interrupted());
}

/// One task inside another on the same thread. `run_inside` decides how the inner one is started.
fn nested_on_one_thread(run_inside: impl FnOnce(Box<dyn FnOnce() + Send>) + Send + 'static) {
    let pool = fixed(1);
    let (send, receive) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let outer = pool
        .submit(move || {
            let outer = interrupt::current();
            run_inside(Box::new(move || {
                send.send((outer, interrupt::current())).unwrap();
                tell.send((interrupt::sleep(Duration::MAX), interrupt::is_interrupted())).unwrap();
            }));
            interrupt::is_interrupted()
        })
        .unwrap();
    let (outside, inside) = receive.recv_timeout(LONG).unwrap();
    assert!(!outside.is_interrupted() && !inside.is_interrupted());
    outside.interrupt();
    assert_eq!(told.recv_timeout(LONG).unwrap(), (Err(Interrupted), false), "it reaches the inner one");
    assert!(outer.join().unwrap(), "and the outer one");
    pool.close(); // a join may return before the worker has finished with the task
    assert!(!outside.is_interrupted() && !inside.is_interrupted());
}

#[test]
fn interrupting_the_outer_task_reaches_both_when_run_by_hand() {
    nested_on_one_thread(|f| Task::new(f).run());
}

#[test]
fn interrupting_the_outer_task_reaches_both_under_caller_runs() {
    let full = ThreadPoolExecutor::builder()
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy::CallerRuns)
        .build()
        .unwrap();
    let gate = occupied(&full);
    let inside = full.clone();
    nested_on_one_thread(move |f| inside.execute(f).unwrap());
    gate.open();
    full.close();
}

#[test]
fn interrupting_the_outer_task_reaches_both_when_a_join_helps() {
    let pool = fixed(1);
    let inside = pool.clone();
    let (send, receive) = mpsc::channel();
    let outer = pool
        .submit(move || {
            let outer = interrupt::current();
            let inner = inside
                .submit(move || {
                    send.send((outer, interrupt::current())).unwrap();
                    interrupt::sleep(Duration::MAX)
                })
                .unwrap();
            (inner.join().unwrap(), interrupt::is_interrupted())
        })
        .unwrap();
    let (outside, _) = receive.recv_timeout(LONG).unwrap();
    outside.interrupt();
    assert_eq!(outer.join().unwrap(), (Err(Interrupted), true));
    pool.close();
}

#[test]
fn interrupting_the_inner_task_leaves_the_outer_one_alone() {
    let pool = fixed(1);
    let inside = pool.clone();
    let (send, receive) = mpsc::channel();
    let outer = pool
        .submit(move || {
            let inner = inside
                .submit(move || {
                    send.send(interrupt::current()).unwrap();
                    interrupt::sleep(Duration::MAX)
                })
                .unwrap();
            (inner.join().unwrap(), interrupt::is_interrupted())
        })
        .unwrap();
    let inside = receive.recv_timeout(LONG).unwrap();
    inside.interrupt();
    assert_eq!(outer.join().unwrap(), (Err(Interrupted), false));
    inside.interrupt();
    assert!(!inside.is_interrupted());
    pool.close();
}

#[test]
fn cancel_true_of_the_outer_task_reaches_the_one_it_runs_in_place() {
    let pool = fixed(1);
    let inside = pool.clone();
    let (send, receive) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let outer = pool
        .submit(move || {
            let inner = inside
                .submit(move || {
                    send.send(()).unwrap();
                    tell.send(interrupt::sleep(Duration::MAX)).unwrap();
                })
                .unwrap();
            inner.join().unwrap();
        })
        .unwrap();
    receive.recv_timeout(LONG).unwrap();
    assert!(outer.cancel(true));
    assert_eq!(told.recv_timeout(LONG).unwrap(), Err(Interrupted));
    pool.close();
}

#[test]
fn shutdown_now_reaches_tasks_at_every_depth() {
    let pool = fixed(1);
    let inside = pool.clone();
    let (send, receive) = mpsc::channel();
    let flags = pool.submit(move || {
        let again = inside.clone();
        let inner = inside.submit(move || {
            let innermost = again.submit(move || {
                send.send(()).unwrap();
                interrupt::sleep(Duration::MAX).is_err()
            });
            (innermost.unwrap().join().unwrap(), interrupt::is_interrupted())
        });
        (inner.unwrap().join().unwrap(), interrupt::is_interrupted())
    });
    receive.recv_timeout(LONG).unwrap();
    assert!(pool.shutdown_now().is_empty());
    assert_eq!(flags.unwrap().join().unwrap(), ((true, true), true));
    pool.close();
}

// ---- callbacks

#[test]
fn a_callback_is_called_once_on_the_interrupting_thread_before_interrupt_returns() {
    let me = interrupt::current();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&calls);
    let registration: Registration =
        me.on_interrupt(move || log.lock().unwrap().push(thread::current().id()));
    assert!(calls.lock().unwrap().is_empty());
    let other = thread::spawn(move || {
        me.interrupt();
        me.interrupt();
        thread::current().id()
    });
    let other = other.join().unwrap();
    assert_eq!(*calls.lock().unwrap(), [other]);
    assert!(interrupt::interrupted());
    interrupt_myself(); // set again: a callback is called once
    assert_eq!(calls.lock().unwrap().len(), 1);
    drop(registration);
    assert!(interrupt::interrupted());
}

#[test]
fn a_callback_is_called_at_once_if_the_flag_is_set() {
    interrupt_myself();
    let calls = Counter::new();
    let count = calls.clone();
    let registration = interrupt::current().on_interrupt(move || count.add());
    assert_eq!(calls.get(), 1);
    assert!(interrupt::interrupted(), "registering does not take the flag");
    interrupt_myself();
    drop(registration);
    assert_eq!(calls.get(), 1);
    interrupt::interrupted();
}

#[test]
fn a_callback_registered_after_the_flag_was_taken_waits_for_the_next_interrupt() {
    interrupt_myself();
    assert!(interrupt::interrupted());
    let calls = Counter::new();
    let count = calls.clone();
    let _registration = interrupt::current().on_interrupt(move || count.add());
    assert_eq!(calls.get(), 0);
    interrupt_myself();
    assert_eq!(calls.get(), 1);
    interrupt::interrupted();
}

#[test]
fn dropping_the_registration_takes_the_callback_back_and_drops_its_captures() {
    let me = interrupt::current();
    let (calls, dropped) = (Counter::new(), Counter::new());
    let registration = {
        let (count, captured) = (calls.clone(), dropped.on_drop());
        me.on_interrupt(move || {
            let _captured = captured;
            count.add();
        })
    };
    let (kept_count, kept) = (calls.clone(), calls.clone());
    let other = me.on_interrupt(move || kept_count.add());
    assert_eq!(dropped.get(), 0);
    drop(registration);
    assert_eq!(dropped.get(), 1);
    me.interrupt();
    assert_eq!(kept.get(), 1, "only the other one");
    drop(other);
    interrupt::interrupted();
}

#[test]
fn the_captures_of_a_callback_that_was_called_are_dropped_once() {
    let me = interrupt::current();
    let dropped = Counter::new();
    let captured = dropped.on_drop();
    let registration = me.on_interrupt(move || drop(captured));
    me.interrupt();
    assert_eq!(dropped.get(), 1);
    drop(registration);
    assert_eq!(dropped.get(), 1);
    interrupt::interrupted();
}

#[test]
fn a_callback_that_panics_keeps_neither_the_others_nor_the_interrupt_back() {
    let me = interrupt::current();
    let calls = Counter::new();
    let registrations: Vec<_> = (0..3)
        .map(|n| {
            let count = calls.clone();
            me.on_interrupt(move || {
                count.add();
                if n != 1 {
                    resume_unwind(Box::new("callback"));
                }
            })
        })
        .collect();
    me.interrupt();
    assert_eq!(calls.get(), 3);
    assert!(interrupt::is_interrupted());
    let count = calls.clone();
    let at_once = me.on_interrupt(move || {
        count.add();
        resume_unwind(Box::new("callback"));
    });
    assert_eq!(calls.get(), 4);
    drop((registrations, at_once));
    interrupt::interrupted();
}

/// No lock is held during a callback: it may query, register, deregister, and interrupt again.
#[test]
fn a_callback_may_call_the_interrupter() {
    let me = interrupt::current();
    let calls = Counter::new();
    let (again, count) = (me.clone(), calls.clone());
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let registration = me.on_interrupt(move || {
        assert!(again.is_interrupted());
        again.interrupt();
        let inner = count.clone();
        *keep.lock().unwrap() = Some(again.on_interrupt(move || inner.add()));
        count.add();
    });
    me.interrupt();
    assert_eq!(calls.get(), 2);
    drop(registration);
    kept.lock().unwrap().take();
    interrupt::interrupted();
}

#[test]
fn the_callback_of_a_task_goes_with_the_task() {
    for run_by in 0..3 {
        let pool = fixed(1);
        let (calls, dropped) = (Counter::new(), Counter::new());
        let (count, captured) = (calls.clone(), dropped.on_drop());
        let register = move || {
            let current = interrupt::current();
            let registration = current.on_interrupt(move || {
                let _captured = captured;
                count.add();
            });
            (current, registration)
        };
        let (interrupter, registration) = match run_by {
            0 => pool.submit(register).unwrap().join().unwrap(),
            1 => {
                let (task, handle) = TaskOf::new(register).into_parts();
                task.run();
                handle.join().unwrap()
            }
            _ => {
                let inside = pool.clone();
                pool.submit(move || inside.submit(register).unwrap().join().unwrap()).unwrap().join().unwrap()
            }
        };
        eventually(|| dropped.get() == 1);
        interrupter.interrupt();
        pool.shutdown_now();
        assert_eq!(calls.get(), 0);
        drop(registration);
        assert_eq!(dropped.get(), 1);
        pool.close();
    }
}

#[test]
fn cancel_true_and_shutdown_now_call_the_callbacks_of_a_task() {
    for cancel in [true, false] {
        let pool = fixed(1);
        let (called, begun) = (Gate::new(), Gate::new());
        let (wait, tell) = (called.clone(), begun.clone());
        let handle = pool
            .submit(move || {
                let open = wait.clone();
                let _registration = interrupt::current().on_interrupt(move || open.open());
                tell.open();
                wait.pass(); // like a read from a socket that the callback closes
            })
            .unwrap();
        begun.pass();
        if cancel {
            assert!(handle.cancel(true));
        } else {
            assert!(pool.shutdown_now().is_empty());
            handle.join().unwrap();
        }
        assert!(called.is_open());
        pool.close();
    }
}

#[test]
fn interrupting_the_outer_task_calls_the_callbacks_of_both() {
    let outer = interrupt::current();
    let calls = Arc::new(AtomicUsize::new(0));
    let add = |n: usize| {
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(n, Ordering::SeqCst);
        }
    };
    let _outer_registration = outer.on_interrupt(add(1));
    let (inner_add, from_inside) = (add(10), outer.clone());
    Task::new(move || {
        let _registration = interrupt::current().on_interrupt(inner_add);
        from_inside.interrupt();
        assert!(interrupt::is_interrupted());
    })
    .run();
    assert_eq!(calls.load(Ordering::SeqCst), 11);
    assert!(interrupt::interrupted());
}

/// A callback that was not called is dropped at the end of its task. A panic of its destructor must
/// not reach the worker.
#[test]
fn a_callback_whose_destructor_panics_does_not_harm_the_worker() {
    let pool = fixed(1);
    let dropped = Counter::new();
    let captured = PanicsOnDrop(dropped.on_drop());
    let registration = pool
        .submit(move || interrupt::current().on_interrupt(move || drop(captured)))
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    assert_eq!(dropped.get(), 1);
    drop(registration);
    pool.close();
}
