//! Many threads, with exact accounting: every item comes out exactly once or is returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::LONG;
use millpond::interrupt::{self, Interrupter};
use millpond::queue::{
    ArrayBlockingQueue, BlockingQueue, DelayQueue, Delayed, LinkedBlockingQueue, PriorityBlockingQueue,
    SynchronousQueue,
};

/// An item of a producer, due immediately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    producer: usize,
    number: usize,
}

impl Delayed for Item {
    fn due(&self) -> Instant {
        Instant::now()
    }
}

type Queue = Arc<dyn BlockingQueue<Item>>;

fn queues() -> Vec<(&'static str, Queue)> {
    vec![
        ("array of one", Arc::new(ArrayBlockingQueue::new(1).unwrap())),
        ("array", Arc::new(ArrayBlockingQueue::new(64).unwrap())),
        ("fair array", Arc::new(ArrayBlockingQueue::fair(3).unwrap())),
        ("bounded linked", Arc::new(LinkedBlockingQueue::bounded(5).unwrap())),
        ("linked", Arc::new(LinkedBlockingQueue::unbounded())),
        ("synchronous", Arc::new(SynchronousQueue::new())),
        ("fair synchronous", Arc::new(SynchronousQueue::fair())),
        ("priority", Arc::new(PriorityBlockingQueue::new())),
        ("delay", Arc::new(DelayQueue::new())),
    ]
}

fn keeps_order(name: &str) -> bool {
    name != "priority"
}

/// Reproducible pseudo-random numbers.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Tries the three ways to put in turn, until the item is in the queue.
fn insert(queue: &Queue, item: Item) {
    match item.number % 3 {
        0 => queue.put(item).unwrap(),
        1 => queue.offer_timeout(item, LONG).unwrap(),
        _ => queue.offer(item).or_else(|item| queue.put(item)).unwrap(),
    }
}

fn remove(queue: &Queue, n: usize) -> Item {
    match n % 3 {
        0 => queue.take().unwrap(),
        1 => queue.poll_timeout(LONG).unwrap().unwrap(),
        _ => queue.poll().map_or_else(|| queue.take(), Ok).unwrap(),
    }
}

/// Moves `each` items per producer through the queue. Checks that each arrives once, and that no
/// consumer sees two items of one producer in the wrong order.
fn transfer(name: &str, queue: &Queue, producers: usize, consumers: usize, each: usize) {
    let capacity = queue.remaining_capacity();
    let mut got = thread::scope(|s| {
        for producer in 0..producers {
            s.spawn(move || (0..each).for_each(|number| insert(queue, Item { producer, number })));
        }
        let share = producers * each / consumers;
        let consumers: Vec<_> = (0..consumers)
            .map(|_| s.spawn(move || (0..share).map(|n| remove(queue, n)).collect::<Vec<_>>()))
            .collect();
        let watcher = s.spawn(|| (0..200).for_each(|_| assert!(queue.to_vec().len() <= capacity)));
        watcher.join().unwrap();
        consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect::<Vec<_>>()
    });
    if keeps_order(name) {
        for seen in &got {
            for producer in 0..producers {
                let numbers: Vec<_> =
                    seen.iter().filter(|i| i.producer == producer).map(|i| i.number).collect();
                assert!(numbers.is_sorted(), "{name}: items of one producer in the wrong order");
            }
        }
    }
    let mut all: Vec<Item> = got.drain(..).flatten().collect();
    all.sort_unstable();
    let expected: Vec<Item> =
        (0..producers).flat_map(|producer| (0..each).map(move |number| Item { producer, number })).collect();
    assert!(all == expected, "{name}: every item exactly once");
    assert!(queue.is_empty());
}

/// BQ-027.
#[test]
fn bq_027_every_item_is_consumed_exactly_once() {
    for (name, queue) in queues() {
        for (producers, consumers) in [(1, 1), (3, 1), (1, 3), (4, 4)] {
            println!("{name} {producers}:{consumers}");
            transfer(name, &queue, producers, consumers, 6000);
        }
    }
}

