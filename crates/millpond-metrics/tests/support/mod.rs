//! A pool in a known state, and a recorder that keeps what it receives.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};

use metrics::{
    Counter, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use millpond::{TaskHandle, ThreadPoolExecutor, WorkQueue};

/// A pool with one thread and a queue of two. One task completed, one panicked, one was cancelled,
/// one was rejected, one is running and one is queued.
pub(crate) struct Fixture {
    pub(crate) pool: ThreadPoolExecutor,
    /// Dropping it ends the running task.
    release: mpsc::Sender<()>,
    runs: TaskHandle<()>,
    waits: TaskHandle<()>,
}

impl Fixture {
    pub(crate) fn new(name: &str) -> Fixture {
        let queue = WorkQueue::array(2);
        let builder = ThreadPoolExecutor::builder().name(name).core_pool_size(1).maximum_pool_size(1);
        let pool = builder.work_queue(queue).build().unwrap();
        pool.submit(|| ()).unwrap().join().unwrap();
        pool.submit(|| panic!("on purpose")).unwrap().join().unwrap_err();
        let (release, released) = mpsc::channel::<()>();
        let (start, started) = mpsc::channel();
        let runs = pool.submit(move || {
            start.send(()).unwrap();
            released.recv().unwrap_err();
        });
        let runs = runs.unwrap();
        started.recv().unwrap();
        let waits = pool.submit(|| ()).unwrap();
        let cancelled = pool.submit(|| ()).unwrap();
        pool.submit(|| ()).unwrap_err();
        assert!(cancelled.cancel(false));
        Fixture { pool, release, runs, waits }
    }

    /// Lets all tasks and threads end, so that nothing changes any more.
    pub(crate) fn end(self) -> ThreadPoolExecutor {
        drop(self.release);
        self.runs.join().unwrap();
        self.waits.join().unwrap();
        self.pool.close();
        self.pool
    }
}

/// A recorder that keeps sums and counts of histograms, and all other values unchanged. Counters
/// never fall, as in real recorders.
#[derive(Default)]
pub(crate) struct Recorded {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    gauges: Mutex<BTreeMap<String, Arc<Cell>>>,
    histograms: Mutex<BTreeMap<String, Arc<Cell>>>,
    descriptions: Mutex<Vec<String>>,
}

/// A gauge, or sum and count of a histogram.
#[derive(Default)]
struct Cell(Mutex<(f64, f64)>);

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        self.0.lock().unwrap().0 += value;
    }

    fn decrement(&self, value: f64) {
        self.0.lock().unwrap().0 -= value;
    }

    fn set(&self, value: f64) {
        self.0.lock().unwrap().0 = value;
    }
}

impl HistogramFn for Cell {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        let mut cell = self.0.lock().unwrap();
        *cell = (cell.0 + value * count as f64, cell.1 + count as f64);
    }
}

impl Recorded {
    /// Every series, as Prometheus would write it, with its value.
    pub(crate) fn samples(&self) -> BTreeMap<String, f64> {
        let mut samples = BTreeMap::new();
        let counters = self.counters.lock().unwrap();
        samples.extend(counters.iter().map(|(series, value)| (series.clone(), value.load(Relaxed) as f64)));
        let gauges = self.gauges.lock().unwrap();
        samples.extend(gauges.iter().map(|(series, value)| (series.clone(), value.0.lock().unwrap().0)));
        for (series, value) in self.histograms.lock().unwrap().iter() {
            let (sum, count) = *value.0.lock().unwrap();
            samples.insert(series.replace('{', "_sum{"), sum);
            samples.insert(series.replace('{', "_count{"), count);
        }
        samples
    }

    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        self.samples().get(series).copied()
    }

    /// The registered descriptions: type, name and unit.
    pub(crate) fn descriptions(&self) -> Vec<String> {
        self.descriptions.lock().unwrap().clone()
    }

    fn describe(&self, kind: &str, name: &KeyName, unit: Option<Unit>, help: &SharedString) {
        assert!(help.ends_with('.'), "{help}");
        let unit = unit.expect("every metric has a unit").as_str().to_owned();
        self.descriptions.lock().unwrap().push(format!("{kind} {} {unit}", name.as_str()));
    }
}

fn series(key: &Key) -> String {
    let labels: Vec<_> = key.labels().map(|label| format!("{}=\"{}\"", label.key(), label.value())).collect();
    format!("{}{{{}}}", key.name(), labels.join(","))
}

impl Recorder for Recorded {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe("counter", &name, unit, &help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe("gauge", &name, unit, &help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe("histogram", &name, unit, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::clone(self.counters.lock().unwrap().entry(series(key)).or_default()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::clone(self.gauges.lock().unwrap().entry(series(key)).or_default()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::clone(self.histograms.lock().unwrap().entry(series(key)).or_default()))
    }
}
