//! The linked queue: guarantees beyond the contract of all queues.

use std::sync::Arc;
use std::thread;

use crate::support::block;
use millpond::ConfigError;
use millpond::queue::{BlockingQueue, LinkedBlockingQueue, QueueFull};

#[test]
fn lbq_001_without_a_bound_by_default_and_from_a_collection() {
    let queues = [
        LinkedBlockingQueue::unbounded(),
        LinkedBlockingQueue::default(),
        LinkedBlockingQueue::bounded(usize::MAX).unwrap(),
    ];
    for queue in queues {
        queue.add(1).unwrap();
        assert_eq!((queue.remaining_capacity(), queue.capacity()), (usize::MAX, usize::MAX));
    }
    let queue: LinkedBlockingQueue<_> = (0..1000).collect();
    assert_eq!(queue.remaining_capacity(), usize::MAX);
    assert_eq!(queue.to_vec(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn lbq_001_a_capacity_of_zero_is_refused_and_changes_nothing() {
    let refused = ConfigError::ZeroCapacity { queue: "LinkedBlockingQueue" };
    assert_eq!(LinkedBlockingQueue::<u8>::bounded(0).unwrap_err(), refused);
    let queue = LinkedBlockingQueue::<u8>::bounded(3).unwrap();
    assert_eq!(queue.set_capacity(0), Err(refused));
    assert_eq!((queue.capacity(), queue.remaining_capacity()), (3, 3));
}

/// LBQ-002. The contract of all queues has the blocking forms.
#[test]
fn lbq_002_a_full_bounded_queue_refuses_as_the_array_queue_does() {
    let queue = LinkedBlockingQueue::bounded(2).unwrap();
    queue.add_all(&mut [1, 2].into_iter()).unwrap();
    assert_eq!(queue.offer(3), Err(3));
    assert_eq!(queue.add(4), Err(QueueFull(4)));
    assert_eq!((queue.len(), queue.remaining_capacity()), (2, 0));
}

#[test]
fn lbq_003_first_in_first_out_for_all_who_look_and_take() {
    let queue: LinkedBlockingQueue<_> = (0..6).collect();
    let mut seen = Vec::new();
    queue.for_each(&mut |item| seen.push(*item));
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    assert_eq!(queue.to_vec(), seen);
    assert_eq!((queue.take(), queue.poll(), queue.remove_head()), (Ok(0), Some(1), Ok(2)));
    let mut rest = Vec::new();
    queue.drain_to(&mut rest, usize::MAX);
    assert_eq!(rest, [3, 4, 5]);
}

#[test]
fn lbq_005_a_queue_emptied_by_remove_takes_new_items() {
    let queue: LinkedBlockingQueue<_> = (0..2).collect();
    assert!(queue.remove(&0) && queue.remove(&1));
    assert!(queue.is_empty());
    queue.add(5).unwrap();
    assert_eq!(queue.take(), Ok(5));
}

#[test]
fn lbq_006_draining_a_full_queue_lets_a_blocked_put_in() {
    let queue = LinkedBlockingQueue::bounded(2).unwrap();
    queue.add_all(&mut [1, 2].into_iter()).unwrap();
    thread::scope(|s| {
        let putter = block(s, || queue.put(3));
        let mut into = Vec::new();
        assert_eq!(queue.drain_to(&mut into, usize::MAX), 2);
        assert_eq!(putter.join(), Ok(()));
        assert_eq!((into, queue.to_vec()), (vec![1, 2], vec![3]));
    });
}

#[test]
fn lbq_008_nothing_keeps_removed_items_alive() {
    let token = Arc::new(());
    let queue = LinkedBlockingQueue::unbounded();
    for round in 0..3 {
        (0..5000).for_each(|_| queue.add(Arc::clone(&token)).unwrap());
        match round {
            0 => while queue.poll().is_some() {},
            1 => queue.clear(),
            _ => queue.retain(&mut |_| false),
        }
        assert_eq!(Arc::strong_count(&token), 1);
    }
    queue.add(Arc::clone(&token)).unwrap();
    drop(queue);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn a_larger_capacity_lets_in_as_many_putters_as_now_fit() {
    let queue = LinkedBlockingQueue::bounded(1).unwrap();
    queue.add(0).unwrap();
    thread::scope(|s| {
        let queue = &queue;
        let putters: Vec<_> = (1..4).map(|n| block(s, move || queue.put(n))).collect();
        queue.set_capacity(3).unwrap();
        assert_eq!((queue.to_vec(), queue.remaining_capacity()), (vec![0, 1, 2], 0));
        queue.set_capacity(usize::MAX).unwrap();
        assert_eq!((queue.to_vec(), queue.remaining_capacity()), (vec![0, 1, 2, 3], usize::MAX));
        putters.into_iter().for_each(|putter| assert_eq!(putter.join(), Ok(())));
    });
}

#[test]
fn a_smaller_capacity_keeps_the_items_and_refuses_new_ones_until_there_is_room() {
    let queue: LinkedBlockingQueue<_> = (0..4).collect();
    queue.set_capacity(2).unwrap();
    thread::scope(|s| {
        let putter = block(s, || queue.put(100));
        for len in [3, 2] {
            queue.take().unwrap();
            assert_eq!((queue.len(), queue.remaining_capacity(), queue.offer(99)), (len, 0, Err(99)));
        }
        assert_eq!(queue.take(), Ok(2));
        assert_eq!(putter.join(), Ok(()));
        assert_eq!(queue.to_vec(), [3, 100]);
    });
}
