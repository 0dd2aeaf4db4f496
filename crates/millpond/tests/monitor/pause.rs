//! Pausing and resuming.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use millpond::monitor::{Actor, Event, Observer};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    ManualClock, PoolRef, ScheduledThreadPoolExecutor, Task, TaskHandle, ThreadPoolExecutor, WorkQueue,
    interrupt, policy, registry,
};

use crate::support::pools::{fixed, sized};
use crate::support::{Gate, LONG, SHORT, block, end, eventually, occupied, soon};

fn kinds() -> Vec<(&'static str, WorkQueue)> {
    vec![
        ("array", WorkQueue::array(100)),
        ("linked", WorkQueue::linked()),
        ("synchronous", WorkQueue::synchronous()),
        ("priority", WorkQueue::priority()),
        ("delay", WorkQueue::delay()),
        ("custom", WorkQueue::custom(LinkedBlockingQueue::<Task>::unbounded())),
    ]
}

fn pool_with(queue: WorkQueue, threads: usize) -> ThreadPoolExecutor {
    let builder = ThreadPoolExecutor::builder().core_pool_size(threads).maximum_pool_size(threads);
    builder.work_queue(queue).build().unwrap()
}

#[test]
fn tasks_of_every_kind_of_queue_wait_until_the_pool_is_resumed() {
    for (kind, queue) in kinds() {
        let pool = pool_with(queue, 3);
        let mut before = pool.submit(|| 1).unwrap();
        assert!(before.join_timeout(LONG).unwrap().is_ok(), "{kind}");
        eventually(|| pool.active_count() == 0);
        pool.pause();
        if kind == "synchronous" {
            eventually(|| pool.parked_workers().all == 1); // so it accepts one of the three
        }
        let ran = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let ran = Arc::clone(&ran);
                pool.submit(move || ran.fetch_add(1, Ordering::Relaxed)).unwrap()
            })
            .collect();
        thread::sleep(SHORT); // exposes a worker that takes one
        assert_eq!(ran.load(Ordering::Relaxed), 0, "{kind}");
        assert!(pool.is_paused() && pool.snapshot().paused);
        pool.resume();
        tasks.into_iter().for_each(|task| assert!(task.join().is_ok(), "{kind}"));
        pool.close();
        assert_eq!(pool.stats().completed, 4, "{kind}");
    }
}

#[test]
fn a_shutdown_resumes_every_kind_of_pool() {
    for (kind, queue) in kinds() {
        let pool = pool_with(queue, 2);
        pool.pause();
        let tasks: Vec<_> = (0..2).map(|number| pool.submit(move || number).unwrap()).collect();
        pool.close();
        assert!(!pool.is_paused());
        tasks.into_iter().for_each(|task| assert!(task.join().is_ok(), "{kind}"));
        pool.pause();
        assert!(!pool.is_paused(), "a pool that was shut down");
    }
}

#[test]
fn shutdown_now_hands_back_what_waits_and_releases_what_is_held() {
    let pool = pool_with(WorkQueue::array(1), 1);
    pool.pause();
    let queued = pool.submit(|| 1).unwrap();
    eventually(|| pool.parked_workers().all == 1);
    let last = pool.submit(|| 2).unwrap();
    assert!(pool.submit(|| 3).is_err(), "queue and threads are taken, as without a pause");
    assert_eq!(pool.shutdown_now().len(), 1);
    assert_eq!(queued.join().unwrap(), 1, "the idle worker held it to make room");
    assert!(last.join().is_err());
    assert!(pool.await_termination(LONG).unwrap());
}

#[test]
fn a_join_runs_its_own_task_in_a_paused_pool() {
    let pool = pool_with(WorkQueue::linked(), 1);
    let (begun, go_on) = (Gate::new(), Gate::new());
    let (begin, wait, inner) = (begun.clone(), go_on.clone(), pool.downgrade());
    let outer = pool.submit(move || {
        begin.open();
        wait.pass();
        inner.upgrade().unwrap().submit(|| 7).unwrap().join().unwrap()
    });
    begun.pass();
    pool.pause();
    let other = pool.submit(|| 8).unwrap();
    go_on.open();
    assert_eq!(outer.unwrap().join().unwrap(), 7);
    assert_eq!(pool.queued_count(), 1);
    pool.resume();
    assert_eq!(other.join().unwrap(), 8);
}

