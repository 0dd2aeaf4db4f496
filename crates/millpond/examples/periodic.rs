//! How do I run a task later, or periodically?
//!
//! `schedule` runs a closure once after a delay. `schedule_at_fixed_rate` keeps a fixed distance
//! between the starts of runs, `schedule_with_fixed_delay` between the end of a run and the next
//! start. Cancelling the handle ends a periodic task; so does a panic, which the handle reports.
//! With a `ManualClock` the same pool can be tested without waiting.
//!
//! Run it: `cargo run --example periodic`

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use millpond::{JoinError, ManualClock, MissedTicks, PeriodicTask, ScheduledThreadPoolExecutor, executors};

fn main() -> Result<(), Box<dyn Error>> {
    let millis = Duration::from_millis;
    let pool = executors::scheduled(2);
    let begin = Instant::now();

    let once = pool.schedule(millis(20), move || begin.elapsed())?;
    println!("once: after {:?}", once.join()?);

    let (send, ticks) = mpsc::channel();
    let series = pool.schedule_at_fixed_rate(Duration::ZERO, millis(10), move || {
        let _ = send.send(begin.elapsed());
    })?;
    for tick in ticks.iter().take(4) {
        println!("tick: after {tick:?}");
    }
    series.cancel(false);

    // A slow run delays the next ones. By default all of them are made up for; `Skip` omits them.
    let flush = PeriodicTask::new(|| ()).named("flush").missed_ticks(MissedTicks::Skip);
    let flush = pool.schedule_at_fixed_rate_task(millis(5), millis(5), flush)?;
    println!("flush: next in {:?}", flush.remaining_delay());

    // `shutdown` ends periodic tasks; delayed tasks still run when they are due.
    let last = pool.schedule(millis(10), || "the last words")?;
    pool.close();
    println!("series: {}", flush.join().unwrap_err());
    println!("delayed: {}", last.join()?);

    // In a test, time advances only on request.
    let time = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder().clock(time.clock()).build()?;
    let tomorrow = pool.schedule(Duration::from_secs(24 * 3600), || "good morning")?;
    assert!(!tomorrow.is_done());
    time.advance(Duration::from_secs(24 * 3600));
    println!("tomorrow: {}", tomorrow.join()?);

    let mut left = 3;
    let countdown = pool.schedule_with_fixed_delay(Duration::ZERO, Duration::from_secs(1), move || {
        left -= 1;
        if left == 0 {
            std::panic::resume_unwind(Box::new("lift-off"));
        }
    })?;
    while !countdown.is_done() {
        time.advance(Duration::from_secs(1));
        std::thread::yield_now();
    }
    match countdown.join() {
        Err(JoinError::Panicked(panic)) => println!("countdown: {}", panic.message().unwrap_or("?")),
        other => println!("countdown: {other:?}"),
    }
    Ok(())
}
