//! The array queue: guarantees beyond the contract of all queues.

use std::thread;

use crate::support::block;
use millpond::queue::{ArrayBlockingQueue, BlockingQueue, LinkedBlockingQueue, QueueFull};
use millpond::{ConfigError, ThreadPoolExecutor, WorkQueue};

#[test]
fn abq_001_a_capacity_of_zero_is_refused() {
    let refused = ConfigError::ZeroCapacity { queue: "ArrayBlockingQueue" };
    assert_eq!(ArrayBlockingQueue::<u8>::new(0).unwrap_err(), refused);
    assert_eq!(ArrayBlockingQueue::<u8>::fair(0).unwrap_err(), refused);
}

#[test]
fn a_huge_capacity_costs_nothing_until_it_is_used() {
    let queue = ArrayBlockingQueue::new(usize::MAX - 1).unwrap();
    queue.add([0u8; 1000]).unwrap();
    assert_eq!(queue.remaining_capacity(), usize::MAX - 2);
}

#[test]
fn abq_002_filling_from_a_collection_keeps_the_order_and_tells_if_it_does_not_fit() {
    let queue = ArrayBlockingQueue::new(3).unwrap();
    assert_eq!(queue.add_all(&mut vec![1, 2, 3].into_iter()), Ok(3));
    assert_eq!(queue.to_vec(), [1, 2, 3]);
    let queue = ArrayBlockingQueue::new(2).unwrap();
    assert_eq!(queue.add_all(&mut vec![1, 2, 3].into_iter()), Err(QueueFull(3)));
}

#[test]
fn abq_003_len_and_remaining_capacity_add_up() {
    let queue = ArrayBlockingQueue::new(5).unwrap();
    for n in 0..5 {
        assert_eq!((queue.len(), queue.remaining_capacity()), (n, 5 - n));
        queue.add(n).unwrap();
    }
    for n in (0..5).rev() {
        queue.poll().unwrap();
        assert_eq!((queue.len(), queue.remaining_capacity(), queue.capacity()), (n, 5 - n, 5));
    }
}

#[test]
fn abq_004_offer_and_add_on_a_full_queue_hand_the_item_back() {
    let queue = ArrayBlockingQueue::new(1).unwrap();
    assert_eq!(queue.offer("a"), Ok(()));
    assert_eq!(queue.offer("b"), Err("b"));
    assert_eq!(queue.add("c"), Err(QueueFull("c")));
    assert_eq!(queue.to_vec(), ["a"]);
}

#[test]
fn abq_008_items_come_out_in_order_across_the_wrap_around() {
    let queue = ArrayBlockingQueue::new(3).unwrap();
    let (mut next_in, mut next_out) = (0, 0);
    for step in 1..=50 {
        for _ in 0..step % 3 + 1 {
            next_in += i32::from(queue.offer(next_in).is_ok());
        }
        assert_eq!(queue.to_vec(), (next_out..next_in).collect::<Vec<_>>());
        for _ in 0..step % 2 + 1 {
            match queue.poll() {
                Some(item) => assert_eq!(item, next_out),
                None => break,
            }
            next_out += 1;
        }
    }
}

#[test]
fn abq_010_removal_from_the_inside_keeps_the_order_at_any_turn_of_the_ring() {
    const CAPACITY: i32 = 5;
    for turn in 0..CAPACITY {
        for len in 1..=CAPACITY {
            for victim in 0..len {
                let queue = ArrayBlockingQueue::new(CAPACITY as usize).unwrap();
                (0..turn).for_each(|_| {
                    queue.add(-1).unwrap();
                    queue.poll().unwrap();
                });
                (0..len).for_each(|n| queue.add(n).unwrap());
                assert!(queue.remove(&victim));
                let rest: Vec<_> = (0..len).filter(|n| *n != victim).collect();
                assert_eq!(queue.to_vec(), rest);
                assert_eq!(queue.remaining_capacity(), (CAPACITY - len + 1) as usize);
            }
        }
    }
}

#[test]
fn a_fair_queue_serves_takers_in_order_of_arrival() {
    let queue = ArrayBlockingQueue::fair(3).unwrap();
    assert!(queue.is_fair());
    thread::scope(|s| {
        let takers: Vec<_> = (0..4).map(|_| block(s, || queue.take().unwrap())).collect();
        (0..4).for_each(|n| queue.put(n).unwrap());
        let got: Vec<i32> = takers.into_iter().map(|taker| taker.join()).collect();
        assert_eq!(got, [0, 1, 2, 3]);
    });
}

#[test]
fn a_fair_queue_lets_putters_in_in_order_of_arrival() {
    let queue = ArrayBlockingQueue::fair(2).unwrap();
    queue.add(0).unwrap();
    queue.add(1).unwrap();
    thread::scope(|s| {
        let queue = &queue;
        let putters: Vec<_> = (2..6).map(|n| block(s, move || queue.put(n))).collect();
        let got: Vec<i32> = (0..6).map(|_| queue.take().unwrap()).collect();
        assert_eq!(got, [0, 1, 2, 3, 4, 5]);
        putters.into_iter().for_each(|putter| assert_eq!(putter.join(), Ok(())));
    });
}

/// No call, blocking or not, takes an item for which another thread already waits.
#[test]
fn newcomers_do_not_overtake_those_who_wait_in_a_fair_queue() {
    let queue = ArrayBlockingQueue::fair(1).unwrap();
    thread::scope(|s| {
        let taker = block(s, || queue.take());
        queue.put(1).unwrap();
        assert_eq!(queue.poll(), None);
        queue.put(2).unwrap(); // the first goes to the taker and needs no room
        assert_eq!(taker.join(), Ok(1));

        let putter = block(s, || queue.put(3));
        assert_eq!(queue.take(), Ok(2));
        assert_eq!(queue.offer(4), Err(4)); // the place belongs to the waiting putter
        assert_eq!(putter.join(), Ok(()));
        assert_eq!(queue.take(), Ok(3));
    });
}

#[test]
fn debug_tells_who_waits() {
    let queue = ArrayBlockingQueue::<u8>::new(3).unwrap();
    thread::scope(|s| {
        let taker = block(s, || queue.take());
        let text = format!("{queue:?}");
        assert_eq!(
            text,
            "ArrayBlockingQueue { len: 0, waiting_takers: 1, waiting_putters: 0, capacity: 3, fair: false }"
        );
        queue.put(1).unwrap();
        assert_eq!(taker.join(), Ok(1));
    });
}

/// Four of these are more than a process can address.
type Large = [u8; 1 << 46];

#[test]
fn a_queue_for_which_there_is_no_memory_is_refused() {
    for capacity in [4096, 1 << 20] {
        for queue in [ArrayBlockingQueue::<Large>::new(capacity), ArrayBlockingQueue::fair(capacity)] {
            let error = queue.expect_err("there is no memory for it");
            assert_eq!(
                error,
                ConfigError::NoMemory { queue: "ArrayBlockingQueue", capacity, item_size: 1 << 46 }
            );
            assert_eq!(
                error.to_string(),
                format!("no memory for an ArrayBlockingQueue of {capacity} items of 70368744177664 bytes")
            );
        }
    }
}

#[test]
fn a_large_bound_of_a_linked_queue_or_a_pool_takes_no_memory() {
    let linked = LinkedBlockingQueue::<Large>::bounded(usize::MAX - 1).unwrap();
    assert_eq!(linked.remaining_capacity(), usize::MAX - 1);
    let pool = ThreadPoolExecutor::builder().work_queue(WorkQueue::array(usize::MAX / 2)).build().unwrap();
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    pool.close();
}
