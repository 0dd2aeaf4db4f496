//! When delayed and periodic tasks run: delays, rates, order, the clock. STP rows up to 033.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Counter, Gate, LONG, SHORT, SMALL, die, end, eventually, occupy, soon};
use millpond::{
    JoinError, ManualClock, MissedTicks, PeriodicTask, ScheduledHandle, ScheduledThreadPoolExecutor,
    TaskState, executors, interrupt,
};

const SECOND: Duration = Duration::from_secs(1);

/// A pool with `core` threads and its own manual clock.
fn pool(core: usize) -> (ManualClock, ScheduledThreadPoolExecutor) {
    let time = ManualClock::new();
    let pool =
        ScheduledThreadPoolExecutor::builder().core_pool_size(core).clock(time.clock()).build().unwrap();
    (time, pool)
}

/// For a pool with one thread: returns when all due tasks have run.
#[track_caller]
fn catch_up(pool: &ScheduledThreadPoolExecutor) {
    soon(pool.submit(|| ()).unwrap()).unwrap();
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Events in order.
#[derive(Clone, Default)]
struct Log<E>(Arc<Mutex<Vec<E>>>);

impl<E: Clone + Send + 'static> Log<E> {
    fn new() -> Self {
        Log(Arc::new(Mutex::new(Vec::new())))
    }

    fn add(&self, event: E) {
        self.0.lock().unwrap().push(event);
    }

    fn get(&self) -> Vec<E> {
        self.0.lock().unwrap().clone()
    }

    /// A task that records `event`.
    fn leave(&self, event: E) -> impl FnMut() + Send + 'static {
        let log = self.clone();
        move || log.add(event.clone())
    }
}

/// A task that records the clock's time of each run.
fn note_times(time: &ManualClock, log: &Log<u64>) -> impl FnMut() + Send + 'static {
    let (time, log) = (time.clone(), log.clone());
    move || log.add(time.elapsed().as_secs())
}

/// STP-003, STP-004: also for a unit value.
#[test]
fn a_delayed_task_runs_once_and_not_before_its_time() {
    let (time, pool) = pool(1);
    let runs = Counter::new();
    let counter = runs.clone();
    let value = pool.schedule(seconds(10), move || {
        counter.add();
        42
    });
    let value = value.unwrap();
    let unit = pool.schedule(seconds(10), || ()).unwrap();
    time.advance(seconds(10) - Duration::from_nanos(1));
    catch_up(&pool);
    assert_eq!((value.state(), runs.get()), (TaskState::Pending, 0));
    assert_eq!(value.remaining_delay(), Duration::from_nanos(1));
    time.advance(Duration::from_nanos(1));
    assert_eq!(soon(value.into_handle()).unwrap(), 42);
    soon(unit.into_handle()).unwrap();
    time.advance(seconds(1000));
    catch_up(&pool);
    assert_eq!(runs.get(), 1);
    end(&pool);
}

/// STP-003, STP-007, with the system clock: only lower bounds.
#[test]
fn the_machines_clock_is_not_run_ahead_of() {
    let pool = executors::scheduled(2);
    let begin = Instant::now();
    let once = pool.schedule(SHORT, move || begin.elapsed()).unwrap();
    let (send, receive) = mpsc::channel();
    let series = pool.schedule_at_fixed_rate(SMALL, SHORT, move || _ = send.send(begin.elapsed())).unwrap();
    assert!(soon(once.into_handle()).unwrap() >= SHORT);
    for n in 0..3 {
        assert!(receive.recv_timeout(LONG).unwrap() >= SMALL + n * SHORT); // STP-009
    }
    series.cancel(false);
    end(&pool);
}

