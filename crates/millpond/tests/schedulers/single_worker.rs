//! One worker of a scheduler, used as a scheduler: one lane, several owners, its own end.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::support::{Counter, Gate, LONG, Notes, SHORT, block, die, eventually, rounds};
use millpond::schedulers::{
    self, BoundedElasticScheduler, Disposable, Lane, PeriodicTask, Scheduler, SchedulerExt, SchedulerStats,
    Worker,
};
use millpond::{Interrupted, ManualClock, RejectReason, Rejected, Task, TaskOf, interrupt};

const SECOND: Duration = Duration::from_secs(1);

fn elastic(time: &ManualClock) -> BoundedElasticScheduler {
    let builder = BoundedElasticScheduler::builder().max_threads(3).queue_capacity_per_thread(100);
    builder.clock(time.clock()).thread_per_task(false).build().unwrap()
}

/// Occupies the lane until the gate opens. Returns when it is busy.
#[track_caller]
fn occupy(scheduler: &dyn Scheduler, gate: &Gate) -> Disposable {
    let (running, gate) = (Gate::new(), gate.clone());
    let started = running.clone();
    let task = scheduler.schedule(move || {
        started.open();
        gate.pass();
    });
    running.pass();
    task.unwrap()
}

#[track_caller]
fn assert_settled(scheduler: &dyn Scheduler, accepted: u64) {
    let stats = scheduler.stats();
    assert_eq!((stats.queued, stats.submitted), (0, accepted), "{stats:?}");
    assert_eq!(stats.completed + stats.panicked + stats.cancelled, accepted, "{stats:?}");
}

#[test]
fn everything_runs_one_at_a_time_in_order_whoever_it_was_given_to() {
    let time = ManualClock::new();
    let original = elastic(&time);
    let single = schedulers::single_worker(&original);
    let workers = [single.create_worker(), single.create_worker()];
    let (gate, order, inside) = (Gate::new(), Notes::new(), Arc::new(AtomicUsize::new(0)));
    occupy(&*single, &gate);
    for number in 0..30 {
        let (order, inside) = (order.clone(), Arc::clone(&inside));
        let task = Task::new(move || {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
            order.add(number);
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
        });
        match number % 3 {
            0 => single.schedule_task(task).unwrap(),
            owner => workers[owner - 1].schedule_task(task).unwrap(),
        };
    }
    assert_eq!((single.stats().queued, workers[0].queued(), workers[1].queued()), (30, 10, 10));
    gate.open();
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    assert_eq!(order.take(), (0..30).collect::<Vec<_>>());
    assert_eq!(single.stats().panicked, 0);
    assert_settled(&*single, 31);
}

#[test]
fn delayed_work_and_series_keep_their_time() {
    let time = ManualClock::new();
    let original = elastic(&time);
    let single = schedulers::single_worker(&original);
    let worker = single.create_worker();
    let notes = Notes::new();
    let n = notes.clone();
    single.schedule_after(2 * SECOND, move || n.add("delayed")).unwrap();
    let n = notes.clone();
    let series = worker.schedule_periodically(SECOND, 2 * SECOND, move || n.add("series")).unwrap();
    let mut seen = Vec::new();
    for (second, count) in [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4)] {
        time.advance(SECOND);
        eventually(|| {
            seen.extend(notes.take());
            seen.len() == count
        });
        assert!(time.elapsed() == second * SECOND);
    }
    assert_eq!(seen, ["series", "delayed", "series", "series"]);
    assert!(series.dispose());
    assert_eq!(single.stats().queued, 0);
    assert_settled(&*single, 5);
}

