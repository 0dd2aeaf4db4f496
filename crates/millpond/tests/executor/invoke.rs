//! `invoke_all` and `invoke_any`, for every executor. Ids such as AES-012 name the behaviour of the
//! reference that a test checks.

use std::error::Error;
use std::panic::resume_unwind;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::{SameThread, fixed, saturated};
use crate::support::{Counter, Gate, LONG, MEDIUM, SMALL, block, eventually, interrupt_myself, occupied};
use millpond::{
    ExecutorExt, Interrupted, InvokeError, JoinError, RejectReason, Rejected, TaskHandle, TaskState,
    ThreadPoolExecutor, WorkQueue, interrupt, policy,
};

type Fallible = Box<dyn FnOnce() -> Result<u8, String> + Send>;

fn good(value: u8) -> Fallible {
    Box::new(move || Ok(value))
}

fn bad(text: &'static str) -> Fallible {
    Box::new(move || Err(text.into()))
}

// ---- invoke_all

/// AES-010: at once, even if the pool cannot run any task.
#[test]
fn aes_010_invoke_all_of_nothing_gives_nothing() {
    let pool = fixed(1);
    let none: [fn() -> u8; 0] = [];
    assert!(pool.invoke_all(none).unwrap().is_empty());
    assert!(pool.invoke_all_timeout(none, Duration::ZERO).unwrap().is_empty());
    assert!(pool.invoke_all_timeout(none, LONG).unwrap().is_empty());
    assert_eq!(pool.pool_size(), 0);
    pool.close();
    assert!(pool.invoke_all(none).unwrap().is_empty());
}

/// AES-012.
#[test]
fn aes_012_invoke_all_returns_when_all_are_done_with_handles_in_input_order() {
    let pool = fixed(3);
    let (first, second) = (Gate::new(), Gate::new());
    let (a, b) = (first.clone(), second.clone());
    // The last task ends first, the first one last.
    let tasks: [Box<dyn FnOnce() -> u8 + Send>; 3] = [
        Box::new(move || {
            first.pass();
            1
        }),
        Box::new(move || {
            second.pass();
            a.open();
            2
        }),
        Box::new(move || {
            b.open();
            3
        }),
    ];
    let handles = pool.invoke_all(tasks).unwrap();
    assert!(handles.iter().all(TaskHandle::is_done));
    let values: Vec<_> = handles.into_iter().map(|mut handle| handle.try_join().unwrap().unwrap()).collect();
    assert_eq!(values, [1, 2, 3]);
    pool.close();
}

/// AES-013.
#[test]
fn aes_013_a_failure_stays_in_its_own_handle() {
    let pool = fixed(2);
    let tasks: [fn() -> u8; 3] = [|| 1, || resume_unwind(Box::new("broken")), || 3];
    for timed in [true, false] {
        let handles =
            if timed { pool.invoke_all_timeout(tasks, LONG) } else { pool.invoke_all(tasks) }.unwrap();
        let outcomes: Vec<_> = handles.into_iter().map(TaskHandle::join).collect();
        assert!(matches!(
            outcomes.as_slice(),
            [Ok(1), Err(JoinError::Panicked(panic)), Ok(3)] if panic.message() == Some("broken")
        ));
    }
    pool.close();
}

#[test]
fn invoke_all_with_a_time_limit_cancels_what_is_not_done() {
    let pool = fixed(1);
    let (send, receive) = mpsc::channel();
    let quick = || true;
    let runs = Counter::new();
    let (never, tell) = (runs.clone(), send.clone());
    let tasks: Vec<Box<dyn FnOnce() -> bool + Send>> = vec![
        Box::new(quick),
        Box::new(move || {
            tell.send(interrupt::sleep(Duration::MAX)).unwrap();
            true
        }),
        Box::new(move || {
            never.add();
            true
        }),
    ];
    let begin = Instant::now();
    let handles = pool.invoke_all_timeout(tasks, MEDIUM).unwrap();
    assert!(begin.elapsed() >= MEDIUM);
    let states: Vec<_> = handles.iter().map(TaskHandle::state).collect();
    assert_eq!(states[1..], [TaskState::Cancelled, TaskState::Cancelled]);
    assert_eq!(receive.recv_timeout(LONG).unwrap(), Err(Interrupted), "it ran, and was interrupted");
    pool.close();
    assert_eq!(runs.get(), 0);
}

