//! Plays a scenario of kind queue: one thread, one result per step.

use std::thread;
use std::time::{Duration, Instant};

use millpond::ConfigError;
use millpond::queue::{
    ArrayBlockingQueue, BlockingQueue, DelayQueue, Delayed, LinkedBlockingQueue, PriorityBlockingQueue,
    SynchronousQueue,
};
use serde_json::{Value, json};

use crate::PlayError;
use crate::scenario::{Insert, QueueConfig, QueueSpec, QueueStep};
use crate::trace::{Construct, QueueTrace};

/// Items that are due soon must not be due before the scenario's sleep.
const NEAR_LIMIT: Duration = Duration::from_millis(75);

/// Plays `steps` on a queue built from `config`.
///
/// # Errors
/// If the scenario cannot be played, or the run was too slow.
pub fn play(id: &Value, config: &QueueConfig, steps: &[QueueStep]) -> Result<QueueTrace, PlayError> {
    let results = match config.queue {
        QueueSpec::Array { capacity } => {
            sized(capacity, ArrayBlockingQueue::<i64>::new).map(|queue| play_on(&queue, steps, false))
        }
        QueueSpec::Linked { capacity: Some(capacity) } => {
            sized(capacity, LinkedBlockingQueue::<i64>::bounded).map(|queue| play_on(&queue, steps, false))
        }
        QueueSpec::Linked { capacity: None } => {
            Some(play_on(&LinkedBlockingQueue::<i64>::unbounded(), steps, false))
        }
        QueueSpec::Synchronous => Some(play_on(&SynchronousQueue::<i64>::new(), steps, false)),
        QueueSpec::Priority => Some(play_on(&PriorityBlockingQueue::<i64>::new(), steps, true)),
        QueueSpec::Delay => Some(play_on(&DelayQueue::<Timed>::new(), steps, true)),
    };
    let trace = |construct, results| QueueTrace { id: id.clone(), kind: "queue", construct, results };
    match results {
        Some(results) => Ok(trace(Construct::Ok, results?)),
        None => Ok(trace(Construct::IllegalArgument, Vec::new())),
    }
}

/// A bounded queue. `None` if the capacity is rejected.
fn sized<Q>(capacity: i64, make: fn(usize) -> Result<Q, ConfigError>) -> Option<Q> {
    make(usize::try_from(capacity).ok()?).ok()
}

/// If the internal order of the queue is unspecified (`sorted`), the result of `to_vec` is sorted.
fn play_on<T: Item>(
    queue: &impl BlockingQueue<T>,
    steps: &[QueueStep],
    sorted: bool,
) -> Result<Vec<Value>, PlayError> {
    Player { queue, sorted, begun: Instant::now(), near: false }.play_all(steps)
}

/// An item of a queue in a scenario.
trait Item: Clone + PartialEq + Send {
    /// True for items with a due time.
    const TIMED: bool;
    fn new(v: i64, delay_ms: i64) -> Self;
    fn value(&self) -> i64;
    /// Due so late that a wait for it never ends.
    fn is_far(&self) -> bool {
        false
    }
}

impl Item for i64 {
    const TIMED: bool = false;
    fn new(v: i64, _: i64) -> i64 {
        v
    }
    fn value(&self) -> i64 {
        *self
    }
}

/// An item of a delay queue. Items with equal values are equal.
#[derive(Debug, Clone)]
struct Timed {
    v: i64,
    due: Instant,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Timed) -> bool {
        self.v == other.v
    }
}

impl Delayed for Timed {
    fn due(&self) -> Instant {
        self.due
    }
}

impl Item for Timed {
    const TIMED: bool = true;
    fn new(v: i64, delay_ms: i64) -> Timed {
        let (now, delay) = (Instant::now(), Duration::from_millis(delay_ms.unsigned_abs()));
        let due = if delay_ms < 0 { now.checked_sub(delay) } else { now.checked_add(delay) };
        Timed { v, due: due.unwrap_or(now) }
    }
    fn value(&self) -> i64 {
        self.v
    }
    fn is_far(&self) -> bool {
        self.due > Instant::now() + Duration::from_secs(5)
    }
}

struct Player<'a, T: Item> {
    queue: &'a dyn BlockingQueue<T>,
    sorted: bool,
    begun: Instant,
    /// Whether an item that is due soon was inserted, and the sleep has not come yet.
    near: bool,
}