#[test]
fn a_worker_disposes_of_its_own_work_and_no_other() {
    let time = ManualClock::new();
    let original = elastic(&time);
    let single = schedulers::single_worker(&original);
    let (a, b) = (single.create_worker(), single.create_worker());
    let (gate, ran) = (Gate::new(), Notes::new());
    let busy = occupy(&*single, &gate);
    let give = |worker: &Worker, name: &'static str| {
        let n = ran.clone();
        worker.schedule(move || n.add(name)).unwrap()
    };
    let of_a = [give(&a, "a"), give(&a, "a"), a.schedule_periodically(SECOND, SECOND, || {}).unwrap()];
    let of_b = give(&b, "b");
    let n = ran.clone();
    single.schedule(move || n.add("direct")).unwrap();
    a.dispose();
    a.dispose();
    assert!(of_a.iter().all(Disposable::is_cancelled) && a.is_disposed());
    assert!(!busy.is_disposed() && !of_b.is_disposed() && !b.is_disposed() && !single.is_disposed());
    assert_eq!((a.queued(), b.queued()), (0, 1));
    assert_eq!(a.schedule(|| {}).unwrap_err().reason(), RejectReason::WorkerDisposed);
    assert_eq!(a.schedule_after(SECOND, || {}).unwrap_err().reason(), RejectReason::WorkerDisposed);
    assert_eq!(
        a.schedule_periodically(SECOND, SECOND, || {}).unwrap_err().reason(),
        RejectReason::WorkerDisposed
    );
    gate.open();
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    assert_eq!(ran.take(), ["b", "direct"]);
    assert_settled(&*single, 6);
    assert_eq!(single.stats().rejected, 3);
}

#[test]
fn a_worker_that_is_disposed_of_interrupts_its_own_run_only() {
    let original = schedulers::new_single("one").unwrap();
    let single = schedulers::single_worker(&original);
    let (a, b) = (single.create_worker(), single.create_worker());
    let (running, interrupted) = (Gate::new(), Notes::new());
    let (started, n) = (running.clone(), interrupted.clone());
    let task = a.schedule(move || {
        started.open();
        n.add(interrupt::sleep(LONG).is_err());
    });
    running.pass();
    b.dispose();
    assert!(!task.as_ref().unwrap().is_disposed());
    a.dispose();
    assert_eq!(task.unwrap().wait(LONG), Ok(true));
    assert_eq!(interrupted.take(), [true]);
    assert_eq!(single.schedule(|| {}).unwrap().wait(LONG), Ok(true));
}

#[test]
fn disposing_ends_the_lane_and_leaves_the_original_alone() {
    let time = ManualClock::new();
    let original = elastic(&time);
    let single = schedulers::single_worker(&original);
    let worker = single.create_worker();
    let (running, interrupted) = (Gate::new(), Gate::new());
    let (started, told) = (running.clone(), interrupted.clone());
    let runs = single.schedule(move || {
        started.open();
        interrupt::sleep(LONG).unwrap_err();
        told.open();
    });
    let waits = [worker.schedule(|| {}).unwrap(), single.schedule_after(SECOND, || {}).unwrap()];
    running.pass();
    single.dispose();
    assert!(waits.iter().all(Disposable::is_cancelled));
    interrupted.pass();
    assert_eq!(runs.unwrap().wait(LONG), Ok(true));
    assert!(single.is_disposed() && worker.is_disposed() && single.create_worker().is_disposed());
    let refused = single.schedule(|| {}).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::Shutdown);
    assert!(refused.to_string().contains("singleWorker("), "{refused}");
    assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    assert!(!original.is_disposed());
    assert_eq!((original.busy(), single.stats().slots), (0, 0));
    assert_eq!(original.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    assert_settled(&*single, 3);
}

