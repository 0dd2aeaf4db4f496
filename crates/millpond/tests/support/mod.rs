//! What tests share: delays, a thread that is known to block, a switch for the interrupt flag.
#![allow(dead_code, reason = "every test file uses some of it")]

use std::fs;
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle, yield_now};
use std::time::Duration;

use millpond::interrupt::{self, Interrupter};

/// A time-out that is meant to expire.
pub(crate) const SHORT: Duration = Duration::from_millis(15);
/// Clearly longer than `SHORT`.
pub(crate) const SMALL: Duration = Duration::from_millis(60);
/// Clearly longer than `SMALL`.
pub(crate) const MEDIUM: Duration = Duration::from_millis(250);
/// A time-out that is not meant to expire.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A thread that blocks in what it was given to do, or has ended.
pub(crate) struct Blocked<'scope, R> {
    thread: ScopedJoinHandle<'scope, R>,
    interrupter: Interrupter,
}

impl<R> Blocked<'_, R> {
    pub(crate) fn interrupt(&self) {
        self.interrupter.interrupt();
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn join(self) -> R {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Runs `f` on a new thread; returns when the operating system says that the thread sleeps.
pub(crate) fn block<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    f: impl FnOnce() -> R + Send + 'scope,
) -> Blocked<'scope, R> {
    let (send, receive) = mpsc::sync_channel(1);
    let thread = scope.spawn(move || {
        send.send((fs::read_link("/proc/thread-self").ok(), interrupt::current())).unwrap();
        f()
    });
    let (task, interrupter) = receive.recv().unwrap();
    match task {
        Some(task) => await_sleep(&format!("/proc/{}/status", task.display()), &thread),
        None => std::thread::sleep(MEDIUM), // no /proc here: the tests hold whichever comes first
    }
    Blocked { thread, interrupter }
}

/// Waits until the thread is seen asleep twice without having run in between.
fn await_sleep<R>(status: &str, thread: &ScopedJoinHandle<'_, R>) {
    let mut before = None;
    while !thread.is_finished() {
        let now = fs::read_to_string(status).ok().and_then(|status| sleeping_since(&status));
        if now.is_some() && now == before {
            return;
        }
        before = now;
        yield_now();
    }
}

/// How often a sleeping thread went to sleep; `None` if it does not sleep.
fn sleeping_since(status: &str) -> Option<String> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    field("State:")?.starts_with('S').then(|| field("voluntary_ctxt_switches:").map(str::to_owned))?
}

/// Sets this thread's interrupt flag.
pub(crate) fn interrupt_myself() {
    interrupt::current().interrupt();
}
