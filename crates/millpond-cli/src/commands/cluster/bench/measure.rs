//! The measurements, in sequence, on an empty queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use millpond_cluster::engine::{BATCH_LIMIT, Claim};
use millpond_cluster::{Cluster, WorkerId};

use super::super::failed;
use super::scratch::{ECHO, QUEUE, Signals};
use crate::error::Error;
use crate::term;

/// The requested load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) tasks: u64,
    pub(super) in_flight: u64,
    pub(super) bytes: u64,
}

/// One measurement: the total time, and the time of each call.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) tasks: u64,
    pub(super) per_call: usize,
    elapsed: Duration,
    /// Sorted, and not empty.
    times: Vec<Duration>,
}

impl Figures {
    fn new(per_call: usize, tasks: u64, elapsed: Duration, mut times: Vec<Duration>) -> Figures {
        times.sort_unstable();
        Figures { tasks, per_call, elapsed, times }
    }

    pub(super) fn rate(&self) -> f64 {
        self.tasks as f64 / self.elapsed.as_secs_f64()
    }

    /// The time that a `share` of the calls did not exceed.
    pub(super) fn time(&self, share: f64) -> Duration {
        self.times[((self.times.len() - 1) as f64 * share).round() as usize]
    }
}

#[derive(Debug)]
pub(super) struct Results {
    pub(super) many: Figures,
    pub(super) one: Figures,
    pub(super) submit: Figures,
    pub(super) claim: Figures,
    /// `None`: the engine has no disk, or there were too few tasks to measure.
    pub(super) bytes_per_task: Option<f64>,
}

/// Runs the measurements.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    cluster: &'a Cluster,
    load: Load,
    signals: &'a Signals,
    /// Shown on stderr if that is a terminal.
    progress: ProgressBar,
}

/// Number of tasks per claim.
const CLAIM: u64 = 100;
/// Below 16 SQLite pages, the size per task is not accurate enough.
const FEW_BYTES: u64 = 16 * 4096;
/// Longer than the bench, because the leases of claimed tasks are not renewed.
const LEASE: Duration = Duration::from_secs(3600);

