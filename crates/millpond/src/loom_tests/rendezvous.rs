//! Models of the synchronous queue and of the delay queue: no lost wake-up, no lost item.

use std::time::Instant;

use super::model;
use super::queue::{A_WHILE, fire_my_timer, interrupt_me};
use loom::thread::spawn;

use crate::interrupt::{self, Interrupted, ThreadContext};
use crate::queue::{BlockingQueue, DelayQueue, Delayed, OfferError, PutError, SynchronousQueue};
use crate::sync::Arc;

#[test]
fn two_putters_hand_off_to_two_takers() {
    for fair in [false, true] {
        model(move || {
            let queue = Arc::new(if fair { SynchronousQueue::fair() } else { SynchronousQueue::new() });
            let putters = [1, 2].map(|n| {
                let queue = Arc::clone(&queue);
                spawn(move || queue.put(Box::new(n)))
            });
            let taker = spawn({
                let queue = Arc::clone(&queue);
                move || queue.take()
            });
            let mine = queue.take().unwrap();
            assert_eq!(*mine + *taker.join().unwrap().unwrap(), 3);
            putters.into_iter().for_each(|putter| assert!(putter.join().unwrap().is_ok()));
        });
    }
}

#[test]
fn handoff_against_the_putters_timeout() {
    model(|| {
        let queue = Arc::new(SynchronousQueue::new());
        let timer = fire_my_timer();
        let taker = spawn({
            let queue = Arc::clone(&queue);
            move || queue.poll()
        });
        let offered = queue.offer_timeout(7, A_WHILE);
        match taker.join().unwrap() {
            Some(item) => assert_eq!((item, offered), (7, Ok(()))),
            None => assert_eq!(offered, Err(OfferError::TimedOut(7))),
        }
        timer.join().unwrap();
        assert_eq!(queue.poll(), None);
    });
}

#[test]
fn handoff_against_the_takers_timeout() {
    model(|| {
        let queue = Arc::new(SynchronousQueue::fair());
        let timer = fire_my_timer();
        let putter = spawn({
            let queue = Arc::clone(&queue);
            move || queue.offer(7)
        });
        let polled = queue.poll_timeout(A_WHILE);
        match putter.join().unwrap() {
            Ok(()) => assert_eq!(polled, Ok(Some(7))),
            Err(item) => assert_eq!((item, polled), (7, Ok(None))),
        }
        timer.join().unwrap();
    });
}

#[test]
fn handoff_against_the_putters_interrupt() {
    model(|| {
        let queue = Arc::new(SynchronousQueue::new());
        let interrupter = interrupt_me();
        let taker = spawn({
            let queue = Arc::clone(&queue);
            move || queue.poll()
        });
        let put = queue.put(7);
        interrupter.join().unwrap();
        match taker.join().unwrap() {
            Some(item) => assert_eq!((item, put, interrupt::interrupted()), (7, Ok(()), true)),
            None => assert_eq!((put, interrupt::interrupted()), (Err(PutError::Interrupted(7)), false)),
        }
    });
}

#[test]
fn handoff_against_the_takers_interrupt() {
    model(|| {
        let queue = Arc::new(SynchronousQueue::new());
        let interrupter = interrupt_me();
        let putter = spawn({
            let queue = Arc::clone(&queue);
            move || queue.offer(7)
        });
        let taken = queue.take();
        interrupter.join().unwrap();
        match putter.join().unwrap() {
            Ok(()) => assert_eq!((taken, interrupt::interrupted()), (Ok(7), true)),
            Err(item) => assert_eq!((item, taken, interrupt::interrupted()), (7, Err(Interrupted), false)),
        }
    });
}

/// An item that is always due.
#[derive(Debug, PartialEq)]
struct Due(u32, Instant);

impl Delayed for Due {
    fn due(&self) -> Instant {
        self.1
    }
}

#[test]
fn the_leader_of_a_delay_queue_hands_off_leadership() {
    let past = Instant::now();
    model(move || {
        let queue = Arc::new(DelayQueue::<Due>::new());
        let other = spawn({
            let queue = Arc::clone(&queue);
            move || queue.take().unwrap().0
        });
        let producer = spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.put(Due(1, past)).unwrap();
                queue.put(Due(2, past)).unwrap();
            }
        });
        let sum = queue.take().unwrap().0 + other.join().unwrap();
        producer.join().unwrap();
        assert_eq!((sum, queue.len()), (3, 0));
    });
}

/// Checks that a leader that is notified and then interrupted or timed out notifies the next taker.
/// `stop` ends the wait of the leader.
fn leader_stops_waiting(stop: fn() -> Box<dyn FnOnce() + Send>, take: fn(&DelayQueue<Due>) -> Option<Due>) {
    let past = Instant::now();
    model(move || {
        let queue = Arc::new(DelayQueue::<Due>::new());
        let stop = stop();
        let other = spawn({
            let queue = Arc::clone(&queue);
            move || queue.take().unwrap().0
        });
        let producer = spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.put(Due(1, past)).unwrap();
                stop();
            }
        });
        if let Some(item) = take(&queue) {
            queue.put(item).unwrap(); // for the other taker
        }
        assert_eq!(other.join().unwrap(), 1);
        producer.join().unwrap();
    });
}

#[test]
fn an_interrupted_leader_wakes_the_next() {
    leader_stops_waiting(
        || {
            let me = interrupt::current();
            Box::new(move || me.interrupt())
        },
        |queue| queue.take().ok(),
    );
}

#[test]
fn a_timed_out_leader_wakes_the_next() {
    leader_stops_waiting(
        || {
            let me = ThreadContext::current();
            Box::new(move || me.fire_timer())
        },
        |queue| queue.poll_timeout(A_WHILE).expect("nobody interrupts"),
    );
}
