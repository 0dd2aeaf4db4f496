//! The list of all pools.

use millpond::{PoolRef, RunState, ScheduledThreadPoolExecutor, ThreadPoolExecutor, registry};

use crate::support::{Gate, eventually};

fn listed(name: &str) -> Vec<PoolRef> {
    registry::pools().into_iter().filter(|pool| pool.name().as_deref() == Some(name)).collect()
}

#[test]
fn pools_are_listed_in_the_order_of_construction() {
    let build = |_| ThreadPoolExecutor::builder().name("ordered").build().unwrap();
    let pools: Vec<_> = (0..12).map(build).collect();
    let labels: Vec<_> = listed("ordered").iter().map(|pool| pool.label().unwrap()).collect();
    let expected: Vec<_> = pools.iter().map(ThreadPoolExecutor::label).collect();
    assert_eq!(labels.iter().map(|label| &**label).collect::<Vec<_>>(), expected);
    assert_eq!(expected[..3], ["ordered", "ordered#2", "ordered#3"]);
}

#[test]
fn a_terminated_pool_is_listed_until_it_is_dropped() {
    let pool = ThreadPoolExecutor::builder().name("terminated").build().unwrap();
    pool.submit(|| {}).unwrap().join().unwrap();
    pool.close();
    let found = registry::find("terminated").unwrap();
    assert_eq!(found.snapshot().unwrap().stats.state, RunState::Terminated);
    drop(pool);
    eventually(|| registry::find("terminated").is_none()); // its thread drops it
    assert!(listed("terminated").is_empty());
    assert!(found.snapshot().is_none() && found.label().is_none() && found.settings().is_none());
}

#[test]
fn a_pool_without_handles_is_listed_while_its_tasks_run() {
    let pool = ThreadPoolExecutor::builder().name("detached").build().unwrap();
    let gate = Gate::new();
    let wait = gate.clone();
    pool.execute(move || wait.pass()).unwrap();
    drop(pool);
    let found = registry::find("detached").unwrap();
    assert!(found.upgrade().is_none());
    assert_eq!(found.snapshot().unwrap().stats.state, RunState::Shutdown);
    gate.open();
    eventually(|| registry::find("detached").is_none());
}

#[test]
fn an_unregistered_pool_is_not_listed_and_has_a_label() {
    let pool = ThreadPoolExecutor::builder().name("hidden").unregistered().build().unwrap();
    let second = ScheduledThreadPoolExecutor::builder().name("hidden").unregistered().build().unwrap();
    assert!(listed("hidden").is_empty() && registry::find("hidden").is_none());
    assert_eq!((pool.label(), second.label()), ("hidden", "hidden#2"));
}

#[test]
fn a_reference_from_the_registry_gives_the_pool_back() {
    let pool = ThreadPoolExecutor::builder().name("upgraded").build().unwrap();
    let found = registry::find("upgraded").unwrap();
    assert_eq!(found, pool.downgrade());
    assert_eq!(found.upgrade().unwrap().submit(|| 7).unwrap().join().unwrap(), 7);

    let scheduled = ScheduledThreadPoolExecutor::builder().name("upgraded").build().unwrap();
    let found = registry::find("upgraded#2").unwrap();
    assert!(found.upgrade().is_none(), "it would not be a scheduled pool");
    assert_eq!(&*found.snapshot().unwrap().label, scheduled.label());
    assert!(scheduled.downgrade().upgrade().is_some());
}
