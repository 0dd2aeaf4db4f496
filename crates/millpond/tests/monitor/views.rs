//! Running and waiting tasks.

use std::time::Duration;

use crate::support::pools::{bounded_custom, sized};
use crate::support::{Gate, end, eventually, occupied};
use millpond::monitor::{Timing, WorkerState};
use millpond::{ManualClock, ScheduledThreadPoolExecutor, Task, WorkQueue};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn workers_show_their_tasks_and_for_how_long_they_run() {
    let time = ManualClock::new();
    let pool = sized(2, 2).thread_name_prefix("w-").clock(time.clock()).build().unwrap();
    assert!(pool.workers().is_empty());
    let (gate, begun) = (Gate::new(), Gate::new());
    let (wait, tell) = (gate.clone(), begun.clone());
    let task = Task::new(move || {
        tell.open();
        wait.pass();
    });
    let id = task.id();
    pool.execute_task(task.named("import")).unwrap();
    begun.pass();
    pool.prestart_all_core_threads();
    time.advance(4 * SECOND);
    eventually(|| pool.workers().iter().filter(|worker| worker.state == WorkerState::Idle).count() == 1);
    let workers = pool.workers();
    let running = workers.iter().find(|worker| worker.state == WorkerState::Running).unwrap();
    let task = running.task.as_ref().unwrap();
    assert_eq!((task.id, task.name.as_deref(), task.running_for), (id, Some("import"), Some(4 * SECOND)));
    assert_eq!((&*running.name, running.number), ("w-1", 1));
    let idle = workers.iter().find(|worker| worker.state == WorkerState::Idle).unwrap();
    assert_eq!((&*idle.name, idle.task.as_ref()), ("w-2", None));
    assert_eq!(pool.downgrade().workers().unwrap(), workers);
    gate.open();
    end(&pool);
    assert!(pool.workers().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_shows_the_number_of_its_thread() {
    let pool = sized(1, 1).build().unwrap();
    let link = pool.submit(|| std::fs::read_link("/proc/thread-self").unwrap()).unwrap().join().unwrap();
    let number = pool.workers()[0].os_thread_id.unwrap();
    assert_eq!(link.file_name().unwrap().to_str().unwrap(), number.to_string());
    end(&pool);
}

#[test]
fn waiting_tasks_show_their_names_and_ages() {
    for queue in [WorkQueue::linked, WorkQueue::priority, || bounded_custom(1000)] {
        let time = ManualClock::new();
        let pool = sized(1, 1).work_queue(queue()).timing(Timing::Every).clock(time.clock()).build().unwrap();
        let gate = occupied(&pool);
        assert_eq!(pool.waiting(10).total, 0);
        let ids: Vec<_> = (0..10)
            .map(|n| {
                let task = Task::new(|| {}).named(format!("task {n}")).with_priority(-n);
                let id = task.id();
                pool.execute_task(task).unwrap();
                time.advance(SECOND);
                id
            })
            .collect();
        let waiting = pool.waiting(20);
        assert_eq!((waiting.total, waiting.tasks.len()), (10, 10));
        assert!(waiting.oldest.is_none_or(|oldest| oldest == 10 * SECOND));
        for (n, (task, id)) in waiting.tasks.iter().zip(ids).enumerate() {
            assert_eq!((task.id, task.name.as_deref()), (id, Some(&*format!("task {n}"))));
            assert_eq!((task.priority, task.age), (-(n as i32), Some((10 - n as u32) * SECOND)));
            assert_eq!(task.due_in, None);
        }
        gate.open();
        end(&pool);
    }
}

#[test]
fn only_the_first_of_many_waiting_tasks_are_listed() {
    for queue in [WorkQueue::linked, WorkQueue::priority] {
        let pool = sized(1, 1).work_queue(queue()).build().unwrap();
        let gate = occupied(&pool);
        let tasks = if cfg!(miri) { 1500 } else { 100_000 };
        (0..tasks).for_each(|_| pool.execute(|| {}).unwrap());
        assert_eq!(pool.waiting(7).tasks.len(), 7);
        let waiting = pool.waiting(usize::MAX);
        assert_eq!((waiting.total, waiting.tasks.len()), (tasks, 1000));
        let listed: Vec<_> = waiting.tasks.iter().map(|task| task.id).collect();
        assert_eq!(pool.queued_tasks()[..1000], listed);
        pool.shutdown_now();
        gate.open();
        end(&pool);
    }
}

#[test]
fn a_scheduled_pool_lists_when_its_tasks_are_due() {
    let time = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(1).clock(time.clock()).build().unwrap();
    let gate = occupied(&pool);
    let late = pool.schedule(SECOND, || {}).unwrap();
    let later = pool.schedule(9 * SECOND, || {}).unwrap();
    time.advance(3 * SECOND);
    let waiting = pool.waiting(10);
    assert_eq!((waiting.total, waiting.oldest), (2, Some(2 * SECOND)));
    let seen: Vec<_> = waiting.tasks.iter().map(|task| (task.id, task.age, task.due_in)).collect();
    let expected =
        [(late.id(), Some(2 * SECOND), Some(Duration::ZERO)), (later.id(), None, Some(6 * SECOND))];
    assert_eq!(seen, expected);
    gate.open();
    pool.shutdown_now();
    end(&pool);
}

/// Each task is named after its number.
#[test]
fn a_reader_never_sees_the_name_of_one_task_with_the_number_of_another() {
    let pool = sized(2, 2).build().unwrap();
    let over = Gate::new();
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                let mut seen = 0;
                while !over.is_open() {
                    for task in pool.workers().into_iter().filter_map(|worker| worker.task) {
                        if let Some(name) = task.name {
                            assert_eq!(name, format!("task {}", task.id));
                            seen += 1;
                        }
                    }
                }
                seen
            });
        }
        for n in 0..if cfg!(miri) { 50 } else { 50_000 } {
            let task = Task::new(std::thread::yield_now);
            let name = format!("task {}", task.id());
            pool.execute_task(if n % 3 == 0 { task } else { task.named(name) }).unwrap();
        }
        pool.wait_idle(Duration::from_secs(60)).unwrap();
        over.open();
    });
    end(&pool);
}
