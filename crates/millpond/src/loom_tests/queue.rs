//! Models of the queues and their lock: no lost wake-up, no lost or duplicated item, never above
//! the capacity.

use std::time::Duration;

use super::model;
use loom::thread::spawn;

use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::interrupt::{self, Interrupted, ThreadContext, Wake};
use crate::queue::{ArrayBlockingQueue, BlockingQueue, LinkedBlockingQueue, PriorityBlockingQueue};
use crate::sync::SpinLock;
use crate::sync::{Arc, AtomicUsize, Ordering};

/// A timeout that ends when the timer fires.
pub(super) const A_WHILE: Duration = Duration::from_secs(3600);

fn array<T>(capacity: usize) -> Arc<ArrayBlockingQueue<T>> {
    Arc::new(ArrayBlockingQueue::new(capacity).expect("not zero"))
}

/// Fires the timer of the calling thread from another thread.
pub(super) fn fire_my_timer() -> loom::thread::JoinHandle<()> {
    let me = ThreadContext::current();
    spawn(move || me.fire_timer())
}

/// Interrupts the calling thread from another thread.
pub(super) fn interrupt_me() -> loom::thread::JoinHandle<()> {
    let me = interrupt::current();
    spawn(move || me.interrupt())
}

#[test]
fn spin_lock_admits_one_thread_at_a_time() {
    model(|| {
        let lock = Arc::new(SpinLock::new(0));
        let try_to_add = |lock: &SpinLock<u32>| {
            lock.try_lock().map_or(0, |mut value| {
                *value += 1;
                1
            })
        };
        let others = [(); 2].map(|()| {
            let lock = Arc::clone(&lock);
            spawn(move || try_to_add(&lock))
        });
        let mine = try_to_add(&lock);
        let added = mine + others.into_iter().map(|other| other.join().unwrap()).sum::<u32>();
        assert!(added >= 1);
        assert_eq!(*lock.try_lock().expect("all have left"), added);
    });
}

#[test]
fn a_notified_thread_sees_earlier_writes() {
    model(|| {
        let cell = Arc::new(WaitCell::for_this_thread());
        let written = Arc::new(AtomicUsize::new(0));
        let notifier = spawn({
            let (cell, written) = (Arc::clone(&cell), Arc::clone(&written));
            move || {
                written.store(1, Ordering::Relaxed);
                cell.notify();
            }
        });
        assert_eq!(cell.wait(None, OnInterrupt::Keep), Wake::Ready);
        assert_eq!(written.load(Ordering::Relaxed), 1);
        notifier.join().unwrap();
    });
}

/// The check after `reset` must see what was written before a notification that `reset` discards.
#[test]
fn a_reset_cell_sees_the_writes_of_a_discarded_notifier() {
    model(|| {
        let cell = Arc::new(WaitCell::for_this_thread());
        let written = Arc::new(AtomicUsize::new(0));
        let notifier = spawn({
            let (cell, written) = (Arc::clone(&cell), Arc::clone(&written));
            move || {
                written.store(1, Ordering::Relaxed);
                cell.notify();
            }
        });
        cell.reset();
        if written.load(Ordering::Relaxed) == 0 {
            assert_eq!(cell.wait(None, OnInterrupt::Keep), Wake::Ready);
        }
        assert_eq!(written.load(Ordering::Relaxed), 1);
        notifier.join().unwrap();
    });
}

