//! The public names and signatures, used as external code uses them. Most of it is checked by
//! compiling.

#![allow(clippy::type_complexity, reason = "signatures are spelt out")]

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::LONG;
use millpond::interrupt::{self, Interrupter, Registration};
use millpond::queue::{
    ArrayBlockingQueue, BlockingQueue, DelayQueue, Delayed, LinkedBlockingQueue, OfferError,
    PriorityBlockingQueue, PutError, QueueEmpty, QueueFull, SynchronousQueue,
};
use millpond::{
    CancelOnDrop, Canceller, ConfigError, Executor, ExecutorCompletionService, ExecutorExt, ExecutorService,
    Hooks, Interrupted, InvokeError, JoinError, Panic, PoolStats, RejectReason, Rejected,
    RejectedExecutionHandler, RunState, Scope, ScopeRejected, ShutdownOutcome, ShutdownReport,
    SingleThreadExecutor, Task, TaskHandle, TaskId, TaskInfo, TaskOf, TaskState, ThreadPoolExecutor,
    WorkQueue, WorkerBody, WorkerInfo, executors, policy, sizing,
};

fn shared<T: Send + Sync + Debug + 'static>() {}
fn plain<T: Debug + Clone + Copy + PartialEq + Eq + Send + Sync + 'static>() {}
fn error<T: Error + Send + Sync + 'static>() {}

#[test]
fn public_types_can_be_sent_shared_and_printed() {
    shared::<TaskId>();
    shared::<TaskInfo>();
    shared::<TaskHandle<String>>();
    shared::<CancelOnDrop<String>>();
    shared::<Canceller>();
    shared::<ThreadPoolExecutor>();
    shared::<SingleThreadExecutor>();
    shared::<ExecutorCompletionService<String>>();
    shared::<PoolStats>();
    shared::<WorkerInfo>();
    shared::<Interrupter>();
    shared::<Registration>();
    shared::<Task>();
    shared::<TaskOf<String>>();
    shared::<WorkerBody>();
    shared::<WorkQueue>();
    shared::<millpond::Builder>();
    shared::<ShutdownReport>();
    shared::<ScopeRejected<fn()>>();
    shared::<policy::Abort>();
    shared::<policy::CallerRuns>();
    shared::<policy::Discard>();
    shared::<policy::DiscardOldest>();
    shared::<policy::Block>();
    shared::<ArrayBlockingQueue<String>>();
    shared::<LinkedBlockingQueue<String>>();
    shared::<SynchronousQueue<String>>();
    shared::<PriorityBlockingQueue<String>>();
    shared::<DelayQueue<Soon>>();
    plain::<TaskState>();
    plain::<RejectReason>();
    plain::<RunState>();
    plain::<ShutdownOutcome>();
    plain::<Interrupted>();

    fn id<T: Copy + Eq + Hash + Display>() {}
    id::<TaskId>();
    fn cloned<T: Clone>() {}
    cloned::<Canceller>();
    cloned::<ThreadPoolExecutor>();
    cloned::<SingleThreadExecutor>();
    cloned::<Interrupter>();
    fn displayed<T: Display>() {}
    displayed::<ThreadPoolExecutor>();
}

#[test]
fn every_error_can_be_boxed_and_sent_whatever_item_it_holds() {
    error::<Panic>();
    error::<JoinError>();
    error::<Interrupted>();
    error::<ConfigError>();
    error::<QueueEmpty>();
    error::<QueueFull<String>>();
    error::<PutError<String>>();
    error::<OfferError<String>>();
    error::<Rejected>();
    error::<InvokeError>();
    fn borrowed<'a>() -> impl Error + 'a {
        QueueFull(&1)
    }
    assert!(!borrowed().to_string().is_empty());

    // The item need not be printable.
    struct Opaque;
    assert!(!format!("{:?}{:?}", QueueFull(Opaque), PutError::Interrupted(Opaque)).is_empty());
    assert!(!format!("{:?}", OfferError::TimedOut(Opaque)).is_empty());
}

