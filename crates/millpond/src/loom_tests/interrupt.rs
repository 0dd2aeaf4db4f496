//! Models of `on_interrupt` callbacks against the end of their task, thread or registration.

use loom::thread;

use super::model;
use crate::interrupt;
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::task::Task;

/// The progress of a callback: 0 not begun, 1 running, 2 ended.
#[derive(Clone)]
struct Progress(Arc<AtomicUsize>);

impl Progress {
    fn new() -> Progress {
        Progress(Arc::new(AtomicUsize::new(0)))
    }

    fn callback(&self) -> impl FnOnce() + Send + 'static {
        let Progress(progress) = self.clone();
        move || {
            progress.store(1, Ordering::Relaxed);
            progress.store(2, Ordering::Relaxed);
        }
    }

    /// Called when the callback must have ended or must not begin any more. `others` could run it.
    fn assert_over(&self, others: thread::JoinHandle<()>) {
        let seen = self.0.load(Ordering::Relaxed);
        assert_ne!(seen, 1, "the callback is running");
        others.join().unwrap();
        assert_eq!(self.0.load(Ordering::Relaxed), seen, "the callback began too late");
    }
}

#[test]
fn a_registration_is_dropped_against_an_interrupt() {
    model(|| {
        let (progress, me) = (Progress::new(), interrupt::current());
        let registration = me.on_interrupt(progress.callback());
        let interrupting = thread::spawn(move || me.interrupt());
        drop(registration);
        progress.assert_over(interrupting);
        interrupt::interrupted();
    });
}

#[test]
fn a_task_ends_against_an_interrupt() {
    model(|| {
        let progress = Progress::new();
        let (inside, (send, receive)) = (progress.clone(), std::sync::mpsc::channel());
        Task::new(move || {
            let me = interrupt::current();
            std::mem::forget(me.on_interrupt(inside.callback()));
            send.send(thread::spawn(move || me.interrupt())).unwrap();
        })
        .run();
        progress.assert_over(receive.recv().unwrap());
        assert!(!interrupt::is_interrupted());
    });
}

/// The same for a worker that continues with the next task without taking the lock.
#[test]
fn the_next_epoch_begins_against_an_interrupt() {
    model(|| {
        let (progress, me) = (Progress::new(), interrupt::current());
        std::mem::forget(me.on_interrupt(progress.callback()));
        let interrupting = thread::spawn(move || me.interrupt());
        interrupt::ThreadContext::with_current(|me| me.next_epoch());
        progress.assert_over(interrupting);
    });
}

#[test]
fn registering_a_callback_against_the_end_of_its_task() {
    model(|| {
        let captured = Arc::new(());
        let (inside, me) = (Arc::clone(&captured), interrupt::current());
        let registering = thread::spawn(move || std::mem::forget(me.on_interrupt(move || drop(inside))));
        interrupt::ThreadContext::with_current(|me| me.next_epoch());
        registering.join().unwrap();
        assert_eq!(Arc::strong_count(&captured), 1);
    });
}
