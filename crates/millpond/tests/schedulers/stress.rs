//! Schedulers under load from many threads, with exact accounting: every accepted task ends exactly
//! once, and none is kept.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::scheduling::{
    Held, MINUTE, block_on, builder, elastic, end, ended, hold, hold_lane, per_task, strict,
};
use crate::support::{Counter, LONG, Rng, die, eventually, rounds, threads_named};
use millpond::schedulers::{
    self, Affinity, BoundedElasticScheduler, Disposable, Scheduler, SchedulerExt, Worker,
};
use millpond::{ManualClock, RejectReason, Rejected, ThreadPoolExecutor, executors};

const THREADS: usize = 3;
const CAPACITY: usize = 20;

/// A scheduler and its expected figures.
struct Kind {
    scheduler: Arc<dyn Scheduler>,
    /// Prefix of its threads' names.
    prefix: String,
    /// Its remaining capacity when no task waits.
    whole: u64,
    timing: bool,
    /// The pool that provides its threads, unless they are its own.
    pool: Option<ThreadPoolExecutor>,
}

impl Kind {
    fn own(scheduler: Arc<dyn Scheduler>, prefix: &str) -> Kind {
        let whole = scheduler.stats().remaining_capacity;
        Kind { scheduler, prefix: prefix.to_owned(), whole, timing: true, pool: None }
    }

    fn elastic(prefix: &str, affinity: Affinity, per_task: bool) -> Kind {
        let scheduler = BoundedElasticScheduler::builder()
            .max_threads(THREADS)
            .queue_capacity_per_thread(CAPACITY)
            .name(prefix)
            .ttl(Duration::from_micros(200))
            .affinity(affinity)
            .thread_per_task(per_task)
            .build()
            .unwrap();
        Kind::own(Arc::new(scheduler), prefix)
    }

    fn on_executor(prefix: &str) -> Kind {
        let pool = ThreadPoolExecutor::builder()
            .core_pool_size(THREADS)
            .maximum_pool_size(THREADS)
            .thread_name_prefix(prefix)
            .build()
            .unwrap();
        let scheduler = schedulers::from_executor(pool.clone());
        let kind = Kind::own(scheduler, prefix);
        Kind { timing: false, pool: Some(pool), ..kind }
    }

    /// Ends it gracefully. Then no task or thread may be left, according to the operating system
    /// too.
    #[track_caller]
    fn end(&self) {
        end(&self.scheduler);
        let stats = self.scheduler.stats();
        let ended = stats.completed + stats.panicked + stats.cancelled;
        assert_eq!(stats.submitted, ended, "{stats:?}");
        assert_eq!((stats.queued, stats.busy, stats.slots, stats.live_threads), (0, 0, 0, 0), "{stats:?}");
        assert_eq!(stats.remaining_capacity, self.whole, "{stats:?}");
        if let Some(pool) = &self.pool {
            crate::support::end(pool);
        }
        // The system may list a thread for a short time after it was joined.
        eventually(|| threads_named(&self.prefix).is_none_or(|left| left == 0));
    }
}

/// All kinds, with names that no other test uses.
fn kinds(test: &str) -> Vec<Kind> {
    let name = |kind: &str| format!("{test}-{kind}-");
    let (single, parallel) = (name("si"), name("pa"));
    vec![
        Kind::own(schedulers::new_single(&single).unwrap(), &single),
        Kind::own(schedulers::new_parallel(THREADS, &parallel).unwrap(), &parallel),
        Kind::elastic(&name("so"), Affinity::Soft, false),
        Kind::elastic(&name("st"), Affinity::Strict, false),
        Kind::elastic(&name("pt"), Affinity::Soft, true),
        Kind::on_executor(&name("ex")),
    ]
}

/// The outcomes of tasks, counted by the tasks themselves.
#[derive(Clone, Default)]
struct Account {
    returned: Counter,
    died: Counter,
    refused: Counter,
    dropped: Counter,
    made: Counter,
}

/// A task, its handle, and the number of its runs.
struct Sent {
    handle: Disposable,
    runs: Arc<AtomicUsize>,
}

impl Account {
    /// A task that returns or panics.
    fn task(&self, dies: bool) -> (Arc<AtomicUsize>, impl FnMut() + Send + 'static) {
        let runs = Arc::new(AtomicUsize::new(0));
        let (mine, account, captured) = (Arc::clone(&runs), self.clone(), self.dropped.on_drop());
        self.made.add();
        let task = move || {
            let _captured = &captured;
            mine.fetch_add(1, Ordering::SeqCst);
            if dies {
                account.died.add();
                die("as it was told");
            }
            account.returned.add();
        };
        (runs, task)
    }

