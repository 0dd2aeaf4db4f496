//! Tasks and their handles: states and joins. Ids such as FUT-007 name the behaviour of the
//! reference that a test checks.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::{Running, busy, busy_pool, fixed, running};
use crate::support::{Counter, Gate, LONG, SHORT, SMALL, block, eventually, interrupt_myself, rounds};
use millpond::queue::{BlockingQueue, LinkedBlockingQueue, SynchronousQueue};
use millpond::{
    Canceller, JoinError, Task, TaskHandle, TaskOf, TaskState, ThreadPoolExecutor, executors, interrupt,
};

/// The handle of a task that has ended in the given state.
fn ended(state: TaskState) -> TaskHandle<u8> {
    let (task, handle) = TaskOf::new(move || match state {
        TaskState::Failed => resume_unwind(Box::new("broken")),
        _ => 7,
    })
    .into_parts();
    match state {
        TaskState::Succeeded | TaskState::Failed => task.run(),
        TaskState::Cancelled => assert!(handle.cancel(false)),
        TaskState::Abandoned => drop(task),
        TaskState::Pending | TaskState::Running => unreachable!("these are not ends"),
    }
    assert_eq!(handle.state(), state);
    handle
}

const ENDS: [TaskState; 4] =
    [TaskState::Succeeded, TaskState::Failed, TaskState::Cancelled, TaskState::Abandoned];

// ---- tasks

