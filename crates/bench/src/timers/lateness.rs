//! How late timers fire, over time: where in a second the late ones are tells more than how late they are.
//!
//! A bare thread, which holds the same times in a sorted list and sleeps until the next, shows what the machine adds
//! by itself: on a busy one that is most of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millpond::ScheduledThreadPoolExecutor;

const WINDOWS: usize = 25;
/// Between two timers: 200,000 a second.
const STEP: Duration = Duration::from_micros(5);
/// Above those, how many there are is shown.
const LIMITS: [u64; 4] = [100, 300, 1000, 3000];

/// When a timer was due, and how late it was.
struct Late {
    first: Instant,
    nanos: Vec<AtomicU64>,
}

impl Late {
    fn due(&self, index: usize) -> Instant {
        self.first + STEP * u32::try_from(index).expect("a few hundred thousand")
    }

    fn fired(&self, index: usize) {
        let nanos = Instant::now().saturating_duration_since(self.due(index)).as_nanos() as u64;
        // Relaxed: those who fire are waited for.
        self.nanos[index].store(nanos.max(1), Ordering::Relaxed);
    }

    fn micros(&self) -> Vec<u64> {
        self.nanos.iter().map(|nanos| nanos.load(Ordering::Relaxed) / 1000).collect()
    }
}

fn percentile(sorted: &[u64], share: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// The pool's timers, put in `before` the first of them is due. `age`: so long has the pool had one that is far.
fn pool(n: usize, age: Duration, before: Duration) -> Vec<u64> {
    let pool = ScheduledThreadPoolExecutor::new(2);
    let far = pool.schedule(Duration::from_secs(3600), || {}).expect("it is open");
    thread::sleep(age);
    let late = Late { first: Instant::now() + before, nanos: (0..n).map(|_| AtomicU64::new(0)).collect() };
    let late = Arc::new(late);
    for index in 0..n {
        let delay = late.due(index).saturating_duration_since(Instant::now());
        let late = Arc::clone(&late);
        drop(pool.schedule(delay, move || late.fired(index)).expect("it is open"));
    }
    assert!(Instant::now() < late.first, "the first was due before the last was in");
    far.cancel(false);
    pool.close();
    late.micros()
}

fn bare_thread(n: usize) -> Vec<u64> {
    let late = Late {
        first: Instant::now() + Duration::from_millis(50),
        nanos: (0..n).map(|_| AtomicU64::new(0)).collect(),
    };
    for index in 0..n {
        let left = late.due(index).saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left);
        }
        late.fired(index);
    }
    late.micros()
}

fn row(name: &str, late: &[u64]) {
    let mut sorted = late.to_vec();
    sorted.sort_unstable();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| percentile(&sorted, share));
    let above = LIMITS.map(|limit| sorted.len() - sorted.partition_point(|late| *late <= limit));
    let above: Vec<String> = above.iter().map(|n| format!("{n:>7}")).collect();
    println!("{name:>12} {p50:>7} {p99:>7} {max:>7} {}", above.join(" "));
}

fn table(name: &str, late: &[u64]) {
    let above: Vec<String> = LIMITS.iter().map(|limit| format!("{:>7}", format!(">{limit}"))).collect();
    println!("\n{name}, µs\n{:>12} {:>7} {:>7} {:>7} {}", "from, ms", "p50", "p99", "max", above.join(" "));
    let window = late.len().div_ceil(WINDOWS);
    for (index, late) in late.chunks(window).enumerate() {
        row(&format!("{}", (STEP * (index * window) as u32).as_millis()), late);
    }
    row("all", late);
}

pub(crate) fn main() {
    let n = 200_000;
    table("a bare thread", &bare_thread(n));
    let ms = Duration::from_millis;
    for (age, before) in [(0, 650), (3000, 650), (0, 5000)] {
        let name = format!("{n} timers, put in {before} ms before the first is due, pool {age} ms old");
        table(&name, &pool(n, ms(age), ms(before)));
    }
}
