//! Common behaviour of all executors: submit, close, and rejections that return the task. Ids such
//! as AES-012 and CLS-006 name the behaviour of the reference that a test checks.

use std::error::Error;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::{SameThread, fixed, saturated};
use crate::support::{Counter, Gate, LONG, SHORT, block, eventually, interrupt_myself, occupied, rounds};
use millpond::{
    Executor, ExecutorExt, ExecutorService, Interrupted, JoinError, RejectReason, Rejected, Task, TaskOf,
    TaskState, ThreadPoolExecutor, executors, interrupt, policy,
};

// ---- submit

/// AES-001, AES-002, AES-003: the join returns the value itself, not a copy.
#[test]
fn aes_001_002_submit_gives_the_value() {
    let pool = fixed(2);
    let value = Arc::new(String::from("value"));
    let same = Arc::clone(&value);
    assert!(Arc::ptr_eq(&pool.submit(move || same).unwrap().join().unwrap(), &value));
    let unit = pool.submit(|| ()).unwrap();
    eventually(|| unit.is_done());
    assert!(!unit.is_cancelled());
    unit.join().unwrap();
    let named = TaskOf::new(|| thread::current().id()).named("where").with_priority(1);
    assert_ne!(pool.submit_task(named).unwrap().join().unwrap(), thread::current().id());
    pool.close();
}

/// AES-004.
#[test]
fn aes_004_a_join_of_zero_time_on_a_done_task_gives_the_value() {
    let pool = fixed(1);
    let mut handle = pool.submit(|| 7).unwrap();
    eventually(|| handle.is_done());
    assert_eq!(handle.join_timeout(Duration::ZERO).unwrap().unwrap(), 7);
    pool.close();
}

/// AES-005: a panic is an error of the join, an `Err` of the closure is its value.
#[test]
fn aes_005_a_failing_task_fails_its_join_with_the_cause() {
    let pool = fixed(1);
    let panics = pool.submit(|| -> u8 { resume_unwind(Box::new(String::from("cause"))) }).unwrap();
    match panics.join() {
        Err(JoinError::Panicked(panic)) => {
            assert_eq!(*panic.into_payload().downcast::<String>().unwrap(), "cause");
        }
        other => panic!("{other:?}"),
    }
    let fails = pool.submit(|| "x".parse::<u8>()).unwrap();
    assert!(fails.join().unwrap().is_err());
    assert_eq!((pool.stats().panicked, pool.stats().completed), (1, 1));
    pool.close();
}

/// AES-006: every way to submit.
#[test]
fn aes_006_after_shutdown_every_form_is_rejected_and_gives_the_work_back() {
    let pool = fixed(1);
    pool.shutdown();
    let runs = Counter::new();
    let count = || {
        let runs = runs.clone();
        move || runs.add()
    };
    let rejections = [
        pool.execute(count()).unwrap_err(),
        pool.execute_task(Task::new(count()).named("named")).unwrap_err(),
        pool.submit(count()).unwrap_err(),
        pool.submit_task(TaskOf::new(count())).unwrap_err(),
    ];
    assert_eq!(runs.get(), 0);
    for rejected in rejections {
        assert_eq!(rejected.reason(), RejectReason::Shutdown);
        let id = rejected.task().id().to_string();
        assert!(rejected.to_string().contains(&id), "{rejected}");
        rejected.into_task().run();
    }
    assert_eq!(runs.get(), 4);
    assert_eq!(pool.stats().rejected, 4);
    pool.close();
}

/// AES-007. `interrupt/flag.rs` has `cancel(true)` and `shutdown_now`.
#[test]
fn aes_007_cancel_false_does_not_interrupt_and_cancel_true_does() {
    for may_interrupt in [false, true] {
        let pool = fixed(1);
        let (begun, gate) = (Gate::new(), Gate::new());
        let (tell, wait) = (begun.clone(), gate.clone());
        let (send, receive) = mpsc::channel();
        let handle = pool
            .submit(move || {
                tell.open();
                wait.pass();
                send.send(interrupt::is_interrupted()).unwrap();
            })
            .unwrap();
        begun.pass();
        assert!(handle.cancel(may_interrupt));
        gate.open();
        assert_eq!(receive.recv_timeout(LONG).unwrap(), may_interrupt);
        pool.close();
    }
}

/// AES-008, on every kind of pool.
#[test]
fn aes_008_a_timed_join_expires_while_the_task_goes_on() {
    let single = executors::single();
    let (fixed, cached) = (fixed(2), executors::cached());
    let services: [&dyn ExecutorService; 3] = [&single, &fixed, &cached];
    for service in services {
        let gate = Gate::new();
        let wait = gate.clone();
        let mut handle = service
            .submit(move || {
                wait.pass();
                7
            })
            .unwrap();
        let begin = Instant::now();
        assert!(handle.join_timeout(SHORT).is_none());
        assert!(begin.elapsed() >= SHORT);
        gate.open();
        assert_eq!(handle.join().unwrap(), 7);
        service.close();
    }
}