    fn note(&self, runs: Arc<AtomicUsize>, taken: Result<Disposable, Rejected>) -> Option<Sent> {
        match taken {
            Ok(handle) => Some(Sent { handle, runs }),
            Err(refused) => {
                let reason = refused.reason();
                let known = [RejectReason::Saturated, RejectReason::Shutdown, RejectReason::WorkerDisposed];
                assert!(known.contains(&reason), "{refused}");
                assert_eq!(runs.load(Ordering::SeqCst), 0, "refused, and yet it ran");
                self.refused.add();
                None
            }
        }
    }

    /// Asserts that the scheduler's statistics agree.
    #[track_caller]
    fn agrees_with(&self, scheduler: &dyn Scheduler) {
        let stats = scheduler.stats();
        let seen = (self.returned.get() as u64, self.died.get() as u64, self.refused.get() as u64);
        assert_eq!((stats.completed, stats.panicked, stats.rejected), seen, "{stats:?}");
        assert_eq!(self.dropped.get(), self.made.get(), "something is kept");
    }
}

/// Submits, cancels, and creates and disposes workers, at random.
fn mix(kind: &Kind, account: &Account, mut rng: Rng, steps: usize) -> (Vec<Sent>, Vec<Sent>) {
    let scheduler = &*kind.scheduler;
    let mut workers: Vec<Worker> = vec![scheduler.create_worker()];
    let (mut once, mut series): (Vec<Sent>, Vec<Sent>) = Default::default();
    let soon = Duration::from_micros(100);
    for _ in 0..steps {
        let at = rng.below(workers.len());
        let (runs, task) = account.task(rng.once_in(8));
        match rng.below(12) {
            0..=2 => once.extend(account.note(runs, scheduler.schedule(task))),
            3..=5 => once.extend(account.note(runs, workers[at].schedule(task))),
            6 if kind.timing => once.extend(account.note(runs, scheduler.schedule_after(soon, task))),
            7 if kind.timing => once.extend(account.note(runs, workers[at].schedule_after(soon, task))),
            8 => {
                let taken = scheduler.schedule_periodically(Duration::ZERO, Duration::ZERO, task);
                series.extend(account.note(runs, taken));
            }
            9 if kind.timing => {
                series.extend(account.note(runs, workers[at].schedule_periodically(soon, soon, task)));
            }
            10 => workers.push(scheduler.create_worker()),
            _ if workers.len() > 1 && rng.once_in(2) => workers.swap_remove(at).dispose(),
            _ if workers.len() > 1 => drop(workers.swap_remove(at)),
            _ => {}
        }
        if !once.is_empty() && rng.once_in(3) {
            let sent = &once[rng.below(once.len())];
            sent.handle.dispose();
        }
        // Each periodic task holds a place, so limit their number.
        if series.len() > 2 {
            let sent = series.swap_remove(0);
            assert!(sent.handle.dispose() || sent.handle.is_disposed());
            once.push(sent);
        }
        rng.dawdle();
    }
    (once, series)
}

fn settle(once: &[Sent], series: &[Sent], of_one_run: bool) {
    for sent in once.iter().chain(series) {
        ended(&sent.handle);
        assert!(sent.handle.is_disposed());
        let runs = sent.runs.load(Ordering::SeqCst);
        assert!(sent.handle.is_cancelled() || runs >= 1, "neither cancelled nor run");
        assert!(!of_one_run || runs <= 1);
    }
}

