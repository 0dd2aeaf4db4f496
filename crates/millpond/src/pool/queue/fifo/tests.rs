//! Tests of the queue as the pool uses it: compared with a simple model, and with several threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering as Order};
use std::sync::{Barrier, Mutex};
use std::thread;

use super::super::segments::tests::{KINDS, Rng, SEGMENT, Tally, task};
use super::Fifo;
use crate::task::{Task, TaskId, TaskOf};
use crate::time::clock::Clock;

fn put(fifo: &Fifo, task: Task) -> bool {
    fifo.push(task.id(), task, || ()).is_ok()
}

#[test]
fn the_first_task_can_be_looked_at_where_it_lies() {
    let fifo = Fifo::new(8, Clock::system());
    let name = |fifo: &Fifo| fifo.with_first(|first| first.map(|task| task.name().unwrap().to_owned()));
    assert_eq!(name(&fifo), None);
    let named = ["a", "b", "c"].map(|name| Task::new(|| {}).named(name));
    let second = named[1].id();
    assert!(named.into_iter().all(|task| put(&fifo, task)));
    assert!(put(&fifo, Task::new(|| {})));
    assert_eq!(name(&fifo).as_deref(), Some("a"));
    assert!(fifo.remove(second, None).is_some()); // a tombstone behind the head
    assert_eq!((name(&fifo).as_deref(), fifo.len()), (Some("a"), 3));
    drop(fifo.pop());
    assert_eq!(name(&fifo).as_deref(), Some("c"));
    drop(fifo.pop());
    assert_eq!((name(&fifo), fifo.len()), (None, 1), "one without a label lies in the queue itself");
}

#[test]
fn random_steps_give_what_a_simple_queue_gives() {
    let seeds = if cfg!(miri) { 4 } else { 20 };
    for seed in 0..seeds {
        let mut rng = Rng(1000 + seed);
        let tally = Tally::default();
        let capacity = [1, 7, 300, usize::MAX][seed as usize % 4];
        let fifo = Fifo::new(capacity, Clock::system());
        let mut model: VecDeque<(TaskId, Option<u64>)> = VecDeque::new();
        let (mut made, mut accepted, mut taken_back) = (0, 0, 0);
        for _ in 0..if cfg!(miri) { 120 } else { 4000 } {
            match rng.below(20) {
                0..9 => {
                    let task = task(rng.below(KINDS), made, &tally);
                    made += 1;
                    let id = task.id();
                    let full = model.len() == capacity;
                    assert_eq!(fifo.is_full(), full);
                    match fifo.push(task.id(), task, || "looked") {
                        Ok(look) => {
                            assert!(!full && look == "looked");
                            model.push_back((id, fifo.segments.place_of(id)));
                            accepted += 1;
                        }
                        Err(back) => assert!(full && back.id() == id),
                    }
                }
                9..14 => {
                    let popped = fifo.pop().map(|task| task.id());
                    assert_eq!(popped, model.pop_front().map(|(id, _)| id));
                }
                14..17 if !model.is_empty() => {
                    // By the position of its push: it may have been moved meanwhile.
                    let (id, place) = model.remove(rng.below(model.len())).expect("it is in the model");
                    assert_eq!(fifo.remove(id, place).expect("it waits").id(), id);
                    assert!(fifo.remove(id, place).is_none());
                }
                17 if !model.is_empty() => {
                    let (id, _) = model.remove(rng.below(model.len())).expect("it is in the model");
                    assert_eq!(fifo.unpush(id).expect("it waits").id(), id);
                    assert!(fifo.unpush(id).is_none());
                    taken_back += 1;
                }
                18 if rng.below(8) == 0 => {
                    let gone: Vec<TaskId> = model.iter().step_by(2).map(|(id, _)| *id).collect();
                    let removed = fifo.remove_if(|task| gone.contains(&task.id()));
                    assert!(removed.iter().map(Task::id).eq(gone.iter().copied()));
                    model.retain(|(id, _)| !gone.contains(id));
                }
                _ => fifo.trim(),
            }
            assert_eq!(fifo.len(), model.len());
            assert!(!fifo.is_empty() || model.is_empty());
            assert_eq!(fifo.pushed(), accepted - taken_back);
        }
        assert!(fifo.ids().into_iter().eq(model.iter().map(|(id, _)| *id)));
        drop(fifo);
        tally.assert_dropped(made);
    }
}

/// `is_empty` is true only if the queue is empty, and is true after a pop that found no task.
#[test]
fn an_empty_queue_is_known_to_be_empty() {
    let fifo = Fifo::new(4, Clock::system());
    assert!(fifo.is_empty());
    let (task, _handle) = TaskOf::new(|| ()).into_parts();
    let last = task.id();
    assert!(put(&fifo, Task::new(|| {})) && put(&fifo, task));
    drop(fifo.remove(last, None));
    assert!(!fifo.is_empty());
    drop(fifo.pop());
    assert_eq!(fifo.len(), 0);
    assert!(fifo.pop().is_none());
    assert!(fifo.is_empty());
}

