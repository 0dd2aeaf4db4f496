//! Construction of a pool: options and defaults, invalid values, getters, names.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::pools::sized;
use crate::support::{Gate, end, eventually, occupy};
use millpond::queue::{BlockingQueue, LinkedBlockingQueue};
use millpond::{
    Builder, ConfigError, RejectReason, RunState, ScheduledThreadPoolExecutor, Task, ThreadPoolExecutor,
    WorkQueue, WorkerBody, executors, policy,
};

// TPE-003
#[test]
fn a_maximum_of_zero_is_refused_whatever_the_core_size() {
    for core in [0, 1, 7] {
        let refused = sized(core, 0).build().unwrap_err();
        assert_eq!(refused, ConfigError::ZeroMaximum { core });
        assert!(refused.to_string().contains("maximum_pool_size is 0"), "{refused}");
        assert!(refused.to_string().contains(&format!("core_pool_size is {core}")), "{refused}");
    }
    assert!(sized(0, 1).build().is_ok());
}

// TPE-004
#[test]
fn a_keep_alive_time_of_zero_is_accepted_unless_core_threads_time_out() {
    let pool = sized(1, 1).keep_alive_time(Duration::ZERO).build().unwrap();
    assert_eq!(pool.keep_alive_time(), Duration::ZERO);

    let timed = || sized(1, 1).allow_core_thread_time_out(true);
    let refused = timed().keep_alive_time(Duration::ZERO).build().unwrap_err();
    assert_eq!(refused, ConfigError::ZeroKeepAlive { keep_alive: Duration::ZERO });
    assert!(refused.to_string().contains("keep_alive_time is 0ns"), "{refused}");
    assert!(timed().keep_alive_time(Duration::from_nanos(1)).build().is_ok());
}

// TPE-005
#[test]
fn a_core_size_above_the_maximum_is_refused_with_both_values() {
    let refused = sized(5, 2).build().unwrap_err();
    assert_eq!(refused, ConfigError::CoreExceedsMaximum { core: 5, maximum: 2 });
    assert_eq!(refused.to_string(), "maximum_pool_size is 2 but core_pool_size is 5");
    assert!(sized(3, 3).build().is_ok());
}

#[test]
fn a_work_queue_without_any_room_is_refused_when_the_pool_is_built() {
    for (queue, name) in [(WorkQueue::array(0), "array"), (WorkQueue::linked_bounded(0), "linked")] {
        let refused = sized(1, 1).work_queue(queue).build().unwrap_err();
        assert!(matches!(refused, ConfigError::ZeroCapacity { .. }), "{refused:?}");
        assert!(refused.to_string().contains(name) && refused.to_string().contains("is 0"), "{refused}");
    }
}

#[test]
fn options_can_be_given_in_any_order_and_the_last_value_counts() {
    let pool = ThreadPoolExecutor::builder()
        .allow_core_thread_time_out(true)
        .maximum_pool_size(1)
        .core_pool_size(4) // above the maximum at this point
        .keep_alive_time(Duration::ZERO) // invalid with the time-out at this point
        .maximum_pool_size(8)
        .keep_alive_time(Duration::from_millis(5))
        .build()
        .unwrap();
    assert_eq!((pool.core_pool_size(), pool.maximum_pool_size()), (4, 8));
    assert_eq!(pool.keep_alive_time(), Duration::from_millis(5));
    assert!(pool.allows_core_thread_time_out());
}

#[test]
fn without_a_maximum_a_pool_has_its_core_size_and_at_least_one_thread() {
    let maximum_with_core = |core| {
        ThreadPoolExecutor::builder().core_pool_size(core).build().map(|pool| pool.maximum_pool_size())
    };
    assert_eq!(maximum_with_core(0), Ok(1));
    assert_eq!(maximum_with_core(6), Ok(6));
    let pool = ThreadPoolExecutor::builder().build().unwrap();
    assert_eq!((pool.core_pool_size(), pool.maximum_pool_size()), (1, 1));
    assert_eq!(pool.keep_alive_time(), Duration::from_secs(60));
    assert_eq!(pool.remaining_queue_capacity(), usize::MAX);
}