/// `?` converts into an error type that can be shared: most programs collect their errors in one.
#[test]
fn rejections_go_wherever_errors_go() {
    fn submit(pool: &ThreadPoolExecutor) -> Result<u8, Box<dyn Error + Send + Sync>> {
        pool.execute(|| ())?;
        pool.invoke_all([|| 1])?;
        Ok(pool.submit(|| 7)?.join()?)
    }
    let pool = executors::fixed(1).unwrap();
    assert_eq!(submit(&pool).unwrap(), 7);
    pool.close();
    assert!(submit(&pool).unwrap_err().is::<Rejected>());
}

/// `?` converts every error into `Box<dyn Error>`, up to the end of `main`.
#[test]
fn question_marks_take_every_error_to_the_end_of_main() -> Result<(), Box<dyn Error>> {
    let pool = executors::fixed(1)?;
    let handle = pool.submit(|| 6)?;
    assert_eq!(handle.join()?, 6);
    pool.execute(|| ())?;
    assert_eq!(pool.invoke_all([|| 1])?.len(), 1);
    assert_eq!(pool.invoke_any([|| "7".parse::<u8>()])?, 7);
    interrupt::check()?;
    interrupt::sleep(Duration::ZERO)?;
    assert!(!pool.await_termination(Duration::ZERO)?);
    let queue = ArrayBlockingQueue::new(1)?;
    queue.add(1)?;
    assert_eq!(queue.remove_head()?, 1);
    queue.put(2)?;
    assert_eq!(queue.take()?, 2);
    queue.offer_timeout(3, LONG)?;
    pool.close();
    Ok(())
}

#[test]
fn tasks_and_handles_have_the_methods_of_their_contract() {
    let _: fn(&Task) -> TaskId = Task::id;
    let _: for<'a> fn(&'a Task) -> Option<&'a str> = Task::name;
    let _: fn(&Task) -> i32 = Task::priority;
    let _: fn(Task) = Task::run;
    let _: fn(Task, i32) -> Task = Task::with_priority;
    let _: fn(Task, Duration) -> Task = Task::with_delay;
    let task: Task =
        Task::new(|| ()).named("static").named(String::from("owned")).named(Cow::Borrowed("cow"));
    task.with_priority(1).with_delay(Duration::ZERO).run();
    let of: TaskOf<u8> = TaskOf::new(|| 7)
        .named("static")
        .named(String::from("owned"))
        .with_priority(-1)
        .with_delay(Duration::MAX);
    drop(of);

    let _: fn(&TaskHandle<u8>) -> TaskId = TaskHandle::id;
    let _: fn(TaskHandle<u8>) -> Result<u8, JoinError> = TaskHandle::join;
    let _: fn(&mut TaskHandle<u8>, Duration) -> Option<Result<u8, JoinError>> = TaskHandle::join_timeout;
    let _: fn(&mut TaskHandle<u8>) -> Option<Result<u8, JoinError>> = TaskHandle::try_join;
    let _: fn(&TaskHandle<u8>, bool) -> bool = TaskHandle::cancel;
    let _: fn(&TaskHandle<u8>) -> bool = TaskHandle::is_done;
    let _: fn(&TaskHandle<u8>) -> bool = TaskHandle::is_cancelled;
    let _: fn(&TaskHandle<u8>) -> TaskState = TaskHandle::state;
    let _: fn(&TaskHandle<u8>) -> Canceller = TaskHandle::canceller;
    let _: fn(TaskHandle<u8>) -> CancelOnDrop<u8> = TaskHandle::cancel_on_drop;

    let _: fn(&Canceller) -> TaskId = Canceller::id;
    let _: fn(&Canceller, bool) -> bool = Canceller::cancel;
    let _: fn(&Canceller) -> bool = Canceller::is_done;
    let _: fn(&Canceller) -> bool = Canceller::is_cancelled;
    let _: fn(&Canceller) -> TaskState = Canceller::state;

    let _: for<'a> fn(&'a Panic) -> Option<&'a str> = Panic::message;
    let _: fn(Panic) -> Box<dyn Any + Send> = Panic::into_payload;

    fn awaitable<T>(handle: TaskHandle<T>) -> impl Future<Output = Result<T, JoinError>> {
        handle
    }
    let (task, handle) = TaskOf::new(|| 7).into_parts();
    drop(awaitable(handle));
    drop(task);

    /// A handle can be used without any bound on `T`.
    fn generic<T>(mut handle: TaskHandle<T>) -> Option<T> {
        let _ = (handle.id(), handle.is_done(), handle.is_cancelled(), handle.state(), handle.cancel(true));
        let _: Canceller = handle.canceller();
        handle.try_join().and_then(Result::ok).or_else(|| handle.join().ok())
    }
    assert!(generic(TaskOf::new(|| 7).into_parts().1).is_none());
}