/// RS-104: delegates a graceful end.
#[test]
fn a_graceful_end_runs_what_it_has_ends_series_and_then_frees_the_slot() {
    let time = ManualClock::new();
    let original = elastic(&time);
    let single = schedulers::single_worker(&original);
    let (gate, ran) = (Gate::new(), Notes::new());
    occupy(&*single, &gate);
    let n = ran.clone();
    single.create_worker().schedule(move || n.add("queued")).unwrap();
    let n = ran.clone();
    single.schedule_after(SECOND, move || n.add("delayed")).unwrap();
    let series = single.schedule_periodically(SECOND, SECOND, || {}).unwrap();
    assert_eq!(original.busy(), 1);
    assert_eq!(single.dispose_gracefully(Duration::ZERO), Ok(false));
    assert!(series.is_cancelled() && single.is_disposed());
    assert_eq!(single.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    gate.open();
    assert_eq!(single.dispose_gracefully(SHORT), Ok(false), "one waits for its time");
    thread::scope(|scope| {
        let waiting = block(scope, || single.dispose_gracefully(LONG));
        time.advance(SECOND);
        assert_eq!(waiting.join(), Ok(true));
    });
    assert_eq!(ran.take(), ["queued", "delayed"]);
    assert_eq!((original.busy(), original.idle(), single.stats().slots), (0, 1, 0));
    assert!(!original.is_disposed());
    assert_settled(&*single, 4);
}

#[test]
fn a_graceful_end_lets_the_run_of_a_series_finish_without_interrupting_it() {
    let original = schedulers::new_parallel(2, "two").unwrap();
    let single = schedulers::single_worker(&original);
    let (running, gate, interrupted) = (Gate::new(), Gate::new(), Notes::new());
    let (started, pass, n) = (running.clone(), gate.clone(), interrupted.clone());
    let series = single.schedule_periodically(Duration::ZERO, Duration::ZERO, move || {
        started.open();
        pass.pass();
        n.add(interrupt::is_interrupted());
    });
    running.pass();
    assert_eq!(single.dispose_gracefully(Duration::ZERO), Ok(false));
    gate.open();
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    assert_eq!(interrupted.take(), [false], "one run, not interrupted");
    assert!(series.unwrap().is_disposed());
    assert_settled(&*single, 1);
}

#[test]
fn a_graceful_end_can_be_interrupted_and_waited_for_again() {
    let original = schedulers::new_single("one").unwrap();
    let single = schedulers::single_worker(&original);
    let gate = Gate::new();
    occupy(&*single, &gate);
    thread::scope(|scope| {
        let waiting = block(scope, || single.dispose_gracefully(LONG));
        waiting.interrupt();
        assert!(waiting.join().is_err());
    });
    gate.open();
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
}

#[test]
fn a_graceful_end_inside_a_task_of_the_lane_does_not_wait_for_itself() {
    let original = schedulers::new_single("one").unwrap();
    let single = schedulers::single_worker(&original);
    let answers = Notes::new();
    let (mine, n) = (Arc::clone(&single), answers.clone());
    single.schedule(move || n.add(mine.dispose_gracefully(Duration::MAX))).unwrap();
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    assert_eq!(answers.take(), [Ok(false)]);
}

struct Wakes(Gate);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.open();
    }
}

#[test]
fn the_disposal_begins_with_the_first_poll_and_wakes_its_task() {
    let original = schedulers::new_single("one").unwrap();
    let single = schedulers::single_worker(&original);
    let (gate, woken) = (Gate::new(), Gate::new());
    occupy(&*single, &gate);
    let waker = Waker::from(Arc::new(Wakes(woken.clone())));
    let mut context = Context::from_waker(&waker);
    let mut disposal = pin!(single.disposal());
    assert!(!single.is_disposed());
    assert_eq!(disposal.as_mut().poll(&mut context), Poll::Pending);
    assert!(single.is_disposed());
    gate.open();
    woken.pass();
    assert_eq!(disposal.as_mut().poll(&mut context), Poll::Ready(()));
}

#[test]
fn dropping_the_last_handle_ends_it_in_good_order() {
    let time = ManualClock::new();
    let original = elastic(&time);
    let single = schedulers::single_worker(&original);
    let worker = single.create_worker();
    let (gate, ran) = (Gate::new(), Counter::new());
    occupy(&*single, &gate);
    let count = ran.clone();
    let once = single.schedule(move || count.add()).unwrap();
    let series = worker.schedule_periodically(SECOND, SECOND, || {}).unwrap();
    drop(single);
    assert!(!series.is_disposed(), "its worker keeps it");
    drop(worker);
    assert!(series.is_cancelled());
    gate.open();
    assert_eq!(once.wait(LONG), Ok(true));
    assert_eq!(ran.get(), 1);
    eventually(|| original.busy() == 0);
    assert_eq!(original.queued(), 0);
}