/// STP-005, STP-006.
#[test]
fn without_a_delay_a_task_is_due_at_once() {
    let (time, pool) = pool(1);
    let gate = Gate::new();
    occupy(&pool, &gate);
    let log = Log::new();
    let scheduled = pool.schedule(Duration::ZERO, log.leave(1)).unwrap();
    pool.execute(log.leave(2)).unwrap();
    let submitted = pool.submit(log.leave(3)).unwrap();
    assert_eq!((scheduled.remaining_delay(), scheduled.is_periodic()), (Duration::ZERO, false));
    assert_eq!(pool.queued_count(), 3, "each passes through the queue");
    gate.open();
    soon(submitted).unwrap();
    assert_eq!(log.get(), [1, 2, 3]);
    assert_eq!(time.elapsed(), Duration::ZERO);
    end(&pool);
}

/// STP-007, STP-009: next time = previous time + period, regardless of the duration of the run.
#[test]
fn a_fixed_rate_stays_on_its_grid() {
    let (time, pool) = pool(1);
    let log = Log::new();
    let series = pool.schedule_at_fixed_rate(seconds(5), seconds(10), note_times(&time, &log)).unwrap();
    assert!(series.is_periodic());
    for _ in 0..36 {
        time.advance(SECOND);
        catch_up(&pool);
    }
    assert_eq!(log.get(), [5, 15, 25, 35]);
    assert_eq!(series.remaining_delay(), seconds(9));
    end(&pool);
}

/// A periodic task with a period of ten seconds, whose first run is late.
fn late_series(missed: Option<MissedTicks>) -> Vec<u64> {
    let (time, pool) = pool(1);
    let log = Log::new();
    let (mut note, mut first) = (note_times(&time, &log), true);
    let (running, gate) = (Gate::new(), Gate::new());
    let body = {
        let (running, gate) = (running.clone(), gate.clone());
        move || {
            note();
            if std::mem::take(&mut first) {
                running.open();
                gate.pass();
            }
        }
    };
    let _series = match missed {
        Some(missed) => {
            let task = PeriodicTask::new(body).missed_ticks(missed);
            pool.schedule_at_fixed_rate_task(Duration::ZERO, seconds(10), task).unwrap()
        }
        None => pool.schedule_with_fixed_delay(Duration::ZERO, seconds(10), body).unwrap(),
    };
    running.pass();
    time.advance(seconds(35)); // while it runs
    gate.open();
    catch_up_all(&pool);
    for _ in 0..25 {
        time.advance(SECOND);
        catch_up(&pool);
    }
    end(&pool);
    log.get()
}

/// Like `catch_up`, for a periodic task that is several runs behind: after each run it is requeued
/// before the waiting task.
fn catch_up_all(pool: &ScheduledThreadPoolExecutor) {
    for _ in 0..5 {
        catch_up(pool);
    }
}

/// STP-011: like the JDK, every missed run takes place.
#[test]
fn a_fixed_rate_catches_up() {
    assert_eq!(late_series(Some(MissedTicks::CatchUp)), [0, 35, 35, 35, 40, 50, 60]);
    assert_eq!(MissedTicks::default(), MissedTicks::CatchUp);
}

#[test]
fn missed_runs_can_be_merged_into_one() {
    assert_eq!(late_series(Some(MissedTicks::Coalesce)), [0, 35, 40, 50, 60]);
}

#[test]
fn missed_runs_can_be_left_out() {
    assert_eq!(late_series(Some(MissedTicks::Skip)), [0, 40, 50, 60]);
}

/// STP-010, STP-012: the delay counts from the end of the run; missed runs are not made up for.
#[test]
fn a_fixed_delay_counts_from_the_end_and_does_not_catch_up() {
    assert_eq!(late_series(None), [0, 45, 55]);
}

/// STP-010 with the system clock.
#[test]
fn a_fixed_delay_keeps_its_distance_from_the_end_of_the_run() {
    let pool = executors::scheduled(2);
    let (send, receive) = mpsc::channel();
    let series = pool
        .schedule_with_fixed_delay(Duration::ZERO, SHORT, move || {
            let begin = Instant::now();
            let _ = interrupt::sleep(Duration::from_millis(3));
            let _ = send.send((begin, Instant::now()));
        })
        .unwrap();
    let mut before: Option<Instant> = None;
    for _ in 0..4 {
        let (begin, ended) = receive.recv_timeout(LONG).unwrap();
        assert!(before.is_none_or(|before| begin >= before + SHORT));
        before = Some(ended);
    }
    series.cancel(true);
    end(&pool);
}