#[test]
fn the_enums_can_be_matched() {
    // Exhaustive.
    let state = |state: TaskState| match state {
        TaskState::Pending | TaskState::Running => false,
        TaskState::Succeeded | TaskState::Failed | TaskState::Cancelled | TaskState::Abandoned => true,
    };
    assert!(!state(TaskState::Pending) && state(TaskState::Abandoned));
    let run_state = |state: RunState| match state {
        RunState::Running => 0,
        RunState::Shutdown => 1,
        RunState::Stop => 2,
        RunState::Tidying => 3,
        RunState::Terminated => 4,
    };
    assert_eq!(run_state(RunState::Tidying), 3);
    let outcome = |outcome: ShutdownOutcome| match outcome {
        ShutdownOutcome::Drained => 0,
        ShutdownOutcome::Interrupted => 1,
        ShutdownOutcome::StillRunning => 2,
    };
    assert_eq!(outcome(ShutdownOutcome::Drained), 0);
    // May grow.
    let join_error = |error: JoinError| match error {
        JoinError::Cancelled => "cancelled".to_owned(),
        JoinError::Panicked(panic) => panic.message().unwrap_or("panicked").to_owned(),
        JoinError::Abandoned => "abandoned".to_owned(),
        JoinError::Interrupted => "interrupted".to_owned(),
        JoinError::Taken => "taken".to_owned(),
        _ => "new".to_owned(),
    };
    assert_eq!(join_error(JoinError::Taken), "taken");
    let invoke_error = |error: InvokeError| match error {
        InvokeError::Empty => "empty".to_owned(),
        InvokeError::Rejected(rejected) => format!("{:?}", Rejected::reason(&rejected)),
        InvokeError::TimedOut => "timed out".to_owned(),
        InvokeError::Interrupted => "interrupted".to_owned(),
        InvokeError::AllFailed(last) => {
            let last: Box<dyn Error + Send + Sync> = last;
            last.to_string()
        }
        _ => "new".to_owned(),
    };
    assert_eq!(invoke_error(InvokeError::AllFailed("last".into())), "last");
    let reason = |reason: RejectReason| match reason {
        RejectReason::Saturated => 0,
        RejectReason::Shutdown => 1,
        RejectReason::SpawnFailed => 2,
        _ => 3,
    };
    assert_eq!(reason(RejectReason::Shutdown), 1);
}

struct Mine(ThreadPoolExecutor);

impl Executor for Mine {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.0.execute_task(task)
    }
}

/// All methods except `close`, which the trait provides.
impl ExecutorService for Mine {
    fn shutdown(&self) {
        self.0.shutdown();
    }
    fn shutdown_now(&self) -> Vec<Task> {
        self.0.shutdown_now()
    }
    fn is_shutdown(&self) -> bool {
        self.0.is_shutdown()
    }
    fn is_terminated(&self) -> bool {
        self.0.is_terminated()
    }
    fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.0.await_termination(timeout)
    }
}

type Job = fn() -> u8;
type Fallible = fn() -> Result<u8, String>;

