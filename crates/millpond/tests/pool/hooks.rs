//! Hooks: what they see, what they may do, and which threads they may interrupt.

use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::Duration;

use crate::support::pools::sized;
use crate::support::{Gate, LONG, block, die, end, eventually, interrupt_myself, occupy};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    Hooks, JoinError, Panic, RejectReason, Task, TaskHandle, TaskId, TaskInfo, TaskOf, TaskState,
    ThreadPoolExecutor, WorkQueue, WorkerInfo, executors, interrupt, policy,
};

#[derive(Debug, Clone, PartialEq)]
enum Event {
    Started(String),
    Stopped(String),
    Before(TaskId),
    Body,
    After(TaskId, Option<String>),
    Rejected(TaskId, RejectReason),
    Terminated,
}

/// Records every call, with the name of its thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(String, Event)>>>);

impl Log {
    fn write(&self, event: Event) {
        let thread = thread::current().name().unwrap_or("nameless").to_owned();
        self.0.lock().unwrap().push((thread, event));
    }

    fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().iter().map(|(_, event)| event.clone()).collect()
    }

    fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events().iter().filter(|event| wanted(event)).count()
    }
}

impl Hooks for Log {
    fn before_execute(&self, task: &TaskInfo) {
        self.write(Event::Before(task.id()));
    }
    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        self.write(Event::After(task.id(), panic.map(|panic| panic.to_string())));
    }
    fn terminated(&self) {
        self.write(Event::Terminated);
    }
    fn rejected(&self, task: &TaskInfo, reason: RejectReason) {
        self.write(Event::Rejected(task.id(), reason));
    }
    fn worker_started(&self, worker: &WorkerInfo) {
        assert_eq!(thread::current().name(), Some(worker.name()));
        self.write(Event::Started(worker.name().to_owned()));
    }
    fn worker_stopped(&self, worker: &WorkerInfo) {
        assert_eq!(thread::current().name(), Some(worker.name()));
        self.write(Event::Stopped(worker.name().to_owned()));
    }
}

// TPE-106
#[test]
fn a_workers_life_is_started_before_task_after_stopped_all_on_its_thread_and_then_terminated() {
    let log = Log::default();
    let pool = sized(1, 1).thread_name_prefix("life-").hooks(log.clone()).build().unwrap();
    let give = |task: Task| {
        let id = task.id();
        pool.execute_task(task).unwrap();
        id
    };
    let body = |log: &Log| {
        let log = log.clone();
        move || log.write(Event::Body)
    };
    let good = give(Task::new(body(&log)));
    let run = body(&log);
    let bad = give(Task::new(move || {
        run();
        die("on purpose")
    }));
    end(&pool);
    let life = "life-1".to_owned();
    assert_eq!(
        log.events(),
        [
            Event::Started(life.clone()),
            Event::Before(good),
            Event::Body,
            Event::After(good, None),
            Event::Before(bad),
            Event::Body,
            Event::After(bad, Some("on purpose".to_owned())),
            Event::Stopped(life.clone()),
            Event::Terminated,
        ]
    );
    let log = log.0.lock().unwrap();
    assert!(log[..8].iter().all(|(thread, _)| *thread == life));
}

#[test]
fn workers_are_numbered_from_one_and_all_stop_before_the_terminated_hook() {
    struct Numbers(Arc<Mutex<Vec<usize>>>, Arc<AtomicUsize>);
    impl Hooks for Numbers {
        fn worker_started(&self, worker: &WorkerInfo) {
            assert_eq!(worker.name(), format!("number-{}", worker.number()));
            self.0.lock().unwrap().push(worker.number());
        }
        fn worker_stopped(&self, _: &WorkerInfo) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        fn terminated(&self) {
            self.0.lock().unwrap().push(100 + self.1.load(Ordering::Relaxed));
        }
    }
    let (numbers, stopped) = (Arc::default(), Arc::default());
    let hooks = Numbers(Arc::clone(&numbers), Arc::clone(&stopped));
    let pool = sized(3, 3).thread_name_prefix("number-").hooks(hooks).build().unwrap();
    pool.prestart_all_core_threads();
    eventually(|| numbers.lock().unwrap().len() == 3);
    numbers.lock().unwrap().sort_unstable();
    end(&pool);
    assert_eq!(*numbers.lock().unwrap(), [1, 2, 3, 103]);
}

