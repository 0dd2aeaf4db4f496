//! The public API, on every engine.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{Folder, eventually};
use millpond::{executors, interrupt};
use millpond_cluster::{
    Backoff, CancelAnswer, Cluster, DeadReason, Every, OnFull, Priority, RemoteError, RemoteState, State,
    SubmitReason, TaskError, TaskFilter, TaskId, TaskType, Unique,
};

const SQUARE: TaskType<u64, u64> = TaskType::new("square");
const LONG: TaskType<(), ()> = TaskType::new("long");

fn square(n: u64) -> Result<u64, TaskError> {
    n.checked_mul(n).ok_or_else(|| TaskError::permanent(format!("{n} is too large")))
}

/// Runs a test on each engine.
macro_rules! on_engines {
    ($($(#[$meta:meta])* fn $name:ident($open:ident) $body:block)*) => {
        mod memory {
            use super::*;
            $($(#[$meta])* #[test] fn $name() {
                let $open = |configure: fn(millpond_cluster::ClusterBuilder) -> millpond_cluster::ClusterBuilder| {
                    configure(Cluster::builder()).open("memory:").unwrap()
                };
                $body
            })*
        }
        mod sqlite {
            use super::*;
            $($(#[$meta])* #[test] fn $name() {
                let folder = Folder::new(concat!("cluster-", stringify!($name)));
                let $open = |configure: fn(millpond_cluster::ClusterBuilder) -> millpond_cluster::ClusterBuilder| {
                    configure(Cluster::builder()).open(&folder.sqlite()).unwrap()
                };
                $body
            })*
        }
    };
}

on_engines! {
    fn submit_and_join_returns_the_result(open) {
        let cluster = open(|builder| builder);
        let worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        assert_eq!(cluster.submit(&SQUARE, &12).unwrap().join().unwrap(), 144);
        let handles = cluster.submit_all(&SQUARE, 0..1200).unwrap();
        for (n, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), (n * n) as u64);
        }
        let report = worker.drain(Duration::from_secs(10));
        assert_eq!((report.finished, report.given_back, report.refused), (1201, 0, 0));
        let stats = cluster.stats().unwrap();
        assert_eq!((stats.submitted, stats.succeeded, stats.running), (1201, 1201, 0));
    }

    fn many_threads_submit_and_join(open) {
        let cluster = open(|builder| builder);
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..16u64 {
                let cluster = &cluster;
                scope.spawn(move || {
                    for n in thread * 100..thread * 100 + 50 {
                        assert_eq!(cluster.submit(&SQUARE, &n).unwrap().join().unwrap(), n * n);
                    }
                });
            }
        });
    }

    fn handle_can_be_awaited(open) {
        let cluster = open(|builder| builder);
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        let handle = cluster.submit(&SQUARE, &7).unwrap();
        assert_eq!(block_on(handle).unwrap(), 49);
    }

    fn join_timeout_and_state_before_a_worker_comes(open) {
        let cluster = open(|builder| builder);
        let mut handle = cluster.submit(&SQUARE, &3).unwrap();
        assert!(handle.join_timeout(Duration::from_millis(20)).is_none());
        assert!(handle.try_join().is_none());
        assert_eq!(handle.state(), RemoteState::Known(State::Ready));
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        assert_eq!(handle.join_timeout(Duration::from_secs(60)).unwrap().unwrap(), 9);
        assert!(matches!(handle.try_join(), Some(Err(RemoteError::Taken))));
    }

    fn submitting_twice_under_one_id_is_submitting_once(open) {
        let cluster = open(|builder| builder);
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let id = TaskId::from_name("order:1");
        let first = cluster.submit_task(SQUARE.task(&4).id(id)).unwrap();
        let second = cluster.submit_task(SQUARE.task(&5).id(id)).unwrap();
        let _worker = cluster.worker().handle(&SQUARE, move |_, n| {
            counted.fetch_add(1, Ordering::SeqCst);
            square(n)
        }).start().unwrap();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (16, 16));
        // Also after the task has ended.
        assert_eq!(cluster.submit_task(SQUARE.task(&6).id(id)).unwrap().join().unwrap(), 16);
        assert_eq!(cluster.find(&SQUARE, id).unwrap().join().unwrap(), 16);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(matches!(cluster.find(&SQUARE, TaskId::fresh()), Err(RemoteError::ResultGone(_))));
    }

    fn unique_key_returns_the_task_that_is_there(open) {
        let cluster = open(|builder| builder);
        let first = cluster.submit_task(SQUARE.task(&4).unique("thumb", Unique::UntilDone)).unwrap();
        let second = cluster.submit_task(SQUARE.task(&5).unique("thumb", Unique::UntilDone)).unwrap();
        assert_eq!(first.id(), second.id());
        let other = cluster.submit_task(SQUARE.task(&5).unique("other", Unique::UntilDone)).unwrap();
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        assert_eq!((first.join().unwrap(), second.join().unwrap(), other.join().unwrap()), (16, 16, 25));
        let third = cluster.submit_task(SQUARE.task(&6).unique("thumb", Unique::UntilDone)).unwrap();
        assert_eq!(third.join().unwrap(), 36);
    }

    fn failures_are_retried_and_then_dead_and_retried_by_hand(open) {
        let cluster = open(|builder| builder);
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let _worker = cluster.worker().handle(&SQUARE, move |context, n: u64| {
            let run = counted.fetch_add(1, Ordering::SeqCst) + 1;
            assert_eq!(context.attempt(), if run > 3 { run - 3 } else { run });
            if run <= 3 { Err(TaskError::new(format!("no luck in run {run}"))) } else { square(n) }
        }).start().unwrap();
        let quick = Backoff::constant(Duration::from_millis(5));
        let handle = cluster.submit_task(SQUARE.task(&9).max_attempts(3).retry(quick)).unwrap();
        let id = handle.id();
        let Err(RemoteError::Dead(letter)) = handle.join() else { panic!("it has a result") };
        assert_eq!((letter.reason, letter.attempts), (DeadReason::Attempts, 3));
        assert_eq!(letter.error.as_deref(), Some("no luck in run 3"));
        let details = cluster.admin().task(id).unwrap().unwrap();
        assert_eq!(details.history.len(), 3);
        assert_eq!(details.history[0].error.as_deref(), Some("no luck in run 1"));

        cluster.close().unwrap();
        let refused = cluster.dead().retry(id).unwrap_err().to_string();
        assert_eq!(refused, format!("dead letter {id} cannot be retried: its queue is closed"));
        cluster.resume().unwrap();
        assert_eq!(cluster.dead().list(0).unwrap().tasks.len(), 1);
        let again = cluster.dead().retry(id).unwrap().unwrap();
        assert_ne!(again, id);
        assert_eq!(cluster.find(&SQUARE, again).unwrap().join().unwrap(), 81);
        assert_eq!(cluster.admin().task(again).unwrap().unwrap().task.retry_of, Some(id));
        assert_eq!(cluster.dead().purge(Duration::ZERO).unwrap(), 1);
        assert_eq!(cluster.dead().list(0).unwrap().tasks.len(), 0);
    }

    fn permanent_failure_panic_and_bad_arguments(open) {
        let cluster = open(|builder| builder);
        const TEXT: TaskType<String, u64> = TaskType::new("square");
        let _worker = cluster.worker().handle(&SQUARE, |_, n| {
            assert_ne!(n, 13, "an unlucky number");
            square(n)
        }).start().unwrap();
        let dead = |handle: millpond_cluster::RemoteHandle<u64>| match handle.join() {
            Err(RemoteError::Dead(letter)) => (letter.reason, letter.attempts, letter.error.unwrap_or_default()),
            other => panic!("{other:?}"),
        };
        let (reason, attempts, error) = dead(cluster.submit(&SQUARE, &u64::MAX).unwrap());
        assert_eq!((reason, attempts, error), (DeadReason::Permanent, 1, format!("{} is too large", u64::MAX)));
        let (reason, _, error) = dead(cluster.submit_task(SQUARE.task(&13).max_attempts(1)).unwrap());
        assert!(reason == DeadReason::Attempts && error.contains("an unlucky number"), "{error}");
        let (reason, _, error) = dead(cluster.submit(&TEXT, &"x".to_owned()).unwrap());
        assert!(reason == DeadReason::Decode && error.contains("invalid type"), "{error}");
    }

    fn cancel_before_and_while_it_runs(open) {
        let cluster = open(|builder| builder);
        let waiting = cluster.submit(&LONG, &()).unwrap();
        assert_eq!(waiting.cancel().unwrap(), CancelAnswer::Cancelled);
        assert_eq!(waiting.cancel().unwrap(), CancelAnswer::AlreadyDone);
        assert!(matches!(waiting.join(), Err(RemoteError::Cancelled)));

        let worker = cluster.worker().handle(&LONG, |_, ()| Ok(interrupt::sleep(Duration::from_secs(3600))?)).start().unwrap();
        let running = cluster.submit(&LONG, &()).unwrap();
        eventually("it runs", || running.state() == RemoteState::Known(State::Running) && worker.stats().held == 1);
        assert_eq!(running.cancel().unwrap(), CancelAnswer::Requested);
        assert!(matches!(running.join(), Err(RemoteError::Cancelled)));
        assert_eq!(cluster.stats().unwrap().cancelled, 2);
    }

    fn attempt_timeout_interrupts(open) {
        let cluster = open(|builder| builder);
        let _worker = cluster.worker().handle(&LONG, |_, ()| loop {
            interrupt::check()?;
            std::thread::sleep(Duration::from_millis(1));
        }).start().unwrap();
        let task = LONG.task(&()).attempt_timeout(Duration::from_millis(30)).max_attempts(1);
        let Err(RemoteError::Dead(letter)) = cluster.submit_task(task).unwrap().join() else { panic!("it has a result") };
        assert_eq!(letter.reason, DeadReason::Attempts);
        assert!(letter.error.unwrap().starts_with("timed out"));
        let task = LONG.task(&()).deadline(Duration::from_millis(50));
        let Err(RemoteError::Dead(letter)) = cluster.submit_task(task).unwrap().join() else { panic!("it has a result") };
        assert_eq!(letter.reason, DeadReason::Deadline);
    }

    fn delay_and_priority_order_the_starts(open) {
        let cluster = open(|builder| builder);
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let tasks = [
            SQUARE.task(&1).priority(Priority::Low),
            SQUARE.task(&2),
            SQUARE.task(&3).priority(Priority::High),
            SQUARE.task(&4).delay(Duration::from_millis(300)).priority(Priority::High),
        ];
        let handles = cluster.submit_tasks(tasks).unwrap();
        assert_eq!(cluster.stats().unwrap().delayed, 1);
        let seen = Arc::clone(&order);
        let _worker = cluster.worker().pool(executors::fixed(1).unwrap()).handle(&SQUARE, move |_, n| {
            seen.lock().unwrap().push(n);
            square(n)
        }).start().unwrap();
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [3, 2, 1, 4]);
    }

    fn full_queue_aborts_blocks_or_runs_in_the_caller(open) {
        let cluster = open(|builder| builder.capacity(2));
        let _kept = cluster.submit_all(&SQUARE, [1, 2]).unwrap();
        let error = cluster.submit(&SQUARE, &3).unwrap_err();
        assert!(matches!(error.reason(), SubmitReason::Saturated { waiting: 2, capacity: 2 }));
        let task = error.into_task();
        let (accepted, refused) = cluster.submit_all(&SQUARE, [4, 5]).unwrap_err();
        assert_eq!((accepted.len(), refused.into_task().len()), (0, 2));

        // The returned task keeps its id and is accepted when there is room.
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        let id = task.task_id();
        let mut task = Some(*task);
        eventually("there is room", || match cluster.submit_task(task.take().unwrap()) {
            Ok(handle) => handle.id() == id && handle.join().unwrap() == 9,
            Err(error) => { task = Some(*error.into_task()); false }
        });
    }

    fn full_queue_blocks_until_there_is_room(open) {
        let cluster = open(|builder| builder.capacity(1).on_full(OnFull::Block(None)));
        let _first = cluster.submit(&SQUARE, &1).unwrap();
        let blocked = {
            let cluster = cluster.clone();
            std::thread::spawn(move || cluster.submit(&SQUARE, &6).unwrap().join().unwrap())
        };
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        assert_eq!(blocked.join().unwrap(), 36);
    }

    fn full_queue_runs_in_the_caller(open) {
        let cluster = open(|builder| builder.capacity(1).on_full(OnFull::CallerRuns));
        let pool = executors::fixed(1).unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        pool.execute(move || released.recv().unwrap_or_default()).unwrap();
        let names = TaskType::<(), String>::new("thread");
        let _worker = cluster.worker().pool(pool).handle(&names, |_, ()| {
            Ok(std::thread::current().name().unwrap_or_default().to_owned())
        }).start().unwrap();
        let held = cluster.submit(&names, &()).unwrap();
        eventually("the first is claimed", || held.state() == RemoteState::Known(State::Running));
        let _waits = cluster.submit(&names, &()).unwrap();
        let name = cluster.submit(&names, &()).unwrap().join().unwrap();
        assert_eq!(Some(name.as_str()), std::thread::current().name());
        drop(release);
        held.join().unwrap();
    }

    fn pause_and_close(open) {
        let cluster = open(|builder| builder);
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        cluster.pause().unwrap();
        let mut handle = cluster.submit(&SQUARE, &2).unwrap();
        assert!(handle.join_timeout(Duration::from_millis(50)).is_none());
        assert_eq!(handle.state(), RemoteState::Known(State::Ready));
        cluster.resume().unwrap();
        assert_eq!(handle.join().unwrap(), 4);
        cluster.close().unwrap();
        let error = cluster.submit(&SQUARE, &2).unwrap_err();
        assert!(matches!(error.reason(), SubmitReason::Shutdown));
        assert!(cluster.await_drained(Duration::from_secs(60)).unwrap());
    }

    fn unknown_name_is_given_back_and_served_under_an_alias(open) {
        let cluster = open(|builder| builder);
        let old = TaskType::<u64, u64>::new("old-square");
        let handle = cluster.submit(&old, &5).unwrap();
        let worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        eventually("it is given back", || worker.stats().no_handler == 1);
        eventually("it waits", || handle.state() == RemoteState::Known(State::Delayed));
        assert_eq!(cluster.admin().task(handle.id()).unwrap().unwrap().task.failures, 0);
        drop(worker);
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).also("old-square").start().unwrap();
        assert_eq!(handle.join().unwrap(), 25);
    }

    fn drain_finishes_what_runs_and_gives_back_the_rest(open) {
        let cluster = open(|builder| builder);
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let gone = std::sync::Mutex::new(gone);
        let runs = Arc::new(AtomicU32::new(0));
        let began = Arc::clone(&runs);
        let worker = cluster.worker().pool(executors::fixed(1).unwrap()).handle(&LONG, move |_, ()| {
            began.fetch_add(1, Ordering::SeqCst);
            let _ = gone.lock().unwrap().recv();
            Ok(())
        }).start().unwrap();
        let running = cluster.submit(&LONG, &()).unwrap();
        eventually("it runs", || runs.load(Ordering::SeqCst) == 1);
        let waiting = cluster.submit(&LONG, &()).unwrap();
        eventually("it is asked to drain", || cluster.admin().drain_worker(worker.id()).unwrap());
        eventually("it drains", || worker.is_draining());
        drop(go);
        let report = worker.drain(Duration::from_secs(60));
        assert_eq!((report.finished, report.still_running), (1, 0));
        running.join().unwrap();
        assert_eq!(waiting.state(), RemoteState::Known(State::Ready));
    }

    fn drained_worker_holds_nothing_that_it_claimed_meanwhile(open) {
        let cluster = open(|builder| builder);
        let handles = std::thread::scope(|scope| {
            let submit = scope.spawn(|| (0..400).map(|n| cluster.submit(&SQUARE, &n).unwrap()).collect::<Vec<_>>());
            for _ in 0..40 {
                let worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
                worker.drain(Duration::from_secs(60));
                // No other worker claims tasks, so a task that is running now would keep its lease
                // until it expires.
                assert_eq!(cluster.stats().unwrap().running, 0);
            }
            submit.join().unwrap()
        });
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        for (n, handle) in (0..).zip(handles) {
            assert_eq!(handle.join().unwrap(), n * n);
        }
        let stats = cluster.stats().unwrap();
        assert_eq!((stats.submitted, stats.succeeded, stats.crashed), (400, 400, 0));
    }

    fn drain_interrupts_at_the_end_of_its_grace(open) {
        let cluster = open(|builder| builder);
        let worker = cluster.worker().handle(&LONG, |_, ()| Ok(interrupt::sleep(Duration::from_secs(3600))?)).start().unwrap();
        let handle = cluster.submit(&LONG, &()).unwrap();
        eventually("it runs", || worker.stats().held == 1 && handle.state() == RemoteState::Known(State::Running));
        let report = worker.drain(Duration::from_millis(10));
        assert_eq!((report.finished, report.given_back, report.still_running), (0, 1, 0));
        let task = cluster.admin().task(handle.id()).unwrap().unwrap();
        assert_eq!((task.task.state, task.task.failures, task.task.attempt), (State::Ready, 0, 1));
        assert_eq!(cluster.admin().workers().unwrap().len(), 0);
    }

    fn administrator_drains_a_worker(open) {
        let cluster = open(|builder| builder);
        let worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        eventually("it announces itself", || cluster.admin().workers().unwrap().iter().any(|row| row.worker == *worker.id()));
        assert!(cluster.admin().drain_worker(worker.id()).unwrap());
        eventually("it drains", || worker.is_draining());
    }

    fn nested_join_runs_in_place_on_a_pool_of_one(open) {
        let cluster = open(|builder| builder);
        let outer = TaskType::<u64, u64>::new("outer");
        let inner = cluster.clone();
        let _worker = cluster.worker().pool(executors::fixed(1).unwrap())
            .handle(&SQUARE, |_, n| square(n))
            .handle(&outer, move |_, n| Ok(inner.submit(&SQUARE, &n)?.join()? + 1))
            .start().unwrap();
        assert_eq!(cluster.submit(&outer, &6).unwrap().join().unwrap(), 37);
    }

    fn progress_reaches_the_handle(open) {
        let cluster = open(|builder| builder);
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let gone = std::sync::Mutex::new(gone);
        let _worker = cluster.worker().handle(&LONG, move |context, ()| {
            context.progress(&("rows", 17));
            let _ = gone.lock().unwrap().recv();
            Ok(())
        }).start().unwrap();
        let handle = cluster.submit(&LONG, &()).unwrap();
        eventually("there is progress", || handle.progress::<(String, u32)>().unwrap() == Some(("rows".to_owned(), 17)));
        drop(go);
        handle.join().unwrap();
    }

    fn periodic_task_runs_again_and_again(open) {
        let cluster = open(|builder| builder);
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        assert!(cluster.periodic("beat", Every::rate(Duration::from_millis(50)), &LONG, &()).unwrap());
        assert!(!cluster.periodic("beat", Every::rate(Duration::from_millis(50)), &LONG, &()).unwrap());
        let _worker = cluster.worker().handle(&LONG, move |_, ()| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }).start().unwrap();
        eventually("it ran three times", || runs.load(Ordering::SeqCst) >= 3);
        assert_eq!(cluster.admin().periodics().unwrap()[0].name, "beat");
        assert!(cluster.remove_periodic("beat").unwrap());
        assert!(cluster.admin().periodics().unwrap().is_empty());
    }

    fn administration_sees_tasks_and_finds_no_fault(open) {
        let cluster = open(|builder| builder);
        let media = cluster.queue("media");
        let _handles = cluster.submit_all(&SQUARE, 0..5).unwrap();
        let _other = media.submit(&LONG, &()).unwrap();
        let admin = cluster.admin();
        let names: Vec<String> = admin.queues().unwrap().into_iter().map(|queue| queue.queue).collect();
        assert_eq!(names, ["default", "media"]);
        let page = admin.tasks(&TaskFilter { limit: 4, queue: Some("default".into()), ..TaskFilter::default() }).unwrap();
        assert_eq!(page.tasks.len(), 4);
        let rest = admin.tasks(&TaskFilter { after: page.next.unwrap(), ..TaskFilter::default() }).unwrap();
        assert_eq!((rest.tasks.len(), rest.next), (2, None));
        let long = admin.tasks(&TaskFilter { name: Some("long".into()), state: Some(State::Ready), ..TaskFilter::default() });
        assert_eq!(long.unwrap().tasks[0].queue, "media");
        let none = TaskFilter { older_than: Some(Duration::from_secs(3600)), ..TaskFilter::default() };
        assert!(admin.tasks(&none).unwrap().tasks.is_empty());
        let faults: Vec<_> = admin.doctor().unwrap().into_iter().filter(|finding| finding.severity == millpond_cluster::Severity::Error).collect();
        assert!(faults.is_empty(), "{faults:?}");
        admin.compact().unwrap();
    }

    fn too_large_arguments_are_refused_with_their_size(open) {
        let cluster = open(|builder| builder);
        const TEXT: TaskType<String, ()> = TaskType::new("text");
        let error = cluster.submit(&TEXT, &"x".repeat(300_000)).unwrap_err();
        assert_eq!(error.to_string(), "the arguments take 300002 bytes but the limit is 262144: store them elsewhere");
    }

    fn interrupted_join_leaves_the_task(open) {
        let cluster = open(|builder| builder);
        let handle = cluster.submit(&SQUARE, &4).unwrap();
        let id = handle.id();
        let pool = executors::fixed(1).unwrap();
        let joining = pool.submit(move || handle.join().map(drop).unwrap_err().to_string()).unwrap();
        eventually("it joins", || pool.active_count() == 1);
        let canceller = joining.canceller();
        let thread = std::thread::spawn(move || {
            // The interrupt may come before the wait: then the join fails at once.
            canceller.cancel(true)
        });
        thread.join().unwrap();
        pool.close();
        let _worker = cluster.worker().handle(&SQUARE, |_, n| square(n)).start().unwrap();
        assert_eq!(cluster.find(&SQUARE, id).unwrap().join().unwrap(), 16);
    }

    fn worker_without_handler_and_bad_settings_are_refused(open) {
        let cluster = open(|builder| builder);
        assert!(cluster.worker().start().is_err());
        let short = Cluster::builder().lease(Duration::from_millis(10)).open("memory:").unwrap_err();
        assert_eq!(short.to_string(), "lease is 10ms but must be between 1 second and 1 day");
        let address = Cluster::open("kafka:here").unwrap_err().to_string();
        assert!(address.starts_with("'kafka:here' names no engine"), "{address}");
    }
}

/// Polls a future on the calling thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