#[test]
fn submissions_and_cancellations_from_many_threads_are_all_accounted_for() {
    for kind in kinds("acc") {
        let (account, mut rng) = (Account::default(), Rng::new());
        let steps = if kind.prefix.contains("-pt-") { 100 } else { 300 };
        let sent: Vec<_> = thread::scope(|s| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let (rng, kind, account) = (rng.fork(), &kind, &account);
                    s.spawn(move || mix(kind, account, rng, steps))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        kind.end();
        sent.iter().for_each(|(once, series)| settle(once, series, false));
        account.agrees_with(&*kind.scheduler);
    }
}

#[test]
fn an_end_by_force_in_the_middle_of_everything_accounts_for_all() {
    for round in rounds(5) {
        for kind in kinds(&format!("cut{round}")) {
            let (account, mut rng) = (Account::default(), Rng::new());
            let sent: Vec<_> = thread::scope(|s| {
                let threads: Vec<_> = (0..3)
                    .map(|_| {
                        let (rng, kind, account) = (rng.fork(), &kind, &account);
                        s.spawn(move || mix(kind, account, rng, 60))
                    })
                    .collect();
                for _ in 0..rng.below(40) {
                    rng.dawdle();
                }
                kind.scheduler.dispose();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            kind.end();
            sent.iter().for_each(|(once, series)| settle(once, series, false));
            account.agrees_with(&*kind.scheduler);
        }
    }
}

/// Its destructor panics.
struct Dies(Counter);

impl Drop for Dies {
    fn drop(&mut self) {
        self.0.add();
        die("in a destructor");
    }
}

#[test]
fn destructors_that_panic_under_load_lose_nothing() {
    for kind in kinds("dtor") {
        let (dropped, made, runs) = (Counter::new(), Counter::new(), Counter::new());
        thread::scope(|s| {
            let mut rng = Rng::new();
            for _ in 0..3 {
                let (mut rng, kind) = (rng.fork(), &kind);
                let (dropped, made, runs) = (dropped.clone(), made.clone(), runs.clone());
                s.spawn(move || {
                    let worker = kind.scheduler.create_worker();
                    for n in 0..40 {
                        let (dies, runs) = (Dies(dropped.clone()), runs.clone());
                        made.add();
                        let task = move || {
                            let _dies = &dies;
                            runs.add();
                        };
                        let taken =
                            if n % 2 == 0 { worker.schedule(task) } else { kind.scheduler.schedule(task) };
                        match taken {
                            Ok(handle) if rng.once_in(2) => drop(handle.dispose()),
                            Ok(_) => {}
                            Err(refused) => {
                                let drop_it = std::panic::AssertUnwindSafe(|| drop(refused));
                                assert!(std::panic::catch_unwind(drop_it).is_err(), "it was ours to drop");
                            }
                        }
                    }
                });
            }
        });
        kind.end();
        assert_eq!(dropped.get(), made.get());
        let stats = kind.scheduler.stats();
        assert_eq!(stats.completed + stats.panicked, runs.get() as u64, "{stats:?}");
    }
}

#[test]
fn nothing_waits_while_a_thread_is_free() {
    for scheduler in [elastic(4, 100), per_task(4, 100)] {
        for blocked in 1..4 {
            let workers: Vec<Worker> = (0..8).map(|_| scheduler.create_worker()).collect();
            // Some threads are blocked by a lane, some by a direct task.
            let held: Vec<Held> = (0..blocked)
                .map(|n| if n % 2 == 0 { hold_lane(&workers[n]) } else { hold(&scheduler) })
                .collect();
            let direct: Vec<_> = (0..12).map(|_| scheduler.schedule(|| {}).unwrap()).collect();
            let lanes: Vec<_> = workers
                .iter()
                .enumerate()
                .filter(|(n, _)| *n >= blocked || n % 2 == 1) // not the blocked lanes
                .map(|(_, worker)| worker.schedule(|| {}).unwrap())
                .collect();
            direct.iter().chain(&lanes).for_each(ended);
            assert_eq!(held.iter().filter(|held| held.handle.is_disposed()).count(), 0);
            held.into_iter().for_each(Held::let_go);
            workers.iter().for_each(Worker::dispose);
        }
        end(&scheduler);
    }
}

#[test]
fn one_thread_that_becomes_free_takes_all_that_waits_for_the_others() {
    let time = ManualClock::new();
    for thread_per_task in [false, true] {
        let scheduler = builder(4, 100, &time).thread_per_task(thread_per_task).build().unwrap();
        let workers: Vec<Worker> = (0..8).map(|_| scheduler.create_worker()).collect();
        let mut held: Vec<Held> = (0..4).map(|_| hold(&scheduler)).collect();
        let mut waiting: Vec<_> = (0..12).map(|_| scheduler.schedule(|| {}).unwrap()).collect();
        waiting.extend(workers.iter().map(|worker| worker.schedule(|| {}).unwrap()));
        waiting.extend((0..4).map(|_| scheduler.schedule_after(MINUTE, || {}).unwrap()));
        waiting.extend(workers.iter().map(|worker| worker.schedule_after(MINUTE, || {}).unwrap()));
        let runs = Counter::new();
        let counts = runs.clone();
        let series = scheduler.schedule_periodically(Duration::ZERO, MINUTE, move || counts.add()).unwrap();
        time.advance(MINUTE);
        assert_eq!((scheduler.queued(), scheduler.stats().completed), (33, 0));
        held.pop().unwrap().let_go();
        waiting.iter().for_each(ended);
        eventually(|| runs.get() == 2); // both runs were due
        assert!(!held.iter().any(|held| held.handle.is_disposed()));
        assert!(series.dispose());
        held.into_iter().for_each(Held::let_go);
        end(&scheduler);
    }
}

// A thread without work searches before it parks. It must not be woken instead of a parked one for
// work that may not move to it: two such threads would wake each other forever.
#[test]
fn a_lane_that_may_not_move_begins_although_its_thread_sleeps_and_others_look() {
    let scheduler = strict(3, 100);
    let lanes: Vec<Worker> = (0..3).map(|_| scheduler.create_worker()).collect();
    let begin = Instant::now();
    for round in 0..if cfg!(miri) { 10 } else { 300 } {
        assert!(begin.elapsed() < LONG, "only {round} rounds, of a few dozen microseconds each");
        let tasks: Vec<_> = (0..2).map(|n| lanes[(round + n) % 3].schedule(|| {}).unwrap()).collect();
        tasks.iter().for_each(ended);
        ended(&lanes[(round + 2) % 3].schedule(|| {}).unwrap());
    }
    lanes.iter().for_each(Worker::dispose);
    end(&scheduler);
}

// Eight lanes on three threads, see also the tests of lanes. Here other lanes come and go, and
// threads steal.
#[test]
fn lanes_keep_order_and_do_not_overlap_while_everything_moves() {
    const TASKS: usize = 200;
    for kind in [
        Kind::elastic("lane-so-", Affinity::Soft, false),
        Kind::elastic("lane-st-", Affinity::Strict, false),
        Kind::on_executor("lane-ex-"),
    ] {
        let noise = Counter::new();
        let lanes: Vec<_> = thread::scope(|s| {
            let mut rng = Rng::new();
            let lanes: Vec<_> = (0..8)
                .map(|_| {
                    let (mut rng, kind, noise) = (rng.fork(), &kind, &noise);
                    s.spawn(move || {
                        let worker = kind.scheduler.create_worker();
                        let log = Arc::new(Mutex::new(Vec::new()));
                        let mut sent = Vec::new();
                        for n in 0..TASKS {
                            let entry = Arc::clone(&log);
                            let task = move || entry.try_lock().expect("two at a time").push(n);
                            if worker.schedule(task).is_ok() {
                                sent.push(n);
                            }
                            if rng.once_in(4) {
                                let count = noise.clone();
                                drop(kind.scheduler.schedule(move || count.add()));
                            }
                            rng.dawdle();
                        }
                        (worker, log, sent)
                    })
                })
                .collect();
            lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
        });
        kind.end();
        for (_, log, sent) in &lanes {
            assert_eq!(*log.lock().unwrap(), *sent);
        }
        assert_eq!(kind.scheduler.stats().panicked, 0);
    }
}

#[test]
fn picks_racing_a_tiny_time_to_live_lose_nothing() {
    let scheduler = BoundedElasticScheduler::builder()
        .max_threads(2)
        .queue_capacity_per_thread(1000)
        .name("tiny-ttl-")
        .ttl(Duration::from_micros(20))
        .build()
        .unwrap();
    let (ran, sent) = (Counter::new(), Counter::new());
    thread::scope(|s| {
        let mut rng = Rng::new();
        for _ in 0..3 {
            let (mut rng, scheduler, ran, sent) = (rng.fork(), &scheduler, &ran, &sent);
            s.spawn(move || {
                for _ in rounds(2000) {
                    let count = ran.clone();
                    let worker = scheduler.create_worker();
                    let task = worker.schedule(move || count.add()).unwrap();
                    let count = ran.clone();
                    let direct = scheduler.schedule(move || count.add()).unwrap();
                    sent.add();
                    sent.add();
                    rng.dawdle();
                    ended(&task);
                    ended(&direct);
                    if rng.once_in(2) {
                        worker.dispose();
                    }
                    assert!(scheduler.slots() <= 2);
                }
            });
        }
    });
    assert_eq!(ran.get(), sent.get());
    eventually(|| scheduler.slots() == 0);
    eventually(|| threads_named("tiny-ttl-").is_none_or(|left| left == 0));
    end(&scheduler);
    crate::scheduling::assert_settled(&scheduler, sent.get(), 2000);
}

#[test]
fn workers_made_and_disposed_in_a_hot_loop_hold_no_slot() {
    for kind in kinds("hot") {
        thread::scope(|s| {
            for n in 0..3 {
                let scheduler = &kind.scheduler;
                s.spawn(move || {
                    for _ in rounds(3000) {
                        let worker = scheduler.create_worker();
                        if n == 0 {
                            drop(worker.schedule(|| {}));
                        }
                        if n == 1 {
                            worker.dispose();
                        }
                    }
                });
            }
        });
        eventually(|| kind.scheduler.stats().busy == 0);
        let stats = kind.scheduler.stats();
        assert_eq!((stats.queued, stats.remaining_capacity), (0, kind.whole), "{stats:?}");
        kind.end();
    }
}

/// A task that waits for a task that waits for a task, and so on.
fn nest(scheduler: &Arc<dyn Scheduler>, depth: usize, done: &Counter) {
    if depth > 0 {
        let (inner, count) = (Arc::clone(scheduler), done.clone());
        let task = scheduler.schedule(move || nest(&inner, depth - 1, &count)).unwrap();
        assert_eq!(task.wait(LONG), Ok(true));
        done.add();
    }
}

// RS-041, from several threads at the same time, on one thread.
#[test]
fn tasks_that_wait_for_tasks_of_their_own_scheduler_end_on_one_thread() {
    let pool = executors::fixed(1).unwrap();
    for scheduler in [
        schedulers::new_single("nest").unwrap(),
        schedulers::new_parallel(1, "nest").unwrap(),
        schedulers::new_parallel(2, "nest").unwrap(),
        Arc::new(elastic(1, 100)),
        Arc::new(strict(2, 100)),
        Arc::new(per_task(1, 100)),
        schedulers::from_executor(pool.clone()),
    ] {
        let done = Counter::new();
        thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| nest(&scheduler, 6, &done));
            }
        });
        assert_eq!(done.get(), 18, "{scheduler}");
        end(&scheduler);
        assert_eq!((scheduler.stats().completed, scheduler.stats().panicked), (18, 0));
    }
    crate::support::end(&pool);
}

