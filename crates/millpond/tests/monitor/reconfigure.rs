//! Changing any subset of the settings in one step.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use millpond::monitor::{Change, ChangeError, Event, Observer, PolicyKind, Settings, Timing};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    ConfigError, PoolRef, RejectReason, ScheduledThreadPoolExecutor, Task, ThreadPoolExecutor, WorkQueue,
    policy, registry,
};
use proptest::prelude::*;

use crate::support::{Gate, LONG, SHORT, eventually};

fn pool_with(queue: WorkQueue) -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder().work_queue(queue).build().unwrap()
}

fn to(wanted: &Settings) -> Change {
    Change::new()
        .core_pool_size(wanted.core_pool_size)
        .maximum_pool_size(wanted.maximum_pool_size)
        .keep_alive_time(wanted.keep_alive_time)
        .core_threads_time_out(wanted.core_threads_time_out)
        .queue_capacity(wanted.queue_capacity.unwrap_or(usize::MAX))
        .policy(wanted.policy)
        .timing(wanted.timing)
}

#[test]
fn many_writers_make_one_chain_of_versions() {
    const WRITERS: usize = if cfg!(miri) { 4 } else { 100 };
    const EACH: usize = if cfg!(miri) { 5 } else { 1000 };
    let pool = pool_with(WorkQueue::array(10));
    let versions = Mutex::new(vec![0_u32; WRITERS * EACH + 2]);
    thread::scope(|s| {
        for writer in 0..WRITERS {
            let (pool, versions) = (&pool, &versions);
            s.spawn(move || {
                let mut mine = Vec::with_capacity(EACH);
                for round in 0..EACH {
                    let size = 1 + (writer + round) % 7;
                    let change = Change::new().core_pool_size(size).maximum_pool_size(size);
                    let new = pool.reconfigure(change.queue_capacity(10 * size)).unwrap();
                    let expected = (size, size, Some(10 * size));
                    assert_eq!((new.core_pool_size, new.maximum_pool_size, new.queue_capacity), expected);
                    mine.push(new.version);
                }
                assert!(mine.is_sorted());
                let mut versions = versions.lock().unwrap();
                mine.iter().for_each(|version| versions[*version as usize] += 1);
            });
        }
    });
    let last = pool.settings();
    assert_eq!(last.version as usize, WRITERS * EACH + 1);
    assert!(versions.into_inner().unwrap()[2..].iter().all(|count| *count == 1));
    assert_eq!(last.queue_capacity, Some(10 * last.core_pool_size), "no change was torn");
    assert_eq!(pool.remaining_queue_capacity(), 10 * last.core_pool_size);
}

/// Small numbers, so that many combinations are invalid.
fn any_change() -> impl Strategy<Value = Change> {
    let sizes = (prop::option::of(0_usize..4), prop::option::of(0_usize..4));
    let times = (prop::option::of(0_u64..2), prop::option::of(any::<bool>()));
    let rest = (prop::option::of(0_usize..3), prop::option::of(0_usize..3), prop::option::of(1_u64..4));
    (sizes, times, rest).prop_map(|((core, maximum), (keep_alive, time_out), (capacity, policy, version))| {
        let mut change = Change::new();
        change = core.map_or(change.clone(), |core| change.core_pool_size(core));
        change = maximum.map_or(change.clone(), |maximum| change.maximum_pool_size(maximum));
        change = keep_alive.map_or(change.clone(), |time| change.keep_alive_time(Duration::from_secs(time)));
        change = time_out.map_or(change.clone(), |time_out| change.core_threads_time_out(time_out));
        change = capacity.map_or(change.clone(), |tasks| change.queue_capacity(tasks));
        let policies = [PolicyKind::Abort, PolicyKind::CallerRuns, PolicyKind::Custom("a closure")];
        change = policy.map_or(change.clone(), |number| change.policy(policies[number]));
        version.map_or(change.clone(), |version| change.if_version(version))
    })
}

