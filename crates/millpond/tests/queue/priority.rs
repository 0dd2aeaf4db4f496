//! The priority queue: guarantees beyond the contract of all queues.

use std::cmp::{Ordering, Reverse};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::support::block;
use millpond::queue::{BlockingQueue, PriorityBlockingQueue};

fn drained<T: Send>(queue: &PriorityBlockingQueue<T>) -> Vec<T> {
    let mut into = Vec::new();
    queue.drain_to(&mut into, usize::MAX);
    into
}

#[test]
fn pbq_001_it_has_no_bound_and_putting_never_waits() {
    let queue = PriorityBlockingQueue::default();
    for n in 0..100 {
        assert_eq!(queue.remaining_capacity(), usize::MAX);
        queue.put(n).unwrap();
        queue.offer_timeout(n, Duration::ZERO).unwrap();
    }
    assert_eq!((queue.len(), queue.remaining_capacity()), (200, usize::MAX));
}

#[test]
fn pbq_002_items_come_out_least_first_or_as_the_comparison_says() {
    let shuffled = [5, 3, 9, 1, 7, 0, 8, 2, 6, 4];
    let queue: PriorityBlockingQueue<_> = shuffled.into_iter().collect();
    assert_eq!((queue.take(), queue.poll(), queue.remove_head()), (Ok(0), Some(1), Ok(2)));
    assert_eq!(drained(&queue), [3, 4, 5, 6, 7, 8, 9]);

    let mut queue = PriorityBlockingQueue::by(|a: &i32, b: &i32| b.cmp(a));
    queue.extend(shuffled);
    assert_eq!(drained(&queue), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    let queue: PriorityBlockingQueue<_> = shuffled.into_iter().map(Reverse).collect();
    assert_eq!(queue.poll(), Some(Reverse(9)));
}

#[test]
fn pbq_004_equal_items_come_out_in_order_of_arrival() {
    let queue = PriorityBlockingQueue::by(|a: &(i32, i32), b: &(i32, i32)| a.0.cmp(&b.0));
    let mut expected: Vec<(i32, i32)> = (0..200).map(|n| (n * 7 % 5, n)).collect();
    expected.iter().for_each(|item| queue.add(*item).unwrap());
    expected.sort_by_key(|item| item.0); // stable
    assert_eq!(queue.to_vec(), expected);
    queue.retain(&mut |item| item.1 % 3 != 0);
    expected.retain(|item| item.1 % 3 != 0);
    assert_eq!(drained(&queue), expected);
}

#[test]
fn pbq_006_removing_any_inner_item_keeps_the_order() {
    const LEN: u32 = 12;
    for victim in 0..LEN {
        let queue: PriorityBlockingQueue<_> = (0..LEN).map(|n| n * 5 % LEN).collect();
        assert!(queue.remove(&victim));
        assert_eq!(drained(&queue), (0..LEN).filter(|n| *n != victim).collect::<Vec<_>>());
    }
}

/// PBQ-007 requires all items in any order. Here they are in queue order.
#[test]
fn pbq_007_looking_at_the_queue_shows_all_items_in_order() {
    let queue: PriorityBlockingQueue<_> = [4, 2, 5, 1, 3].into_iter().collect();
    assert_eq!((queue.to_vec(), queue.peek()), (vec![1, 2, 3, 4, 5], Some(1)));
    let mut seen = Vec::new();
    queue.for_each(&mut |item| seen.push(*item));
    assert_eq!((seen, queue.len()), (vec![1, 2, 3, 4, 5], 5));
}

#[test]
fn pbq_008_removed_items_are_not_kept() {
    let token = Arc::new(());
    let queue = PriorityBlockingQueue::by(|a: &(u32, Arc<()>), b: &(u32, Arc<()>)| a.0.cmp(&b.0));
    (0..3000).for_each(|n| queue.add((n * 7 % 3000, Arc::clone(&token))).unwrap());
    (0..1000).for_each(|_| drop(queue.poll()));
    assert_eq!(Arc::strong_count(&token), 2001);
    queue.retain(&mut |item| item.0 % 2 == 0);
    assert_eq!(Arc::strong_count(&token), 1001);
    queue.clear();
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn waiting_takers_are_served_in_order_of_arrival() {
    let queue = PriorityBlockingQueue::new();
    thread::scope(|s| {
        let takers = [(); 3].map(|()| block(s, || queue.take().unwrap()));
        [3, 1, 2].into_iter().for_each(|n| queue.put(n).unwrap());
        assert_eq!(takers.map(|taker| taker.join()), [3, 1, 2]);
    });
}

/// An item that counts its comparisons down and panics in the last one.
#[derive(Clone)]
struct Touchy(u32, Arc<AtomicUsize>);

fn touchy(a: &Touchy, b: &Touchy) -> Ordering {
    let left = a.1.load(Relaxed);
    a.1.store(left.saturating_sub(1), Relaxed);
    assert_ne!(left, 1, "no comparison");
    a.0.cmp(&b.0)
}

/// Every operation, with a panic in each of its comparisons. The queue must be unaffected.
#[test]
fn a_panicking_comparison_leaves_all_items_in_order() {
    const LEN: u32 = 9;
    type Operation = fn(&PriorityBlockingQueue<Touchy>, &Arc<AtomicUsize>);
    let operations: [Operation; 5] = [
        |queue, fuse| queue.put(Touchy(0, Arc::clone(fuse))).unwrap(),
        |queue, _| drop(queue.poll()),
        |queue, _| queue.for_each(&mut |_| ()),
        |queue, _| queue.retain(&mut |item| item.0 != 5),
        |queue, _| drop(queue.to_vec()),
    ];
    for operation in operations {
        let mut survived = 0;
        for fuse_length in 1.. {
            let fuse = Arc::new(AtomicUsize::new(0)); // 0 never panics
            let queue = PriorityBlockingQueue::by(touchy);
            (1..=LEN).for_each(|n| queue.add(Touchy(n * 7 % 10, Arc::clone(&fuse))).unwrap());
            fuse.store(fuse_length, Relaxed);
            let panicked = catch_unwind(AssertUnwindSafe(|| operation(&queue, &fuse))).is_err();
            fuse.store(0, Relaxed);
            if !panicked {
                break;
            }
            survived += 1;
            assert_eq!(queue.len(), LEN as usize);
            let order: Vec<u32> = drained(&queue).iter().map(|item| item.0).collect();
            assert_eq!(order, (1..=LEN).collect::<Vec<_>>());
            assert_eq!((queue.len(), Arc::strong_count(&fuse)), (0, 1));
        }
        assert!(survived > 0, "the operation compares at least once");
    }
}

#[test]
fn a_drain_that_panics_half_way_loses_nothing() {
    let fuse = Arc::new(AtomicUsize::new(0));
    let queue = PriorityBlockingQueue::by(touchy);
    (0..9).for_each(|n| queue.add(Touchy(n * 7 % 9, Arc::clone(&fuse))).unwrap());
    fuse.store(10, Relaxed);
    let mut into = Vec::new();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.drain_to(&mut into, usize::MAX))).is_err());
    fuse.store(0, Relaxed);
    assert_eq!(queue.len(), 9 - into.len());
    into.extend(drained(&queue));
    assert_eq!(into.iter().map(|item| item.0).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
}

