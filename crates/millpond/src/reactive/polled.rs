//! [`Polled`]: a future that is polled in turns, inside the decorator of its executor if there is
//! one.
//!
//! A decorator wraps a task once, before its first turn, and receives a [`Body`] that it may call
//! many times. Each call polls the future once. The decorator never receives the future itself. A
//! turn puts the future into the [`Stage`] that it shares with the body, calls the decorated body,
//! and then takes the future and the result of the poll out of the stage.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::panic::drop_caught;
use crate::sync::{Arc, Mutex};
use crate::task::Payload;
use crate::task::periodic::Body;

/// A polled future with the result of the poll, or the panic that ended it.
type Answer<P, F> = Result<(P, Poll<<F as Future>::Output>), Payload>;

/// A future between two polls.
pub(super) struct Polled<F: Future> {
    future: Pin<Box<F>>,
    decorated: Option<Decorated<F>>,
}

/// The body returned by a decorator, and the stage where it finds the future.
pub(super) struct Decorated<F: Future> {
    body: Body,
    stage: Arc<Mutex<Stage<F>>>,
}

/// The state shared by a turn and the decorated body. Empty between turns.
enum Stage<F: Future> {
    Empty,
    /// The future is to be polled.
    Before(Pin<Box<F>>, Waker),
    After(Pin<Box<F>>, Poll<F::Output>),
}

impl<F> Polled<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    pub(super) fn new(future: F) -> Self {
        Polled { future: Box::pin(future), decorated: None }
    }

    pub(super) fn is_decorated(&self) -> bool {
        self.decorated.is_some()
    }

    pub(super) fn set_decorated(&mut self, decorated: Decorated<F>) {
        self.decorated = Some(decorated);
    }

    /// Polls once. The error is a panic of the future or of its decorator; the future is dropped in
    /// that case.
    pub(super) fn poll(self, waker: &Waker) -> Answer<Self, F> {
        let Polled { future, decorated } = self;
        let Some(mut decorated) = decorated else {
            let (future, answer) = poll_once(future, waker)?;
            return Ok((Polled { future, decorated: None }, answer));
        };
        *decorated.stage.lock() = Stage::Before(future, waker.clone());
        let called = catch_unwind(AssertUnwindSafe(&mut decorated.body));
        let left = std::mem::replace(&mut *decorated.stage.lock(), Stage::Empty);
        match (called, left) {
            (Ok(()), Stage::After(future, answer)) => {
                Ok((Polled { future, decorated: Some(decorated) }, answer))
            }
            (called, left) => {
                drop_caught(left);
                drop_caught(decorated);
                called.and(Err(Box::new("the decorator did not poll the future")))
            }
        }
    }
}

impl<F> Decorated<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Lets `wrap` decorate the polls of a future. Returns `None` if `wrap` panicked.
    pub(super) fn by(wrap: &mut dyn FnMut(Body) -> Body) -> Option<Self> {
        let stage = Arc::new(Mutex::new(Stage::Empty));
        let polls = {
            let stage = Arc::clone(&stage);
            Box::new(move || poll_staged(&stage))
        };
        match catch_unwind(AssertUnwindSafe(|| wrap(polls))) {
            Ok(body) => Some(Decorated { body, stage }),
            Err(payload) => {
                drop_caught(payload);
                None
            }
        }
    }
}

/// Polls the staged future, unless it has already been polled in this turn.
fn poll_staged<F: Future>(stage: &Mutex<Stage<F>>) {
    let mut staged = stage.lock();
    let (future, waker) = match std::mem::replace(&mut *staged, Stage::Empty) {
        Stage::Before(future, waker) => (future, waker),
        other => return *staged = other,
    };
    drop(staged);
    match poll_once(future, &waker) {
        Ok((future, answer)) => *stage.lock() = Stage::After(future, answer),
        Err(payload) => resume_unwind(payload),
    }
}

/// Polls once. If the future panics, it is dropped.
fn poll_once<F: Future>(mut future: Pin<Box<F>>, waker: &Waker) -> Answer<Pin<Box<F>>, F> {
    let poll = || future.as_mut().poll(&mut Context::from_waker(waker));
    match catch_unwind(AssertUnwindSafe(poll)) {
        Ok(answer) => Ok((future, answer)),
        Err(payload) => {
            drop_caught(future);
            Err(payload)
        }
    }
}