#[test]
fn ids_are_unique_also_across_threads_and_shared_by_task_and_handle() {
    const TASKS: usize = if cfg!(miri) { 50 } else { 3000 };
    let ids: Vec<_> = thread::scope(|s| {
        let threads: Vec<_> = (0..4)
            .map(|_| s.spawn(|| (0..TASKS).map(|_| Task::new(|| ()).id()).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4 * TASKS);
    assert_eq!(ids.iter().map(ToString::to_string).collect::<HashSet<_>>().len(), 4 * TASKS);

    let of = TaskOf::new(|| 1);
    let id = of.id();
    let (task, handle) = of.into_parts();
    assert_eq!((task.id(), handle.id(), handle.canceller().id()), (id, id, id));
}

#[test]
fn a_task_carries_its_name_and_priority() {
    let task = Task::new(|| ());
    assert_eq!((task.name(), task.priority()), (None, 0));
    let task = task.named("resize").with_priority(-3).with_delay(Duration::MAX);
    assert_eq!((task.name(), task.priority()), (Some("resize"), -3));
    assert_eq!(Task::new(|| ()).named(String::from("owned")).name(), Some("owned"));
    let debug = format!("{task:?}");
    assert!(debug.contains("resize") && debug.contains("-3"), "{debug}");
    let (task, _handle) = TaskOf::new(|| ()).named("with result").with_priority(4).into_parts();
    assert_eq!((task.name(), task.priority()), (Some("with result"), 4));
}

#[test]
fn the_panic_of_a_plain_task_unwinds_out_of_run() {
    let task = Task::new(|| resume_unwind(Box::new("broken")));
    let payload = catch_unwind(AssertUnwindSafe(|| task.run())).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"broken"));
}

/// FUT-030: every panic of the body goes to the handle, and `run` returns.
#[test]
fn fut_030_the_panic_of_a_task_with_a_handle_goes_to_the_handle_only() {
    fn outcome_of(f: impl FnOnce() + Send + 'static) -> millpond::Panic {
        let (task, handle) = TaskOf::new(f).into_parts();
        task.run();
        assert_eq!(handle.state(), TaskState::Failed);
        match handle.join() {
            Err(JoinError::Panicked(panic)) => panic,
            other => panic!("not a panic: {other:?}"),
        }
    }
    let text = outcome_of(|| resume_unwind(Box::new("static text")));
    assert_eq!(text.message(), Some("static text"));
    assert_eq!(text.to_string(), "static text");
    let text = outcome_of(|| resume_unwind(Box::new(String::from("formatted 1"))));
    assert_eq!(text.message(), Some("formatted 1"));
    assert_eq!(text.into_payload().downcast_ref::<String>().unwrap(), "formatted 1");
    let number = outcome_of(|| resume_unwind(Box::new(42_u16)));
    assert_eq!(number.message(), None);
    assert_eq!(*number.into_payload().downcast::<u16>().unwrap(), 42);
}

#[test]
fn the_messages_of_join_errors_are_different_and_name_the_panic() {
    let errors = ENDS[1..].iter().map(|end| ended(*end).join().unwrap_err().to_string());
    let mut all: HashSet<String> = errors.collect();
    let mut taken = ended(TaskState::Succeeded);
    taken.try_join().unwrap().unwrap();
    all.insert(taken.join().unwrap_err().to_string());
    all.insert(JoinError::from(millpond::Interrupted).to_string());
    assert_eq!(all.len(), 5, "{all:?}");
    assert!(all.iter().any(|text| text.contains("broken")));
    let failed: Box<dyn std::error::Error> = Box::new(ended(TaskState::Failed).join().unwrap_err());
    assert!(failed.source().unwrap().is::<millpond::Panic>());
}

// ---- states

/// FUT-002, FUT-037 (which distinguishes waiting and running): states from Pending to the end. The
/// body runs once.
#[test]
fn fut_002_037_a_handle_tells_how_far_its_task_has_come() {
    let (pool, first) = busy();
    let (begun, gate, runs) = (Gate::new(), Gate::new(), Counter::new());
    let (tell, wait, count) = (begun.clone(), gate.clone(), runs.clone());
    let handle = pool
        .submit(move || {
            count.add();
            tell.open();
            wait.pass();
            "value"
        })
        .unwrap();
    let canceller = handle.canceller();
    assert_eq!((handle.state(), handle.is_done()), (TaskState::Pending, false));
    first.open();
    begun.pass();
    assert_eq!((handle.state(), handle.is_done()), (TaskState::Running, false));
    assert_eq!((canceller.state(), canceller.is_done()), (TaskState::Running, false));
    gate.open();
    eventually(|| handle.is_done());
    assert_eq!(handle.state(), TaskState::Succeeded);
    assert_eq!((canceller.state(), canceller.is_done()), (TaskState::Succeeded, true));
    assert_eq!(handle.join().unwrap(), "value");
    assert_eq!(canceller.state(), TaskState::Succeeded);
    assert_eq!(runs.get(), 1);
    pool.close();
    assert_eq!(runs.get(), 1);
}

/// FUT-005, FUT-037.
#[test]
fn fut_005_only_a_cancelled_task_is_cancelled() {
    for end in ENDS {
        let handle = ended(end);
        assert!(handle.is_done());
        assert_eq!(handle.is_cancelled(), end == TaskState::Cancelled);
        assert_eq!(handle.canceller().is_cancelled(), end == TaskState::Cancelled);
        assert!(handle.canceller().is_done());
    }
}

/// FUT-006, FUT-008, FUT-013: final states never change. (A task is run by value, so a second run
/// does not compile.)
#[test]
fn fut_006_008_013_cancel_of_a_task_that_has_ended_is_refused_and_changes_nothing() {
    for end in ENDS {
        let handle = ended(end);
        let canceller = handle.canceller();
        for may_interrupt in [true, false] {
            assert!(!handle.cancel(may_interrupt));
            assert!(!canceller.cancel(may_interrupt));
        }
        assert_eq!(handle.state(), end);
        match (end, handle.join()) {
            (TaskState::Succeeded, Ok(7))
            | (TaskState::Failed, Err(JoinError::Panicked(_)))
            | (TaskState::Cancelled, Err(JoinError::Cancelled))
            | (TaskState::Abandoned, Err(JoinError::Abandoned)) => {}
            (end, other) => panic!("{end:?} gave {other:?}"),
        }
    }
}

/// FUT-003, FUT-007, FUT-013: running a cancelled task has no effect.
#[test]
fn fut_003_007_a_task_cancelled_before_it_runs_never_runs() {
    for may_interrupt in [true, false] {
        let runs = Counter::new();
        let count = runs.clone();
        let (task, mut handle) = TaskOf::new(move || count.add()).into_parts();
        assert!(handle.cancel(may_interrupt));
        assert!(handle.is_done() && handle.is_cancelled());
        task.run();
        assert_eq!(runs.get(), 0);
        assert!(!interrupt::is_interrupted(), "there was nobody to interrupt");
        assert!(matches!(handle.try_join(), Some(Err(JoinError::Cancelled))));
        assert!(matches!(handle.join_timeout(LONG), Some(Err(JoinError::Cancelled))));
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    }
}

/// FUT-007: also in a pool, with and without remove-on-cancel.
#[test]
fn fut_007_a_task_cancelled_in_the_queue_never_runs() {
    for remove_on_cancel in [true, false] {
        let pool = ThreadPoolExecutor::builder().remove_on_cancel(remove_on_cancel).build().unwrap();
        let (pool, gate) = busy_pool(pool);
        let runs = Counter::new();
        let count = runs.clone();
        let handle = pool.submit(move || count.add()).unwrap();
        assert!(handle.cancel(false));
        assert!(!handle.cancel(true), "FUT-008");
        assert_eq!(pool.queued_count(), usize::from(!remove_on_cancel));
        gate.open();
        pool.close();
        assert_eq!(runs.get(), 0);
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    }
}

/// FUT-009: whether the body then returns or panics.
#[test]
fn fut_009_cancel_true_interrupts_the_body_and_its_end_is_ignored() {
    for then_panic in [false, true] {
        let pool = fixed(1);
        let (begun, ended) = (Gate::new(), Gate::new());
        let (tell, end) = (begun.clone(), ended.clone());
        let handle = pool
            .submit(move || {
                tell.open();
                let slept = interrupt::sleep(Duration::MAX);
                assert!(slept.is_err());
                end.open();
                if then_panic {
                    resume_unwind(Box::new("ignored"));
                }
                7
            })
            .unwrap();
        begun.pass();
        assert!(handle.cancel(true));
        assert_eq!(handle.state(), TaskState::Cancelled);
        ended.pass();
        pool.close();
        assert_eq!(handle.state(), TaskState::Cancelled);
        assert_eq!(pool.stats().cancelled, 1);
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    }
}

/// FUT-010.
#[test]
fn fut_010_cancel_false_frees_the_waiter_at_once_and_lets_the_body_run_on() {
    let seen = Arc::new(AtomicBool::new(true));
    let saw = Arc::clone(&seen);
    let Running { pool, gate, handle } =
        running(move || saw.store(interrupt::is_interrupted(), Ordering::SeqCst));
    let canceller = handle.canceller();
    thread::scope(|s| {
        let joiner = block(s, || handle.join());
        assert!(canceller.cancel(false));
        assert!(matches!(joiner.join(), Err(JoinError::Cancelled)));
    });
    assert_eq!(pool.active_count(), 1, "the body still runs");
    gate.open();
    pool.close();
    assert!(!seen.load(Ordering::SeqCst), "the body was not interrupted");
}

/// FUT-015: completion or cancel wins, and both sides agree on the winner.
#[test]
fn fut_015_cancel_racing_the_end_has_one_winner() {
    let (send, receive) = mpsc::channel::<(Task, Arc<Barrier>)>();
    let runner = thread::spawn(move || {
        for (task, start) in receive {
            start.wait();
            task.run();
        }
    });
    let dropped = Counter::new();
    let mut values = 0;
    for round in rounds(3000) {
        values += 1;
        let value = dropped.on_drop();
        let (task, handle) = TaskOf::new(move || value).into_parts();
        let start = Arc::new(Barrier::new(2));
        send.send((task, Arc::clone(&start))).unwrap();
        start.wait();
        let cancelled = handle.cancel(round % 2 == 0);
        assert!(handle.is_cancelled() || !cancelled);
        match handle.join() {
            Ok(_) => assert!(!cancelled, "round {round}"),
            Err(JoinError::Cancelled) => assert!(cancelled, "round {round}"),
            other => panic!("round {round}: {other:?}"),
        }
    }
    drop(send);
    runner.join().unwrap();
    assert_eq!(dropped.get(), values, "each value goes exactly once");
    assert!(!interrupt::is_interrupted());
}

/// FUT-042: exactly one.
#[test]
fn fut_042_of_several_concurrent_cancels_exactly_one_says_true() {
    const THREADS: usize = 4;
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 100 };
    let starts = Barrier::new(THREADS);
    let tasks: Vec<_> = (0..ROUNDS).map(|_| TaskOf::new(|| ()).into_parts()).collect();
    let cancellers: Vec<Canceller> = tasks.iter().map(|(_, handle)| handle.canceller()).collect();
    let wins = Counter::new();
    thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                for canceller in &cancellers {
                    starts.wait();
                    if canceller.cancel(true) {
                        wins.add();
                    }
                }
            });
        }
    });
    assert_eq!(wins.get(), ROUNDS);
    assert!(tasks.iter().all(|(_, handle)| handle.is_cancelled()));
}

