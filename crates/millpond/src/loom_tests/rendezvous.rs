//! Models of the synchronous queue and of the delay queue: no lost wake-up, no lost item.

use std::time::Instant;

use super::model;
use super::queue::{A_WHILE, interrupt_for_me, timer_for_me};
use loom::thread::spawn;

use crate::interrupt::{self, Interrupted, ThreadContext};
use crate::queue::{BlockingQueue, DelayQueue, Delayed, OfferError, PutError, SynchronousQueue};
use crate::sync::Arc;

#[test]
fn two_who_put_meet_two_who_take() {
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
fn a_hand_over_against_the_putters_time_out_does_one_or_the_other() {
    model(|| {
        let queue = Arc::new(SynchronousQueue::new());
        let timer = timer_for_me();
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
fn a_hand_over_against_the_takers_time_out_does_one_or_the_other() {
    model(|| {
        let queue = Arc::new(SynchronousQueue::fair());
        let timer = timer_for_me();
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
fn a_hand_over_against_the_putters_interrupt_does_one_or_the_other() {
    model(|| {
        let queue = Arc::new(SynchronousQueue::new());
        let interrupter = interrupt_for_me();
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
fn a_hand_over_against_the_takers_interrupt_does_one_or_the_other() {
    model(|| {
        let queue = Arc::new(SynchronousQueue::new());
        let interrupter = interrupt_for_me();
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
fn the_leader_of_a_delay_queue_hands_the_lead_on() {
    let past = Instant::now();
    model(move || {
        let queue = Arc::new(DelayQueue::<Due>::new());
        let other = spawn({
            let queue = Arc::clone(&queue);
            move || queue.take().unwrap().0
        });
        let giver = spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.put(Due(1, past)).unwrap();
                queue.put(Due(2, past)).unwrap();
            }
        });
        let sum = queue.take().unwrap().0 + other.join().unwrap();
        giver.join().unwrap();
        assert_eq!((sum, queue.len()), (3, 0));
    });
}

/// Checks that a leader that is notified and then interrupted or timed out passes the notification
/// on.
fn leader_leaves(leave: fn() -> Box<dyn FnOnce() + Send>, take: fn(&DelayQueue<Due>) -> Option<Due>) {
    let past = Instant::now();
    model(move || {
        let queue = Arc::new(DelayQueue::<Due>::new());
        let leave = leave();
        let other = spawn({
            let queue = Arc::clone(&queue);
            move || queue.take().unwrap().0
        });
        let giver = spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.put(Due(1, past)).unwrap();
                leave();
            }
        });
        if let Some(item) = take(&queue) {
            queue.put(item).unwrap(); // for the other taker
        }
        assert_eq!(other.join().unwrap(), 1);
        giver.join().unwrap();
    });
}

#[test]
fn an_interrupted_leader_passes_the_call_on() {
    leader_leaves(
        || {
            let me = interrupt::current();
            Box::new(move || me.interrupt())
        },
        |queue| queue.take().ok(),
    );
}

#[test]
fn a_leader_out_of_time_passes_the_call_on() {
    leader_leaves(
        || {
            let me = ThreadContext::current();
            Box::new(move || me.fire_timer())
        },
        |queue| queue.poll_timeout(A_WHILE).expect("nobody interrupts"),
    );
}