#[test]
fn many_that_await_the_end_at_once_find_all_done() {
    for round in rounds(20) {
        for kind in kinds(&format!("end{round}")) {
            let ran = Counter::new();
            let moment = Duration::from_micros(200);
            let task = |ran: &Counter| {
                let ran = ran.clone();
                move || ran.add()
            };
            let mut expected = 0;
            for n in 0..10 {
                let taken = match n % 3 {
                    0 if kind.timing => kind.scheduler.schedule_after(moment, task(&ran)),
                    1 if kind.timing => kind.scheduler.schedule_periodically(moment, moment, || {}),
                    _ => kind.scheduler.schedule(task(&ran)),
                };
                taken.unwrap();
                expected += usize::from(n % 3 != 1 || !kind.timing);
            }
            thread::scope(|s| {
                s.spawn(|| block_on(kind.scheduler.disposal()));
                s.spawn(|| {
                    end(&kind.scheduler);
                    assert_eq!(ran.get(), expected);
                    assert_eq!(kind.scheduler.stats().live_threads, 0);
                });
                block_on(kind.scheduler.disposal());
                assert_eq!(ran.get(), expected);
            });
            kind.end();
        }
    }
}

#[test]
fn last_handles_dropped_under_load_leave_no_thread_and_lose_no_task() {
    for round in rounds(10) {
        for kind in kinds(&format!("drp{round}")) {
            let ran = Counter::new();
            let Kind { scheduler, prefix, pool, .. } = kind;
            let tasks: Vec<Disposable> = thread::scope(|s| {
                let threads: Vec<_> = (0..3)
                    .map(|_| {
                        let (scheduler, ran) = (Arc::clone(&scheduler), ran.clone());
                        s.spawn(move || {
                            let worker = scheduler.create_worker();
                            drop(scheduler);
                            let task = || {
                                let ran = ran.clone();
                                move || ran.add()
                            };
                            (0..10).map(|_| worker.schedule(task()).unwrap()).collect::<Vec<_>>()
                        })
                    })
                    .collect();
                drop(scheduler);
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            tasks.iter().for_each(ended);
            assert_eq!((ran.get(), tasks.iter().filter(|task| task.is_cancelled()).count()), (30, 0));
            if let Some(pool) = pool {
                crate::support::end(&pool);
            }
            eventually(|| threads_named(&prefix).is_none_or(|left| left == 0));
        }
    }
}