// ---- joins

/// FUT-022: a handle has one waiter, so several waiters use several tasks.
#[test]
fn fut_022_joins_block_until_the_task_has_ended_on_another_thread() {
    let (pool, gate) = busy();
    thread::scope(|s| {
        let joiners: Vec<_> = (0..3)
            .map(|n| {
                let handle = pool.submit(move || n * n).unwrap();
                block(s, move || handle.join())
            })
            .collect();
        assert!(joiners.iter().all(|joiner| !joiner.is_finished()));
        gate.open();
        for (n, joiner) in joiners.into_iter().enumerate() {
            assert_eq!(joiner.join().unwrap(), n * n);
        }
    });
    pool.close();
}

/// FUT-023.
#[test]
fn fut_023_a_join_racing_the_end_never_misses_it() {
    let (send, receive) = mpsc::sync_channel::<Task>(1);
    let runner = thread::spawn(move || receive.into_iter().for_each(Task::run));
    for round in rounds(10_000) {
        let (task, mut handle) = TaskOf::new(move || round).into_parts();
        send.send(task).unwrap();
        if round % 4 == 0 {
            assert_eq!(handle.join_timeout(LONG).unwrap().unwrap(), round);
        } else {
            assert_eq!(handle.join().unwrap(), round);
        }
    }
    drop(send);
    runner.join().unwrap();
}

