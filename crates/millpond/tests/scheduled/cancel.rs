//! Cancelling, removing and purging of delayed tasks. STP rows 034 to 041.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::pools::thread_for;
use crate::support::{Counter, Gate, LONG, assert_balanced, await_end, die, end, eventually, rounds, soon};
use millpond::{
    Canceller, Hooks, JoinError, ManualClock, Panic, RejectReason, ScheduledThreadPoolExecutor, Task,
    TaskInfo, TaskOf, TaskState, executors, interrupt,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn pool(core: usize, remove_on_cancel: bool) -> (ManualClock, ScheduledThreadPoolExecutor) {
    let time = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder()
        .core_pool_size(core)
        .remove_on_cancel_policy(remove_on_cancel)
        .clock(time.clock())
        .build()
        .unwrap();
    (time, pool)
}

/// For a pool with one thread: returns when all due tasks have run.
#[track_caller]
fn catch_up(pool: &ScheduledThreadPoolExecutor) {
    soon(pool.submit(|| ()).unwrap()).unwrap();
}

/// STP-034, STP-035.
#[test]
fn remove_takes_out_what_waits_and_nothing_else() {
    let (_time, pool) = pool(1, false);
    let (gate, running) = (Gate::new(), Gate::new());
    let (pass, knock) = (gate.clone(), running.clone());
    let busy = pool.submit(move || {
        knock.open();
        pass.pass();
    });
    let busy = busy.unwrap();
    running.pass();
    let plain = Task::new(|| ());
    let plain_id = plain.id();
    pool.execute_task(plain).unwrap();
    let delayed = pool.schedule(HOUR, || ()).unwrap();
    assert!(!pool.remove(busy.id()), "it runs");
    assert_eq!(pool.queued_tasks(), [plain_id, delayed.id()]);
    for id in [delayed.id(), plain_id] {
        assert!(pool.remove(id));
        assert!(!pool.remove(id), "only once");
    }
    assert!(matches!(soon(delayed.into_handle()), Err(JoinError::Abandoned)));
    gate.open();
    soon(busy).unwrap();
    end(&pool);
    assert_balanced(&pool.stats());
    assert_eq!(pool.stats().handed_back, 2);
}

#[test]
fn a_series_that_is_removed_between_two_runs_is_abandoned() {
    let (time, pool) = pool(1, false);
    let mut series = pool.schedule_at_fixed_rate(SECOND, SECOND, || ()).unwrap();
    time.advance(SECOND);
    catch_up(&pool);
    assert!(pool.remove(series.id()));
    assert!(matches!(series.try_join(), Some(Err(JoinError::Abandoned))));
    end(&pool);
}

/// Over time the timer wheel moves a waiting task, and compacts it when others are removed. A
/// cancel must find it anyway.
#[test]
fn a_cancel_frees_the_place_wherever_the_task_has_been_moved_to() {
    let (time, pool) = pool(1, true);
    // From one millisecond to two hours, denser at the near end.
    let due = |n: u64| Duration::from_micros(1000 + n * n * n);
    let handles: Vec<_> = (0..2000).map(|n| pool.schedule(due(n), || ()).unwrap()).collect();
    for round in 0..20 {
        time.advance(due(100 * round) - time.elapsed());
        catch_up(&pool);
        let waiting = handles.iter().filter(|handle| !handle.is_done());
        let mut left = waiting.clone().count();
        assert_eq!(pool.queued_count(), left);
        for handle in waiting.skip(1).step_by(if round % 5 == 4 { 2 } else { 3 }) {
            assert!(handle.cancel(false));
            left -= 1;
            assert_eq!(pool.queued_count(), left);
        }
    }
    end(&pool);
    assert_balanced(&pool.stats());
}

/// STP-036.
#[test]
fn purge_takes_out_the_cancelled_and_leaves_the_rest() {
    let (_time, pool) = pool(1, false);
    let handles: Vec<_> = (0..5).map(|_| pool.schedule(HOUR, || ()).unwrap()).collect();
    for handle in &handles[1..4] {
        assert!(handle.cancel(true));
    }
    assert_eq!(pool.queued_count(), 5, "without remove-on-cancel they stay");
    assert_eq!((pool.purge(), pool.queued_count(), pool.purge()), (3, 2, 0));
    assert_eq!(pool.queued_tasks(), [handles[0].id(), handles[4].id()]);
    assert_eq!((pool.stats().cancelled, pool.completed_task_count()), (3, 0));
    pool.shutdown_now();
    await_end(&pool);
}

#[derive(Default)]
struct Seen {
    before: Counter,
    after: Counter,
}

impl Hooks for Seen {
    fn before_execute(&self, _: &TaskInfo) {
        self.before.add();
    }
    fn after_execute(&self, _: &TaskInfo, panic: Option<&Panic>) {
        assert!(panic.is_none());
        self.after.add();
    }
}

/// STP-037: the hooks are called too.
#[test]
fn a_cancelled_task_that_stays_counts_as_completed_when_it_is_due() {
    let (time, hooks) = (ManualClock::new(), Arc::new(Seen::default()));
    let pool = ScheduledThreadPoolExecutor::builder().clock(time.clock()).hooks(Arc::clone(&hooks));
    let pool = pool.build().unwrap();
    let runs = Counter::new();
    let counter = runs.clone();
    let handle = pool.schedule(SECOND, move || counter.add()).unwrap();
    assert!(handle.cancel(false));
    assert_eq!((pool.queued_count(), handle.is_cancelled()), (1, true));
    time.advance(SECOND);
    eventually(|| pool.completed_task_count() == 1);
    assert_eq!((pool.queued_count(), runs.get()), (0, 0));
    assert_eq!((hooks.before.get(), hooks.after.get()), (1, 1));
    end(&pool);
    assert_eq!((pool.stats().cancelled, pool.stats().completed), (1, 0));
    assert_balanced(&pool.stats());
}

/// STP-038: with remove-on-cancel the entry is removed at once, even if the policy was set later.
#[test]
fn with_the_policy_cancelling_frees_the_place_at_once() {
    let (_time, pool) = pool(1, false);
    let before = pool.schedule(HOUR, || ()).unwrap();
    pool.set_remove_on_cancel_policy(true);
    let after = pool.schedule(HOUR, || ()).unwrap();
    assert!(before.cancel(false));
    assert_eq!(pool.queued_tasks(), [after.id()]);
    assert!(after.cancel(false));
    assert_eq!((pool.queued_count(), pool.stats().cancelled), (0, 2));
    end(&pool);
    assert_eq!(pool.completed_task_count(), 0);
}

/// A thread caches the place of its latest cancel. This must not keep the pool alive.
#[test]
fn who_cancels_in_several_pools_frees_the_right_places_and_keeps_no_pool() {
    let captured = Counter::new();
    let pools = [0, 1].map(|_| {
        let kept = captured.on_drop();
        let threads = move |body| {
            _ = &kept;
            thread_for(body)
        };
        let builder = ScheduledThreadPoolExecutor::builder().remove_on_cancel_policy(true);
        builder.thread_factory(threads).build().unwrap()
    });
    let waiting = pools.each_ref().map(|pool| [0, 1, 2].map(|_| pool.schedule(HOUR, || ()).unwrap()));
    for (of_first, left) in [(true, [2, 3]), (false, [2, 2]), (false, [2, 1]), (true, [1, 1])] {
        let [first, second] = &waiting;
        let next = if of_first { first } else { second }.iter().find(|task| !task.is_done());
        assert!(next.unwrap().cancel(false));
        assert_eq!(pools.each_ref().map(ScheduledThreadPoolExecutor::queued_count), left);
    }
    for pool in pools {
        pool.shutdown_now();
        end(&pool);
    }
    eventually(|| captured.get() == 2); // what the pools captured is gone
    let late = waiting.iter().flatten().filter(|task| task.cancel(false)).count();
    assert_eq!(late, 0, "what was handed back and dropped is abandoned");
}

/// STP-039.
#[test]
fn with_the_policy_a_series_cancelled_between_runs_leaves_an_empty_queue() {
    let (time, pool) = pool(1, true);
    let captured = Counter::new();
    let kept = captured.on_drop();
    let series = pool.schedule_at_fixed_rate(SECOND, SECOND, move || _ = &kept).unwrap();
    time.advance(SECOND);
    catch_up(&pool);
    assert_eq!((pool.queued_count(), captured.get()), (1, 0));
    assert!(series.cancel(false));
    assert_eq!((pool.queued_count(), captured.get()), (0, 1));
    assert!(!series.cancel(false), "only once");
    end(&pool);
    assert_balanced(&pool.stats());
}

/// Where a periodic task finds its own canceller.
type Own = Arc<Mutex<Option<Canceller>>>;

/// STP-039: its captures are dropped when the run returns.
#[test]
fn a_series_cancelled_from_inside_its_run_is_over() {
    for remove_on_cancel in [false, true] {
        let (time, pool) = pool(1, remove_on_cancel);
        let (captured, runs) = (Counter::new(), Counter::new());
        let own: Own = Own::default();
        let (kept, counter, inside, seen) = (captured.on_drop(), runs.clone(), own.clone(), captured.clone());
        let series = pool.schedule_at_fixed_rate(SECOND, SECOND, move || {
            let _ = &kept;
            counter.add();
            if counter.get() == 2 {
                assert!(inside.lock().unwrap().take().unwrap().cancel(false));
                assert_eq!(seen.get(), 0, "it is in use");
            }
        });
        let series = series.unwrap();
        *own.lock().unwrap() = Some(series.canceller());
        for _ in 0..5 {
            time.advance(SECOND);
            catch_up(&pool);
        }
        assert_eq!((runs.get(), captured.get(), pool.queued_count()), (2, 1, 0));
        assert!(matches!(soon(series.into_handle()), Err(JoinError::Cancelled)));
        end(&pool);
        assert_balanced(&pool.stats());
        assert_eq!(pool.stats().cancelled, 1, "the second run");
    }
}

/// STP-040.
#[test]
fn a_run_that_is_cancelled_is_interrupted_and_nothing_else_is() {
    let (time, pool) = pool(1, true);
    let running = Gate::new();
    let knock = running.clone();
    let (send, receive) = std::sync::mpsc::channel();
    let series = pool.schedule_at_fixed_rate(Duration::ZERO, SECOND, move || {
        knock.open();
        let _ = send.send(interrupt::sleep(LONG).is_err());
    });
    let series = series.unwrap();
    running.pass();
    assert_eq!(series.state(), TaskState::Running);
    let next = pool.submit(interrupt::is_interrupted).unwrap();
    assert!(series.cancel(true));
    assert!(receive.recv_timeout(LONG).unwrap(), "interrupted");
    assert!(!soon(next).unwrap(), "the next task on that worker is not");
    time.advance(HOUR);
    catch_up(&pool);
    assert!(receive.try_recv().is_err(), "no further run, and the closure is gone");
    end(&pool);
}

/// STP-041: although workers sleep until the head of the queue is due.
#[test]
fn what_a_cancelled_task_captured_is_released_at_once() {
    for manual in [true, false] {
        let pool = if manual { pool(2, false).1 } else { executors::scheduled(2) };
        let captured = Counter::new();
        let handles: Vec<_> = (0..10)
            .map(|n| {
                let kept = captured.on_drop();
                pool.schedule(HOUR + n * SECOND, move || drop(kept)).unwrap()
            })
            .collect();
        pool.prestart_all_core_threads();
        eventually(|| pool.parked_workers().all == 2);
        for (n, handle) in handles.iter().enumerate() {
            handle.cancel(false);
            assert_eq!(captured.get(), n + 1);
        }
        assert_eq!((pool.queued_count(), pool.purge()), (10, 10));
        end(&pool);
    }
}

/// The periodic task does not need its handle; but a handle that cancels on drop ends it.
#[test]
fn dropping_the_handle_detaches_and_cancel_on_drop_cancels() {
    let (time, pool) = pool(1, true);
    let runs = Counter::new();
    let (one, two) = (runs.clone(), runs.clone());
    drop(pool.schedule_at_fixed_rate(SECOND, SECOND, move || one.add()).unwrap());
    let guard = pool.schedule_at_fixed_rate(SECOND, SECOND, move || two.add()).unwrap().cancel_on_drop();
    time.advance(SECOND);
    catch_up(&pool);
    assert_eq!(runs.get(), 2);
    drop(guard);
    assert_eq!(pool.queued_count(), 1);
    time.advance(SECOND);
    catch_up(&pool);
    assert_eq!(runs.get(), 3);
    end(&pool);
}

/// A panic in the destructor of a capture has no effect on other tasks.
#[test]
fn a_destructor_that_panics_hurts_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            die("in the destructor");
        }
    }
    let (time, pool) = pool(1, true);
    let (first, second, third) = (Bomb, Bomb, Bomb);
    let waiting = pool.schedule_at_fixed_rate(HOUR, SECOND, move || _ = &first).unwrap();
    assert!(waiting.cancel(false));
    let panics = pool.schedule_at_fixed_rate(Duration::ZERO, SECOND, move || {
        let _ = &second;
        die("in the run");
    });
    assert!(matches!(soon(panics.unwrap().into_handle()), Err(JoinError::Panicked(_))));
    let in_shutdown = pool.schedule_at_fixed_rate(HOUR, SECOND, move || _ = &third).unwrap();
    time.advance(SECOND);
    catch_up(&pool);
    end(&pool);
    assert!(in_shutdown.is_cancelled());
    assert_balanced(&pool.stats());
}