/// Panics on worker threads: thread name and message, in order.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Makes the panic hook record the panics of threads named `watched-…` instead of printing them.
fn watch_panics() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let thread = thread::current();
            let name = thread.name().unwrap_or_default();
            if !name.starts_with("watched-") {
                return default(info);
            }
            let message = info.payload().downcast_ref::<&str>().copied().unwrap_or_default();
            PANICS.lock().unwrap().push((name.to_owned(), message.to_owned()));
        }));
    });
}

// TPE-110
#[test]
fn the_panics_of_a_task_and_of_its_after_hook_both_reach_the_panic_hook() {
    struct Dies;
    impl Hooks for Dies {
        fn after_execute(&self, _: &TaskInfo, panic: Option<&Panic>) {
            assert_eq!(panic.and_then(Panic::message), Some("the task's"));
            panic!("the hook's");
        }
    }
    watch_panics();
    let pool = sized(1, 1).thread_name_prefix("watched-").hooks(Dies).build().unwrap();
    pool.execute(|| panic!("the task's")).unwrap();
    eventually(|| pool.completed_task_count() == 1);
    assert_eq!(pool.pool_size(), 1);
    end(&pool);
    let expected = ["the task's", "the hook's"].map(|text| ("watched-1".to_owned(), text.to_owned()));
    assert_eq!(*PANICS.lock().unwrap(), expected);
    assert_eq!((pool.stats().panicked, pool.completed_task_count()), (1, 1));
}

#[test]
fn a_panicking_after_hook_does_not_change_what_the_handle_gets() {
    struct Dies;
    impl Hooks for Dies {
        fn after_execute(&self, _: &TaskInfo, _: Option<&Panic>) {
            die("on purpose");
        }
    }
    let pool = sized(1, 1).hooks(Dies).build().unwrap();
    for n in 0..10 {
        assert_eq!(pool.submit(move || n).unwrap().join().unwrap(), n);
    }
    end(&pool);
    assert_eq!((pool.largest_pool_size(), pool.stats().completed), (1, 10));
}

#[test]
fn a_before_hook_that_panics_refuses_the_task_and_the_pool_goes_on() {
    struct Refuses(Log);
    impl Hooks for Refuses {
        fn before_execute(&self, task: &TaskInfo) {
            if task.name() == Some("unwanted") {
                die("on purpose");
            }
        }
        fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
            self.0.after_execute(task, panic);
        }
    }
    let log = Log::default();
    let pool = sized(1, 1).hooks(Refuses(log.clone())).build().unwrap();
    let unwanted = pool.submit_task(TaskOf::new(|| 1).named("unwanted")).unwrap();
    let wanted = pool.submit_task(TaskOf::new(|| 2).named("wanted")).unwrap();
    let id = wanted.id();
    assert!(matches!(unwanted.join(), Err(JoinError::Abandoned)));
    assert_eq!(wanted.join().unwrap(), 2);
    end(&pool);
    assert_eq!(log.events(), [Event::After(id, None)]);
    assert_eq!((pool.completed_task_count(), pool.largest_pool_size()), (2, 1));
    assert_eq!((pool.stats().completed, pool.stats().panicked), (1, 1));
}

#[test]
fn worker_hooks_and_the_rejected_hook_may_panic() {
    struct Dies;
    impl Hooks for Dies {
        fn worker_started(&self, _: &WorkerInfo) {
            die("on purpose");
        }
        fn worker_stopped(&self, _: &WorkerInfo) {
            die("on purpose");
        }
        fn rejected(&self, _: &TaskInfo, _: RejectReason) {
            die("on purpose");
        }
    }
    let pool = sized(1, 1).work_queue(WorkQueue::synchronous()).hooks(Dies).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::Saturated);
    gate.open();
    end(&pool);
    assert_eq!((pool.stats().completed, pool.stats().rejected), (1, 1));
}

// TPE-112, REJ-012
#[test]
fn a_task_that_its_submitter_runs_passes_no_hooks_but_the_rejected_one() {
    let log = Log::default();
    let pool = sized(1, 1)
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy::CallerRuns)
        .hooks(log.clone())
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let here = thread::current().id();
    let task = TaskOf::new(|| thread::current().id());
    let id = task.id();
    assert_eq!(pool.submit_task(task).unwrap().join().unwrap(), here);
    assert_eq!((pool.task_count(), pool.completed_task_count(), pool.stats().submitted), (1, 0, 1));
    gate.open();
    end(&pool);
    assert_eq!(log.count(|event| *event == Event::Before(id) || *event == Event::After(id, None)), 0);
    assert_eq!(log.count(|event| *event == Event::Rejected(id, RejectReason::Saturated)), 1);
    assert_eq!((pool.completed_task_count(), pool.stats().completed, pool.stats().rejected), (1, 1, 1));
}

