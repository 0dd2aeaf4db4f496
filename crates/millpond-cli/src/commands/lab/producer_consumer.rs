//! The workload `producer-consumer`: two tasks connected by an `ArrayBlockingQueue` of the library.
//!
//! The queue does not belong to a pool, so this is a program instead of a workload file. Items are
//! recorded like tasks: submitted by the producer, run by the consumer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millpond::queue::{ArrayBlockingQueue, BlockingQueue};
use millpond::{ThreadPoolExecutor, executors, interrupt};

use super::expect;
use super::play::Pace;
use super::record::{Ended, Ending, How, Record, RunRecord, StepRecord, TaskRecord, ThreadRecord};
use super::workload::{Bound, Expect, Figure};
use crate::error::Error;

pub(super) const ABOUT: &str = "A queue of 3 between a producer and a consumer: the fourth item has to wait";

const SAYS: &str = "The producer puts three items at once; with the fourth it has to wait until the consumer, who comes \
                    a second late, has taken the first.";

const PLACES: usize = 3;
const ITEMS: usize = 4;
/// How long the consumer takes per item.
const WORK: Duration = Duration::from_secs(1);
/// How long the consumer waits before it begins.
const LATE: Duration = Duration::from_secs(1);

const PRODUCER: &str = "producer";
const CONSUMER: &str = "consumer";

/// Events of an item, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The producer is about to put it.
    Puts {
        full: bool,
    },
    Put,
    Took,
    Done,
}

/// An event, and the state of queue and pool right after it.
struct Report {
    at: Duration,
    item: usize,
    event: Event,
    queued: usize,
    threads: usize,
    active: usize,
}

/// State that the two tasks share.
struct Shop {
    origin: Instant,
    pace: Pace,
    pool: ThreadPoolExecutor,
    queue: ArrayBlockingQueue<usize>,
    /// Both tasks have started.
    opening: Barrier,
    /// The producer is blocked.
    blocked: AtomicBool,
    reports: Mutex<Vec<Report>>,
}

type Uninterrupted = Result<(), interrupt::Interrupted>;

/// Plays the workload.
pub(super) fn play(pace: Pace) -> Result<Record, Error> {
    let shop = Arc::new(Shop {
        origin: Instant::now(),
        pace,
        pool: executors::fixed(2)?,
        queue: ArrayBlockingQueue::new(PLACES)?,
        opening: Barrier::new(2),
        blocked: AtomicBool::new(false),
        reports: Mutex::default(),
    });
    let failed =
        |error: &dyn std::fmt::Display| Error::new(format_args!("producer-consumer did not run: {error}"));
    let start = |work: fn(&Shop) -> Uninterrupted| {
        let inside = Arc::clone(&shop);
        shop.pool.submit(move || work(&inside)).map_err(|error| failed(&error))
    };
    for task in [start(Shop::produce)?, start(Shop::consume)?] {
        task.join().map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    }
    let end = shop.origin.elapsed();
    shop.pool.close();
    let reports = std::mem::take(&mut *shop.reports.lock().unwrap_or_else(PoisonError::into_inner));
    let mut record = record(reports, end, pace);
    expect::check(&mut record, &expected());
    Ok(record)
}

impl Shop {
    fn produce(&self) -> Uninterrupted {
        self.opening.wait();
        for item in 1..=ITEMS {
            let full = self.queue.remaining_capacity() == 0;
            self.tell(item, Event::Puts { full });
            if full {
                self.blocked.store(true, Ordering::Release);
            }
            self.queue.put(item).map_err(|_| interrupt::Interrupted)?;
            self.tell(item, Event::Put);
        }
        Ok(())
    }

    /// Begins when the producer is blocked, so that this is visible.
    fn consume(&self) -> Uninterrupted {
        self.opening.wait();
        while !self.blocked.load(Ordering::Acquire) {
            interrupt::sleep(Duration::from_micros(200))?;
        }
        interrupt::sleep(self.pace.real(LATE))?;
        for _ in 0..ITEMS {
            let item = self.queue.take()?;
            self.tell(item, Event::Took);
            interrupt::sleep(self.pace.real(WORK))?;
            self.tell(item, Event::Done);
        }
        Ok(())
    }