// TPE-007
#[test]
fn a_fresh_pool_has_no_threads_no_tasks_and_is_running() {
    let started = Arc::new(Mutex::new(0));
    let calls = Arc::clone(&started);
    let pool = sized(2, 4)
        .work_queue(WorkQueue::array(10))
        .thread_factory(move |body| {
            *calls.lock().unwrap() += 1;
            thread::Builder::new().spawn(move || body.run())
        })
        .build()
        .unwrap();
    assert_eq!((pool.pool_size(), pool.active_count(), pool.largest_pool_size()), (0, 0, 0));
    assert_eq!((pool.task_count(), pool.completed_task_count()), (0, 0));
    assert_eq!((pool.queued_count(), pool.remaining_queue_capacity()), (0, 10));
    assert!(pool.queued_tasks().is_empty());
    assert!(!pool.is_shutdown() && !pool.is_terminating() && !pool.is_terminated());
    assert_eq!(pool.state(), RunState::Running);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.panicked), (0, 0, 0));
    assert_eq!((stats.cancelled, stats.rejected, stats.handed_back), (0, 0, 0));
    end(&pool);
    assert_eq!(*started.lock().unwrap(), 0);
}

// TPE-008
#[test]
fn getters_and_stats_return_the_values_the_pool_was_made_with_to_the_nanosecond() {
    let keep_alive = Duration::new(1, 500_000_001);
    let pool = sized(2, 7).keep_alive_time(keep_alive).build().unwrap();
    assert_eq!((pool.core_pool_size(), pool.maximum_pool_size()), (2, 7));
    assert_eq!(pool.keep_alive_time(), keep_alive);
    let stats = pool.stats();
    assert_eq!((stats.core_pool_size, stats.maximum_pool_size), (2, 7));
    assert_eq!(stats.keep_alive_time, keep_alive);
    pool.set_keep_alive_time(Duration::MAX).unwrap();
    assert_eq!(pool.keep_alive_time(), Duration::MAX);
}

// TPE-009
#[test]
fn by_default_a_full_pool_aborts() {
    let pool = sized(1, 1).work_queue(WorkQueue::array(1)).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.execute(|| {}).unwrap();
    assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::Saturated);
    gate.open();
    end(&pool);
}

fn names(pool: &ThreadPoolExecutor, threads: usize) -> Vec<String> {
    let gate = Gate::new();
    let names = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..threads {
        let (gate, names) = (gate.clone(), Arc::clone(&names));
        pool.execute(move || {
            names.lock().unwrap().push(thread::current().name().unwrap_or_default().to_owned());
            gate.pass();
        })
        .unwrap();
    }
    eventually(|| names.lock().unwrap().len() == threads);
    gate.open();
    let mut names = names.lock().unwrap().clone();
    names.sort();
    names
}

// TPE-009
#[test]
fn threads_are_called_pool_n_thread_m_by_default_and_n_is_the_pools_own() {
    let (one, other) = (executors::fixed(3).unwrap(), executors::fixed(1).unwrap());
    let numbers = [&one, &other].map(|pool| {
        let text = pool.to_string();
        text.strip_prefix("pool-").and_then(|rest| rest.split_once('[')).unwrap().0.to_owned()
    });
    assert_ne!(numbers[0], numbers[1]);
    let expected = [1, 2, 3].map(|m| format!("pool-{}-thread-{m}", numbers[0]));
    assert_eq!(names(&one, 3), expected);
    assert_eq!(names(&other, 1), [format!("pool-{}-thread-1", numbers[1])]);
    end(&one);
    end(&other);
}

