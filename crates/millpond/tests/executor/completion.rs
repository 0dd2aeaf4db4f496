//! The completion service. Ids such as ECS-006 name the behaviour of the reference implementation
//! that a test checks.

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::fixed;
use crate::support::{Counter, Gate, LONG, SHORT, SMALL, block, eventually};
use millpond::{
    Executor, ExecutorCompletionService, JoinError, RejectReason, Rejected, Task, TaskState,
    ThreadPoolExecutor, WorkQueue, executors, interrupt, policy,
};

/// ECS-002: a returned handle is done, and has the id that `submit` returned.
#[test]
fn ecs_002_take_gives_a_done_handle_with_the_id_that_was_submitted() {
    let pool = fixed(1);
    let service = ExecutorCompletionService::new(pool.clone());
    let submitted = service.submit(|| 7).unwrap();
    let mut taken = service.take().unwrap();
    assert_eq!(taken.id(), submitted.id());
    assert!(taken.is_done() && submitted.is_done());
    assert_eq!(taken.try_join().unwrap().unwrap(), 7);
    pool.close();
}

/// ECS-003.
#[test]
fn ecs_003_poll_gives_nothing_until_something_has_ended() {
    let pool = fixed(1);
    let service = ExecutorCompletionService::new(pool.clone());
    assert!(service.poll().is_none());
    let gate = Gate::new();
    let wait = gate.clone();
    let submitted = service
        .submit(move || {
            wait.pass();
            7
        })
        .unwrap();
    assert!(service.poll().is_none());
    gate.open();
    let mut arrived = None;
    eventually(|| {
        arrived = service.poll();
        arrived.is_some()
    });
    let arrived = arrived.unwrap();
    assert_eq!(arrived.id(), submitted.id());
    assert_eq!(arrived.join().unwrap(), 7);
    assert!(service.poll().is_none());
    pool.close();
}

/// ECS-004.
#[test]
fn ecs_004_a_timed_poll_waits_its_time_or_until_something_has_ended() {
    let pool = fixed(1);
    let service = ExecutorCompletionService::new(pool.clone());
    assert!(service.poll_timeout(Duration::ZERO).unwrap().is_none());
    let gate = Gate::new();
    let wait = gate.clone();
    service.submit(move || wait.pass()).unwrap();
    let begin = Instant::now();
    assert!(service.poll_timeout(SMALL).unwrap().is_none());
    assert!(begin.elapsed() >= SMALL);
    thread::scope(|s| {
        let poller = block(s, || service.poll_timeout(Duration::MAX).unwrap());
        assert!(!poller.is_finished());
        gate.open();
        assert!(poller.join().unwrap().is_done());
    });
    assert!(service.poll_timeout(SHORT).unwrap().is_none());
    pool.close();
}

