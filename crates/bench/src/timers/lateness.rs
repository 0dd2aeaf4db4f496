//! Shows how late timers fire over time. The times of the late ones are more informative than a
//! percentile.
//!
//! A bare thread, which sleeps from one time of a sorted list to the next, shows the lateness of
//! the machine itself. On a busy machine that is most of the total.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::machine;
use millpond::ScheduledThreadPoolExecutor;

const WINDOWS: usize = 25;
/// The time between two timers: 200,000 per second.
const STEP: Duration = Duration::from_micros(5);
/// The output shows the number of timers later than each limit, in microseconds.
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
        // Relaxed: read after all timers have fired.
        self.nanos[index].store(nanos.max(1), Ordering::Relaxed);
    }

    fn micros(&self) -> Vec<u64> {
        self.nanos.iter().map(|nanos| nanos.load(Ordering::Relaxed) / 1000).collect()
    }
}

fn percentile(sorted: &[u64], share: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// The lateness of each timer in microseconds, and the processor time in nanoseconds of the threads
/// that ran them.
type Fired = (Vec<u64>, Option<u64>);

/// Timers of a pool, inserted `before` the first of them is due. For `age` before that the pool
/// holds one far timer.
fn pool(workers: usize, n: usize, age: Duration, before: Duration) -> Fired {
    let pool = ScheduledThreadPoolExecutor::new(workers);
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
    let mut workers = machine::threads();
    workers.retain(|thread| *thread != std::process::id().to_string());
    let begin = machine::cpu_time(&workers);
    thread::sleep(late.due(n).saturating_duration_since(Instant::now()));
    // Relaxed: only whether it is set matters.
    while late.nanos.iter().any(|nanos| nanos.load(Ordering::Relaxed) == 0) {
        thread::sleep(Duration::from_millis(1));
    }
    let used = machine::cpu_time(&workers).zip(begin).map(|(end, begin)| end - begin);
    far.cancel(false);
    pool.close();
    (late.micros(), used)
}

fn bare_thread(n: usize) -> Fired {
    let late = Late {
        first: Instant::now() + Duration::from_millis(50),
        nanos: (0..n).map(|_| AtomicU64::new(0)).collect(),
    };
    let me = [std::process::id().to_string()];
    let begin = machine::cpu_time(&me);
    for index in 0..n {
        let left = late.due(index).saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left);
        }
        late.fired(index);
    }
    let used = machine::cpu_time(&me).zip(begin).map(|(end, begin)| end - begin);
    (late.micros(), used)
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

/// Lateness and processor time per timer. A bare thread that only sleeps and wakes shows the
/// minimum cost of a given lateness. Its timer slack is set by /proc, or the default where that is
/// not possible.
fn costs(n: usize) {
    const SLACK: &str = "/proc/self/timerslack_ns";
    println!("lateness and processor time per timer, µs\n{:>30} {:>7} {:>7}", "", "p50", "CPU");
    let row = |name: &str, (mut late, used): Fired| {
        late.sort_unstable();
        let each = used.map_or("?".into(), |used| format!("{:.2}", used as f64 / 1000.0 / n as f64));
        println!("{name:>30} {:>7} {each:>7}", percentile(&late, 0.5));
    };
    for slack in [10, 20, 30, 40, 50, 100] {
        if fs::write(SLACK, format!("{}", slack * 1000)).is_ok() {
            row(&format!("a bare thread, slack {slack} µs"), bare_thread(n));
        }
    }
    let _ = fs::write(SLACK, "0"); // the default again
    for workers in [2, 4] {
        row(
            &format!("the pool, {workers} workers"),
            pool(workers, n, Duration::ZERO, Duration::from_millis(650)),
        );
    }
}

pub(crate) fn main() {
    let n = 200_000;
    costs(n);
    table("a bare thread", &bare_thread(n).0);
    let ms = Duration::from_millis;
    for (age, before) in [(0, 650), (3000, 650), (0, 5000)] {
        let name = format!("{n} timers, put in {before} ms before the first is due, pool {age} ms old");
        table(&name, &pool(2, n, ms(age), ms(before)).0);
    }
}