/// STP-013.
#[test]
fn runs_of_one_series_never_overlap_and_each_sees_the_one_before() {
    let (time, pool) = pool(4);
    let inside = Arc::new(AtomicBool::new(false));
    let done = Gate::new();
    let (flag, gate) = (Arc::clone(&inside), done.clone());
    let mut runs = 0_u64; // not atomic: each run reads what the previous one wrote
    let series = pool
        .schedule_at_fixed_rate(Duration::ZERO, Duration::from_nanos(1), move || {
            assert!(!flag.swap(true, Ordering::SeqCst), "two at once");
            runs += 1;
            thread::yield_now();
            flag.store(false, Ordering::SeqCst);
            if runs == 2000 {
                gate.open();
            }
        })
        .unwrap();
    time.advance(SECOND); // from now on it is always late
    done.pass();
    assert!(!series.is_done(), "{series:?}");
    series.cancel(false);
    end(&pool);
}

/// STP-014: the panic is visible, and the task does not run again.
#[test]
fn a_series_that_panics_is_over() {
    let (time, pool) = pool(1);
    let runs = Counter::new();
    let counter = runs.clone();
    let mut series = pool
        .schedule_at_fixed_rate(SECOND, SECOND, move || {
            counter.add();
            if counter.get() == 3 {
                die("the third");
            }
        })
        .unwrap();
    for _ in 0..6 {
        time.advance(SECOND);
        catch_up(&pool);
    }
    let outcome = series.try_join().unwrap().unwrap_err();
    assert!(matches!(outcome, JoinError::Panicked(panic) if panic.message() == Some("the third")));
    assert_eq!((runs.get(), series.state(), pool.queued_count()), (3, TaskState::Failed, 0));
    let stats = pool.stats();
    assert_eq!((stats.panicked, pool.pool_size()), (1, 1));
    end(&pool);
}

/// STP-015.
#[test]
fn joining_a_series_waits_until_it_ends_and_gives_no_value() {
    let (time, pool) = pool(1);
    let mut series = pool.schedule_at_fixed_rate(Duration::ZERO, SECOND, || ()).unwrap();
    catch_up(&pool);
    time.advance(seconds(3));
    catch_up_all(&pool);
    assert!(series.join_timeout(SHORT).is_none(), "three runs are not the end");
    assert_eq!(series.state(), TaskState::Pending);
    let canceller = series.canceller();
    thread::scope(|scope| {
        let joiner = crate::support::block(scope, move || series.join());
        assert!(canceller.cancel(false));
        assert!(matches!(joiner.join(), Err(JoinError::Cancelled)));
    });
    end(&pool);
}

/// STP-016.
#[test]
fn tasks_run_in_the_order_of_their_times_whatever_the_order_of_submission() {
    let (time, pool) = pool(1);
    let log = Log::new();
    let handles: Vec<_> =
        [90, 30, 60].map(|n| pool.schedule(Duration::from_millis(n), log.leave(n)).unwrap()).into();
    let order: Vec<_> = [1, 2, 0].iter().map(|n: &usize| handles[*n].id()).collect();
    assert_eq!(pool.queued_tasks(), order);
    time.advance(SECOND);
    catch_up(&pool);
    assert_eq!(log.get(), [30, 60, 90]);
    end(&pool);
}

/// STP-017: equal times in order of submission.
#[test]
fn tasks_of_the_same_time_run_in_order_of_submission() {
    let (time, pool) = pool(1);
    let log = Log::new();
    for n in 0..100 {
        drop(pool.schedule(SECOND, log.leave(n)).unwrap());
    }
    time.advance(SECOND);
    catch_up(&pool);
    assert_eq!(log.get(), (0..100).collect::<Vec<_>>());
    end(&pool);
}

