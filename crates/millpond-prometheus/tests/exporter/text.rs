//! The rendered text, read by a strict parser.

use std::collections::BTreeSet;
use std::time::Duration;

use millpond::monitor::PoolSnapshot;
use millpond::schedulers::{self, SchedulerExt};
use millpond::{ThreadPoolExecutor, executors};
use millpond_prometheus::catalog::METRICS;
use millpond_prometheus::{Bounds, Exporter};

use crate::fixture::Fixture;
use crate::reader::{Family, parse, value};

/// The text of these pools only, because all tests of the process share the registry.
fn render(exporter: &Exporter, pools: &[PoolSnapshot]) -> String {
    let mut text = String::new();
    exporter.write_snapshots(pools, &mut text).unwrap();
    text
}

fn families(pool: &ThreadPoolExecutor) -> Vec<Family> {
    parse(&render(&Exporter::new(), &[pool.snapshot()]))
}

fn named(name: &str) -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder().name(name).build().unwrap()
}

#[test]
fn figures_are_those_of_the_pool() {
    let fixture = Fixture::new("figures");
    let text = families(&fixture.pool);
    type Labels = &'static [(&'static str, &'static str)];
    let expected: [(&str, Labels, f64); 24] = [
        ("threads", &[("state", "active")], 1.0),
        ("threads", &[("state", "idle")], 0.0),
        ("core_threads", &[], 1.0),
        ("max_threads", &[], 1.0),
        ("largest_threads", &[], 1.0),
        ("queued_tasks", &[], 1.0),
        ("queue_capacity_tasks", &[], 2.0),
        ("submitted_tasks_total", &[], 5.0),
        ("tasks_total", &[("outcome", "completed")], 1.0),
        ("tasks_total", &[("outcome", "panicked")], 1.0),
        ("tasks_total", &[("outcome", "cancelled")], 1.0),
        ("tasks_total", &[("outcome", "expired")], 0.0),
        ("tasks_total", &[("outcome", "handed_back")], 0.0),
        ("rejected_tasks_total", &[("reason", "saturated")], 1.0),
        ("rejected_tasks_total", &[("reason", "shutdown")], 0.0),
        ("caller_ran_tasks_total", &[], 0.0),
        ("blocked_submits_total", &[], 0.0),
        ("discarded_tasks_total", &[], 0.0),
        ("evicted_tasks_total", &[], 0.0),
        ("threads_started_total", &[], 1.0),
        ("thread_start_failures_total", &[], 0.0),
        ("paused", &[], 0.0),
        ("settings_version", &[], 1.0),
        ("info", &[("kind", "pool"), ("queue", "array"), ("policy", "abort")], 1.0),
    ];
    for (name, labels, expected) in expected {
        let labels: Vec<_> = [("pool", "figures")].iter().chain(labels).copied().collect();
        assert_eq!(
            value(&text, &format!("millpond_pool_{name}"), &labels),
            Some(expected),
            "{name} {labels:?}"
        );
    }
    for name in ["millpond_pool_oldest_wait_seconds", "millpond_pool_longest_running_seconds"] {
        assert!(value(&text, name, &[("pool", "figures")]) > Some(0.0), "{name}");
    }
    fixture.end();
}

#[test]
fn histograms_count_every_task_that_ran() {
    let pool = Fixture::new("histograms").end();
    let (text, snapshot) = (families(&pool), pool.snapshot());
    for (name, histogram) in [("wait", &snapshot.wait), ("run", &snapshot.run)] {
        let of = |suffix| {
            value(&text, &format!("millpond_pool_{name}_seconds_{suffix}"), &[("pool", "histograms")])
        };
        assert_eq!(of("count"), Some(4.0), "three completed, one panicked");
        assert_eq!(of("sum"), Some(histogram.sum().as_secs_f64()), "{name}");
    }
    let busy = value(&text, "millpond_pool_busy_seconds_total", &[("pool", "histograms")]);
    assert_eq!(busy, Some(snapshot.busy.as_secs_f64()));
}

/// No time is counted below a bound that it exceeds, and none is missing.
#[test]
fn buckets_are_exact_at_their_bounds() {
    let bounds = Bounds::new([1, 3, 50, 1000].map(Duration::from_micros));
    let pool = Fixture::new("buckets").end();
    let snapshot = pool.snapshot();
    let text = parse(&render(&Exporter::new().bounds(bounds.clone()), std::slice::from_ref(&snapshot)));
    for bound in bounds.iter() {
        let inside =
            snapshot.run.buckets().filter(|bucket| bucket.upper <= *bound).map(|bucket| bucket.count);
        let le = bound.as_secs_f64().to_string();
        let labels = [("pool", "buckets"), ("le", le.as_str())];
        assert_eq!(
            value(&text, "millpond_pool_run_seconds_bucket", &labels),
            Some(inside.sum::<u64>() as f64)
        );
        let crosses = |bucket: &millpond::monitor::Bucket| bucket.lower < *bound && *bound < bucket.upper;
        assert!(!snapshot.run.buckets().any(|bucket| crosses(&bucket)), "{bound:?} divides a bucket");
    }
}

