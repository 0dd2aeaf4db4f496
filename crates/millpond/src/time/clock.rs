//! What time it is, and how a test can decide that: [`Clock`] and [`ManualClock`].
//!
//! Everything that waits for a time of day in this crate (scheduled pools, schedulers) asks a [`Clock`]. Inside, a
//! time is a [`Tick`]: nanoseconds since the clock's own beginning, one word, which saturates in the far future
//! and there means never. Waiting on a manual clock is waiting to be told: whoever waits registers as a
//! [`TimeListener`], and [`ManualClock::advance`] tells all of them before it returns.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering, Weak};
use crate::time::alarm::Timers;

/// A moment of a clock: nanoseconds since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    /// Five centuries on.
    pub(crate) const NEVER: Tick = Tick(u64::MAX);

    #[inline]
    pub(crate) fn plus(self, duration: Duration) -> Tick {
        // In 64 bits: `as_nanos` has 128, which takes longer than the rest of an insert's arithmetic.
        let nanos = duration.as_secs().saturating_mul(1_000_000_000);
        let nanos = nanos.saturating_add(u64::from(duration.subsec_nanos()));
        Tick(self.0.saturating_add(nanos))
    }

    /// How long from `now` until then: zero if that is past, `Duration::MAX` if it never comes.
    pub(crate) fn since(self, now: Tick) -> Duration {
        if self == Tick::NEVER { Duration::MAX } else { Duration::from_nanos(self.0.saturating_sub(now.0)) }
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn from_nanos(nanos: u64) -> Tick {
        Tick(nanos)
    }
}

/// Where a scheduled pool or a scheduler takes the time from. A cheap handle.
///
/// [`system`](Self::system) is the monotonic clock of the machine and the default everywhere. Tests use the clock
/// of a [`ManualClock`].
#[derive(Clone)]
pub struct Clock {
    manual: Option<Arc<Manual>>,
}

/// Tick 0 of the system's clock.
///
/// One reading serves both directions: `tick` counts from it, and `deadline` adds a tick to it. So a
/// deadline is exact whatever happens between two readings of the clock.
#[inline]
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

impl Clock {
    /// The machine's monotonic clock.
    pub fn system() -> Clock {
        Clock { manual: None }
    }

    /// What time it is by this clock.
    pub fn now(&self) -> Instant {
        match &self.manual {
            None => Instant::now(),
            Some(manual) => manual.begin + manual.elapsed(),
        }
    }

    #[inline]
    pub(crate) fn tick(&self) -> Tick {
        match &self.manual {
            None => {
                let origin = origin(); // read before `now`, so that no tick is negative
                Tick(0).plus(Instant::now().saturating_duration_since(origin))
            }
            Some(manual) => Tick(0).plus(manual.elapsed()),
        }
    }

    /// The tick of `moment`, or the present one if it is in the past. Never early.
    pub(crate) fn tick_at(&self, moment: Instant) -> Tick {
        let now = self.now(); // read before the tick
        self.tick_after(moment.saturating_duration_since(now))
    }

    /// When it will be `delay` from now.
    pub(crate) fn tick_after(&self, delay: Duration) -> Tick {
        self.tick().plus(delay)
    }

    /// Until when a thread that waits for `due` may sleep by itself. `None`: until it is told, because that is
    /// never, or because it is a manual clock.
    pub(crate) fn deadline(&self, due: Tick) -> Option<Instant> {
        #[cfg(loom)]
        if self.manual.is_some() && !self.tells() && due != Tick::NEVER {
            return Some(Instant::now() + Duration::from_secs(3600)); // when the model says so
        }
        match self.manual {
            None if due != Tick::NEVER => origin().checked_add(Duration::from_nanos(due.0)),
            _ => None,
        }
    }

    /// Has `listener` told when a manual clock is advanced. The machine's clock tells nobody.
    pub(crate) fn tell(&self, listener: Weak<dyn TimeListener>) {
        if let Some(manual) = self.manual.as_ref().filter(|_| self.tells()) {
            let mut listeners = manual.listeners.lock();
            listeners.retain(|listener| listener.strong_count() > 0);
            listeners.push(listener);
        }
    }

    /// The alarms that go by this clock. Those of the machine's clock have a thread, which is started if need be.
    pub(crate) fn timers(&self) -> io::Result<Arc<Timers>> {
        match &self.manual {
            None => Timers::of_the_machine(),
            Some(manual) => Ok(Arc::clone(&manual.timers)),
        }
    }

    /// It is a manual clock, which tells those who wait. With the machine's clock they wake by themselves.
    pub(crate) fn tells(&self) -> bool {
        #[cfg(loom)]
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

/// Somebody who waits for a manual clock.
pub(crate) trait TimeListener: Send + Sync {
    /// It is later now: hands out all that fell due.
    fn time_moved(&self);
}

pub(crate) struct Manual {
    begin: Instant,
    /// Nanoseconds since `begin`. SeqCst: who adds to what waits and then reads the time, and who moves the time and then
    /// looks at what waits, must not both miss the other.
    elapsed: AtomicU64,
    listeners: Mutex<Vec<Weak<dyn TimeListener>>>,
    /// The alarms of schedulers with this clock.
    timers: Arc<Timers>,
    /// It tells nobody: whoever waits does so with a deadline, as with the machine's clock.
    #[cfg(loom)]
    silent: bool,
}

impl Manual {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(Ordering::SeqCst))
    }
}

/// A clock that stands still until it is advanced: for tests that do not sleep.
///
/// # Examples
/// ```
/// use millpond::{ManualClock, ScheduledThreadPoolExecutor};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(1).clock(time.clock()).build()?;
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
    /// A clock that has just begun.
    pub fn new() -> ManualClock {
        ManualClock {
            manual: Arc::new(Manual {
                begin: Instant::now(),
                elapsed: AtomicU64::new(0),
                listeners: Mutex::new(Vec::new()),
                timers: Arc::new(Timers::new()),
                #[cfg(loom)]
                silent: false,
            }),
        }
    }

    /// In a model, the machine's clock: deadlines end by `ThreadContext::fire_timer_once`.
    #[cfg(loom)]
    pub(crate) fn silent() -> ManualClock {
        let mut clock = ManualClock::new();
        Arc::get_mut(&mut clock.manual).expect("not shared yet").silent = true;
        clock
    }

    /// The clock, for a pool or a scheduler.
    pub fn clock(&self) -> Clock {
        Clock { manual: Some(Arc::clone(&self.manual)) }
    }

    /// How far it has been advanced.
    pub fn elapsed(&self) -> Duration {
        self.manual.elapsed()
    }

    /// Moves the time forward by `duration`. On return all that fell due has been handed to its threads; it may still
    /// be running, or wait for one that is busy.
    pub fn advance(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // Five centuries are enough, and an `Instant` can hold them.
        let moved = |now: u64| Some(now.saturating_add(nanos).min(u64::MAX - 1));
        let _ = self.manual.elapsed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved);
        self.manual.timers.fire(self.clock().tick());
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

    /// The deadline of a delay, by `Instant`, is never before the delay is over.
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
