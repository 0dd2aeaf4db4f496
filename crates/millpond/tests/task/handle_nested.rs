//! Joins inside the pool: a worker runs the task it waits for, and no other.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::support::pools::fixed;
use crate::support::{Counter, Gate, LONG, MEDIUM, SHORT, eventually};
use millpond::interrupt::Interrupted;
use millpond::queue::{BlockingQueue, LinkedBlockingQueue, OfferError, PutError};
use millpond::{
    ExecutorExt, Hooks, JoinError, Panic, Task, TaskInfo, TaskOf, TaskState, ThreadPoolExecutor, WorkQueue,
    interrupt,
};

fn pool_with(queue: WorkQueue) -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder().core_pool_size(1).maximum_pool_size(1).work_queue(queue).build().unwrap()
}

fn descend(pool: &ThreadPoolExecutor, depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let inner = pool.clone();
    1 + pool.submit(move || descend(&inner, depth - 1)).unwrap().join().unwrap()
}

#[test]
fn submit_and_join_nest_five_deep_on_one_worker() {
    let queues: [fn() -> WorkQueue; 4] = [
        WorkQueue::linked,
        || WorkQueue::array(5),
        WorkQueue::priority,
        || WorkQueue::custom(LinkedBlockingQueue::unbounded()),
    ];
    for queue in queues {
        let pool = pool_with(queue());
        assert_eq!(descend(&pool, 5), 5);
        eventually(|| pool.completed_task_count() == 5);
        assert_eq!(pool.largest_pool_size(), 1);
        pool.close();
    }
}

#[test]
fn a_full_pool_that_waits_for_itself_finishes() {
    let pool = fixed(2);
    let outer = pool.invoke_all((0..8).map(|n: usize| {
        let pool = pool.clone();
        move || descend(&pool, n % 4)
    }));
    let depths: Vec<_> = outer.unwrap().into_iter().map(|handle| handle.join().unwrap()).collect();
    assert_eq!(depths, [0, 1, 2, 3, 0, 1, 2, 3]);
    pool.close();
}

#[test]
fn invoke_all_inside_invoke_all_on_one_worker() {
    let pool = fixed(1);
    let outer = pool.invoke_all((0..3_u64).map(|n| {
        let pool = pool.clone();
        move || {
            let inner = pool.invoke_all((0..3_u64).map(|m| move || n * 10 + m)).unwrap();
            inner.into_iter().map(|handle| handle.join().unwrap()).sum::<u64>()
        }
    }));
    let sums: Vec<_> = outer.unwrap().into_iter().map(|handle| handle.join().unwrap()).collect();
    assert_eq!(sums, [3, 33, 63]);
    pool.close();
}

#[test]
fn invoke_any_inside_a_pool_of_one_thread() {
    let pool = fixed(1);
    let inside = pool.clone();
    let answer = pool.submit(move || {
        let tasks: [fn() -> Result<u8, String>; 3] =
            [|| Err("first".into()), || Err("second".into()), || Ok(42)];
        let timed = inside.invoke_any_timeout(tasks, LONG).unwrap();
        (inside.invoke_any(tasks).unwrap(), timed)
    });
    assert_eq!(answer.unwrap().join().unwrap(), (42, 42));
    pool.close();
}

#[test]
fn timed_and_guarded_joins_help_too() {
    let pool = fixed(1);
    let inside = pool.clone();
    let both = pool.submit(move || {
        let mut timed = inside.submit(|| 1).unwrap();
        let guarded = inside.submit(|| 2).unwrap().cancel_on_drop();
        (timed.join_timeout(LONG).unwrap().unwrap(), guarded.join().unwrap())
    });
    assert_eq!(both.unwrap().join().unwrap(), (1, 2));
    pool.close();
}

#[test]
fn try_join_and_looking_do_not_run_the_task() {
    let pool = fixed(1);
    let inside = pool.clone();
    let state = pool.submit(move || {
        let mut inner = inside.submit(|| 1).unwrap();
        assert!(inner.try_join().is_none());
        assert!(!inner.is_done());
        inner.state()
    });
    assert_eq!(state.unwrap().join().unwrap(), TaskState::Pending);
    pool.close();
}

/// A worker runs only the task it waits for, not an unrelated one, even one that is queued earlier.
#[test]
fn a_joining_worker_runs_only_what_it_waits_for() {
    let pool = fixed(1);
    let inside = pool.clone();
    let order = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&order);
    let outer = pool.submit(move || {
        let note = |text: &'static str| {
            let log = Arc::clone(&log);
            move || log.lock().unwrap().push(text)
        };
        inside.execute(note("stranger")).unwrap();
        inside.submit(note("wanted")).unwrap().join().unwrap();
        note("outer")();
    });
    outer.unwrap().join().unwrap();
    pool.close();
    assert_eq!(*order.lock().unwrap(), ["wanted", "outer", "stranger"]);
}

