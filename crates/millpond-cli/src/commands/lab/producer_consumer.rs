//! The workload `producer-consumer`: two tasks and a queue between them, the library's own `ArrayBlockingQueue`.
//!
//! Here the queue does not belong to a pool, so this is a program and not a workload file. The items are on record as
//! tasks are: handed in by the producer, run by the consumer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millpond::queue::{ArrayBlockingQueue, BlockingQueue};
use millpond::{executors, interrupt};

use super::play::Pace;
use super::record::{Ended, Ending, How, Record, RunRecord, StepRecord, TaskRecord, ThreadRecord};
use crate::error::Error;

pub(super) const ABOUT: &str = "A queue of 3 between a producer and a consumer: the fourth item has to wait";

const PLACES: usize = 3;
const ITEMS: usize = 4;
/// How long the consumer takes for an item.
const WORK: Duration = Duration::from_secs(1);
/// How long the consumer lets the producer wait before it begins.
const LATE: Duration = Duration::from_secs(1);

const PRODUCER: &str = "producer";
const CONSUMER: &str = "consumer";

/// What the two report, in real time.
enum Event {
    /// About to be put; the queue is full.
    Puts {
        full: bool,
    },
    Put {
        queued: usize,
    },
    Took {
        queued: usize,
    },
    Done,
}

#[derive(Clone)]
struct Reporter {
    origin: Instant,
    events: Arc<Mutex<mpsc::Sender<(Duration, usize, Event)>>>,
}

impl Reporter {
    fn tell(&self, item: usize, event: Event) {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = events.send((self.origin.elapsed(), item, event)); // the listener outlives both
    }
}

/// Plays it.
pub(super) fn play(pace: Pace) -> Result<Record, Error> {
    let queue = Arc::new(ArrayBlockingQueue::new(PLACES)?);
    let (send, events) = mpsc::channel();
    let reporter = Reporter { origin: Instant::now(), events: Arc::new(Mutex::new(send)) };
    let pool = executors::fixed(2)?;
    let blocked = Arc::new(AtomicBool::new(false));

    let producer = {
        let (queue, reporter, blocked) = (Arc::clone(&queue), reporter.clone(), Arc::clone(&blocked));
        move || produce(&queue, &reporter, &blocked)
    };
    let consumer = {
        let (queue, reporter) = (Arc::clone(&queue), reporter.clone());
        move || consume(&queue, &reporter, &blocked, pace)
    };
    let failed =
        |error: &dyn std::fmt::Display| Error::new(format_args!("producer-consumer did not run: {error}"));
    let producer = pool.submit(producer).map_err(|error| failed(&error))?;
    let consumer = pool.submit(consumer).map_err(|error| failed(&error))?;
    producer.join().map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    consumer.join().map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    let end = reporter.origin.elapsed();
    pool.close();
    drop(reporter);
    Ok(record(events.into_iter().collect(), end, pace))
}

fn produce(
    queue: &ArrayBlockingQueue<usize>,
    reporter: &Reporter,
    blocked: &AtomicBool,
) -> Result<(), interrupt::Interrupted> {
    for item in 1..=ITEMS {
        let full = queue.remaining_capacity() == 0;
        reporter.tell(item, Event::Puts { full });
        if full {
            blocked.store(true, Ordering::Release);
        }
        queue.put(item).map_err(|_| interrupt::Interrupted)?;
        reporter.tell(item, Event::Put { queued: queue.len() });
    }
    Ok(())
}

/// Begins when the producer can go no further, so that everybody sees that it cannot.
fn consume(
    queue: &ArrayBlockingQueue<usize>,
    reporter: &Reporter,
    blocked: &AtomicBool,
    pace: Pace,
) -> Result<(), interrupt::Interrupted> {
    while !blocked.load(Ordering::Acquire) {
        interrupt::sleep(Duration::from_micros(200))?;
    }
    interrupt::sleep(pace.real(LATE))?;
    for _ in 0..ITEMS {
        let item = queue.take()?;
        reporter.tell(item, Event::Took { queued: queue.len() });
        interrupt::sleep(pace.real(WORK))?;
        reporter.tell(item, Event::Done);
    }
    Ok(())
}

fn record(events: Vec<(Duration, usize, Event)>, end: Duration, pace: Pace) -> Record {
    let told = |real| pace.told(real);
    let mut tasks: Vec<TaskRecord> = (1..=ITEMS).map(empty_task).collect();
    let mut steps = Vec::new();
    let mut step = |at, says: String, queued| {
        let (threads, active, completed) = (2, 2, 0);
        steps.push(StepRecord { at, says, threads, active, queued, completed, pool: String::new() });
    };
    let mut events = events;
    events.sort_by_key(|(at, ..)| *at);
    for (at, item, event) in events {
        let at = told(at);
        let task = &mut tasks[item - 1];
        match event {
            Event::Puts { full } => {
                (task.arrived, task.entered) = (at, at);
                task.blocked = full.then_some(Duration::ZERO);
                if full {
                    step(at, format!("producer wants to put {item}: full"), PLACES);
                }
            }
            Event::Put { queued } => {
                if let Some(blocked) = &mut task.blocked {
                    *blocked = at.saturating_sub(task.arrived);
                    task.entered = at;
                }
                task.queued_after = queued;
                step(at, format!("producer has put {item}"), queued);
            }
            Event::Took { queued } => {
                let run =
                    RunRecord { thread: CONSUMER.to_owned(), begin: at, end: at, ended: Ended::Returned };
                task.runs.push(run);
                step(at, format!("consumer has taken {item}"), queued);
            }
            Event::Done => {
                if let Some(run) = task.runs.last_mut() {
                    run.end = at;
                }
            }
        }
    }
    for task in &mut tasks {
        // The consumer may have it before the producer can say so.
        task.entered = task.runs.first().map_or(task.entered, |run| task.entered.min(run.begin));
    }
    let thread = |name: &str| ThreadRecord { name: name.to_owned(), started: Duration::ZERO, stopped: None };
    Record {
        title: "Four items".to_owned(),
        says: Some(
            "The producer puts three items at once; with the fourth it has to wait until the consumer, who comes a \
             second late, has taken the first."
                .to_owned(),
        ),
        group: None,
        pool: format!("array queue of {PLACES}, two tasks on a pool of 2 threads"),
        queue_capacity: Some(PLACES),
        speed: pace.0,
        caller: PRODUCER,
        tasks,
        threads: vec![thread(CONSUMER)],
        steps,
        notes: Vec::new(),
        ending: Ending {
            outcome: millpond::ShutdownOutcome::Drained,
            elapsed: Duration::ZERO,
            never_run: Vec::new(),
            asked_for: false,
        },
        threads_at_end: 2,
        peak_threads: 2,
        end: told(end),
        unmet: Vec::new(),
        expected: 0,
    }
}

fn empty_task(item: usize) -> TaskRecord {
    TaskRecord {
        label: item.to_string(),
        arrived: Duration::ZERO,
        entered: Duration::ZERO,
        how: How::Queued,
        threads_after: 2,
        queued_after: 0,
        blocked: None,
        runs: Vec::new(),
        gone: None,
        error: None,
        series: false,
    }
}