/// Some programs cancel most tasks before they run. The queue must not grow because of their
/// tombstones. One task stays at the head, so that the tombstones behind it are not simply skipped.
#[test]
fn holes_do_not_pile_up() {
    let (fifo, tally) = (Fifo::new(usize::MAX, Clock::system()), Tally::default());
    let rounds = if cfg!(miri) { 200 } else { 20_000 };
    let stays: Vec<TaskId> = (0..3)
        .map(|n| {
            let task = task(n, n, &tally);
            let id = task.id();
            assert!(put(&fifo, task));
            id
        })
        .collect();
    let mut most = 0;
    for n in 3..rounds {
        let task = task(n, n, &tally);
        let id = task.id();
        assert!(put(&fifo, task));
        let place = fifo.segments.place_of(id);
        assert_eq!(fifo.remove(id, place.filter(|_| n % 2 == 0)).expect("it waits").id(), id);
        most = most.max(fifo.segments.held());
    }
    // Up to two tombstones per task and 16 more, spread across segments, plus a spare segment.
    let (words, longest) = SEGMENT;
    assert!(most <= 3 * (stays.len() + 1 + 16) * longest / words + 3, "{most} segments");
    assert_eq!(fifo.ids(), stays);
    drop(fifo);
    tally.assert_dropped(rounds);
}

#[test]
fn a_task_that_was_moved_is_found_by_its_old_place() {
    let (fifo, tally) = (Fifo::new(usize::MAX, Clock::system()), Tally::default());
    let ids: Vec<TaskId> = (0..20)
        .map(|n| {
            let task = task(n, n, &tally);
            let id = task.id();
            assert!(put(&fifo, task));
            id
        })
        .collect();
    let places: Vec<_> = ids.iter().map(|id| fifo.segments.place_of(*id)).collect();
    assert!(fifo.remove_if(|_| false).is_empty());
    for (id, place) in ids.iter().zip(places) {
        assert_ne!(fifo.segments.place_of(*id), place);
        assert_eq!(fifo.remove(*id, place).expect("it waits").id(), *id);
    }
    assert!(fifo.is_empty());
    tally.assert_dropped(20);
}

#[test]
fn a_burst_is_given_back_by_trim() {
    let (fifo, tally) = (Fifo::new(usize::MAX, Clock::system()), Tally::default());
    let many = if cfg!(miri) { 450 } else { 20_000 };
    (0..many).for_each(|n| assert!(put(&fifo, task(n, n, &tally))));
    let most = fifo.segments.held();
    fifo.trim();
    assert_eq!(fifo.segments.held(), most, "all are in use");
    while let Some(task) = fifo.pop() {
        drop(task);
    }
    fifo.trim();
    assert!(most > 8 && fifo.segments.held() <= 5, "{} of {most} segments", fifo.segments.held());
    assert!(put(&fifo, Task::new(|| {})) && fifo.pop().is_some());
    tally.assert_dropped(many);
}

/// Runs `f` on threads that start at the same time.
fn together(threads: usize, f: impl Fn(usize) + Sync) {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        for n in 0..threads {
            let (start, f) = (&start, &f);
            scope.spawn(move || {
                start.wait();
                f(n);
            });
        }
    });
}

#[test]
fn exactly_as_many_tasks_as_fit_are_accepted_from_several_threads() {
    let capacity = if cfg!(miri) { 9 } else { 1001 };
    let fifo = Fifo::new(capacity, Clock::system());
    let accepted = AtomicUsize::new(0);
    let fill = || {
        together(3, |_| {
            while put(&fifo, Task::new(|| {})) {
                accepted.fetch_add(1, Order::Relaxed);
                assert!(fifo.len() <= capacity);
            }
        });
        accepted.swap(0, Order::Relaxed)
    };
    assert_eq!(fill(), capacity);
    assert!(fifo.is_full() && fifo.len() == capacity);
    (0..4).for_each(|_| drop(fifo.pop()));
    let ids = fifo.ids();
    drop(fifo.remove(ids[2], None));
    assert_eq!(fill(), 5, "as many as were taken out");
    assert_eq!(fifo.remove_if(|_| true).len(), capacity);
    assert_eq!(fill(), capacity);
}

