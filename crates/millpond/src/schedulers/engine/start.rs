//! Starting threads: one after the other, whatever comes of it.
//!
//! To start a thread is to call a factory or an executor, which may do anything meanwhile. It refuses, and what comes next in the
//! lane asks for a thread; it throws away a task that it had taken, with the same result; or it runs the task in place, which passes
//! a series on to the next thread. If each of these called it from where it is, the stack would grow with every job of a
//! lane and every run of a series. So they leave that to the start which is under way on their thread: it goes on until
//! nothing is left.
//!
//! Two do not. A submission has to know whether its own thread comes. And a user's task that is run in place may wait
//! for what it asks for, so as long as it runs nothing is put off ([`InTask`]).

use std::cell::RefCell;
use std::collections::VecDeque;

use super::Engine;
use super::slot::SlotRef;
use super::threads::NotCarried;
use crate::sync::{Arc, thread_local};

/// A slot that needs a thread, and which attempt it is.
pub(super) type Start = (SlotRef, u64);

/// A start that is under way on this thread.
struct UnderWay {
    /// Only to be compared.
    engine: *const Engine,
    /// A task runs in the midst of it.
    in_task: bool,
    /// What came up since.
    put_off: VecDeque<Start>,
}

thread_local! {
    /// The innermost last.
    static UNDER_WAY: RefCell<Vec<UnderWay>> = none();
}

fn none() -> RefCell<Vec<UnderWay>> {
    RefCell::new(Vec::new())
}

/// Looks at the innermost start for `engine` on this thread. `None`: there is none.
fn innermost<R>(engine: *const Engine, look: impl FnOnce(&mut UnderWay) -> R) -> Option<R> {
    let find = |all: &RefCell<Vec<UnderWay>>| {
        all.borrow_mut().iter_mut().rev().find(|start| start.engine == engine).map(look)
    };
    UNDER_WAY.try_with(find).ok().flatten()
}

/// This thread is starting one for `engine`.
pub(super) fn is_under_way(engine: &Arc<Engine>) -> bool {
    innermost(Arc::as_ptr(engine), |_| ()).is_some()
}

/// Leaves these to the start that is under way on this thread, if one is.
pub(super) fn put_off(engine: &Arc<Engine>, starts: &mut Vec<Start>) {
    if starts.is_empty() {
        return;
    }
    innermost(Arc::as_ptr(engine), |start| {
        if !start.in_task {
            start.put_off.extend(starts.drain(..));
        }
    });
}

/// A start is under way as long as it lives.
struct Starting;

impl Starting {
    fn of(engine: &Arc<Engine>) -> Starting {
        let engine = Arc::as_ptr(engine);
        let start = UnderWay { engine, in_task: false, put_off: VecDeque::new() };
        let _ = UNDER_WAY.try_with(|all| all.borrow_mut().push(start));
        Starting
    }

    /// The next of those that were put off.
    fn next(&self) -> Option<Start> {
        let next = |all: &RefCell<Vec<UnderWay>>| all.borrow_mut().last_mut()?.put_off.pop_front();
        UNDER_WAY.try_with(next).ok().flatten()
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let _ = UNDER_WAY.try_with(|all| all.borrow_mut().pop());
    }
}

/// A task of the scheduler runs in the midst of a start, as long as it lives.
pub(super) struct InTask {
    engine: *const Engine,
    before: bool,
}

impl InTask {
    pub(super) fn of(engine: &Arc<Engine>) -> InTask {
        let engine = Arc::as_ptr(engine);
        let before = innermost(engine, |start| std::mem::replace(&mut start.in_task, true));
        InTask { engine, before: before.unwrap_or(false) }
    }
}

impl Drop for InTask {
    fn drop(&mut self) {
        innermost(self.engine, |start| start.in_task = self.before);
    }
}

impl Engine {
    /// Starts threads, and tells which of them could not be; then those that were put off meanwhile.
    pub(super) fn start(self: &Arc<Self>, starts: Vec<Start>, mut not_carried: impl FnMut(NotCarried)) {
        if starts.is_empty() {
            return;
        }
        let under_way = Starting::of(self);
        for (slot, ticket) in starts {
            if let Err(failed) = self.carry(slot, ticket) {
                not_carried(failed);
            }
        }
        while let Some((slot, ticket)) = under_way.next() {
            if let Err(failed) = self.carry(slot, ticket) {
                self.nobody_to_tell(&failed);
            }
        }
    }
}
