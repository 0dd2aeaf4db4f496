//! How do I run blocking calls on one bounded-elastic scheduler, with a lane for each customer?
//!
//! The orders of a customer are handled in sequence, never concurrently. Different customers do not
//! wait for each other as long as a thread is free. Run it with `cargo run --example lanes`.

use millpond::schedulers::{BoundedElasticScheduler, Scheduler, SchedulerExt};
use std::error::Error;
use std::thread;
use std::time::Duration;

fn handle(customer: &str, order: u32, takes: Duration) {
    thread::sleep(takes); // a blocking call
    println!("{:<18} {customer} {order}", thread::current().name().unwrap_or("?"));
}

fn main() -> Result<(), Box<dyn Error>> {
    let shop = BoundedElasticScheduler::builder()
        .max_threads(2)
        .queue_capacity_per_thread(10)
        .name("shop")
        .ttl(Duration::from_secs(10))
        .build()?;

    // 1. Three customers share two threads. Ada's orders are slow, but do not delay the others.
    for (customer, takes) in [("ada", 40), ("bob", 5), ("cyd", 5)] {
        let lane = shop.create_worker();
        for order in 1..=3 {
            lane.schedule(move || handle(customer, order, Duration::from_millis(takes)))?;
        }
        // A dropped worker still runs the tasks it has.
    }
    println!("{} tasks wait, room for {} more", shop.queued(), shop.remaining_capacity());

    // 2. A periodic report, and one task too many.
    let report =
        shop.schedule_periodically(Duration::ZERO, Duration::from_millis(20), || println!("report"))?;
    let refused = (0..30).find_map(|_| shop.schedule(|| ()).err());
    if let Some(rejected) = refused {
        println!("{rejected}");
    }

    // 3. Graceful end: accepted tasks run, the periodic task ends, the threads exit.
    thread::sleep(Duration::from_millis(50));
    report.dispose();
    println!("ended in good order: {}", shop.dispose_gracefully(Duration::from_secs(5))?);
    let stats = shop.stats();
    println!(
        "{} ran, {} were refused, {} threads are left",
        stats.completed, stats.rejected, stats.live_threads
    );
    Ok(())
}