impl<'a> Meter<'a> {
    pub(super) fn new(cluster: &'a Cluster, load: Load, signals: &'a Signals) -> Meter<'a> {
        let progress =
            if term::stderr().is_terminal { ProgressBar::no_length() } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}");
        progress.set_style(style.expect("the template is sound"));
        Meter { cluster, load, signals, progress }
    }

    pub(super) fn measure(&self) -> Result<Results, Error> {
        let handler = |_: &_, text: String| Ok(text.len() as u64);
        let worker = self.cluster.worker().handle(&ECHO, handler).start().map_err(failed)?;
        let one = self.one_in_flight()?;
        let many = self.many_in_flight()?;
        // From here on no worker claims tasks.
        drop(worker);
        let before = self.stored_bytes()?;
        let submit = self.submit_batches()?;
        let after = self.stored_bytes()?;
        let bytes = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        // Space is allocated in pages, so few tasks give no accurate size.
        let bytes = bytes.filter(|bytes| *bytes >= FEW_BYTES);
        let bytes_per_task = bytes.map(|bytes| bytes as f64 / self.load.tasks as f64);
        let claim = self.claim_batches()?;
        Ok(Results { many, one, submit, claim, bytes_per_task })
    }

    /// Starts a step with this many tasks.
    fn begin(&self, what: &'static str, tasks: u64) {
        self.progress.set_message(what);
        self.progress.set_length(tasks);
        self.progress.set_position(0);
    }

    /// Counts finished tasks. Fails if a signal has arrived.
    fn done(&self, tasks: u64) -> Result<(), Error> {
        self.progress.inc(tasks);
        match self.signals.received() {
            None => Ok(()),
            Some(_) => Err(Error::new("interrupted")),
        }
    }

    fn arguments(&self) -> String {
        // The quotes count towards the requested length.
        "x".repeat(self.load.bytes as usize - 2)
    }

    fn stored_bytes(&self) -> Result<Option<u64>, Error> {
        self.cluster.admin().stored_bytes().map_err(failed)
    }

    /// Submits one task and waits for its result.
    fn round_trip(&self, arguments: &String) -> Result<Duration, Error> {
        let begin = Instant::now();
        let handle = self.cluster.submit(&ECHO, arguments).map_err(failed)?;
        handle.join().map_err(failed)?;
        let time = begin.elapsed();
        self.done(1)?;
        Ok(time)
    }

    fn one_in_flight(&self) -> Result<Figures, Error> {
        // Each round trip waits for the disk: run enough for a p99, but not more.
        let rounds = (self.load.tasks / 50).clamp(200, 2000).min(self.load.tasks);
        self.begin("one in flight", rounds);
        let arguments = self.arguments();
        // Warm-up: the first round trip starts threads and prepares statements.
        self.round_trip(&arguments)?;
        self.progress.set_position(0);
        let begin = Instant::now();
        let times = (0..rounds).map(|_| self.round_trip(&arguments)).collect::<Result<Vec<_>, _>>()?;
        Ok(Figures::new(1, rounds, begin.elapsed(), times))
    }

    /// Starts a thread per task in flight; each repeatedly submits a task and waits for it.
    fn many_in_flight(&self) -> Result<Figures, Error> {
        let tasks = self.load.tasks;
        self.begin("many in flight", tasks);
        let started = AtomicU64::new(0);
        let submitter = || -> Result<Vec<Duration>, Error> {
            let arguments = self.arguments();
            let mut times = Vec::new();
            // Relaxed: a counter.
            while started.fetch_add(1, Ordering::Relaxed) < tasks {
                // After an error the other threads start no more tasks.
                let stop = |_: &Error| started.store(tasks, Ordering::Relaxed);
                times.push(self.round_trip(&arguments).inspect_err(stop)?);
            }
            Ok(times)
        };
        let begin = Instant::now();
        let times = thread::scope(|scope| -> Result<Vec<Duration>, Error> {
            let threads = (0..self.load.in_flight.min(tasks))
                .map(|_| thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, submitter))
                .collect::<Result<Vec<_>, _>>()
                .inspect_err(|_| started.store(tasks, Ordering::Relaxed))
                .map_err(|error| Error::new(format_args!("cannot start a thread: {error}")))?;
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            let mut times = Vec::new();
            for result in results {
                times.extend(result.expect("a submitter does not panic")?);
            }
            Ok(times)
        })?;
        Ok(Figures::new(1, tasks, begin.elapsed(), times))
    }

    fn submit_batches(&self) -> Result<Figures, Error> {
        self.begin("submit", self.load.tasks);
        let arguments = self.arguments();
        let (mut left, mut times) = (self.load.tasks as usize, Vec::new());
        while left > 0 {
            let batch = left.min(BATCH_LIMIT);
            let begin = Instant::now();
            let handles = self.cluster.submit_all(&ECHO, std::iter::repeat_n(arguments.clone(), batch));
            times.push(begin.elapsed());
            drop(handles.map_err(|(_, error)| failed(error))?);
            left -= batch;
            self.done(batch as u64)?;
        }
        Ok(Figures::new(BATCH_LIMIT, self.load.tasks, times.iter().sum(), times))
    }

    /// Claims at most half of the waiting tasks, so that the backlog remains deep.
    fn claim_batches(&self) -> Result<Figures, Error> {
        let calls = (self.load.tasks / CLAIM / 2).clamp(1, 200);
        self.begin("claim", calls * CLAIM);
        let ask = Claim {
            queue: QUEUE.to_owned(),
            worker: WorkerId::from_name("bench"),
            max: CLAIM as usize,
            max_suspects: 0,
            lease: LEASE,
            ids: Vec::new(),
        };
        let (mut claimed, mut times) = (0, Vec::new());
        for _ in 0..calls {
            let begin = Instant::now();
            let tasks = self.cluster.engine().claim(&ask).map_err(failed)?;
            times.push(begin.elapsed());
            claimed += tasks.len() as u64;
            self.done(CLAIM)?;
        }
        Ok(Figures::new(CLAIM as usize, claimed, times.iter().sum(), times))
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.progress.finish_and_clear();
    }
}
