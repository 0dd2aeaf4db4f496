#![doc = include_str!("../README.md")]

mod bounds;
pub mod catalog;
mod text;

use std::fmt::{self, Display, Write};

use millpond::monitor::{HistogramSnapshot, PoolSnapshot};
use millpond::registry;

pub use bounds::Bounds;
use catalog::{METRICS, Metric, Sample, Type, Value};

/// The value of the header `Content-Type` of a response with this text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Renders the metrics of all registered pools, with the default [`Bounds`].
///
/// Does not wait for tasks or workers: it takes only locks that are held for a few instructions.
/// [`Exporter`] has other bounds, and writes to a writer instead of a `String`.
///
/// # Examples
/// ```
/// use millpond::ThreadPoolExecutor;
///
/// let pool = ThreadPoolExecutor::builder().name("db").build()?;
/// let text = millpond_prometheus::render();
/// assert!(text.contains("millpond_pool_queued_tasks{pool=\"db\"} 0\n"));
/// # Ok::<(), millpond::ConfigError>(())
/// ```
pub fn render() -> String {
    Exporter::new().render()
}

/// Writes metrics as Prometheus text, with configurable [`Bounds`].
///
/// # Examples
/// Without buckets, for a process with many pools:
/// ```
/// use millpond_prometheus::{Bounds, Exporter};
///
/// let pool = millpond::executors::fixed(2)?;
/// let text = Exporter::new().bounds(Bounds::none()).render();
/// assert!(text.contains("millpond_pool_wait_seconds_count{"));
/// assert!(!text.contains("_bucket{"));
/// # Ok::<(), millpond::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Exporter {
    bounds: Bounds,
}

impl Exporter {
    /// Makes an exporter with the default bounds.
    pub fn new() -> Exporter {
        Exporter::default()
    }

    /// Sets the bounds of the histograms' buckets.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Exporter {
        self.bounds = bounds;
        self
    }

    /// Renders the metrics of all registered pools.
    pub fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a String takes everything");
        text
    }

    /// Writes the metrics of all registered pools, line by line.
    ///
    /// Takes the snapshots of all pools before it writes the first line, so a slow writer delays no
    /// pool.
    ///
    /// # Errors
    /// The error of the writer; there are no others.
    pub fn write(&self, out: &mut dyn Write) -> fmt::Result {
        let snapshots: Vec<_> = registry::pools().iter().filter_map(|pool| pool.snapshot()).collect();
        self.write_snapshots(&snapshots, out)
    }

    /// Writes the metrics of these snapshots: of selected pools, or of unregistered ones.
    ///
    /// The text is invalid if two snapshots have the same label.
    ///
    /// # Errors
    /// The error of the writer.
    ///
    /// # Examples
    /// ```
    /// use millpond::ThreadPoolExecutor;
    /// use millpond_prometheus::Exporter;
    ///
    /// let pool = ThreadPoolExecutor::builder().name("private").unregistered().build()?;
    /// let mut text = String::new();
    /// Exporter::new().write_snapshots(&[pool.snapshot()], &mut text)?;
    /// assert!(text.contains("{pool=\"private\"}"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_snapshots(&self, snapshots: &[PoolSnapshot], out: &mut dyn Write) -> fmt::Result {
        let pools: Vec<String> = snapshots.iter().map(|snapshot| text::escaped(&snapshot.label)).collect();
        for metric in &METRICS {
            let mut family = Family { out, metric, bounds: &self.bounds, has_header: false };
            for (snapshot, pool) in snapshots.iter().zip(&pools) {
                for sample in metric.samples(snapshot) {
                    family.write(pool, &sample)?;
                }
            }
        }
        let version = millpond::VERSION;
        out.write_str(
            "# HELP millpond_build_info The version of millpond.\n# TYPE millpond_build_info gauge\n",
        )?;
        writeln!(out, "millpond_build_info{{version=\"{version}\"}} 1")
    }
}

/// All samples of one metric. The format requires them together, below one header.
struct Family<'a> {
    out: &'a mut dyn Write,
    metric: &'static Metric,
    bounds: &'a Bounds,
    /// Whether the header is written. It comes with the first sample: no samples, no header.
    has_header: bool,
}

impl Family<'_> {
    fn write(&mut self, pool: &str, sample: &Sample<'_>) -> fmt::Result {
        self.write_header()?;
        match sample.value {
            Value::Integer(value) => self.write_number(pool, sample, &value),
            Value::Seconds(value) => self.write_number(pool, sample, &text::Seconds(value)),
            Value::Histogram(histogram) => self.write_histogram(pool, histogram),
        }
    }

    fn write_number(&mut self, pool: &str, sample: &Sample<'_>, value: &dyn Display) -> fmt::Result {
        write!(self.out, "{}{{pool=\"{pool}\"", self.metric.name)?;
        for (label, value) in &sample.labels {
            write!(self.out, ",{label}=\"{value}\"")?;
        }
        writeln!(self.out, "}} {value}")
    }

    fn write_histogram(&mut self, pool: &str, histogram: &HistogramSnapshot) -> fmt::Result {
        let name = self.metric.name;
        let count = histogram.count();
        if !self.bounds.is_none() {
            for &bound in self.bounds.iter() {
                let (le, below) = (text::Seconds(bound), histogram.count_below(bound));
                writeln!(self.out, "{name}_bucket{{pool=\"{pool}\",le=\"{le}\"}} {below}")?;
            }
            writeln!(self.out, "{name}_bucket{{pool=\"{pool}\",le=\"+Inf\"}} {count}")?;
        }
        writeln!(self.out, "{name}_sum{{pool=\"{pool}\"}} {}", text::Seconds(histogram.sum()))?;
        writeln!(self.out, "{name}_count{{pool=\"{pool}\"}} {count}")
    }

    fn write_header(&mut self) -> fmt::Result {
        if self.has_header {
            return Ok(());
        }
        self.has_header = true;
        let (name, help) = (self.metric.name, self.metric.help);
        let kind = match self.metric.kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            // The format requires buckets for a histogram; a summary may have only sum and count.
            Type::Histogram if self.bounds.is_none() => "summary",
            Type::Histogram => "histogram",
        };
        writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}")
    }
}
