//! The three formulas.

use std::thread;
use std::time::Duration;

use millpond::sizing::{cpu_bound, for_rate, io_bound, io_bound_on};

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn work_that_computes_gets_one_thread_per_core_and_one_more() {
    assert_eq!(cpu_bound(), cores() + 1);
}

#[test]
fn work_that_waits_gets_cores_times_one_plus_wait_by_compute() {
    assert_eq!(io_bound(ms(90), ms(10)), cores() * 10);
    assert_eq!(io_bound(ms(10), ms(10)), cores() * 2);
    assert_eq!(io_bound(Duration::ZERO, ms(10)), cores());
    assert_eq!(io_bound(ms(1), ms(1000)), cores() + cores().div_ceil(1000), "a part of a thread is one");
}

#[test]
fn the_cores_may_be_those_of_another_machine() {
    assert_eq!(io_bound_on(cores(), ms(90), ms(10)), io_bound(ms(90), ms(10)));
    assert_eq!(io_bound_on(16, ms(14), ms(6)), 54, "16 and 16 × 14 / 6, rounded up");
    assert_eq!(io_bound_on(0, ms(14), ms(6)), 0);
    assert_eq!(io_bound_on(usize::MAX, Duration::MAX, Duration::ZERO), usize::MAX);
}

#[test]
fn extreme_times_neither_panic_nor_wrap() {
    assert_eq!(io_bound(Duration::MAX, Duration::MAX), cores() * 2);
    assert_eq!(io_bound(Duration::ZERO, Duration::ZERO), cores());
    assert!(io_bound(Duration::MAX, Duration::ZERO) >= io_bound(ms(1000), Duration::ZERO));
    assert!(io_bound(ms(1), Duration::ZERO) >= cores());
    assert_eq!(for_rate(f64::MAX, Duration::MAX), usize::MAX);
    assert_eq!(for_rate(f64::INFINITY, ms(1)), usize::MAX);
}

#[test]
fn a_rate_is_carried_by_rate_times_latency() {
    assert_eq!(for_rate(200.0, ms(50)), 10);
    assert_eq!(for_rate(1000, ms(20)), 20);
    assert_eq!(for_rate(201.0, ms(50)), 11, "a part of a thread is one");
    assert_eq!(for_rate(3.0, ms(100)), 1);
}

#[test]
fn a_rate_that_is_none_needs_one_thread() {
    for rate in [0.0, -5.0, f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(for_rate(rate, ms(50)), 1, "{rate}");
    }
    assert_eq!(for_rate(100.0, Duration::ZERO), 1);
    assert_eq!(for_rate(f64::INFINITY, Duration::ZERO), 1, "not a number: no rate");
}