/// All methods of the traits, called on a trait object and on the pool itself without the traits.
#[test]
fn executors_can_be_used_as_traits_and_as_objects() {
    fn use_executor(executor: &dyn Executor) {
        executor.execute_task(Task::new(|| ())).unwrap();
        executor.execute(|| ()).unwrap();
        let handle: TaskHandle<u8> = executor.submit(|| 7).unwrap();
        assert_eq!(handle.join().unwrap(), 7);
        let handle: TaskHandle<u8> = executor.submit_task(TaskOf::new(|| 7).named("seven")).unwrap();
        assert_eq!(handle.join().unwrap(), 7);
        let jobs: [Job; 2] = [|| 1, || 2];
        let _: Vec<TaskHandle<u8>> = executor.invoke_all(jobs).unwrap();
        let _: Vec<TaskHandle<u8>> = executor.invoke_all_timeout(jobs.to_vec(), LONG).unwrap();
        let jobs: [Fallible; 2] = [|| Err("no".into()), || Ok(2)];
        assert_eq!(executor.invoke_any(jobs).unwrap(), 2);
        assert_eq!(executor.invoke_any_timeout(jobs, LONG).unwrap(), 2);
    }
    fn use_service(service: &dyn ExecutorService) {
        use_executor(&service);
        assert!(!service.is_shutdown() && !service.is_terminated());
        service.shutdown();
        assert!(service.shutdown_now().is_empty());
        assert_eq!(service.await_termination(LONG), Ok(true));
        service.close();
    }
    fn owned(service: impl ExecutorService + 'static) -> Arc<dyn ExecutorService> {
        Arc::new(service)
    }
    use_service(&executors::fixed(1).unwrap());
    use_service(&executors::single());
    use_service(&Mine(executors::fixed(1).unwrap()));
    use_service(&*owned(executors::cached()));
    let pool = executors::fixed(1).unwrap();
    fn by_reference<E: Executor>(executor: E) -> bool {
        executor.submit(|| true).unwrap().join().unwrap()
    }
    assert!(
        by_reference(&pool) && by_reference(Arc::new(pool.clone())) && by_reference(Box::new(pool.clone()))
    );
    pool.close();
}

mod without_traits {
    use super::{Fallible, Job, LONG};
    use millpond::{Task, TaskOf, executors};
    use std::time::Duration;

    #[test]
    fn the_pool_needs_no_trait_in_scope() {
        let pool = executors::fixed(1).unwrap();
        pool.execute_task(Task::new(|| ())).unwrap();
        pool.execute(|| ()).unwrap();
        pool.submit(|| 7).unwrap().join().unwrap();
        pool.submit_task(TaskOf::new(|| 7)).unwrap().join().unwrap();
        let jobs: [Job; 1] = [|| 1];
        pool.invoke_all(jobs).unwrap();
        pool.invoke_all_timeout(jobs, LONG).unwrap();
        let jobs: [Fallible; 1] = [|| Ok(1)];
        pool.invoke_any(jobs).unwrap();
        pool.invoke_any_timeout(jobs, LONG).unwrap();
        assert!(!pool.is_shutdown() && !pool.is_terminated());
        assert!(!pool.await_termination(Duration::ZERO).unwrap());
        pool.shutdown();
        assert!(pool.shutdown_now().is_empty());
        pool.close();
    }

    /// More than the contract requires: the methods that are used every day.
    #[test]
    fn the_single_thread_executor_needs_no_trait_for_work_and_life_cycle() {
        let single = executors::single();
        single.execute_task(Task::new(|| ())).unwrap();
        single.execute(|| ()).unwrap();
        assert_eq!(single.submit(|| 7).unwrap().join().unwrap(), 7);
        assert!(!single.is_shutdown() && !single.is_terminated());
        assert!(!single.await_termination(Duration::ZERO).unwrap());
        single.shutdown();
        assert!(single.shutdown_now().is_empty());
        single.close();
        assert!(single.is_terminated());
    }
}