#[test]
fn a_task_of_a_paused_pool_can_be_cancelled_and_removed() {
    let pool = pool_with(WorkQueue::linked(), 2);
    pool.pause();
    let (first, second) = (pool.submit(|| 1).unwrap(), pool.submit(|| 2).unwrap());
    assert!(first.cancel(false) && pool.remove(second.id()));
    assert_eq!(pool.queued_count(), 0);
    pool.resume();
    pool.close();
}

/// A task that is submitted after `pause` has returned does not begin before `resume` is called.
#[test]
fn no_task_starts_between_pause_and_resume_under_load() {
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 300 };
    let pool = pool_with(WorkQueue::linked(), 3);
    let (stop, busy) = (Gate::new(), AtomicUsize::new(0));
    thread::scope(|s| {
        s.spawn(|| {
            while !stop.is_open() {
                let count = busy.fetch_add(1, Ordering::Relaxed);
                pool.execute(|| {}).unwrap();
                if count % 64 == 0 {
                    eventually(|| pool.queued_count() < 1000 || pool.is_paused() || stop.is_open());
                }
            }
        });
        for _ in 0..ROUNDS {
            pool.pause();
            let begun = Arc::new(AtomicUsize::new(0));
            for _ in 0..4 {
                let begun = Arc::clone(&begun);
                pool.execute(move || _ = begun.fetch_add(1, Ordering::SeqCst)).unwrap();
            }
            thread::yield_now();
            assert_eq!(begun.load(Ordering::SeqCst), 0);
            pool.resume();
            eventually(|| begun.load(Ordering::SeqCst) == 4);
        }
        stop.open();
    });
    pool.close();
    let stats = pool.stats();
    assert_eq!(stats.completed, (busy.into_inner() + 4 * ROUNDS) as u64);
    assert_eq!(stats.submitted, stats.completed);
}

#[test]
fn due_tasks_and_series_of_a_paused_pool_wait() {
    let clock = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(2).clock(clock.clock()).build().unwrap();
    let (send, runs) = mpsc::channel();
    let second = Duration::from_secs(1);
    let series = pool.schedule_at_fixed_rate(second, second, move || send.send(()).unwrap()).unwrap();
    clock.advance(second);
    runs.recv_timeout(LONG).unwrap();
    eventually(|| pool.active_count() == 0);
    pool.pause();
    let once = pool.schedule(second, || 7).unwrap();
    clock.advance(3 * second);
    assert!(runs.recv_timeout(SHORT).is_err());
    assert_eq!(pool.queued_count(), 2);
    pool.resume();
    (0..3).for_each(|_| runs.recv_timeout(LONG).unwrap()); // the missed runs
    assert_eq!(once.join().unwrap(), 7);
    series.cancel(false);
    pool.close();
}

#[test]
fn workers_of_a_paused_pool_time_out_and_one_stays_for_queued_tasks() {
    let builder = ThreadPoolExecutor::builder().core_pool_size(2).maximum_pool_size(2);
    let pool = builder.keep_alive_time(SHORT).allow_core_thread_time_out(true).build().unwrap();
    pool.prestart_all_core_threads();
    pool.pause();
    eventually(|| pool.parked_workers().all == pool.pool_size()); // none is about to take a task
    let task = pool.submit(|| 7).unwrap();
    eventually(|| pool.pool_size() == 1);
    thread::sleep(SHORT);
    assert_eq!((pool.pool_size(), pool.queued_count()), (1, 1));
    pool.resume();
    assert_eq!(task.join().unwrap(), 7);
    eventually(|| pool.pool_size() == 0);
}

