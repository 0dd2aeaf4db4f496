//! [`Clock`], the source of time of pools and schedulers, and [`ManualClock`], its version for
//! tests.
//!
//! Pools and schedulers represent a time as a [`Tick`], one word. A thread that waits on the system
//! clock wakes by itself. A thread that waits on a manual clock is notified: the pool registers as
//! a [`TimeListener`] and a scheduler sets an alarm. [`ManualClock::advance`] notifies all of them
//! before it returns.

use std::fmt;
use std::time::{Duration, Instant};

use super::timers::{RingsOn, Timers};
use crate::sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering, Weak};

pub(crate) use super::tick::Tick;

/// The source of time of a pool or a scheduler. Cheap to clone.
///
/// [`system`](Self::system) is the monotonic clock of the machine, and the default everywhere.
/// Tests use the clock of a [`ManualClock`].
#[derive(Clone)]
pub struct Clock {
    manual: Option<Arc<Manual>>,
}

/// Returns tick 0 of the system clock.
///
/// `tick` measures from this instant and `deadline` adds a tick to it. So a deadline is exact, no
/// matter when the clock is read.
#[inline]
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(|| {
        let origin = Instant::now();
        // Keeps a second reading apart from this one, so that the tests below notice it for sure.
        #[cfg(all(test, not(loom)))]
        std::thread::sleep(Duration::from_millis(1));
        origin
    })
}

impl Clock {
    /// Returns the monotonic clock of the machine.
    pub fn system() -> Clock {
        Clock { manual: None }
    }

    /// Returns the current time of this clock.
    pub fn now(&self) -> Instant {
        match &self.manual {
            None => Instant::now(),
            Some(manual) => manual.begin + manual.read(),
        }
    }

    #[inline]
    pub(crate) fn tick(&self) -> Tick {
        match &self.manual {
            None => {
                let origin = origin(); // before `now`: no tick is negative
                Tick::ORIGIN.plus(Instant::now().saturating_duration_since(origin))
            }
            Some(manual) => Tick::ORIGIN.plus(manual.read()),
        }
    }

    /// Returns the tick of `moment`, or the current tick if `moment` has passed. Never early.
    pub(crate) fn tick_at(&self, moment: Instant) -> Tick {
        let now = self.now(); // read before the tick: the result may be late, not early
        self.tick_after(moment.saturating_duration_since(now))
    }

    /// Returns the tick `delay` from now.
    pub(crate) fn tick_after(&self, delay: Duration) -> Tick {
        self.tick().plus(delay)
    }

    /// Returns the deadline of a thread that waits for `due`. `None` means that the thread waits
    /// until notified, because `due` is never or this is a manual clock.
    pub(crate) fn deadline(&self, due: Tick) -> Option<Instant> {
        #[cfg(all(loom, test))]
        if self.manual.is_some() && !self.tells() && due != Tick::NEVER {
            return Some(Instant::now() + Duration::from_secs(3600)); // over when the model says so
        }
        match self.manual {
            None if due != Tick::NEVER => origin().checked_add(Duration::from_nanos(due.nanos())),
            _ => None,
        }
    }

    /// Registers `listener` for the advances of a manual clock. Does nothing for the system clock.
    pub(crate) fn tell(&self, listener: Weak<dyn TimeListener>) {
        if let Some(manual) = self.manual.as_ref().filter(|_| self.tells()) {
            let mut listeners = manual.listeners.lock();
            listeners.retain(|listener| listener.strong_count() > 0);
            listeners.push(listener);
        }
    }

    /// Returns the alarms of a manual clock.
    pub(super) fn manual_timers(&self) -> Option<Arc<Timers>> {
        self.manual.as_ref().map(|manual| Arc::clone(&manual.timers))
    }

    /// True for a manual clock, which notifies waiting threads.
    pub(crate) fn tells(&self) -> bool {
        #[cfg(all(loom, test))]
        if self.manual.as_ref().is_some_and(|manual| manual.silent) {
            return false;
        }
        self.manual.is_some()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.manual {
            None => f.write_str("Clock(system)"),
            Some(manual) => write!(f, "Clock(manual, {:?})", manual.elapsed()),
        }
    }
}

/// A pool that waits on a manual clock.
pub(crate) trait TimeListener: Send + Sync {
    /// Called after the clock was advanced. Hands out all tasks that are due.
    fn time_moved(&self);
}