#[test]
fn invoke_all_without_any_time_hands_nothing_in() {
    let pool = fixed(1);
    let handles = pool.invoke_all_timeout([|| 1, || 2], Duration::ZERO).unwrap();
    assert_eq!(handles.len(), 2);
    assert!(handles.iter().all(TaskHandle::is_cancelled));
    assert_eq!(pool.stats().submitted, 0);
    let forever = pool.invoke_all_timeout([|| 1, || 2], Duration::MAX).unwrap();
    assert!(forever.iter().all(|handle| handle.state() == TaskState::Succeeded));
    pool.close();
}

/// AES-018. `interrupt/flag.rs` has the timed form and the interrupt during the wait.
#[test]
fn aes_018_invoke_all_with_the_flag_set_fails_if_it_has_to_wait() {
    let pool = fixed(1);
    let (send, receive) = mpsc::channel();
    interrupt_myself();
    let tasks = [move || send.send(interrupt::sleep(Duration::MAX)).unwrap()];
    let outcome = pool.invoke_all(tasks);
    assert!(matches!(outcome, Err(InvokeError::Interrupted)));
    assert!(!interrupt::is_interrupted());
    // If it has started it was interrupted; otherwise it never runs.
    if let Ok(slept) = receive.recv() {
        assert_eq!(slept, Err(Interrupted));
    }
    pool.close();
}

/// AES-019.
#[test]
fn aes_019_invoke_all_that_need_not_wait_leaves_the_flag_set() {
    interrupt_myself();
    let handles = SameThread.invoke_all([|| 1, || 2]).unwrap();
    assert!(handles.iter().all(TaskHandle::is_done));
    assert!(interrupt::interrupted());
    interrupt_myself();
    SameThread.invoke_all_timeout([|| 1, || 2], LONG).unwrap();
    assert!(interrupt::interrupted());
}

/// AES-022. Differs from the reference, which hangs.
#[test]
fn aes_022_invoke_all_on_a_pool_that_discards_returns_abandoned_handles() {
    let (pool, gate) = saturated(policy::Discard);
    let handles = pool.invoke_all([|| 1, || 2]).unwrap();
    for handle in handles {
        assert!(matches!(handle.join(), Err(JoinError::Abandoned)));
    }
    gate.open();
    pool.close();
}

/// AES-023.
#[test]
fn aes_023_invoke_all_after_shutdown_is_rejected() {
    let pool = fixed(1);
    pool.shutdown();
    for outcome in [pool.invoke_all([|| 1]), pool.invoke_all_timeout([|| 1], LONG)] {
        assert!(matches!(outcome, Err(InvokeError::Rejected(r)) if r.reason() == RejectReason::Shutdown));
    }
    pool.close();
}

#[test]
fn invoke_all_that_is_rejected_half_way_cancels_the_tasks_before() {
    let pool = ThreadPoolExecutor::builder().work_queue(WorkQueue::array(2)).build().unwrap();
    let gate = occupied(&pool);
    let runs = Counter::new();
    let outcome = pool.invoke_all((0..3).map(|_| {
        let runs = runs.clone();
        move || runs.add()
    }));
    match outcome {
        Err(InvokeError::Rejected(rejected)) => assert_eq!(rejected.reason(), RejectReason::Saturated),
        other => panic!("{other:?}"),
    }
    assert_eq!(pool.queued_count(), 0);
    gate.open();
    pool.close();
    assert_eq!(runs.get(), 0);
    assert_eq!(pool.stats().cancelled, 2);
}

/// A rejection contains the task, even of a batch, so the caller can run it.
#[test]
fn the_task_that_made_invoke_all_fail_comes_back_and_can_be_run() {
    let (pool, gate) = saturated(policy::Abort);
    let runs = Counter::new();
    let count = runs.clone();
    let outcome = pool.invoke_all([move || count.add()]);
    let Err(InvokeError::Rejected(rejected)) = outcome else { panic!("{outcome:?}") };
    gate.open();
    pool.close();
    rejected.into_task().run();
    assert_eq!(runs.get(), 1);
}