/// ECS-005.
#[test]
fn ecs_005_good_and_bad_ones_arrive_each_once() {
    let pool = fixed(2);
    let service = ExecutorCompletionService::new(pool.clone());
    let mut submitted = HashSet::new();
    for _ in 0..2 {
        submitted.insert(service.submit(|| 1).unwrap().id());
        submitted.insert(service.submit(|| resume_unwind(Box::new("broken"))).unwrap().id());
        submitted.insert(service.submit(|| resume_unwind(Box::new(42))).unwrap().id());
    }
    let mut good = 0;
    for _ in 0..6 {
        let taken = service.take().unwrap();
        assert!(submitted.remove(&taken.id()));
        match taken.join() {
            Ok(value) => good += value,
            Err(JoinError::Panicked(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(good, 2);
    assert!(service.poll().is_none());
    pool.close();
}

/// ECS-006.
#[test]
fn ecs_006_handles_arrive_in_the_order_in_which_their_tasks_end() {
    let pool = fixed(3);
    let service = ExecutorCompletionService::new(pool.clone());
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    for (n, gate) in gates.iter().cloned().enumerate() {
        service
            .submit(move || {
                gate.pass();
                n
            })
            .unwrap();
    }
    for n in [2, 0, 1] {
        gates[n].open();
        assert_eq!(service.take().unwrap().join().unwrap(), n);
    }
    pool.close();
}

/// ECS-011.
#[test]
fn ecs_011_submit_after_shutdown_is_rejected_and_nothing_arrives() {
    let pool = fixed(1);
    let service = ExecutorCompletionService::new(pool.clone());
    pool.shutdown();
    let rejected = service.submit(|| 7).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::Shutdown);
    assert!(service.poll_timeout(SHORT).unwrap().is_none());
    rejected.into_task().run();
    assert!(service.poll().is_none(), "not even if it is then run by hand");
    pool.close();
}

/// ECS-012. `interrupt/flag.rs` has the flag set before the call.
#[test]
fn ecs_012_take_and_timed_poll_are_interruptible_and_lose_nothing() {
    let pool = fixed(1);
    let service = ExecutorCompletionService::new(pool.clone());
    thread::scope(|s| {
        let taker = block(s, || (service.take().is_err(), interrupt::is_interrupted()));
        taker.interrupt();
        assert_eq!(taker.join(), (true, false));
        let poller = block(s, || (service.poll_timeout(LONG).is_err(), interrupt::is_interrupted()));
        poller.interrupt();
        assert_eq!(poller.join(), (true, false));
    });
    service.submit(|| 7).unwrap();
    assert_eq!(service.take().unwrap().join().unwrap(), 7);
    pool.close();
}

/// ECS-013: all values.
#[test]
fn ecs_013_all_values_can_be_collected() {
    let pool = executors::cached();
    let service = ExecutorCompletionService::new(pool.clone());
    for n in 0..10_u32 {
        service.submit(move || n * n).unwrap();
    }
    let sum: u32 = (0..10).map(|_| service.take().unwrap().join().unwrap()).sum();
    assert_eq!(sum, 285);
    pool.close();
}

/// ECS-013: the first good value is taken, and the other tasks are cancelled.
#[test]
fn ecs_013_the_first_good_value_can_be_had_and_the_rest_cancelled() {
    let pool = executors::cached();
    let service = ExecutorCompletionService::new(pool.clone());
    let mut cancellers = vec![service.submit(|| None).unwrap(), service.submit(|| Some(7)).unwrap()];
    for _ in 0..3 {
        let endless = service.submit(|| {
            let _ = interrupt::sleep(Duration::MAX);
            None
        });
        cancellers.push(endless.unwrap());
    }
    let first_good = loop {
        if let Some(value) = service.take().unwrap().join().unwrap() {
            break value;
        }
    };
    assert_eq!(first_good, 7);
    for canceller in &cancellers {
        canceller.cancel(true);
    }
    assert!(cancellers.iter().all(|canceller| canceller.is_done()));
    pool.close(); // would not return if a thread stayed parked
}

/// ECS-014.
#[test]
fn ecs_014_of_twenty_thousand_tasks_none_is_missing() {
    const TASKS: usize = if cfg!(miri) { 50 } else { 20_000 };
    let pool = fixed(10);
    let service = ExecutorCompletionService::new(pool.clone());
    thread::scope(|s| {
        let producers: Vec<_> = (0..2)
            .map(|half| {
                let service = &service;
                s.spawn(move || {
                    for n in (half..TASKS).step_by(2) {
                        service.submit(move || n).unwrap();
                    }
                })
            })
            .collect();
        let mut seen = vec![false; TASKS];
        for _ in 0..TASKS {
            let n = service.take().unwrap().join().unwrap();
            assert!(!std::mem::replace(&mut seen[n], true), "{n} came twice");
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    });
    assert!(service.poll().is_none());
    pool.close();
}

/// Every accepted task arrives, even one that never ran.
#[test]
fn cancelled_and_abandoned_tasks_arrive_too() {
    let pool = fixed(1);
    let service = ExecutorCompletionService::new(pool.clone());
    let (begun, gate) = (Gate::new(), Gate::new());
    let (tell, wait) = (begun.clone(), gate.clone());
    let running = service
        .submit(move || {
            tell.open();
            wait.pass();
        })
        .unwrap();
    begun.pass();
    let waiting = service.submit(|| ()).unwrap();
    let removed = service.submit(|| ()).unwrap();
    let drained = service.submit(|| ()).unwrap();

    assert!(waiting.cancel(false));
    assert_eq!(service.take().unwrap().id(), waiting.id());
    assert!(running.cancel(false));
    let arrived = service.take().unwrap();
    assert_eq!((arrived.id(), arrived.state()), (running.id(), TaskState::Cancelled));
    assert!(pool.remove(removed.id()));
    let arrived = service.take().unwrap();
    assert_eq!((arrived.id(), arrived.state()), (removed.id(), TaskState::Abandoned));
    drop(pool.shutdown_now());
    let arrived = service.take().unwrap();
    assert_eq!((arrived.id(), arrived.state()), (drained.id(), TaskState::Abandoned));
    gate.open();
    pool.close();
    assert!(service.poll().is_none());
}

#[test]
fn a_task_that_a_policy_discards_or_runs_arrives_too() {
    let pool = ThreadPoolExecutor::builder()
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy::Discard)
        .build()
        .unwrap();
    let gate = Gate::new();
    let wait = gate.clone();
    pool.execute(move || wait.pass()).unwrap();
    let service = ExecutorCompletionService::new(pool.clone());
    service.submit(|| 7).unwrap();
    assert!(matches!(service.take().unwrap().join(), Err(JoinError::Abandoned)));
    pool.set_rejected_execution_handler(policy::CallerRuns);
    service.submit(|| 7).unwrap();
    assert_eq!(service.poll().unwrap().join().unwrap(), 7);
    gate.open();
    pool.close();
}

#[test]
fn any_executor_will_do() {
    struct SameThread;
    impl Executor for SameThread {
        fn execute_task(&self, task: Task) -> Result<(), Rejected> {
            task.run();
            Ok(())
        }
    }
    let service = ExecutorCompletionService::new(SameThread);
    service.submit(|| 7).unwrap();
    assert_eq!(service.poll().unwrap().join().unwrap(), 7);
    let shared: Arc<dyn Executor> = Arc::new(SameThread);
    let service = ExecutorCompletionService::new(shared);
    service.submit(|| 8).unwrap();
    assert_eq!(service.take().unwrap().join().unwrap(), 8);
}

#[test]
fn several_may_take_and_each_handle_goes_to_one() {
    const TASKS: usize = if cfg!(miri) { 20 } else { 600 };
    let pool = fixed(2);
    let service = ExecutorCompletionService::new(pool.clone());
    let mut all: Vec<usize> = thread::scope(|s| {
        let takers: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    (0..TASKS / 3).map(|_| service.take().unwrap().join().unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        (0..TASKS / 3 * 3).for_each(|n| drop(service.submit(move || n).unwrap()));
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert_eq!(all, (0..TASKS / 3 * 3).collect::<Vec<_>>());
    pool.close();
}

#[test]
fn values_that_nobody_takes_are_dropped_with_the_service() {
    let pool = fixed(1);
    let dropped = Counter::new();
    let service = ExecutorCompletionService::new(pool.clone());
    let (before, after) = (dropped.on_drop(), dropped.on_drop());
    let first = service.submit(move || before).unwrap();
    eventually(|| first.is_done());
    let gate = Gate::new();
    let wait = gate.clone();
    service
        .submit(move || {
            wait.pass();
            after
        })
        .unwrap();
    assert_eq!(dropped.get(), 0);
    drop(service);
    gate.open();
    pool.close();
    assert_eq!(dropped.get(), 2, "though a canceller is there");
    drop(first);
}
