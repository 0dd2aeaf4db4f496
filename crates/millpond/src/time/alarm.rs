//! Alarms of schedulers, and the timer thread that rings them.
//!
//! A scheduler keeps its delayed work in its own queue and needs one [`Alarm`], set to the earliest
//! due time. The alarms of the system clock share one thread for the whole process. The first alarm
//! starts this thread, which sleeps until the next alarm is due. Alarms of a manual clock have no
//! thread: `advance` rings them.
//!
//! The timer thread runs no user code, which could delay all other alarms. A receiver that would
//! run user code passes it to another thread; see [`RingsOn`].

use std::fmt;
use std::io;
use std::time::Duration;

use super::clock::Clock;
use super::heap::Key;
use super::tick::Tick;
use super::timers::Timers;
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::sync::{Arc, Mutex, OnceLock, Weak, lock_global};
use crate::sys::TimerSlack;

pub(crate) use super::timers::{Ring, RingsOn};

/// One alarm, set to one time or none.
pub(crate) struct Alarm {
    clock: Clock,
    receiver: Weak<dyn Ring>,
    /// The queue that contains the alarm while it is set. Initialised by `prepare`.
    timers: OnceLock<Arc<Timers>>,
    /// The time that the alarm is set to, and its key in the queue.
    set_to: Mutex<Option<(Tick, Key)>>,
}

impl Alarm {
    pub(crate) fn new(clock: Clock, receiver: Weak<dyn Ring>) -> Alarm {
        Alarm { clock, receiver, timers: OnceLock::new(), set_to: Mutex::default() }
    }

    /// Ensures that the alarm can be set. Fails if the timer thread cannot be started.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        if self.timers.get().is_none() {
            let timers = self.clock.manual_timers().map_or_else(system_timers, Ok)?;
            self.timers.get_or_init(|| timers);
        }
        Ok(())
    }

    /// Sets the alarm to `due` instead of its previous time. It may still ring once for the
    /// previous time. Returns false if it cannot be set because `prepare` has not succeeded yet.
    pub(crate) fn set(&self, due: Option<Tick>) -> bool {
        let due = due.filter(|due| *due != Tick::NEVER);
        let mut set_to = self.set_to.lock();
        if set_to.map(|(tick, _)| tick) == due {
            return true;
        }
        let Some(timers) = self.timers.get() else { return false };
        if let Some((_, key)) = set_to.take() {
            timers.remove(key);
        }
        *set_to = due.map(|due| (due, timers.add(due, Weak::clone(&self.receiver))));
        true
    }

    /// Called when the alarm has rung, which unsets it. Another thread may have set an earlier time
    /// just before this call, so the entry of that time is removed.
    pub(crate) fn rang(&self) {
        self.set(None);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.set(None);
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("set_to", &*self.set_to.lock()).finish_non_exhaustive()
    }
}

/// Returns the alarms of the system clock. The first call starts their thread.
fn system_timers() -> io::Result<Arc<Timers>> {
    static SHARED: OnceLock<Arc<Timers>> = OnceLock::new();
    static STARTING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    if let Some(timers) = SHARED.get() {
        return Ok(Arc::clone(timers));
    }
    let _one_at_a_time = lock_global(&STARTING);
    if let Some(timers) = SHARED.get() {
        return Ok(Arc::clone(timers));
    }
    let timers = Arc::new(Timers::new());
    let thread = Arc::clone(&timers);
    std::thread::Builder::new().name("millpond-timer".to_owned()).spawn(move || ring_forever(&thread))?;
    Ok(Arc::clone(SHARED.get_or_init(|| timers)))
}

/// The body of the timer thread.
fn ring_forever(timers: &Timers) -> ! {
    let (clock, me) = (Clock::system(), Arc::new(WaitCell::for_this_thread()));
    loop {
        let now = clock.tick();
        timers.ring_due(now, RingsOn::TimerThread);
        let until = timers.announce_wait(&me);
        let _slack = TimerSlack::at_most(slack(now, until));
        me.wait(clock.deadline(until), OnInterrupt::Keep);
    }
}

/// Returns how late the timer thread may wake for an alarm at `until`.
///
/// Another wake-up follows, of the thread that runs the task. So the timer thread requests less
/// than the default slack of Linux, 50 µs. A lone alarm needs its own wake-up in any case, and gets
/// 1 µs. Alarms close to each other get 20 µs, so that one wake-up serves several: a wake-up costs
/// more than a small task.
fn slack(now: Tick, until: Tick) -> Duration {
    const APART: Duration = Duration::from_micros(100);
    const LONE: Duration = Duration::from_micros(1);
    const SEVERAL: Duration = Duration::from_micros(20);
    if until > now.plus(APART) { LONE } else { SEVERAL }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};
    use crate::time::clock::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

    /// The first time it rings, another thread sets an earlier time before the ring is recorded.
    struct Receiver {
        alarm: Alarm,
        rings: AtomicU64,
    }

    impl Ring for Receiver {
        fn ring(self: Arc<Self>, _: RingsOn) {
            let now = self.alarm.clock.tick();
            if self.rings.fetch_add(1, Ordering::Relaxed) == 0 {
                self.alarm.set(Some(Tick::ORIGIN));
            }
            self.alarm.rang();
            self.alarm.set(Some(now.plus(SECOND)));
        }
    }

    /// Regression: the alarm forgot the earlier time, but its entry stayed in the queue. It rang
    /// and added one more entry, and so on for ever.
    #[test]
    fn an_alarm_that_is_moved_while_it_rings_has_one_entry() {
        let time = ManualClock::new();
        let receiver = Arc::new_cyclic(|me: &Weak<Receiver>| Receiver {
            alarm: Alarm::new(time.clock(), Weak::clone(me) as Weak<dyn Ring>),
            rings: AtomicU64::new(0),
        });
        receiver.alarm.prepare().unwrap();
        receiver.alarm.set(Some(time.clock().tick().plus(SECOND)));
        time.advance(SECOND);
        let timers = receiver.alarm.timers.get().unwrap();
        assert_eq!(format!("{timers:?}"), "Timers { alarms: 1, .. }");
        assert_eq!(receiver.rings.load(Ordering::Relaxed), 1);
    }
}
