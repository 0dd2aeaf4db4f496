//! Measures how long a scrape of many pools takes and how long its text is.
//!
//! `cargo run --release -p millpond-prometheus --example scrape [-- POOLS]`
//!
//! Each pool has run tasks of many durations, so its histograms have many buckets. A figure is the
//! median of 50 scrapes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use millpond::{ThreadPoolExecutor, registry};
use millpond_prometheus::{Bounds, Exporter};

const SCRAPES: usize = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(1000), |count| count.parse())?;
    let pools = (0..count).map(used_pool).collect::<Result<Vec<_>, _>>()?;
    println!("{} pools", registry::pools().len());
    report("snapshots", || registry::pools().iter().filter_map(|pool| pool.snapshot()).count());
    let exporter = Exporter::new();
    report("text with 13 buckets", || exporter.render().len());
    let exporter = exporter.bounds(Bounds::none());
    report("text without buckets", || exporter.render().len());
    pools.iter().for_each(ThreadPoolExecutor::close);
    Ok(())
}

/// A pool of one thread that has run 100 tasks of 0 to 100 µs.
fn used_pool(number: usize) -> Result<ThreadPoolExecutor, Box<dyn std::error::Error>> {
    let pool =
        ThreadPoolExecutor::builder().name(format!("pool of service {number}")).core_pool_size(1).build()?;
    for micros in 0..100 {
        pool.execute(move || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(micros) {}
        })?;
    }
    pool.submit(|| ())?.join()?;
    Ok(pool)
}

/// Prints the median time of `work` and the number that it returns.
fn report(what: &str, mut work: impl FnMut() -> usize) {
    let mut size = 0;
    let mut times: Vec<Duration> = std::iter::repeat_with(|| {
        let begin = Instant::now();
        size = black_box(work());
        begin.elapsed()
    })
    .take(SCRAPES)
    .collect();
    times.sort_unstable();
    println!("{what}: {:.1} ms, {size}", times[SCRAPES / 2].as_secs_f64() * 1e3);
}
