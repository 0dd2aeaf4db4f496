//! The factories. Ids such as EXE-003 name the behaviour of the reference that a test checks.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use crate::support::{Gate, LONG, eventually};
use millpond::{
    ConfigError, ExecutorExt, ExecutorService, Hooks, RejectReason, RunState, ShutdownOutcome,
    SingleThreadExecutor, ThreadPoolExecutor, executors, interrupt,
};

fn thread_name() -> String {
    thread::current().name().unwrap().to_owned()
}

/// EXE-001.
#[test]
fn exe_001_a_fixed_pool_has_as_many_threads_as_asked_and_an_unbounded_queue() {
    let pool = executors::fixed(2).unwrap();
    assert_eq!((pool.core_pool_size(), pool.maximum_pool_size()), (2, 2));
    assert_eq!(pool.keep_alive_time(), Duration::ZERO);
    assert_eq!(pool.remaining_queue_capacity(), usize::MAX);
    assert!(!pool.allows_core_thread_time_out());
    let gate = Gate::new();
    for _ in 0..50 {
        let wait = gate.clone();
        pool.execute(move || wait.pass()).unwrap();
    }
    assert_eq!((pool.pool_size(), pool.queued_count()), (2, 48));
    gate.open();
    pool.close();
    assert_eq!(pool.completed_task_count(), 50);
}

/// EXE-001.
#[test]
fn exe_001_a_pool_of_no_threads_is_refused() {
    let error = executors::fixed(0).unwrap_err();
    assert!(matches!(error, ConfigError::ZeroMaximum { .. }));
    assert!(error.to_string().contains('0'));
    assert!(executors::bounded(0, 0, 1).is_err());
    assert!(matches!(
        executors::bounded(3, 2, 1),
        Err(ConfigError::CoreExceedsMaximum { core: 3, maximum: 2 })
    ));
    assert!(matches!(executors::bounded(1, 2, 0), Err(ConfigError::ZeroCapacity { .. })));
}

#[test]
fn a_bounded_pool_rejects_when_threads_and_queue_are_full() {
    let pool = executors::bounded(1, 2, 3).unwrap();
    assert_eq!((pool.core_pool_size(), pool.maximum_pool_size()), (1, 2));
    assert_eq!(pool.remaining_queue_capacity(), 3);
    let gate = Gate::new();
    let submit = || {
        let wait = gate.clone();
        pool.execute(move || wait.pass())
    };
    for _ in 0..5 {
        submit().unwrap();
    }
    assert_eq!(submit().unwrap_err().reason(), RejectReason::Saturated);
    assert_eq!((pool.pool_size(), pool.queued_count()), (2, 3));
    gate.open();
    pool.close();
    assert_eq!(pool.completed_task_count(), 5);
}

/// EXE-002.
#[test]
fn exe_002_a_cached_pool_grows_without_bound_and_has_no_queue() {
    let pool = executors::cached();
    assert_eq!((pool.core_pool_size(), pool.maximum_pool_size()), (0, usize::MAX));
    assert_eq!(pool.keep_alive_time(), Duration::from_secs(60));
    assert_eq!(pool.remaining_queue_capacity(), 0);
    let gate = Gate::new();
    for _ in 0..8 {
        let wait = gate.clone();
        pool.execute(move || wait.pass()).unwrap();
    }
    assert_eq!((pool.pool_size(), pool.queued_count()), (8, 0));
    gate.open();
    eventually(|| pool.completed_task_count() == 8);
    pool.close();
}

/// EXE-002: an idle thread is used again.
#[test]
fn exe_002_a_cached_pool_uses_an_idle_thread_again() {
    let pool = executors::cached();
    for _ in 0..20 {
        pool.submit(|| ()).unwrap().join().unwrap();
        // Wait until the worker is parked: it is so shortly after its task has ended.
        eventually(|| pool.parked_workers().all == pool.pool_size());
    }
    assert_eq!(pool.largest_pool_size(), 1);
    pool.close();
}