#[test]
fn rejections_and_the_completion_service_have_the_methods_of_their_contract() {
    let _: fn(Task, RejectReason) -> Rejected = Rejected::new;
    let _: fn(&Rejected) -> RejectReason = Rejected::reason;
    let _: for<'a> fn(&'a Rejected) -> &'a Task = Rejected::task;
    let _: fn(Rejected) -> Task = Rejected::into_task;

    struct _Holds<T>(ExecutorCompletionService<T>);
    type Service = ExecutorCompletionService<u8>;
    let _: fn(ThreadPoolExecutor) -> Service = Service::new;
    let _: fn(Arc<dyn Executor>) -> Service = Service::new;
    let _: fn(&Service, Job) -> Result<Canceller, Rejected> = Service::submit;
    let _: fn(&Service) -> Result<TaskHandle<u8>, Interrupted> = Service::take;
    let _: fn(&Service) -> Option<TaskHandle<u8>> = Service::poll;
    let _: fn(&Service, Duration) -> Result<Option<TaskHandle<u8>>, Interrupted> = Service::poll_timeout;
}

struct Everything;

impl Hooks for Everything {
    fn before_execute(&self, task: &TaskInfo) {
        let _: (TaskId, Option<&str>, i32) = (task.id(), task.name(), task.priority());
    }
    fn after_execute(&self, _: &TaskInfo, _: Option<&Panic>) {}
    fn terminated(&self) {}
    fn rejected(&self, _: &TaskInfo, _: RejectReason) {}
    fn worker_started(&self, worker: &WorkerInfo) {
        let _: (&str, usize) = (worker.name(), worker.number());
    }
    fn worker_stopped(&self, _: &WorkerInfo) {}
}

struct Nothing;
impl Hooks for Nothing {}

impl RejectedExecutionHandler for Nothing {
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        let _: &ThreadPoolExecutor = pool;
        Err(Rejected::new(task, RejectReason::Saturated))
    }
}

#[test]
fn the_builder_takes_all_options() {
    let factory = |body: WorkerBody| -> io::Result<JoinHandle<()>> {
        assert!(!body.name().is_empty() && body.number() == 1_usize);
        std::thread::Builder::new().stack_size(1 << 18).spawn(move || body.run())
    };
    let pool: Result<ThreadPoolExecutor, ConfigError> = ThreadPoolExecutor::builder()
        .core_pool_size(2)
        .maximum_pool_size(4)
        .keep_alive_time(Duration::from_secs(60))
        .allow_core_thread_time_out(false)
        .work_queue(WorkQueue::array(1000))
        .rejected_execution_handler(policy::Abort)
        .thread_name_prefix("resize-")
        .thread_factory(factory)
        .hooks(Everything)
        .remove_on_cancel(true)
        .eager()
        .build();
    let pool = pool.unwrap();
    pool.submit(|| ()).unwrap().join().unwrap();
    pool.close();

    for queue in [
        WorkQueue::array(1),
        WorkQueue::linked(),
        WorkQueue::linked_bounded(1),
        WorkQueue::synchronous(),
        WorkQueue::priority(),
        WorkQueue::delay(),
        WorkQueue::custom(LinkedBlockingQueue::unbounded()),
        WorkQueue::custom(Arc::new(ArrayBlockingQueue::new(1).unwrap())),
    ] {
        let pool = ThreadPoolExecutor::builder().work_queue(queue).hooks(Nothing).build().unwrap();
        assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
        pool.close();
    }
    for zero in [WorkQueue::array(0), WorkQueue::linked_bounded(0)] {
        let error: ConfigError = ThreadPoolExecutor::builder().work_queue(zero).build().unwrap_err();
        assert!(error.to_string().contains('0'), "{error}");
    }
    let _ = ThreadPoolExecutor::builder().rejected_execution_handler(policy::CallerRuns);
    let _ = ThreadPoolExecutor::builder().rejected_execution_handler(policy::Discard);
    let _ = ThreadPoolExecutor::builder().rejected_execution_handler(policy::DiscardOldest);
    let _ = ThreadPoolExecutor::builder().rejected_execution_handler(policy::Block::forever());
    let _ = ThreadPoolExecutor::builder().rejected_execution_handler(policy::Block::timeout(LONG));
    let _ = ThreadPoolExecutor::builder().rejected_execution_handler(Nothing);
    let _ =
        ThreadPoolExecutor::builder().thread_name_prefix(String::from("owned-")).rejected_execution_handler(
            |task: Task, _: &ThreadPoolExecutor| Err(Rejected::new(task, RejectReason::Saturated)),
        );
}

