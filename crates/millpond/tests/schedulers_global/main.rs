//! Global state of schedulers: factories, shared instances, hooks, decorators, the timer thread.
//! Tests that change it take the lock of `support::alone`.

#[path = "../support/schedulers.rs"]
mod scheduling;
#[path = "../support/mod.rs"]
mod support;

mod decorators;
mod hooks;
mod propagate;
mod regressions;
mod shared;
mod timer_thread;
mod user_code;
mod virtual_time;
mod virtual_waits;
