//! The latest panics are kept, whatever happens to the handles.

use std::panic::resume_unwind;
use std::thread;

use millpond::monitor::PanicRecord;
use millpond::{ScheduledThreadPoolExecutor, Task, TaskOf, ThreadPoolExecutor, WorkQueue, policy};

use crate::support::{Gate, LONG, eventually};

fn messages(pool: &ThreadPoolExecutor) -> Vec<String> {
    pool.snapshot().last_panics.iter().map(|record| record.message.to_string()).collect()
}

/// Panics without calling the panic hook.
fn fail(message: &str) {
    resume_unwind(Box::new(message.to_owned()));
}

#[test]
fn a_panic_is_kept_whether_the_handle_is_dropped_before_during_or_after() {
    let pool = ThreadPoolExecutor::builder().name("panics").build().unwrap();
    let hold = |message: &'static str| {
        let (begun, end) = (Gate::new(), Gate::new());
        let (begin, wait) = (begun.clone(), end.clone());
        let handle = pool.submit(move || {
            begin.open();
            wait.pass();
            fail(message);
        });
        (handle.unwrap(), begun, end)
    };
    let (blocker, begun, end) = hold("first");
    begun.pass();
    drop(pool.submit(|| fail("dropped before")).unwrap());
    end.open();
    assert!(blocker.join().is_err());

    let (handle, begun, end) = hold("dropped during");
    begun.pass();
    drop(handle);
    end.open();

    let after = pool.submit(|| fail("dropped after")).unwrap();
    pool.execute(|| fail("no handle")).unwrap();
    pool.close();
    drop(after);
    assert_eq!(messages(&pool), ["first", "dropped before", "dropped during", "dropped after", "no handle"]);
    let stats = pool.stats();
    assert_eq!((stats.panicked, stats.submitted), (5, 5));
}

#[test]
fn a_record_tells_time_thread_task_and_message() {
    let pool = ThreadPoolExecutor::builder().name("told").build().unwrap();
    let before = std::time::SystemTime::now();
    let task = Task::new(|| fail("it broke")).named("parse");
    let id = task.id();
    pool.execute_task(task).unwrap();
    pool.execute_task(Task::new(|| resume_unwind(Box::new(17)))).unwrap();
    pool.execute(|| fail(&"ü".repeat(300))).unwrap();
    pool.close();
    let records = pool.snapshot().last_panics;
    let [first, second, third]: &[PanicRecord; 3] = records[..].try_into().unwrap();
    assert_eq!((first.task, first.task_name.as_deref()), (id, Some("parse")));
    assert_eq!((first.thread.as_deref(), &*first.message), (Some("told-1"), "it broke"));
    assert!(first.at >= before && second.task_name.is_none());
    assert_eq!(&*second.message, "a payload that is not a string");
    assert_eq!(third.message.chars().count(), 256);
}

#[test]
fn the_last_eight_are_kept() {
    let pool = ThreadPoolExecutor::builder().build().unwrap();
    for number in 0..20 {
        drop(pool.submit(move || fail(&number.to_string())).unwrap());
    }
    pool.close();
    assert_eq!(messages(&pool), (12..20).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn panics_of_series_scopes_and_callers_are_kept() {
    let scheduled = ScheduledThreadPoolExecutor::new(1);
    let zero = std::time::Duration::ZERO;
    let series = scheduled.schedule_with_fixed_delay(zero, zero + crate::support::SHORT, || fail("a run"));
    assert!(series.unwrap().join().is_err());
    assert_eq!(&*scheduled.snapshot().last_panics[0].message, "a run");

    let builder = ThreadPoolExecutor::builder().work_queue(WorkQueue::array(1));
    let pool = builder.rejected_execution_handler(policy::CallerRuns).build().unwrap();
    let scope = thread::scope(|s| {
        s.spawn(|| pool.scope(|scope| scope.execute(|| fail("in a scope")).unwrap())).join()
    });
    assert!(scope.is_err());
    let gate = Gate::new();
    let (first, second) = (gate.clone(), gate.clone());
    assert!(pool.wait_idle(LONG).unwrap());
    pool.execute(move || first.pass()).unwrap();
    eventually(|| pool.queued_count() == 0); // the worker has taken it, so the second one fits
    pool.execute(move || second.pass()).unwrap();
    let caller = |named: bool| {
        thread::scope(|s| {
            let pool = &pool;
            let submit = move || match named {
                true => pool.execute_task(Task::new(|| fail("on the caller")).named("with a name")),
                false => pool.execute(|| fail("on the caller")),
            };
            s.spawn(submit).join()
        })
    };
    assert!(caller(false).is_err() && caller(true).is_err(), "the panic unwinds to the submitter");
    let (task, handle) = TaskOf::new(|| fail("kept by a handle")).into_parts();
    pool.execute_task(task).unwrap();
    assert!(handle.join().is_err());
    gate.open();
    pool.close();
    let expected = ["in a scope", "on the caller", "on the caller", "kept by a handle"];
    assert_eq!(messages(&pool), expected);
    assert_eq!(pool.snapshot().last_panics[2].task_name.as_deref(), Some("with a name"));
}