#[test]
fn an_iterator_that_panics_half_way_cancels_the_tasks_before() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let tasks = (0..3).map(|n| {
        if n == 2 {
            resume_unwind(Box::new("iterator"));
        }
        move || n
    });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.invoke_all(tasks))).is_err());
    assert_eq!((pool.queued_count(), pool.stats().cancelled), (0, 2));
    gate.open();
    pool.close();
}

// ---- invoke_any

/// AES-024.
#[test]
fn aes_024_invoke_any_of_nothing_is_an_error() {
    let pool = fixed(1);
    let none: [fn() -> Result<u8, String>; 0] = [];
    assert!(matches!(pool.invoke_any(none), Err(InvokeError::Empty)));
    assert!(matches!(pool.invoke_any_timeout(none, LONG), Err(InvokeError::Empty)));
    assert!(matches!(pool.invoke_any_timeout(none, Duration::ZERO), Err(InvokeError::Empty)));
    pool.close();
}

/// AES-026: also if failures and panics come first.
#[test]
fn aes_026_invoke_any_gives_the_value_of_one_that_succeeded() {
    let pool = fixed(2);
    for timed in [true, false] {
        let failed = Gate::new();
        let tell = failed.clone();
        let tasks: Vec<Fallible> = vec![
            bad("first"),
            Box::new(move || {
                tell.open();
                resume_unwind(Box::new("second"))
            }),
            Box::new(move || {
                failed.pass();
                Ok(3)
            }),
        ];
        let value = if timed { pool.invoke_any_timeout(tasks, LONG) } else { pool.invoke_any(tasks) };
        assert_eq!(value.unwrap(), 3);
    }
    let either = pool.invoke_any([good(1), good(2)]).unwrap();
    assert!([1, 2].contains(&either));
    pool.close();
}

#[test]
fn invoke_any_cancels_and_interrupts_the_rest() {
    let pool = fixed(2);
    let begun = Gate::new();
    let tell = begun.clone();
    let (send, receive) = mpsc::channel();
    let tasks: Vec<Fallible> = vec![
        Box::new(move || {
            tell.open();
            send.send(interrupt::sleep(Duration::MAX)).unwrap();
            Ok(1)
        }),
        Box::new(move || {
            begun.pass();
            Ok(2)
        }),
    ];
    assert_eq!(pool.invoke_any(tasks).unwrap(), 2);
    assert_eq!(receive.recv_timeout(LONG).unwrap(), Err(Interrupted));
    pool.close();
}

/// AES-029: no task is submitted once one has succeeded.
#[test]
fn aes_029_invoke_any_does_not_start_tasks_it_no_longer_needs() {
    let started = Counter::new();
    for _ in 0..5 {
        let tasks = (0..20).map(|_| {
            let started = started.clone();
            move || {
                started.add();
                Ok::<_, String>(())
            }
        });
        SameThread.invoke_any(tasks).unwrap();
    }
    assert_eq!(started.get(), 5, "each first task was done before the second was handed in");

    let pool = fixed(1);
    let (started, taken) = (Counter::new(), Counter::new());
    let calls = 50;
    for _ in 0..calls {
        // Each task but the first is taken from the iterator when the task before it has ended. The
        // first success arrives at the latest before the third task: there is one worker.
        assert!(pool.wait_idle(LONG).unwrap());
        let before = pool.completed_task_count();
        let tasks = (0..20).map(|n| {
            taken.add();
            eventually(|| pool.completed_task_count() == before + n);
            let started = started.clone();
            move || {
                started.add();
                Ok::<_, String>(())
            }
        });
        pool.invoke_any(tasks).unwrap();
    }
    pool.close();
    assert!((calls..=2 * calls).contains(&started.get()), "{} started", started.get());
    assert!((calls..=3 * calls).contains(&taken.get()), "{} taken", taken.get());
}