/// AES-009.
#[test]
fn aes_009_after_cancel_false_joins_of_a_running_and_a_waiting_task_say_cancelled() {
    let pool = fixed(1);
    let (begun, gate) = (Gate::new(), Gate::new());
    let (tell, wait) = (begun.clone(), gate.clone());
    let running = pool
        .submit(move || {
            tell.open();
            wait.pass();
        })
        .unwrap();
    let waiting = pool.submit(|| ()).unwrap();
    begun.pass();
    for mut handle in [running, waiting] {
        assert!(handle.cancel(false));
        assert!(handle.is_done() && handle.is_cancelled());
        assert!(matches!(handle.join_timeout(LONG), Some(Err(JoinError::Cancelled))));
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    }
    gate.open();
    pool.close();
}

/// AES-035: `Relaxed` accesses, so that only the pool's own synchronisation orders them.
#[test]
fn aes_035_writes_before_submit_and_in_the_task_are_visible_after() {
    let pool = fixed(2);
    let cells = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    for round in rounds(1000) {
        cells.0.store(round, Ordering::Relaxed);
        let shared = Arc::clone(&cells);
        let text = vec![round; 3]; // non-atomic memory, there and back
        let handle = pool
            .submit(move || {
                assert_eq!(shared.0.load(Ordering::Relaxed), round);
                shared.1.store(round, Ordering::Relaxed);
                let mut text = text;
                text.push(round);
                text
            })
            .unwrap();
        if round % 2 == 0 {
            assert_eq!(handle.join().unwrap(), [round; 4]);
        } else {
            eventually(|| handle.is_done());
        }
        assert_eq!(cells.1.load(Ordering::Relaxed), round);
    }
    pool.close();
}

// ---- executors by reference, box and trait object

#[test]
fn references_boxes_arcs_and_trait_objects_of_executors_are_executors() {
    fn submit_to(executor: impl Executor) -> u8 {
        executor.submit(|| 7).unwrap().join().unwrap()
    }
    fn shut_down(service: impl ExecutorService) {
        service.close();
        assert!(service.is_shutdown() && service.is_terminated());
        assert_eq!(service.await_termination(Duration::ZERO), Ok(true));
        assert!(service.shutdown_now().is_empty());
        service.shutdown();
    }
    let pool = fixed(1);
    assert_eq!(submit_to(&pool), 7);
    assert_eq!(submit_to(Arc::new(pool.clone())), 7);
    assert_eq!(submit_to(Box::new(SameThread)), 7);
    let object: Arc<dyn ExecutorService> = Arc::new(pool.clone());
    assert_eq!(submit_to(&*object), 7);
    assert_eq!(submit_to(Arc::clone(&object)), 7);
    assert!(object.invoke_all([|| 1]).unwrap()[0].is_done());
    assert_eq!(object.invoke_any([|| Ok::<u8, String>(9)]).unwrap(), 9);
    let executor: &dyn Executor = &pool;
    executor.execute(|| ()).unwrap();
    shut_down(&pool);
    shut_down(object);
    shut_down(Box::new(fixed(1)) as Box<dyn ExecutorService>);
}

#[test]
fn an_executor_that_drops_its_tasks_resolves_their_handles() {
    struct Forgetful;
    impl Executor for Forgetful {
        fn execute_task(&self, _: Task) -> Result<(), Rejected> {
            Ok(())
        }
    }
    assert!(matches!(Forgetful.submit(|| 1).unwrap().join(), Err(JoinError::Abandoned)));
    let all = Forgetful.invoke_all([|| 1, || 2]).unwrap();
    assert!(all.iter().all(|handle| handle.state() == TaskState::Abandoned));
}

// ---- rejections

#[test]
fn a_rejection_tells_why_and_by_whom() {
    let (pool, gate) = saturated(policy::Abort);
    let rejected = pool.execute_task(Task::new(|| ()).named("resize")).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::Saturated);
    assert_eq!(rejected.task().name(), Some("resize"));
    let text = rejected.to_string();
    assert!(
        text.contains("resize") && text.contains("saturated") && text.contains("pool size = 1"),
        "{text}"
    );
    assert!(rejected.source().is_none());
    assert!(format!("{rejected:?}").contains("Saturated"));
    gate.open();
    pool.close();

    let mine = Rejected::new(Task::new(|| ()), RejectReason::Saturated);
    assert!(mine.to_string().contains("saturated"));
}

