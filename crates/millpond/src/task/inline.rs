//! Runs a task inside the task that waits for it, without overflowing the stack.
//!
//! A worker that joins a task of its own pool or scheduler runs it inline. That task may join
//! another one, and so on. Every level takes stack: about 1,700 levels of small tasks fill the 2
//! MiB of an ordinary thread. So beyond [`MAX_DEPTH`] levels the task runs on a temporary thread,
//! while the joining thread waits for it. No pool counts that thread. It works for the same pools
//! and schedulers as the joining thread, so joins on it run tasks inline too. Interrupts of the
//! waiting tasks reach it. If no thread can be started, the task runs inline after all.

use std::panic::resume_unwind;
use std::thread;

use super::context::{Level, WorksFor};
use crate::interrupt::{self, TaskFrame, ThreadContext};
use crate::sync::Mutex;

/// Maximum number of tasks inside tasks on one thread.
const MAX_DEPTH: usize = 256;

/// Calls `run`, which runs a task inside the current one. Returns after `run` has returned.
pub(crate) fn run_inline(run: impl FnOnce() + Send) {
    let run = if Level::current() < MAX_DEPTH { Some(run) } else { run_on_temporary_thread(run) };
    if let Some(run) = run {
        let _level = Level::enter();
        run();
    }
}

/// Calls `run` on a new thread and waits for it. Returns `run` if no thread can be started.
#[cold]
fn run_on_temporary_thread<F: FnOnce() + Send>(run: F) -> Option<F> {
    let run = Mutex::new(Some(run));
    let works_for = WorksFor::current();
    // An earlier interrupt belongs only to the waiting task, as for an inline run.
    let _frame = TaskFrame::enter();
    let waiting = interrupt::current();
    let name = thread::current().name().unwrap_or("in place").to_owned();
    let body = || {
        works_for.adopt();
        let me = ThreadContext::current();
        let forward = waiting.on_interrupt(move || me.interrupt_all());
        let run = run.lock().take();
        run.into_iter().for_each(|run| run());
        drop(forward);
    };
    thread::scope(|scope| {
        // On an error, `run` is still in the mutex.
        if let Ok(thread) = thread::Builder::new().name(name).spawn_scoped(scope, body)
            && let Err(payload) = thread.join()
        {
            resume_unwind(payload);
        }
    });
    run.lock().take()
}