struct Manual {
    begin: Instant,
    /// Nanoseconds since `begin`.
    ///
    /// SeqCst: one thread adds a task and then reads the time; another thread moves the time and
    /// then reads the tasks. At least one of them must see the other's write.
    elapsed: AtomicU64,
    /// Number of times that a pool or a scheduler has read the time.
    readings: std::sync::atomic::AtomicU64,
    listeners: Mutex<Vec<Weak<dyn TimeListener>>>,
    /// The alarms of schedulers with this clock.
    timers: Arc<Timers>,
    /// True if, in a model, the clock notifies no thread. Threads then wait with a deadline, as
    /// with the system clock.
    #[cfg(all(loom, test))]
    silent: bool,
}

impl Manual {
    fn read(&self) -> Duration {
        self.readings.fetch_add(1, Ordering::Relaxed); // a statistic for tests
        self.elapsed()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(Ordering::SeqCst))
    }
}

/// A clock that stands still until it is advanced, for tests without sleeps.
///
/// # Examples
/// ```
/// use millpond::{ManualClock, ScheduledThreadPoolExecutor};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let builder = ScheduledThreadPoolExecutor::builder().core_pool_size(1);
/// let pool = builder.clock(time.clock()).build()?;
/// let tomorrow = pool.schedule(Duration::from_secs(24 * 3600), || "good morning")?;
/// assert!(!tomorrow.is_done());
/// time.advance(Duration::from_secs(24 * 3600));
/// assert_eq!(tomorrow.join()?, "good morning");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ManualClock {
    manual: Arc<Manual>,
}

impl ManualClock {
    /// Creates a clock with no time elapsed.
    pub fn new() -> ManualClock {
        ManualClock {
            manual: Arc::new(Manual {
                begin: Instant::now(),
                elapsed: AtomicU64::new(0),
                readings: std::sync::atomic::AtomicU64::new(0),
                listeners: Mutex::new(Vec::new()),
                timers: Arc::new(Timers::new()),
                #[cfg(all(loom, test))]
                silent: false,
            }),
        }
    }

    /// Creates a stand-in for the system clock in a model. `ThreadContext::fire_timer_once` ends
    /// deadlines.
    #[cfg(all(loom, test))]
    pub(crate) fn silent() -> ManualClock {
        let mut clock = ManualClock::new();
        Arc::get_mut(&mut clock.manual).expect("not shared yet").silent = true;
        clock
    }

    /// Returns the clock, to pass to a pool or a scheduler.
    pub fn clock(&self) -> Clock {
        Clock { manual: Some(Arc::clone(&self.manual)) }
    }

    /// Returns how far the clock has been advanced.
    pub fn elapsed(&self) -> Duration {
        self.manual.elapsed()
    }

    /// Returns how often the time was read through a [`Clock`], for tests of measurements.
    #[doc(hidden)]
    pub fn readings(&self) -> u64 {
        self.manual.readings.load(Ordering::Relaxed)
    }

    /// Moves the time forward by `duration`.
    ///
    /// When the call returns, all tasks that are due have been handed to their threads. They may
    /// still be running, or waiting for a busy thread.
    pub fn advance(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // The limit is about five centuries, which an `Instant` can represent.
        let moved = |now: u64| Some(now.saturating_add(nanos).min(u64::MAX - 1));
        let _ = self.manual.elapsed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved);
        let now = Tick::ORIGIN.plus(self.manual.elapsed());
        self.manual.timers.ring_due(now, RingsOn::AdvancingThread);
        let listeners = self.manual.listeners.lock().clone();
        for listener in listeners.iter().filter_map(Weak::upgrade) {
            listener.time_moved();
        }
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("elapsed", &self.elapsed()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The deadline of a delay is never before the end of the delay by `Instant`.
    #[test]
    fn a_deadline_is_never_early() {
        let clock = Clock::system();
        for micros in [0, 1, 50, 1_000, 86_400_000_000] {
            let delay = Duration::from_micros(micros);
            for _ in 0..if cfg!(miri) { 3 } else { 1000 } {
                let before = Instant::now();
                let deadline = clock.deadline(clock.tick_after(delay)).expect("not never");
                let after = Instant::now();
                assert!(before + delay <= deadline, "{:?} early", before + delay - deadline);
                assert!(deadline <= after + delay, "{:?} late", deadline - (after + delay));
            }
        }
    }

    #[test]
    fn ticks_and_instants_agree() {
        let clock = Clock::system();
        let mut last = clock.tick();
        for _ in 0..if cfg!(miri) { 100 } else { 10_000 } {
            let before = Instant::now();
            let tick = clock.tick();
            assert!(tick >= last, "{tick:?} after {last:?}");
            assert!(before <= clock.deadline(tick).expect("not never"));
            last = tick;
        }
        assert_eq!(clock.deadline(Tick::NEVER), None);
    }
}
