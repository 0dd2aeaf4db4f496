//! Timers: inserted and cancelled, and run when due.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::counting;

use super::{Body, Case, Failure, Metric, Outcome, Plan, Workload, nanos_each, percentile, task};
use crate::contestants::Timers;
use crate::machine;
use crate::tally::{self, Count};

pub(crate) static HOLD: Workload = Workload {
    key: "timers",
    title: "11a. Timers: insert and cancel",
    about: "Time per timer for a million, a hundred thousand in a quick run, due at random within a minute and \
            cancelled in another order. scheduled-thread-pool only marks what is cancelled, tokio wakes its task; \
            the others take it out.",
    metrics: &[Metric::new("insert", "ns"), Metric::new("cancel", "ns")],
    axis: None,
    cases: |plan: &Plan| {
        let size = plan.size(1_000_000, 100_000);
        vec![Case { key: "timers", variant: "", workers: 2, producers: 1, body: Body::Nothing, size }]
    },
};

pub(crate) static FIRE: Workload = Workload {
    key: "lateness",
    title: "11b. Timers: lateness at 200,000 per second",
    about: "How long after its time a task begins, and processor time of the threads per task; for a second, or a \
            tenth of it in a quick run.",
    metrics: &[Metric::new("p50", "µs"), Metric::new("p99", "µs"), Metric::new("CPU", "µs")],
    axis: None,
    cases: |plan: &Plan| plan.line("lateness", "", plan.size(200_000, 20_000)),
};

/// The contestants of the measurements from cold: each starts a process per round.
const FROM_COLD: [&str; 4] =
    ["millpond", "millpond parallel", "scheduled-thread-pool", "tokio-util DelayQueue"];

pub(crate) static COLD: Workload = Workload {
    key: "timers-cold",
    title: "11c. Timers from cold",
    about: "The first million timers of a process, a hundred thousand in a quick run: time per insert, and resident \
            memory per timer with all of them pending. Their closures hold two words. A fresh process for each \
            measurement, so that memory comes from the system.",
    metrics: &[Metric::new("ns", "ns"), Metric::new("bytes", "bytes")],
    axis: None,
    cases: |plan: &Plan| vec![cold_case(plan, "timers-cold")],
};

pub(crate) static HEAP: Workload = Workload {
    key: "timers-heap",
    title: "11d. Timers: heap per timer",
    about: "The same timers: bytes requested from the allocator and not freed, per pending timer. The allocator's own \
            overhead and memory mapped past it are not counted.",
    metrics: &[Metric::new("", "bytes")],
    axis: None,
    cases: |plan: &Plan| vec![cold_case(plan, "timers-heap")],
};

fn cold_case(plan: &Plan, key: &'static str) -> Case {
    let size = plan.size(1_000_000, 100_000);
    Case { key, variant: "", workers: 2, producers: 1, body: Body::Nothing, size }
}

/// A linear congruential generator: the same work for all.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

pub(super) fn hold<T: Timers>(case: &Case) -> Outcome {
    let timers = T::new(case.workers);
    let mut random = Random(1);
    let count = Count::begin();
    // The threads start with the first timers, and the memory of a new process comes from the
    // system.
    in_and_out(&timers, case.size.clamp(2 * case.workers as u64, ENOUGH), &mut random);
    // A small number of timers is repeated, until the time is long enough to be measured.
    let times = (ENOUGH / case.size).max(1);
    let (mut inserted, mut cancelled) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..times {
        let (inserting, cancelling) = in_and_out(&timers, case.size, &mut random);
        inserted += inserting;
        cancelled += cancelling;
    }
    timers.close();
    count.check(0)?;
    Ok(vec![nanos_each(inserted, times * case.size), nanos_each(cancelled, times * case.size)])
}

/// The minimum number of timers. With fewer, the first ones and other work of the machine dominate.
const ENOUGH: u64 = 400_000;

/// The times to insert and to cancel `size` timers.
fn in_and_out<T: Timers>(timers: &T, size: u64, random: &mut Random) -> (Duration, Duration) {
    let (delays, mut keys) = prepared(size, random);
    let begin = Instant::now();
    keys.extend(delays.into_iter().map(|delay| timers.schedule(delay, tally::count)));
    let inserted = begin.elapsed();
    for index in (1..keys.len()).rev() {
        keys.swap(index, random.below(index as u64 + 1) as usize);
    }
    let begin = Instant::now();
    keys.into_iter().for_each(|key| timers.cancel(key));
    (inserted, begin.elapsed())
}