#[test]
fn a_comparison_that_contradicts_itself_loses_nothing() {
    let turn = AtomicUsize::new(0);
    let queue = PriorityBlockingQueue::by(move |_: &u32, _: &u32| match turn.fetch_add(1, Relaxed) % 5 {
        0 | 3 => Ordering::Less,
        1 => Ordering::Equal,
        _ => Ordering::Greater,
    });
    (0..100).for_each(|n| queue.add(n).unwrap());
    assert_eq!(queue.to_vec().len(), 100);
    assert_eq!(queue.remove_if(&mut |item| *item < 10).len(), 10);
    let mut rest = drained(&queue);
    rest.sort_unstable();
    assert_eq!(rest, (10..100).collect::<Vec<_>>());
}

/// The destructor of an item may use the queue: it never runs under the queue's lock.
#[test]
fn destructors_of_items_may_call_the_queue() {
    struct Nosy(u32, Arc<PriorityBlockingQueue<u32>>, Arc<PriorityBlockingQueue<Nosy>>);
    impl Drop for Nosy {
        fn drop(&mut self) {
            self.1.put(self.0).unwrap();
            assert!(self.2.len() <= 4);
            self.2.for_each(&mut |_| ());
        }
    }
    let seen = Arc::new(PriorityBlockingQueue::new());
    let queue = Arc::new(PriorityBlockingQueue::by(|a: &Nosy, b: &Nosy| {
        assert!(a.0 != 99, "no comparison");
        a.0.cmp(&b.0)
    }));
    let nosy = |n| Nosy(n, Arc::clone(&seen), Arc::clone(&queue));
    (0..4).for_each(|n| queue.add(nosy(n)).unwrap());
    assert!(catch_unwind(AssertUnwindSafe(|| queue.add(nosy(99)))).is_err());
    drop(queue.poll());
    queue.retain(&mut |item| item.0 != 1);
    queue.clear();
    assert_eq!(seen.to_vec(), [0, 1, 2, 3, 99]);
}
