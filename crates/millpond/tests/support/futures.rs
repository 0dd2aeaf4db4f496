//! Futures for tests.
#![allow(dead_code, reason = "every test file uses some of it")]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Pending until it is set. Keeps the last waker it saw.
#[derive(Clone, Default)]
pub(crate) struct Signal(Arc<Mutex<(bool, Option<Waker>)>>);

impl Signal {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn set(&self) {
        let waker = {
            let mut inner = self.0.lock().unwrap();
            inner.0 = true;
            inner.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Wakes the waiters without setting the signal.
    pub(crate) fn knock(&self) {
        let waker = self.0.lock().unwrap().1.clone();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Removes the waiters.
    pub(crate) fn forget(&self) {
        let waker = self.0.lock().unwrap().1.take();
        drop(waker);
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.0.lock().unwrap().1.is_some()
    }
}

impl Future for Signal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.0.lock().unwrap();
        if inner.0 {
            return Poll::Ready(());
        }
        inner.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Wakes itself `times` times before it is ready.
pub(crate) fn yields(times: usize) -> impl Future<Output = usize> + Send {
    let mut polls = 0;
    poll_fn(move |context| {
        polls += 1;
        if polls > times {
            return Poll::Ready(polls);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
