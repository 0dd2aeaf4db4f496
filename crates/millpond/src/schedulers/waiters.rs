//! Threads and futures that wait for the end of a scheduler.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::hooks;
use crate::interrupt::{Interrupted, Sleeper, Wake};
use crate::sync::{Arc, Mutex, deadline_after};

/// Those who wait. They enter themselves before they look, and whoever makes true what they wait for calls
/// [`wake_all`](Self::wake_all) afterwards: so no wake-up is missed.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// They leave by themselves.
    threads: Vec<Arc<Sleeper>>,
    /// They are taken out when they are woken.
    futures: Vec<Waker>,
}

impl Waiters {
    /// Waits until `ready`, at most `timeout`.
    pub(super) fn wait(&self, timeout: Duration, ready: impl FnMut() -> bool) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Sleeper::current();
        self.0.lock().threads.push(Arc::clone(&me));
        let wake = me.wait(deadline, ready);
        self.0.lock().threads.retain(|sleeper| !Arc::ptr_eq(sleeper, &me));
        match wake {
            Wake::Ready => Ok(true),
            Wake::TimedOut => Ok(false),
            Wake::Interrupted => Err(Interrupted),
        }
    }

    fn enter(&self, waker: &Waker) {
        let mine = waker.clone();
        let mut waiting = self.0.lock();
        if !waiting.futures.iter().any(|known| known.will_wake(waker)) {
            waiting.futures.push(mine);
        }
    }

    /// Everybody looks again.
    pub(super) fn wake_all(&self) {
        let mut waiting = self.0.lock();
        let threads = waiting.threads.clone();
        let futures = std::mem::take(&mut waiting.futures);
        drop(waiting);
        threads.iter().for_each(|sleeper| sleeper.unpark());
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
pub(super) struct Disposal<E>(pub(super) Arc<E>);

impl<E: Ends> Future for Disposal<E> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.begin_drain();
        self.0.waiters().enter(context.waker());
        if self.0.has_ended() { Poll::Ready(()) } else { Poll::Pending }
    }
}
