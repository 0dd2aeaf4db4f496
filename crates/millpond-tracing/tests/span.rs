//! The span of the submitter is current in the task, whichever way the task is run.

use std::sync::mpsc;
use std::time::Duration;

use millpond::{
    ExecutorCompletionService, Next, ScheduledThreadPoolExecutor, TaskOf, ThreadPoolExecutor, WorkQueue,
    policy,
};
use millpond_tracing::CurrentSpan;
use tracing::{Span, info_span};

/// Installs a subscriber. Spans are disabled without one.
fn subscribe() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap());
}

fn pool() -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder().core_pool_size(2).propagate(CurrentSpan).build().unwrap()
}

/// Calls `submit` inside a span. It must return the span that was current in a task it submitted.
#[track_caller]
fn check(submit: impl FnOnce() -> Span) {
    subscribe();
    let request = info_span!("request");
    assert!(!request.is_disabled(), "the subscriber wants it");
    let in_task = request.in_scope(submit);
    assert_eq!(in_task, request);
}

/// A task that sends its current span.
fn sending() -> (impl FnOnce() + Send, mpsc::Receiver<Span>) {
    let (send, receive) = mpsc::channel();
    (move || send.send(Span::current()).unwrap(), receive)
}

#[test]
fn execute() {
    check(|| {
        let (task, span) = sending();
        pool().execute(task).unwrap();
        span.recv().unwrap()
    });
}

#[test]
fn submit() {
    check(|| pool().submit(Span::current).unwrap().join().unwrap());
}

#[test]
fn submit_task_with_a_name() {
    check(|| pool().submit_task(TaskOf::new(Span::current).named("export")).unwrap().join().unwrap());
}

#[test]
fn try_submit() {
    check(|| pool().try_submit(Span::current).unwrap().join().unwrap());
}

#[test]
fn invoke_all() {
    check(|| {
        let outcomes = pool().invoke_all([Span::current, Span::current, Span::current]).unwrap();
        let spans: Vec<Span> = outcomes.into_iter().map(|outcome| outcome.join().unwrap()).collect();
        assert!(spans.iter().all(|span| *span == spans[0]));
        spans[0].clone()
    });
}

#[test]
fn invoke_any() {
    check(|| pool().invoke_any([|| Ok::<_, std::io::Error>(Span::current())]).unwrap());
}

#[test]
fn completion_service() {
    check(|| {
        let service = ExecutorCompletionService::new(pool());
        service.submit(Span::current).unwrap();
        service.take().unwrap().join().unwrap()
    });
}

#[test]
fn scope() {
    check(|| {
        let mut seen = Span::none();
        pool().scope(|s| s.execute(|| seen = Span::current()).unwrap());
        seen
    });
}

#[test]
fn task_that_the_policy_runs_on_the_caller() {
    check(|| {
        let pool = ThreadPoolExecutor::builder()
            .core_pool_size(1)
            .maximum_pool_size(1)
            .work_queue(WorkQueue::synchronous())
            .rejected_execution_handler(policy::CallerRuns)
            .propagate(CurrentSpan)
            .build()
            .unwrap();
        let (release, released) = mpsc::channel::<()>();
        let busy = pool.submit(move || released.recv()).unwrap();
        let span = pool.submit(Span::current).unwrap().join().unwrap();
        drop(release);
        busy.join().unwrap().unwrap_err();
        span
    });
}

/// The task runs inside another task, which has no span, and still has its submitter's span.
#[test]
fn task_that_a_join_runs_in_place() {
    check(|| {
        let pool = ThreadPoolExecutor::builder().core_pool_size(1).propagate(CurrentSpan).build().unwrap();
        let (give, given) = mpsc::channel::<millpond::TaskHandle<Span>>();
        let outer =
            Span::none().in_scope(|| pool.submit(move || given.recv().unwrap().join().unwrap()).unwrap());
        give.send(pool.submit(Span::current).unwrap()).unwrap();
        outer.join().unwrap()
    });
}

#[test]
fn delayed_task() {
    let pool = ScheduledThreadPoolExecutor::builder().propagate(CurrentSpan).build().unwrap();
    check(|| pool.schedule(Duration::from_millis(1), Span::current).unwrap().join().unwrap());
}

#[test]
fn every_run_of_a_series() {
    let pool = ScheduledThreadPoolExecutor::builder().propagate(CurrentSpan).build().unwrap();
    check(|| {
        let (send, receive) = mpsc::channel();
        let series = pool.schedule_repeating(Duration::ZERO, move || {
            if send.send(Span::current()).is_ok() {
                Next::After(Duration::from_millis(1))
            } else {
                Next::Stop
            }
        });
        let spans: Vec<Span> = receive.iter().take(3).collect();
        drop(receive);
        series.unwrap().join().unwrap();
        assert!(spans.iter().all(|span| *span == spans[0]));
        spans[0].clone()
    });
}

#[test]
fn task_without_a_span_gets_none_although_its_thread_ran_one_with() {
    subscribe();
    let pool = ThreadPoolExecutor::builder().core_pool_size(1).propagate(CurrentSpan).build().unwrap();
    info_span!("request").in_scope(|| pool.submit(|| ())).unwrap().join().unwrap();
    assert!(pool.submit(Span::current).unwrap().join().unwrap().is_none());
}

#[test]
fn span_is_left_when_the_task_panics() {
    subscribe();
    let pool = ThreadPoolExecutor::builder().core_pool_size(1).propagate(CurrentSpan).build().unwrap();
    info_span!("request").in_scope(|| pool.submit(|| panic!("on purpose"))).unwrap().join().unwrap_err();
    assert!(pool.submit(Span::current).unwrap().join().unwrap().is_none());
}

#[test]
fn pool_without_it_carries_nothing() {
    subscribe();
    let pool = millpond::executors::fixed(1).unwrap();
    let span = info_span!("request").in_scope(|| pool.submit(Span::current)).unwrap().join().unwrap();
    assert!(span.is_none());
}
