//! Random scenarios of kind queue.

use crate::rng::Rng;
use crate::scenario::{Insert, QueueConfig, QueueSpec, QueueStep};

/// The families: one for each kind of queue.
pub(super) const TAGS: [&str; 5] = ["array", "linked", "synchronous", "priority", "delay"];

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// A queue and the steps on it.
pub(super) fn program(rng: &mut Rng, tag: &str) -> (QueueConfig, Vec<QueueStep>) {
    let low = if rng.chance(5) { -1 } else { 1 };
    let capacity = if rng.chance(90) { rng.range(low, 6) } else { rng.range(7, 20) };
    let queue = match tag {
        "array" => QueueSpec::Array { capacity },
        "linked" => QueueSpec::Linked { capacity: rng.chance(65).then_some(capacity) },
        "synchronous" => QueueSpec::Synchronous,
        "priority" => QueueSpec::Priority,
        _ => QueueSpec::Delay,
    };
    let length = rng.range(6, 40);
    // One in three delay scenarios waits for items to become due; the others take no time.
    let near = queue == QueueSpec::Delay && rng.chance(33);
    let spread = if rng.chance(70) { 9 } else { 999 };
    let sleep_at = near.then(|| rng.range(3, 10));
    let author = Author { rng, queue, items: Vec::new(), used: Vec::new(), spread, near, steps: Vec::new() };
    (QueueConfig { queue }, author.write(length, sleep_at))
}

/// Writes one scenario, and tracks the contents of the queue.
struct Author<'a> {
    rng: &'a mut Rng,
    queue: QueueSpec,
    /// In order of arrival.
    items: Vec<Insert>,
    /// Every item of a delay scenario so far: neither values nor delays may repeat.
    used: Vec<Insert>,
    /// Values are drawn from -2 to this.
    spread: i64,
    /// Items that are due soon may still be inserted.
    near: bool,
    steps: Vec<QueueStep>,
}

impl Author<'_> {
    fn write(mut self, length: i64, sleep_at: Option<i64>) -> Vec<QueueStep> {
        for n in 0..length.max(sleep_at.map_or(0, |at| at + 4)) {
            if Some(n) == sleep_at {
                self.sleep();
            }
            let step = if self.rng.chance(45) { self.insertion() } else { self.other() };
            self.steps.extend(step);
        }
        self.steps
    }

    fn sleep(&mut self) {
        self.near = false;
        self.steps.push(QueueStep::Sleep { ms: 1200 });
        for item in &mut self.items {
            if (1..MINUTE).contains(&item.delay_ms) {
                // Due now, after all items that were due before.
                item.delay_ms -= MINUTE;
            }
        }
    }

    fn room(&self) -> bool {
        match self.queue {
            QueueSpec::Array { capacity } | QueueSpec::Linked { capacity: Some(capacity) } => {
                (self.items.len() as i64) < capacity
            }
            QueueSpec::Synchronous => false,
            _ => true,
        }
    }

    fn insertion(&mut self) -> Option<QueueStep> {
        let item = self.new_item()?;
        let room = self.room();
        let step = match self.rng.range(0, 6) {
            0 | 1 => QueueStep::Add(item.clone()),
            2 | 3 => QueueStep::Offer(item.clone()),
            4 => QueueStep::OfferTimeout { item: item.clone(), ms: self.rng.range(0, 2) },
            _ if room => QueueStep::Put(item.clone()),
            _ => QueueStep::Offer(item.clone()),
        };
        if room {
            self.items.push(item);
        }
        Some(step)
    }

    fn new_item(&mut self) -> Option<Insert> {
        let v = self.value();
        if self.queue != QueueSpec::Delay {
            return Some(Insert { v, delay_ms: 0 });
        }
        let delay_ms = match self.rng.range(0, 3) {
            0 if self.near => 100 * self.rng.range(1, 4),
            0 | 1 => HOUR * self.rng.range(1, 100),
            // Whole minutes, but earlier than items that become due during the sleep.
            _ => -MINUTE * self.rng.range(2, 200),
        };
        let item = Insert { v, delay_ms };
        if self.used.iter().any(|used| used.v == v || used.delay_ms == delay_ms) {
            return None;
        }
        self.used.push(item.clone());
        Some(item)
    }

    fn value(&mut self) -> i64 {
        let high = if self.queue == QueueSpec::Delay { 400 } else { self.spread };
        self.rng.range(-2, high)
    }

    /// A value to search for: often one that is present.
    fn wanted(&mut self) -> i64 {
        if self.items.is_empty() || self.rng.chance(35) {
            return self.value();
        }
        self.rng.pick(&self.items).v
    }

    fn other(&mut self) -> Option<QueueStep> {
        Some(match self.rng.range(0, 16) {
            0 | 1 => {
                self.deliver();
                QueueStep::Poll
            }
            2 => {
                self.deliver();
                QueueStep::PollTimeout { ms: self.rng.range(0, 2) }
            }
            3 | 4 => {
                self.deliver()?;
                QueueStep::Take
            }
            5 => {
                self.deliver();
                QueueStep::RemoveHead
            }
            6 => QueueStep::Peek,
            7 => QueueStep::Element,
            8 | 9 => {
                let v = self.wanted();
                if let Some(at) = self.items.iter().position(|item| item.v == v) {
                    self.items.remove(at);
                }
                QueueStep::RemoveItem { v }
            }
            10 => QueueStep::Contains { v: self.wanted() },
            11 => QueueStep::Size,
            12 => QueueStep::IsEmpty,
            13 => QueueStep::RemainingCapacity,
            14 => {
                let max = self.rng.chance(70).then(|| self.rng.range(-1, 4));
                let most = max.unwrap_or(i64::MAX);
                (0..most).take_while(|_| self.deliver().is_some()).count();
                QueueStep::DrainTo { max }
            }
            15 if self.rng.chance(30) => {
                self.items.clear();
                QueueStep::Clear
            }
            _ => QueueStep::ToVec,
        })
    }

    /// Removes the head, if the queue would deliver one.
    fn deliver(&mut self) -> Option<Insert> {
        let items = self.items.iter().enumerate();
        let (at, _) = match self.queue {
            QueueSpec::Priority => items.min_by_key(|(_, item)| item.v)?,
            QueueSpec::Delay => {
                items.filter(|(_, item)| item.delay_ms < 0).min_by_key(|(_, i)| i.delay_ms)?
            }
            _ => items.min_by_key(|(at, _)| *at)?,
        };
        Some(self.items.remove(at))
    }
}