#[test]
fn a_refused_task_comes_back_whole() {
    let time = ManualClock::new();
    let tiny = BoundedElasticScheduler::builder().max_threads(1).queue_capacity_per_thread(1);
    let original = tiny.clock(time.clock()).build().unwrap();
    let single = schedulers::single_worker(&original);
    let (gate, ran) = (Gate::new(), Counter::new());
    occupy(&*single, &gate);
    single.schedule(|| {}).unwrap();
    let count = ran.clone();
    let task = Task::new(move || count.add()).named("one too many");
    let id = task.id();
    let refused = single.schedule_task(task).unwrap_err();
    assert_eq!((refused.reason(), refused.task().id()), (RejectReason::Saturated, id));
    let task = refused.into_task();
    assert_eq!(task.name(), Some("one too many"));
    task.run();
    assert_eq!(ran.get(), 1);
    let count = ran.clone();
    let refused = single.schedule_periodically(SECOND, SECOND, move || count.add()).unwrap_err();
    refused.into_task().run();
    assert_eq!(ran.get(), 2);
    let stats = single.stats();
    assert_eq!((stats.submitted, stats.queued, stats.rejected), (2, 1, 2));
    gate.open();
    assert_eq!(single.dispose_gracefully(LONG), Ok(true), "what was refused is not waited for");
    assert_settled(&*single, 2);
}

#[test]
fn panics_are_counted_and_the_lane_goes_on() {
    let original = schedulers::new_single("one").unwrap();
    let single = schedulers::single_worker(&original);
    single.schedule(|| die("boom")).unwrap();
    let (task, handle) = TaskOf::new(|| -> u32 { die("kept by its handle") }).into_parts();
    single.schedule_task(task).unwrap();
    let runs = Counter::new();
    let count = runs.clone();
    let series = single.schedule_periodically(Duration::ZERO, Duration::ZERO, move || {
        count.add();
        if count.get() == 1 {
            die("first run");
        }
    });
    eventually(|| runs.get() > 2);
    series.unwrap().dispose();
    assert_eq!(single.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    assert!(handle.join().is_err());
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    let stats = single.stats();
    assert_eq!(stats.panicked, 3, "{stats:?}");
    assert_settled(&*single, stats.submitted);
}

#[test]
fn when_the_original_ends_so_does_the_lane() {
    let time = ManualClock::new();
    let original = elastic(&time);
    let single = schedulers::single_worker(&original);
    let task = single.schedule_after(SECOND, || {}).unwrap();
    original.dispose();
    assert!(task.is_cancelled() && single.is_disposed() && single.stats().disposed);
    assert_eq!(single.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    assert_settled(&*single, 1);
    let born_dead = schedulers::single_worker(&original);
    assert!(born_dead.is_disposed());
}

#[test]
fn a_single_worker_of_a_single_worker_shares_its_lane() {
    let original = schedulers::new_parallel(3, "three").unwrap();
    let outer = schedulers::single_worker(&original);
    let inner = schedulers::single_worker(&outer);
    let (gate, order) = (Gate::new(), Notes::new());
    occupy(&*outer, &gate);
    for number in 0..10 {
        let n = order.clone();
        let scheduler = if number % 2 == 0 { &outer } else { &inner };
        scheduler.schedule(move || n.add(number)).unwrap();
    }
    gate.open();
    assert_eq!(inner.dispose_gracefully(LONG), Ok(true));
    assert!(!outer.is_disposed());
    assert_eq!(outer.dispose_gracefully(LONG), Ok(true));
    assert_eq!(order.take(), (0..10).collect::<Vec<_>>());
}

#[test]
fn waiting_inside_the_original_for_the_lane_helps_it() {
    let original = schedulers::new_single("one").unwrap();
    let single = schedulers::single_worker(&original);
    let (mine, answers) = (Arc::clone(&single), Notes::new());
    let n = answers.clone();
    let task = original.schedule(move || n.add(mine.schedule(|| {}).unwrap().wait(LONG)));
    assert_eq!(task.unwrap().wait(LONG), Ok(true));
    assert_eq!(answers.take(), [Ok(true)]);
}

/// The first destructor to be called lets the lane continue, and returns when the other task has
/// had its turn.
struct Slow {
    dropped: Counter,
    lane: Gate,
    both: Arc<OnceLock<[Disposable; 2]>>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        let first = self.dropped.get() == 0;
        self.dropped.add();
        if first {
            self.lane.open();
            let both = self.both.get().unwrap();
            eventually(|| both.iter().all(Disposable::is_disposed));
        }
    }
}

/// Regression: work whose turn came during the disposal of its worker did not run, but reported a
/// run.
#[test]
fn work_whose_turn_comes_while_its_worker_is_disposed_of_is_cancelled() {
    let single = schedulers::single_worker(&schedulers::new_single("one").unwrap());
    let (lane, both, dropped) = (Gate::new(), Arc::new(OnceLock::new()), Counter::new());
    occupy(&*single, &lane);
    let child = single.create_worker();
    let tasks = [(); 2].map(|()| {
        let slow = Slow { dropped: dropped.clone(), lane: lane.clone(), both: Arc::clone(&both) };
        child.schedule(move || drop(slow)).unwrap()
    });
    both.set(tasks.clone()).unwrap();
    child.dispose();
    assert_eq!(tasks.map(|task| (task.is_disposed(), task.is_cancelled())), [(true, true); 2]);
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    let stats = single.stats();
    assert_eq!((stats.completed, stats.cancelled, dropped.get()), (1, 2, 2), "{stats:?}");
}

/// A scheduler whose lanes return late from a submission: the first run is over by then.
struct Late {
    original: Arc<dyn Scheduler>,
    /// Callbacks return at once, with a custom handle.
    only_callbacks: bool,
    /// Used instead of a lane of the original scheduler.
    lane: Option<Worker>,
}

fn late() -> Late {
    Late { original: schedulers::new_single("one").unwrap(), only_callbacks: false, lane: None }
}

struct LateLane(Worker, bool);

impl LateLane {
    fn answer(&self, given: Result<Disposable, Rejected>) -> Result<Disposable, Rejected> {
        if self.1 {
            return given.map(only_callback);
        }
        assert_eq!(self.0.schedule(|| {}).unwrap().wait(LONG), Ok(true));
        given
    }
}

fn only_callback(given: Disposable) -> Disposable {
    Disposable::from_fn(move || {
        given.dispose();
    })
}

impl Lane for LateLane {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.answer(self.0.schedule_task(task))
    }
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.answer(self.0.schedule_task_after(delay, task))
    }
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.answer(self.0.schedule_periodically_task(initial, period, task))
    }
    fn dispose(&self) {
        self.0.dispose();
    }
    fn is_disposed(&self) -> bool {
        self.0.is_disposed()
    }
    fn queued(&self) -> usize {
        self.0.queued()
    }
}

