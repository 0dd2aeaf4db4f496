//! The name of a pool, and where it appears.

use std::thread;

use millpond::{ConfigError, ScheduledThreadPoolExecutor, ThreadPoolExecutor, WorkQueue};
use proptest::prelude::*;

use crate::support::Gate;

fn named(name: &str) -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder().name(name).build().unwrap()
}

#[test]
fn display_debug_and_threads_carry_the_name() {
    let pool = named("golden");
    let shown = "golden[Running, pool size = 0, active threads = 0, queued tasks = 0, completed tasks = 0]";
    assert_eq!(pool.to_string(), shown);
    assert_eq!(format!("{pool:?}"), format!("ThreadPoolExecutor({shown})"));
    let thread = pool.submit(|| thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!(thread.join().unwrap().as_deref(), Some("golden-1"));
    assert_eq!(pool.name(), "golden");
}

#[test]
fn a_prefix_changes_the_names_of_threads_only() {
    let pool = ThreadPoolExecutor::builder().name("prefixed").thread_name_prefix("worker ").build().unwrap();
    let thread = pool.submit(|| thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!(thread.join().unwrap().as_deref(), Some("worker 1"));
    assert_eq!(pool.name(), "prefixed");
}

#[test]
fn a_pool_without_a_name_is_called_by_its_number() {
    let pool = ThreadPoolExecutor::builder().build().unwrap();
    let number: u64 = pool.name().strip_prefix("pool-").unwrap().parse().unwrap();
    let thread = pool.submit(|| thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!(thread.join().unwrap(), Some(format!("pool-{number}-thread-1")));
    assert!(pool.to_string().starts_with(&format!("pool-{number}[Running, ")));
}

#[test]
fn a_scheduled_pool_has_a_name() {
    let pool = ScheduledThreadPoolExecutor::builder().name("ticks").build().unwrap();
    assert_eq!(pool.name(), "ticks");
    assert_eq!(pool.snapshot().kind.as_str(), "scheduled");
    let thread = pool.submit(|| thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!(thread.join().unwrap().as_deref(), Some("ticks-1"));
}

#[test]
fn a_rejection_carries_the_name() {
    let pool = ThreadPoolExecutor::builder().name("full").work_queue(WorkQueue::array(1)).build().unwrap();
    let gate = Gate::new();
    let (blocks, waits) = (gate.clone(), gate.clone());
    pool.execute(move || blocks.pass()).unwrap();
    pool.execute(move || waits.pass()).unwrap();
    let rejected = pool.execute(|| {}).unwrap_err();
    let told = rejected.to_string();
    assert!(told.ends_with("rejected: full is saturated (pool size = 1, maximum = 1, queued tasks = 1)"));
    gate.open();
    pool.close();
    let rejected = pool.execute(|| {}).unwrap_err();
    drop(pool);
    assert!(rejected.to_string().contains("rejected: full has been shut down"), "the name is kept");
    assert!(format!("{rejected:?}").contains("full"));
}

#[test]
fn names_that_nobody_can_read_are_refused() {
    let refused = |name: &str| ThreadPoolExecutor::builder().name(name).build().unwrap_err();
    let expected = |problem| ConfigError::InvalidName { option: "name", problem };
    assert_eq!(refused(""), expected("is empty, but pools are looked up by name"));
    assert_eq!(refused("ab\ncd"), expected("contains a control character"));
    assert_eq!(refused("\u{7f}"), expected("contains a control character"));
    assert_eq!(refused(&"ü".repeat(65)).to_string(), "name has more than 64 characters");
    assert_eq!(named(&"ü".repeat(64)).name().chars().count(), 64);
}

/// A unit test in `monitor::labels` counts the lookups that this takes.
#[test]
fn many_pools_of_one_name_have_labels_in_a_row() {
    let pools: Vec<_> = (0..if cfg!(miri) { 20 } else { 20_000 }).map(|_| named("crowd")).collect();
    assert_eq!(pools[0].label(), "crowd");
    for (number, pool) in (1..).zip(&pools).skip(1) {
        assert_eq!(pool.label(), format!("crowd#{number}"));
    }
    drop(pools);
    assert_eq!(named("crowd").label(), "crowd", "all of them are gone");
}

#[derive(Debug, Clone)]
enum Step {
    Build(&'static str),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let names = prop::sample::select(vec!["label", "label#2", "label#3", "label#2#2"]);
    prop_oneof![3 => names.prop_map(Step::Build), 2 => any::<usize>().prop_map(Step::Drop)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, ..ProptestConfig::default() })]

    /// Includes names that look like labels.
    #[test]
    fn labels_are_unique_among_living_pools(steps in prop::collection::vec(step(), 1..40)) {
        let mut pools: Vec<ThreadPoolExecutor> = Vec::new();
        for step in steps {
            match step {
                Step::Build(name) => {
                    let taken = |label: &str| pools.iter().any(|pool| pool.label() == label);
                    let numbered = (2..).map(|number| format!("{name}#{number}"));
                    let free = std::iter::once(name.to_owned()).chain(numbered).find(|label| !taken(label));
                    let pool = named(name);
                    prop_assert_eq!(Some(pool.label()), free.as_deref());
                    pools.push(pool);
                }
                Step::Drop(_) if pools.is_empty() => {}
                Step::Drop(which) => drop(pools.swap_remove(which % pools.len())),
            }
        }
    }
}
