//! The cost of inserting timers into a whole pool and of cancelling them, without peers. For a
//! profiler.

use std::time::{Duration, Instant};

use millpond::{ScheduledHandle, ScheduledThreadPoolExecutor};

use crate::{MINUTE, Random, shuffle};

pub(crate) fn main(n: usize, rounds: usize) {
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(2).remove_on_cancel_policy(true);
    let pool = pool.build().expect("the sizes are valid");
    let mut random = Random(1);
    let mut figures = Vec::new();
    for _ in 0..rounds {
        let delays: Vec<_> = (0..n).map(|_| Duration::from_nanos(MINUTE + random.below(MINUTE))).collect();
        let mut handles: Vec<ScheduledHandle<()>> = Vec::with_capacity(n);
        let begin = Instant::now();
        handles.extend(delays.iter().map(|delay| pool.schedule(*delay, || {}).expect("it is open")));
        let inserted = begin.elapsed();
        shuffle(&mut handles, &mut random);
        let begin = Instant::now();
        handles.into_iter().for_each(|handle| assert!(handle.cancel(false)));
        figures.push((inserted, begin.elapsed()));
    }
    pool.close();
    let each = |time: Duration| time.as_nanos() as f64 / n as f64;
    for (what, mut times) in [
        ("insert", figures.iter().map(|(insert, _)| *insert).collect::<Vec<_>>()),
        ("cancel", figures.iter().map(|(_, cancel)| *cancel).collect()),
    ] {
        times.sort();
        println!("{what}: {:.0} ns, at best {:.0}", each(times[times.len() / 2]), each(times[0]));
    }
}