/// Producers and consumers: no task is lost or duplicated, the tasks of each producer keep their
/// order, and the length never exceeds the capacity, neither by `len` nor by the test's own count.
#[test]
fn the_bound_and_the_order_hold_with_several_threads() {
    const PRODUCERS: usize = 2;
    let each = if cfg!(miri) { 20 } else { 2000 };
    for capacity in [1, 5, 64] {
        let (fifo, tally) = (Fifo::new(capacity, Clock::system()), Tally::default());
        // Finished pushes and started pops: the queue holds at least their difference.
        let (put_so_far, takes, taken) = (AtomicI64::new(0), AtomicI64::new(0), AtomicUsize::new(0));
        // The ids that each thread pushed or popped, in its order.
        let seen = Mutex::new(vec![Vec::new(); PRODUCERS + 2]);
        together(PRODUCERS + 2, |me| {
            let mut mine = Vec::new();
            if me < PRODUCERS {
                for n in 0..each {
                    let mut next = task(n, me * each + n, &tally);
                    mine.push(next.id());
                    loop {
                        match fifo.push(next.id(), next, || ()) {
                            Ok(()) => break,
                            Err(back) => next = back,
                        }
                        thread::yield_now();
                    }
                    put_so_far.fetch_add(1, Order::SeqCst);
                }
            }
            while me >= PRODUCERS && taken.load(Order::Relaxed) < PRODUCERS * each {
                assert!(fifo.len() <= capacity);
                let there = put_so_far.load(Order::SeqCst) - takes.load(Order::SeqCst);
                assert!(there <= capacity as i64, "{there} are there, and {capacity} may be");
                takes.fetch_add(1, Order::SeqCst);
                match fifo.pop() {
                    Some(task) => {
                        taken.fetch_add(1, Order::Relaxed);
                        mine.push(task.id());
                    }
                    None => {
                        takes.fetch_sub(1, Order::SeqCst);
                        thread::yield_now();
                    }
                }
            }
            seen.lock().unwrap()[me] = mine;
        });
        assert!(fifo.is_empty());
        tally.assert_dropped(PRODUCERS * each);
        let seen = seen.into_inner().unwrap();
        let (producers, consumers) = seen.split_at(PRODUCERS);
        assert_eq!(consumers.iter().map(Vec::len).sum::<usize>(), PRODUCERS * each);
        for (ids, took) in producers.iter().flat_map(|ids| consumers.iter().map(move |took| (ids, took))) {
            let numbers = took.iter().filter_map(|id| ids.iter().position(|other| other == id));
            assert!(numbers.is_sorted(), "what one has put and another taken is in order");
        }
    }
}

/// The last task is popped and only tombstones are left: the queue is empty without another pop.
#[test]
fn a_queue_of_nothing_but_holes_is_empty() {
    let (fifo, tally) = (Fifo::new(usize::MAX, Clock::system()), Tally::default());
    let ids: Vec<_> = (0..4)
        .map(|n| {
            let token = task(0, n, &tally);
            let (task, _handle) = TaskOf::new(move || token.run()).into_parts();
            let id = task.id();
            assert!(put(&fifo, task));
            id
        })
        .collect();
    assert!(fifo.remove(ids[2], None).is_some());
    assert!(fifo.remove(ids[3], None).is_some());
    assert!(fifo.pop().is_some() && !fifo.is_empty());
    assert!(fifo.pop().is_some() && fifo.is_empty());
}

/// Tasks with handles are pushed, popped, cancelled by position, purged and moved while memory is
/// trimmed. Each task has exactly one end.
#[test]
fn put_take_remove_and_trim_at_the_same_time() {
    let each = if cfg!(miri) { 25 } else { 2000 };
    let (fifo, tally) = (Fifo::new(usize::MAX, Clock::system()), Tally::default());
    let (out, turn) = (AtomicUsize::new(0), AtomicUsize::new(0));
    together(4, |me| match me {
        0 | 1 => {
            let mut rng = Rng(me as u64);
            for n in 0..each {
                let token = task(n, me * each + n, &tally);
                let (task, _handle) = TaskOf::new(move || token.run()).into_parts();
                let shared = task.cell().expect("it has a handle").clone();
                assert!(put(&fifo, task));
                if rng.below(3) > 0 {
                    let removed = fifo.remove(shared.id(), Some(shared.place().get()));
                    assert!(removed.iter().all(|task| task.id() == shared.id()));
                    out.fetch_add(usize::from(removed.is_some()), Order::SeqCst);
                }
            }
        }
        2 => {
            while out.load(Order::SeqCst) < 2 * each {
                match fifo.pop() {
                    Some(task) => {
                        task.run();
                        out.fetch_add(1, Order::SeqCst);
                    }
                    None => thread::yield_now(),
                }
            }
        }
        _ => {
            let mut rng = Rng(7);
            while out.load(Order::SeqCst) < 2 * each {
                match rng.below(4) {
                    0 => {
                        // Removes every third task; the others are moved.
                        let removed = fifo.remove_if(|_| turn.fetch_add(1, Order::Relaxed).is_multiple_of(3));
                        out.fetch_add(removed.len(), Order::SeqCst);
                    }
                    1 => fifo.trim(),
                    2 => assert!(fifo.ids().len() <= 2 * each),
                    _ => thread::yield_now(),
                }
            }
        }
    });
    assert!(fifo.is_empty());
    assert_eq!(fifo.pushed(), 2 * each as u64);
    tally.assert_dropped(2 * each);
}
