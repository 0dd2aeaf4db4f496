//! Runs a task inside the task that waits for it, without overflowing the stack.
//!
//! A worker that joins a task of its own pool or scheduler runs it in place, and that task may join
//! another one, and so on. Every level takes stack: some 1,700 levels of small tasks fill the 2 MiB
//! of an ordinary thread. So beyond [`MAX_DEPTH`] levels the task runs on a temporary thread, while
//! the joining thread waits for it. No pool counts that thread. It works for the same pools and
//! schedulers as the joining thread, so that joins on it are run in place too, and interrupts of
//! the waiting tasks reach it. If no thread can be started, the task runs in place after all.

use std::panic::resume_unwind;
use std::thread;

use super::context::{Level, WorksFor};
use crate::interrupt::{self, TaskFrame, ThreadContext};
use crate::sync::Mutex;

/// Levels of tasks inside tasks on one thread.
const MAX_DEPTH: usize = 256;

/// Calls `run`, which runs a task inside the current one, and returns when it has run.
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
    // As in place, an interrupt that came before belongs to the waiting task alone.
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
        // An error leaves `run` where it is.
        if let Ok(thread) = thread::Builder::new().name(name).spawn_scoped(scope, body)
            && let Err(payload) = thread.join()
        {
            resume_unwind(payload);
        }
    });
    run.lock().take()
}
