//! The lifetime of an `on_interrupt` callback: it ends before its registration, its task or its
//! thread is gone.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::support::pools::fixed;
use crate::support::{Counter, Gate, LONG, Notes, eventually, occupied};
use millpond::interrupt::{self, Interrupter, Registration};
use millpond::{Task, ThreadPoolExecutor, WorkQueue, executors, policy};

/// Interrupts `me` from another thread. When this returns, the callback is running there. It ends
/// when `me` parks, or records that `me` continued without waiting.
fn run_callback_elsewhere(
    me: &Interrupter,
    notes: &Notes<&'static str>,
    register: impl FnOnce(Box<dyn FnOnce() + Send>),
) -> thread::JoinHandle<()> {
    let entered = Gate::new();
    let (enter, note, target) = (entered.clone(), notes.clone(), me.clone());
    register(Box::new(move || {
        enter.open();
        eventually(|| target.is_parked() || note.contains(&"went on"));
        note.add("callback ended");
    }));
    let target = me.clone();
    let interrupting = thread::spawn(move || target.interrupt());
    entered.pass();
    interrupting
}

const IN_ORDER: [&str; 2] = ["callback ended", "went on"];

#[test]
fn dropping_a_registration_waits_for_its_running_callback() {
    let notes = Notes::new();
    let me = interrupt::current();
    let mut registration = None;
    let interrupting = run_callback_elsewhere(&me, &notes, |f| registration = Some(me.on_interrupt(f)));
    drop(registration);
    notes.add("went on");
    interrupting.join().unwrap();
    assert!(interrupt::interrupted(), "the wait leaves the flag alone");
    assert_eq!(notes.take(), IN_ORDER);
}

#[test]
fn the_next_task_of_a_worker_begins_after_the_callbacks_of_the_one_before() {
    let pool = fixed(1);
    let notes = Notes::new();
    let note = notes.clone();
    let leaks = pool.submit(move || {
        let me = interrupt::current();
        run_callback_elsewhere(&me, &note, |f| std::mem::forget(me.on_interrupt(f)))
    });
    let note = notes.clone();
    pool.submit(move || note.add("went on")).unwrap().join().unwrap();
    leaks.unwrap().join().unwrap().join().unwrap();
    assert_eq!(notes.take(), IN_ORDER);
    pool.close();
}

#[test]
fn a_task_run_in_place_ends_after_its_callbacks() {
    let notes = Notes::new();
    let (note, (send, receive)) = (notes.clone(), mpsc::channel());
    Task::new(move || {
        let me = interrupt::current();
        let interrupting = run_callback_elsewhere(&me, &note, |f| std::mem::forget(me.on_interrupt(f)));
        send.send(interrupting).unwrap();
    })
    .run();
    notes.add("went on");
    receive.recv().unwrap().join().unwrap();
    assert_eq!(notes.take(), IN_ORDER);
}

/// Registered by another thread while the flag is set: the callback runs on that thread.
#[test]
fn a_callback_that_runs_at_once_on_another_thread_is_waited_for_too() {
    let notes = Notes::new();
    let (note, (send, receive)) = (notes.clone(), mpsc::channel());
    Task::new(move || {
        let me = interrupt::current();
        me.interrupt();
        let (entered, target) = (Gate::new(), me.clone());
        let enter = entered.clone();
        let registering = thread::spawn(move || {
            let parked = target.clone();
            let registration = target.on_interrupt(move || {
                enter.open();
                eventually(|| parked.is_parked() || note.contains(&"went on"));
                note.add("callback ended");
            });
            drop(registration);
        });
        entered.pass();
        send.send(registering).unwrap();
    })
    .run();
    notes.add("went on");
    receive.recv().unwrap().join().unwrap();
    assert_eq!(notes.take(), IN_ORDER);
}

#[test]
fn a_callback_whose_registration_is_dropped_before_its_turn_is_not_called() {
    let me = interrupt::current();
    let (running, called) = (Gate::new(), Counter::new());
    let (first, leave) = (running.clone(), Gate::new());
    let wait = leave.clone();
    let one = me.on_interrupt(move || {
        first.open();
        wait.pass();
    });
    let count = called.clone();
    let two = me.on_interrupt(move || count.add());
    let target = me.clone();
    let interrupting = thread::spawn(move || target.interrupt());
    running.pass();
    drop(two); // does not wait for the other one
    leave.open();
    interrupting.join().unwrap();
    drop(one);
    assert!(interrupt::interrupted());
    assert_eq!(called.get(), 0);
}

#[test]
fn a_callback_may_drop_its_own_registration() {
    let me = interrupt::current();
    let mine: Arc<Mutex<Option<Registration>>> = Arc::default();
    let (drop_it, called) = (Arc::clone(&mine), Counter::new());
    let count = called.clone();
    let registration = me.on_interrupt(move || {
        drop(drop_it.lock().unwrap().take());
        count.add();
    });
    *mine.lock().unwrap() = Some(registration);
    thread::spawn(move || me.interrupt()).join().unwrap();
    assert!(interrupt::interrupted());
    assert_eq!(called.get(), 1);
}