#[test]
fn the_task_of_another_pool_is_not_run_here() {
    let (pool, other) = (fixed(1), fixed(1));
    let gate = Gate::new();
    let wait = gate.clone();
    other.execute(move || wait.pass()).unwrap();
    let (elsewhere, begun) = (other.clone(), Gate::new());
    let tell = begun.clone();
    let ran_on = pool
        .submit(move || {
            let handle = elsewhere.submit(|| thread::current().id()).unwrap();
            tell.open();
            (thread::current().id(), handle.join().unwrap())
        })
        .unwrap();
    begun.pass();
    eventually(|| other.queued_count() == 1);
    gate.open();
    let (here, there) = ran_on.join().unwrap();
    assert_ne!(here, there);
    eventually(|| pool.completed_task_count() == 1 && other.completed_task_count() == 2);
    pool.close();
    other.close();
}

#[test]
fn a_thread_that_is_no_worker_does_not_help() {
    let pool = fixed(1);
    let gate = Gate::new();
    let wait = gate.clone();
    pool.execute(move || wait.pass()).unwrap();
    let mut handle = pool.submit(|| thread::current().id()).unwrap();
    assert!(handle.join_timeout(SHORT).is_none());
    gate.open();
    assert_ne!(handle.join().unwrap(), thread::current().id());
    pool.close();
}

#[test]
fn hooks_and_counters_see_a_task_that_was_run_in_place() {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);
    impl Hooks for Log {
        fn before_execute(&self, task: &TaskInfo) {
            self.0.lock().unwrap().push(format!("before {}", task.name().unwrap()));
        }
        fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
            assert!(panic.is_none());
            self.0.lock().unwrap().push(format!("after {}", task.name().unwrap()));
        }
    }
    let log = Log::default();
    let pool = ThreadPoolExecutor::builder().hooks(log.clone()).build().unwrap();
    let inside = pool.clone();
    let outer = TaskOf::new(move || {
        let inner = inside.submit_task(TaskOf::new(|| 7).named("inner")).unwrap();
        assert_eq!(inner.join().unwrap(), 7);
        assert_eq!(inside.active_count(), 1, "one thread, however many tasks are stacked on it");
        (inside.completed_task_count(), inside.stats().completed, inside.queued_count())
    });
    let counted = pool.submit_task(outer.named("outer")).unwrap().join().unwrap();
    assert_eq!(counted, (1, 1, 0));
    pool.close();
    assert_eq!(*log.0.lock().unwrap(), ["before outer", "before inner", "after inner", "after outer"]);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.panicked, stats.cancelled), (2, 2, 0, 0));
    assert_eq!(pool.completed_task_count(), 2);
}

#[test]
fn the_panic_of_a_task_run_in_place_stays_in_its_handle() {
    let pool = fixed(1);
    let inside = pool.clone();
    let outer = pool.submit(move || {
        let inner = inside.submit(|| -> u8 { std::panic::resume_unwind(Box::new("broken")) }).unwrap();
        matches!(inner.join(), Err(JoinError::Panicked(_)))
    });
    assert!(outer.unwrap().join().unwrap());
    assert_eq!(pool.stats().panicked, 1);
    pool.close();
}

#[test]
fn a_before_hook_that_refuses_the_task_run_in_place_abandons_it() {
    struct RefuseInner;
    impl Hooks for RefuseInner {
        fn before_execute(&self, task: &TaskInfo) {
            if task.name() == Some("inner") {
                std::panic::panic_any("refused");
            }
        }
    }
    let pool = ThreadPoolExecutor::builder().hooks(RefuseInner).build().unwrap();
    let inside = pool.clone();
    let outer = pool.submit(move || {
        let inner = inside.submit_task(TaskOf::new(|| 7).named("inner")).unwrap();
        matches!(inner.join(), Err(JoinError::Abandoned))
    });
    assert!(outer.unwrap().join().unwrap());
    pool.close();
}

#[test]
fn a_cancelled_task_is_not_run_in_place() {
    for remove_on_cancel in [true, false] {
        let pool = ThreadPoolExecutor::builder().remove_on_cancel(remove_on_cancel).build().unwrap();
        let inside = pool.clone();
        let runs = Counter::new();
        let count = runs.clone();
        let outer = pool.submit(move || {
            let inner = inside.submit(move || count.add()).unwrap();
            assert!(inner.cancel(false));
            matches!(inner.join(), Err(JoinError::Cancelled))
        });
        assert!(outer.unwrap().join().unwrap());
        pool.close();
        assert_eq!(runs.get(), 0);
    }
}