/// Random delays, and memory for the keys.
fn prepared<K>(size: u64, random: &mut Random) -> (Vec<Duration>, Vec<K>) {
    // None is due before it is cancelled.
    let mut delay = || Duration::from_secs(60) + Duration::from_nanos(random.below(60_000_000_000));
    let delays: Vec<Duration> = (0..size).map(|_| delay()).collect();
    let mut keys = Vec::with_capacity(delays.len());
    // Touch the memory for the keys before the measurement, as in the JDK's heap.
    keys.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
    (delays, keys)
}

/// Time and resident memory of the first timers of this process.
pub(super) fn cold<T: Timers>(case: &Case) -> Outcome {
    let resident = || machine::resident().ok_or(Failure::NotOffered);
    first_timers::<T>(case, |insert| {
        let before = resident()?;
        let begin = Instant::now();
        insert();
        let elapsed = begin.elapsed();
        let bytes = resident()?.saturating_sub(before);
        Ok(vec![nanos_each(elapsed, case.size), bytes as f64 / case.size as f64])
    })
}

/// Heap memory of the first timers of this process.
pub(super) fn heap<T: Timers>(case: &Case) -> Outcome {
    first_timers::<T>(case, |insert| {
        counting::start();
        insert();
        Ok(vec![counting::live_bytes() as f64 / case.size as f64])
    })
}

/// Lets `measure` insert all timers of a case, then cancels them.
fn first_timers<T: Timers>(case: &Case, measure: impl FnOnce(&mut dyn FnMut()) -> Outcome) -> Outcome {
    if !FROM_COLD.contains(&T::NAME) {
        return Err(Failure::NotOffered);
    }
    let timers = T::new(case.workers);
    let count = Count::begin();
    let (delays, mut keys) = prepared(case.size, &mut Random(1));
    let mut insert = || {
        let each = delays.iter().zip(0..);
        keys.extend(each.map(|(delay, number)| timers.schedule(*delay, task(0, number))));
    };
    let outcome = measure(&mut insert);
    keys.into_iter().for_each(|key| timers.cancel(key));
    timers.close();
    count.check(0)?;
    outcome
}

pub(super) fn fire<T: Timers>(case: &Case) -> Outcome {
    let before = machine::threads();
    let timers = T::new(case.workers);
    let late: Arc<Vec<AtomicU64>> = Arc::new((0..case.size).map(|_| AtomicU64::new(0)).collect());
    // All are inserted before the first is due.
    let first = Instant::now() + Duration::from_millis(250) + Duration::from_micros(2 * case.size);
    let count = Count::begin();
    for index in 0..case.size {
        let due = first + Duration::from_micros(5 * index);
        let late = Arc::clone(&late);
        timers.schedule(due.saturating_duration_since(Instant::now()), move || {
            let nanos = Instant::now().saturating_duration_since(due).as_nanos() as u64;
            // Relaxed: the count orders it.
            late[index as usize].store(nanos, Ordering::Relaxed);
            tally::count();
        });
    }
    let in_time = Instant::now() < first;
    // Listed again at the end: some contestants start threads when the first timer is due.
    let cpu_time = || {
        let own: Vec<_> = machine::threads().into_iter().filter(|id| !before.contains(id)).collect();
        machine::cpu_time(&own)
    };
    let begin = cpu_time();
    // Polls for the end only when it is near, so that it does not disturb the measurement.
    let last = first + Duration::from_micros(5 * case.size);
    thread::sleep(last.saturating_duration_since(Instant::now()));
    count.wait_for(case.size)?;
    let used = begin.zip(cpu_time()).map_or(f64::NAN, |(begin, end)| (end - begin) as f64);
    timers.close();
    count.check(case.size)?;
    if !in_time {
        return Err(Failure::Wrong("the first was due before the last was in".into()));
    }
    let mut late: Vec<_> =
        late.iter().map(|late| Duration::from_nanos(late.load(Ordering::Relaxed))).collect();
    let used = used / 1000.0 / case.size as f64;
    Ok(vec![percentile(&mut late, 0.5), percentile(&mut late, 0.99), used])
}