/// BQ-008: a drain returns consecutive items, and the next drain continues after them.
#[test]
fn bq_008_drained_items_are_consecutive_under_concurrent_offers() {
    const COUNT: usize = 10_000;
    for (name, queue) in queues().into_iter().filter(|(name, _)| keeps_order(name)) {
        println!("{name}");
        let count = if queue.remaining_capacity() == 0 { COUNT / 10 } else { COUNT };
        thread::scope(|s| {
            s.spawn(|| {
                for number in 0..count {
                    let mut item = Item { producer: 0, number };
                    while let Err(back) = queue.offer_timeout(item, Duration::from_micros(50)) {
                        item = back.into_inner();
                    }
                }
            });
            let mut seen = Vec::new();
            for max in (1..=7).cycle() {
                let before = seen.len();
                queue.drain_to(&mut seen, max);
                assert!(seen.len() - before <= max);
                if seen.len() == count {
                    break;
                }
                if before == seen.len() {
                    thread::yield_now();
                }
            }
            assert!(seen.iter().enumerate().all(|(at, item)| item.number == at), "{name}: no gaps");
        });
    }
}

/// BQ-025: `Debug` shows the waiting threads.
#[test]
fn bq_025_expired_calls_leave_nothing_behind() {
    const TIMES: usize = 1000;
    let tiny = Duration::from_micros(20);
    let array = ArrayBlockingQueue::new(1).unwrap();
    array.add(0).unwrap();
    let (empty, synchronous) = (LinkedBlockingQueue::<i32>::unbounded(), SynchronousQueue::fair());
    let (priority, delay) = (PriorityBlockingQueue::<i32>::new(), DelayQueue::<Item>::new());
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for n in 0..TIMES {
                    assert!(array.offer_timeout(1, tiny).is_err());
                    assert_eq!(empty.poll_timeout(tiny), Ok(None));
                    assert!(synchronous.offer_timeout(n, tiny).is_err());
                    assert_eq!(priority.poll_timeout(tiny), Ok(None));
                    assert_eq!(delay.poll_timeout(tiny), Ok(None));
                }
            });
        }
    });
    let texts = [
        format!("{array:?}"),
        format!("{empty:?}"),
        format!("{synchronous:?}"),
        format!("{priority:?}"),
        format!("{delay:?}"),
    ];
    for text in texts {
        assert!(text.contains("waiting_takers: 0"), "{text}");
        assert!(!text.contains("waiting_putters") || text.contains("waiting_putters: 0"), "{text}");
    }
}