/// A task's place in a bounded queue is free as soon as it runs in place.
#[test]
fn a_task_run_in_place_gives_its_place_free() {
    let pool = pool_with(WorkQueue::array(1));
    let inside = pool.clone();
    let outer = pool
        .submit(move || (0..10).map(|n| inside.submit(move || n).unwrap().join().unwrap()).sum::<usize>());
    assert_eq!(outer.unwrap().join().unwrap(), 45);
    pool.close();
}

#[test]
fn a_pool_behind_a_trait_object_is_helped_as_well() {
    let pool = fixed(1);
    let inside: Arc<dyn millpond::ExecutorService> = Arc::new(pool.clone());
    let value = pool.submit(move || inside.submit(|| 7).unwrap().join().unwrap());
    assert_eq!(value.unwrap().join().unwrap(), 7);
    pool.close();
}

/// With a delay queue no task starts before it is due, even if the only worker waits for it.
#[test]
fn a_delayed_task_that_a_worker_joins_does_not_start_early() {
    for threads in [1, 2] {
        let pool = ThreadPoolExecutor::builder()
            .core_pool_size(threads)
            .maximum_pool_size(threads)
            .work_queue(WorkQueue::delay())
            .build()
            .unwrap();
        let inside = pool.clone();
        let waited = pool.submit(move || {
            let begin = Instant::now();
            let delayed = TaskOf::new(Instant::now).with_delay(MEDIUM);
            inside.submit_task(delayed).unwrap().join().unwrap() - begin
        });
        let waited = waited.unwrap().join().unwrap();
        pool.close();
        assert!(waited >= MEDIUM, "{threads} threads: started after {waited:?}");
    }
}

/// A queue that calls `shutdown_now` just when a worker removes a task to run it in place.
struct Treacherous {
    queue: LinkedBlockingQueue<Task>,
    pool: Mutex<Option<ThreadPoolExecutor>>,
}

impl BlockingQueue<Task> for Treacherous {
    fn remove_if(&self, matches: &mut dyn FnMut(&Task) -> bool) -> Vec<Task> {
        let removed = self.queue.remove_if(matches);
        let pool = self.pool.lock().unwrap().take();
        if let Some(pool) = pool {
            assert!(pool.shutdown_now().is_empty());
        }
        removed
    }
    fn offer(&self, task: Task) -> Result<(), Task> {
        self.queue.offer(task)
    }
    fn put(&self, task: Task) -> Result<(), PutError<Task>> {
        self.queue.put(task)
    }
    fn offer_timeout(&self, task: Task, timeout: Duration) -> Result<(), OfferError<Task>> {
        self.queue.offer_timeout(task, timeout)
    }
    fn poll(&self) -> Option<Task> {
        self.queue.poll()
    }
    fn take(&self) -> Result<Task, Interrupted> {
        self.queue.take()
    }
    fn poll_timeout(&self, timeout: Duration) -> Result<Option<Task>, Interrupted> {
        self.queue.poll_timeout(timeout)
    }
    fn len(&self) -> usize {
        self.queue.len()
    }
    fn remaining_capacity(&self) -> usize {
        self.queue.remaining_capacity()
    }
    fn drain_to(&self, into: &mut Vec<Task>, max: usize) -> usize {
        self.queue.drain_to(into, max)
    }
    fn for_each(&self, see: &mut dyn FnMut(&Task)) {
        self.queue.for_each(see);
    }
}

/// `shutdown_now` either returns a task or interrupts it. A task that a worker has just removed
/// from the queue to run it in place is not returned, so it must find its flag set.
#[test]
fn a_task_run_in_place_during_shutdown_now_is_interrupted() {
    let queue = Arc::new(Treacherous { queue: LinkedBlockingQueue::unbounded(), pool: Mutex::new(None) });
    let pool = pool_with(WorkQueue::custom(Arc::clone(&queue)));
    let inside = pool.clone();
    let (send, receive) = mpsc::channel();
    pool.execute(move || {
        let inner = inside.submit(interrupt::is_interrupted).unwrap();
        *queue.pool.lock().unwrap() = Some(inside.clone());
        send.send(inner.join().unwrap()).unwrap();
    })
    .unwrap();
    let interrupted = receive.recv_timeout(LONG).unwrap();
    pool.close();
    assert!(interrupted, "neither handed back nor interrupted");
}

/// More levels than fit on the stack of a worker.
const DEEP: usize = 20_000;

#[test]
fn a_long_chain_of_joins_does_not_overflow_the_stack_nor_make_the_pool_grow() {
    let hooked = Arc::new(Hooked::default());
    let pool = ThreadPoolExecutor::builder().core_pool_size(1).hooks(SharedHooks(Arc::clone(&hooked)));
    let pool = pool.build().unwrap();
    assert_eq!(descend(&pool, DEEP), DEEP);
    assert_eq!((pool.pool_size(), pool.largest_pool_size()), (1, 1));
    pool.close();
    assert_eq!((hooked.before.get(), hooked.after.get()), (DEEP, DEEP));
    assert_eq!(pool.stats().completed, DEEP as u64);
}