#[test]
fn the_pool_has_the_methods_of_its_contract() {
    type Pool = ThreadPoolExecutor;
    let _: fn(&Pool) -> usize = Pool::core_pool_size;
    let _: fn(&Pool, usize) -> Result<(), ConfigError> = Pool::set_core_pool_size;
    let _: fn(&Pool) -> usize = Pool::maximum_pool_size;
    let _: fn(&Pool, usize) -> Result<(), ConfigError> = Pool::set_maximum_pool_size;
    let _: fn(&Pool) -> Duration = Pool::keep_alive_time;
    let _: fn(&Pool, Duration) -> Result<(), ConfigError> = Pool::set_keep_alive_time;
    let _: fn(&Pool) -> bool = Pool::allows_core_thread_time_out;
    let _: fn(&Pool, bool) -> Result<(), ConfigError> = Pool::allow_core_thread_time_out;
    let _: fn(&Pool) -> bool = Pool::prestart_core_thread;
    let _: fn(&Pool) -> usize = Pool::prestart_all_core_threads;
    let _: fn(&Pool, policy::Abort) = Pool::set_rejected_execution_handler;
    let _: fn(&Pool, fn(WorkerBody) -> io::Result<JoinHandle<()>>) = Pool::set_thread_factory;
    let _: [fn(&Pool) -> usize; 5] = [
        Pool::pool_size,
        Pool::active_count,
        Pool::largest_pool_size,
        Pool::queued_count,
        Pool::remaining_queue_capacity,
    ];
    let _: [fn(&Pool) -> u64; 2] = [Pool::task_count, Pool::completed_task_count];
    let _: fn(&Pool) -> Vec<TaskId> = Pool::queued_tasks;
    let _: fn(&Pool, TaskId) -> bool = Pool::remove;
    let _: fn(&Pool) -> usize = Pool::purge;
    let _: fn(&Pool) -> bool = Pool::is_terminating;
    let _: fn(&Pool) -> RunState = Pool::state;
    let _: fn(&Pool) -> PoolStats = Pool::stats;
    let _: fn(&Pool, Duration, Duration) -> ShutdownReport = Pool::shutdown_gracefully;

    let pool = executors::bounded(1, 2, 3).unwrap();
    let PoolStats {
        state,
        core_pool_size,
        maximum_pool_size,
        keep_alive_time,
        pool_size,
        active_count,
        largest_pool_size,
        queued_count,
        remaining_queue_capacity,
        submitted,
        completed,
        panicked,
        cancelled,
        rejected,
        ..
    } = pool.stats();
    let _: (RunState, Duration) = (state, keep_alive_time);
    let sizes: [usize; 7] = [
        core_pool_size,
        maximum_pool_size,
        pool_size,
        active_count,
        largest_pool_size,
        queued_count,
        remaining_queue_capacity,
    ];
    let counts: [u64; 5] = [submitted, completed, panicked, cancelled, rejected];
    assert_eq!((sizes, counts), ([1, 2, 0, 0, 0, 0, 3], [0; 5]));

    let text = pool.to_string();
    let wanted = "[Running, pool size = 0, active threads = 0, queued tasks = 0, completed tasks = 0]";
    assert!(text.starts_with("pool-") && text.ends_with(wanted), "{text}");
    let ShutdownReport { outcome, elapsed, never_run, .. } = pool.shutdown_gracefully(LONG, LONG);
    let _: (ShutdownOutcome, Duration, Vec<Task>) = (outcome, elapsed, never_run);
    assert!(pool.to_string().contains("[Terminated, "));
}