fn is_valid(settings: &Settings) -> bool {
    settings.core_pool_size <= settings.maximum_pool_size
        && settings.maximum_pool_size > 0
        && !(settings.core_threads_time_out && settings.keep_alive_time.is_zero())
        && settings.queue_capacity != Some(0)
        && !matches!(settings.policy, PolicyKind::Custom(_))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, ..ProptestConfig::default() })]

    #[test]
    fn a_change_applies_as_a_whole_or_not_at_all(changes in prop::collection::vec(any_change(), 1..8)) {
        let pool = pool_with(WorkQueue::array(2));
        for change in changes {
            let before = pool.settings();
            match pool.reconfigure(change) {
                Ok(after) => {
                    prop_assert!(is_valid(&after));
                    prop_assert_eq!(after.version, before.version + 1);
                    prop_assert_eq!(&pool.settings(), &after);
                }
                Err(error) => {
                    prop_assert_eq!(&pool.settings(), &before, "{}", error);
                }
            }
            let settings = pool.settings();
            let sizes = (pool.core_pool_size(), pool.maximum_pool_size());
            prop_assert_eq!(sizes, (settings.core_pool_size, settings.maximum_pool_size));
            prop_assert_eq!(Some(pool.remaining_queue_capacity()), settings.queue_capacity);
        }
    }
}

fn with_version(settings: &Settings, version: u64) -> Settings {
    let mut settings = settings.clone();
    settings.version = version;
    settings
}

#[test]
fn every_valid_pair_of_settings_is_one_call_apart() {
    let pool = pool_with(WorkQueue::linked());
    let mut all = Vec::new();
    for (core, maximum) in [(0, 1), (1, 1), (1, 4), (4, 4), (4, 9)] {
        for (keep_alive, time_out) in [(0, false), (5, false), (5, true)] {
            for (capacity, policy) in [(None, PolicyKind::Abort), (Some(1), PolicyKind::DiscardOldest)] {
                let mut settings = pool.settings();
                (settings.core_pool_size, settings.maximum_pool_size) = (core, maximum);
                settings.keep_alive_time = Duration::from_secs(keep_alive);
                settings.core_threads_time_out = time_out;
                (settings.queue_capacity, settings.policy) = (capacity, policy);
                settings.timing = if time_out { Timing::Every } else { Timing::Off };
                all.push(settings);
            }
        }
    }
    for old in &all {
        for new in &all {
            pool.reconfigure(to(old)).unwrap();
            let after = pool.reconfigure(to(new)).unwrap();
            let expected = with_version(new, after.version);
            assert_eq!(after, expected);
        }
    }
}