#[test]
fn a_thread_name_prefix_is_followed_by_numbers_from_one() {
    let pool = sized(3, 3).thread_name_prefix("resize-").build().unwrap();
    assert_eq!(names(&pool, 3), ["resize-1", "resize-2", "resize-3"]);
    end(&pool);
}

#[test]
fn a_thread_factory_is_told_the_name_and_number_and_may_choose_another_name() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let pool = sized(2, 2)
        .thread_name_prefix("told-")
        .thread_factory(move |body: WorkerBody| {
            tell.lock().unwrap().push((body.name().to_owned(), body.number()));
            thread::Builder::new()
                .name(format!("mine-{}", body.number()))
                .stack_size(1 << 20)
                .spawn(move || body.run())
        })
        .build()
        .unwrap();
    assert_eq!(names(&pool, 2), ["mine-1", "mine-2"]);
    assert_eq!(*told.lock().unwrap(), [("told-1".to_owned(), 1), ("told-2".to_owned(), 2)]);
    end(&pool);
}

fn factory_called(
    name: &'static str,
) -> impl Fn(WorkerBody) -> std::io::Result<thread::JoinHandle<()>> + Send + Sync {
    move |body| thread::Builder::new().name(format!("{name}-{}", body.number())).spawn(move || body.run())
}

