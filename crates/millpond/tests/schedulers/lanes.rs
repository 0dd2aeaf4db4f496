//! Workers and their tasks: order, disposal, panics, and moving between threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::scheduling::{
    MINUTE, assert_settled, builder, elastic, end, ended, hold, hold_lane, per_task, strict,
};
use crate::support::{Counter, Gate, LONG, Rng, SHORT, die, eventually, rounds, together};
use millpond::interrupt::{self, Interrupted};
use millpond::schedulers::{self, Disposable, Scheduler, SchedulerExt, Worker};
use millpond::{JoinError, ManualClock, RejectReason, TaskOf, executors};

const SECOND: Duration = Duration::from_secs(1);

type Log = Arc<Mutex<Vec<usize>>>;

fn note(log: &Log, n: usize) -> impl FnOnce() + Send + 'static {
    let log = Arc::clone(log);
    move || log.lock().unwrap().push(n)
}

fn count(counter: &Counter) -> impl FnMut() + Send + 'static {
    let counter = counter.clone();
    move || counter.add()
}

// RS-068
#[test]
fn work_without_delay_is_due_at_once_and_equal_times_keep_the_order_of_submission() {
    let time = ManualClock::new();
    let scheduler = builder(1, 100, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let log = Log::default();
    let held = hold_lane(&worker);
    worker.schedule_after(2 * SECOND, note(&log, 5)).unwrap();
    worker.schedule_after(SECOND, note(&log, 3)).unwrap();
    worker.schedule_after(SECOND, note(&log, 4)).unwrap();
    worker.schedule_after(Duration::ZERO, note(&log, 1)).unwrap();
    worker.schedule(note(&log, 2)).unwrap();
    assert_eq!(worker.queued(), 5);
    time.advance(3 * SECOND);
    held.let_go();
    eventually(|| log.lock().unwrap().len() == 5);
    assert_eq!(*log.lock().unwrap(), [1, 2, 3, 4, 5]);
    end(&scheduler);
}

// RS-068: the due time decides, not the time at which a thread becomes available.
#[test]
fn late_work_of_a_lane_runs_by_due_time_also_against_work_submitted_later() {
    let time = ManualClock::new();
    let scheduler = builder(1, 100, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let log = Log::default();
    let held = hold(&scheduler);
    worker.schedule_after(SECOND, note(&log, 1)).unwrap();
    time.advance(2 * SECOND);
    worker.schedule(note(&log, 2)).unwrap();
    worker.schedule_after(SECOND, note(&log, 3)).unwrap();
    held.let_go();
    eventually(|| log.lock().unwrap().len() == 2);
    assert_eq!(worker.queued(), 1);
    time.advance(SECOND);
    eventually(|| log.lock().unwrap().len() == 3);
    assert_eq!(*log.lock().unwrap(), [1, 2, 3]);
    end(&scheduler);
}

/// The four mixes of initial delay and period.
const MIXES: [(Duration, Duration); 4] =
    [(Duration::ZERO, Duration::ZERO), (MINUTE, Duration::ZERO), (Duration::ZERO, MINUTE), (MINUTE, MINUTE)];

// RS-071
#[test]
fn a_disposed_worker_cancels_what_it_has_and_refuses_everything_else() {
    for scheduler in [elastic(1, 100), strict(1, 100), per_task(1, 100)] {
        let worker = scheduler.create_worker();
        let (running, (tell, told)) = (Gate::new(), mpsc::channel());
        let knock = running.clone();
        let runs = worker.schedule(move || {
            knock.open();
            tell.send(interrupt::sleep(LONG)).unwrap();
        });
        let ran = Counter::new();
        let mut waiting = vec![worker.schedule(count(&ran)).unwrap()];
        waiting.push(worker.schedule_after(MINUTE, count(&ran)).unwrap());
        for (initial, period) in MIXES {
            waiting.push(worker.schedule_periodically(initial, period, count(&ran)).unwrap());
        }
        running.pass();
        assert_eq!(worker.queued(), 6);
        worker.dispose();
        assert_eq!(told.recv_timeout(LONG), Ok(Err(Interrupted)), "the running one is interrupted");
        assert!(waiting.iter().chain([&runs.unwrap()]).all(Disposable::is_cancelled));
        assert!(worker.is_disposed() && worker.queued() == 0);
        let refuse = |refused: millpond::Rejected| {
            assert_eq!(refused.reason(), RejectReason::WorkerDisposed);
        };
        refuse(worker.schedule(|| {}).unwrap_err());
        refuse(worker.schedule_after(MINUTE, || {}).unwrap_err());
        for (initial, period) in MIXES {
            refuse(worker.schedule_periodically(initial, period, || {}).unwrap_err());
        }
        ended(&scheduler.schedule(|| {}).unwrap());
        eventually(|| scheduler.busy() == 0);
        assert_eq!(ran.get(), 0);
        assert_settled(&scheduler, 8, 100);
        assert_eq!((scheduler.stats().cancelled, scheduler.stats().rejected), (6, 6));
        end(&scheduler);
    }
}

// RS-072
#[test]
fn a_worker_that_is_disposed_leaves_the_others_of_its_slot_alone() {
    let scheduler = strict(1, 100);
    let (one, other) = (scheduler.create_worker(), scheduler.create_worker());
    let held = hold(&scheduler);
    let (of_one, of_other) = (Counter::new(), Counter::new());
    for _ in 0..5 {
        one.schedule(count(&of_one)).unwrap();
        other.schedule(count(&of_other)).unwrap();
    }
    one.dispose();
    assert_eq!((one.queued(), other.queued(), scheduler.queued()), (0, 5, 5));
    held.let_go();
    eventually(|| of_other.get() == 5);
    assert_eq!(scheduler.busy(), 1, "the other still holds the slot");
    other.dispose();
    eventually(|| scheduler.busy() == 0);
    assert_eq!(of_one.get(), 0);
    end(&scheduler);
    assert_settled(&scheduler, 11, 100);
}

// RS-073
#[test]
fn disposing_twice_changes_nothing() {
    let scheduler = elastic(1, 10);
    let worker = scheduler.create_worker();
    let held = hold_lane(&worker);
    let waits = worker.schedule(|| {}).unwrap();
    assert!(waits.dispose());
    assert!(!waits.dispose());
    assert!(held.handle.dispose());
    assert!(!held.handle.dispose());
    let before = scheduler.stats();
    waits.dispose();
    held.handle.dispose();
    assert_eq!(scheduler.stats(), before);
    held.let_go();
    let done = worker.schedule(|| {}).unwrap();
    ended(&done);
    assert!(!done.dispose() && !done.is_cancelled(), "it is done");
    worker.dispose();
    let before = scheduler.stats();
    worker.dispose();
    assert_eq!(scheduler.stats(), before);
    end(&scheduler);
    assert_settled(&scheduler, 3, 10);
}

// RS-073: of several concurrent disposals exactly one returns true.
#[test]
fn of_two_that_dispose_a_task_at_the_same_time_one_did_it() {
    let scheduler = elastic(1, 10);
    let held = hold(&scheduler);
    let mut tasks = 1;
    for _ in rounds(1000) {
        let waits = scheduler.schedule(|| {}).unwrap();
        let twin = waits.clone();
        let (mine, theirs) = together(|| waits.dispose(), move || twin.dispose());
        assert!(mine != theirs);
        tasks += 1;
    }
    held.let_go();
    end(&scheduler);
    assert_settled(&scheduler, tasks, 10);
}

// RS-074
#[test]
fn a_disposed_worker_marks_all_its_handles() {
    let scheduler = elastic(2, 100);
    let worker = scheduler.create_worker();
    let handles: Vec<_> =
        (0..10).map(|_| worker.schedule(|| assert!(interrupt::sleep(LONG).is_err())).unwrap()).collect();
    assert!(!handles.iter().any(Disposable::is_disposed));
    worker.dispose();
    assert!(handles.iter().all(|handle| handle.is_disposed() && handle.is_cancelled()));
    end(&scheduler);
}

// RS-075
#[test]
fn a_finished_task_is_disposed_and_a_series_only_once_it_is_told() {
    let time = ManualClock::new();
    let scheduler = builder(1, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let once = worker.schedule(|| {}).unwrap();
    ended(&once);
    assert!(once.is_disposed() && !once.is_cancelled());
    assert_eq!(worker.queued(), 0);
    let runs = Counter::new();
    for by_worker in [false, true] {
        let before = runs.get();
        let series = if by_worker {
            worker.schedule_periodically(Duration::ZERO, SECOND, count(&runs)).unwrap()
        } else {
            scheduler.schedule_periodically(Duration::ZERO, SECOND, count(&runs)).unwrap()
        };
        eventually(|| runs.get() == before + 1 && scheduler.queued() == 1);
        assert!(!series.is_disposed());
        time.advance(SECOND);
        eventually(|| runs.get() == before + 2);
        assert!(!series.is_disposed());
        assert!(series.dispose());
        assert!(series.is_disposed() && series.is_cancelled());
        ended(&series);
        time.advance(SECOND);
    }
    assert_eq!(worker.queued(), 0);
    worker.dispose();
    end(&scheduler);
    assert_eq!(runs.get(), 4);
}

// RS-078
#[test]
fn a_run_racing_disposal_leaves_nothing_in_the_worker() {
    let mut rng = Rng::new();
    for scheduler in [elastic(2, 100), per_task(2, 100)] {
        let worker = scheduler.create_worker();
        let mut accepted = 0;
        for _ in rounds(2500) {
            let ran = Counter::new();
            let task = worker.schedule(count(&ran)).unwrap();
            rng.dawdle();
            let cancelled = task.dispose();
            ended(&task);
            assert_eq!(task.is_cancelled(), cancelled);
            assert!(cancelled || ran.get() == 1, "neither cancelled nor run");
            accepted += 1;
        }
        eventually(|| worker.queued() == 0 && scheduler.queued() == 0);
        worker.dispose();
        end(&scheduler);
        assert_settled(&scheduler, accepted, 200);
    }
}

// RS-078: worker disposal against its runs.
#[test]
fn a_worker_disposed_while_its_tasks_run_accounts_for_all_of_them() {
    let mut rng = Rng::new();
    let scheduler = elastic(2, 100);
    let mut accepted = 0;
    for _ in rounds(1000) {
        let worker = scheduler.create_worker();
        let ran = Counter::new();
        let tasks: Vec<_> = (0..4).map(|_| worker.schedule(count(&ran)).unwrap()).collect();
        accepted += 4;
        rng.dawdle();
        worker.dispose();
        tasks.iter().for_each(ended);
        let uncancelled = tasks.iter().filter(|task| !task.is_cancelled()).count();
        assert!((uncancelled..=uncancelled + 1).contains(&ran.get()), "one may have been running");
        assert_eq!(worker.queued(), 0);
    }
    end(&scheduler);
    assert_settled(&scheduler, accepted, 200);
}

// RS-079
#[test]
fn a_task_that_panics_is_done_and_its_thread_and_worker_go_on() {
    for scheduler in [elastic(1, 10), strict(1, 10), per_task(1, 10)] {
        let worker = scheduler.create_worker();
        let dies = worker.schedule(|| die("oh no")).unwrap();
        ended(&dies);
        assert!(dies.is_disposed() && !dies.is_cancelled());
        assert_eq!(worker.queued(), 0);
        ended(&worker.schedule(|| {}).unwrap());
        ended(&scheduler.schedule(|| die("no, no")).unwrap());
        ended(&scheduler.schedule(|| {}).unwrap());
        worker.dispose();
        end(&scheduler);
        assert_settled(&scheduler, 4, 10);
        assert_eq!(scheduler.stats().panicked, 2);
    }
}

struct DiesWhenDropped(Counter);

impl Drop for DiesWhenDropped {
    fn drop(&mut self) {
        self.0.add();
        die("in a destructor");
    }
}

// RS-079: captures may also panic in their destructor, on any thread.
#[test]
fn a_destructor_that_panics_hurts_nobody() {
    for scheduler in [elastic(1, 10), per_task(1, 10)] {
        let dropped = Counter::new();
        let captures = || {
            let dies = DiesWhenDropped(dropped.clone());
            move || {
                let _dies = &dies;
            }
        };
        let worker = scheduler.create_worker();
        ended(&worker.schedule(captures()).unwrap()); // dropped after the run
        ended(&scheduler.schedule(captures()).unwrap());
        let series = worker.schedule_periodically(MINUTE, MINUTE, captures()).unwrap();
        assert!(series.dispose()); // dropped by the cancelling thread
        let held = hold(&scheduler);
        let waits = scheduler.schedule(captures()).unwrap();
        assert!(waits.dispose());
        worker.schedule(captures()).unwrap();
        worker.dispose(); // dropped with its worker
        scheduler.schedule(captures()).unwrap();
        scheduler.schedule_after(MINUTE, captures()).unwrap();
        scheduler.dispose(); // dropped with its scheduler
        held.let_go();
        end(&scheduler);
        assert_eq!(dropped.get(), 7);
        assert_settled(&scheduler, 8, 10);
        assert_eq!(scheduler.stats().live_threads, 0);
    }
}

// RS-087: better than Reactor, where an idle worker reports one task.
#[test]
fn a_worker_reports_the_tasks_that_wait_and_nothing_else() {
    let scheduler = elastic(1, 10);
    let worker = scheduler.create_worker();
    assert_eq!(worker.queued(), 0);
    let held = hold_lane(&worker);
    assert_eq!(worker.queued(), 0, "what runs does not wait");
    worker.schedule(|| {}).unwrap();
    worker.schedule_after(MINUTE, || {}).unwrap();
    let series = worker.schedule_periodically(MINUTE, MINUTE, || {}).unwrap();
    assert_eq!(worker.queued(), 3);
    assert!(series.dispose());
    assert_eq!(worker.queued(), 2);
    held.let_go();
    eventually(|| worker.queued() == 1);
    worker.dispose();
    assert_eq!(worker.queued(), 0);
    end(&scheduler);
}

// A thread runs several short tasks of a lane without a new scheduling decision. This must not be
// observable.
#[test]
fn counts_are_exact_in_the_midst_of_what_a_lane_runs_in_one_go() {
    const TASKS: u64 = 20;
    for scheduler in [elastic(1, 100), strict(1, 100)] {
        let worker = scheduler.create_worker();
        let held = hold_lane(&worker);
        let seen = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..TASKS {
            let (scheduler, seen) = (scheduler.clone(), Arc::clone(&seen));
            let look = move || {
                let stats = scheduler.stats();
                seen.lock().unwrap().push((stats.completed, stats.queued, stats.remaining_capacity));
            };
            worker.schedule(look).unwrap();
        }
        assert_eq!(scheduler.stats().submitted, 1 + TASKS);
        held.let_go();
        end(&scheduler);
        let exact = (0..TASKS).map(|n| (1 + n, TASKS - 1 - n, 100 - (TASKS - 1 - n)));
        assert_eq!(*seen.lock().unwrap(), exact.collect::<Vec<_>>());
    }
}

// Only short tasks: after a long one, other lanes get their turn.
#[test]
fn a_lane_with_long_tasks_does_not_keep_its_thread_from_others() {
    let scheduler = elastic(1, 100);
    let (worker, log) = (scheduler.create_worker(), Log::default());
    let held = hold_lane(&worker);
    let (inner, other, first) = (scheduler.clone(), note(&log, 2), note(&log, 1));
    let long = move || {
        first();
        inner.schedule(other).unwrap();
        thread::sleep(SHORT);
    };
    worker.schedule(long).unwrap();
    (3..6).for_each(|n| drop(worker.schedule(note(&log, n)).unwrap()));
    held.let_go();
    eventually(|| log.lock().unwrap().len() == 5);
    assert_eq!(*log.lock().unwrap(), [1, 2, 3, 4, 5]);
    end(&scheduler);
}

// A job in a lane can be cancelled until the lane's thread takes it, even by the previous job.
#[test]
fn what_a_lane_has_ready_is_cancelled_by_the_task_before_it() {
    for scheduler in [elastic(1, 100), strict(1, 100)] {
        let (worker, log) = (scheduler.create_worker(), Log::default());
        let held = hold_lane(&worker);
        let later: Arc<Mutex<Vec<Disposable>>> = Arc::default();
        let (victims, first, inner) = (Arc::clone(&later), note(&log, 0), scheduler.clone());
        let cancel = move || {
            first();
            let victims = std::mem::take(&mut *victims.lock().unwrap());
            assert!(victims.iter().step_by(2).all(Disposable::dispose));
            assert_eq!((inner.stats().queued, inner.stats().cancelled), (5, 5));
        };
        let canceller = worker.schedule(cancel).unwrap();
        let tasks = (1..=10).map(|n| worker.schedule(note(&log, n)).unwrap());
        later.lock().unwrap().extend(tasks);
        held.let_go();
        ended(&canceller);
        end(&scheduler);
        assert_eq!(*log.lock().unwrap(), [0, 2, 4, 6, 8, 10]);
        assert_eq!(scheduler.stats().panicked, 0);
        assert_settled(&scheduler, 12, 100);
    }
}

// Lanes keep their order and do not overlap when threads steal from each other's queues.
#[test]
fn many_lanes_on_few_threads_keep_order_and_do_not_overlap() {
    const LANES: usize = 8;
    const TASKS: usize = 500;
    for scheduler in [elastic(3, 10_000), strict(3, 10_000), per_task(3, 10_000)] {
        let tasks = if scheduler.to_string().starts_with("loom") { TASKS / 5 } else { TASKS };
        let lanes: Vec<(Worker, Log, Arc<AtomicUsize>)> =
            (0..LANES).map(|_| (scheduler.create_worker(), Log::default(), Arc::default())).collect();
        thread::scope(|s| {
            for lane in lanes.chunks(2) {
                s.spawn(move || {
                    for n in 0..tasks {
                        for (worker, log, inside) in lane {
                            let (note, inside) = (note(log, n), Arc::clone(inside));
                            let task = move || {
                                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                                note();
                                if n % 50 == 0 {
                                    thread::yield_now();
                                }
                                inside.fetch_sub(1, Ordering::SeqCst);
                            };
                            worker.schedule(task).unwrap();
                        }
                    }
                });
            }
        });
        end(&scheduler);
        for (_, log, _) in &lanes {
            assert!(log.lock().unwrap().iter().copied().eq(0..tasks));
        }
        assert_eq!(scheduler.stats().panicked, 0);
        assert_settled(&scheduler, LANES * tasks, 30_000);
    }
}

// The same for delayed work: by due time, then by submission.
#[test]
fn many_lanes_with_work_in_time_keep_the_order_of_due_times() {
    let time = ManualClock::new();
    let scheduler = builder(3, 10_000, &time).build().unwrap();
    let mut rng = Rng::new();
    let held: Vec<_> = (0..3).map(|_| hold(&scheduler)).collect();
    let lanes: Vec<_> = (0..8)
        .map(|_| {
            let (worker, log) = (scheduler.create_worker(), Log::default());
            let mut expected: Vec<(usize, usize)> = Vec::new();
            for n in 0..100 {
                let seconds = rng.below(5);
                let delay = Duration::from_secs(seconds as u64);
                worker.schedule_after(delay, note(&log, n)).unwrap();
                expected.push((seconds, n));
            }
            expected.sort();
            (worker, log, expected)
        })
        .collect();
    time.advance(10 * SECOND);
    held.into_iter().for_each(|held| held.let_go());
    end(&scheduler);
    for (_, log, expected) in &lanes {
        let expected: Vec<usize> = expected.iter().map(|(_, n)| *n).collect();
        assert_eq!(*log.lock().unwrap(), expected);
    }
}

// A lane whose slot is busy moves to another thread, unless it is strict.
#[test]
fn a_lane_moves_to_a_free_thread_unless_it_is_strict() {
    let soft = elastic(2, 10);
    let one = soft.create_worker();
    let (first, second) = (hold_lane(&one), hold(&soft));
    let shares = soft.create_worker(); // both are busy, so it shares one of them
    let waits = shares.schedule(|| {}).unwrap();
    assert_eq!(waits.wait(SHORT), Ok(false));
    second.let_go();
    ended(&waits);
    let again = shares.schedule(|| {}).unwrap();
    ended(&again);
    first.let_go();
    end(&soft);

    let strict = strict(2, 10);
    let pair = [strict.create_worker(), strict.create_worker()];
    let homes: Vec<_> = pair.iter().map(crate::scheduling::thread_of).collect();
    let held = hold_lane(&pair[0]);
    let shares = strict.create_worker();
    let also = strict.create_worker();
    assert_eq!(crate::scheduling::thread_of(&shares), homes[1], "the one that has the least to do");
    let log = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&log);
    let note = move || *noted.lock().unwrap() = Some(thread::current().id());
    let waits = also.schedule(note).unwrap();
    held.let_go();
    ended(&waits);
    assert!(homes.contains(&log.lock().unwrap().unwrap()));
    end(&strict);
}

// Dropping the last handle of a worker lets its work finish and then frees its slot.
#[test]
fn a_worker_that_is_dropped_finishes_and_then_frees_its_slot() {
    let time = ManualClock::new();
    let scheduler = builder(2, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let twin = worker.clone();
    let log = Log::default();
    let held = hold_lane(&worker);
    worker.schedule(note(&log, 1)).unwrap();
    worker.schedule_after(SECOND, note(&log, 2)).unwrap();
    drop(worker);
    twin.schedule(note(&log, 3)).unwrap();
    drop(twin);
    held.let_go();
    eventually(|| *log.lock().unwrap() == [1, 3]);
    assert_eq!(scheduler.busy(), 1, "it still has something to do");
    time.advance(SECOND);
    eventually(|| *log.lock().unwrap() == [1, 3, 2] && scheduler.busy() == 0);
    end(&scheduler);
    assert_settled(&scheduler, 4, 20);
}

// A worker keeps its scheduler alive.
#[test]
fn a_worker_outlives_the_handle_of_its_scheduler() {
    let scheduler = schedulers::new_bounded_elastic(1, 10, "outlived", MINUTE).unwrap();
    let worker = scheduler.create_worker();
    drop(scheduler);
    assert!(!worker.is_disposed());
    let (tell, told) = mpsc::channel();
    let task = worker.schedule(move || tell.send(()).unwrap()).unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok(()));
    ended(&task);
}

/// Runs `f` in a task of `worker`, and returns its result. Fails after `LONG`.
#[track_caller]
fn inside<R: Send + 'static>(worker: &Worker, f: impl FnOnce(&Worker) -> R + Send + 'static) -> R {
    let (done, result) = mpsc::channel();
    let own = worker.clone();
    worker.schedule(move || done.send(f(&own)).unwrap()).unwrap();
    result.recv_timeout(LONG).expect("it returns at once")
}

/// One scheduler of each kind with lanes of the engine, and one that is itself a lane.
fn with_lanes() -> Vec<Arc<dyn Scheduler>> {
    vec![
        schedulers::new_single("own").unwrap(),
        schedulers::new_parallel(2, "own").unwrap(),
        schedulers::new_bounded_elastic(2, 100, "own", Duration::from_secs(60)).unwrap(),
        schedulers::from_executor_service(executors::fixed(2).unwrap()),
        schedulers::single_worker(&schedulers::new_parallel(2, "own").unwrap()),
    ]
}

#[test]
fn a_wait_for_a_later_task_of_the_own_lane_is_false_at_once() {
    for scheduler in with_lanes() {
        let worker = scheduler.create_worker();
        let later = inside(&worker, |worker| {
            let later = worker.schedule(|| {}).unwrap();
            assert_eq!(later.wait(Duration::MAX), Ok(false));
            later
        });
        assert_eq!(later.wait(LONG), Ok(true), "{scheduler}");
        assert!(!later.is_cancelled());
    }
}

#[test]
fn a_wait_for_a_delayed_task_of_the_own_lane_is_false_at_once() {
    let scheduler = schedulers::new_parallel(2, "own-later").unwrap();
    let worker = scheduler.create_worker();
    let later = inside(&worker, |worker| {
        let later = worker.schedule_after(Duration::from_millis(1), || {}).unwrap();
        assert_eq!(later.wait(Duration::MAX), Ok(false));
        later
    });
    assert_eq!(later.wait(LONG), Ok(true));
}

#[test]
fn a_join_of_a_later_task_of_the_own_lane_would_deadlock() {
    for scheduler in with_lanes() {
        let worker = scheduler.create_worker();
        let mut handle = inside(&worker, |worker| {
            let (task, mut handle) = TaskOf::new(|| 42).into_parts();
            worker.schedule_task(task).unwrap();
            let joined = handle.join_timeout(Duration::MAX);
            assert!(matches!(joined, Some(Err(JoinError::WouldDeadlock))), "{joined:?}");
            handle
        });
        assert!(matches!(handle.join_timeout(LONG), Some(Ok(42))), "{scheduler}");
    }
}

#[test]
fn a_task_that_waits_for_itself_is_told_at_once_that_this_is_in_vain() {
    let scheduler = schedulers::new_single("itself").unwrap();
    let (give, take) = mpsc::channel::<Disposable>();
    let (done, waited) = mpsc::channel();
    let task = scheduler.schedule(move || done.send(take.recv().unwrap().wait(Duration::MAX)).unwrap());
    let task = task.unwrap();
    give.send(task.clone()).unwrap();
    assert_eq!(waited.recv_timeout(LONG), Ok(Ok(false)));
    assert_eq!(task.wait(LONG), Ok(true));
}
