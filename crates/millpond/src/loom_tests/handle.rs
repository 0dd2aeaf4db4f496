//! A task's end against everything that its handle can do.

use loom::thread;

use super::model;
use crate::handle::{JoinError, TaskState};
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::task::TaskOf;

#[test]
fn completion_against_join() {
    model(|| {
        let (task, handle) = TaskOf::new(|| 7).into_parts();
        let runner = thread::spawn(move || task.run());
        assert_eq!(handle.join().unwrap(), 7);
        runner.join().unwrap();
    });
}

#[test]
fn drop_of_the_task_against_join() {
    model(|| {
        let (task, handle) = TaskOf::new(|| 7).into_parts();
        let dropper = thread::spawn(move || drop(task));
        assert!(matches!(handle.join(), Err(JoinError::Abandoned)));
        dropper.join().unwrap();
    });
}

/// Exactly one of them decides, and the joiner learns which.
#[test]
fn completion_against_cancel_and_join() {
    model(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        let (task, handle) = TaskOf::new({
            let ran = Arc::clone(&ran);
            move || ran.fetch_add(1, Ordering::Relaxed)
        })
        .into_parts();
        let canceller = handle.canceller();
        let runner = thread::spawn(move || task.run());
        let other = thread::spawn(move || canceller.cancel(true));
        let joined = handle.join();
        runner.join().unwrap();
        let cancelled = other.join().unwrap();
        match joined {
            Ok(_) => assert!(!cancelled),
            Err(JoinError::Cancelled) => assert!(cancelled),
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn of_two_cancels_one_wins() {
    model(|| {
        let (task, handle) = TaskOf::new(|| 7).into_parts();
        let canceller = handle.canceller();
        let other = thread::spawn(move || canceller.cancel(false));
        let mine = handle.cancel(true);
        assert!(mine ^ other.join().unwrap());
        drop(task);
        assert_eq!(handle.state(), TaskState::Cancelled);
    });
}

/// The result is dropped exactly once, by whoever comes last.
#[test]
fn completion_against_drop_of_the_handle() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    model(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Counted(Arc::clone(&dropped));
        let (task, handle) = TaskOf::new(move || counted).into_parts();
        let canceller = handle.canceller();
        let runner = thread::spawn(move || task.run());
        drop(handle);
        runner.join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "a canceller does not keep the result alive");
        drop(canceller);
    });
}

/// An interrupt that comes after the task is over must not reach what its thread does next.
#[test]
fn a_late_interrupt_reaches_nobody() {
    model(|| {
        let (task, handle) = TaskOf::new(|| {}).into_parts();
        let runner = thread::spawn(move || {
            task.run();
            crate::interrupt::is_interrupted()
        });
        handle.cancel(true);
        assert!(!runner.join().unwrap());
    });
}
