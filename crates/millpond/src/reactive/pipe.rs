//! A bounded pipe between two tasks: one puts items in, the other takes them out, both without blocking.
//!
//! All is under one lock, never held while user code runs: wakers are cloned before it is taken, called and
//! dropped after it is given back, and so are items. A side that finds nothing to do leaves its waker under
//! the same lock hold, so whoever changes that finds it there.

use std::collections::VecDeque;
use std::mem;
use std::task::{Context, Poll, Waker};

use crate::panic::{catch, drop_caught};
use crate::sync::{Arc, Mutex};

/// A pipe for `capacity` items.
pub(super) fn pipe<T>(capacity: usize) -> (Inlet<T>, Outlet<T>) {
    let pipe = Arc::new(Pipe { capacity, state: Mutex::new(State::default()) });
    (Inlet(Arc::clone(&pipe)), Outlet(pipe))
}

struct Pipe<T> {
    capacity: usize,
    state: Mutex<State<T>>,
}

impl<T> Pipe<T> {
    /// Looks whether there is something to do. If there is not, looks again with a waker at hand, which is
    /// then left in `place` under the same hold of the lock.
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
    /// At most `capacity`: the inlet asks for room first, and nobody else puts anything in.
    items: VecDeque<T>,
    source: Source,
    /// The outlet is gone.
    unwanted: bool,
    /// The inlet waits for room.
    filling: Option<Waker>,
    /// The outlet waits for an item, or for the end.
    draining: Option<Waker>,
}

/// What may still come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Open,
    /// That was all.
    Finished,
    /// The inlet went without a word.
    Gone,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        State { items: VecDeque::new(), source: Source::Open, unwanted: false, filling: None, draining: None }
    }
}

/// Where items go in.
pub(super) struct Inlet<T>(Arc<Pipe<T>>);

/// There is no use in putting anything in: the outlet is gone.
#[derive(Debug)]
pub(super) struct Unwanted;

impl<T> Inlet<T> {
    /// Ready when there is room for an item.
    ///
    /// Who waits here is called when three quarters of the pipe are empty, not for every item: a turn for
    /// each would cost more than most items do.
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

    /// Puts an item in, after `poll_room` said that there is room. Dropped if nobody wants it.
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

    /// Says that nothing more comes.
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

/// Where items come out.
pub(super) struct Outlet<T>(Arc<Pipe<T>>);

/// What comes out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Out<T> {
    Item(T),
    /// That was all.
    End,
    /// All that was put in is out, but the inlet went without saying that this was all.
    Cut,
}

impl<T> Outlet<T> {
    /// The next item; those that are in the pipe come out before the end does.
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

/// A waker is not ours: what it panics with has nowhere to go.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        catch(|| waker.wake());
    }
}
