//! Tests of cancelled timers and the memory of their tasks. Small enough for Miri.

use std::time::Duration;

use super::ScheduledThreadPoolExecutor;
use crate::sync::Arc;
use crate::time::ManualClock;

const HOUR: Duration = Duration::from_secs(3600);

fn pool() -> ScheduledThreadPoolExecutor {
    let builder = ScheduledThreadPoolExecutor::builder().remove_on_cancel_policy(true);
    builder.clock(ManualClock::new().clock()).build().expect("these options are consistent")
}

fn close(pool: &ScheduledThreadPoolExecutor) {
    pool.shutdown();
    assert_eq!(pool.await_termination(Duration::MAX), Ok(true));
}

#[test]
fn cancelled_timers_leave_the_queue_and_drop_their_captures() {
    let pool = pool();
    let captured = Arc::new(());
    let schedule = |n: u32| {
        let captured = Arc::clone(&captured);
        pool.schedule(HOUR * n, move || drop(captured)).expect("the pool runs")
    };
    let handles: Vec<_> = (1..=6).map(schedule).collect();
    handles.iter().for_each(|handle| assert!(handle.cancel(false)));
    assert_eq!((pool.queued_count(), Arc::strong_count(&captured)), (0, 1));
    drop(handles);
    close(&pool);
}

#[test]
fn timers_cancelled_by_several_threads_are_removed_once() {
    let pool = pool();
    let handles: Vec<_> =
        (1..=6).map(|n: u32| pool.schedule(HOUR * n, || ()).expect("the pool runs")).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| handles.iter().for_each(|handle| _ = handle.cancel(false)));
        }
    });
    assert_eq!((pool.queued_count(), pool.stats().cancelled), (0, 6));
    close(&pool);
}