/// Timeouts and interrupts race hand-overs: an accepted item comes out exactly once.
///
/// BQ-026: consumers and producers with very short timeouts are interrupted now and then.
#[test]
fn bq_026_no_item_is_lost_or_doubled_when_calls_expire_and_are_interrupted() {
    const EACH: usize = 3000;
    const PRODUCERS: usize = 2;
    for (name, queue) in queues() {
        println!("{name}");
        let (accepted, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        let (accepted_sum, taken_sum) = (AtomicU64::new(0), AtomicU64::new(0));
        let producing = AtomicUsize::new(PRODUCERS);
        let (send, receive) = std::sync::mpsc::channel::<Interrupter>();
        thread::scope(|s| {
            let (queue, accepted, accepted_sum, producing) = (&queue, &accepted, &accepted_sum, &producing);
            for producer in 0..PRODUCERS {
                let send = send.clone();
                s.spawn(move || {
                    send.send(interrupt::current()).unwrap();
                    let mut seed = producer as u64;
                    for number in 0..EACH {
                        let patience = Duration::from_micros(next(&mut seed) % 60);
                        if queue.offer_timeout(Item { producer, number }, patience).is_ok() {
                            accepted.fetch_add(1, Ordering::Relaxed);
                            accepted_sum.fetch_add(number as u64, Ordering::Relaxed);
                        }
                    }
                    producing.fetch_sub(1, Ordering::Release);
                });
            }
            for consumer in 0..2 {
                let (send, taken, taken_sum) = (send.clone(), &taken, &taken_sum);
                s.spawn(move || {
                    send.send(interrupt::current()).unwrap();
                    let mut seed = 77 + consumer;
                    loop {
                        let done = producing.load(Ordering::Acquire) == 0;
                        let patience = Duration::from_micros(next(&mut seed) % 60);
                        match queue.poll_timeout(patience) {
                            Ok(Some(item)) => {
                                taken.fetch_add(1, Ordering::Relaxed);
                                taken_sum.fetch_add(item.number as u64, Ordering::Relaxed);
                            }
                            Ok(None) if done => break,
                            _ => {}
                        }
                    }
                });
            }
            drop(send);
            let targets: Vec<_> = receive.iter().collect();
            assert_eq!(targets.len(), PRODUCERS + 2);
            let mut seed = 5;
            while producing.load(Ordering::Acquire) > 0 {
                targets[next(&mut seed) as usize % targets.len()].interrupt();
                thread::sleep(Duration::from_micros(next(&mut seed) % 100));
            }
        });
        let rest = queue.remove_if(&mut |_| true);
        let left_sum: u64 = rest.iter().map(|item| item.number as u64).sum();
        assert_eq!(taken.into_inner() + rest.len() as u64, accepted.into_inner(), "{name}");
        assert_eq!(taken_sum.into_inner() + left_sum, accepted_sum.into_inner(), "{name}");
    }
}

/// The capacity changes while items flow: no item is lost, and every waiting thread is woken.
#[test]
fn changing_the_capacity_under_load_loses_nobody() {
    const COUNT: usize = 4000;
    let queue = LinkedBlockingQueue::bounded(1).unwrap();
    let flowing = AtomicBool::new(true);
    thread::scope(|s| {
        let (queue, flowing) = (&queue, &flowing);
        let producers = [0, 1].map(|_| s.spawn(move || (0..COUNT).for_each(|n| queue.put(n).unwrap())));
        let consumer = s.spawn(move || (0..2 * COUNT).map(|_| queue.take().unwrap()).sum::<usize>());
        let changer = s.spawn(move || {
            let mut seed = 3;
            while flowing.load(Ordering::Relaxed) {
                queue.set_capacity(1 + next(&mut seed) as usize % 8).unwrap();
            }
        });
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        assert_eq!(consumer.join().unwrap(), COUNT * (COUNT - 1));
        flowing.store(false, Ordering::Relaxed);
        changer.join().unwrap();
    });
    assert!(queue.is_empty());
}

/// `remove` races `take`: each item goes to exactly one of them.
#[test]
fn an_item_is_either_removed_or_taken() {
    const COUNT: usize = 2000;
    let queue = LinkedBlockingQueue::bounded(8).unwrap();
    let (removed, taken) = thread::scope(|s| {
        let queue = &queue;
        let producer = s.spawn(move || (0..COUNT).for_each(|n| queue.put(n).unwrap()));
        let remover = s.spawn(move || (0..COUNT).filter(|n| queue.remove(n)).collect::<Vec<_>>());
        let taker = s.spawn(move || {
            let mut taken = Vec::new();
            while let Some(item) = queue.poll_timeout(LONG).unwrap() {
                if item == usize::MAX {
                    break;
                }
                taken.push(item);
            }
            taken
        });
        producer.join().unwrap();
        let removed = remover.join().unwrap();
        queue.put(usize::MAX).unwrap();
        (removed, taker.join().unwrap())
    });
    let mut all = [removed, taken].concat();
    all.sort_unstable();
    assert_eq!(all, (0..COUNT).collect::<Vec<_>>());
}
