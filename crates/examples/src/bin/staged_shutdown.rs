//! Three pools that feed each other and shut down in order within one time limit.
//!
//! `receive` submits to `store`, and `store` to `report`. At SIGTERM the stages shut down in this
//! order: each may still submit to the next one while it drains, so no accepted task is lost.
//!
//! ```sh
//! cargo run -p examples --bin staged_shutdown      # Ctrl-C ends it
//! ```
//!
//! In a crate of your own: `cargo add millpond signal-hook`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use millpond::interrupt::{self, Interrupter};
use millpond::{ConfigError, ShutdownOutcome, ThreadPoolExecutor, WorkQueue, policy};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// For all stages together. Shorter than the supervisor's time between SIGTERM and SIGKILL.
const LIMIT: Duration = Duration::from_secs(25);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    interrupt_on_signal(interrupt::current())?;
    let (receive, store, report) = (stage("receive-")?, stage("store-")?, stage("report-")?);
    let reported = Arc::new(AtomicU64::new(0));
    println!("running");

    let mut accepted = 0;
    while !interrupt::interrupted() {
        let (store, report, reported) = (store.clone(), report.clone(), reported.clone());
        let task = move || {
            let stored = store.execute(move || {
                let reported = report.execute(move || _ = reported.fetch_add(1, Relaxed));
                reported.unwrap_or_else(|rejected| eprintln!("not reported: {rejected}"));
            });
            stored.unwrap_or_else(|rejected| eprintln!("not stored: {rejected}"));
        };
        match receive.execute(task) {
            Ok(()) => accepted += 1,
            Err(rejected) => eprintln!("not received: {rejected}"), // interrupted by the signal
        }
    }

    let stages = [("receive", receive), ("store", store), ("report", report)];
    let all_drained = end_in_order(&stages, LIMIT);
    println!("accepted {accepted}, reported {}", reported.load(Relaxed));
    Ok(if all_drained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Shuts the pools down in this order: a pool must come before those that it submits to. Returns
/// false if a pool had to be interrupted.
fn end_in_order(stages: &[(&str, ThreadPoolExecutor)], limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let mut all_drained = true;
    for ((name, pool), stages_left) in stages.iter().zip((1..=stages.len() as u32).rev()) {
        // The time that a stage does not use is left to the others.
        let share = deadline.saturating_duration_since(Instant::now()) / stages_left;
        let report = pool.shutdown_gracefully(share * 3 / 4, share / 4);
        println!("{name}: {}, {} tasks never ran", report.outcome, report.never_run.len());
        all_drained &= report.outcome == ShutdownOutcome::Drained;
    }
    all_drained
}

/// A stage that blocks the previous one when it is full.
fn stage(name: &str) -> Result<ThreadPoolExecutor, ConfigError> {
    ThreadPoolExecutor::builder()
        .core_pool_size(2)
        .maximum_pool_size(2)
        .work_queue(WorkQueue::array(100))
        .rejected_execution_handler(policy::Block::forever())
        .thread_name_prefix(name)
        .build()
}

/// A signal handler cannot wake a thread that waits for room in a pool. An ordinary thread can.
fn interrupt_on_signal(main: Interrupter) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            main.interrupt();
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_that_ignores_its_end_does_not_take_the_time_of_the_others() {
        let (stuck, healthy) = (stage("stuck-").unwrap(), stage("healthy-").unwrap());
        let (release, gate) = std::sync::mpsc::channel::<()>();
        stuck.execute(move || _ = gate.recv()).unwrap(); // ignores interrupts
        let begin = Instant::now();
        let stages = [("stuck", stuck.clone()), ("healthy", healthy.clone())];
        assert!(!end_in_order(&stages, Duration::from_millis(200)));
        assert!(begin.elapsed() >= Duration::from_millis(100), "the stuck stage has half of the time");
        assert!(healthy.is_terminated());
        drop(release);
        stuck.close();
    }
}