impl Scheduler for Late {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.original.schedule_task(task)
    }
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.original.schedule_task_after(delay, task)
    }
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.original.schedule_periodically_task(initial, period, task)
    }
    fn create_worker(&self) -> Worker {
        self.lane.clone().unwrap_or_else(|| {
            Worker::from_lane(Arc::new(LateLane(self.original.create_worker(), self.only_callbacks)))
        })
    }
    fn dispose(&self) {
        self.original.dispose();
    }
    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.original.dispose_gracefully(timeout)
    }
    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.original.disposal()
    }
    fn is_disposed(&self) -> bool {
        self.original.is_disposed()
    }
    fn stats(&self) -> SchedulerStats {
        self.original.stats()
    }
}

#[test]
fn a_series_that_ends_before_its_submission_has_returned_does_not_wait_for_its_next_time() {
    let single = schedulers::single_worker(&late());
    let mine = Arc::downgrade(&single);
    let series = single
        .schedule_periodically(Duration::ZERO, LONG, move || {
            let single = mine.upgrade().unwrap();
            assert_eq!(single.dispose_gracefully(Duration::ZERO), Ok(false));
        })
        .unwrap();
    assert!(series.is_cancelled());
    assert_eq!(single.dispose_gracefully(LONG / 2), Ok(true));
    assert_eq!(single.stats().panicked, 0);
    assert_settled(&*single, 1);
}

/// Regression: a custom handle that is only a callback has no run to wait for. The end of its last
/// run was awaited anyway, so the graceful disposal never completed.
#[test]
fn a_graceful_end_does_not_wait_for_a_callback() {
    let (original, gate) = (Late { only_callbacks: true, ..late() }, Gate::new());
    let single = schedulers::single_worker(&original);
    occupy(&original, &gate);
    single.schedule(|| {}).unwrap();
    gate.open();
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    assert_eq!(single.stats().completed, 1);
}

#[test]
fn a_task_that_ran_before_its_submission_has_returned_was_not_cancelled() {
    let single = schedulers::single_worker(&late());
    let mine = Arc::downgrade(&single);
    let task = single
        .schedule(move || mine.upgrade().unwrap().dispose_gracefully(Duration::ZERO).map(drop).unwrap());
    let task = task.unwrap();
    assert!(task.is_disposed() && !task.is_cancelled());
    assert_eq!(single.dispose_gracefully(LONG), Ok(true));
    assert_settled(&*single, 1);
}

