//! What a recorder receives, compared with the Prometheus text of the same pools.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::with_local_recorder;
use millpond::monitor::{Change, PolicyKind};
use millpond::{ThreadPoolExecutor, registry};
use millpond_metrics::Publisher;

use support::{Fixture, Recorded};

/// The samples of the Prometheus text, without comments and buckets: series and value.
fn prometheus() -> BTreeMap<String, f64> {
    let text = millpond_prometheus::render();
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
    let split = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        (series.to_owned(), value.parse().expect("a number"))
    };
    samples.map(split).collect()
}

/// Drops the last handle and waits until the pool is gone and another one can have its label: an
/// exiting worker may still hold it, or drop it at this moment.
fn end(pool: ThreadPoolExecutor) {
    let label = pool.label().to_owned();
    drop(pool);
    let next = || ThreadPoolExecutor::builder().name(&*label).unregistered().build().unwrap();
    while registry::find(&label).is_some() || next().label() != label {
        std::thread::yield_now();
    }
}

#[track_caller]
fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{what}: {found} instead of {expected}");
}

/// Both exporters, on one fixture: the same series with the same counters, gauges, sums and counts.
#[test]
fn recorder_gets_what_prometheus_gets() {
    let label = |text: &str| text.contains("pool=\"same\"") || text.contains("pool=\"same-timer\"");
    let timer = millpond::ScheduledThreadPoolExecutor::builder().name("same-timer").build().unwrap();
    timer.schedule(Duration::ZERO, || ()).unwrap().join().unwrap();
    timer.close();
    let fixture = Fixture::new("same");
    let (recorder, mut publisher) = (Recorded::default(), Publisher::new());
    publisher.publish_to(&recorder); // halfway, so histograms arrive in two parts
    let pool = fixture.end();
    publisher.publish_to(&recorder);

    let expected: BTreeMap<_, _> = prometheus().into_iter().filter(|(series, _)| label(series)).collect();
    let found = recorder.samples();
    let found: BTreeMap<_, _> = found.into_iter().filter(|(series, _)| label(series)).collect();
    assert!(expected.keys().eq(found.keys()), "{expected:#?} {found:#?}");
    for (series, expected) in &expected {
        assert_near(found[series], *expected, series);
    }
    assert_eq!(found["millpond_pool_run_seconds_count{pool=\"same\"}"], 4.0);
    drop((pool, timer));
}

#[test]
fn publishing_twice_changes_nothing() {
    let pool = Fixture::new("twice").end();
    let (recorder, mut publisher) = (Recorded::default(), Publisher::new());
    let of_pool = |recorder: &Recorded| -> BTreeMap<String, f64> {
        recorder.samples().into_iter().filter(|(series, _)| series.contains("\"twice\"")).collect()
    };
    publisher.publish_to(&recorder);
    let once = of_pool(&recorder);
    publisher.publish_to(&recorder);
    assert_eq!(of_pool(&recorder), once);
    assert_eq!(once["millpond_pool_wait_seconds_count{pool=\"twice\"}"], 4.0);
    drop(pool);
}

#[test]
fn gauges_of_a_pool_that_has_ended_are_zero() {
    let (recorder, mut publisher) = (Recorded::default(), Publisher::new());
    let pool = Fixture::new("gone").end();
    publisher.publish_to(&recorder);
    assert_eq!(recorder.value("millpond_pool_core_threads{pool=\"gone\"}"), Some(1.0));
    end(pool);
    publisher.publish_to(&recorder);
    for gauge in ["core_threads", "max_threads", "settings_version", "queue_capacity_tasks"] {
        assert_eq!(recorder.value(&format!("millpond_pool_{gauge}{{pool=\"gone\"}}")), Some(0.0), "{gauge}");
    }
    let completed = "millpond_pool_tasks_total{pool=\"gone\",outcome=\"completed\"}";
    assert_eq!(recorder.value(completed), Some(3.0), "a counter never falls");
}

#[test]
fn next_pool_of_the_same_name_adds_to_the_counters() {
    let (recorder, mut publisher) = (Recorded::default(), Publisher::new());
    for round in 1..=3 {
        let pool = Fixture::new("again").end();
        assert_eq!(pool.label(), "again");
        publisher.publish_to(&recorder);
        let value = |series: &str| recorder.value(&format!("millpond_pool_{series}"));
        assert_eq!(value("submitted_tasks_total{pool=\"again\"}"), Some(5.0 * f64::from(round)));
        assert_eq!(value("run_seconds_count{pool=\"again\"}"), Some(4.0 * f64::from(round)));
        assert_eq!(value("settings_version{pool=\"again\"}"), Some(1.0));
        end(pool);
        if round == 2 {
            publisher.publish_to(&recorder); // with and without publishing in between
        }
    }
}

/// Two policies at the same time would make every join on the info metric ambiguous.
#[test]
fn info_of_settings_that_were_replaced_is_zero() {
    let (recorder, mut publisher) = (Recorded::default(), Publisher::new());
    let pool = ThreadPoolExecutor::builder().name("info").build().unwrap();
    publisher.publish_to(&recorder);
    pool.reconfigure(Change::new().policy(PolicyKind::CallerRuns)).unwrap();
    publisher.publish_to(&recorder);
    let info = |policy: &str| {
        let labels = format!("pool=\"info\",kind=\"pool\",queue=\"linked\",policy=\"{policy}\"");
        recorder.value(&format!("millpond_pool_info{{{labels}}}"))
    };
    assert_eq!((info("abort"), info("caller_runs")), (Some(0.0), Some(1.0)));
}

#[test]
fn metrics_are_described_once_with_their_unit() {
    let (recorder, mut publisher) = (Recorded::default(), Publisher::new());
    with_local_recorder(&recorder, || publisher.publish());
    let described = recorder.descriptions();
    with_local_recorder(&recorder, || publisher.publish());
    assert_eq!(recorder.descriptions().len(), described.len());
    assert_eq!(described.len(), millpond_prometheus::catalog::METRICS.len());
    assert!(described.contains(&"histogram millpond_pool_wait_seconds seconds".to_owned()), "{described:?}");
    assert!(
        described.contains(&"gauge millpond_pool_busy_seconds_total seconds".to_owned()),
        "{described:?}"
    );
    assert!(described.contains(&"counter millpond_pool_tasks_total count".to_owned()), "{described:?}");
}