#[test]
fn invoke_any_where_all_fail_gives_the_last_failure() {
    let outcome = SameThread.invoke_any([bad("first"), bad("last")]);
    let Err(InvokeError::AllFailed(last)) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(last.to_string(), "last");
    let error = outcome.unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "last");
    assert!(error.to_string().contains("last"));

    let panics: Fallible = Box::new(|| resume_unwind(Box::new("broken")));
    let error = SameThread.invoke_any([bad("first"), panics]).unwrap_err();
    assert!(matches!(error.source().unwrap().downcast_ref(), Some(JoinError::Panicked(_))));
}

/// AES-031.
#[test]
fn aes_031_all_failures_before_the_time_limit_are_not_a_time_out() {
    let pool = fixed(2);
    let outcome = pool.invoke_any_timeout([bad("one"), bad("two")], Duration::MAX);
    assert!(matches!(outcome, Err(InvokeError::AllFailed(_))));
    let outcome = pool.invoke_any_timeout([bad("one"), bad("two")], LONG);
    assert!(matches!(outcome, Err(InvokeError::AllFailed(_))));
    pool.close();
}

#[test]
fn invoke_any_gives_up_when_its_time_is_over_and_interrupts_what_runs() {
    let pool = fixed(1);
    let (send, receive) = mpsc::channel();
    let tasks: Vec<Fallible> = vec![
        Box::new(move || {
            send.send(interrupt::sleep(Duration::MAX)).unwrap();
            Ok(1)
        }),
        good(2),
    ];
    let begin = Instant::now();
    let outcome = pool.invoke_any_timeout(tasks, SMALL);
    assert!(matches!(outcome, Err(InvokeError::TimedOut)));
    assert!(begin.elapsed() >= SMALL);
    // If it has started it was interrupted; otherwise it never runs.
    if let Ok(slept) = receive.recv() {
        assert_eq!(slept, Err(Interrupted));
    }
    pool.close();
}

/// AES-033. `interrupt/flag.rs` has the other forms.
#[test]
fn aes_033_an_interrupted_invoke_any_interrupts_what_it_started() {
    let pool = fixed(1);
    let begun = Gate::new();
    let tell = begun.clone();
    let (send, receive) = mpsc::channel();
    thread::scope(|s| {
        let invoker = block(s, || {
            let task = move || {
                tell.open();
                send.send(interrupt::sleep(Duration::MAX)).unwrap();
                Ok::<_, String>(())
            };
            (pool.invoke_any([task]), interrupt::is_interrupted())
        });
        begun.pass();
        invoker.interrupt();
        assert!(matches!(invoker.join(), (Err(InvokeError::Interrupted), false)));
    });
    assert_eq!(receive.recv_timeout(LONG).unwrap(), Err(Interrupted));
    pool.close();
}

/// AES-034.
#[test]
fn aes_034_invoke_any_after_shutdown_is_rejected() {
    let pool = fixed(1);
    pool.shutdown();
    for outcome in [pool.invoke_any([good(1)]), pool.invoke_any_timeout([good(1)], LONG)] {
        let Err(InvokeError::Rejected(rejected)) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(rejected.reason(), RejectReason::Shutdown);
        assert!(outcome.unwrap_err().source().unwrap().is::<Rejected>());
    }
    pool.close();
}

#[test]
fn invoke_any_on_a_pool_that_discards_fails_and_does_not_hang() {
    let (pool, gate) = saturated(policy::Discard);
    let error = pool.invoke_any([good(1), good(2)]).unwrap_err();
    assert!(matches!(error.source().unwrap().downcast_ref(), Some(JoinError::Abandoned)));
    gate.open();
    pool.close();
}

#[test]
fn invoke_any_drops_the_values_it_does_not_return() {
    let pool = fixed(2);
    let dropped = Counter::new();
    let winner = {
        let both_began = Arc::new(std::sync::Barrier::new(2));
        pool.invoke_any((0..2).map(|_| {
            let (value, both_began) = (dropped.on_drop(), Arc::clone(&both_began));
            move || {
                both_began.wait();
                Ok::<_, String>(value)
            }
        }))
        .unwrap()
    };
    pool.close();
    assert_eq!(dropped.get(), 1);
    drop(winner);
    assert_eq!(dropped.get(), 2);
}