#[test]
fn the_scope_has_the_methods_of_its_contract() {
    fn halves(pool: &ThreadPoolExecutor, numbers: &mut [u8]) -> usize {
        pool.scope(|scope| fill(scope, numbers))
    }
    fn fill<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, numbers: &'env mut [u8]) -> usize {
        let length = numbers.len();
        let task = move || numbers.fill(7);
        let refused: Result<(), ScopeRejected<_>> = scope.execute(task);
        if let Err(refused) = refused {
            let _: RejectReason = refused.reason();
            refused.into_inner()();
        }
        let length = scope.submit(move || length).unwrap();
        length.join().unwrap()
    }
    let pool = executors::fixed(1).unwrap();
    let mut numbers = [0; 4];
    assert_eq!(halves(&pool, &mut numbers), 4);
    assert_eq!(numbers, [7; 4]);
    pool.close();
}

#[test]
fn the_factories_return_what_the_contract_says() {
    let _: fn(usize) -> Result<ThreadPoolExecutor, ConfigError> = executors::fixed;
    let _: fn(usize, usize, usize) -> Result<ThreadPoolExecutor, ConfigError> = executors::bounded;
    let _: fn() -> ThreadPoolExecutor = executors::cached;
    let _: fn() -> SingleThreadExecutor = executors::single;
}

#[derive(Debug, Clone, PartialEq)]
struct Soon(u8);

impl Delayed for Soon {
    fn due(&self) -> Instant {
        Instant::now()
    }
}

/// Implements only the required methods: the provided ones must suffice.
struct Minimal(LinkedBlockingQueue<u8>);