/// FUT-024, FUT-039, FUT-040: a value or panic is returned once, other outcomes any number of
/// times.
#[test]
fn fut_024_039_040_try_join_gives_the_end_and_never_waits() {
    let Running { pool, gate, mut handle } = running(|| 7);
    assert!(handle.try_join().is_none(), "it runs");
    gate.open();
    eventually(|| handle.is_done());
    assert_eq!(handle.try_join().unwrap().unwrap(), 7);
    pool.close();

    let mut unit = { TaskOf::new(|| ()).into_parts() };
    assert!(unit.1.try_join().is_none(), "it waits");
    unit.0.run();
    unit.1.try_join().unwrap().unwrap(); // `()` is a value too

    let mut good = ended(TaskState::Succeeded);
    assert_eq!(good.try_join().unwrap().unwrap(), 7);
    assert!(matches!(good.try_join(), Some(Err(JoinError::Taken))));
    assert!(matches!(good.join_timeout(Duration::ZERO), Some(Err(JoinError::Taken))));
    assert_eq!(good.state(), TaskState::Succeeded);
    assert!(matches!(good.join(), Err(JoinError::Taken)));

    let mut bad = ended(TaskState::Failed);
    let panic = bad.try_join().unwrap().unwrap_err();
    assert!(matches!(panic, JoinError::Panicked(panic) if panic.message() == Some("broken")));
    assert!(matches!(bad.try_join(), Some(Err(JoinError::Taken))));
    assert_eq!(bad.state(), TaskState::Failed);

    for _ in 0..2 {
        let mut cancelled = ended(TaskState::Cancelled);
        assert!(matches!(cancelled.try_join(), Some(Err(JoinError::Cancelled))));
        assert!(matches!(cancelled.try_join(), Some(Err(JoinError::Cancelled))));
        let mut abandoned = ended(TaskState::Abandoned);
        assert!(matches!(abandoned.try_join(), Some(Err(JoinError::Abandoned))));
        assert!(matches!(abandoned.try_join(), Some(Err(JoinError::Abandoned))));
    }
}

