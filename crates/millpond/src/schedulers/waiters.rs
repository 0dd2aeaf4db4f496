//! Threads and futures that wait for the end of a scheduler.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::hooks;
use crate::interrupt::wait::{Key, WaitList};
use crate::interrupt::{Interrupted, ThreadContext, Wake};
use crate::panic::drop_caught;
use crate::sync::{Arc, Mutex, deadline_after};

/// The threads and futures that wait. Each enters itself before it looks, and whoever makes the condition true calls
/// [`wake_all`](Self::wake_all) afterwards: so no wake-up is missed.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// They leave by themselves.
    threads: WaitList<Arc<ThreadContext>>,
    /// They are taken out when they are woken, and leave when they are dropped.
    futures: WaitList<Waker>,
}

impl Waiters {
    /// Waits until `ready`, at most `timeout`.
    pub(super) fn wait(&self, timeout: Duration, ready: impl FnMut() -> bool) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = ThreadContext::current();
        let key = self.0.lock().threads.push(Arc::clone(&me));
        let wake = me.wait(deadline, ready);
        self.0.lock().threads.remove(key);
        match wake {
            Wake::Ready => Ok(true),
            Wake::TimedOut => Ok(false),
            Wake::Interrupted => Err(Interrupted),
        }
    }

    /// A future waits, with `waker` in the place of the one it had under `key`.
    fn enter(&self, key: &mut Option<Key>, waker: &Waker) {
        let mine = waker.clone();
        let mut waiting = self.0.lock();
        let before = key.take().and_then(|key| waiting.futures.remove(key));
        *key = Some(waiting.futures.push(mine));
        drop(waiting);
        drop_caught(before);
    }

    /// A future waits no more.
    fn leave(&self, key: Option<Key>) {
        let waker = key.and_then(|key| self.0.lock().futures.remove(key));
        drop_caught(waker);
    }

    /// Everybody looks again.
    pub(super) fn wake_all(&self) {
        let mut waiting = self.0.lock();
        let threads: Vec<_> = waiting.threads.iter().cloned().collect();
        let futures = waiting.futures.take_all(|_| true);
        drop(waiting);
        threads.iter().for_each(|thread| thread.unpark());
        futures.into_iter().for_each(hooks::quietly_wake);
    }
}

/// What has an end that can be begun and awaited.
pub(super) trait Ends: Send + Sync {
    /// Takes nothing more, and works off what it has.
    fn begin_drain(&self);
    fn has_ended(&self) -> bool;
    fn waiters(&self) -> &Waiters;
}

/// The graceful end as a future.
pub(super) struct Disposal<E: Ends> {
    of: Arc<E>,
    /// Where it is among the waiters, from the first poll on.
    key: Option<Key>,
}

impl<E: Ends> Disposal<E> {
    pub(super) fn new(of: Arc<E>) -> Disposal<E> {
        Disposal { of, key: None }
    }
}

impl<E: Ends> Future for Disposal<E> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Disposal { of, key } = &mut *self;
        of.begin_drain();
        of.waiters().enter(key, context.waker());
        if !of.has_ended() {
            return Poll::Pending;
        }
        of.waiters().leave(*key);
        Poll::Ready(())
    }
}

impl<E: Ends> Drop for Disposal<E> {
    fn drop(&mut self) {
        self.of.waiters().leave(self.key);
    }
}