impl BlockingQueue<u8> for Minimal {
    fn offer(&self, item: u8) -> Result<(), u8> {
        self.0.offer(item)
    }
    fn put(&self, item: u8) -> Result<(), PutError<u8>> {
        self.0.put(item)
    }
    fn offer_timeout(&self, item: u8, timeout: Duration) -> Result<(), OfferError<u8>> {
        self.0.offer_timeout(item, timeout)
    }
    fn poll(&self) -> Option<u8> {
        self.0.poll()
    }
    fn take(&self) -> Result<u8, Interrupted> {
        self.0.take()
    }
    fn poll_timeout(&self, timeout: Duration) -> Result<Option<u8>, Interrupted> {
        self.0.poll_timeout(timeout)
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn remaining_capacity(&self) -> usize {
        self.0.remaining_capacity()
    }
    fn drain_to(&self, into: &mut Vec<u8>, max: usize) -> usize {
        self.0.drain_to(into, max)
    }
    fn remove_if(&self, matches: &mut dyn FnMut(&u8) -> bool) -> Vec<u8> {
        self.0.remove_if(matches)
    }
    fn for_each(&self, see: &mut dyn FnMut(&u8)) {
        self.0.for_each(see);
    }
}

#[test]
fn queues_can_be_used_as_traits_and_as_objects() {
    fn use_queue(queue: &dyn BlockingQueue<u8>) {
        queue.offer(1).unwrap();
        queue.put(2).unwrap();
        queue.offer_timeout(3, Duration::ZERO).unwrap();
        queue.add(4).unwrap();
        assert_eq!((queue.len(), queue.is_empty(), queue.remaining_capacity() > 0), (4, false, true));
        assert_eq!((queue.peek(), queue.element(), queue.to_vec()), (Some(1), Ok(1), vec![1, 2, 3, 4]));
        assert!(queue.contains(&3) && queue.remove(&3) && !queue.remove(&3));
        queue.retain(&mut |item| *item != 4);
        let mut sum = 0;
        queue.for_each(&mut |item| sum += item);
        assert_eq!(sum, 3);
        assert_eq!((queue.poll(), queue.take()), (Some(1), Ok(2)));
        assert_eq!(queue.poll_timeout(Duration::ZERO), Ok(None));
        assert_eq!(queue.remove_head(), Err(QueueEmpty));
        queue.add(5).unwrap();
        let mut drained = Vec::new();
        assert_eq!((queue.drain_to(&mut drained, 9), drained), (1, vec![5]));
        queue.add(6).unwrap();
        assert_eq!(queue.remove_if(&mut |_| true), [6]);
        queue.clear();
    }
    use_queue(&ArrayBlockingQueue::new(9).unwrap());
    use_queue(&ArrayBlockingQueue::fair(9).unwrap());
    use_queue(&LinkedBlockingQueue::bounded(9).unwrap());
    use_queue(&LinkedBlockingQueue::unbounded());
    use_queue(&PriorityBlockingQueue::new());
    use_queue(&PriorityBlockingQueue::by(|a: &u8, b: &u8| a.cmp(b)));
    use_queue(&Minimal(LinkedBlockingQueue::unbounded()));
    let delay: Box<dyn BlockingQueue<Soon>> = Box::new(DelayQueue::new());
    delay.add(Soon(1)).unwrap();
    assert_eq!(delay.take().unwrap(), Soon(1));

    let _: fn(usize) -> Result<ArrayBlockingQueue<u8>, ConfigError> = ArrayBlockingQueue::new;
    let _: fn(usize) -> Result<ArrayBlockingQueue<u8>, ConfigError> = ArrayBlockingQueue::fair;
    let _: fn(usize) -> Result<LinkedBlockingQueue<u8>, ConfigError> = LinkedBlockingQueue::bounded;
    let _: fn() -> LinkedBlockingQueue<u8> = LinkedBlockingQueue::unbounded;
    let _: fn(&LinkedBlockingQueue<u8>, usize) -> Result<(), ConfigError> = LinkedBlockingQueue::set_capacity;
    let _: [fn() -> SynchronousQueue<u8>; 2] = [SynchronousQueue::new, SynchronousQueue::fair];

    let full = ArrayBlockingQueue::new(1).unwrap();
    full.add(String::from("one")).unwrap();
    let QueueFull(back) = full.add(String::from("two")).unwrap_err();
    assert_eq!(back, "two");
    assert_eq!(full.add(back).unwrap_err().into_inner(), "two");
    match full.offer_timeout(String::from("two"), Duration::ZERO) {
        Err(OfferError::TimedOut(item) | OfferError::Interrupted(item)) => assert_eq!(item, "two"),
        Ok(()) => panic!("it was full"),
    }
    crate::support::interrupt_myself();
    let PutError::Interrupted(item) = full.put(String::from("two")).unwrap_err();
    assert_eq!(item, "two");
    assert_eq!(PutError::Interrupted(1).into_inner() + OfferError::TimedOut(2).into_inner(), 3);
}

#[test]
fn the_module_interrupt_has_the_functions_of_its_contract() {
    let _: [fn() -> bool; 2] = [interrupt::is_interrupted, interrupt::interrupted];
    let _: fn() -> Result<(), interrupt::Interrupted> = interrupt::check;
    let _: fn(Duration) -> Result<(), Interrupted> = interrupt::sleep;
    let _: fn() -> Interrupter = interrupt::current;
    let _: fn(&Interrupter) = Interrupter::interrupt;
    let _: fn(&Interrupter) -> bool = Interrupter::is_interrupted;
    let _: fn(&Interrupter, fn()) -> Registration = Interrupter::on_interrupt;
    let Interrupted = Interrupted;
    let joined: JoinError = Interrupted.into();
    assert!(matches!(joined, JoinError::Interrupted));
}

#[test]
fn the_module_sizing_has_the_functions_of_its_contract() {
    let _: fn() -> usize = sizing::cpu_bound;
    let _: fn(Duration, Duration) -> usize = sizing::io_bound;
    let _: fn(f64, Duration) -> usize = sizing::for_rate;
}
