//! The delay queue: guarantees beyond the contract of all queues.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::{LONG, MEDIUM, SHORT, SMALL, block, interrupt_myself};
use millpond::interrupt::Interrupted;
use millpond::queue::{BlockingQueue, DelayQueue, Delayed, QueueEmpty};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Item(u32, Instant);

impl Delayed for Item {
    fn due(&self) -> Instant {
        self.1
    }
}

fn item(n: u32, delay: Duration) -> Item {
    Item(n, Instant::now() + delay)
}

/// An item that has been due for `ago`.
fn overdue(n: u32, ago: Duration) -> Item {
    Item(n, Instant::now() - ago)
}

fn numbers(items: &[Item]) -> Vec<u32> {
    items.iter().map(|item| item.0).collect()
}

#[test]
fn dlq_001_it_has_no_bound_and_putting_never_waits() {
    let queue = DelayQueue::default();
    for n in 0..50 {
        queue.put(item(n, LONG)).unwrap();
        queue.offer_timeout(item(n, LONG), Duration::ZERO).unwrap();
        assert_eq!(queue.remaining_capacity(), usize::MAX);
    }
    assert_eq!(queue.len(), 100);
}

#[test]
fn dlq_002_only_due_items_come_out_earliest_first() {
    let mut queue = DelayQueue::new();
    queue.extend([
        overdue(2, Duration::from_millis(20)),
        item(4, LONG),
        overdue(1, Duration::from_millis(30)),
        overdue(3, Duration::from_millis(10)),
    ]);
    assert_eq!(queue.take().unwrap().0, 1);
    assert_eq!(queue.poll().unwrap().0, 2);
    assert_eq!(queue.poll_timeout(LONG).unwrap().unwrap().0, 3);
    assert_eq!(queue.poll(), None);
    assert_eq!(queue.poll_timeout(SHORT), Ok(None));
    assert_eq!(queue.drain_to(&mut Vec::new(), usize::MAX), 0);
    assert_eq!(queue.len(), 1);
}

#[test]
fn items_due_at_the_same_instant_come_out_in_order_of_arrival() {
    let due = Instant::now();
    let queue: DelayQueue<_> = (0..50).map(|n| Item(n, due)).collect();
    let mut into = Vec::new();
    assert_eq!(queue.drain_to(&mut into, 20), 20);
    assert_eq!(queue.drain_to(&mut into, usize::MAX), 30);
    assert_eq!(numbers(&into), (0..50).collect::<Vec<_>>());
}

#[test]
fn dlq_004_nothing_is_delivered_early() {
    let queue = DelayQueue::new();
    for n in 0..6 {
        queue.put(item(n, SHORT * (6 - n) / 2)).unwrap();
    }
    for n in (0..6).rev() {
        let got = if n % 2 == 0 { queue.take().unwrap() } else { queue.poll_timeout(LONG).unwrap().unwrap() };
        assert!(Instant::now() >= got.1);
        assert_eq!(got.0, n);
    }
}

/// Otherwise the taker, and so the test, would sleep for a minute.
#[test]
fn dlq_005_a_taker_that_waits_for_a_late_item_takes_an_earlier_one_that_comes() {
    let queue = DelayQueue::new();
    queue.put(item(1, LONG * 60)).unwrap();
    thread::scope(|s| {
        let taker = block(s, || queue.take().map(|got| (got.0, Instant::now() >= got.1)));
        queue.put(item(2, LONG * 30)).unwrap();
        queue.put(item(3, SMALL)).unwrap();
        assert_eq!(taker.join(), Ok((3, true)));
    });
    assert_eq!(queue.len(), 2);
}

#[test]
fn dlq_006_peek_shows_an_item_that_is_not_due_and_remove_head_refuses_it() {
    let queue = DelayQueue::new();
    let late = item(1, LONG);
    queue.put(late).unwrap();
    assert_eq!((queue.peek(), queue.element()), (Some(late), Ok(late)));
    assert_eq!((queue.remove_head(), queue.poll()), (Err(QueueEmpty), None));
    queue.put(overdue(0, SHORT)).unwrap();
    assert_eq!(queue.remove_head().unwrap().0, 0);
}

#[test]
fn dlq_007_looking_and_removing_by_choice_see_all_items() {
    let queue = DelayQueue::new();
    let all = [item(3, LONG * 2), overdue(0, SHORT * 2), item(2, LONG), overdue(1, SHORT)];
    all.iter().for_each(|item| queue.put(*item).unwrap());
    assert_eq!((numbers(&queue.to_vec()), queue.len()), (vec![0, 1, 2, 3], 4));
    assert!(queue.contains(&all[0]) && queue.remove(&all[0]) && !queue.contains(&all[0]));
    assert_eq!(numbers(&queue.remove_if(&mut |item| item.0 < 3 && item.0 > 0)), [1, 2]);
    assert_eq!(numbers(&queue.to_vec()), [0]);
    queue.put(item(5, LONG)).unwrap();
    queue.clear();
    assert_eq!((queue.len(), queue.peek()), (0, None));
}

