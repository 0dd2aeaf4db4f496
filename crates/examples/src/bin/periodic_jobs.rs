//! Periodic jobs with jitter and retry: a small cron for one process.
//!
//! - Jitter: instances that start together do not all call the same server at the same time.
//! - Retry: a failed run is repeated after 1 s, 2 s, 4 s; then the job waits for its next run.
//! - A panic counts as a failed run. It does not end the job.
//! - The tests use a `ManualClock`: they check minutes of behaviour without sleeping.
//!
//! `cargo run -p examples --bin periodic_jobs -- 5` runs for five seconds.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use millpond::{Next, Rejected, ScheduledHandle, ScheduledThreadPoolExecutor, interrupt};

/// The schedule of a job, and its retries.
#[derive(Clone, Copy)]
struct Plan {
    /// From the end of a run to the beginning of the next.
    every: Duration,
    /// Up to this much is added to every wait, at random.
    jitter: Duration,
    /// How often a failed run is repeated before the job waits for its next regular run.
    retries: u32,
    /// The wait before the first retry; doubled for each further one.
    first_retry: Duration,
}

/// Starts a job. `handle.cancel(true)` ends it; dropping the handle does not.
fn start<E: Error>(
    pool: &ScheduledThreadPoolExecutor,
    name: &'static str,
    plan: Plan,
    mut job: impl FnMut() -> Result<(), E> + Send + 'static,
) -> Result<ScheduledHandle<()>, Rejected> {
    let mut failures = 0;
    pool.schedule_repeating(random_up_to(plan.jitter), move || {
        // A panic would end the periodic task. The panic hook has already printed it.
        let outcome = catch_unwind(AssertUnwindSafe(&mut job));
        match outcome {
            Ok(Ok(())) => failures = 0,
            Ok(Err(error)) => failures = failed(name, &error.to_string(), failures),
            Err(_) => failures = failed(name, "panicked", failures),
        }
        if failures > plan.retries {
            eprintln!("{name}: given up until its next turn");
            failures = 0;
        }
        Next::After(plan.wait_after(failures) + random_up_to(plan.jitter))
    })
}

fn failed(name: &str, why: &str, failures: u32) -> u32 {
    eprintln!("{name}: {why}");
    failures + 1
}

impl Plan {
    fn wait_after(&self, failures: u32) -> Duration {
        match failures {
            0 => self.every,
            _ => self.first_retry.saturating_mul(1 << (failures - 1).min(20)).min(self.every),
        }
    }
}

/// Sufficiently random for jitter, with only the standard library.
fn random_up_to(limit: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64;
    limit.mul_f64(random)
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |arg| arg.parse())?;
    let pool = ScheduledThreadPoolExecutor::builder()
        .core_pool_size(2) // jobs that may run at the same time
        .thread_name_prefix("job-")
        .build()?;
    let second = Duration::from_secs(1);
    let plan = Plan { every: second, jitter: second / 10, retries: 2, first_retry: second / 5 };

    let begin = Instant::now();
    let clean_up = start(&pool, "clean up", plan, move || {
        println!("{:>5} ms: clean up", begin.elapsed().as_millis());
        Ok::<(), std::io::Error>(())
    })?;
    let mut attempts = 0;
    let upload = start(&pool, "upload", plan, move || {
        attempts += 1;
        println!("{:>5} ms: upload, attempt {attempts}", begin.elapsed().as_millis());
        if attempts % 3 == 0 { Ok(()) } else { Err(std::io::Error::other("connection refused")) }
    })?;

    interrupt::sleep(Duration::from_secs(seconds))?;
    clean_up.cancel(true);
    upload.cancel(true);
    let report = pool.shutdown_gracefully(5 * second, second);
    println!("{}", report.outcome);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond::ManualClock;
    use std::io;
    use std::sync::mpsc;

    const SECOND: Duration = Duration::from_secs(1);
    const PLAN: Plan =
        Plan { every: Duration::from_secs(60), jitter: Duration::ZERO, retries: 2, first_retry: SECOND };

    /// Runs a job that returns the given outcomes and then repeats the last one. Returns the times
    /// of its runs in seconds.
    fn runs(plan: Plan, outcomes: &'static [fn() -> io::Result<()>], count: usize) -> Vec<u64> {
        let time = ManualClock::new();
        let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(1).clock(time.clock());
        let pool = pool.build().unwrap();
        let (ran, at) = mpsc::channel();
        let (mut number, clock) = (0, time.clone());
        let job = start(&pool, "job", plan, move || {
            ran.send(clock.elapsed().as_secs()).unwrap();
            number += 1;
            outcomes[number.min(outcomes.len()) - 1]()
        });
        let job = job.unwrap();
        let times = (0..count).map(|_| {
            let second = at.recv().unwrap();
            time.advance(wait_until_planned(&job));
            second
        });
        let times = times.collect();
        assert!(job.cancel(true));
        pool.close();
        times
    }

    /// Waits until the run has ended. Returns the time until the next one.
    fn wait_until_planned(job: &ScheduledHandle<()>) -> Duration {
        loop {
            match job.remaining_delay() {
                Duration::ZERO => std::thread::yield_now(), // it is running
                delay => return delay,
            }
        }
    }

    #[test]
    fn failed_run_is_repeated_with_growing_delays() {
        let outcomes: &[fn() -> _] = &[fail, fail, succeed];
        assert_eq!(runs(PLAN, outcomes, 4), [0, 1, 3, 63]);
    }

    #[test]
    fn job_waits_for_its_turn_after_the_last_retry() {
        assert_eq!(runs(PLAN, &[fail], 5), [0, 1, 3, 63, 64]);
    }

    #[test]
    fn job_survives_a_panic() {
        let outcomes: &[fn() -> _] = &[|| panic!("expected by the test"), succeed];
        assert_eq!(runs(PLAN, outcomes, 3), [0, 1, 61]);
    }

    #[test]
    fn jitter_stays_within_its_limit() {
        assert!((0..1000).all(|_| random_up_to(SECOND) <= SECOND));
        assert_eq!(random_up_to(Duration::ZERO), Duration::ZERO);
    }

    fn fail() -> io::Result<()> {
        Err(io::Error::other("expected by the test"))
    }

    fn succeed() -> io::Result<()> {
        Ok(())
    }
}