/// FUT-041.
#[test]
fn fut_041_looking_at_a_handle_ignores_a_pending_interrupt_and_leaves_it() {
    let mut good = ended(TaskState::Succeeded);
    let (_task, mut waiting) = TaskOf::new(|| ()).into_parts();
    interrupt_myself();
    assert!(waiting.try_join().is_none());
    assert_eq!((good.state(), good.is_done(), good.is_cancelled()), (TaskState::Succeeded, true, false));
    assert_eq!(good.try_join().unwrap().unwrap(), 7);
    assert!(matches!(ended(TaskState::Failed).try_join(), Some(Err(JoinError::Panicked(_)))));
    assert!(interrupt::interrupted());
}

/// FUT-025.
#[test]
fn fut_025_a_timed_join_waits_its_time_and_leaves_the_task_alone() {
    let Running { pool, gate, mut handle } = running(|| 7);
    let begin = Instant::now();
    assert!(handle.join_timeout(SMALL).is_none());
    assert!(begin.elapsed() >= SMALL);
    assert_eq!(handle.state(), TaskState::Running);
    assert!(handle.join_timeout(SHORT).is_none());
    gate.open();
    assert_eq!(handle.join_timeout(LONG).unwrap().unwrap(), 7);
    pool.close();
}

/// FUT-026, AES-004: a zero timeout does not wait, and the maximum waits forever.
#[test]
fn fut_026_zero_and_endless_timeouts_work() {
    let (task, mut handle) = TaskOf::new(|| 7).into_parts();
    assert!(handle.join_timeout(Duration::ZERO).is_none());
    thread::scope(|s| {
        let joiner = block(s, || handle.join_timeout(Duration::MAX));
        assert!(!joiner.is_finished());
        task.run();
        assert_eq!(joiner.join().unwrap().unwrap(), 7);
    });
    let mut done = ended(TaskState::Succeeded);
    assert_eq!(done.join_timeout(Duration::ZERO).unwrap().unwrap(), 7);
    assert_eq!(ended(TaskState::Succeeded).join_timeout(Duration::MAX).unwrap().unwrap(), 7);
}

/// FUT-028: the flag is set before or during the wait. It is cleared, and the task continues.
#[test]
fn fut_028_joins_are_interruptible_and_the_task_goes_on() {
    let Running { pool, gate, mut handle } = running(|| 7);
    interrupt_myself();
    assert!(matches!(handle.join_timeout(LONG), Some(Err(JoinError::Interrupted))));
    assert!(!interrupt::is_interrupted());
    thread::scope(|s| {
        let joiner = block(s, || {
            let joined = handle.join_timeout(Duration::MAX);
            assert!(!interrupt::is_interrupted());
            (joined, handle)
        });
        joiner.interrupt();
        let (joined, mut handle) = joiner.join();
        assert!(matches!(joined, Some(Err(JoinError::Interrupted))));
        assert_eq!(handle.state(), TaskState::Running);
        gate.open();
        assert_eq!(handle.join_timeout(LONG).unwrap().unwrap(), 7, "that was not the outcome");
    });
    pool.close();
}

