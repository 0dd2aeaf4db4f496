//! The synchronous queue: guarantees beyond the contract of all queues.

use std::cell::RefCell;
use std::fs;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::support::{LONG, SHORT, block, eventually, interrupt_myself};
use millpond::interrupt::{self, Interrupted};
use millpond::queue::{BlockingQueue, OfferError, QueueFull, SynchronousQueue};

fn both<T: Send>(property: impl Fn(SynchronousQueue<T>)) {
    property(SynchronousQueue::new());
    property(SynchronousQueue::fair());
    property(SynchronousQueue::default());
}

#[test]
fn syq_001_it_is_always_empty_and_always_full() {
    both(|queue| {
        let look = |queue: &SynchronousQueue<i32>| {
            assert_eq!((queue.len(), queue.is_empty(), queue.remaining_capacity()), (0, true, 0));
            assert_eq!((queue.peek(), queue.contains(&1), queue.remove(&1)), (None, false, false));
            queue.for_each(&mut |_| panic!("nothing to see"));
            queue.clear();
        };
        look(&queue);
        assert_eq!((queue.offer(1), queue.add(1)), (Err(1), Err(QueueFull(1))));
        assert_eq!(queue.poll(), None);
        thread::scope(|s| {
            let putter = block(s, || queue.put(1));
            look(&queue); // also while a thread waits with an item
            assert_eq!(queue.take(), Ok(1));
            assert_eq!(putter.join(), Ok(()));
        });
    });
}

#[test]
fn syq_003_offer_succeeds_once_for_each_taker_that_waits() {
    both(|queue| {
        thread::scope(|s| {
            let takers: Vec<_> = (0..2).map(|_| block(s, || queue.take().unwrap())).collect();
            assert_eq!((queue.offer(1), queue.offer(2), queue.offer(3)), (Ok(()), Ok(()), Err(3)));
            let mut got: Vec<i32> = takers.into_iter().map(|taker| taker.join()).collect();
            got.sort_unstable();
            assert_eq!(got, [1, 2]);
        });
    });
}

#[test]
fn syq_004_an_interrupted_put_is_not_delivered_to_a_later_taker() {
    both(|queue| {
        thread::scope(|s| {
            let putter = block(s, || queue.put(1));
            putter.interrupt();
            assert_eq!(queue.poll(), None);
            assert_eq!(putter.join().unwrap_err().into_inner(), 1);
            assert_eq!(queue.drain_to(&mut Vec::new(), 9), 0);
        });
    });
}

#[test]
fn syq_005_an_expired_call_is_not_seen_by_a_later_counterpart() {
    both(|queue| {
        assert_eq!(queue.offer_timeout(1, SHORT), Err(OfferError::TimedOut(1)));
        assert_eq!(queue.poll(), None);
        assert_eq!(queue.poll_timeout(SHORT), Ok(None));
        assert_eq!(queue.offer(2), Err(2));
        assert_eq!(queue.offer_timeout(3, Duration::ZERO), Err(OfferError::TimedOut(3)));
        assert_eq!(queue.poll_timeout(Duration::ZERO), Ok(None));
    });
}

#[test]
fn syq_006_timed_calls_meet_a_later_counterpart() {
    both(|queue| {
        thread::scope(|s| {
            let taker = block(s, || queue.poll_timeout(LONG));
            assert_eq!(queue.offer(1), Ok(()));
            assert_eq!(taker.join(), Ok(Some(1)));
            let putter = block(s, || queue.offer_timeout(2, LONG));
            assert_eq!(queue.poll(), Some(2));
            assert_eq!(putter.join(), Ok(()));
        });
    });
}

#[test]
fn syq_008_drain_to_takes_from_blocked_putters_and_releases_them() {
    both(|queue| {
        thread::scope(|s| {
            let queue = &queue;
            let putters: Vec<_> = (0..3).map(|n| block(s, move || queue.put(n))).collect();
            let mut into = Vec::new();
            assert_eq!(queue.drain_to(&mut into, 0), 0);
            assert_eq!(queue.drain_to(&mut into, 1), 1);
            assert_eq!(queue.drain_to(&mut into, usize::MAX), 2);
            putters.into_iter().for_each(|putter| assert_eq!(putter.join(), Ok(())));
            assert_eq!(into, if queue.is_fair() { [0, 1, 2] } else { [2, 1, 0] });
        });
    });
}