#[test]
fn an_eager_and_a_growing_pool_run_everything_after_the_resume() {
    for eager in [false, true] {
        let builder = ThreadPoolExecutor::builder().core_pool_size(1).maximum_pool_size(4);
        let builder = builder.work_queue(WorkQueue::array(2));
        let pool = if eager { builder.eager() } else { builder }.build().unwrap();
        pool.pause();
        let first = pool.submit(|| 0).unwrap();
        eventually(|| pool.parked_workers().all == 1);
        let mut tasks: Vec<_> = (1..6).map(|number| pool.submit(move || number).unwrap()).collect();
        tasks.push(first);
        assert!(pool.submit(|| 6).is_err(), "four threads and two places");
        assert_eq!(pool.stats().completed, 0);
        pool.resume();
        tasks.into_iter().for_each(|task| assert!(task.join().is_ok()));
        pool.close();
    }
}

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Observer for Log {
    fn event(&self, pool: &PoolRef, event: &Event<'_>) {
        if pool.name().as_deref() == Some("pausing") {
            self.0.lock().unwrap().push(match event {
                Event::Paused { by } => format!("paused by {by}"),
                Event::Resumed { by } => format!("resumed by {by}"),
                _ => return,
            });
        }
    }
}

#[test]
fn observers_learn_of_pauses_and_their_author() {
    let log = Arc::new(Log::default());
    let _subscription = registry::observe(Arc::clone(&log) as Arc<dyn Observer>);
    let pool = ThreadPoolExecutor::builder().name("pausing").build().unwrap();
    let found = registry::find("pausing").unwrap();
    let actor = Actor::new("console", "incident 17");
    found.pause(&actor).unwrap();
    found.pause(&actor).unwrap(); // changes nothing
    assert_eq!((found.is_paused(), found.snapshot().unwrap().paused), (Some(true), true));
    pool.resume();
    pool.resume();
    pool.pause_by(&actor);
    pool.close();
    let console = "paused by console: incident 17";
    let expected = [console, "resumed by the program", console, "resumed by the program: shutdown"];
    assert_eq!(*log.0.lock().unwrap(), expected);
}

/// The pool is idle while its tasks are not due, so the cancel of the only due task makes it idle.
#[test]
fn wait_idle_on_a_paused_scheduled_pool_returns_when_the_due_task_is_cancelled() {
    let time = ManualClock::new();
    let builder = ScheduledThreadPoolExecutor::builder().remove_on_cancel_policy(true);
    let pool = builder.clock(time.clock()).build().unwrap();
    pool.pause();
    let due = [0, 1].map(|_| pool.schedule(Duration::ZERO, || {}).unwrap());
    let far = pool.schedule(Duration::from_secs(3600), || {}).unwrap();
    eventually(|| pool.parked_workers().all == 1);
    thread::scope(|s| {
        let waiter = block(s, || pool.wait_idle(Duration::MAX));
        assert!(due[0].cancel(false));
        assert!(!waiter.is_finished());
        assert!(due[1].cancel(false));
        assert_eq!(waiter.join(), Ok(true));
    });
    far.cancel(false);
    pool.close();
}

/// While tasks are queued, one worker stays although its keep-alive time is over.
#[test]
fn a_paused_worker_exits_when_the_last_task_that_it_stays_for_is_cancelled() {
    for (kind, queue) in kinds().into_iter().filter(|(kind, _)| *kind != "synchronous") {
        let builder = ThreadPoolExecutor::builder().core_pool_size(0).maximum_pool_size(1).work_queue(queue);
        let pool = builder.keep_alive_time(Duration::from_millis(5)).remove_on_cancel(true).build().unwrap();
        let gate = Gate::new();
        let wait = gate.clone();
        let running = pool.submit(move || wait.pass()).unwrap();
        eventually(|| pool.active_count() == 1 && pool.queued_count() == 0);
        pool.pause();
        let queued = pool.submit(|| {}).unwrap();
        gate.open();
        running.join().unwrap();
        eventually(|| {
            let parked = pool.parked_workers();
            (parked.all, parked.timed) == (1, 0)
        });
        assert!(queued.cancel(false), "{kind}");
        eventually(|| pool.pool_size() == 0);
        assert!(pool.is_paused(), "{kind}");
        pool.close();
    }
}

