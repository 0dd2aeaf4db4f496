#![doc = include_str!("../README.md")]

mod spread;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Key, Label, Level, Metadata, Recorder, Unit};
use millpond::monitor::{HistogramSnapshot, PoolSnapshot};
use millpond::registry;
use millpond_prometheus::catalog::{METRICS, Metric, Sample, Type, Value};

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Publishes the metrics of all registered pools to a recorder of the [`metrics`] facade.
///
/// Keeps what it has published, because histograms of a recorder accept only increments. Use one
/// publisher per recorder, and call it at regular intervals.
///
/// # Examples
/// On a thread of its own, every ten seconds, after the recorder has been installed:
/// ```no_run
/// use millpond_metrics::Publisher;
/// use std::{thread, time::Duration};
///
/// let mut publisher = Publisher::new();
/// thread::spawn(move || loop {
///     publisher.publish();
///     thread::sleep(Duration::from_secs(10));
/// });
/// ```
#[derive(Debug, Default)]
pub struct Publisher {
    is_described: bool,
    /// By label. An entry stays after the end of its pool, because the recorder keeps the counters
    /// too: the next pool of that name adds to them.
    pools: HashMap<Arc<str>, Published>,
}

impl Publisher {
    /// Makes a publisher that has published nothing.
    pub fn new() -> Publisher {
        Publisher::default()
    }

    /// Publishes to the recorder of the calling thread if it has one, otherwise to the global one.
    ///
    /// Install the recorder first: without one, the counts of the histograms are lost.
    pub fn publish(&mut self) {
        metrics::with_recorder(|recorder| self.publish_to(recorder));
    }

    /// Publishes to this recorder.
    ///
    /// # Examples
    /// ```
    /// use metrics::NoopRecorder;
    /// use millpond_metrics::Publisher;
    ///
    /// Publisher::new().publish_to(&NoopRecorder);
    /// ```
    pub fn publish_to(&mut self, recorder: &dyn Recorder) {
        if !self.is_described {
            self.is_described = true;
            METRICS.iter().for_each(|metric| describe(recorder, metric));
        }
        self.pools.values_mut().for_each(|pool| pool.is_alive = false);
        for snapshot in registry::pools().iter().filter_map(|pool| pool.snapshot()) {
            let pool = self.pools.entry(Arc::clone(&snapshot.label)).or_default();
            pool.publish(recorder, &snapshot);
        }
        for pool in self.pools.values_mut().filter(|pool| !pool.is_alive) {
            pool.end(recorder);
        }
    }
}

fn describe(recorder: &dyn Recorder, metric: &Metric) {
    let (name, help) = (metric.name.into(), metric.help.into());
    let unit = metric.name.contains("_seconds").then_some(Unit::Seconds);
    match metric.kind {
        Type::Histogram => recorder.describe_histogram(name, unit, help),
        Type::Counter if unit.is_none() => recorder.describe_counter(name, Some(Unit::Count), help),
        _ => recorder.describe_gauge(name, unit.or(Some(Unit::Count)), help),
    }
}

/// What has been published about the pools of one label.
#[derive(Debug, Default)]
struct Published {
    /// The label of the current pool. A new pool of the same name has a label at another address.
    identity: Option<Arc<str>>,
    is_alive: bool,
    counters: HashMap<Key, Total>,
    /// Totals of time. They are gauges, because a counter of `metrics` is an integer.
    times: HashMap<Key, Total>,
    /// The gauges of the last publication.
    gauges: Vec<Key>,
    histograms: HashMap<Key, HistogramSnapshot>,
}

/// The sum over all pools of one label.
#[derive(Debug, Default)]
struct Total {
    sum: u64,
    /// The current pool's share, at the last publication.
    seen: u64,
}

impl Total {
    fn add(&mut self, value: u64) -> u64 {
        self.sum += value.saturating_sub(self.seen);
        self.seen = value;
        self.sum
    }
}

impl Published {
    fn publish(&mut self, recorder: &dyn Recorder, snapshot: &PoolSnapshot) {
        self.is_alive = true;
        if !self.identity.as_ref().is_some_and(|label| Arc::ptr_eq(label, &snapshot.label)) {
            self.begin(&snapshot.label);
        }
        let old_gauges = std::mem::take(&mut self.gauges);
        for metric in &METRICS {
            for sample in metric.samples(snapshot) {
                self.publish_sample(recorder, metric, &snapshot.label, &sample);
            }
        }
        let ended = old_gauges.iter().filter(|key| !self.gauges.contains(key));
        ended.for_each(|key| recorder.register_gauge(key, &METADATA).set(0.0));
    }

    /// Starts a new pool of this label: its counts begin at zero, those of the recorder continue.
    fn begin(&mut self, label: &Arc<str>) {
        self.identity = Some(Arc::clone(label));
        self.counters.values_mut().chain(self.times.values_mut()).for_each(|total| total.seen = 0);
        self.histograms.clear();
    }

    /// Sets the gauges to 0: a recorder would keep their last values for ever.
    fn end(&mut self, recorder: &dyn Recorder) {
        self.identity = None;
        for key in self.gauges.drain(..) {
            recorder.register_gauge(&key, &METADATA).set(0.0);
        }
    }

    fn publish_sample(
        &mut self,
        recorder: &dyn Recorder,
        metric: &Metric,
        pool: &Arc<str>,
        sample: &Sample<'_>,
    ) {
        let key = key(metric, pool, sample);
        match (metric.kind, sample.value) {
            (Type::Counter, Value::Integer(value)) => {
                let counter = recorder.register_counter(&key, &METADATA);
                counter.absolute(self.counters.entry(key).or_default().add(value));
            }
            (Type::Counter, Value::Seconds(value)) => {
                let gauge = recorder.register_gauge(&key, &METADATA);
                let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
                let sum = self.times.entry(key).or_default().add(nanos);
                gauge.set(Duration::from_nanos(sum).as_secs_f64());
            }
            (_, Value::Integer(value)) => self.set(recorder, key, value as f64),
            (_, Value::Seconds(value)) => self.set(recorder, key, value.as_secs_f64()),
            (_, Value::Histogram(histogram)) => {
                let handle = recorder.register_histogram(&key, &METADATA);
                let published = self.histograms.entry(key).or_default();
                spread::each(&histogram.since(published), |seconds, count| {
                    handle.record_many(seconds, count)
                });
                *published = histogram.clone();
            }
            _ => {}
        }
    }

    fn set(&mut self, recorder: &dyn Recorder, key: Key, value: f64) {
        recorder.register_gauge(&key, &METADATA).set(value);
        self.gauges.push(key);
    }
}

fn key(metric: &Metric, pool: &Arc<str>, sample: &Sample<'_>) -> Key {
    let mut labels = vec![Label::new("pool", Arc::clone(pool))];
    labels.extend(sample.labels.iter().map(|&(name, value)| Label::from_static_parts(name, value)));
    Key::from_parts(metric.name, labels)
}
