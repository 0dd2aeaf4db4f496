//! Running and waiting tasks of schedulers.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use millpond::monitor::{Actor, Change, Timing, Waiting, WorkerState, WorkerView};
use millpond::schedulers::{
    self, Affinity, BoundedElasticBuilder, BoundedElasticScheduler, Decorator, PeriodicTask, Scheduler,
    SchedulerExt, SlotInfo,
};
use millpond::{ManualClock, Task, TaskId, executors};
use proptest::prelude::*;

use crate::support::{Gate, LONG, eventually};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn elastic(name: &str, threads: usize) -> BoundedElasticBuilder {
    BoundedElasticScheduler::builder().name(name).max_threads(threads).ttl(HOUR)
}

/// One scheduler of each kind, with the prefix of its threads' names.
fn kinds() -> Vec<(&'static str, Arc<dyn Scheduler>)> {
    let strict = elastic("seen-strict", 2).affinity(Affinity::Strict).build().unwrap();
    let per_task = elastic("seen-per-task", 2).thread_per_task(true).build().unwrap();
    vec![
        ("seen-single-", schedulers::new_single("seen-single").unwrap()),
        ("seen-parallel-", schedulers::new_parallel(2, "seen-parallel").unwrap()),
        ("seen-elastic-", Arc::new(elastic("seen-elastic", 2).build().unwrap())),
        ("seen-strict-", Arc::new(strict)),
        ("seen-per-task-", Arc::new(per_task)),
        ("fromExecutor", schedulers::from_executor(executors::fixed(2).unwrap())),
        ("fromExecutorService", schedulers::from_executor_service(executors::fixed(2).unwrap())),
        ("fromScheduledExecutor", schedulers::from_scheduled_executor(executors::scheduled(2))),
    ]
}

fn workers(scheduler: &dyn Scheduler) -> Vec<WorkerView> {
    scheduler.pool_ref().and_then(|pool| pool.workers()).expect("it is there")
}

fn waiting(scheduler: &dyn Scheduler, limit: usize) -> Waiting {
    scheduler.pool_ref().and_then(|pool| pool.waiting(limit)).expect("it is there")
}

/// The names of the waiting tasks, in order.
fn names(waiting: &Waiting) -> Vec<&str> {
    waiting.tasks.iter().map(|task| task.name.as_deref().unwrap_or("")).collect()
}

/// The worker that runs this task.
fn worker_of(scheduler: &dyn Scheduler, id: TaskId) -> Option<WorkerView> {
    workers(scheduler).into_iter().find(|worker| worker.task.as_ref().is_some_and(|task| task.id == id))
}

fn running_for(scheduler: &dyn Scheduler, id: TaskId) -> Option<Duration> {
    worker_of(scheduler, id)?.task?.running_for
}

/// A named task that runs from the opening of the first gate to the opening of the second.
fn held(name: &'static str) -> (Task, TaskId, Gate, Gate) {
    let (begun, gate) = (Gate::new(), Gate::new());
    let (begins, wait) = (begun.clone(), gate.clone());
    let task = Task::new(move || {
        begins.open();
        wait.pass();
    });
    let id = task.id();
    (task.named(name), id, begun, gate)
}

/// Occupies a thread. Returns when the task has begun.
fn hold(scheduler: &dyn Scheduler) -> Gate {
    let (task, _, begun, gate) = held("holds");
    scheduler.schedule_task(task).unwrap();
    begun.pass();
    gate
}

fn named(name: impl Into<String>) -> Task {
    Task::new(|| {}).named(name.into())
}

