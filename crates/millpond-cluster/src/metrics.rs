//! Metrics of queues and workers, in the text format of Prometheus. `docs/cluster.md` explains
//! each.
//!
//! Metrics with `process` in their name count one process: add them up over all processes. The
//! others describe the queue, so every process with the same database reports the same values.

use crate::cluster::Cluster;
use crate::engine::QueueStats;
use crate::error::EngineError;
use crate::worker::WorkerStats;

/// One metric: its name without `millpond_cluster_`, its meaning, and how to read it.
struct Metric<T>(&'static str, &'static str, fn(&T) -> f64);

const QUEUE: [Metric<QueueStats>; 15] = [
    Metric("submitted_tasks_total", "Tasks that were accepted.", |queue| queue.submitted as f64),
    Metric("started_attempts_total", "Tasks that workers claimed.", |queue| queue.started as f64),
    Metric("failed_attempts_total", "Attempts that returned an error.", |queue| queue.failed as f64),
    Metric("crashed_attempts_total", "Attempts whose lease ran out.", |queue| queue.crashed as f64),
    Metric("given_back_attempts_total", "Attempts that workers gave back.", |queue| queue.given_back as f64),
    Metric("ended_tasks_total", "Tasks that ended, with any outcome.", |queue| queue.ended() as f64),
    Metric("fence_refused_reports_total", "Reports that came after the lease was lost.", |queue| {
        queue.fence_refused as f64
    }),
    Metric("ready_tasks", "Tasks that wait for a worker.", |queue| queue.ready as f64),
    Metric("delayed_tasks", "Tasks that wait for their time.", |queue| queue.delayed as f64),
    Metric("running_tasks", "Tasks that workers hold.", |queue| queue.running as f64),
    Metric("dead_letters", "Dead letters that are kept.", |queue| queue.dead as f64),
    Metric("oldest_ready_seconds", "Time since the oldest ready task was accepted; 0 if none is.", |queue| {
        queue.oldest_ready.unwrap_or_default().as_secs_f64()
    }),
    Metric("process_succeeded_tasks_total", "Tasks that succeeded by this process.", |queue| {
        queue.ended_here.succeeded as f64
    }),
    Metric("process_dead_tasks_total", "Tasks that became dead letters by this process.", |queue| {
        queue.ended_here.dead as f64
    }),
    Metric("process_cancelled_tasks_total", "Tasks that were cancelled by this process.", |queue| {
        queue.ended_here.cancelled as f64
    }),
];

const WORKERS: [Metric<WorkerStats>; 4] = [
    Metric("process_lease_lost_total", "Leases that workers of this process lost.", |workers| {
        workers.lease_lost as f64
    }),
    Metric("process_no_handler_total", "Tasks that workers of this process had no handler for.", |workers| {
        workers.no_handler as f64
    }),
    Metric("process_safety_poll_found_work_total", "Polls that found work without a hint.", |workers| {
        workers.safety_poll_found_work as f64
    }),
    Metric("process_engine_errors_total", "Calls of the engine that failed.", |workers| {
        workers.engine_errors as f64
    }),
];

impl Cluster {
    /// Renders the metrics of all queues, and of the workers of this process, as text for
    /// Prometheus. The label `queue` is the name of the queue. Only workers that were started from
    /// this cluster object or a clone of it are included.
    ///
    /// Reads the engine once per queue.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    ///
    /// # Examples
    /// ```
    /// use millpond_cluster::{Cluster, TaskType};
    ///
    /// let cluster = Cluster::open("memory:")?;
    /// cluster.submit(&TaskType::<u32, ()>::new("resize"), &7)?.detach();
    /// let text = cluster.render_metrics()?;
    /// assert!(text.contains("millpond_cluster_ready_tasks{queue=\"default\"} 1\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn render_metrics(&self) -> Result<String, EngineError> {
        let queues: Vec<_> =
            self.admin().queues()?.into_iter().map(|stats| (stats.queue.clone(), stats)).collect();
        let workers: Vec<_> = self.core.worker_stats().into_iter().collect();
        let mut text = String::new();
        QUEUE.iter().for_each(|metric| metric.render(&queues, &mut text));
        WORKERS.iter().for_each(|metric| metric.render(&workers, &mut text));
        Ok(text)
    }
}

impl<T> Metric<T> {
    fn render(&self, values: &[(String, T)], text: &mut String) {
        let Metric(name, help, read) = self;
        if values.is_empty() {
            // No samples, no header.
            return;
        }
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        *text += &format!("# HELP millpond_cluster_{name} {help}\n# TYPE millpond_cluster_{name} {kind}\n");
        for (queue, value) in values {
            let queue = queue.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            *text += &format!("millpond_cluster_{name}{{queue=\"{queue}\"}} {}\n", read(value));
        }
    }
}
