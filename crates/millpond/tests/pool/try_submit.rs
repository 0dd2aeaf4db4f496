//! `try_submit` accepts at once or returns the closure; and the information in a rejection.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::pools::{bounded_custom, factory, saturated, sized};
use crate::support::{Gate, LONG, assert_balanced, end, occupied, soon};
use millpond::{
    Hooks, RejectReason, Rejected, RejectedExecutionHandler, Task, TaskHandle, TaskInfo, ThreadPoolExecutor,
    TrySubmitError, WorkQueue, executors, policy,
};

/// A pool with one busy thread and a full queue of one.
fn full(policy: impl RejectedExecutionHandler) -> (ThreadPoolExecutor, TaskHandle<u32>, Gate) {
    let pool =
        sized(1, 1).work_queue(WorkQueue::array(1)).rejected_execution_handler(policy).build().unwrap();
    let gate = occupied(&pool);
    let waiting = pool.submit(|| 2).unwrap();
    (pool, waiting, gate)
}

// ---- reasons

#[test]
fn only_a_saturated_executor_is_overloaded_and_only_an_ended_one_shut_down() {
    use RejectReason::*;
    let all = [
        (Saturated, true, false),
        (Shutdown, false, true),
        (SpawnFailed, false, false),
        (Interrupted, false, false),
        (WorkerDisposed, false, true),
        (NotTimeCapable, false, false),
        (ZeroPeriod, false, false),
        (CallbackPanicked, false, false),
    ];
    for (reason, overload, shutdown) in all {
        assert_eq!((reason.is_overload(), reason.is_shutdown()), (overload, shutdown), "{reason:?}");
    }
}

/// clippy warns about errors above 128 bytes, and users put this one into their own enums.
#[test]
#[cfg(all(target_pointer_width = "64", not(millpond_random_layout)))]
fn an_error_of_a_refused_task_leaves_room_in_a_users_enum() {
    assert!(size_of::<Rejected>() <= 104, "{}", size_of::<Rejected>());
    assert!(size_of::<Result<TaskHandle<u64>, TrySubmitError<fn() -> u64>>>() <= 48);
}

#[test]
fn a_refusal_names_pool_sizes_and_cause() {
    let (pool, waiting, gate) = full(policy::Abort);
    let text = pool.submit(|| ()).unwrap_err().to_string();
    assert!(text.ends_with("is saturated (pool size = 1, maximum = 1, queued tasks = 1)"), "{text}");
    assert!(text.contains(" rejected: pool-"), "{text}");
    gate.open();
    assert_eq!(soon(waiting).unwrap(), 2);
    end(&pool);
}

// ---- try_submit

#[test]
fn an_accepted_closure_runs_and_has_a_handle() {
    let pool = sized(1, 1).work_queue(WorkQueue::array(1)).build().unwrap();
    assert_eq!(soon(pool.try_submit(|| 1).unwrap()).unwrap(), 1);
    let gate = occupied(&pool);
    let queued = pool.try_submit(|| 2).unwrap();
    gate.open();
    assert_eq!(soon(queued).unwrap(), 2);
    end(&pool);
    assert_balanced(&pool.stats());
}

/// Whatever the policy: nothing is run by the caller, dropped, evicted or waited for.
#[test]
fn a_refused_closure_comes_back_whatever_the_policy() {
    fn check(policy: impl RejectedExecutionHandler) {
        let (pool, waiting, gate) = full(policy);
        let ran = Arc::new(AtomicBool::new(false));
        let run = Arc::clone(&ran);
        let refused = pool
            .try_submit(move || {
                run.store(true, Ordering::Relaxed);
                "done"
            })
            .unwrap_err();
        assert_eq!(refused.reason(), RejectReason::Saturated);
        assert_eq!(Arc::strong_count(&ran), 2, "the closure is alive");
        assert!(!ran.load(Ordering::Relaxed));
        assert_eq!((pool.queued_count(), pool.stats().rejected), (1, 1));
        assert_eq!(refused.into_inner()(), "done");
        assert!(ran.load(Ordering::Relaxed));
        gate.open();
        assert_eq!(soon(waiting).unwrap(), 2);
        end(&pool);
        assert_balanced(&pool.stats());
    }
    check(policy::Abort);
    check(policy::CallerRuns);
    check(policy::Discard);
    check(policy::DiscardOldest);
    check(policy::Block::forever());
    check(|_: Task, _: &ThreadPoolExecutor| -> Result<(), Rejected> { unreachable!("no policy is asked") });
}