#[test]
fn syq_009_take_with_the_flag_set_fails_and_the_putter_goes_on_waiting() {
    both(|queue| {
        thread::scope(|s| {
            let putter = block(s, || queue.put(1));
            interrupt_myself();
            assert_eq!(queue.take(), Err(Interrupted));
            assert!(!interrupt::is_interrupted());
            assert!(!putter.is_finished());
            assert_eq!(queue.take(), Ok(1));
            assert_eq!(putter.join(), Ok(()));
        });
    });
}

#[test]
fn syq_010_retain_and_remove_if_find_nothing() {
    both(|queue| {
        thread::scope(|s| {
            let putter = block(s, || queue.put(1));
            queue.retain(&mut |_| panic!("nothing to judge"));
            assert_eq!(queue.remove_if(&mut |_| true), []);
            assert_eq!(queue.to_vec(), []);
            assert_eq!(queue.poll(), Some(1));
            assert_eq!(putter.join(), Ok(()));
        });
    });
}

#[test]
fn syq_011_what_was_handed_over_is_not_kept() {
    let token = Arc::new(());
    both(|queue: SynchronousQueue<Arc<()>>| {
        thread::scope(|s| {
            let taker = s.spawn(|| (0..250).for_each(|_| drop(queue.take().unwrap())));
            (0..250).for_each(|_| queue.put(Arc::clone(&token)).unwrap());
            taker.join().unwrap();
        });
        assert!(queue.offer_timeout(Arc::clone(&token), SHORT).is_err());
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

#[test]
fn a_fair_queue_serves_in_order_of_arrival_and_the_other_the_last_first() {
    both(|queue| {
        let order = |n: [i32; 3]| if queue.is_fair() { n } else { [n[2], n[1], n[0]] };
        thread::scope(|s| {
            let queue = &queue;
            let putters: Vec<_> = (0..3).map(|n| block(s, move || queue.put(n))).collect();
            let got = [(); 3].map(|()| queue.take().unwrap());
            assert_eq!(got, order([0, 1, 2]));
            putters.into_iter().for_each(|putter| assert_eq!(putter.join(), Ok(())));

            let takers = [(); 3].map(|()| block(s, || queue.take().unwrap()));
            (0..3).for_each(|n| queue.put(n).unwrap());
            assert_eq!(takers.map(|taker| taker.join()), order([0, 1, 2]));
        });
    });
}

/// The queue for the item, and the channel for the result.
type Farewell = (Arc<SynchronousQueue<u8>>, mpsc::Sender<String>);

/// Puts an item in its destructor, when its thread ends.
struct Goodbye(RefCell<Option<Farewell>>);

impl Drop for Goodbye {
    fn drop(&mut self) {
        let Some((queue, tell)) = self.0.take() else { return };
        let me = fs::read_link("/proc/thread-self").unwrap_or_default();
        tell.send(format!("/proc/{}/stat", me.display())).unwrap();
        tell.send(format!("{:?}", queue.put(7))).unwrap();
    }
}

thread_local! {
    static GOODBYE: Goodbye = const { Goodbye(RefCell::new(None)) };
}

// Regression: a thread whose thread-locals are being destroyed waits with a temporary parker, but a
// different one was woken. Its item was taken, and it stayed parked.
#[test]
fn a_thread_that_waits_while_its_locals_are_destroyed_is_woken() {
    let (queue, (tell, told)) = (Arc::new(SynchronousQueue::new()), mpsc::channel());
    let there = Arc::clone(&queue);
    let thread = thread::spawn(move || {
        // Initialised before the library's thread-locals, so destroyed after them.
        GOODBYE.with(|goodbye| goodbye.0.replace(Some((there, tell))));
        assert!(!interrupt::is_interrupted());
    });
    let status = told.recv_timeout(LONG).unwrap();
    // Asleep, if the system tells; otherwise it may still be about to sleep.
    eventually(|| fs::read_to_string(&status).map_or(true, |status| status.contains(") S ")));
    assert_eq!(queue.poll_timeout(LONG), Ok(Some(7)));
    assert_eq!(told.recv_timeout(LONG).unwrap(), "Ok(())");
    thread.join().unwrap();
}