/// Submits tasks each of which runs until all have begun.
fn submit_meeting(pool: &ThreadPoolExecutor, tasks: usize) -> Vec<TaskHandle<()>> {
    let barrier = Arc::new(Barrier::new(tasks));
    let meet = || {
        let barrier = Arc::clone(&barrier);
        move || _ = barrier.wait()
    };
    (0..tasks).map(|_| pool.submit(meet()).unwrap()).collect()
}

// Regression: the shutdown of a paused pool woke workers but started none for the queued tasks.
#[test]
fn a_shutdown_of_a_paused_pool_starts_the_threads_that_its_tasks_need() {
    let end_by: [fn(ThreadPoolExecutor); 2] = [|pool| pool.shutdown(), drop];
    for end_by in end_by {
        let pool = fixed(2);
        pool.pause();
        let tasks = submit_meeting(&pool, 2);
        end_by(pool);
        tasks.into_iter().for_each(|task| soon(task).unwrap());
    }
}

// Regression: the end of a pause started threads up to the core size only.
#[test]
fn an_eager_pool_uses_all_its_threads_at_the_end_of_a_pause() {
    let end_by: [fn(&ThreadPoolExecutor); 2] = [ThreadPoolExecutor::resume, ThreadPoolExecutor::shutdown];
    for end_by in end_by {
        let pool = sized(1, 4).eager().build().unwrap();
        pool.pause();
        let tasks = submit_meeting(&pool, 4);
        end_by(&pool);
        tasks.into_iter().for_each(|task| soon(task).unwrap());
        end(&pool);
    }
}

#[test]
fn an_eager_pool_starts_no_more_threads_than_it_has_tasks_at_the_end_of_a_pause() {
    let pool = sized(1, 8).eager().build().unwrap();
    let gate = occupied(&pool);
    pool.pause();
    let tasks = submit_meeting(&pool, 3);
    pool.resume();
    tasks.into_iter().for_each(|task| soon(task).unwrap());
    assert_eq!(pool.largest_pool_size(), 4);
    gate.open();
    end(&pool);
}

// Regression: a worker that parked in a paused pool did not notify the submitters.
#[test]
fn a_blocked_submitter_enters_when_a_worker_of_the_paused_pool_parks() {
    let builder = sized(1, 1).work_queue(WorkQueue::array(1));
    let pool = builder.rejected_execution_handler(policy::Block::forever()).build().unwrap();
    let gate = occupied(&pool);
    let first = pool.submit(|| 1).unwrap();
    let (send, receive) = mpsc::channel();
    thread::scope(|s| {
        let pool = &pool;
        pool.pause();
        let blocked = block(s, move || send.send(pool.submit(|| 2).unwrap()).unwrap());
        gate.open();
        let entered = receive.recv_timeout(LONG);
        pool.resume(); // before a failure, so that the thread ends
        blocked.join();
        assert_eq!(soon(entered.expect("the parked worker takes the queued task")).unwrap(), 2);
    });
    assert_eq!(soon(first).unwrap(), 1);
    end(&pool);
}

// Regression: an advance of the clock during a pause did not notify a worker that joins a task.
#[test]
fn a_worker_runs_the_task_that_it_joins_when_it_becomes_due_during_a_pause() {
    let time = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(1).clock(time.clock()).build().unwrap();
    let delay = Duration::from_millis(10);
    let (tell, begun) = mpsc::channel();
    let inside = pool.clone();
    let mut outer = pool
        .schedule(Duration::ZERO, move || {
            let inner = inside.schedule(delay, || 7).unwrap();
            tell.send(interrupt::current()).unwrap();
            inner.join().unwrap()
        })
        .unwrap();
    let worker = begun.recv_timeout(LONG).unwrap();
    eventually(|| worker.is_parked());
    pool.pause();
    time.advance(delay);
    assert_eq!(outer.join_timeout(LONG).expect("the inner task is due").unwrap(), 7);
    pool.resume();
    end(&pool);
}
