//! Tests of the life of a job, from the heap and from the slab. Small enough for Miri.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicUsize;
use std::thread;

use super::*;
use crate::interrupt::TaskFrame;
use crate::task::periodic::{MissedTicks, OnPanic, PeriodicTask};

const BOTH: [Duration; 2] = [Duration::ZERO, Duration::from_secs(1)];

fn job(delay: Duration, f: impl FnOnce() + Send + 'static) -> JobRef {
    JobRef::of(TaskId::fresh(), f, delay, None)
}

fn run(job: &JobRef) -> Option<RunEnd> {
    let _frame = TaskFrame::enter();
    job.run(&mut |run| run(), &|_, _| {})
}

/// Returns a closure that counts its runs. The closure holds a reference to the counter.
fn counted(runs: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let runs = Arc::clone(runs);
    move || _ = runs.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn of_a_run_and_a_cancel_one_gets_the_work() {
    for delay in BOTH {
        for _ in 0..if cfg!(miri) { 4 } else { 500 } {
            let runs = Arc::new(AtomicUsize::new(0));
            let job = job(delay, counted(&runs));
            let runner = thread::spawn({
                let job = job.clone();
                move || {
                    let end = run(&job);
                    end.inspect(|_| job.finish()).is_some()
                }
            });
            let found = job.end();
            assert_eq!(job.wait(None, Duration::MAX), Ok(true));
            assert_eq!(job.is_cancelled(), found != CancelFound::Ended);
            let ran = runner.join().unwrap();
            assert_eq!(ran, found != CancelFound::Waiting);
            assert_eq!(runs.load(Ordering::Relaxed), usize::from(ran));
            assert_eq!(Arc::strong_count(&runs), 1, "the captures are dropped");
        }
    }
}

#[test]
fn a_wait_ends_when_the_run_of_a_cancelled_job_is_counted() {
    let job = job(Duration::ZERO, || {});
    let mut around = |run: &mut dyn FnMut()| {
        run();
        assert_eq!(job.end(), CancelFound::Running);
        assert!(job.is_disposed() && !job.is_at_rest());
    };
    let end = job.run(&mut around, &|_, _| {});
    assert_eq!(end, Some(RunEnd { outcome: Outcome::Succeeded, again: false }), "what the work did");
    assert_eq!(job.wait(None, Duration::ZERO), Ok(false));
    let waiter = thread::spawn({
        let job = job.clone();
        move || job.wait(None, Duration::MAX)
    });
    job.finish();
    assert_eq!(waiter.join().unwrap(), Ok(true));
}

#[test]
fn a_periodic_job_is_pending_between_its_runs_and_keeps_its_body() {
    for (on_panic, again) in [(OnPanic::Continue, true), (OnPanic::End, false)] {
        let runs = Arc::new(AtomicUsize::new(0));
        let mut task = PeriodicTask::new({
            let runs = Arc::clone(&runs);
            move || {
                if runs.fetch_add(1, Ordering::Relaxed) == 1 {
                    resume_unwind(Box::new("as asked"));
                }
            }
        });
        task = task.on_panic(on_panic);
        let schedule = Some(Schedule::Rate(Duration::ZERO, MissedTicks::default()));
        let info = task.info.clone();
        let job = JobRef::of(info.id(), task, Duration::ZERO, Rare::new(info, schedule, None));
        assert!(job.is_periodic() && job.schedule().is_some());
        assert_eq!(run(&job), Some(RunEnd { outcome: Outcome::Succeeded, again: true }));
        assert!(job.is_pending() && !job.is_at_rest());
        assert_eq!(run(&job), Some(RunEnd { outcome: Outcome::Panicked, again }));
        assert_eq!(job.is_pending(), again);
        drop(job);
        assert_eq!(Arc::strong_count(&runs), 1, "the body is dropped");
    }
}

#[test]
fn a_job_that_is_refused_hands_its_work_back() {
    for delay in BOTH {
        let runs = Arc::new(AtomicUsize::new(0));
        let refused = job(delay, counted(&runs)).refused(RejectReason::Saturated);
        refused.into_task().run();
        assert_eq!((runs.load(Ordering::Relaxed), Arc::strong_count(&runs)), (1, 1));
        let loud = job(delay, || resume_unwind(Box::new("as asked"))).take_task().expect("it has not begun");
        assert!(catch_unwind(AssertUnwindSafe(|| loud.run())).is_err());
    }
    let (task, handle) = crate::TaskOf::new(|| 7).named("seven").into_parts();
    let (id, info) = (task.id(), task.info().clone());
    let job = JobRef::of(id, task, Duration::ZERO, Rare::new(info, None, None));
    assert_eq!(job.info().name(), Some("seven"));
    job.take_task().expect("it has not begun").run();
    assert!(job.take_task().is_none());
    assert_eq!(handle.join().unwrap(), 7, "the same task, with its handle");
}

#[test]
fn a_job_that_never_runs_drops_its_captures_whatever_their_alignment() {
    #[repr(align(64))]
    struct Line(Arc<AtomicUsize>);
    for delay in BOTH {
        let count = Arc::new(AtomicUsize::new(0));
        let line = Line(Arc::clone(&count));
        let aligned = move || {
            assert_eq!(std::ptr::from_ref(&line).addr() % 64, 0);
            line.0.fetch_add(1, Ordering::Relaxed);
        };
        let job = job(delay, aligned);
        job.set_location(Location::Ready(3, 4));
        assert!(matches!(job.location(), Location::Ready(3, 4)));
        drop(job);
        assert_eq!((count.load(Ordering::Relaxed), Arc::strong_count(&count)), (0, 1));
    }
}

/// The size matters because a million timers may wait at once. This is a test and not a
/// compile-time assertion, because another compiler may lay out the fields differently.
#[test]
#[cfg(all(target_pointer_width = "64", not(millpond_random_layout)))]
fn the_job_of_a_closure_of_two_words_has_eleven_words() {
    fn size_of_job<W: Work<()>>(_: &W) -> usize {
        size_of::<Attached<Header, WorkCell<(), W>>>()
    }
    let words = [7_usize; 2];
    let job = size_of_job(&move || assert_eq!(words, [7; 2]));
    assert!(job <= 11 * size_of::<usize>(), "{job} bytes");
}

/// Regression: each new waiter was preceded by a search for waiters that no longer exist.
#[test]
fn many_waiters_register_as_fast_as_few() {
    let time_for = |waiters: usize| {
        let job = job(Duration::ZERO, || {});
        let cells: Vec<_> = (0..waiters).map(|_| Arc::new(WaitCell::for_this_thread())).collect();
        let begin = std::time::Instant::now();
        cells.iter().for_each(|cell| job.add_waiter(cell));
        begin.elapsed()
    };
    let many = if cfg!(miri) { 100 } else { 20_000 };
    let best = |waiters: usize| (0..3).map(|_| time_for(waiters)).min().unwrap();
    let (few, many) = (best(many / 20), best(many));
    assert!(many < 100 * few || cfg!(miri), "20 times as many took {many:?} instead of {few:?}");
}

#[test]
fn waiters_that_no_longer_exist_are_forgotten() {
    let job = job(Duration::ZERO, || {});
    let waits = Arc::new(WaitCell::for_this_thread());
    job.add_waiter(&waits);
    (0..1000).for_each(|_| job.add_waiter(&Arc::new(WaitCell::for_this_thread())));
    let known = job.own().rare.lock().as_ref().map_or(0, |rare| rare.waiters.len());
    assert!(known < 100, "{known} waiters are known, and one exists");
    job.end();
    assert!(waits.is_notified());
}