// TPE-114
#[test]
fn a_worker_that_a_before_hook_holds_counts_as_active() {
    struct Pauses(Gate, Gate);
    impl Hooks for Pauses {
        fn before_execute(&self, _: &TaskInfo) {
            self.0.open();
            self.1.pass();
        }
    }
    let (paused, resume) = (Gate::new(), Gate::new());
    let pool = sized(1, 1).hooks(Pauses(paused.clone(), resume.clone())).build().unwrap();
    let handle = pool.submit(|| {}).unwrap();
    paused.pass();
    assert_eq!((pool.active_count(), pool.task_count(), pool.completed_task_count()), (1, 1, 0));
    assert_eq!(handle.state(), TaskState::Pending);
    resume.open();
    handle.join().unwrap();
    end(&pool);
}

// TPE-115
#[test]
fn hooks_see_id_name_and_priority_of_a_task_whether_it_has_a_handle_or_not() {
    type Seen = Arc<Mutex<Vec<(TaskId, Option<String>, i32)>>>;
    struct Sees(Seen);
    impl Hooks for Sees {
        fn before_execute(&self, task: &TaskInfo) {
            let name = task.name().map(str::to_owned);
            self.0.lock().unwrap().push((task.id(), name, task.priority()));
        }
    }
    let seen = Seen::default();
    let pool = sized(1, 1).hooks(Sees(Arc::clone(&seen))).build().unwrap();
    let plain = Task::new(|| {}).named("plain").with_priority(-1);
    let plain_id = plain.id();
    pool.execute_task(plain).unwrap();
    let tracked =
        pool.submit_task(TaskOf::new(|| {}).named(String::from("tracked")).with_priority(9)).unwrap();
    let bare = pool.submit(|| {}).unwrap();
    let (tracked_id, bare_id) = (tracked.id(), bare.id());
    tracked.join().unwrap();
    bare.join().unwrap();
    end(&pool);
    assert_eq!(
        *seen.lock().unwrap(),
        [
            (plain_id, Some("plain".to_owned()), -1),
            (tracked_id, Some("tracked".to_owned()), 9),
            (bare_id, None, 0)
        ]
    );
}

// TPE-115
#[test]
fn the_after_hook_gets_the_panic_of_an_execute_task_and_the_handle_that_of_a_submitted_one() {
    let log = Log::default();
    let pool = sized(1, 1).hooks(log.clone()).build().unwrap();
    let handle: TaskHandle<()> = pool.submit(|| die("kept")).unwrap();
    let submitted = handle.id();
    assert!(matches!(handle.join(), Err(JoinError::Panicked(panic)) if panic.message() == Some("kept")));
    let task = Task::new(|| die("told"));
    let executed = task.id();
    pool.execute_task(task).unwrap();
    end(&pool);
    let told = log.count(|event| *event == Event::After(executed, Some("told".to_owned())));
    assert_eq!((told, log.count(|event| *event == Event::After(submitted, None))), (1, 1));
}

#[test]
fn a_cancelled_task_that_stays_in_the_queue_passes_the_hooks_and_one_that_leaves_does_not() {
    for remove in [false, true] {
        let log = Log::default();
        let pool = sized(1, 1).remove_on_cancel(remove).hooks(log.clone()).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        let handle = pool.submit(|| {}).unwrap();
        assert!(handle.cancel(true));
        gate.open();
        end(&pool);
        let calls = usize::from(!remove);
        assert_eq!(log.count(|event| *event == Event::Before(handle.id())), calls);
        assert_eq!(log.count(|event| *event == Event::After(handle.id(), None)), calls);
    }
}