/// As printed by a hook, which gets no error.
#[test]
fn a_reason_by_itself_is_a_whole_sentence() {
    assert_eq!(RejectReason::Saturated.to_string(), "the executor is saturated");
    assert_eq!(RejectReason::Shutdown.to_string(), "the executor has been shut down");
    let mine = Rejected::new(Task::new(|| ()), RejectReason::Shutdown);
    assert!(mine.to_string().ends_with("rejected: the executor has been shut down"), "{mine}");
}

#[test]
fn the_cause_of_a_failed_spawn_is_the_source() {
    let pool = ThreadPoolExecutor::builder()
        .thread_factory(|_| Err(std::io::Error::new(std::io::ErrorKind::OutOfMemory, "no threads")))
        .build()
        .unwrap();
    let rejected = pool.submit(|| 7).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::SpawnFailed);
    let source = rejected.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(source.kind(), std::io::ErrorKind::OutOfMemory);
    assert!(rejected.to_string().contains("no threads"));
    pool.close();
}

#[test]
fn a_rejected_task_can_be_run_later_and_its_handle_gets_the_value() {
    let (task, handle) = TaskOf::new(|| 7).into_parts();
    let pool = fixed(1);
    pool.close();
    let rejected = pool.execute_task(task).unwrap_err();
    assert_eq!(handle.state(), TaskState::Pending);
    let other = fixed(1);
    other.execute_task(rejected.into_task()).unwrap();
    assert_eq!(handle.join().unwrap(), 7);
    other.close();
}

// ---- close

/// CLS-001, CLS-008.
#[test]
fn cls_001_008_close_of_an_idle_pool_terminates_it_and_may_be_repeated() {
    for used in [true, false] {
        let pool = fixed(1);
        if used {
            pool.submit(|| ()).unwrap().join().unwrap();
        }
        pool.close();
        assert!(pool.is_shutdown() && pool.is_terminated());
        pool.close();
        interrupt_myself();
        pool.close();
        assert!(interrupt::interrupted(), "nothing to wait for: the flag is left alone");
        assert!(pool.is_terminated());
    }
}

/// CLS-002.
#[test]
fn cls_002_close_waits_for_running_and_waiting_tasks() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let waiting: Vec<_> = (0..3).map(|n| pool.submit(move || n).unwrap()).collect();
    thread::scope(|s| {
        let closer = block(s, || pool.close());
        assert!(!closer.is_finished());
        assert!(pool.is_shutdown() && !pool.is_terminated());
        gate.open();
        closer.join();
    });
    assert!(pool.is_terminated());
    for (n, mut handle) in waiting.into_iter().enumerate() {
        assert_eq!(handle.try_join().unwrap().unwrap(), n);
    }
}

/// CLS-003.
#[test]
fn cls_003_close_after_shutdown_waits_for_the_end() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    pool.shutdown();
    thread::scope(|s| {
        let closer = block(s, || pool.close());
        assert!(!closer.is_finished());
        gate.open();
        closer.join();
    });
    assert!(pool.is_terminated());
}

/// A service that counts calls, with the provided `close`.
struct Counting {
    pool: ThreadPoolExecutor,
    drains: Counter,
    waits: Counter,
}

impl Executor for Counting {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.pool.execute_task(task)
    }
}

impl ExecutorService for Counting {
    fn shutdown(&self) {
        self.pool.shutdown();
    }
    fn shutdown_now(&self) -> Vec<Task> {
        self.drains.add();
        self.pool.shutdown_now()
    }
    fn is_shutdown(&self) -> bool {
        self.pool.is_shutdown()
    }
    fn is_terminated(&self) -> bool {
        self.pool.is_terminated()
    }
    fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.waits.add();
        self.pool.await_termination(timeout)
    }
}

/// CLS-006: the flag is set again when `close` returns.
#[test]
fn cls_006_an_interrupted_close_drains_once_and_waits_on() {
    let service = Counting { pool: fixed(1), drains: Counter::new(), waits: Counter::new() };
    let gate = occupied(&service.pool);
    let waiting = service.submit(|| ()).unwrap();
    thread::scope(|s| {
        let closer = block(s, || {
            service.close();
            interrupt::interrupted()
        });
        closer.interrupt();
        eventually(|| service.waits.get() == 2);
        assert_eq!(service.drains.get(), 1);
        assert!(matches!(waiting.join(), Err(JoinError::Abandoned)));
        closer.interrupt();
        eventually(|| service.waits.get() == 3);
        assert_eq!(service.drains.get(), 1);
        assert!(!closer.is_finished());
        gate.open();
        assert!(closer.join());
    });
    assert!(service.is_terminated());
}