/// Submissions race disposals of workers, of tasks and of the whole: no task is lost, and the slot
/// is freed.
#[test]
fn races_of_all_kinds_leave_nothing_behind() {
    let original = BoundedElasticScheduler::builder().max_threads(2).thread_per_task(false).build().unwrap();
    for round in rounds(300) {
        let single = schedulers::single_worker(&original);
        let accepted = Counter::new();
        let handles: Vec<Disposable> = thread::scope(|scope| {
            let submit = |worker: Worker| {
                let (single, accepted) = (&single, &accepted);
                scope.spawn(move || {
                    let mut handles = Vec::new();
                    for number in 0..8 {
                        let given = match number % 4 {
                            0 => worker.schedule(|| {}),
                            1 => worker.schedule_periodically(Duration::ZERO, Duration::ZERO, || {}),
                            2 => single.schedule(|| {}),
                            _ => worker.schedule_after(Duration::from_micros(50), || {}),
                        };
                        if let Ok(handle) = given {
                            accepted.add();
                            if number % 5 == 0 {
                                handle.dispose();
                            }
                            handles.push(handle);
                        }
                    }
                    handles
                })
            };
            let (a, b) = (single.create_worker(), single.create_worker());
            let threads = [submit(a.clone()), submit(b)];
            a.dispose();
            match round % 3 {
                0 => single.dispose(),
                1 => drop(single.dispose_gracefully(Duration::ZERO)),
                _ => {}
            }
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(single.dispose_gracefully(LONG), Ok(true));
        assert_eq!(handles.len(), accepted.get());
        assert!(handles.iter().all(Disposable::is_disposed));
        let stats = single.stats();
        assert_settled(&*single, stats.submitted);
        assert_eq!((stats.slots, stats.live_threads), (0, 0));
        eventually(|| original.busy() == 0);
    }
    assert_eq!(original.dispose_gracefully(LONG), Ok(true));
    let stats = original.stats();
    assert_eq!((stats.queued, stats.live_threads), (0, 0));
    assert_eq!(stats.submitted, stats.completed + stats.panicked + stats.cancelled);
}

/// Answers with callbacks that call back when they are dropped, and keeps the tasks.
struct Keeps {
    tasks: Arc<Mutex<Vec<Task>>>,
    single: Arc<OnceLock<Weak<dyn Scheduler>>>,
}

/// Calls the scheduler when it is dropped.
struct CallsBack(Arc<OnceLock<Weak<dyn Scheduler>>>);

impl Drop for CallsBack {
    fn drop(&mut self) {
        drop(self.0.get().and_then(Weak::upgrade).map(|single| single.stats()));
    }
}

impl Lane for Keeps {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.tasks.lock().unwrap().push(task);
        let captured = CallsBack(Arc::clone(&self.single));
        Ok(Disposable::from_fn(move || drop(captured)))
    }
    fn schedule_task_after(&self, _: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.schedule_task(task)
    }
    fn schedule_periodically_task(
        &self,
        _: Duration,
        _: Duration,
        _: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        unreachable!("the test has no series")
    }
    fn dispose(&self) {}
    fn is_disposed(&self) -> bool {
        false
    }
    fn queued(&self) -> usize {
        0
    }
}

/// Regression: removed work was dropped under the lock, with the handle from the lane.
#[test]
fn a_handle_of_a_lane_may_call_back_when_it_is_dropped() {
    let (tasks, cell) = (Arc::<Mutex<Vec<Task>>>::default(), Arc::new(OnceLock::new()));
    let keeps = Keeps { tasks: Arc::clone(&tasks), single: Arc::clone(&cell) };
    let single =
        schedulers::single_worker(&Late { lane: Some(Worker::from_lane(Arc::new(keeps))), ..late() });
    cell.set(Arc::downgrade(&single)).ok().unwrap();
    drop(single.schedule(|| {}).unwrap());
    let (tell, told) = mpsc::channel();
    let task = tasks.lock().unwrap().pop().unwrap();
    let drops = thread::spawn(move || {
        drop(task); // and with it the last reference to the callback
        tell.send(()).unwrap();
    });
    assert_eq!(told.recv_timeout(LONG), Ok(()));
    drops.join().unwrap();
}