#[test]
fn of_two_changes_of_one_version_exactly_one_wins() {
    let pool = pool_with(WorkQueue::array(1));
    for _ in 0..if cfg!(miri) { 3 } else { 500 } {
        let version = pool.settings().version;
        let wins = AtomicUsize::new(0);
        thread::scope(|s| {
            for size in [2, 3] {
                let (pool, wins) = (&pool, &wins);
                s.spawn(move || {
                    let change = Change::new().maximum_pool_size(size).if_version(version);
                    match pool.reconfigure(change) {
                        Ok(new) => {
                            assert_eq!((new.version, new.maximum_pool_size), (version + 1, size));
                            wins.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(ChangeError::Stale { current }) => {
                            assert_eq!(current.version, version + 1);
                            assert_ne!(current.maximum_pool_size, size);
                        }
                        Err(other) => panic!("{other}"),
                    }
                });
            }
        });
        assert_eq!(wins.into_inner(), 1);
    }
}

#[test]
fn what_a_pool_cannot_change_is_an_error_and_changes_nothing() {
    let custom = LinkedBlockingQueue::<Task>::unbounded();
    // The kinds of queue, and whether the capacity can be changed.
    let kinds = [
        (pool_with(WorkQueue::array(3)), true),
        (pool_with(WorkQueue::linked_bounded(3)), true),
        (pool_with(WorkQueue::linked()), true),
        (pool_with(WorkQueue::synchronous()), false),
        (pool_with(WorkQueue::priority()), false),
        (pool_with(WorkQueue::delay()), false),
        (pool_with(WorkQueue::custom(custom)), false),
    ];
    for (pool, has_capacity) in kinds {
        let before = pool.settings();
        let also = || Change::new().core_pool_size(2).maximum_pool_size(2);
        let changed = pool.reconfigure(also().queue_capacity(7));
        match changed {
            Ok(new) => assert!(has_capacity && new.queue_capacity == Some(7)),
            Err(ChangeError::Unsupported { setting, .. }) => {
                assert!(!has_capacity && setting == "queue_capacity");
                assert_eq!(pool.settings(), before);
            }
            Err(other) => panic!("{other}"),
        }
        let before = pool.settings();
        let custom = pool.reconfigure(also().policy(PolicyKind::Custom("mine"))).unwrap_err();
        assert!(matches!(custom, ChangeError::Unsupported { setting: "policy", .. }));
        assert_eq!(pool.settings(), before);
        pool.reconfigure(also().keep_alive_time(SHORT).core_threads_time_out(true)).unwrap();
        let block = PolicyKind::Block { timeout: SHORT };
        let last = pool.reconfigure(also().policy(block).timing(Timing::Off)).unwrap();
        assert_eq!((last.policy, last.timing), (block, Timing::Off));
    }
}

#[test]
fn a_scheduled_pool_changes_what_it_has() {
    let pool = ScheduledThreadPoolExecutor::new(1);
    for (change, expected) in [
        (Change::new().maximum_pool_size(3), "maximum_pool_size"),
        (Change::new().policy(PolicyKind::Discard), "policy"),
        (Change::new().queue_capacity(3), "queue_capacity"),
    ] {
        let before = pool.settings();
        let error = pool.reconfigure(change.core_pool_size(2)).unwrap_err();
        assert!(matches!(error, ChangeError::Unsupported { setting, .. } if setting == expected));
        assert!(error.to_string().starts_with(&format!("{expected} cannot be changed: ")));
        assert_eq!(pool.settings(), before);
    }
    let change = Change::new().core_pool_size(3).keep_alive_time(SHORT).core_threads_time_out(true);
    assert_eq!(pool.reconfigure(change).unwrap().core_pool_size, 3);
    assert_eq!(pool.core_pool_size(), 3);
}

#[test]
fn an_invalid_change_names_the_values() {
    let pool = pool_with(WorkQueue::array(3));
    let error = pool.reconfigure(Change::new().core_pool_size(5)).unwrap_err();
    let expected = ConfigError::CoreExceedsMaximum { core: 5, maximum: 1 };
    assert_eq!(error, ChangeError::Invalid(expected));
    let error = pool.reconfigure(Change::new().queue_capacity(0)).unwrap_err();
    assert_eq!(error, ChangeError::Invalid(ConfigError::ZeroCapacity { queue: "array work queue" }));
}

#[test]
fn a_terminated_pool_is_not_changed() {
    let pool = pool_with(WorkQueue::array(3));
    let weak = pool.downgrade();
    pool.close();
    assert_eq!(pool.reconfigure(Change::new()), Err(ChangeError::Ended));
    assert_eq!(weak.reconfigure(Change::new()), Some(Err(ChangeError::Ended)));
    drop(pool);
    eventually(|| weak.reconfigure(Change::new()).is_none());
}

#[test]
fn single_setters_raise_the_version() {
    let pool = pool_with(WorkQueue::array(3));
    pool.set_maximum_pool_size(4).unwrap();
    pool.set_core_pool_size(2).unwrap();
    pool.set_keep_alive_time(SHORT).unwrap();
    pool.allow_core_thread_time_out(true).unwrap();
    pool.set_rejected_execution_handler(policy::Discard);
    assert_eq!((pool.settings().version, pool.settings().policy), (6, PolicyKind::Discard));
    assert!(pool.set_core_pool_size(5).is_err());
    assert_eq!(pool.settings().version, 6);
    pool.set_rejected_execution_handler(|task, _: &ThreadPoolExecutor| {
        Err(millpond::Rejected::new(task, RejectReason::Saturated))
    });
    assert!(matches!(pool.settings().policy, PolicyKind::Custom(name) if name.contains("closure")));
}

/// A pool with one thread, whose task waits for the gate, and `queued` tasks that do the same.
fn held(capacity: usize, queued: usize) -> (ThreadPoolExecutor, Gate) {
    let (pool, gate) = (pool_with(WorkQueue::array(capacity)), Gate::new());
    for _ in 0..=queued {
        let wait = gate.clone();
        pool.execute(move || wait.pass()).unwrap();
        eventually(|| pool.active_count() == 1);
    }
    eventually(|| pool.queued_count() == queued);
    (pool, gate)
}

#[test]
fn tasks_above_a_lowered_capacity_stay_and_new_ones_are_refused() {
    let (pool, gate) = held(10, 6);
    pool.reconfigure(Change::new().queue_capacity(2)).unwrap();
    assert_eq!((pool.queued_count(), pool.remaining_queue_capacity()), (6, 0));
    let rejected = pool.execute(|| {}).unwrap_err();
    assert!(rejected.to_string().ends_with("queued tasks = 6)"));
    let ids = pool.queued_tasks();
    ids[..4].iter().for_each(|id| assert!(pool.remove(*id)));
    assert!(pool.execute(|| {}).is_err(), "two are queued");
    assert!(pool.remove(ids[4]));
    pool.execute(|| {}).unwrap();
    assert!(pool.execute(|| {}).is_err());
    pool.reconfigure(Change::new().queue_capacity(3)).unwrap();
    pool.execute(|| {}).unwrap();
    assert!(pool.try_submit(|| {}).is_err());
    gate.open();
    pool.close();
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.handed_back), (9, 4, 5));
}

