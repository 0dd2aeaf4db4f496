//! Models of the pool's first-in-first-out queue on its own.
//!
//! A lost task or a torn read fails an assertion. A lost wake-up appears as a deadlock.

use loom::thread;

use super::queue::fifo::Fifo;
use crate::loom_tests::model;
use crate::sync::Arc;
use crate::task::{Task, TaskOf};
use crate::time::clock::Clock;

fn push(fifo: &Fifo, task: Task) -> bool {
    fifo.push(task.id(), task, || ()).is_ok()
}

/// Two pushes against a capacity of one: the bound holds, and a refusal is justified.
#[test]
fn a_bounded_queue_never_exceeds_its_capacity() {
    model(|| {
        let fifo = Arc::new(Fifo::new(1, Clock::system()));
        let other = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || push(&fifo, Task::new(|| {}))
        });
        let mine = push(&fifo, Task::new(|| {}));
        assert!(fifo.len() <= 1);
        let popped = usize::from(fifo.pop().is_some());
        let pushed = usize::from(mine) + usize::from(other.join().unwrap());
        assert_eq!(fifo.len() + popped, pushed);
        assert!(pushed >= 1);
    });
}

/// Returns a task that fills a segment, and that adds its number to `ran` when it runs.
fn long_task(number: usize, ran: &Arc<std::sync::Mutex<Vec<usize>>>) -> Task {
    let (ran, words) = (Arc::clone(ran), [number; 3]);
    Task::new(move || {
        assert_eq!(words, [words[0]; 3]);
        ran.lock().unwrap().push(words[0]);
    })
}

/// The head leaves a segment and the tail reuses it. The tail must not reuse it early and overwrite
/// a task, and neither side may read the other's link or index. Loom does not track plain memory,
/// so Miri checks the visibility of the words in `pool/queue/fifo/tests.rs`.
#[test]
fn leaving_a_segment_against_reuse() {
    model(|| {
        let fifo = Arc::new(Fifo::new(8, Clock::system()));
        let ran = Arc::default();
        let put = |fifo: &Fifo, number, ran: &_| assert!(push(fifo, long_task(number, ran)));
        put(&fifo, 0, &ran);
        let other = thread::spawn({
            let (fifo, ran) = (Arc::clone(&fifo), Arc::clone(&ran));
            move || (1..4).for_each(|number| put(&fifo, number, &ran))
        });
        (0..3).filter_map(|_| fifo.pop()).for_each(Task::run);
        other.join().unwrap();
        while let Some(task) = fifo.pop() {
            task.run();
        }
        assert!(fifo.is_empty());
        assert_eq!(*ran.lock().unwrap(), [0, 1, 2, 3]);
    });
}

/// A second task is pushed before the first one is popped. A reader without the locks must always
/// see one or two tasks, although both ends move between its loads.
#[test]
fn unlocked_reads_against_push_and_pop() {
    model(|| {
        let fifo = Arc::new(Fifo::new(8, Clock::system()));
        let ran = Arc::default();
        assert!(push(&fifo, long_task(0, &ran)));
        let other = thread::spawn({
            let (fifo, ran) = (Arc::clone(&fifo), Arc::clone(&ran));
            move || {
                assert!(push(&fifo, long_task(1, &ran)));
                fifo.pop().expect("there are two").run();
            }
        });
        assert!(!fifo.is_empty());
        assert!((1..=2).contains(&fifo.len()));
        other.join().unwrap();
        assert_eq!((fifo.len(), fifo.is_empty()), (1, false));
        fifo.pop().expect("there is one").run();
        assert_eq!((fifo.len(), fifo.is_empty()), (0, true));
        assert_eq!(*ran.lock().unwrap(), [0, 1]);
    });
}

/// A cancel, or a join that runs the task inline, against the worker that pops it: exactly one of
/// them gets the task. The only possible seeded fault would be to omit a lock.
#[test]
fn remove_against_pop() {
    model(|| {
        let fifo = Arc::new(Fifo::new(2, Clock::system()));
        let (first, _handle) = TaskOf::new(|| ()).into_parts();
        let (second, _handle) = TaskOf::new(|| ()).into_parts();
        let ids = [first.id(), second.id()];
        let shared = first.cell().expect("it has a handle").clone();
        assert!(push(&fifo, first) && push(&fifo, second));
        let other = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || fifo.pop().expect("only one is removed").id()
        });
        let removed = fifo.remove(ids[0], Some(shared.place().get()));
        let taken = other.join().unwrap();
        assert_eq!(taken == ids[0], removed.is_none());
        assert_eq!(fifo.len(), usize::from(removed.is_none()));
        assert!(push(&fifo, Task::new(|| {})), "there is room again");
        let rest = std::iter::from_fn(|| fifo.pop()).count();
        assert_eq!(rest, 1 + usize::from(removed.is_none()));
    });
}

/// All tasks are moved, by a `purge` that finds nothing or by a compaction. A task that is
/// cancelled at the same time must be found although its recorded position is stale.
#[test]
fn remove_against_compaction() {
    model(|| {
        let fifo = Arc::new(Fifo::new(2, Clock::system()));
        let (task, _handle) = TaskOf::new(|| ()).into_parts();
        let (id, shared) = (task.id(), task.cell().expect("it has a handle").clone());
        assert!(push(&fifo, task));
        let other = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || assert!(fifo.remove_if(|_| false).is_empty())
        });
        assert!(fifo.remove(id, Some(shared.place().get())).is_some());
        other.join().unwrap();
        assert_eq!((fifo.len(), fifo.is_empty()), (0, true));
    });
}
