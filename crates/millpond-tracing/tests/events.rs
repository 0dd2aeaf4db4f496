//! What a subscriber receives about pools.

mod support;

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use millpond::monitor::{Actor, Change, Subscription};
use millpond::{TaskOf, ThreadPoolExecutor, WorkQueue};
use tracing::Level;

use support::{Log, Told};

/// The log of the process. Installs an observer first.
fn log() -> &'static Log {
    static LOG: OnceLock<(Log, Subscription)> = OnceLock::new();
    &LOG.get_or_init(|| (Log::install(), millpond_tracing::observe())).0
}

/// The events of the pool with this message.
fn told(pool: &str, message: &str) -> Vec<Told> {
    log().of(pool).into_iter().filter(|told| told.message == message).collect()
}

fn builder(name: &str) -> millpond::Builder {
    log();
    ThreadPoolExecutor::builder().name(name).core_pool_size(1).maximum_pool_size(1)
}

#[test]
fn life_of_a_pool_and_its_thread() {
    let pool = builder("life").build().unwrap();
    pool.submit(|| ()).unwrap().join().unwrap();
    pool.close();
    let all: Vec<_> = log().of("life").iter().map(|told| (told.level, told.message.clone())).collect();
    let expected = ["pool was built", "thread started", "thread stops", "pool has terminated"];
    assert_eq!(all, expected.map(|message| (Level::DEBUG, message.to_owned())));
    assert_eq!(told("life", "thread started")[0].field("thread"), "life-1");
}

#[test]
fn panic_with_its_task_and_message() {
    let pool = builder("panics").build().unwrap();
    let task = TaskOf::new(|| panic!("no such row: {}", 7)).named("export");
    let id = task.id();
    pool.submit_task(task).unwrap().join().unwrap_err();
    let told = told("panics", "task panicked");
    assert_eq!((told.len(), told[0].level), (1, Level::ERROR));
    assert_eq!(told[0].field("task"), id.to_string());
    assert_eq!((told[0].field("name"), told[0].field("reason")), ("export", "no such row: 7"));
}

#[test]
fn refusals_without_a_flood() {
    let pool = builder("refuses").work_queue(WorkQueue::array(1)).build().unwrap();
    pool.shutdown();
    let begin = Instant::now();
    for _ in 0..1000 {
        pool.submit(|| ()).unwrap_err();
    }
    let told = told("refuses", "task was refused");
    let at_most = 1 + begin.elapsed().as_secs() as usize; // one per second
    assert!((1..=at_most).contains(&told.len()), "{} of at most {at_most}", told.len());
    assert_eq!((told[0].level, told[0].field("reason")), (Level::WARN, "shutdown"));
    assert_eq!(told[0].field("unreported"), "0");
}

#[test]
fn change_with_version_reason_and_what_differs() {
    let pool = builder("changes").build().unwrap();
    let change = Change::new().core_pool_size(4).maximum_pool_size(8).by("console", "incident 17");
    pool.reconfigure(change).unwrap();
    let told = told("changes", "settings changed");
    assert_eq!((told.len(), told[0].level), (1, Level::INFO));
    assert_eq!((told[0].field("version"), told[0].field("by")), ("2", "console"));
    assert_eq!(told[0].field("reason"), "incident 17");
    assert_eq!(told[0].field("old"), "core_pool_size 1, maximum_pool_size 1");
    assert_eq!(told[0].field("new"), "core_pool_size 4, maximum_pool_size 8");
}

#[test]
fn pause_and_resume() {
    let pool = builder("pauses").build().unwrap();
    let actor = Actor::new("console", "incident 17");
    pool.pause_by(&actor);
    pool.resume_by(&actor);
    for message in ["paused", "resumed"] {
        let told = told("pauses", message);
        assert_eq!((told.len(), told[0].level), (1, Level::INFO), "{message}");
        assert_eq!((told[0].field("by"), told[0].field("reason")), ("console", "incident 17"));
    }
}

#[test]
fn thread_that_could_not_be_started() {
    let pool =
        builder("threads").thread_factory(|_| Err(io::Error::other("no more threads"))).build().unwrap();
    pool.submit(|| ()).unwrap_err();
    let told = told("threads", "thread could not be started");
    assert_eq!((told.len(), told[0].level), (1, Level::ERROR));
    assert!(told[0].field("reason").contains("no more threads"), "{told:?}");
}
