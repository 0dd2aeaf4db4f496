//! Models of a worker that waits in a completion service, against results and tasks that arrive.

use loom::thread;

use super::model;
use crate::executor::completion::Completions;
use crate::executor::{Executor, Rejected};
use crate::interrupt;
use crate::sync::{Arc, Mutex, Weak};
use crate::task::{Help, OwnerEntry, Place, Task, TaskId, TaskOwner, work_for};

/// Runs every task on the submitting thread.
#[derive(Clone)]
struct SameThread;

impl Executor for SameThread {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

/// A pool whose only worker is the thread of the model.
#[derive(Clone)]
struct Pool(Arc<Queue>, Arc<OwnerEntry>);

#[derive(Default)]
struct Queue(Mutex<Option<Task>>);

impl Pool {
    fn new() -> Pool {
        let queue = Arc::new(Queue::default());
        let owner: Weak<dyn TaskOwner> = Arc::downgrade(&(Arc::clone(&queue) as Arc<dyn TaskOwner>));
        Pool(queue, Arc::new(OwnerEntry::new(owner)))
    }
}

impl Executor for Pool {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        task.entered(self.1.number());
        *self.0.0.lock() = Some(task);
        Ok(())
    }
}

impl TaskOwner for Queue {
    fn run_inline(&self, _: TaskId, _: &Place) -> Help {
        let task = self.0.lock().take();
        task.into_iter().for_each(Task::run);
        Help::Done
    }
}

/// Takes a result as a worker of a pool. Loom reports a worker that is not woken.
fn take_as_worker(of: u64, completions: &Arc<Completions<u32>>) -> thread::JoinHandle<u32> {
    let completions = Arc::clone(completions);
    thread::spawn(move || {
        work_for(of, None);
        let next = completions.next(None).unwrap().expect("there is no deadline");
        work_for(0, None);
        next.join().unwrap()
    })
}

#[test]
fn a_result_against_a_worker_that_parks() {
    model(|| {
        let completions = Completions::new();
        let worker = take_as_worker(u64::MAX, &completions);
        drop(completions.start(&SameThread, || 7).unwrap());
        assert_eq!(worker.join().unwrap(), 7);
    });
}

/// The worker must run the task itself: no other thread does.
#[test]
fn a_submission_against_a_worker_that_parks() {
    model(|| {
        let (completions, pool) = (Completions::new(), Pool::new());
        let worker = take_as_worker(pool.1.number(), &completions);
        drop(completions.start(&pool, || 7).unwrap());
        assert_eq!(worker.join().unwrap(), 7);
    });
}

/// Two workers of `of` take. One of them is interrupted when a task is submitted to `executor`. If
/// it leaves without a result, the other one must get the result, or run the task itself.
fn interrupt_one_of_two_workers<X>(of: u64, executor: X)
where
    X: Executor + Clone + Send + 'static,
{
    let completions = Completions::new();
    let other = take_as_worker(of, &completions);
    let (me, shared, submits) = (interrupt::current(), Arc::clone(&completions), executor.clone());
    let submitting = thread::spawn(move || {
        me.interrupt();
        drop(shared.start(&submits, || 7).unwrap());
    });
    work_for(of, None);
    let mine = completions.next(None);
    work_for(0, None);
    submitting.join().unwrap();
    interrupt::interrupted();
    if let Ok(handle) = mine {
        assert_eq!(handle.expect("there is no deadline").join().unwrap(), 7);
        drop(completions.start(&executor, || 7).unwrap()); // for the other worker
    }
    assert_eq!(other.join().unwrap(), 7);
}

#[test]
fn a_worker_that_is_notified_of_a_result_and_interrupted_leaves_it_to_another() {
    model(|| interrupt_one_of_two_workers(u64::MAX, SameThread));
}

#[test]
fn a_worker_that_is_notified_of_a_task_and_interrupted_leaves_it_to_another() {
    model(|| {
        let pool = Pool::new();
        interrupt_one_of_two_workers(pool.1.number(), pool);
    });
}
