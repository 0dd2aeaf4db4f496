//! Models of the end of a task against every operation of its handle.

use loom::thread;

use super::model;
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::task::{JoinError, RefCount, Shed, TaskOf, TaskState};

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

/// Exactly one of them decides, and the joiner sees the matching result.
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

/// Exactly one of them decides, the joiner sees the matching result, and it was counted before.
#[test]
fn expiry_against_cancel_and_join() {
    model(|| {
        let expired = Arc::new(AtomicUsize::new(0));
        let (task, handle) = TaskOf::new(|| unreachable!("it is not run")).into_parts();
        let canceller = handle.canceller();
        let worker = thread::spawn({
            let expired = Arc::clone(&expired);
            move || {
                let mut outcome = None;
                let is_shed = task.expire(&mut |shed| {
                    expired.fetch_add(usize::from(shed == Shed::Expired), Ordering::Relaxed);
                    assert!(outcome.replace(shed).is_none());
                });
                assert_eq!(is_shed, outcome.is_some());
                outcome == Some(Shed::Expired)
            }
        });
        let other = thread::spawn(move || canceller.cancel(true));
        let joined: Result<(), JoinError> = handle.join();
        let counted = expired.load(Ordering::Relaxed);
        let is_expired = worker.join().unwrap();
        assert!(is_expired ^ other.join().unwrap());
        match joined {
            Err(JoinError::Expired) => assert!(is_expired && counted == 1),
            Err(JoinError::Cancelled) => assert!(!is_expired),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn one_of_two_cancels_wins() {
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

/// A cancel that fails finds the task done, with its result present.
#[test]
fn a_failed_cancel_finds_the_task_completed() {
    model(|| {
        let (task, mut handle) = TaskOf::new(|| 7).into_parts();
        let runner = thread::spawn(move || task.run());
        if !handle.cancel(false) {
            assert_eq!(handle.state(), TaskState::Succeeded);
            assert_eq!(handle.try_join().unwrap().unwrap(), 7);
        }
        runner.join().unwrap();
    });
}

/// The task may end before, while or after the callback is registered. The callback is called once
/// and finds the result.
#[test]
fn completion_against_a_callback() {
    model(|| {
        let called = Arc::new(AtomicUsize::new(0));
        let (task, handle) = TaskOf::new(|| 7).into_parts();
        let runner = thread::spawn(move || task.run());
        handle.when_done({
            let called = Arc::clone(&called);
            move |handle| {
                assert_eq!(handle.join().unwrap(), 7);
                called.fetch_add(1, Ordering::Relaxed);
            }
        });
        runner.join().unwrap();
        assert_eq!(called.load(Ordering::Relaxed), 1);
    });
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The task is cancelled while the decorator holds the work: the task does not run, and its
/// captures are dropped once.
#[test]
fn decorate_against_cancel() {
    model(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Counted(Arc::clone(&dropped));
        let (task, handle) = TaskOf::new(move || drop(counted)).into_parts();
        let worker = thread::spawn(move || {
            task.decorate(&mut |body| body).unwrap().run();
        });
        let cancelled = handle.cancel(false);
        worker.join().unwrap();
        assert_eq!(handle.join().is_err(), cancelled);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    });
}

/// The result is dropped exactly once, by the last owner.
#[test]
fn completion_against_drop_of_the_handle() {
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

/// An interrupt that arrives after the task has ended must not affect what its thread does next.
#[test]
fn a_late_interrupt_has_no_effect() {
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

/// A cancel that finds the task running knows the running thread. Otherwise this model would sleep
/// forever.
#[test]
fn an_interrupt_ends_the_running_task() {
    model(|| {
        let sleep = || crate::interrupt::sleep(std::time::Duration::MAX);
        let (task, handle) = TaskOf::new(sleep).into_parts();
        let runner = thread::spawn(move || task.run());
        assert!(handle.cancel(true));
        runner.join().unwrap();
    });
}

/// A value to which three threads write, and which the last owner frees.
struct Value {
    count: RefCount,
    /// Relaxed: only the reference count orders these accesses. Without it, an old value may be
    /// read.
    written: [AtomicUsize; 3],
    freed: AtomicUsize,
}

impl Value {
    fn with_owners(owners: u32) -> Arc<Value> {
        let written = [AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)];
        Arc::new(Value { count: RefCount::new(owners), written, freed: AtomicUsize::new(0) })
    }

    fn use_and_release(&self, mine: usize) {
        self.written[mine].store(1, Ordering::Relaxed);
        if self.count.release() {
            self.freed.fetch_add(1, Ordering::Relaxed);
            assert!(self.written.iter().all(|written| written.load(Ordering::Relaxed) == 1));
        }
    }
}

/// The last owner frees what the others have written, so it must be ordered after all of them, and
/// there must be exactly one.
#[test]
fn the_last_owner_sees_all_earlier_writes() {
    model(|| {
        let value = Value::with_owners(2);
        value.count.add();
        let others = [1, 2].map(|mine| {
            let value = Arc::clone(&value);
            thread::spawn(move || value.use_and_release(mine))
        });
        value.use_and_release(0);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(value.freed.load(Ordering::Relaxed), 1);
    });
}

/// A handle is shared. One thread cancels through it and releases the reference of the queue, while
/// another thread creates a reference from it. Every reference counts, so none of the threads is
/// the last owner while another reference exists.
#[test]
fn adding_a_reference_against_releasing_another() {
    model(|| {
        let value = Value::with_owners(2);
        let other = {
            let value = Arc::clone(&value);
            thread::spawn(move || {
                value.count.add();
                value.use_and_release(1);
            })
        };
        value.count.release_shared();
        value.written[2].store(1, Ordering::Relaxed);
        other.join().unwrap(); // the handle is lent to the other thread until here
        assert_eq!(value.freed.load(Ordering::Relaxed), 0);
        value.use_and_release(0);
        assert_eq!(value.freed.load(Ordering::Relaxed), 1);
    });
}