#[test]
fn a_raised_capacity_wakes_submitters_that_wait_for_room() {
    let (pool, gate) = held(1, 1);
    pool.set_rejected_execution_handler(policy::Block::timeout(LONG));
    thread::scope(|s| {
        let waiting: Vec<_> = (0..3).map(|_| s.spawn(|| pool.execute(|| {}))).collect();
        pool.reconfigure(Change::new().queue_capacity(4)).unwrap();
        waiting.into_iter().for_each(|submitter| submitter.join().unwrap().unwrap());
    });
    assert_eq!(pool.queued_count(), 4);
    gate.open();
    pool.close();
}

#[test]
fn a_raised_core_size_starts_threads_for_queued_tasks() {
    let (pool, gate) = held(10, 3);
    pool.reconfigure(Change::new().core_pool_size(3).maximum_pool_size(3)).unwrap();
    eventually(|| pool.active_count() == 3);
    gate.open();
    pool.close();
}

/// Every accepted push found fewer tasks than the bound in force at that time. The thread is busy,
/// so only pushes change the length.
#[test]
fn the_bound_holds_while_it_changes() {
    const MOST: usize = 40;
    let (pool, gate) = held(1, 0);
    let accepted = AtomicUsize::new(0);
    thread::scope(|s| {
        s.spawn(|| {
            for capacity in (1..=MOST).chain((1..MOST).rev()) {
                pool.reconfigure(Change::new().queue_capacity(capacity)).unwrap();
                let queued = pool.queued_count();
                assert!(queued <= MOST);
                // A push after this change sees the new bound. A full queue stays full.
                if queued >= capacity {
                    assert!(pool.execute(|| {}).is_err());
                    assert_eq!(pool.queued_count(), queued);
                }
            }
        });
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..2000 {
                    if pool.execute(|| {}).is_ok() {
                        accepted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let accepted = accepted.into_inner();
    assert!(accepted <= MOST && pool.queued_count() == accepted);
    gate.open();
    pool.close();
}

#[derive(Default)]
struct Changes(Mutex<Vec<(u64, u64, String)>>);

impl Observer for Changes {
    fn event(&self, pool: &PoolRef, event: &Event<'_>) {
        if let (Some("watched"), Event::Changed { old, new, by }) = (pool.name().as_deref(), event) {
            self.0.lock().unwrap().push((old.version, new.version, by.to_string()));
        }
    }
}

#[test]
fn observers_learn_of_every_change_and_its_author() {
    let changes = Arc::new(Changes::default());
    let _subscription = registry::observe(Arc::clone(&changes) as Arc<dyn Observer>);
    let pool = ThreadPoolExecutor::builder().name("watched").build().unwrap();
    let found = registry::find("watched").unwrap();
    let change = Change::new().maximum_pool_size(3).by("console", "incident 17");
    found.reconfigure(change).unwrap().unwrap();
    assert!(pool.reconfigure(Change::new().core_pool_size(9)).is_err());
    pool.set_core_pool_size(2).unwrap();
    let expected = [(1, 2, "console: incident 17".to_owned()), (2, 3, "the program".to_owned())];
    assert_eq!(*changes.0.lock().unwrap(), expected);
}