/// CLS-006, with the flag set before the call.
#[test]
fn cls_006_close_with_the_flag_set_interrupts_the_tasks_at_once() {
    let pool = fixed(1);
    let (begun, tell) = (Gate::new(), mpsc::channel());
    let (open, send) = (begun.clone(), tell.0);
    pool.execute(move || {
        open.open();
        send.send(interrupt::sleep(Duration::MAX)).unwrap();
    })
    .unwrap();
    begun.pass();
    interrupt_myself();
    pool.close();
    assert!(interrupt::interrupted());
    assert_eq!(tell.1.recv().unwrap(), Err(Interrupted));
    assert!(pool.is_terminated());
}

/// After a day `close` calls `shutdown_now` once, and then waits without a limit.
#[test]
fn close_loses_its_patience_after_a_day() {
    #[derive(Default)]
    struct Slow {
        calls: Mutex<Vec<String>>,
    }
    impl Slow {
        fn note(&self, call: impl Into<String>) -> usize {
            let mut calls = self.calls.lock().unwrap();
            calls.push(call.into());
            calls.len()
        }
    }
    impl Executor for Slow {
        fn execute_task(&self, task: Task) -> Result<(), Rejected> {
            Err(Rejected::new(task, RejectReason::Shutdown))
        }
    }
    impl ExecutorService for Slow {
        fn shutdown(&self) {
            self.note("shutdown");
        }
        fn shutdown_now(&self) -> Vec<Task> {
            self.note("shutdown_now");
            Vec::new()
        }
        fn is_shutdown(&self) -> bool {
            true
        }
        fn is_terminated(&self) -> bool {
            true
        }
        fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
            Ok(self.note(format!("wait {timeout:?}")) > 2)
        }
    }
    let slow = Slow::default();
    slow.close();
    let day = Duration::from_secs(24 * 60 * 60);
    let wanted = [
        "shutdown".into(),
        format!("wait {day:?}"),
        "shutdown_now".into(),
        format!("wait {:?}", Duration::MAX),
    ];
    assert_eq!(*slow.calls.lock().unwrap(), wanted);
}

/// CLS-010: not defined by the reference. Dropping the last handle shuts down without blocking, and
/// accepted tasks still run.
#[test]
fn cls_010_dropping_the_last_handle_shuts_down_and_does_not_wait() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let waiting = pool.submit(|| 7).unwrap();
    let clone = pool.clone();
    drop(pool);
    assert!(!clone.is_shutdown(), "that was not the last");
    drop(clone); // returns although a task is running
    assert_eq!(waiting.state(), TaskState::Pending);
    gate.open();
    assert_eq!(waiting.join().unwrap(), 7);
}

/// CLS-011. Differs from the reference, which hangs.
#[test]
fn cls_011_close_by_a_task_of_the_same_pool_only_shuts_down() {
    let pool = fixed(1);
    let inside = pool.clone();
    let closed = pool.submit(move || {
        inside.close();
        (inside.is_shutdown(), inside.is_terminated())
    });
    assert_eq!(closed.unwrap().join().unwrap(), (true, false));
    assert_eq!(pool.await_termination(LONG), Ok(true));

    let single = executors::single();
    let inside = single.clone();
    single.submit(move || inside.close()).unwrap().join().unwrap();
    assert_eq!(single.await_termination(LONG), Ok(true));
}

/// A worker that finds the queue empty, because another one took the last task, must still learn
/// that the pool is ending.
#[test]
fn a_pool_that_is_closed_while_it_works_always_ends() {
    for _ in rounds(2000) {
        let pool = fixed(2);
        let gate = Gate::new();
        for _ in 0..20 {
            let wait = gate.clone();
            pool.execute(move || wait.pass()).unwrap();
        }
        gate.open();
        pool.close();
        assert_eq!(pool.completed_task_count(), 20);
    }
}

/// `close` must do its work even if captures of tasks panic in their destructors.
#[test]
fn an_interrupted_close_survives_tasks_whose_destructors_panic() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            resume_unwind(Box::new("destructor"));
        }
    }
    let pool = fixed(1);
    let gate = occupied(&pool);
    let captured = PanicsOnDrop;
    pool.execute(move || drop(captured)).unwrap();
    let closed = thread::scope(|s| {
        let closer = block(s, || {
            let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.close())).is_err();
            (unwound, interrupt::interrupted())
        });
        closer.interrupt();
        eventually(|| pool.state() == millpond::RunState::Stop);
        gate.open();
        closer.join()
    });
    pool.close();
    assert_eq!(closed, (false, true), "unwound, flag set");
}