#[test]
fn two_producers_and_a_consumer_never_exceed_the_bound() {
    model(|| {
        let queue = array(1);
        let producers = [1, 2].map(|n| {
            let queue = Arc::clone(&queue);
            spawn(move || queue.put(n).unwrap())
        });
        let mut sum = 0;
        for _ in 0..2 {
            let mut seen = 0;
            queue.for_each(&mut |_| seen += 1);
            assert!(seen <= 1);
            sum += queue.take().unwrap();
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        assert_eq!((sum, queue.len()), (3, 0));
    });
}

#[test]
fn a_blocked_put_continues_after_a_take() {
    model(|| {
        let queue = array(1);
        queue.put(1).unwrap();
        let putter = spawn({
            let queue = Arc::clone(&queue);
            move || queue.put(2).unwrap()
        });
        assert_eq!(queue.take(), Ok(1));
        putter.join().unwrap();
        assert_eq!(queue.poll(), Some(2));
    });
}

#[test]
fn draining_a_full_queue_releases_all_blocked_putters() {
    model(|| {
        let queue = array(2);
        queue.put(0).unwrap();
        queue.put(0).unwrap();
        let putters = [1, 2].map(|n| {
            let queue = Arc::clone(&queue);
            spawn(move || queue.put(n).unwrap())
        });
        let mut into = Vec::new();
        queue.drain_to(&mut into, usize::MAX);
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        queue.drain_to(&mut into, usize::MAX);
        into.sort_unstable();
        assert_eq!(into, [0, 0, 1, 2]);
    });
}

#[test]
fn draining_admits_no_more_putters_than_fit() {
    model(|| {
        let queue = array(1);
        queue.put(1).unwrap();
        let putters = [2, 3].map(|n| {
            let queue = Arc::clone(&queue);
            spawn(move || queue.put(n).unwrap())
        });
        let mut sum: i32 = queue.remove_if(&mut |_| true).iter().sum();
        for _ in 0..2 {
            assert!(queue.len() <= 1);
            sum += queue.take().unwrap();
        }
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        assert_eq!((sum, queue.len()), (6, 0));
    });
}

#[test]
fn raising_the_capacity_releases_a_blocked_put() {
    model(|| {
        let queue = Arc::new(LinkedBlockingQueue::bounded(1).unwrap());
        queue.put(1).unwrap();
        let putter = spawn({
            let queue = Arc::clone(&queue);
            move || queue.put(2).unwrap()
        });
        queue.set_capacity(2).unwrap();
        putter.join().unwrap();
        assert_eq!((queue.poll(), queue.poll()), (Some(1), Some(2)));
    });
}

#[test]
fn a_waiting_take_gets_the_item() {
    model(|| {
        let queue = Arc::new(PriorityBlockingQueue::new());
        let taker = spawn({
            let queue = Arc::clone(&queue);
            move || queue.take()
        });
        queue.put(7).unwrap();
        assert_eq!(taker.join().unwrap(), Ok(7));
        assert!(queue.is_empty());
    });
}

#[test]
fn two_waiting_takes_get_one_item_each() {
    model(|| {
        let queue = array(2);
        let takers = [(); 2].map(|()| {
            let queue = Arc::clone(&queue);
            spawn(move || queue.take().unwrap())
        });
        queue.put(1).unwrap();
        queue.put(2).unwrap();
        let got: i32 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
        assert_eq!((got, queue.len()), (3, 0));
    });
}

/// Another thread takes and puts between the two reads of the counters.
#[test]
fn the_length_is_never_above_the_bound() {
    model(|| {
        let queue = array(1);
        queue.put(1).unwrap();
        let reader = spawn({
            let queue = Arc::clone(&queue);
            move || assert!(queue.len() <= 1)
        });
        assert_eq!(queue.poll(), Some(1));
        queue.offer(2).unwrap();
        reader.join().unwrap();
        assert_eq!((queue.len(), queue.poll()), (1, Some(2)));
    });
}

#[test]
fn nothing_overtakes_borrowed_items() {
    model(|| {
        let queue = Arc::new(LinkedBlockingQueue::from_iter([1]));
        let reader = spawn({
            let queue = Arc::clone(&queue);
            move || queue.for_each(&mut |item| assert!(*item <= 2))
        });
        queue.put(2).unwrap();
        assert_eq!((queue.take(), queue.take()), (Ok(1), Ok(2)));
        reader.join().unwrap();
    });
}

/// Either the put or the return of the items may have to wake the waiting taker.
#[test]
fn a_waiting_take_gets_the_item_during_a_removal() {
    model(|| {
        let queue = array(1);
        let taker = spawn({
            let queue = Arc::clone(&queue);
            move || queue.take()
        });
        let remover = spawn({
            let queue = Arc::clone(&queue);
            move || queue.remove_if(&mut |item| *item == 9)
        });
        queue.put(7).unwrap();
        assert_eq!(taker.join().unwrap(), Ok(7));
        assert_eq!(remover.join().unwrap(), []);
    });
}

/// A taker is notified and times out: it passes the notification to the next taker.
#[test]
fn a_timed_out_taker_loses_no_notification() {
    model(|| {
        let queue = array(1);
        let me = ThreadContext::current();
        let other = spawn({
            let queue = Arc::clone(&queue);
            move || queue.take().unwrap()
        });
        let producer = spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.offer(1).unwrap();
                me.fire_timer();
            }
        });
        if let Some(item) = queue.poll_timeout(A_WHILE).expect("nobody interrupts") {
            queue.offer(item).unwrap(); // for the other taker
        }
        assert_eq!(other.join().unwrap(), 1);
        producer.join().unwrap();
    });
}

/// One waiter is interrupted while items arrive: the other one must get an item, and none may be
/// lost.
#[test]
fn an_interrupted_taker_loses_no_item() {
    model(|| {
        let queue = array(2);
        let me = interrupt::current();
        let other = spawn({
            let queue = Arc::clone(&queue);
            move || queue.take().unwrap()
        });
        let producer = spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.put(1).unwrap();
                me.interrupt();
                queue.put(2).unwrap();
            }
        });
        let mine = queue.take().unwrap_or(0);
        let sum = mine + other.join().unwrap();
        producer.join().unwrap();
        assert_eq!(sum + queue.poll().unwrap_or(0), 3);
        // The interrupt has either ended the call or is still set.
        assert_eq!(interrupt::interrupted(), mine != 0);
    });
}

/// A waiting thread that is interrupted gets no item that arrives later, even if it has not noticed
/// the interrupt yet.
#[test]
fn an_interrupted_taker_gets_no_later_item() {
    model(|| {
        let queue = array(1);
        let me = interrupt::current();
        let producer = spawn({
            let queue = Arc::clone(&queue);
            move || {
                let waits = format!("{queue:?}").contains("waiting_takers: 1");
                me.interrupt();
                if waits {
                    queue.offer(1).unwrap();
                }
            }
        });
        assert_eq!(queue.take(), Err(Interrupted));
        producer.join().unwrap();
    });
}

#[test]
fn a_slot_freed_as_an_offer_times_out_is_used_or_left() {
    model(|| {
        let queue = array(1);
        queue.put(1).unwrap();
        let timer = fire_my_timer();
        let taker = spawn({
            let queue = Arc::clone(&queue);
            move || queue.take()
        });
        let offered = queue.offer_timeout(2, A_WHILE);
        assert_eq!(taker.join().unwrap(), Ok(1));
        timer.join().unwrap();
        assert_eq!((queue.len(), queue.poll().is_some()), (offered.is_ok().into(), offered.is_ok()));
    });
}
