//! Dropping handles: detached, with or without their task, with cancel-on-drop or a canceller. Ids
//! such as FUT-012 name the behaviour of the reference that a test checks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::pools::{Running, busy, busy_pool, fixed, running};
use crate::support::{Counter, Gate, LONG, PanicsOnDrop, Wrapped, block, interrupt_myself};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    JoinError, Task, TaskHandle, TaskOf, TaskState, ThreadPoolExecutor, WorkQueue, interrupt, policy,
};

// ---- detaching, dropping

#[test]
fn dropping_a_handle_detaches_and_does_not_cancel() {
    let (pool, gate) = busy();
    let runs = Counter::new();
    let count = runs.clone();
    drop(pool.submit(move || count.add()).unwrap());
    gate.open();
    pool.close();
    assert_eq!(runs.get(), 1);
    assert_eq!((pool.stats().completed, pool.stats().cancelled), (2, 0));
}

/// However the handle is dropped, the value is dropped once, as soon as it is unreachable.
#[test]
fn a_value_is_dropped_once_and_as_soon_as_nobody_can_have_it() {
    // The handle is dropped before the task runs.
    let dropped = Counter::new();
    let value = dropped.on_drop();
    let Running { pool, gate, handle } = running(move || value);
    let canceller = handle.canceller();
    drop(handle);
    assert_eq!(dropped.get(), 0);
    gate.open();
    pool.close();
    assert_eq!(dropped.get(), 1, "though a canceller is there");
    assert_eq!(canceller.state(), TaskState::Succeeded);
    drop(canceller);
    assert_eq!(dropped.get(), 1);

    // The handle is dropped after the value is there.
    let dropped = Counter::new();
    let value = dropped.on_drop();
    let (task, handle) = TaskOf::new(move || value).into_parts();
    let canceller = handle.canceller();
    task.run();
    assert_eq!(dropped.get(), 0);
    drop(handle);
    assert_eq!(dropped.get(), 1, "though a canceller is there");
    drop(canceller);
    assert_eq!(dropped.get(), 1);

    // The value is taken out, in each possible way.
    for way in 0..3 {
        let dropped = Counter::new();
        let value = dropped.on_drop();
        let (task, mut handle) = TaskOf::new(move || value).into_parts();
        task.run();
        let value = match way {
            0 => handle.try_join().unwrap().unwrap(),
            1 => handle.join_timeout(LONG).unwrap().unwrap(),
            _ => handle.join().unwrap(),
        };
        assert_eq!(dropped.get(), 0);
        drop(value);
        assert_eq!(dropped.get(), 1);
    }
}

#[test]
fn the_value_of_a_task_cancelled_while_it_ran_is_dropped_when_it_returns() {
    let dropped = Counter::new();
    let value = dropped.on_drop();
    let Running { pool, gate, handle } = running(move || value);
    assert!(handle.cancel(true));
    assert_eq!(dropped.get(), 0);
    gate.open();
    pool.close();
    assert_eq!(dropped.get(), 1);
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    assert_eq!(dropped.get(), 1);
}

#[test]
fn the_payload_of_a_panic_is_dropped_once() {
    for keep_handle in [true, false] {
        let dropped = Counter::new();
        let payload = dropped.on_drop();
        let (task, handle) = TaskOf::new(move || -> u8 { resume_unwind(Box::new(payload)) }).into_parts();
        let canceller = handle.canceller();
        if !keep_handle {
            drop(handle);
            task.run();
        } else {
            task.run();
            assert_eq!(dropped.get(), 0);
            drop(handle);
        }
        assert_eq!(dropped.get(), 1, "handle kept: {keep_handle}");
        assert_eq!(canceller.state(), TaskState::Failed);
    }
}

#[test]
fn cancel_drops_the_captures_of_a_waiting_task_at_once() {
    for remove_on_cancel in [true, false] {
        let pool = ThreadPoolExecutor::builder().remove_on_cancel(remove_on_cancel).build().unwrap();
        let (pool, gate) = busy_pool(pool);
        let dropped = Counter::new();
        let captured = dropped.on_drop();
        let handle = pool.submit(move || drop(captured)).unwrap();
        assert!(handle.canceller().cancel(false));
        assert_eq!(dropped.get(), 1, "before cancel returns");
        gate.open();
        pool.close();
        drop(handle);
        assert_eq!(dropped.get(), 1);
    }
}