#[test]
fn every_kind_shows_what_runs_until_it_has_ended() {
    for (prefix, scheduler) in kinds() {
        let scheduler = &*scheduler;
        assert!(workers(scheduler).is_empty(), "{prefix}");
        let in_lane = scheduler.create_worker();
        for is_in_lane in [false, true] {
            let (task, id, begun, gate) = held("import");
            let run = if is_in_lane { in_lane.schedule_task(task) } else { scheduler.schedule_task(task) };
            begun.pass();
            let worker = worker_of(scheduler, id).unwrap();
            assert_eq!(worker.state, WorkerState::Running, "{worker:?}");
            assert_eq!(worker.task.unwrap().name.as_deref(), Some("import"));
            if prefix.ends_with('-') {
                assert_eq!(*worker.name, format!("{prefix}{}", worker.number));
                assert_eq!(worker.os_thread_id.is_some(), cfg!(all(target_os = "linux", not(miri))));
            } else {
                assert_eq!((&*worker.name, worker.number, worker.os_thread_id), (prefix, 0, None));
            }
            let first = running_for(scheduler, id).unwrap();
            eventually(|| running_for(scheduler, id).unwrap() > first);
            gate.open();
            assert!(run.unwrap().wait(LONG).unwrap());
            assert!(workers(scheduler).iter().all(|worker| worker.task.is_none()), "{prefix}");
        }
        drop(in_lane);
        assert!(scheduler.dispose_gracefully(LONG).unwrap());
        assert!(workers(scheduler).is_empty(), "{prefix}");
        assert_eq!(waiting(scheduler, 10), Waiting::default());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_shows_the_number_of_its_thread() {
    let single = schedulers::new_single("seen-number").unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    single.schedule(move || send.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap()).unwrap();
    let link = receive.recv().unwrap();
    let number = workers(&*single)[0].os_thread_id.unwrap();
    assert_eq!(link.file_name().unwrap().to_str().unwrap(), number.to_string());
}

/// Blocks the threads that close slots of one scheduler.
struct HoldsClosing {
    scheduler: String,
    closing: Gate,
    gate: Gate,
}

impl Decorator for HoldsClosing {
    fn slot_closed(&self, slot: &SlotInfo) {
        if slot.scheduler() == self.scheduler {
            self.closing.open();
            self.gate.pass();
        }
    }
}

/// When the last task of a scheduler ends, its thread closes the slots.
#[test]
fn a_worker_starts_runs_is_idle_and_leaves() {
    let may_begin = Gate::new();
    let begins = may_begin.clone();
    let builder = elastic("seen-states", 1).thread_factory(move |body| {
        let begins = begins.clone();
        thread::Builder::new().spawn(move || {
            begins.pass();
            body.run();
        })
    });
    let elastic = builder.build().unwrap();
    let state = || workers(&elastic).first().map(|worker| worker.state);
    let (task, id, begun, gate) = held("first");
    let (closing, may_close) = (Gate::new(), Gate::new());
    let decorator =
        HoldsClosing { scheduler: elastic.to_string(), closing: closing.clone(), gate: may_close.clone() };
    assert!(schedulers::add_decorator("seen states", Arc::new(decorator)));
    let run = elastic.schedule_task(task).unwrap();
    schedulers::remove_decorator("seen states");

    let worker = &workers(&elastic)[0];
    assert_eq!((worker.state, worker.os_thread_id), (WorkerState::Starting, None));
    assert!(worker.name.starts_with("seen-states-"), "{worker:?}");
    let task = worker.task.as_ref().unwrap();
    assert_eq!((task.id, task.name.as_deref(), task.running_for), (id, Some("first"), None));
    may_begin.open();
    begun.pass();
    assert_eq!(state(), Some(WorkerState::Running));
    assert_eq!(workers(&elastic)[0].name, worker.name);
    gate.open();
    assert!(run.wait(LONG).unwrap());
    assert_eq!(state(), Some(WorkerState::Idle));

    let (task, _, begun, gate) = held("last");
    elastic.schedule_task(task).unwrap();
    begun.pass();
    let ending = elastic.clone();
    let end = thread::spawn(move || ending.dispose_gracefully(LONG).unwrap());
    eventually(|| elastic.is_disposed());
    gate.open();
    closing.pass();
    assert_eq!(state(), Some(WorkerState::Leaving));
    assert_eq!(workers(&elastic).len(), elastic.stats().live_threads);
    may_close.open();
    assert!(end.join().unwrap());
    assert_eq!(state(), None);
}

/// Tasks that the executor has not begun are shown as starting, because its queue is not visible.
#[test]
fn tasks_that_wait_in_an_executor_are_shown_as_starting() {
    let scheduler = schedulers::from_executor(executors::fixed(1).unwrap());
    let gate = hold(&*scheduler);
    (0..3).for_each(|n| _ = scheduler.schedule_task(named(format!("task {n}"))).unwrap());
    let mut seen: Vec<_> = workers(&*scheduler)
        .into_iter()
        .map(|worker| (worker.task.unwrap().name.unwrap(), worker.state))
        .collect();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    let starting = |n| (format!("task {n}"), WorkerState::Starting);
    assert_eq!(seen, [("holds".to_owned(), WorkerState::Running), starting(0), starting(1), starting(2)]);
    (3..2_000).for_each(|_| _ = scheduler.schedule(|| {}).unwrap());
    assert_eq!(workers(&*scheduler).len(), 1_001, "the first 1,000 that have not begun");
    gate.open();
    eventually(|| workers(&*scheduler).is_empty());
}

/// The thread continues with the lane's next task without taking the scheduler's lock.
#[test]
fn a_lane_shows_the_task_that_it_goes_on_with() {
    for affinity in [Affinity::Soft, Affinity::Strict] {
        let elastic = elastic("seen-lane", 1).affinity(affinity).build().unwrap();
        let lane = elastic.create_worker();
        let first = hold(&elastic);
        let quick: Vec<_> = (0..3).map(|_| lane.schedule_task(named("quick")).unwrap()).collect();
        let (task, id, begun, gate) = held("slow");
        let slow = lane.schedule_task(task).unwrap();
        first.open();
        begun.pass();
        assert!(quick.iter().all(|quick| quick.wait(LONG).unwrap()));
        let task = worker_of(&elastic, id).unwrap().task.unwrap();
        assert_eq!(task.name.as_deref(), Some("slow"));
        assert!(task.running_for.is_some());
        gate.open();
        assert!(slow.wait(LONG).unwrap());
        assert_eq!(workers(&elastic)[0].task, None);
    }
}

#[test]
fn a_scheduler_that_measures_nothing_shows_tasks_without_times() {
    let elastic = elastic("seen-unmeasured", 1).build().unwrap();
    elastic.pool_ref().unwrap().reconfigure(Change::new().timing(Timing::Off)).unwrap().unwrap();
    let gate = hold(&elastic);
    elastic.schedule_task(named("waits")).unwrap();
    let task = workers(&elastic)[0].task.clone().unwrap();
    assert_eq!((task.name.as_deref(), task.running_for), (Some("holds"), None));
    let seen = waiting(&elastic, 10);
    assert_eq!((names(&seen), seen.tasks[0].age, seen.oldest), (vec!["waits"], None, None));
    gate.open();
}

#[test]
fn what_is_ready_comes_first_by_age_and_then_what_is_due_next() {
    for affinity in [Affinity::Soft, Affinity::Strict] {
        let time = ManualClock::new();
        let elastic = elastic("seen-order", 1).affinity(affinity).clock(time.clock()).build().unwrap();
        let lanes = [(); 3].map(|()| elastic.create_worker());
        let gate = hold(&elastic);
        assert_eq!(waiting(&elastic, 10), Waiting::default());
        let later = |seconds, name: &'static str| (seconds * SECOND, named(name));
        for (delay, task) in [later(30, "in 30"), later(3, "late")] {
            elastic.schedule_task_after(delay, task).unwrap();
        }
        for (delay, task) in [later(20, "lane in 20"), later(4, "lane late")] {
            lanes[0].schedule_task_after(delay, task).unwrap();
        }
        let tick = PeriodicTask::new(|| {}).named("tick");
        elastic.schedule_periodically_task(10 * SECOND, HOUR, tick).unwrap();
        elastic.schedule_task(named("a").with_priority(7)).unwrap();
        time.advance(SECOND);
        lanes[1].schedule_task(named("b")).unwrap();
        lanes[1].schedule_task_after(50 * SECOND, named("lane in 50")).unwrap();
        time.advance(SECOND);
        elastic.schedule_task(named("c")).unwrap();
        let cancelled = elastic.schedule_task(named("cancelled")).unwrap();
        cancelled.dispose();
        time.advance(3 * SECOND);

        let seen = waiting(&elastic, 100);
        let expected = ["a", "b", "c", "late", "lane late", "tick", "lane in 20", "in 30", "lane in 50"];
        assert_eq!(names(&seen), expected);
        assert_eq!((seen.total, seen.oldest), (9, Some(5 * SECOND)));
        let times: Vec<_> = seen.tasks.iter().map(|task| (task.age, task.due_in)).collect();
        let ready = |seconds| (Some(seconds * SECOND), None);
        let due_in = |seconds| (None, Some(seconds * SECOND));
        let expected =
            [ready(5), ready(4), ready(3), ready(2), ready(1), due_in(5), due_in(15), due_in(25), due_in(46)];
        assert_eq!(times, expected);
        let priorities: Vec<_> = seen.tasks.iter().map(|task| task.priority).collect();
        assert_eq!(priorities, [7, 0, 0, 0, 0, 0, 0, 0, 0]);
        for limit in 0..9 {
            let first = waiting(&elastic, limit);
            assert_eq!((first.total, first.tasks.len()), (9, limit));
            assert!(first.tasks[..limit.min(1)].iter().all(|task| task.name.as_deref() == Some("a")));
        }
        elastic.dispose();
        gate.open();
        assert!(elastic.dispose_gracefully(LONG).unwrap());
        assert_eq!(waiting(&elastic, 10), Waiting::default());
    }
}

#[test]
fn every_kind_with_queues_lists_what_waits() {
    for (prefix, scheduler) in kinds().into_iter().filter(|(prefix, _)| prefix.ends_with('-')) {
        let scheduler = &*scheduler;
        let threads = scheduler.stats().max_threads;
        let gates: Vec<_> = (0..threads).map(|_| hold(scheduler)).collect();
        let lane = scheduler.create_worker();
        for n in 0..4 {
            scheduler.schedule_task(named(format!("task {n}"))).unwrap();
            lane.schedule_task(named(format!("lane {n}"))).unwrap();
        }
        scheduler.schedule_task_after(HOUR, named("later")).unwrap();
        let seen = waiting(scheduler, 100);
        // Tasks of a lane that arrive within microseconds may have the same age, so only the order
        // within each kind is certain.
        for kind in ["task", "lane"] {
            let mut of_kind = names(&seen);
            of_kind.retain(|name| name.starts_with(kind));
            let expected: Vec<_> = (0..4).map(|n| format!("{kind} {n}")).collect();
            assert_eq!(of_kind, expected, "{prefix}");
        }
        assert_eq!((names(&seen)[8], seen.total, seen.tasks.len()), ("later", 9, 9), "{prefix}");
        assert!(seen.tasks[8].due_in.is_some_and(|due_in| due_in <= HOUR && due_in > HOUR - LONG));
        assert_eq!(seen.oldest.is_some(), seen.tasks[0].age.is_some());
        gates.iter().for_each(Gate::open);
        eventually(|| waiting(scheduler, 100).tasks.len() == 1);
        scheduler.dispose();
        assert_eq!(waiting(scheduler, 100).total, 0);
    }
}

/// Delayed tasks come after ready tasks of a worker, however many there are.
#[test]
fn only_the_first_of_many_waiting_tasks_are_listed() {
    let many = if cfg!(miri) { 1_500 } else { 50_000 };
    let time = ManualClock::new();
    let builder = elastic("seen-many", 1).queue_capacity_per_thread(4 * many);
    let elastic = builder.clock(time.clock()).build().unwrap();
    let gate = hold(&elastic);
    let listed = |limit| waiting(&elastic, limit).tasks;
    for n in 0..many {
        elastic.schedule_after(SECOND * (1 + n as u32 % 5_000), || {}).unwrap();
    }
    assert_eq!((listed(7).len(), listed(usize::MAX).len()), (7, 1_000));
    assert!(listed(1_000).iter().all(|task| task.due_in.is_some()));
    let lane = elastic.create_worker();
    (0..many).for_each(|_| _ = lane.schedule_task(named("in a lane")).unwrap());
    assert!(listed(1_000).iter().all(|task| task.name.as_deref() == Some("in a lane")));
    (0..many).for_each(|_| _ = elastic.schedule(|| {}).unwrap());
    let seen = waiting(&elastic, 1_001);
    assert_eq!((seen.total, seen.tasks.len()), (3 * many, 1_000));
    elastic.dispose();
    gate.open();
}

/// This includes work that a thread was assigned before or during the pause.
#[test]
fn a_paused_scheduler_lists_all_of_its_work_as_waiting() {
    for (prefix, scheduler) in kinds() {
        let pool = scheduler.pool_ref().unwrap();
        pool.pause(&Actor::new("test", "looking")).unwrap();
        let lane = scheduler.create_worker();
        scheduler.schedule_task(named("a")).unwrap();
        (0..2).for_each(|_| _ = lane.schedule_task(named("b")).unwrap());
        let seen = waiting(&*scheduler, 10);
        assert_eq!((names(&seen), seen.total), (vec!["a", "b", "b"], 3), "{prefix}");
        assert!(workers(&*scheduler).iter().all(|worker| worker.task.is_none()), "{prefix}");
        pool.resume(&Actor::new("test", "looked")).unwrap();
        eventually(|| scheduler.stats().completed == 3);
        assert_eq!(waiting(&*scheduler, 10).total, 0);
        scheduler.dispose();
    }
}

#[test]
fn tasks_behind_one_that_runs_in_place_are_listed() {
    let single = schedulers::new_single("seen-in-place").unwrap();
    let lane = single.create_worker();
    let (inner, _, begun, gate) = held("inner");
    let scheduler = Arc::clone(&single);
    let other = single.create_worker();
    let (outer, outer_begun) = (
        Task::new(move || {
            let inner = other.schedule_task(inner).unwrap();
            other.schedule_task(named("behind")).unwrap();
            scheduler.schedule_task(named("queued")).unwrap();
            assert!(inner.wait(LONG).unwrap());
        }),
        begun,
    );
    let id = outer.id();
    let run = lane.schedule_task(outer.named("outer")).unwrap();
    outer_begun.pass();
    assert_eq!(worker_of(&*single, id).unwrap().task.unwrap().name.as_deref(), Some("outer"));
    let seen = waiting(&*single, 10);
    assert_eq!((names(&seen), seen.total), (vec!["behind", "queued"], 2));
    gate.open();
    assert!(run.wait(LONG).unwrap());
    eventually(|| waiting(&*single, 10).total == 0);
}

/// Each task is named after its number. Threads take the next task of a lane without the
/// scheduler's lock.
#[test]
fn a_reader_never_sees_the_name_of_one_task_with_the_number_of_another() {
    for (_, scheduler) in kinds() {
        let over = Gate::new();
        let check = |id: TaskId, name: Option<String>| {
            assert!(name.is_none_or(|name| name == format!("task {id}")));
        };
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    while !over.is_open() {
                        thread::yield_now();
                        let running = workers(&*scheduler).into_iter().filter_map(|worker| worker.task);
                        running.for_each(|task| check(task.id, task.name));
                        let waits = waiting(&*scheduler, 5).tasks;
                        waits.into_iter().for_each(|task| check(task.id, task.name));
                    }
                });
            }
            let lane = scheduler.create_worker();
            let last: Vec<_> = (0..if cfg!(miri) { 30 } else { 1_000 })
                .filter_map(|n| {
                    let task = Task::new(|| {});
                    let name = format!("task {}", task.id());
                    let task = if n % 3 == 0 { task } else { task.named(name) };
                    if n % 2 == 0 { lane.schedule_task(task) } else { scheduler.schedule_task(task) }.ok()
                })
                .collect();
            assert!(last.iter().all(|run| run.wait(LONG).unwrap()));
            over.open();
        });
        assert!(workers(&*scheduler).iter().all(|worker| worker.task.is_none()));
        assert_eq!(waiting(&*scheduler, 5), Waiting::default());
        scheduler.dispose();
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// In one of three lanes or in none, with a delay in seconds.
    Submit(Option<usize>, u32),
    Repeat(Option<usize>, u32),
    Cancel(usize),
    Advance(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let lane = || prop::option::of(0..3_usize);
    prop_oneof![
        4 => (lane(), prop_oneof![Just(0), 0..20_u32]).prop_map(|(lane, delay)| Step::Submit(lane, delay)),
        1 => (lane(), 0..20_u32).prop_map(|(lane, delay)| Step::Repeat(lane, delay)),
        2 => any::<usize>().prop_map(Step::Cancel),
        1 => (0..4_u32).prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 100 }, ..ProptestConfig::default() })]

    /// All threads are busy, so every accepted task waits until it is cancelled.
    #[test]
    fn every_waiting_task_is_listed_once(
        strict in any::<bool>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let affinity = if strict { Affinity::Strict } else { Affinity::Soft };
        let time = ManualClock::new();
        let elastic = elastic("seen-all", 2).affinity(affinity).clock(time.clock()).build().unwrap();
        let gates = [(); 2].map(|()| hold(&elastic));
        let lanes = [(); 3].map(|()| elastic.create_worker());
        let mut expected = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let name = number.to_string();
            let accepted = match step {
                Step::Submit(lane, delay) => Some(match lane.map(|lane| &lanes[lane]) {
                    Some(lane) => lane.schedule_task_after(delay * SECOND, named(name)),
                    None => elastic.schedule_task_after(delay * SECOND, named(name)),
                }),
                Step::Repeat(lane, delay) => {
                    let task = PeriodicTask::new(|| {}).named(name);
                    Some(match lane.map(|lane| &lanes[lane]) {
                        Some(lane) => lane.schedule_periodically_task(delay * SECOND, SECOND, task),
                        None => elastic.schedule_periodically_task(delay * SECOND, SECOND, task),
                    })
                }
                Step::Cancel(which) => {
                    if !expected.is_empty() {
                        let (_, run): (String, schedulers::Disposable) =
                            expected.swap_remove(which % expected.len());
                        run.dispose();
                    }
                    None
                }
                Step::Advance(seconds) => {
                    time.advance(seconds * SECOND);
                    None
                }
            };
            expected.extend(accepted.map(|run| (number.to_string(), run.unwrap())));
            let seen = waiting(&elastic, 1_000);
            let mut listed = names(&seen);
            listed.sort_unstable();
            let mut all: Vec<_> = expected.iter().map(|(name, _)| &**name).collect();
            all.sort_unstable();
            prop_assert_eq!(seen.total, all.len());
            prop_assert_eq!(listed, all);
            let order = |task: &millpond::monitor::WaitingTask| {
                (task.due_in, std::cmp::Reverse(task.age))
            };
            prop_assert!(seen.tasks.is_sorted_by_key(order), "{:?}", seen);
            let oldest = seen.tasks.first().and_then(|task| task.age);
            prop_assert_eq!(seen.oldest, oldest);
        }
        elastic.dispose();
        gates.iter().for_each(Gate::open);
    }
}
