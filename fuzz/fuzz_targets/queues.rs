//! Blocking queues beside a model: a vector with a capacity and an order.
//!
//! The first byte chooses the queue, each further pair of bytes one call. Only calls that do not
//! wait are made, so one thread is enough; loom explores the others.

#![no_main]

use std::time::Duration;

use millpond::queue::{
    ArrayBlockingQueue, BlockingQueue, LinkedBlockingQueue, PriorityBlockingQueue, SynchronousQueue,
};

/// A key and a serial number. The priority queue compares keys only.
type Item = (u8, usize);

struct Model {
    items: Vec<Item>,
    capacity: usize,
    is_sorted: bool,
}

impl Model {
    fn offer(&mut self, item: Item) -> bool {
        if self.items.len() >= self.capacity {
            return false;
        }
        let end = self.items.len();
        // Equal keys keep their order of arrival.
        let at = if self.is_sorted { self.items.partition_point(|(key, _)| *key <= item.0) } else { end };
        self.items.insert(at, item);
        true
    }

    fn poll(&mut self) -> Option<Item> {
        (!self.items.is_empty()).then(|| self.items.remove(0))
    }
}

enum Queue {
    Array(ArrayBlockingQueue<Item>),
    Linked(LinkedBlockingQueue<Item>),
    Priority(PriorityBlockingQueue<Item>),
    Synchronous(SynchronousQueue<Item>),
}

impl Queue {
    fn new(choice: u8) -> (Queue, Model) {
        let capacity = usize::from(choice >> 3) + 1;
        let by_key = |a: &Item, b: &Item| a.0.cmp(&b.0);
        let (queue, capacity) = match choice % 6 {
            0 => (Queue::Array(ArrayBlockingQueue::new(capacity).expect("not zero")), capacity),
            1 => (Queue::Array(ArrayBlockingQueue::fair(capacity).expect("not zero")), capacity),
            2 => (Queue::Linked(LinkedBlockingQueue::bounded(capacity).expect("not zero")), capacity),
            3 => (Queue::Linked(LinkedBlockingQueue::unbounded()), usize::MAX),
            4 => (Queue::Priority(PriorityBlockingQueue::by(by_key)), usize::MAX),
            _ => (Queue::Synchronous(SynchronousQueue::new()), 0),
        };
        let is_sorted = matches!(queue, Queue::Priority(_));
        (queue, Model { items: Vec::new(), capacity, is_sorted })
    }

    fn queue(&self) -> &dyn BlockingQueue<Item> {
        match self {
            Queue::Array(queue) => queue,
            Queue::Linked(queue) => queue,
            Queue::Priority(queue) => queue,
            Queue::Synchronous(queue) => queue,
        }
    }
}

fn step(queue: &Queue, model: &mut Model, call: u8, value: u8, serial: usize) {
    let (item, blocking) = ((value, serial), queue.queue());
    match call % 8 {
        0 | 1 => assert_eq!(blocking.offer(item).is_ok(), model.offer(item)),
        2 => assert_eq!(blocking.offer_timeout(item, Duration::ZERO).is_ok(), model.offer(item)),
        3 => assert_eq!(blocking.poll(), model.poll()),
        4 => assert_eq!(blocking.poll_timeout(Duration::ZERO), Ok(model.poll())),
        5 => {
            let mut drained = Vec::new();
            let count = blocking.drain_to(&mut drained, usize::from(value % 4));
            let expected: Vec<Item> = (0..value % 4).map_while(|_| model.poll()).collect();
            assert_eq!((count, &drained), (expected.len(), &expected));
        }
        6 => {
            let matches = |item: &Item| item.0 % 3 == value % 3;
            let expected: Vec<Item> = model.items.iter().copied().filter(matches).collect();
            model.items.retain(|item| !matches(item));
            assert_eq!(blocking.remove_if(&mut |item| matches(item)), expected);
        }
        _ => {
            if let Queue::Linked(linked) = queue {
                assert_eq!(linked.set_capacity(usize::from(value)).is_ok(), value > 0);
                model.capacity = if value > 0 { usize::from(value) } else { model.capacity };
            }
        }
    }
}

fn check(queue: &dyn BlockingQueue<Item>, model: &Model) {
    let mut items = Vec::new();
    queue.for_each(&mut |item| items.push(*item));
    assert_eq!((queue.len(), &items), (model.items.len(), &model.items));
    let room = match model.capacity {
        usize::MAX => usize::MAX,
        capacity => capacity.saturating_sub(model.items.len()),
    };
    assert_eq!(queue.remaining_capacity(), room);
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [choice, calls @ ..] = data else { return };
    let (queue, mut model) = Queue::new(*choice);
    for (serial, call) in calls.chunks_exact(2).enumerate() {
        step(&queue, &mut model, call[0], call[1], serial);
        check(queue.queue(), &model);
    }
});