/// A zero period is rejected. The returned task can still run once.
#[test]
fn a_period_of_zero_is_refused_and_the_work_comes_back() {
    let (_time, pool) = pool(1, false);
    let runs = Counter::new();
    for rate in [true, false] {
        let counter = runs.clone();
        let body = move || counter.add();
        let refused = if rate {
            pool.schedule_at_fixed_rate(SECOND, Duration::ZERO, body)
        } else {
            pool.schedule_with_fixed_delay(SECOND, Duration::ZERO, body)
        };
        let refused = refused.unwrap_err();
        assert_eq!(refused.reason(), RejectReason::ZeroPeriod);
        refused.into_task().run();
    }
    assert_eq!(runs.get(), 2);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.rejected, stats.pool_size), (0, 2, 0));
    let counter = runs.clone();
    let refused = pool.schedule_at_fixed_rate(SECOND, Duration::ZERO, move || counter.add()).unwrap_err();
    pool.execute_task(refused.into_task()).unwrap(); // runs once
    catch_up(&pool);
    assert_eq!((runs.get(), pool.queued_count()), (3, 0));
    end(&pool);
}

/// Of all threads, only the cancelling one removes a timer of a long queue. One thread cancels
/// timers of all kinds while another drops their handles; some become due meanwhile, some outlive
/// the pool. Each runs, is cancelled or is returned, exactly once, and its captures are dropped.
#[test]
fn timers_cancelled_while_they_fall_due_and_their_handles_go_are_given_up_once() {
    const EACH: usize = 3000;
    for round in rounds(6) {
        let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(2).remove_on_cancel_policy(true);
        let pool = pool.build().unwrap();
        let (cargo, ran, cancelled) = (Arc::new(()), Counter::new(), Counter::new());
        let schedule = |n: usize| {
            let (cargo, ran) = (Arc::clone(&cargo), ran.clone());
            let due = if n.is_multiple_of(4) { Duration::from_micros(20 * n as u64) } else { HOUR };
            let body = move || {
                let _cargo = cargo;
                ran.add();
            };
            match n % 3 {
                0 => pool.schedule_task(due, TaskOf::new(body).named("with a name")).unwrap(),
                1 => {
                    let room = [n; 40]; // too large to be stored inline
                    pool.schedule(due, move || body_and(body, room)).unwrap()
                }
                _ => pool.schedule(due, body).unwrap(),
            }
        };
        let handles: Vec<_> = (0..EACH).map(schedule).collect();
        let cancellers: Vec<Canceller> = handles.iter().map(|handle| handle.canceller()).collect();
        let cancel = |which: usize| {
            let chosen = cancellers.iter().enumerate().filter(|(n, _)| !(n + round).is_multiple_of(5));
            let chosen = chosen.filter(|(n, _)| n % 2 == which);
            let done = chosen.filter(|(_, canceller)| canceller.cancel(false)).count();
            (0..done).for_each(|_| cancelled.add());
        };
        thread::scope(|scope| {
            scope.spawn(|| cancel(0));
            scope.spawn(|| cancel(1));
            scope.spawn(|| drop(handles));
        });
        // Due tasks must end before the pool, whose shutdown would cancel the ones just taken.
        let stays = |n: &usize| !n.is_multiple_of(4) && (n + round).is_multiple_of(5);
        eventually(|| pool.queued_count() == (0..EACH).filter(stays).count() && pool.active_count() == 0);
        let left = pool.shutdown_now();
        await_end(&pool);
        let stats = pool.stats();
        assert_eq!(stats.cancelled as usize, cancelled.get());
        assert_eq!(stats.completed as usize + cancelled.get() + left.len(), EACH);
        assert!(ran.get() >= stats.completed as usize, "and those that were cancelled while they ran");
        drop((left, cancellers, pool));
        eventually(|| Arc::strong_count(&cargo) == 1);
    }
}

fn body_and<const N: usize>(body: impl FnOnce(), room: [usize; N]) {
    std::hint::black_box(room);
    body();
}

// Regression: a cancel before its task was queued had nothing to remove, and the task was queued
// anyway. The empty entry stayed until its due time.
#[test]
fn a_task_that_is_cancelled_before_it_is_in_the_queue_does_not_stay_there() {
    let (_time, pool) = pool(1, true);
    let (task, handle) = TaskOf::new(|| ()).into_parts();
    assert!(handle.cancel(false));
    pool.execute_task_after(HOUR, task).unwrap();
    assert_eq!(pool.queued_count(), 0);
    for _ in rounds(500) {
        let (task, handle) = TaskOf::new(|| ()).into_parts();
        thread::scope(|threads| {
            threads.spawn(|| assert!(handle.cancel(false)));
            pool.execute_task_after(HOUR, task).unwrap();
        });
        assert_eq!(pool.queued_count(), 0);
    }
    end(&pool);
    assert_balanced(&pool.stats());
}