// TPE-010, TPE-011
#[test]
fn a_replaced_thread_factory_makes_the_threads_that_come_after_and_leaves_the_others_alone() {
    let pool = sized(1, 2).work_queue(WorkQueue::synchronous()).thread_factory(factory_called("old")).build();
    let pool = pool.unwrap();
    let gate = Gate::new();
    let old_thread = Arc::new(Mutex::new(None));
    let running = Gate::new();
    {
        let (gate, running, old_thread) = (gate.clone(), running.clone(), Arc::clone(&old_thread));
        pool.execute(move || {
            running.open();
            gate.pass();
            *old_thread.lock().unwrap() = thread::current().name().map(str::to_owned);
        })
        .unwrap();
    }
    running.pass();
    pool.set_thread_factory(factory_called("new"));
    let name = pool.submit(|| thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!(name.join().unwrap().as_deref(), Some("new-2"));
    gate.open();
    eventually(|| old_thread.lock().unwrap().is_some());
    assert_eq!(old_thread.lock().unwrap().as_deref(), Some("old-1"));
    end(&pool);
}

// TPE-010
#[test]
fn a_replaced_rejection_handler_is_the_one_in_force() {
    let pool = sized(1, 1).work_queue(WorkQueue::synchronous()).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    assert!(pool.execute(|| {}).is_err());
    pool.set_rejected_execution_handler(policy::Discard);
    assert!(pool.execute(|| {}).is_ok());
    pool.set_rejected_execution_handler(policy::Abort);
    assert!(pool.execute(|| {}).is_err());
    gate.open();
    end(&pool);
}

/// Asserts that `change` fails, that its error contains `words`, and that nothing changes.
#[track_caller]
fn refuses(
    pool: &ThreadPoolExecutor,
    change: impl FnOnce(&ThreadPoolExecutor) -> Result<(), ConfigError>,
    expected: ConfigError,
    words: &[&str],
) {
    let before = (pool.stats(), pool.allows_core_thread_time_out());
    let refused = change(pool).unwrap_err();
    assert_eq!(refused, expected);
    for word in words {
        assert!(refused.to_string().contains(word), "{refused} should contain {word}");
    }
    assert_eq!((pool.stats(), pool.allows_core_thread_time_out()), before);
}

// TPE-014
#[test]
fn a_maximum_below_the_core_size_or_zero_is_refused_and_changes_nothing() {
    let pool = sized(3, 5).build().unwrap();
    let expected = ConfigError::CoreExceedsMaximum { core: 3, maximum: 2 };
    let words = ["maximum_pool_size is 2", "core_pool_size is 3"];
    refuses(&pool, |pool| pool.set_maximum_pool_size(2), expected, &words);
    let words = ["maximum_pool_size is 0", "core_pool_size is 3"];
    refuses(&pool, |pool| pool.set_maximum_pool_size(0), ConfigError::ZeroMaximum { core: 3 }, &words);
    let pool = sized(0, 5).build().unwrap();
    refuses(&pool, |pool| pool.set_maximum_pool_size(0), ConfigError::ZeroMaximum { core: 0 }, &["is 0"]);
}

#[test]
fn a_core_size_above_the_maximum_in_force_is_refused_and_changes_nothing() {
    let pool = sized(3, 5).build().unwrap();
    let expected = ConfigError::CoreExceedsMaximum { core: 6, maximum: 5 };
    let words = ["maximum_pool_size is 5", "core_pool_size is 6"];
    refuses(&pool, |pool| pool.set_core_pool_size(6), expected, &words);
    pool.set_core_pool_size(5).unwrap();
    assert_eq!(pool.core_pool_size(), 5);
    pool.set_core_pool_size(0).unwrap();
    assert_eq!(pool.core_pool_size(), 0);
}

// TPE-015
#[test]
fn a_valid_maximum_is_visible_at_once() {
    let pool = sized(2, 3).build().unwrap();
    for maximum in [5, 4, usize::MAX, 2] {
        pool.set_maximum_pool_size(maximum).unwrap();
        assert_eq!(pool.maximum_pool_size(), maximum);
        assert_eq!(pool.stats().maximum_pool_size, maximum);
    }
}

// TPE-017
#[test]
fn a_keep_alive_time_of_zero_and_core_time_out_exclude_each_other() {
    let refused = ConfigError::ZeroKeepAlive { keep_alive: Duration::ZERO };
    let pool = sized(1, 1).keep_alive_time(Duration::from_secs(7)).build().unwrap();
    pool.allow_core_thread_time_out(true).unwrap();
    refuses(&pool, |pool| pool.set_keep_alive_time(Duration::ZERO), refused, &["keep_alive_time is 0ns"]);
    assert_eq!(pool.keep_alive_time(), Duration::from_secs(7));

    pool.allow_core_thread_time_out(false).unwrap();
    pool.set_keep_alive_time(Duration::ZERO).unwrap();
    assert_eq!(pool.keep_alive_time(), Duration::ZERO);
    refuses(&pool, |pool| pool.allow_core_thread_time_out(true), refused, &["keep_alive_time is 0ns"]);
}

// TPE-019
#[test]
fn core_time_out_is_off_by_default_and_reads_as_last_set_also_after_shutdown() {
    let pool = sized(1, 1).build().unwrap();
    assert!(!pool.allows_core_thread_time_out());
    for allow in [true, false, true] {
        pool.allow_core_thread_time_out(allow).unwrap();
        assert_eq!(pool.allows_core_thread_time_out(), allow);
    }
    end(&pool);
    assert!(pool.allows_core_thread_time_out());
}

// TPE-020
#[test]
fn tasks_in_the_queue_before_the_pool_was_made_count_and_wait_for_the_first_worker() {
    let made = |ran: &Arc<Mutex<Vec<u32>>>| {
        let queue = Arc::new(LinkedBlockingQueue::unbounded());
        for n in 1..=3 {
            let ran = Arc::clone(ran);
            queue.add(Task::new(move || ran.lock().unwrap().push(n))).unwrap();
        }
        let pool = sized(1, 1).work_queue(WorkQueue::custom(Arc::clone(&queue))).build().unwrap();
        assert_eq!((pool.pool_size(), pool.task_count(), pool.queued_count()), (0, 3, 3));
        assert!(ran.lock().unwrap().is_empty());
        (pool, queue)
    };

    let ran = Arc::default();
    let (pool, queue) = made(&ran);
    assert!(pool.prestart_core_thread());
    eventually(|| pool.completed_task_count() == 3);
    assert_eq!((ran.lock().unwrap().as_slice(), queue.len()), ([1, 2, 3].as_slice(), 0));
    end(&pool);

    let ran = Arc::default();
    let (pool, _) = made(&ran);
    let fourth = Arc::clone(&ran);
    pool.execute(move || fourth.lock().unwrap().push(4)).unwrap();
    eventually(|| pool.completed_task_count() == 4);
    let mut ran = ran.lock().unwrap().clone();
    ran.sort_unstable();
    assert_eq!(ran, [1, 2, 3, 4]);
    end(&pool);
}

#[test]
fn the_text_form_tells_state_threads_queue_and_completed_tasks() {
    let pool = sized(2, 2).build().unwrap();
    let name = pool.to_string().split('[').next().unwrap().to_owned();
    let text = |state, size, active, queued, completed| {
        format!(
            "{name}[{state}, pool size = {size}, active threads = {active}, queued tasks = {queued}, \
             completed tasks = {completed}]"
        )
    };
    assert_eq!(pool.to_string(), text("Running", 0, 0, 0, 0));
    let gate = Gate::new();
    occupy(&pool, &gate);
    occupy(&pool, &gate);
    (0..4).for_each(|_| pool.execute(|| {}).unwrap());
    assert_eq!(pool.to_string(), text("Running", 2, 2, 4, 0));
    assert_eq!(format!("{pool:?}"), format!("ThreadPoolExecutor({pool})"));
    pool.shutdown();
    assert_eq!(pool.to_string(), text("Shutting down", 2, 2, 4, 0));
    gate.open();
    end(&pool);
    assert_eq!(pool.to_string(), text("Terminated", 0, 0, 0, 6));
}

#[test]
fn clones_are_handles_to_the_same_pool_that_can_be_sent_and_shared() {
    fn sendable<T: Send + Sync + 'static>() {}
    sendable::<ThreadPoolExecutor>();
    sendable::<Builder>();
    let pool = executors::fixed(1).unwrap();
    let clone = pool.clone();
    clone.set_maximum_pool_size(9).unwrap();
    assert_eq!(pool.maximum_pool_size(), 9);
    drop(clone);
    assert!(!pool.is_shutdown());
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    end(&pool);
}

// A thread name must not contain NUL: each thread start would fail, long after the construction.
#[test]
fn a_thread_name_with_a_nul_is_refused_when_the_pool_is_built() {
    let refused = sized(1, 1).thread_name_prefix("db\0-").build().unwrap_err();
    assert_eq!(refused, ConfigError::NulInName { option: "thread_name_prefix", position: 2 });
    assert_eq!(
        refused.to_string(),
        "thread_name_prefix has a NUL at byte 2, but a thread name cannot contain one"
    );
    let scheduled = ScheduledThreadPoolExecutor::builder().thread_name_prefix("\0").build().unwrap_err();
    assert_eq!(scheduled, ConfigError::NulInName { option: "thread_name_prefix", position: 0 });
}

/// The operating system's name of the calling thread.
#[cfg(target_os = "linux")]
fn shown_name() -> String {
    std::fs::read_to_string("/proc/thread-self/comm").unwrap().trim_end().to_owned()
}

// Linux keeps 15 bytes of a name; std passes the first 15.
#[cfg(target_os = "linux")]
#[test]
fn the_number_of_a_worker_is_seen_in_top_however_long_the_prefix_is() {
    let name = || (thread::current().name().unwrap().to_owned(), shown_name());
    for (prefix, shown) in [
        ("image-resizer-thread-", "image-resizer-1"),
        ("image resizer no. ", "image resizer 1"),
        ("größenordnungen#", "größenordnu#1"),
        ("éééééééééé-", "éééééé-1"),
        ("fifteen-letter", "fifteen-letter1"),
        ("short-", "short-1"),
    ] {
        let pool = sized(1, 1).thread_name_prefix(prefix).build().unwrap();
        assert_eq!(pool.submit(name).unwrap().join().unwrap(), (format!("{prefix}1"), shown.to_owned()));
        end(&pool);
    }
}
