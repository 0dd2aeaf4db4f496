//! Shared helpers: timeouts, gates, counters, threads that are known to block, the interrupt flag,
//! and a queue that wraps a queue.
#![allow(dead_code, reason = "every test file uses some of it")]

use std::env;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::panic::panic_any;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, MutexGuard, mpsc};
use std::thread::{Scope, ScopedJoinHandle, yield_now};
use std::time::{Duration, Instant};

use millpond::interrupt::{self, Interrupted, Interrupter};
use millpond::queue::{BlockingQueue, OfferError, PutError};
use millpond::{
    Executor, ExecutorExt, ExecutorService, JoinError, PoolStats, TaskHandle, ThreadPoolExecutor, schedulers,
};

pub(crate) mod pools;

/// A timeout that is expected to expire.
pub(crate) const SHORT: Duration = Duration::from_millis(15);
/// Clearly longer than `SHORT`.
pub(crate) const SMALL: Duration = Duration::from_millis(60);
/// Clearly longer than `SMALL`.
pub(crate) const MEDIUM: Duration = Duration::from_millis(250);
/// A timeout that is not expected to expire.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Waits until `condition` holds; fails if it does not within `LONG`.
#[track_caller]
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < LONG, "the condition did not come true in {LONG:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// `0..most`, for a race that is repeated. Ends early on a machine that is too busy for all
/// repetitions.
pub(crate) fn rounds(most: usize) -> impl Iterator<Item = usize> {
    let most = if cfg!(miri) { most.min(10) } else { most };
    let begin = Instant::now();
    (0..most).take_while(move |_| begin.elapsed() < Duration::from_millis(1500))
}

/// Closed until it is opened, then open forever. Waiting for it ignores interrupts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    /// Blocks until the gate is open; fails if it is not within `LONG`.
    #[track_caller]
    pub(crate) fn pass(&self) {
        let shut = self.0.0.lock().unwrap();
        let (open, _) = self.0.1.wait_timeout_while(shut, LONG, |open| !*open).unwrap();
        assert!(*open, "the gate was not opened in {LONG:?}");
    }
}

/// A counter. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A value that adds one when it is dropped.
    pub(crate) fn on_drop(&self) -> CountsDrop {
        CountsDrop(self.clone())
    }
}

/// Made by [`Counter::on_drop`].
#[derive(Debug)]
pub(crate) struct CountsDrop(Counter);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// Panics when it is dropped, and counts that.
pub(crate) struct PanicsOnDrop(pub(crate) CountsDrop);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic_any("destructor");
    }
}

/// A thread that blocks in its closure, or has ended.
pub(crate) struct Blocked<'scope, R> {
    thread: ScopedJoinHandle<'scope, R>,
    interrupter: Interrupter,
}

impl<R> Blocked<'_, R> {
    pub(crate) fn interrupt(&self) {
        self.interrupter.interrupt();
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn join(self) -> R {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Runs `f` on a new thread. Returns when that thread is parked in a blocking call of the crate, or
/// has ended. With /proc, the operating system confirms that it sleeps.
pub(crate) fn block<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    f: impl FnOnce() -> R + Send + 'scope,
) -> Blocked<'scope, R> {
    block_if(scope, f, true)
}

/// Like `block`, for a thread that sleeps in code of the test. It may sleep before it gets there, so
/// such a test must hold in either order.
pub(crate) fn block_elsewhere<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    f: impl FnOnce() -> R + Send + 'scope,
) -> Blocked<'scope, R> {
    block_if(scope, f, false)
}

fn block_if<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    f: impl FnOnce() -> R + Send + 'scope,
    parks_in_the_crate: bool,
) -> Blocked<'scope, R> {
    let (send, receive) = mpsc::sync_channel(1);
    let thread = scope.spawn(move || {
        send.send((fs::read_link("/proc/thread-self").ok(), interrupt::current())).unwrap();
        f()
    });
    let (task, interrupter) = receive.recv().unwrap();
    let is_there = || !parks_in_the_crate || interrupter.is_parked();
    match task {
        Some(task) if !cfg!(miri) => {
            let status = format!("/proc/{}/status", task.display());
            await_sleep(&status, &thread, is_there);
        }
        // Without /proc: the flag alone is enough, because a thread registers before it parks.
        _ if parks_in_the_crate => eventually(|| thread.is_finished() || is_there()),
        _ => std::thread::sleep(MEDIUM), // nothing shows whether it sleeps
    }
    Blocked { thread, interrupter }
}

/// Waits until the thread is seen asleep twice without having run in between. Sleeping alone proves
/// nothing: on a busy machine the thread may wait for the lock of the allocator. So `is_there` must
/// confirm that it has reached its place.
fn await_sleep<R>(status: &str, thread: &ScopedJoinHandle<'_, R>, is_there: impl Fn() -> bool) {
    let mut before = None;
    while !thread.is_finished() {
        let now = fs::read_to_string(status).ok().and_then(|status| sleeping_since(&status));
        if now.is_some() && now == before && is_there() {
            return;
        }
        before = now;
        yield_now();
    }
}

