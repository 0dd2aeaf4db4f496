//! Starts threads one after the other, even if a start leads to further starts.
//!
//! Starting a thread calls a factory or an executor. That call may refuse, so that the next job of
//! a lane needs a thread. It may drop a task that it had accepted, with the same effect. It may
//! also run the task in place, which moves a periodic job on to its next thread. If each of these
//! calls started a thread directly, the stack would grow with every job of a lane. So such nested
//! starts are postponed until the outermost start on the same thread has returned.
//!
//! Two kinds of starts are not postponed. A submission has to know whether its own thread starts.
//! And a task that runs in place may wait for work that it submits, so nothing is postponed while
//! it runs ([`InTask`]).

use std::cell::RefCell;
use std::collections::VecDeque;

use super::model::Start;
use crate::sync::thread_local;

/// A start that is under way on this thread.
struct UnderWay {
    /// The address of the engine, used only for comparison.
    engine: usize,
    /// A task runs inside the start.
    is_in_task: bool,
    postponed: VecDeque<Start>,
}

thread_local! {
    /// The innermost start is the last entry.
    static UNDER_WAY: RefCell<Vec<UnderWay>> = none();
}

fn none() -> RefCell<Vec<UnderWay>> {
    RefCell::new(Vec::new())
}

/// Calls `f` with the innermost start for `engine` on this thread, if there is one.
fn innermost<R>(engine: usize, f: impl FnOnce(&mut UnderWay) -> R) -> Option<R> {
    let find = |all: &RefCell<Vec<UnderWay>>| {
        all.borrow_mut().iter_mut().rev().find(|start| start.engine == engine).map(f)
    };
    UNDER_WAY.try_with(find).ok().flatten()
}

/// Returns true if this thread is inside a thread start of `engine`.
pub(super) fn is_under_way(engine: usize) -> bool {
    innermost(engine, |_| ()).is_some()
}

/// Moves `starts` to the start that is under way on this thread, if there is one.
pub(super) fn postpone(engine: usize, starts: &mut Vec<Start>) {
    if starts.is_empty() {
        return;
    }
    innermost(engine, |start| {
        if !start.is_in_task {
            start.postponed.extend(starts.drain(..));
        }
    });
}

/// While it lives, this thread is inside a thread start.
pub(super) struct Starting(());

impl Starting {
    pub(super) fn enter(engine: usize) -> Starting {
        let start = UnderWay { engine, is_in_task: false, postponed: VecDeque::new() };
        let _ = UNDER_WAY.try_with(|all| all.borrow_mut().push(start));
        Starting(())
    }

    pub(super) fn next_postponed(&self) -> Option<Start> {
        let next = |all: &RefCell<Vec<UnderWay>>| all.borrow_mut().last_mut()?.postponed.pop_front();
        UNDER_WAY.try_with(next).ok().flatten()
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let _ = UNDER_WAY.try_with(|all| all.borrow_mut().pop());
    }
}

/// While it lives, a task runs inside a thread start.
pub(super) struct InTask {
    engine: usize,
    before: bool,
}

impl InTask {
    pub(super) fn enter(engine: usize) -> InTask {
        let before = innermost(engine, |start| std::mem::replace(&mut start.is_in_task, true));
        InTask { engine, before: before.unwrap_or(false) }
    }
}

impl Drop for InTask {
    fn drop(&mut self) {
        innermost(self.engine, |start| start.is_in_task = self.before);
    }
}