#[test]
fn a_task_that_is_dropped_unrun_drops_its_captures_and_resolves_its_handle() {
    let ways: [fn(&ThreadPoolExecutor, &TaskHandle<()>); 3] = [
        |pool, _| drop(pool.shutdown_now()),
        |pool, handle| assert!(pool.remove(handle.id())),
        |pool, handle| {
            let tasks = pool.shutdown_now();
            assert_eq!(handle.state(), TaskState::Pending, "in somebody's hands");
            drop(tasks);
        },
    ];
    for way in ways {
        let (pool, gate) = busy();
        let dropped = Counter::new();
        let captured = dropped.on_drop();
        let handle = pool.submit(move || drop(captured)).unwrap();
        way(&pool, &handle);
        assert_eq!(dropped.get(), 1);
        assert_eq!(handle.state(), TaskState::Abandoned);
        assert!(matches!(handle.join(), Err(JoinError::Abandoned)));
        gate.open();
        pool.close();
    }
}

#[test]
fn a_join_that_waits_is_freed_when_its_task_is_dropped() {
    let (pool, gate) = busy();
    let handle = pool.submit(|| 7).unwrap();
    thread::scope(|s| {
        let joiner = block(s, || handle.join());
        let tasks = pool.shutdown_now();
        assert!(!joiner.is_finished());
        drop(tasks);
        assert!(matches!(joiner.join(), Err(JoinError::Abandoned)));
    });
    gate.open();
    pool.close();
}

#[test]
fn a_drained_task_can_be_run_by_hand_and_its_handle_gets_the_value() {
    let (pool, gate) = busy();
    let handle = pool.submit(|| thread::current().id()).unwrap();
    pool.shutdown_now().into_iter().for_each(Task::run);
    assert_eq!(handle.join().unwrap(), thread::current().id());
    gate.open();
    pool.close();
}

#[test]
fn a_pool_dropped_with_work_in_it_resolves_every_handle() {
    let (pool, gate) = busy();
    let handles: Vec<_> = (0..10).map(|n| pool.submit(move || n).unwrap()).collect();
    drop(pool);
    gate.open();
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), n, "what was accepted still runs");
    }
}

#[test]
fn a_destructor_that_panics_stays_inside() {
    let dropped = Counter::new();
    let bomb = || PanicsOnDrop(dropped.on_drop());

    let captured = bomb();
    let (task, handle) = TaskOf::new(move || drop(captured)).into_parts();
    assert!(handle.cancel(true));
    assert_eq!(dropped.get(), 1);
    drop(task);

    let captured = bomb();
    let (task, handle) = TaskOf::new(move || drop(captured)).into_parts();
    drop(task);
    assert_eq!(dropped.get(), 2);
    assert_eq!(handle.state(), TaskState::Abandoned);

    let captured = bomb();
    let (task, handle) = TaskOf::new(move || captured).into_parts();
    task.run();
    drop(handle);
    assert_eq!(dropped.get(), 3);

    let captured = bomb();
    let pool = fixed(1);
    let gate = Gate::new();
    let wait = gate.clone();
    drop(
        pool.submit(move || {
            wait.pass();
            captured
        })
        .unwrap(),
    );
    gate.open();
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    assert_eq!(dropped.get(), 4);
    pool.close();
}

// ---- cancel on drop

#[test]
fn cancel_on_drop_cancels_a_waiting_task() {
    let (pool, gate) = busy();
    let dropped = Counter::new();
    let captured = dropped.on_drop();
    let guard = pool.submit(move || drop(captured)).unwrap().cancel_on_drop();
    let canceller = guard.canceller();
    assert_eq!(guard.id(), canceller.id());
    drop(guard);
    assert_eq!(canceller.state(), TaskState::Cancelled);
    assert_eq!(dropped.get(), 1);
    assert_eq!(pool.queued_count(), 0);
    gate.open();
    pool.close();
}

#[test]
fn cancel_on_drop_interrupts_a_running_task() {
    let pool = fixed(1);
    let begun = Gate::new();
    let tell = begun.clone();
    let (send, receive) = mpsc::channel();
    let guard = pool
        .submit(move || {
            tell.open();
            send.send(interrupt::sleep(Duration::MAX).is_err()).unwrap();
        })
        .unwrap()
        .cancel_on_drop();
    begun.pass();
    drop(guard);
    assert!(receive.recv_timeout(LONG).unwrap());
    pool.close();
}

#[test]
fn cancel_on_drop_does_all_that_a_handle_does() {
    let pool = fixed(1);
    assert_eq!(pool.submit(|| 7).unwrap().cancel_on_drop().join().unwrap(), 7);
    let mut guard = pool.submit(|| 7).unwrap().cancel_on_drop();
    assert_eq!(guard.join_timeout(LONG).unwrap().unwrap(), 7);
    assert!(guard.is_done() && !guard.is_cancelled());
    drop(guard);
    assert_eq!(pool.stats().cancelled, 0);
    pool.close();
}