#[test]
fn without_bounds_there_are_sum_and_count() {
    let pool = named("no buckets");
    let text = render(&Exporter::new().bounds(Bounds::none()), &[pool.snapshot()]);
    let families = parse(&text);
    assert!(text.contains("# TYPE millpond_pool_wait_seconds summary\n"), "{text}");
    assert_eq!(value(&families, "millpond_pool_wait_seconds_count", &[("pool", "no buckets")]), Some(0.0));
}

#[test]
fn unbounded_values_have_no_sample() {
    let text = families(&executors::cached());
    let names: BTreeSet<_> = text.iter().map(|family| family.name.as_str()).collect();
    for absent in
        ["max_threads", "queue_capacity_tasks", "delayed_tasks", "periodic_tasks_ended_by_panic_total"]
    {
        let name = format!("millpond_pool_{absent}");
        assert!(!names.contains(name.as_str()), "{name}");
    }
    assert!(names.contains("millpond_pool_core_threads"));
}

#[test]
fn tasks_that_wait_for_their_time_do_not_wait_for_a_thread() {
    let pool = executors::scheduled(2);
    let later = pool.schedule(Duration::from_secs(3600), || ()).unwrap();
    let snapshot = pool.snapshot();
    let label = snapshot.label.to_string();
    let text = parse(&render(&Exporter::new(), &[snapshot]));
    let of = |name: &str| value(&text, &format!("millpond_pool_{name}"), &[("pool", label.as_str())]);
    assert_eq!((of("delayed_tasks"), of("queued_tasks")), (Some(1.0), Some(0.0)));
    assert_eq!(of("max_threads"), Some(2.0), "a scheduled pool never has more than its core size");
    assert_eq!(of("periodic_tasks_ended_by_panic_total"), Some(0.0));
    assert!(later.cancel(false));
}

#[test]
fn scheduler_is_a_pool_too() {
    let scheduler = schedulers::new_parallel(2, "parallel text").unwrap();
    scheduler.schedule(|| ()).unwrap().wait(Duration::from_secs(60)).unwrap();
    scheduler.schedule_after(Duration::from_secs(3600), || ()).unwrap();
    let snapshot = scheduler.pool_ref().and_then(|pool| pool.snapshot()).unwrap();
    let text = parse(&render(&Exporter::new(), &[snapshot]));
    let of = |name: &str| value(&text, &format!("millpond_pool_{name}"), &[("pool", "parallel text")]);
    assert_eq!((of("max_threads"), of("queue_capacity_tasks")), (Some(2.0), None));
    assert_eq!((of("delayed_tasks"), of("queued_tasks")), (Some(1.0), Some(0.0)));
    assert_eq!(of("submitted_tasks_total"), Some(2.0));
    scheduler.dispose();
}

#[test]
fn labels_with_quotes_and_backslashes_are_escaped() {
    let hostile = "a\"b\\c{d}=\"e\" 貯水池,\\n";
    let pool = named(hostile);
    assert_eq!(value(&families(&pool), "millpond_pool_paused", &[("pool", hostile)]), Some(0.0));
}

#[test]
fn two_pools_of_one_name_have_two_labels() {
    let (first, second) = (named("twin"), named("twin"));
    let text = parse(&render(&Exporter::new(), &[first.snapshot(), second.snapshot()]));
    for label in ["twin", "twin#2"] {
        assert_eq!(value(&text, "millpond_pool_paused", &[("pool", label)]), Some(0.0));
    }
}

#[test]
fn pool_that_has_ended_is_gone_from_the_next_scrape() {
    let pool = named("short-lived");
    let paused = |text: &str| value(&parse(text), "millpond_pool_paused", &[("pool", "short-lived")]);
    assert_eq!(paused(&millpond_prometheus::render()), Some(0.0));
    drop(pool);
    assert_eq!(paused(&millpond_prometheus::render()), None);
}

#[test]
fn change_of_the_settings_is_seen() {
    let pool = named("changed");
    let change = millpond::monitor::Change::new().core_pool_size(3).maximum_pool_size(5);
    pool.reconfigure(change).unwrap();
    pool.pause();
    let text = families(&pool);
    let of = |name: &str| value(&text, &format!("millpond_pool_{name}"), &[("pool", "changed")]);
    assert_eq!((of("core_threads"), of("max_threads")), (Some(3.0), Some(5.0)));
    assert_eq!((of("settings_version"), of("paused")), (Some(2.0), Some(1.0)));
}

#[test]
fn text_without_pools_is_valid() {
    let text = render(&Exporter::new(), &[]);
    let version = [("version", millpond::VERSION)];
    assert_eq!(value(&parse(&text), "millpond_build_info", &version), Some(1.0));
}

/// Finds metrics that never have a sample, and samples whose name is not in the list.
#[test]
fn list_of_metrics_is_what_is_rendered() {
    let (pool, scheduled) = (Fixture::new("listed").end(), executors::scheduled(1));
    let text = parse(&render(&Exporter::new(), &[pool.snapshot(), scheduled.snapshot()]));
    let rendered: BTreeSet<_> = text.iter().map(|family| family.name.as_str()).collect();
    let listed: BTreeSet<_> =
        METRICS.iter().map(|metric| metric.name).chain(["millpond_build_info"]).collect();
    assert_eq!(rendered, listed);
}