/// The callback runs on the thread of its own task, and runs further tasks to their end.
#[test]
fn a_task_that_interrupts_itself_and_runs_tasks_in_the_callback_goes_on() {
    let pool = fixed(1);
    let inside = pool.clone();
    let joined = pool.submit(move || {
        let (send, receive) = mpsc::channel();
        let me = interrupt::current();
        let _registration = me.on_interrupt(move || {
            Task::new(|| assert!(!interrupt::interrupted())).run();
            send.send(inside.submit(|| 7).unwrap().join().unwrap()).unwrap();
        });
        me.interrupt();
        receive.recv_timeout(LONG)
    });
    assert_eq!(joined.unwrap().join().unwrap(), Ok(7));
    pool.close();
}

/// The scenario behind this file: one connection per worker, whose running query is interrupted.
#[test]
fn a_cancelled_query_never_cancels_the_query_of_the_next_task() {
    let pool = fixed(1);
    let (wrong, in_query) = (Counter::new(), Arc::new(Mutex::new(0)));
    for query in crate::support::rounds(300).map(|round| round + 1) {
        let (connection, begun) = (Arc::clone(&in_query), Gate::new());
        let begin = begun.clone();
        let victim = pool.submit(move || {
            *connection.lock().unwrap() = query;
            let stop = Arc::clone(&connection);
            let _registration = interrupt::current().on_interrupt(move || {
                thread::yield_now();
                let mut running = stop.lock().unwrap();
                *running = if *running == query { 0 } else { usize::MAX };
            });
            begin.open();
            while !interrupt::is_interrupted() {
                thread::yield_now();
            }
        });
        let (connection, count) = (Arc::clone(&in_query), wrong.clone());
        let next = pool.submit(move || {
            *connection.lock().unwrap() = 1_000_000;
            thread::yield_now();
            if *connection.lock().unwrap() != 1_000_000 {
                count.add();
            }
        });
        begun.pass();
        victim.unwrap().cancel(true);
        next.unwrap().join().unwrap();
    }
    pool.close();
    assert_eq!(wrong.get(), 0);
}

// ---- what is kept

#[test]
fn a_callback_registered_on_an_ended_task_is_dropped_at_once() {
    let dropped = Counter::new();
    let pool = executors::fixed(1).unwrap();
    let ended = pool.submit(interrupt::current).unwrap().join().unwrap();
    pool.submit(|| ()).unwrap().join().unwrap(); // a join may return before the worker is idle
    let captured = dropped.on_drop();
    let registration = ended.on_interrupt(move || drop(captured));
    assert_eq!(dropped.get(), 1);
    drop(registration);
    pool.close();
}

/// Another thread registers the callback just when the task ends. The worker is idle afterwards,
/// and must not keep the callback.
#[test]
fn a_callback_registered_while_its_task_ends_does_not_stay() {
    let pool = fixed(1);
    for _ in crate::support::rounds(2000) {
        let dropped = Counter::new();
        let (send, receive) = mpsc::channel();
        let task = pool.submit(move || send.send(interrupt::current()).unwrap()).unwrap();
        let captured = dropped.on_drop();
        std::mem::forget(receive.recv().unwrap().on_interrupt(move || drop(captured)));
        task.join().unwrap();
        eventually(|| dropped.get() == 1);
    }
    pool.close();
}

/// The callback keeps its thread's interrupter alive, which must not keep the callback alive.
#[test]
fn a_thread_that_is_no_task_keeps_no_callback_when_it_ends() {
    let dropped = Counter::new();
    let captured = dropped.on_drop();
    let kept = thread::spawn(move || {
        let me = interrupt::current();
        let again = me.clone();
        std::mem::forget(me.on_interrupt(move || drop((captured, again))));
        me
    })
    .join()
    .unwrap();
    assert_eq!(dropped.get(), 1);
    let (count, captured) = (Counter::new(), dropped.on_drop());
    let called = count.clone();
    let registration = kept.on_interrupt(move || {
        called.add();
        drop(captured);
    });
    assert_eq!(dropped.get(), 2, "nor does one that has ended");
    kept.interrupt();
    assert!(!kept.is_interrupted());
    drop(registration);
    assert_eq!(count.get(), 0);
}

#[test]
fn a_thread_ends_after_the_callbacks_that_run_for_it() {
    let notes = Notes::new();
    let note = notes.clone();
    let interrupting = thread::spawn(move || {
        let me = interrupt::current();
        let entered = Gate::new();
        let enter = entered.clone();
        std::mem::forget(me.on_interrupt(move || {
            enter.open();
            thread::sleep(Duration::from_millis(20)); // exposes a caller that does not wait
            note.add("callback ended");
        }));
        let interrupting = thread::spawn(move || me.interrupt());
        entered.pass();
        interrupting
    });
    let interrupting = interrupting.join().unwrap();
    notes.add("went on");
    interrupting.join().unwrap();
    assert_eq!(notes.take(), IN_ORDER);
}

#[test]
fn a_caller_runs_task_keeps_no_callback() {
    let pool = ThreadPoolExecutor::builder()
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy::CallerRuns)
        .build()
        .unwrap();
    let gate = occupied(&pool);
    let dropped = Counter::new();
    let captured = dropped.on_drop();
    pool.execute(move || std::mem::forget(interrupt::current().on_interrupt(move || drop(captured))))
        .unwrap();
    assert_eq!(dropped.get(), 1);
    gate.open();
    pool.close();
}