/// EXE-003.
#[test]
fn exe_003_a_single_thread_runs_tasks_one_at_a_time_in_order() {
    let single = executors::single();
    let log = Arc::new(Mutex::new(Vec::new()));
    for n in 0..100 {
        let log = Arc::clone(&log);
        single
            .execute(move || {
                let mut log = log.try_lock().expect("nobody else runs");
                log.push(n);
            })
            .unwrap();
    }
    single.close();
    assert_eq!(*log.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

/// EXE-003: a task that panics does not end it.
#[test]
fn exe_003_a_single_thread_executor_survives_its_tasks() {
    let single = executors::single();
    for _ in 0..3 {
        single.execute(|| resume_unwind(Box::new("broken"))).unwrap();
        assert_eq!(single.submit(|| 7).unwrap().join().unwrap(), 7);
    }
    single.close();
}

/// EXE-005: only the methods of an executor service. It has no setters of a pool and cannot be
/// converted into a pool.
#[test]
fn exe_005_a_single_thread_executor_does_all_that_a_service_does() {
    let single: SingleThreadExecutor = executors::single();
    let clone = single.clone();
    let service: &dyn ExecutorService = &clone;
    assert!(!service.is_shutdown() && !service.is_terminated());
    assert_eq!(service.submit(|| 7).unwrap().join().unwrap(), 7);
    assert_eq!(service.await_termination(Duration::ZERO), Ok(false));

    let (begun, gate) = (Gate::new(), Gate::new());
    let (tell, wait) = (begun.clone(), gate.clone());
    let running = service
        .submit(move || {
            tell.open();
            wait.pass();
            interrupt::is_interrupted()
        })
        .unwrap();
    begun.pass();
    let waiting = service.submit(|| ()).unwrap();
    let never_run = service.shutdown_now();
    assert_eq!(never_run.iter().map(millpond::Task::id).collect::<Vec<_>>(), [waiting.id()]);
    assert!(single.is_shutdown(), "clones are one executor");
    assert_eq!(service.execute(|| ()).unwrap_err().reason(), RejectReason::Shutdown);
    gate.open();
    assert!(running.join().unwrap(), "it was interrupted");
    assert_eq!(service.await_termination(LONG), Ok(true));
    assert!(single.is_terminated());
    service.shutdown();
    service.close();
    assert!(format!("{single:?}").contains("Terminated"));
    assert!(single.to_string().contains("Terminated"));
}

#[test]
fn executors_of_one_thread_end_in_two_steps_and_say_what_they_did() {
    let single = executors::single();
    single.submit(|| ()).unwrap().join().unwrap();
    let report = single.shutdown_gracefully(LONG, LONG);
    assert_eq!((report.outcome, report.never_run.len()), (ShutdownOutcome::Drained, 0));
    assert_eq!((single.stats().completed, single.stats().state), (1, RunState::Terminated));

    // A task that is due in an hour would otherwise keep it running for an hour.
    let timer = executors::single_scheduled();
    let far = timer.schedule(Duration::from_secs(3600), || ()).unwrap();
    assert_eq!(timer.stats().queued_count, 1);
    let report = timer.shutdown_gracefully(Duration::ZERO, LONG);
    assert_eq!(report.never_run.iter().map(millpond::Task::id).collect::<Vec<_>>(), [far.id()]);
    assert!(timer.is_terminated());
}

#[test]
fn dropping_the_last_handle_of_a_single_thread_executor_lets_its_work_finish() {
    let single = executors::single();
    let gate = Gate::new();
    let wait = gate.clone();
    single.execute(move || wait.pass()).unwrap();
    let last = single.submit(|| 7).unwrap();
    drop(single);
    gate.open();
    assert_eq!(last.join().unwrap(), 7);
}

/// Captured data of a pool, whose drop can be observed.
struct Owned(#[expect(dead_code, reason = "goes with the pool")] Arc<()>);

impl Hooks for Owned {}

fn owning() -> (ThreadPoolExecutor, Weak<()>) {
    let token = Arc::new(());
    let weak = Arc::downgrade(&token);
    (ThreadPoolExecutor::builder().hooks(Owned(token)).build().unwrap(), weak)
}

/// EXE-010: no memory of a pool is kept after a shutdown or a drop, whether or not it was used.
#[test]
fn exe_010_nothing_of_a_pool_is_kept_after_its_end() {
    for used in [true, false] {
        for how in 0..3 {
            let (pool, owned) = owning();
            let handle = used.then(|| pool.submit(|| 7).unwrap());
            match how {
                0 => pool.close(),
                1 => drop(pool.shutdown_now()),
                _ => {}
            }
            drop(pool);
            eventually(|| owned.upgrade().is_none());
            if let Some(handle) = handle {
                assert!(handle.is_done(), "used: {used}, how: {how}");
            }
        }
    }
}

/// EXE-010: handles, cancellers, interrupters and rejections do not keep the pool alive.
#[test]
fn exe_010_what_a_pool_gave_out_does_not_keep_it() {
    let (pool, owned) = owning();
    let handle = pool.submit(interrupt::current).unwrap();
    let waits = pool.submit(|| ()).unwrap();
    let canceller = waits.canceller();
    let (clone, gate) = (pool.clone(), Gate::new());
    clone.shutdown();
    let rejected = pool.submit(|| ()).unwrap_err();
    gate.open();
    drop((pool, clone));
    eventually(|| owned.upgrade().is_none());
    drop((handle.join(), waits, canceller, rejected));
}

/// EXE-011: unused pools start no threads and leave nothing behind.
#[test]
fn exe_011_making_and_dropping_unused_pools_leaks_nothing() {
    for n in 0..2000 {
        let token = Arc::new(());
        let weak = Arc::downgrade(&token);
        let pool = if n % 2 == 0 { executors::fixed(10).unwrap() } else { executors::cached() };
        pool.set_thread_factory(move |_| {
            let _ = &token;
            unreachable!("no task, no thread")
        });
        assert_eq!((pool.pool_size(), pool.state()), (0, RunState::Running));
        drop(pool);
        assert!(weak.upgrade().is_none());
    }
}

/// EXE-012.
#[test]
fn exe_012_threads_are_called_pool_n_thread_m() {
    let number = |pool: &ThreadPoolExecutor| {
        let gate = Gate::new();
        let names: Vec<_> = (0..2)
            .map(|_| {
                let wait = gate.clone();
                pool.submit(move || {
                    wait.pass();
                    thread_name()
                })
                .unwrap()
            })
            .collect();
        gate.open();
        let mut names: Vec<_> = names.into_iter().map(|name| name.join().unwrap()).collect();
        names.sort();
        let number = names[0].strip_prefix("pool-").and_then(|name| name.strip_suffix("-thread-1")).unwrap();
        let number: u64 = number.parse().unwrap();
        assert_eq!(names[1], format!("pool-{number}-thread-2"));
        assert!(pool.to_string().starts_with(&format!("pool-{number}[")));
        number
    };
    let (one, two) = (executors::fixed(2).unwrap(), executors::cached());
    assert_ne!(number(&one), number(&two));
    one.close();
    two.close();
    let single = executors::single();
    let name = single.submit(thread_name).unwrap().join().unwrap();
    assert!(name.starts_with("pool-") && name.ends_with("-thread-1"), "{name}");
    single.close();
}

#[test]
fn a_thread_name_prefix_replaces_the_default() {
    let pool = ThreadPoolExecutor::builder().thread_name_prefix("resize-").build().unwrap();
    assert_eq!(pool.submit(thread_name).unwrap().join().unwrap(), "resize-1");
    pool.close();
}
