//! Threads and futures that wait for the end of a scheduler.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::hooks;
use crate::interrupt::{Interrupted, Sleeper, Wake};
use crate::quiet::drop_quietly;
use crate::sync::{Arc, Mutex, deadline_after};

/// The threads and futures that wait. Each enters itself before it looks, and whoever makes the condition true calls
/// [`wake_all`](Self::wake_all) afterwards: so no wake-up is missed. Each has a number of its own, by which it is
/// found again: to enter and to leave takes the same time however many wait.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// They leave by themselves.
    threads: HashMap<u64, Arc<Sleeper>>,
    /// They are taken out when they are woken, and leave when they are dropped.
    futures: HashMap<u64, Waker>,
    last_number: u64,
}

impl Waiting {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl Waiters {
    /// Waits until `ready`, at most `timeout`.
    pub(super) fn wait(&self, timeout: Duration, ready: impl FnMut() -> bool) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        let me = Sleeper::current();
        let mut waiting = self.0.lock();
        let number = waiting.next_number();
        waiting.threads.insert(number, Arc::clone(&me));
        drop(waiting);
        let wake = me.wait(deadline, ready);
        self.0.lock().threads.remove(&number);
        match wake {
            Wake::Ready => Ok(true),
            Wake::TimedOut => Ok(false),
            Wake::Interrupted => Err(Interrupted),
        }
    }

    /// A future waits, with `waker` in the place of the one it had. `number` is its own, once it has one.
    fn enter(&self, number: &mut Option<u64>, waker: &Waker) {
        let mine = waker.clone();
        let mut waiting = self.0.lock();
        let number = *number.get_or_insert_with(|| waiting.next_number());
        let before = waiting.futures.insert(number, mine);
        drop(waiting);
        drop_quietly(before);
    }

    /// A future waits no more.
    fn leave(&self, number: Option<u64>) {
        let waker = number.and_then(|number| self.0.lock().futures.remove(&number));
        drop_quietly(waker);
    }

    /// Everybody looks again.
    pub(super) fn wake_all(&self) {
        let mut waiting = self.0.lock();
        let threads: Vec<_> = waiting.threads.values().cloned().collect();
        let futures = std::mem::take(&mut waiting.futures);
        drop(waiting);
        threads.iter().for_each(|sleeper| sleeper.unpark());
        futures.into_values().for_each(hooks::quietly_wake);
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
    /// Its number among the waiters, from the first poll on.
    number: Option<u64>,
}

impl<E: Ends> Disposal<E> {
    pub(super) fn new(of: Arc<E>) -> Disposal<E> {
        Disposal { of, number: None }
    }
}

impl<E: Ends> Future for Disposal<E> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Disposal { of, number } = &mut *self;
        of.begin_drain();
        of.waiters().enter(number, context.waker());
        if !of.has_ended() {
            return Poll::Pending;
        }
        of.waiters().leave(*number);
        Poll::Ready(())
    }
}

impl<E: Ends> Drop for Disposal<E> {
    fn drop(&mut self) {
        self.of.waiters().leave(self.number);
    }
}