#[test]
fn a_guard_that_is_kept_only_detaches() {
    let (pool, gate) = busy();
    let handle = pool.submit(|| 7).unwrap().cancel_on_drop().keep();
    gate.open();
    assert_eq!(handle.join().unwrap(), 7);
    pool.close();
}

#[test]
fn an_interrupted_join_of_a_guard_cancels_the_task() {
    let (pool, gate) = busy();
    let guard = pool.submit(|| 7).unwrap().cancel_on_drop();
    let canceller = guard.canceller();
    interrupt_myself();
    assert!(matches!(guard.join(), Err(JoinError::Interrupted)));
    assert_eq!(canceller.state(), TaskState::Cancelled);
    assert!(!interrupt::is_interrupted());
    gate.open();
    pool.close();
}

#[test]
fn a_guard_dropped_by_unwinding_cancels() {
    let (pool, gate) = busy();
    let guard = pool.submit(|| 7).unwrap().cancel_on_drop();
    let canceller = guard.canceller();
    let _ = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        resume_unwind(Box::new("half-way"));
    }));
    assert!(canceller.is_cancelled());
    gate.open();
    pool.close();
}

// ---- cancellers

#[test]
fn a_canceller_frees_whoever_joins() {
    let (pool, gate) = busy();
    let handle = pool.submit(|| 7).unwrap();
    let canceller = handle.canceller();
    let clone = canceller.clone();
    thread::scope(|s| {
        let joiner = block(s, || handle.join());
        assert!(s.spawn(move || clone.cancel(true)).join().unwrap());
        assert!(matches!(joiner.join(), Err(JoinError::Cancelled)));
    });
    assert!(canceller.is_cancelled());
    gate.open();
    pool.close();
}

#[test]
fn a_canceller_works_after_the_handle_is_gone() {
    let (pool, gate) = busy();
    let dropped = Counter::new();
    let captured = dropped.on_drop();
    let canceller = {
        let handle = pool.submit(move || drop(captured)).unwrap();
        handle.canceller()
    };
    assert_eq!(canceller.state(), TaskState::Pending);
    assert!(canceller.cancel(false));
    assert_eq!(dropped.get(), 1);
    assert_eq!(pool.queued_count(), 0);
    gate.open();
    pool.close();
}

#[test]
fn a_canceller_outlives_its_pool() {
    let pool = fixed(1);
    let canceller = pool.submit(|| 7).unwrap().canceller();
    pool.close();
    drop(pool);
    assert!(!canceller.cancel(true));
    assert_eq!(canceller.state(), TaskState::Succeeded);
}

#[test]
fn cancelling_a_waiting_task_frees_its_place_for_one_who_waits_for_room() {
    let pool = ThreadPoolExecutor::builder()
        .work_queue(WorkQueue::array(1))
        .rejected_execution_handler(policy::Block::forever())
        .build()
        .unwrap();
    let (pool, gate) = busy_pool(pool);
    let waiting = pool.submit(|| 1).unwrap();
    thread::scope(|s| {
        let submitter = block(s, || pool.submit(|| 2).unwrap());
        assert!(!submitter.is_finished());
        assert!(waiting.cancel(false));
        let second = submitter.join();
        gate.open();
        assert_eq!(second.join().unwrap(), 2);
    });
    pool.close();
}

/// A custom queue is user code. If it does not remove a cancelled task, a join of the task must
/// still return.
#[test]
fn a_queue_that_panics_when_a_task_is_cancelled_does_not_keep_its_joiner() {
    let mut queue = Wrapped::new(LinkedBlockingQueue::unbounded());
    queue.on_call = Box::new(|method| {
        if method == "remove_if" {
            resume_unwind(Box::new("queue"));
        }
    });
    let pool = ThreadPoolExecutor::builder().work_queue(WorkQueue::custom(queue)).build().unwrap();
    let (pool, gate) = busy_pool(pool);
    let handle = pool.submit(|| 7).unwrap();
    let canceller = handle.canceller();
    thread::scope(|s| {
        let joiner = block(s, || handle.join());
        let _ = catch_unwind(AssertUnwindSafe(|| canceller.cancel(false)));
        assert!(canceller.is_cancelled());
        assert!(matches!(joiner.join(), Err(JoinError::Cancelled)));
    });
    gate.open();
    pool.close();
}