#[derive(Default)]
struct Hooked {
    before: Counter,
    after: Counter,
}

struct SharedHooks(Arc<Hooked>);

impl Hooks for SharedHooks {
    fn before_execute(&self, _: &TaskInfo) {
        self.0.before.add();
    }
    fn after_execute(&self, _: &TaskInfo, _: Option<&Panic>) {
        self.0.after.add();
    }
}

/// Calls `bottom` in a task that is nested so deep that it runs on a temporary thread.
fn far_below<T: Send + 'static>(
    pool: &ThreadPoolExecutor,
    depth: usize,
    bottom: impl FnOnce() -> T + Send + 'static,
) -> T {
    if depth == 0 {
        return bottom();
    }
    let inner = pool.clone();
    let joined = pool.submit(move || {
        let bottom: Box<dyn FnOnce() -> T + Send> = Box::new(bottom);
        far_below(&inner, depth - 1, bottom)
    });
    joined.unwrap().join().unwrap()
}

/// The documented limit of joins inside one another on one thread.
const MAX_DEPTH: usize = 256;

#[test]
fn a_thread_runs_256_joins_inside_one_another_and_a_new_thread_the_next() {
    fn threads(pool: &ThreadPoolExecutor, joins: usize) -> Vec<ThreadId> {
        let mut below = Vec::new();
        if joins > 0 {
            let inner = pool.clone();
            below = pool.submit(move || threads(&inner, joins - 1)).unwrap().join().unwrap();
        }
        below.push(thread::current().id());
        below
    }
    let pool = fixed(1);
    let inside = pool.clone();
    // A temporary thread has the limit as well: the next one is needed as many joins later.
    let outermost = pool.submit(move || threads(&inside, 2 * (MAX_DEPTH + 1)));
    let mut threads = outermost.unwrap().join().unwrap();
    threads.reverse(); // the outermost task first
    let runs: Vec<usize> = threads.chunk_by(|one, next| one == next).map(<[_]>::len).collect();
    // The first task on each thread is not inside a join of that thread.
    assert_eq!(runs, [MAX_DEPTH + 1, MAX_DEPTH + 1, 1]);
    pool.close();
}

#[test]
fn an_interrupt_of_the_outermost_task_reaches_one_on_a_temporary_thread() {
    let pool = fixed(1);
    let (begun, (woken, slept)) = (Gate::new(), mpsc::channel());
    let (tell, inner) = (begun.clone(), pool.clone());
    let outermost = pool
        .submit(move || {
            far_below(&inner, 300, move || {
                tell.open();
                woken.send(interrupt::sleep(LONG)).unwrap();
            });
        })
        .unwrap();
    begun.pass();
    assert!(outermost.cancel(true));
    assert_eq!(slept.recv_timeout(LONG).unwrap(), Err(Interrupted));
    pool.close();
}

#[test]
fn a_task_on_a_temporary_thread_is_inside_the_pool_and_has_an_interrupt_flag_of_its_own() {
    let pool = fixed(1);
    let inner = pool.clone();
    let worker = pool.submit(|| thread::current().id()).unwrap().join().unwrap();
    let seen = far_below(&pool, 300, move || {
        assert_ne!(thread::current().id(), worker);
        let cancelled = inner.submit(|| ()).unwrap();
        assert!(cancelled.cancel(true), "it waits: the only worker is busy");
        interrupt::current().interrupt();
        let own = interrupt::interrupted();
        let below = inner.submit(interrupt::is_interrupted).unwrap().join().unwrap();
        inner.close(); // does not wait: the caller is one of its tasks
        (own, below)
    });
    assert_eq!(seen, (true, false));
    pool.close();
    assert_eq!(pool.largest_pool_size(), 1);
}

#[test]
fn scopes_and_batches_inside_one_another_do_not_overflow_the_stack() {
    fn scopes(pool: &ThreadPoolExecutor, depth: usize) -> usize {
        let mut below = 0;
        if depth > 0 {
            pool.scope(|scope| scope.execute(|| below = 1 + scopes(pool, depth - 1)).unwrap());
        }
        below
    }
    fn batches(pool: &ThreadPoolExecutor, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let inner = pool.clone();
        let below = move || Ok::<_, String>(batches(&inner, depth - 1));
        1 + pool.invoke_any([below]).unwrap()
    }
    let pool = fixed(1);
    assert_eq!(scopes(&pool, 3000), 3000);
    assert_eq!(batches(&pool, 3000), 3000);
    assert_eq!(pool.largest_pool_size(), 1);
    pool.close();
}