/// STP-018: among tasks of equal times, an earlier periodic task remains first after its first run.
#[test]
fn a_series_keeps_its_number() {
    let (time, pool) = pool(1);
    let log = Log::new();
    let _series = pool.schedule_at_fixed_rate(SECOND, SECOND, log.leave("series")).unwrap();
    let _later = pool.schedule(seconds(2), log.leave("once")).unwrap();
    time.advance(SECOND);
    catch_up(&pool); // it has been requeued, after the other one
    time.advance(SECOND);
    catch_up(&pool);
    assert_eq!(log.get(), ["series", "series", "once"]);
    end(&pool);
}

/// STP-019, STP-020: a far due time neither overflows nor delays other tasks.
#[test]
fn what_never_comes_keeps_nothing_from_running() {
    let (time, pool) = pool(1);
    let runs = Counter::new();
    let counter = runs.clone();
    let never = pool.schedule(Duration::MAX, || ()).unwrap();
    let once = pool.schedule_with_fixed_delay(Duration::ZERO, Duration::MAX, move || counter.add()).unwrap();
    let rate = pool.schedule_at_fixed_rate(Duration::ZERO, Duration::MAX, || ()).unwrap();
    time.advance(seconds(1 << 40));
    catch_up(&pool);
    assert_eq!((runs.get(), pool.queued_count()), (1, 3));
    for handle in [&never, &once, &rate] {
        assert_eq!((handle.remaining_delay(), handle.state()), (Duration::MAX, TaskState::Pending));
    }
    time.advance(Duration::MAX);
    catch_up(&pool);
    assert_eq!(runs.get(), 1);
    assert_eq!(pool.shutdown_now().len(), 3);
    crate::support::await_end(&pool);
}

/// The same with the system clock, where a deadline must fit into an `Instant`.
#[test]
fn a_head_that_never_comes_does_not_hold_up_what_comes_after_it() {
    let pool = executors::scheduled(1);
    let _never = pool.schedule(Duration::MAX, || ()).unwrap();
    eventually(|| pool.parked_workers().all == 1);
    assert_eq!(soon(pool.schedule(SHORT, || 7).unwrap().into_handle()).unwrap(), 7);
    pool.shutdown_now();
    crate::support::await_end(&pool);
}

/// STP-022.
#[test]
fn the_remaining_delay_falls_to_zero_and_stays_there() {
    let (time, pool) = pool(1);
    let handle = pool.schedule(seconds(3), || ()).unwrap();
    let left: Vec<_> = (0..5)
        .map(|_| {
            let left = handle.remaining_delay();
            time.advance(SECOND);
            left.as_secs()
        })
        .collect();
    assert_eq!(left, [3, 2, 1, 0, 0]);
    soon(handle.into_handle()).unwrap();
    end(&pool);
}

/// STP-060: with the system clock, an earlier task wakes the thread that sleeps until a later one.
#[test]
fn an_earlier_task_does_not_wait_for_a_later_one() {
    for core in [1, 2] {
        let pool = executors::scheduled(core);
        let _far = pool.schedule(Duration::from_secs(3600), || ()).unwrap();
        pool.prestart_all_core_threads();
        eventually(|| pool.parked_workers().all == core);
        assert_eq!(soon(pool.schedule(SHORT, || 7).unwrap().into_handle()).unwrap(), 7);
        assert_eq!(soon(pool.submit(|| 8).unwrap()).unwrap(), 8);
        pool.shutdown_now();
        crate::support::await_end(&pool);
    }
}

/// STP-060: the leader passes leadership on before it runs its task.
#[test]
fn a_task_that_blocks_does_not_hold_up_the_next_one() {
    let pool = executors::scheduled(2);
    let gate = Gate::new();
    let pass = gate.clone();
    let blocks = pool.schedule(SHORT, move || pass.pass()).unwrap();
    let next = pool.schedule(SMALL, || 7).unwrap();
    assert_eq!(soon(next.into_handle()).unwrap(), 7);
    assert!(!blocks.is_done());
    gate.open();
    end(&pool);
}