/// How often a sleeping thread has gone to sleep; `None` if it does not sleep.
fn sleeping_since(status: &str) -> Option<String> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    field("State:")?.starts_with('S').then(|| field("voluntary_ctxt_switches:").map(str::to_owned))?
}

/// Sets this thread's interrupt flag.
pub(crate) fn interrupt_myself() {
    interrupt::current().interrupt();
}

/// Runs `a` here and `b` on another thread, starting both at the same time.
pub(crate) fn together<A, B: Send>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
    let start = Barrier::new(2);
    std::thread::scope(|s| {
        let other = s.spawn(|| {
            start.wait();
            b()
        });
        start.wait();
        let mine = a();
        (mine, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Reproducible random numbers: the environment variable `MILLPOND_SEED` sets the seed that a
/// failed test has printed.
pub(crate) struct Rng {
    /// The seed to report if the test fails.
    seed: Option<u64>,
    state: u64,
}

impl Rng {
    pub(crate) fn new() -> Self {
        let given = env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        Rng { seed: Some(seed), state: seed }
    }

    /// Another generator for another thread, derived from this one's seed.
    pub(crate) fn fork(&mut self) -> Rng {
        Rng { seed: None, state: self.next() }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True with probability 1 / `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Spins for a random time, so that two threads meet at another point each time. Sometimes also
    /// yields the processor.
    pub(crate) fn dawdle(&mut self) {
        for _ in 0..self.below(400) {
            std::hint::spin_loop();
        }
        if self.once_in(8) {
            yield_now();
        }
    }
}

impl Drop for Rng {
    fn drop(&mut self) {
        if let (Some(seed), true) = (self.seed, std::thread::panicking()) {
            eprintln!("the seed was MILLPOND_SEED={seed}");
        }
    }
}

/// Sets the flag when it goes out of scope, even by a failed assertion. Ends loops on other
/// threads.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Panics without a message on stderr.
pub(crate) fn die(message: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(message))
}

/// Submits a task to `executor` that waits at `gate` and ignores interrupts. Returns when the task
/// runs.
#[track_caller]
pub(crate) fn occupy(executor: &impl Executor, gate: &Gate) {
    let (running, gate) = (Gate::new(), gate.clone());
    let started = running.clone();
    executor
        .execute(move || {
            started.open();
            gate.pass();
        })
        .unwrap();
    running.pass();
}

/// Like `occupy`, with a new gate, which it returns.
#[track_caller]
pub(crate) fn occupied(executor: &impl Executor) -> Gate {
    let gate = Gate::new();
    occupy(executor, &gate);
    gate
}

/// Keeps a worker busy until the gate opens. Returns when the worker is busy.
pub(crate) fn keep_busy(pool: &ThreadPoolExecutor, gate: &Gate) -> TaskHandle<()> {
    let (pass, running) = (gate.clone(), Gate::new());
    let knock = running.clone();
    let busy = move || {
        knock.open();
        pass.pass();
    };
    let handle = pool.submit(busy).expect("a pool that takes a task");
    running.pass();
    handle
}

/// Joins a task that nothing prevents from running; fails after `LONG`.
#[track_caller]
pub(crate) fn soon<T>(mut handle: TaskHandle<T>) -> Result<T, JoinError> {
    handle.join_timeout(LONG).expect("the task does not end, and nothing keeps it from running")
}

/// Shuts `executor` down and waits for its end. Unlike `close`, it fails the test after `LONG`.
#[track_caller]
pub(crate) fn end(executor: &impl ExecutorService) {
    executor.shutdown();
    await_end(executor);
}

/// Waits for the end of an executor in shutdown, and fails the test after `LONG`. Does not run any
/// of its tasks.
#[track_caller]
pub(crate) fn await_end(executor: &impl ExecutorService) {
    assert_eq!(executor.await_termination(LONG), Ok(true), "the executor does not terminate");
}

/// The law of accounting: fails unless every accepted task has ended exactly once.
#[track_caller]
pub(crate) fn assert_settled(pool: &ThreadPoolExecutor, accepted: usize) {
    let stats = pool.stats();
    assert_eq!(stats.submitted, accepted as u64, "accepted {accepted}: {stats:?}");
    assert_balanced(&stats);
}

/// The same if the number of accepted tasks is unknown, as with periodic tasks.
#[track_caller]
pub(crate) fn assert_balanced(stats: &PoolStats) {
    assert_eq!(stats.submitted, settled(stats), "{stats:?}");
    let inside = (stats.queued_count, stats.active_count, stats.in_place_count);
    assert_eq!(inside, (0, 0, 0), "{stats:?}");
}

/// Number of tasks that have ended, whether or not they ran.
pub(crate) fn settled(stats: &PoolStats) -> u64 {
    stats.completed + stats.panicked + stats.cancelled + stats.handed_back + stats.expired
}

/// The number of threads of this process whose names begin with `prefix`, according to the
/// operating system, which keeps 15 bytes of a name. `None` if it cannot be asked.
///
/// If a thread ends while Linux lists threads, the list may omit another thread that still exists.
/// So a list counts only if all threads on it still exist afterwards.
pub(crate) fn threads_named(prefix: &str) -> Option<usize> {
    assert!(prefix.len() < 15);
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < LONG, "threads end all the time");
        let listed: Vec<_> = fs::read_dir("/proc/self/task").ok()?.flatten().collect();
        let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).ok();
        if let Some(names) = listed.into_iter().map(name).collect::<Option<Vec<_>>>() {
            return Some(names.iter().filter(|name| name.starts_with(prefix)).count());
        }
    }
}

/// What [`OnCall`] gets when `len` has found the queue non-empty but has not returned yet.
pub(crate) const SAW_SOME: &str = "saw some";

/// Gets the name of each method of a [`Wrapped`] queue that is called.
pub(crate) type OnCall = Box<dyn Fn(&'static str) + Send + Sync>;

/// A custom queue: forwards every call to another queue, reports it, and may have less capacity.
pub(crate) struct Wrapped<Q> {
    pub(crate) inner: Q,
    pub(crate) capacity: usize,
    pub(crate) on_call: OnCall,
    /// Held by an offer, so that two of them cannot take the same last place.
    pub(crate) offering: Mutex<()>,
}

impl<Q> Wrapped<Q> {
    pub(crate) fn new(inner: Q) -> Self {
        Wrapped { inner, capacity: usize::MAX, on_call: Box::new(|_| {}), offering: Mutex::new(()) }
    }
}

impl<T: Send, Q: BlockingQueue<T>> BlockingQueue<T> for Wrapped<Q> {
    fn offer(&self, item: T) -> Result<(), T> {
        (self.on_call)("offer");
        let _offering = self.offering.lock().unwrap();
        if self.inner.len() < self.capacity { self.inner.offer(item) } else { Err(item) }
    }
    fn put(&self, item: T) -> Result<(), PutError<T>> {
        (self.on_call)("put");
        self.inner.put(item)
    }
    fn offer_timeout(&self, item: T, timeout: Duration) -> Result<(), OfferError<T>> {
        (self.on_call)("offer_timeout");
        self.inner.offer_timeout(item, timeout)
    }
    fn poll(&self) -> Option<T> {
        (self.on_call)("poll");
        self.inner.poll()
    }
    fn take(&self) -> Result<T, Interrupted> {
        (self.on_call)("take");
        self.inner.take()
    }
    fn poll_timeout(&self, timeout: Duration) -> Result<Option<T>, Interrupted> {
        (self.on_call)("poll_timeout");
        self.inner.poll_timeout(timeout)
    }
    fn len(&self) -> usize {
        (self.on_call)("len");
        let len = self.inner.len();
        if len > 0 {
            (self.on_call)(SAW_SOME);
        }
        len
    }
    fn remaining_capacity(&self) -> usize {
        (self.on_call)("remaining_capacity");
        self.inner.remaining_capacity().min(self.capacity - self.inner.len().min(self.capacity))
    }
    fn drain_to(&self, into: &mut Vec<T>, max: usize) -> usize {
        (self.on_call)("drain_to");
        self.inner.drain_to(into, max)
    }
    fn remove_if(&self, matches: &mut dyn FnMut(&T) -> bool) -> Vec<T> {
        (self.on_call)("remove_if");
        self.inner.remove_if(matches)
    }
    fn for_each(&self, see: &mut dyn FnMut(&T)) {
        (self.on_call)("for_each");
        self.inner.for_each(see);
    }
}

/// Runs `body` in its own process: starts this test binary again, with only the test `name`.
pub(crate) fn in_a_process_of_its_own(name: &str, body: impl FnOnce()) {
    const ALONE: &str = "MILLPOND_TEST_ALONE";
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let arguments = [name, "--exact", "--nocapture", "--test-threads=1"];
    let run = Command::new(env::current_exe().unwrap()).args(arguments).env(ALONE, "1").output().unwrap();
    let [out, err] = [&run.stdout, &run.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(run.status.success() && out.contains("1 passed"), "{name} failed alone:\n{out}\n{err}");
}

/// Serialises tests that change state of the whole process: factory, shared schedulers, hooks.
/// Resets this state at its creation and on drop.
pub(crate) struct Alone {
    _guard: MutexGuard<'static, ()>,
}

pub(crate) fn alone() -> Alone {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    // A failed test has poisoned the lock. That is no reason for the next test to fail.
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    as_at_the_beginning();
    Alone { _guard: guard }
}

impl Drop for Alone {
    fn drop(&mut self) {
        as_at_the_beginning();
    }
}

fn as_at_the_beginning() {
    schedulers::reset_factory();
    schedulers::reset_all_on_schedule();
    schedulers::reset_all_on_error();
    schedulers::reset_non_blocking_predicates();
}

/// Records events in order. Clones share the record.
#[derive(Debug)]
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Notes(Arc::clone(&self.0))
    }
}

impl<T> Notes<T> {
    pub(crate) fn new() -> Self {
        Notes(Arc::default())
    }

    pub(crate) fn add(&self, note: T) {
        self.0.lock().unwrap().push(note);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn contains(&self, note: &T) -> bool
    where
        T: PartialEq,
    {
        self.0.lock().unwrap().contains(note)
    }

    /// The events since the last call.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}
