//! Rejected tasks, counted by reason and by the policy's answer.

use std::io;
use std::thread;

use millpond::monitor::RejectedBy;
use millpond::{
    RejectReason, Rejected, RejectedExecutionHandler, ScheduledThreadPoolExecutor, Task, ThreadPoolExecutor,
    WorkQueue, policy,
};

use crate::support::{Gate, LONG, SHORT, block, eventually};

/// A pool with a busy thread and a full queue of one, until the gate is opened.
fn full(policy: impl RejectedExecutionHandler) -> (ThreadPoolExecutor, Gate) {
    let builder = ThreadPoolExecutor::builder().work_queue(WorkQueue::array(1));
    let pool = builder.rejected_execution_handler(policy).build().unwrap();
    let gate = Gate::new();
    for _ in 0..2 {
        let wait = gate.clone();
        pool.execute(move || wait.pass()).unwrap();
        eventually(|| pool.active_count() == 1);
    }
    eventually(|| pool.active_count() == 1 && pool.queued_count() == 1);
    (pool, gate)
}

/// Checks both sums and returns the counts.
#[track_caller]
fn counts(pool: &ThreadPoolExecutor) -> RejectedBy {
    let snapshot = pool.snapshot();
    let by = snapshot.rejected;
    assert_eq!(by.total(), snapshot.stats.rejected);
    assert_eq!(by.iter().map(|(_, count)| count).sum::<u64>(), by.total());
    assert_eq!(by.returned + by.caller_ran + by.discarded + by.evicted + by.other, by.total());
    assert_eq!(pool.stats().rejected, by.total());
    by
}

#[test]
fn the_answer_of_every_policy_is_counted() {
    let (pool, gate) = full(policy::Abort);
    assert!(pool.execute(|| {}).is_err() && pool.submit(|| 1).is_err() && pool.try_submit(|| 1).is_err());
    let big = [0_u64; 32];
    assert!(pool.execute(move || _ = big).is_err());
    assert_eq!(counts(&pool).returned, 4);

    pool.set_rejected_execution_handler(policy::CallerRuns);
    pool.execute(|| {}).unwrap();
    pool.execute_task(Task::new(|| {})).unwrap();
    assert_eq!(counts(&pool).caller_ran, 2);

    pool.set_rejected_execution_handler(policy::Discard);
    pool.execute(|| {}).unwrap();
    assert!(pool.submit(|| 1).unwrap().join().is_err());
    assert_eq!(counts(&pool).discarded, 2);

    pool.set_rejected_execution_handler(policy::DiscardOldest);
    pool.execute(|| {}).unwrap();
    assert_eq!(counts(&pool).evicted, 1);

    pool.set_rejected_execution_handler(|task: Task, pool: &ThreadPoolExecutor| {
        policy::CallerRuns.rejected_execution(task, pool) // is not counted twice
    });
    pool.execute(|| {}).unwrap();
    pool.set_rejected_execution_handler(|task, _: &ThreadPoolExecutor| {
        Err(Rejected::new(task, RejectReason::Saturated))
    });
    assert!(pool.execute(|| {}).is_err());
    let by = counts(&pool);
    assert_eq!((by.other, by.returned, by.caller_ran), (1, 5, 2));
    assert_eq!(by.count(RejectReason::Saturated), by.total());

    pool.set_rejected_execution_handler(policy::Block::timeout(SHORT));
    assert!(pool.execute(|| {}).is_err());
    assert_eq!((counts(&pool).blocked, counts(&pool).returned), (0, 6));
    pool.set_rejected_execution_handler(policy::Block::timeout(LONG));
    thread::scope(|s| {
        let blocked = block(s, || pool.execute(|| {}));
        gate.open();
        blocked.join().unwrap();
    });
    assert_eq!(counts(&pool).blocked, 1);

    pool.shutdown();
    assert!(pool.execute(|| {}).is_err());
    pool.set_rejected_execution_handler(policy::CallerRuns);
    pool.execute(|| unreachable!("dropped after a shutdown")).unwrap();
    let by = counts(&pool);
    assert_eq!((by.count(RejectReason::Shutdown), by.caller_ran, by.discarded), (2, 2, 3));
    pool.close();
}

#[test]
fn a_submitter_that_waited_for_room_is_counted() {
    let (pool, gate) = full(policy::Block::forever());
    thread::scope(|s| {
        let blocked = block(s, || pool.execute(|| {}));
        gate.open();
        blocked.join().unwrap();
    });
    pool.close();
    let by = counts(&pool);
    assert_eq!((by.blocked, by.total()), (1, 0));
}

#[test]
fn sums_are_exact_when_many_threads_are_refused() {
    const THREADS: u64 = 8;
    const EACH: u64 = if cfg!(miri) { 20 } else { 2000 };
    let (pool, gate) = full(policy::Abort);
    let answers: [fn(&ThreadPoolExecutor); 4] = [
        |pool| pool.set_rejected_execution_handler(policy::Abort),
        |pool| pool.set_rejected_execution_handler(policy::CallerRuns),
        |pool| pool.set_rejected_execution_handler(policy::Discard),
        |pool| pool.set_rejected_execution_handler(policy::DiscardOldest),
    ];
    thread::scope(|s| {
        for number in 0..THREADS {
            let (pool, answers) = (&pool, &answers);
            s.spawn(move || {
                for task in 0..EACH {
                    if task % 64 == 0 {
                        answers[(number + task / 64) as usize % answers.len()](pool);
                    }
                    let _ = pool.execute(|| {});
                }
            });
        }
    });
    let by = counts(&pool);
    assert!(by.total() <= THREADS * EACH, "each task is refused at most once");
    assert_eq!(by.total() - by.evicted, THREADS * EACH - accepted(&pool) + 2);
    gate.open();
    pool.close();
}

fn accepted(pool: &ThreadPoolExecutor) -> u64 {
    pool.stats().submitted
}

#[test]
fn reasons_other_than_saturation_are_counted() {
    let pool = ThreadPoolExecutor::builder()
        .thread_factory(|_| Err(io::Error::other("no more threads")))
        .build()
        .unwrap();
    assert!(pool.execute(|| {}).is_err());
    assert_eq!(counts(&pool).count(RejectReason::SpawnFailed), 1);
    let snapshot = pool.snapshot();
    assert_eq!((snapshot.threads_started, snapshot.thread_start_failures), (0, 1));

    let scheduled = ScheduledThreadPoolExecutor::new(1);
    let zero = std::time::Duration::ZERO;
    assert!(scheduled.schedule_at_fixed_rate(zero, zero, || {}).is_err());
    let snapshot = scheduled.snapshot();
    assert_eq!(snapshot.rejected.count(RejectReason::ZeroPeriod), 1);
    assert_eq!(snapshot.rejected.total(), snapshot.stats.rejected);
}

#[test]
fn started_threads_are_counted() {
    let builder = ThreadPoolExecutor::builder().core_pool_size(3).maximum_pool_size(3);
    let pool = builder.allow_core_thread_time_out(true).keep_alive_time(SHORT).build().unwrap();
    pool.prestart_all_core_threads();
    eventually(|| pool.pool_size() == 0);
    pool.submit(|| {}).unwrap().join().unwrap();
    pool.close();
    assert_eq!(pool.snapshot().threads_started, 4);
}