impl<T: Item> Player<'_, T> {
    fn play_all(mut self, steps: &[QueueStep]) -> Result<Vec<Value>, PlayError> {
        let results = steps.iter().map(|step| self.play(step)).collect::<Result<Vec<_>, _>>()?;
        if self.near {
            return Err(PlayError::failed("items that are due soon need a sleep after them"));
        }
        Ok(results)
    }

    fn play(&mut self, step: &QueueStep) -> Result<Value, PlayError> {
        let queue = self.queue;
        Ok(match step {
            QueueStep::Add(item) => queue.add(self.item(item)).map_or(json!("full"), |()| json!(true)),
            QueueStep::Offer(item) => json!(queue.offer(self.item(item)).is_ok()),
            QueueStep::OfferTimeout { item, ms } => {
                json!(queue.offer_timeout(self.item(item), millis(*ms)).is_ok())
            }
            QueueStep::Put(item) => self.put(item)?,
            QueueStep::Poll => said(queue.poll()),
            QueueStep::PollTimeout { ms } => {
                said(queue.poll_timeout(millis(*ms)).map_err(|why| PlayError::failed(why.to_string()))?)
            }
            QueueStep::Take => self.take()?,
            QueueStep::Peek => said(queue.peek()),
            QueueStep::Element => queue.element().map_or(json!("empty"), |item| json!(item.value())),
            QueueStep::RemoveHead => queue.remove_head().map_or(json!("empty"), |item| json!(item.value())),
            QueueStep::RemoveItem { v } => json!(queue.remove(&T::new(*v, 0))),
            QueueStep::Contains { v } => json!(queue.contains(&T::new(*v, 0))),
            QueueStep::Size => json!(queue.len()),
            QueueStep::IsEmpty => json!(queue.is_empty()),
            QueueStep::RemainingCapacity => match queue.remaining_capacity() {
                usize::MAX => json!("unbounded"),
                room => json!(room),
            },
            QueueStep::DrainTo { max } => self.drain_to(*max)?,
            QueueStep::Clear => {
                queue.clear();
                json!("ok")
            }
            QueueStep::ToVec => self.to_vec(),
            QueueStep::Sleep { ms } => self.sleep(*ms)?,
        })
    }

    fn item(&mut self, item: &Insert) -> T {
        self.near |= T::TIMED && (1..60_000).contains(&item.delay_ms);
        T::new(item.v, item.delay_ms)
    }

    fn put(&mut self, item: &Insert) -> Result<Value, PlayError> {
        if self.queue.remaining_capacity() == 0 {
            return Err(PlayError::failed("put would block for ever"));
        }
        match self.queue.put(self.item(item)) {
            Ok(()) => Ok(json!("ok")),
            Err(_) => Err(PlayError::failed("put was interrupted")),
        }
    }

    fn take(&self) -> Result<Value, PlayError> {
        if self.queue.peek().is_none_or(|head| head.is_far()) {
            return Err(PlayError::failed("take would block for ever"));
        }
        self.queue.take().map(|item| json!(item.value())).map_err(|why| PlayError::failed(why.to_string()))
    }

    fn drain_to(&self, max: Option<i64>) -> Result<Value, PlayError> {
        let max = max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(0));
        let mut items = Vec::new();
        let count = self.queue.drain_to(&mut items, max);
        if count != items.len() {
            return Err(PlayError::Failed(format!("drain_to said {count} but gave {}", items.len())));
        }
        Ok(items.iter().map(Item::value).collect())
    }

    fn to_vec(&self) -> Value {
        let mut items: Vec<i64> = self.queue.to_vec().iter().map(Item::value).collect();
        if self.sorted {
            items.sort_unstable();
        }
        json!(items)
    }

    fn sleep(&mut self, ms: i64) -> Result<Value, PlayError> {
        if self.near && self.begun.elapsed() > NEAR_LIMIT {
            return Err(PlayError::TooSlow("more than 75 ms passed before the sleep"));
        }
        self.near = false;
        thread::sleep(millis(ms));
        Ok(json!("ok"))
    }
}

fn said<T: Item>(item: Option<T>) -> Value {
    item.map_or(Value::Null, |item| json!(item.value()))
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
