//! A bounded, non-blocking pipe between two tasks: an [`Inlet`] for items and an [`Outlet`].
//!
//! One lock guards everything. It is never held while user code runs: wakers are cloned before the
//! critical section, and wakers and items are called or dropped after it. A side that has to wait
//! stores its waker in the same critical section in which it found no item or no space. So the
//! other side finds the waker.

use std::collections::VecDeque;
use std::mem;
use std::task::{Context, Poll, Waker};

use crate::panic::{catch, drop_caught};
use crate::sync::{Arc, Mutex};

/// Creates a pipe for `capacity` items.
pub(super) fn pipe<T>(capacity: usize) -> (Inlet<T>, Outlet<T>) {
    let pipe = Arc::new(Pipe { capacity, state: Mutex::new(State::default()) });
    (Inlet(Arc::clone(&pipe)), Outlet(pipe))
}

struct Pipe<T> {
    capacity: usize,
    state: Mutex<State<T>>,
}

impl<T> Pipe<T> {
    /// Calls `look`. If the result is pending, clones the waker, calls `look` again, and stores the
    /// waker in `place` in the same critical section if the result is still pending.
    fn look_or_wait<R>(
        &self,
        context: &Context<'_>,
        mut look: impl FnMut(&mut State<T>) -> Poll<R>,
        place: impl FnOnce(&mut State<T>) -> &mut Option<Waker>,
    ) -> Poll<R> {
        let answer = look(&mut self.state.lock());
        if answer.is_ready() {
            return answer;
        }
        let mut waker = Some(context.waker().clone());
        let mut state = self.state.lock();
        let answer = look(&mut state);
        if answer.is_pending() {
            mem::swap(place(&mut state), &mut waker);
        }
        drop(state);
        drop_caught(waker);
        answer
    }
}

struct State<T> {
    /// At most `capacity` items: only the inlet adds items, and it checks for space first.
    items: VecDeque<T>,
    source: Source,
    /// The outlet has been dropped.
    unwanted: bool,
    /// The waker of the inlet, while it waits for space.
    filling: Option<Waker>,
    /// The waker of the outlet, while it waits for an item or the end.
    draining: Option<Waker>,
}

/// Whether more items can arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Open,
    /// The source has ended.
    Finished,
    /// The inlet was dropped before the source ended.
    Gone,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        State { items: VecDeque::new(), source: Source::Open, unwanted: false, filling: None, draining: None }
    }
}

/// The end of the pipe where items enter.
pub(super) struct Inlet<T>(Arc<Pipe<T>>);

/// The outlet has been dropped, so items are no longer needed.
#[derive(Debug)]
pub(super) struct Unwanted;

impl<T> Inlet<T> {
    /// Is ready when there is space for an item.
    ///
    /// A waiting inlet is woken when three quarters of the pipe are empty, not for every item,
    /// because a turn per item would cost more than processing most items.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<Result<(), Unwanted>> {
        let look = |state: &mut State<T>| {
            if state.unwanted {
                Poll::Ready(Err(Unwanted))
            } else if state.items.len() < self.0.capacity {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            }
        };
        self.0.look_or_wait(context, look, |state| &mut state.filling)
    }

    /// Adds an item, after `poll_room` was ready. If the outlet has been dropped, drops the item.
    pub(super) fn push(&self, item: T) {
        let mut state = self.0.state.lock();
        if state.unwanted {
            drop(state);
            return drop_caught(item);
        }
        state.items.push_back(item);
        let draining = state.draining.take();
        drop(state);
        wake(draining);
    }

    /// Marks the end of the source.
    pub(super) fn finish(self) {
        self.close(Source::Finished);
    }

    fn close(&self, source: Source) {
        let mut state = self.0.state.lock();
        if state.source == Source::Open {
            state.source = source;
        }
        let (filling, draining) = (state.filling.take(), state.draining.take());
        drop(state);
        drop_caught(filling);
        wake(draining);
    }
}

impl<T> Drop for Inlet<T> {
    fn drop(&mut self) {
        self.close(Source::Gone);
    }
}

/// The end of the pipe where items leave.
pub(super) struct Outlet<T>(Arc<Pipe<T>>);

/// The result of [`Outlet::poll_out`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Out<T> {
    Item(T),
    /// The source has ended.
    End,
    /// All items are taken, and the inlet was dropped before the source ended.
    Cut,
}

impl<T> Outlet<T> {
    /// Returns the next item, or the end after all items.
    pub(super) fn poll_out(&self, context: &Context<'_>) -> Poll<Out<T>> {
        let mut filling = None;
        let look = |state: &mut State<T>| match (state.items.pop_front(), state.source) {
            (Some(item), _) => {
                if state.items.len() <= self.0.capacity / 4 {
                    filling = state.filling.take();
                }
                Poll::Ready(Out::Item(item))
            }
            (None, Source::Open) => Poll::Pending,
            (None, Source::Finished) => Poll::Ready(Out::End),
            (None, Source::Gone) => Poll::Ready(Out::Cut),
        };
        let answer = self.0.look_or_wait(context, look, |state| &mut state.draining);
        wake(filling);
        answer
    }
}

impl<T> Drop for Outlet<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.unwanted = true;
        let items = mem::take(&mut state.items);
        let (filling, draining) = (state.filling.take(), state.draining.take());
        drop(state);
        drop_caught(draining);
        items.into_iter().for_each(drop_caught);
        wake(filling);
    }
}

/// Calls a waker. Wakers are user code, so a panic is caught.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        catch(|| waker.wake());
    }
}