#[test]
fn a_closure_that_was_refused_can_be_tried_again() {
    let (pool, waiting, gate) = full(policy::Abort);
    let value = Box::new(5);
    let refused = pool.try_submit(move || *value).unwrap_err();
    gate.open();
    assert_eq!(soon(waiting).unwrap(), 2);
    let handle = pool.try_submit(refused.into_inner()).unwrap();
    assert_eq!(soon(handle).unwrap(), 5);
    end(&pool);
    assert_eq!(pool.stats().rejected, 1);
    assert_balanced(&pool.stats());
}

#[test]
fn every_kind_of_queue_gives_the_closure_back_when_it_is_full() {
    let queues: [fn() -> WorkQueue; 3] =
        [|| WorkQueue::array(1), || WorkQueue::linked_bounded(1), || bounded_custom(1)];
    for eager in [false, true] {
        for queue in queues {
            let builder = sized(1, 1).work_queue(queue());
            let pool = if eager { builder.eager() } else { builder }.build().unwrap();
            let gate = occupied(&pool);
            let waiting = pool.try_submit(|| 2).unwrap();
            assert_eq!(pool.try_submit(|| 3).unwrap_err().into_inner()(), 3);
            gate.open();
            assert_eq!(soon(waiting).unwrap(), 2);
            end(&pool);
            assert_balanced(&pool.stats());
        }
    }
    let (pool, gate) = saturated(policy::Block::timeout(LONG));
    assert_eq!(pool.try_submit(|| 3).unwrap_err().into_inner()(), 3);
    gate.open();
    end(&pool);
}

#[test]
fn after_a_shutdown_and_without_a_thread_the_closure_comes_back_with_the_cause() {
    let pool = executors::fixed(1).unwrap();
    pool.shutdown();
    let refused = pool.try_submit(|| 3).unwrap_err();
    assert!(refused.reason().is_shutdown() && refused.source().is_none());
    assert_eq!(refused.to_string(), "task rejected: the pool has been shut down");
    assert_eq!(refused.into_inner()(), 3);

    let pool = sized(1, 1).thread_factory(factory(|_| false)).build().unwrap();
    let refused = pool.try_submit(|| 4).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::SpawnFailed);
    assert_eq!(refused.source().unwrap().to_string(), "no thread today");
    assert_eq!(refused.to_string(), "task rejected: the pool could not start a thread: no thread today");
    assert_eq!(refused.into_inner()(), 4);
    end(&pool);
}

#[test]
fn the_rejected_hook_hears_of_every_refused_attempt() {
    #[derive(Default, Clone)]
    struct Heard(Arc<Mutex<Vec<RejectReason>>>);
    impl Hooks for Heard {
        fn rejected(&self, _: &TaskInfo, reason: RejectReason) {
            self.0.lock().unwrap().push(reason);
        }
    }
    let heard = Heard::default();
    let pool = sized(1, 1).work_queue(WorkQueue::synchronous()).hooks(heard.clone()).build().unwrap();
    let gate = occupied(&pool);
    let f = pool.try_submit(|| 1).unwrap_err().into_inner();
    let f = pool.try_submit(f).unwrap_err().into_inner();
    pool.shutdown();
    assert_eq!(pool.try_submit(f).unwrap_err().into_inner()(), 1);
    gate.open();
    end(&pool);
    assert_eq!(
        *heard.0.lock().unwrap(),
        [RejectReason::Saturated, RejectReason::Saturated, RejectReason::Shutdown]
    );
    assert_eq!(pool.stats().rejected, 3);
}

#[test]
fn an_executor_of_one_thread_has_it_too() {
    let single = executors::single();
    assert_eq!(soon(single.try_submit(|| 1).unwrap()).unwrap(), 1);
    single.close();
    assert_eq!(single.try_submit(|| 2).unwrap_err().into_inner()(), 2);
}

/// The error of a scope also contains the cause of a failed thread start.
#[test]
fn a_scoped_closure_comes_back_with_the_cause() {
    let pool = sized(1, 1).thread_factory(factory(|_| false)).build().unwrap();
    let mut word = String::from("lent");
    pool.scope(|scope| {
        let refused = scope.execute(|| word.push('!')).unwrap_err();
        assert_eq!(refused.source().unwrap().to_string(), "no thread today");
        refused.into_inner()();
    });
    assert_eq!(word, "lent!");
}