#[test]
fn hooks_may_submit_to_their_pool() {
    struct Submits(Arc<Mutex<Option<ThreadPoolExecutor>>>, Arc<AtomicUsize>);
    impl Hooks for Submits {
        fn after_execute(&self, task: &TaskInfo, _: Option<&Panic>) {
            if task.name() == Some("first") {
                let ran = Arc::clone(&self.1);
                let pool = self.0.lock().unwrap().take().unwrap();
                pool.execute(move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
            }
        }
    }
    let (slot, ran) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    let pool = sized(1, 1).hooks(Submits(Arc::clone(&slot), Arc::clone(&ran))).build().unwrap();
    *slot.lock().unwrap() = Some(pool.clone());
    pool.execute_task(Task::new(|| {}).named("first")).unwrap();
    eventually(|| pool.completed_task_count() == 2);
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    end(&pool);
}

// ---- interruption

// TPE-119
#[test]
fn neither_settings_nor_shutdown_interrupt_a_busy_worker() {
    let custom = WorkQueue::custom(LinkedBlockingQueue::unbounded());
    for queue in [WorkQueue::linked(), WorkQueue::synchronous(), WorkQueue::delay(), custom] {
        let pool = sized(1, 4).work_queue(queue).build().unwrap();
        let (gate, running) = (Gate::new(), Gate::new());
        let (wait, started) = (gate.clone(), running.clone());
        let flag = pool.submit(move || {
            started.open();
            wait.pass();
            interrupt::is_interrupted()
        });
        running.pass();
        pool.set_keep_alive_time(Duration::from_millis(1)).unwrap();
        pool.allow_core_thread_time_out(true).unwrap();
        pool.set_core_pool_size(2).unwrap();
        pool.set_core_pool_size(0).unwrap();
        pool.set_maximum_pool_size(1).unwrap();
        pool.purge();
        pool.shutdown();
        gate.open();
        assert!(!flag.unwrap().join().unwrap());
        end(&pool);
    }
}

// TPE-119
#[test]
fn cancel_interrupts_a_running_task_if_it_may_and_the_next_task_is_not_interrupted() {
    let pool = executors::fixed(1).unwrap();
    for may_interrupt in [true, false] {
        let (running, gate, seen) = (Gate::new(), Gate::new(), Arc::new(Mutex::new(None)));
        let (started, wait, tell) = (running.clone(), gate.clone(), Arc::clone(&seen));
        let handle = pool
            .submit(move || {
                started.open();
                wait.pass();
                *tell.lock().unwrap() = Some(interrupt::is_interrupted());
            })
            .unwrap();
        running.pass();
        assert!(handle.cancel(may_interrupt));
        gate.open();
        assert!(!pool.submit(interrupt::is_interrupted).unwrap().join().unwrap());
        assert_eq!(*seen.lock().unwrap(), Some(may_interrupt));
    }
    end(&pool);
}

#[test]
fn a_flag_that_a_task_sets_for_itself_does_not_reach_the_next_one() {
    for queue in [WorkQueue::linked(), WorkQueue::custom(LinkedBlockingQueue::unbounded())] {
        let pool = sized(1, 1).work_queue(queue).build().unwrap();
        for _ in 0..20 {
            pool.execute(interrupt_myself).unwrap();
            assert!(!pool.submit(interrupt::is_interrupted).unwrap().join().unwrap());
        }
        end(&pool);
        assert_eq!(pool.largest_pool_size(), 1);
    }
}

#[test]
fn the_interrupter_of_a_finished_task_does_nothing() {
    let pool = executors::fixed(1).unwrap();
    let stale = pool.submit(interrupt::current).unwrap().join().unwrap();
    let (running, gate) = (Gate::new(), Gate::new());
    let (started, wait) = (running.clone(), gate.clone());
    let flag = pool.submit(move || {
        started.open();
        wait.pass();
        interrupt::is_interrupted()
    });
    running.pass();
    stale.interrupt();
    assert!(!stale.is_interrupted());
    gate.open();
    assert!(!flag.unwrap().join().unwrap());
    end(&pool);
}

// TPE-120
#[test]
fn a_join_can_be_interrupted_while_the_task_goes_on() {
    let pool = executors::fixed(1).unwrap();
    let (gate, finished) = (Gate::new(), Gate::new());
    let (wait, finish) = (gate.clone(), finished.clone());
    let handle = pool
        .submit(move || {
            wait.pass();
            assert!(!interrupt::is_interrupted());
            finish.open();
        })
        .unwrap();
    thread::scope(|scope| {
        let joiner = block(scope, move || (handle.join(), interrupt::is_interrupted()));
        joiner.interrupt();
        let (joined, flag) = joiner.join();
        assert!(matches!(joined, Err(JoinError::Interrupted)));
        assert!(!flag);
    });
    gate.open();
    finished.pass();
    end(&pool);
    assert_eq!(pool.stats().completed, 1);
}

// TPE-120
#[test]
fn a_timed_join_that_was_interrupted_can_be_asked_again() {
    let pool = executors::fixed(1).unwrap();
    let gate = Gate::new();
    let wait = gate.clone();
    let mut handle = pool
        .submit(move || {
            wait.pass();
            3
        })
        .unwrap();
    interrupt_myself();
    assert!(matches!(handle.join_timeout(LONG), Some(Err(JoinError::Interrupted))));
    assert!(!interrupt::is_interrupted());
    gate.open();
    assert_eq!(handle.join_timeout(LONG).unwrap().unwrap(), 3);
    end(&pool);
}