/// DLQ-009: a snapshot outlives `clear`, and of several equal items exactly the chosen one is
/// removed.
#[test]
fn dlq_009_a_snapshot_stays_and_removal_picks_one_of_equals() {
    let due = Instant::now() + LONG;
    let queue: DelayQueue<_> = (0..3).map(|_| Item(7, due)).collect();
    let snapshot = queue.to_vec();
    let mut at = 0;
    let removed = queue.remove_if(&mut |_| {
        at += 1;
        at == 2
    });
    assert_eq!((removed.len(), queue.len()), (1, 2));
    queue.clear();
    assert_eq!(numbers(&snapshot), [7, 7, 7]);
    assert!(!queue.remove(&snapshot[0]));
}

#[test]
fn dlq_011_a_delay_beyond_all_times_is_just_never_due() {
    let mut never = Instant::now();
    for power in (0..64).rev() {
        never = never.checked_add(Duration::from_secs(1 << power)).unwrap_or(never);
    }
    let queue = DelayQueue::new();
    queue.put(Item(1, never)).unwrap();
    assert_eq!(queue.poll(), None);
    assert_eq!(queue.poll_timeout(SHORT), Ok(None));
    thread::scope(|s| {
        let taker = block(s, || queue.poll_timeout(Duration::MAX));
        queue.put(overdue(0, SHORT)).unwrap();
        assert_eq!(taker.join().unwrap().unwrap().0, 0);
        let taker = block(s, || queue.take());
        taker.interrupt();
        assert_eq!(taker.join(), Err(Interrupted));
    });
    assert_eq!(queue.len(), 1);
}

#[test]
fn dlq_012_take_with_the_flag_set_fails_although_an_item_is_due() {
    let queue = DelayQueue::new();
    queue.put(overdue(1, SHORT)).unwrap();
    interrupt_myself();
    assert_eq!(queue.take(), Err(Interrupted));
    assert_eq!(queue.len(), 1);
    interrupt_myself();
    assert_eq!(queue.poll_timeout(SHORT), Err(Interrupted));
    assert_eq!(queue.take().unwrap().0, 1);
}

/// The leader takes the first item when it is due, and passes leadership on.
#[test]
fn several_takers_get_one_item_each_as_they_fall_due() {
    let queue = DelayQueue::new();
    thread::scope(|s| {
        let takers = [(); 4].map(|()| block(s, || queue.take().unwrap()));
        let start = Instant::now();
        (0..4).for_each(|n| queue.put(Item(n, start + SHORT * (4 - n))).unwrap());
        let mut got = takers.map(|taker| taker.join().0);
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2, 3]);
    });
}

/// The leader leaves, by interrupt or timeout, shortly before an item is due: another taker must
/// become the leader.
#[test]
fn a_leader_that_leaves_hands_the_lead_on() {
    for (patience, by_interrupt) in [(LONG, true), (SMALL, false)] {
        let queue = DelayQueue::new();
        queue.put(item(1, MEDIUM)).unwrap();
        thread::scope(|s| {
            let leader = block(s, || queue.poll_timeout(patience));
            let follower = block(s, || queue.take());
            if by_interrupt {
                leader.interrupt();
            }
            if let Ok(Some(first)) = leader.join() {
                queue.put(first).unwrap(); // the machine was too slow: the item was already due
            }
            assert_eq!(follower.join().unwrap().0, 1);
        });
    }
}

/// A leader whose item is removed must still get a later item.
#[test]
fn a_leader_whose_item_is_removed_waits_for_the_next() {
    let queue = DelayQueue::new();
    queue.put(item(1, LONG)).unwrap();
    thread::scope(|s| {
        let taker = block(s, || queue.take().unwrap().0);
        queue.clear();
        queue.put(item(2, SHORT)).unwrap();
        assert_eq!(taker.join(), 2);
    });
}

#[test]
fn boxed_and_shared_items_are_delayed_too() {
    let queue = DelayQueue::new();
    queue.put(Box::new(overdue(1, SHORT))).unwrap();
    assert_eq!(queue.take().unwrap().0, 1);
    let queue = DelayQueue::new();
    queue.put(std::sync::Arc::new(overdue(2, SHORT))).unwrap();
    assert_eq!(queue.take().unwrap().0, 2);
}
