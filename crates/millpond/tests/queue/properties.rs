//! Random operations on one thread: every queue behaves like a model list.

use std::time::{Duration, Instant};

use millpond::queue::{
    ArrayBlockingQueue, BlockingQueue, DelayQueue, Delayed, LinkedBlockingQueue, OfferError,
    PriorityBlockingQueue, PutError, QueueEmpty, QueueFull, SynchronousQueue,
};
use proptest::prelude::*;

/// A value, and a number that distinguishes equal values.
#[derive(Debug, Clone, Copy)]
struct Item {
    value: u8,
    number: usize,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// Even values have long been due, odd ones will be due in a day. Ordered by value.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Timed(Item, Instant);

impl Delayed for Timed {
    fn due(&self) -> Instant {
        let day = Duration::from_secs(86_400);
        let value = Duration::from_millis(self.0.value.into());
        if self.0.value.is_multiple_of(2) {
            self.1 - Duration::from_secs(10) + value
        } else {
            self.1 + day + value
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Offer(u8),
    Add(u8),
    Put(u8),
    OfferNoWait(u8),
    Poll,
    PollNoWait,
    TakeIfAny,
    RemoveHead,
    Peek,
    Remove(u8),
    Contains(u8),
    RemoveIf(u8),
    Retain(u8),
    Drain(usize),
    Clear,
    SetCapacity(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let value = || 0u8..8;
    let op = prop_oneof![
        4 => value().prop_map(Op::Offer),
        2 => value().prop_map(Op::Add),
        2 => value().prop_map(Op::Put),
        2 => value().prop_map(Op::OfferNoWait),
        3 => Just(Op::Poll),
        1 => Just(Op::PollNoWait),
        1 => Just(Op::TakeIfAny),
        1 => Just(Op::RemoveHead),
        1 => Just(Op::Peek),
        1 => value().prop_map(Op::Remove),
        1 => value().prop_map(Op::Contains),
        1 => (2u8..5).prop_map(Op::RemoveIf),
        1 => (2u8..5).prop_map(Op::Retain),
        1 => (0usize..5).prop_map(Op::Drain),
        1 => Just(Op::Clear),
        1 => (1usize..8).prop_map(Op::SetCapacity),
    ];
    prop::collection::vec(op, 0..120)
}

/// The model: a list of items in queue order.
struct Model<T> {
    items: Vec<T>,
    capacity: usize,
    /// Whether the first item precedes the second although it came later.
    overtakes: fn(&T, &T) -> bool,
    /// Whether an item at the head can be taken.
    ready: fn(&T) -> bool,
}

impl<T: Copy + PartialEq> Model<T> {
    fn offer(&mut self, item: T) -> bool {
        let room = self.items.len() < self.capacity;
        if room {
            let behind = self.items.iter().rposition(|other| !(self.overtakes)(&item, other));
            self.items.insert(behind.map_or(0, |at| at + 1), item);
        }
        room
    }

    fn poll(&mut self) -> Option<T> {
        let ready = self.items.first().is_some_and(self.ready);
        ready.then(|| self.items.remove(0))
    }

    fn drain(&mut self, max: usize) -> Vec<T> {
        std::iter::from_fn(|| self.poll()).take(max).collect()
    }

    fn remove_if(&mut self, matches: impl Fn(&T) -> bool) -> Vec<T> {
        let (gone, kept) = self.items.iter().partition::<Vec<T>, _>(|item| matches(item));
        self.items = kept;
        gone
    }
}

/// Applies `ops` to both, and compares every answer and the visible state after every step.
fn compare<T: Copy + PartialEq + Send>(
    ops: Vec<Op>,
    queue: &dyn BlockingQueue<T>,
    mut model: Model<T>,
    wrap: impl Fn(Item) -> T,
    unwrap: impl Fn(&T) -> Item,
    set_capacity: Option<&dyn Fn(usize)>,
) -> Result<(), TestCaseError> {
    let numbers = |items: &[T]| items.iter().map(|item| unwrap(item).number).collect::<Vec<_>>();
    let number = |item: Option<T>| item.map(|item| unwrap(&item).number);
    for (step, op) in ops.into_iter().enumerate() {
        let make = |value| wrap(Item { value, number: step });
        let zero = Duration::ZERO;
        match op {
            Op::Offer(value) => prop_assert_eq!(queue.offer(make(value)).is_ok(), model.offer(make(value))),
            Op::Add(value) => {
                let full =
                    matches!(queue.add(make(value)), Err(QueueFull(item)) if unwrap(&item).number == step);
                prop_assert_eq!(!full, model.offer(make(value)));
            }
            Op::Put(value) if model.items.len() < model.capacity => {
                prop_assert!(!matches!(queue.put(make(value)), Err(PutError::Interrupted(_))));
                model.offer(make(value));
            }
            Op::Put(value) | Op::OfferNoWait(value) => {
                let late = matches!(queue.offer_timeout(make(value), zero), Err(OfferError::TimedOut(_)));
                prop_assert_eq!(!late, model.offer(make(value)));
            }
            Op::Poll => prop_assert_eq!(number(queue.poll()), number(model.poll())),
            Op::PollNoWait => {
                prop_assert_eq!(number(queue.poll_timeout(zero).unwrap()), number(model.poll()))
            }
            Op::TakeIfAny => {
                if let Some(item) = model.poll() {
                    prop_assert_eq!(number(queue.take().ok()), number(Some(item)));
                }
            }
            Op::RemoveHead => match (queue.remove_head(), model.poll()) {
                (Err(QueueEmpty), None) => {}
                (item, expected) => prop_assert_eq!(number(item.ok()), number(expected)),
            },
            Op::Peek => {
                prop_assert_eq!(number(queue.peek()), number(model.items.first().copied()));
                prop_assert_eq!(number(queue.element().ok()), number(model.items.first().copied()));
            }
            Op::Remove(value) => {
                let at = model.items.iter().position(|item| *item == make(value));
                prop_assert_eq!(queue.remove(&make(value)), at.is_some());
                at.map(|at| model.items.remove(at));
            }
            Op::Contains(value) => {
                prop_assert_eq!(queue.contains(&make(value)), model.items.contains(&make(value)));
            }
            Op::RemoveIf(n) => {
                let matches = |item: &T| unwrap(item).value.is_multiple_of(n);
                prop_assert_eq!(
                    numbers(&queue.remove_if(&mut |item| matches(item))),
                    numbers(&model.remove_if(matches))
                );
            }
            Op::Retain(n) => {
                queue.retain(&mut |item| !unwrap(item).number.is_multiple_of(usize::from(n)));
                model.remove_if(|item| unwrap(item).number.is_multiple_of(usize::from(n)));
            }
            Op::Drain(max) => {
                let mut into = Vec::new();
                prop_assert_eq!(queue.drain_to(&mut into, max), into.len());
                prop_assert_eq!(numbers(&into), numbers(&model.drain(max)));
            }
            Op::Clear => {
                queue.clear();
                model.items.clear();
            }
            Op::SetCapacity(capacity) => {
                if let Some(set_capacity) = set_capacity {
                    set_capacity(capacity);
                    model.capacity = capacity;
                }
            }
        }
        prop_assert_eq!(numbers(&queue.to_vec()), numbers(&model.items));
        prop_assert_eq!((queue.len(), queue.is_empty()), (model.items.len(), model.items.is_empty()));
        let room = if model.capacity == usize::MAX {
            usize::MAX
        } else {
            model.capacity.saturating_sub(model.items.len())
        };
        prop_assert_eq!(queue.remaining_capacity(), room);
    }
    Ok(())
}

fn in_order(capacity: usize) -> Model<Item> {
    Model { items: Vec::new(), capacity, overtakes: |_, _| false, ready: |_| true }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(120) })]

