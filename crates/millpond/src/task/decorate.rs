//! [`decorate`]: passes work through user code that wraps it, without losing the work if that code
//! panics.
//!
//! A decorator receives a [`Body`] and returns another body that calls it. While the decorator
//! runs, the work is not in the body but in a place that both sides can reach. So a decorator that
//! panics does not drop the work. Tasks, periodic tasks and the schedule hooks of schedulers use
//! this function:
//!
//! ```text
//! let body = decorate(work, |work| (next, outcome), |body| user_code(body))
//! ```
//!
//! - `run` receives the work by value when the body is called. It returns the work for the next
//!   call (`None` if there is none) and the panic that the body should resume, if any.
//! - `wrap` calls one or more decorators of the user.
//! - On an error the caller receives the work; `None` means that a decorator has already run it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::error::Payload;
use crate::panic::drop_caught;
use crate::sync::{Arc, Mutex};

/// Boxed work, as hooks and decorators see it.
pub type Body = Box<dyn FnMut() + Send>;

/// Returns the result of `wrap` for a body that runs `work`. Returns an error if `wrap` panics.
pub(crate) fn decorate<W: Send + 'static>(
    work: W,
    mut run: impl FnMut(W) -> (Option<W>, Result<(), Payload>) + Send + 'static,
    wrap: impl FnOnce(Body) -> Body,
) -> Result<Body, Option<W>> {
    let kept = Arc::new(Mutex::new(Some(work)));
    let inner = Arc::clone(&kept);
    let body = Box::new(move || {
        let work = inner.lock().take(); // no lock is held while user code runs
        let Some(work) = work else { return };
        let (next, outcome) = run(work);
        *inner.lock() = next;
        if let Err(payload) = outcome {
            resume_unwind(payload);
        }
    });
    catch_unwind(AssertUnwindSafe(|| wrap(body))).map_err(|payload| {
        drop_caught(payload);
        kept.lock().take()
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A body that runs at most `runs` times; each run adds one to the counter.
    fn counted(
        runs: usize,
        wrap: impl FnOnce(Body) -> Body,
    ) -> (Result<Body, Option<usize>>, Arc<Mutex<usize>>) {
        let count = Arc::new(Mutex::new(0));
        let ran = Arc::clone(&count);
        let run = move |left: usize| {
            *ran.lock() += 1;
            ((left > 1).then(|| left - 1), Ok(()))
        };
        (decorate(runs, run, wrap), count)
    }

    #[test]
    fn a_body_runs_as_often_as_its_work_comes_back() {
        let (body, count) = counted(2, |mut body| {
            Box::new(move || {
                body();
                body();
            })
        });
        let mut body = body.unwrap_or_else(|_| unreachable!());
        (0..3).for_each(|_| body());
        assert_eq!(*count.lock(), 2);
    }

    #[test]
    fn a_decorator_that_panics_gives_the_work_back_unless_it_has_run_it() {
        let (kept, count) = counted(1, |_| resume_unwind(Box::new("no")));
        assert!(matches!(kept, Err(Some(1))));
        assert_eq!(*count.lock(), 0);
        let (kept, count) = counted(1, |mut body| {
            body();
            resume_unwind(Box::new("no"))
        });
        assert!(matches!(kept, Err(None)));
        assert_eq!(*count.lock(), 1);
    }

    #[test]
    fn a_panic_of_the_work_goes_through_the_decorator_and_the_work_stays() {
        let run = |work: u8| (Some(work + 1), Err(Box::new("as asked") as Payload));
        let body = decorate(0_u8, run, |body| body);
        let mut body = body.unwrap_or_else(|_| unreachable!());
        for _ in 0..2 {
            assert!(catch_unwind(AssertUnwindSafe(&mut body)).is_err(), "it runs again");
        }
    }
}