/// STP-060: a thundering herd would wake every worker for every task.
#[test]
fn one_thread_wakes_for_one_task() {
    let (time, pool) = pool(8);
    pool.prestart_all_core_threads();
    let threads = Log::new();
    for n in 1..=50 {
        let log = threads.clone();
        drop(pool.schedule(seconds(n), move || log.add(thread::current().id())).unwrap());
    }
    for n in 1..=50 {
        eventually(|| pool.parked_workers().all == 8);
        time.advance(SECOND);
        assert!(pool.parked_workers().all >= 6, "the one for the task, and one that watches the time");
        eventually(|| threads.get().len() == n);
    }
    end(&pool);
}

#[test]
fn a_worker_can_join_a_delayed_task_of_its_own_pool() {
    let pool = executors::scheduled(1);
    let inner = pool.clone();
    let outer = pool.submit(move || inner.schedule(SHORT, || 7).unwrap().join().unwrap() + 1).unwrap();
    assert_eq!(soon(outer).unwrap(), 8);
    end(&pool);
}

#[test]
fn a_worker_can_join_a_delayed_task_by_a_manual_clock() {
    let (time, pool) = pool(1);
    let (inner, scheduled) = (pool.clone(), Gate::new());
    let knock = scheduled.clone();
    let outer = pool.submit(move || {
        let handle = inner.schedule(SECOND, || 7).unwrap();
        knock.open();
        handle.join().unwrap() + 1
    });
    let outer = outer.unwrap();
    scheduled.pass();
    assert!(!outer.is_done());
    time.advance(SECOND);
    assert_eq!(soon(outer).unwrap(), 8);
    end(&pool);
}

#[test]
fn on_return_from_advance_what_is_due_has_left_the_queue() {
    let (time, pool) = pool(3);
    pool.prestart_all_core_threads();
    eventually(|| pool.parked_workers().all == 3);
    let gate = Gate::new();
    for _ in 0..4 {
        let pass = gate.clone();
        drop(pool.schedule(SECOND, move || pass.pass()).unwrap());
    }
    time.advance(SECOND);
    assert_eq!((pool.queued_count(), pool.parked_workers().all), (1, 0), "three threads have one each");
    gate.open();
    end(&pool);
}

/// Its only thread has just started and may not have reached its queue yet.
#[test]
fn on_return_from_advance_a_fresh_thread_has_its_task() {
    for _ in 0..200 {
        let (time, pool) = pool(1);
        drop(pool.schedule(SECOND, || ()).unwrap());
        time.advance(SECOND);
        assert_eq!(pool.queued_count(), 0);
        end(&pool);
    }
}

/// STP-033: 25 ms three times, then 100 ms, five runs in total.
#[test]
fn a_series_can_end_itself_and_begin_anew_with_another_period() {
    let (time, pool) = pool(1);
    pool.set_remove_on_cancel_policy(true);
    let log = Log::new();
    let mine: Arc<Mutex<Option<ScheduledHandle<()>>>> = Arc::default();
    let mut note = note_times(&time, &log);
    let (slot, inner, again) = (Arc::clone(&mine), pool.clone(), log.clone());
    let again_time = time.clone();
    let body = move || {
        note();
        if again.get().len() == 3 {
            assert!(slot.lock().unwrap().take().unwrap().cancel(false));
            let next = note_times(&again_time, &again);
            let series = inner.schedule_at_fixed_rate(seconds(100), seconds(100), next).unwrap();
            *slot.lock().unwrap() = Some(series);
        }
    };
    let mut slot = mine.lock().unwrap();
    *slot = Some(pool.schedule_at_fixed_rate(seconds(25), seconds(25), body).unwrap());
    drop(slot);
    for _ in 0..(3 * 25 + 200) {
        time.advance(SECOND);
        catch_up(&pool);
    }
    assert_eq!(log.get(), [25, 50, 75, 175, 275]);
    assert_eq!(pool.queued_count(), 1);
    drop(mine.lock().unwrap().take()); // it holds the pool
    end(&pool);
}