    /// ABQ-003, ABQ-008, ABQ-010.
    #[test]
    fn the_array_queue_is_a_bounded_list(ops in ops(), capacity in 1usize..6, fair: bool) {
        let queue = if fair { ArrayBlockingQueue::fair(capacity) } else { ArrayBlockingQueue::new(capacity) };
        compare(ops, &queue.unwrap(), in_order(capacity), |item| item, |item| *item, None)?;
    }

    #[test]
    fn the_linked_queue_is_a_list_with_a_bound_that_changes(ops in ops(), capacity in prop_oneof![1usize..6, Just(usize::MAX)]) {
        let queue = LinkedBlockingQueue::bounded(capacity).unwrap();
        let set_capacity = |capacity| queue.set_capacity(capacity).unwrap();
        compare(ops, &queue, in_order(capacity), |item| item, |item| *item, Some(&set_capacity))?;
    }

    #[test]
    fn the_synchronous_queue_is_a_list_without_room(ops in ops(), fair: bool) {
        let queue = if fair { SynchronousQueue::fair() } else { SynchronousQueue::new() };
        compare(ops, &queue, in_order(0), |item| item, |item| *item, None)?;
    }

    /// PBQ-002, PBQ-004, PBQ-006.
    #[test]
    fn the_priority_queue_is_a_sorted_list_in_which_equals_keep_their_order(ops in ops()) {
        let queue = PriorityBlockingQueue::by(|a: &Item, b: &Item| a.value.cmp(&b.value));
        let model = Model {
            items: Vec::new(), capacity: usize::MAX, overtakes: |a: &Item, b: &Item| a.value < b.value, ready: |_| true,
        };
        compare(ops, &queue, model, |item| item, |item| *item, None)?;
    }

    /// DLQ-002, DLQ-006, DLQ-007.
    #[test]
    fn the_delay_queue_is_a_list_sorted_by_time_that_gives_only_what_is_due(ops in ops()) {
        let start = Instant::now();
        let model = Model {
            items: Vec::new(),
            capacity: usize::MAX,
            overtakes: |a: &Timed, b: &Timed| a.due() < b.due(),
            ready: |item| item.0.value % 2 == 0,
        };
        compare(ops, &DelayQueue::new(), model, |item| Timed(item, start), |timed| timed.0, None)?;
    }
}
