//! Reusable state for tasks: connections, buffers, parsers.
//!
//! There are two forms. Prefer [`Reuse`]: a task pops a value from a stack and pushes it back, so
//! there are never more values than concurrent tasks. A `thread_local!` is for values that must
//! stay on their thread (`!Send`), and has a pitfall, shown in the second half.
//!
//! `cargo run -p examples --bin worker_state`

use std::cell::RefCell;
use std::error::Error;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

use millpond::executors;

/// Reusable values, each used by one task at a time.
struct Reuse<S> {
    idle: Mutex<Vec<S>>,
    make: fn() -> S,
}

impl<S> Reuse<S> {
    const fn new(make: fn() -> S) -> Reuse<S> {
        Reuse { idle: Mutex::new(Vec::new()), make }
    }

    /// Returns the most recently used value, which is probably still cached, or a new one.
    fn take(&self) -> Borrowed<'_, S> {
        let idle = self.idle().pop(); // the lock is not held while a value is created
        Borrowed { value: Some(idle.unwrap_or_else(self.make)), owner: self }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<S>> {
        self.idle.lock().expect("no code panics under this lock")
    }
}

/// A borrowed value, returned on drop. Not if its task panics: then it may be inconsistent.
struct Borrowed<'a, S> {
    /// `None` only during the drop.
    value: Option<S>,
    owner: &'a Reuse<S>,
}

impl<S> Drop for Borrowed<'_, S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.owner.idle().extend(self.value.take());
        }
    }
}

impl<S> Deref for Borrowed<'_, S> {
    type Target = S;
    fn deref(&self) -> &S {
        self.value.as_ref().expect("it is taken out only by drop")
    }
}

impl<S> DerefMut for Borrowed<'_, S> {
    fn deref_mut(&mut self) -> &mut S {
        self.value.as_mut().expect("it is taken out only by drop")
    }
}

static BUFFERS: Reuse<String> = Reuse::new(|| String::with_capacity(1024));

fn render(number: u32) -> usize {
    use std::fmt::Write;
    let mut buffer = BUFFERS.take();
    buffer.clear();
    write!(buffer, "page {number}").expect("a string takes all that is written");
    buffer.len()
}

thread_local! {
    /// One value per worker thread, created by its first task.
    static PARSER: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(1024));
}

fn parse(text: &'static str) -> usize {
    // Do not `join` inside this borrow. A worker that joins a task of its own pool may run
    // that task in place, on this thread: the second borrow of the `RefCell` would panic.
    PARSER.with_borrow_mut(|parser| {
        parser.clear();
        parser.extend(text.bytes().filter(|byte| !byte.is_ascii_whitespace()));
        parser.len()
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = executors::bounded(4, 4, 1000)?;
    let pages = pool.invoke_all((0..1000).map(|number| move || render(number)))?;
    let characters = pages.into_iter().map(|page| page.join()).sum::<Result<usize, _>>()?;
    println!("{characters} characters, {} buffers", BUFFERS.idle().len());
    println!("{} bytes", pool.submit(|| parse("a b c"))?.join()?);
    pool.close();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn there_are_never_more_values_than_tasks_that_run() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        static VALUES: Reuse<usize> = Reuse::new(|| MADE.fetch_add(1, SeqCst));
        let pool = executors::bounded(4, 4, 10_000).unwrap();
        let uses = pool.invoke_all((0..10_000).map(|_| || *VALUES.take() < 4)).unwrap();
        assert!(uses.into_iter().all(|used| used.join().unwrap()));
        assert!(VALUES.idle().len() <= 4);
        pool.close();
    }

    #[test]
    fn nested_task_that_runs_in_place_gets_another_value() {
        static VALUES: Reuse<Vec<u32>> = Reuse::new(Vec::new);
        let pool = executors::bounded(1, 1, 10).unwrap();
        let inner = pool.clone();
        let outer = move || {
            let mut mine = VALUES.take();
            mine.push(1);
            let theirs = inner.submit(|| VALUES.take().len()).unwrap();
            theirs.join().unwrap() // runs here: the pool has one thread
        };
        assert_eq!(pool.submit(outer).unwrap().join().unwrap(), 0);
        pool.close();
    }

    #[test]
    fn value_of_a_task_that_panics_is_not_used_again() {
        static VALUES: Reuse<u32> = Reuse::new(|| 0);
        let pool = executors::bounded(1, 1, 1).unwrap();
        let task = || {
            *VALUES.take() += 1;
            let _half_changed = VALUES.take();
            panic!("expected by the test")
        };
        assert!(pool.submit::<()>(task).unwrap().join().is_err());
        assert!(VALUES.idle().is_empty());
        pool.close();
    }
}