    fn tell(&self, item: usize, event: Event) {
        let (at, queued) = (self.origin.elapsed(), self.queue.len());
        let (threads, active) = (self.pool.pool_size(), self.pool.active_count());
        let report = Report { at, item, event, queued, threads, active };
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }
}

fn expected() -> Expect {
    let figures =
        [(Figure::Queued, ITEMS), (Figure::Waited, 1), (Figure::Ran, ITEMS), (Figure::PeakThreads, 2)];
    Expect {
        figures: figures.map(|(figure, count)| (figure, Bound::Exactly(count as u64))).into(),
        order: Some((1..=ITEMS).map(|item| item.to_string()).collect()),
        ..Expect::default()
    }
}

fn record(mut reports: Vec<Report>, end: Duration, pace: Pace) -> Record {
    reports.sort_by_key(|report| report.at);
    let most_threads = reports.iter().map(|report| report.threads).max().unwrap_or(0);
    let thread = |name: &str| ThreadRecord { name: name.to_owned(), started: Duration::ZERO, stopped: None };
    Record {
        title: "Four items".to_owned(),
        says: Some(SAYS.to_owned()),
        group: None,
        pool: format!("array queue of {PLACES}, two tasks on a pool of 2 threads"),
        queue_capacity: Some(PLACES),
        core_threads: None,
        max_threads: None,
        speed: pace.0,
        caller: PRODUCER,
        tasks: (1..=ITEMS).map(|item| item_record(item, &reports, pace)).collect(),
        threads: vec![thread(CONSUMER)],
        steps: steps(&reports, pace),
        notes: Vec::new(),
        ending: Ending {
            outcome: millpond::ShutdownOutcome::Drained,
            elapsed: Duration::ZERO,
            never_run: Vec::new(),
            asked_for: false,
        },
        threads_at_end: most_threads,
        peak_threads: most_threads,
        end: pace.told(end),
        unmet: Vec::new(),
        expected: 0,
    }
}

/// Converts the events of an item to a record.
fn item_record(item: usize, reports: &[Report], pace: Pace) -> TaskRecord {
    let ours = || reports.iter().filter(|report| report.item == item);
    let at = |wanted: fn(Event) -> bool| {
        ours().find(|report| wanted(report.event)).map_or(Duration::ZERO, |report| pace.told(report.at))
    };
    let arrived = at(|event| matches!(event, Event::Puts { .. }));
    let (put, took, done) =
        (at(|event| event == Event::Put), at(|event| event == Event::Took), at(|event| event == Event::Done));
    let had_to_wait = ours().any(|report| report.event == Event::Puts { full: true });
    let after = ours().find(|report| report.event == Event::Put);
    TaskRecord {
        label: item.to_string(),
        arrived,
        // The consumer may take it before the producer can report the put.
        entered: if had_to_wait { put.min(took) } else { arrived },
        how: How::Queued,
        threads_after: after.map_or(0, |report| report.threads),
        queued_after: after.map_or(0, |report| report.queued),
        blocked: had_to_wait.then(|| put.saturating_sub(arrived)),
        runs: vec![RunRecord { thread: CONSUMER.to_owned(), begin: took, end: done, ended: Ended::Returned }],
        gone: None,
        error: None,
        series: false,
    }
}

fn steps(reports: &[Report], pace: Pace) -> Vec<StepRecord> {
    let mut completed = 0;
    let mut steps = Vec::new();
    for Report { at, item, event, queued, threads, active } in reports {
        let says = match event {
            Event::Puts { full: false } => continue,
            Event::Puts { full: true } => format!("producer wants to put {item}: full"),
            Event::Put => format!("producer has put {item}"),
            Event::Took => format!("consumer has taken {item}"),
            Event::Done => {
                completed += 1;
                if *item < ITEMS {
                    continue; // it takes the next item at once
                }
                format!("consumer is done with {item}")
            }
        };
        let (at, pool) = (pace.told(*at), String::new());
        steps.push(StepRecord {
            at,
            says,
            threads: *threads,
            active: *active,
            queued: *queued,
            completed,
            pool,
        });
    }
    steps
}