/// FUT-028: an interrupted join without a timeout detaches the task.
#[test]
fn fut_028_an_interrupted_join_detaches() {
    for while_waiting in [true, false] {
        let dropped = Counter::new();
        let value = dropped.on_drop();
        let Running { pool, gate, handle } = running(move || value);
        let canceller = handle.canceller();
        thread::scope(|s| {
            let joiner = block(s, || {
                if !while_waiting {
                    interrupt_myself();
                }
                let outcome = handle.join();
                (outcome.map(drop), interrupt::is_interrupted())
            });
            if while_waiting {
                joiner.interrupt();
            }
            assert!(matches!(joiner.join(), (Err(JoinError::Interrupted), false)));
        });
        assert_eq!(canceller.state(), TaskState::Running);
        gate.open();
        pool.close();
        assert_eq!(canceller.state(), TaskState::Succeeded);
        assert_eq!(dropped.get(), 1, "nobody could ask for the value any more");
    }
}

/// Completion wins over a pending interrupt, which remains set.
#[test]
fn a_join_of_a_task_that_has_ended_leaves_a_pending_interrupt_alone() {
    interrupt_myself();
    assert_eq!(ended(TaskState::Succeeded).join().unwrap(), 7);
    assert_eq!(ended(TaskState::Succeeded).join_timeout(LONG).unwrap().unwrap(), 7);
    assert!(matches!(ended(TaskState::Abandoned).join(), Err(JoinError::Abandoned)));
    assert!(interrupt::interrupted());
}

/// FUT-033.
#[test]
fn fut_033_a_body_that_waits_for_itself_with_a_time_limit_goes_on_after_it() {
    let pool = fixed(1);
    let (send, receive) = mpsc::channel::<TaskHandle<bool>>();
    let (tell, told) = mpsc::channel();
    let handle = pool
        .submit(move || {
            let mut me = receive.recv().unwrap();
            tell.send(me.join_timeout(SHORT).is_none()).unwrap();
            true
        })
        .unwrap();
    send.send(handle).unwrap();
    assert!(told.recv_timeout(LONG).unwrap());
    pool.close();
}

/// FUT-035: cancelled tasks end, even if they wait for the same queues.
#[test]
fn fut_035_cancelled_tasks_leave_contended_queues() {
    let pool = executors::cached();
    let hand_over = Arc::new(SynchronousQueue::new());
    let linked = Arc::new(LinkedBlockingQueue::bounded(1).unwrap());
    let mut handles = Vec::new();
    for n in 0..3 {
        let (from, to) = (Arc::clone(&hand_over), Arc::clone(&linked));
        handles.push(pool.submit(move || while from.put(n).is_ok() {}).unwrap());
        let (from, through) = (Arc::clone(&hand_over), Arc::clone(&to));
        handles.push(
            pool.submit(move || {
                while let Ok(n) = from.take() {
                    if through.put(n).is_err() {
                        return;
                    }
                }
            })
            .unwrap(),
        );
        handles.push(pool.submit(move || while to.take().is_ok() {}).unwrap());
    }
    eventually(|| pool.active_count() == 9);
    for handle in &handles {
        assert!(handle.cancel(true));
    }
    pool.shutdown();
    assert!(pool.await_termination(LONG).unwrap());
}

/// FUT-036: the text contains the state.
#[test]
fn fut_036_debug_tells_the_state() {
    let (task, handle) = TaskOf::new(|| ()).into_parts();
    assert!(format!("{handle:?}").contains("Pending"));
    assert!(format!("{task:?}").contains("Pending"));
    for end in ENDS {
        let handle = ended(end);
        let (state, id) = (format!("{end:?}"), handle.id().to_string());
        for text in [format!("{handle:?}"), format!("{:?}", handle.canceller())] {
            assert!(text.contains(&state) && text.contains(&id), "{text}");
        }
        assert!(format!("{:?}", handle.cancel_on_drop()).contains(&state));
    }
}
