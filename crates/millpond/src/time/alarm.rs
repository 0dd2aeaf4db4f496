//! Alarms: who wants to be told when it is how late. One thread tells all of them.
//!
//! A scheduler keeps what it has to do later in a queue of its own and needs one [`Alarm`], set to the earliest of it.
//! The alarms of the machine's clock share one thread for the whole process, which is started with the first of them
//! and sleeps until the next is due. Those of a manual clock have no thread: `advance` fires them.
//!
//! The thread calls no user code, which could delay the alarms of all others: who is told sees to that ([`RingsOn`]).
//!
//! No alarm is missed. The thread announces until when it sleeps under the lock of the queue, and whoever sets an
//! earlier alarm sees that under the same lock and wakes it.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::panic::catch;
use crate::sync::{Arc, Mutex, OnceLock, Weak, lock_global};
use crate::sys::TimerSlack;
use crate::time::clock::{Clock, Tick};
use crate::time::heap::{Key, TimerQueue};

/// The thread on which an alarm rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingsOn {
    /// The one that keeps the time for the whole process: no user code may run there.
    TimerThread,
    /// One that has advanced a manual clock.
    AdvancingThread,
}

/// Somebody who wants to be told.
pub(crate) trait Ring: Send + Sync {
    /// It is time. Called with none of our locks held. What is told may be gone with `self`.
    fn ring(self: Arc<Self>, on: RingsOn);
}

pub(crate) struct Timers {
    state: Mutex<State>,
}

struct State {
    queue: TimerQueue<Weak<dyn Ring>>,
    next_number: u64,
    /// The thread, while it sleeps, and until when.
    asleep: Option<(Arc<WaitCell>, Tick)>,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        let state = State { queue: TimerQueue::new(), next_number: 0, asleep: None };
        Timers { state: Mutex::new(state) }
    }

    /// The alarms of the machine's clock, with their thread.
    pub(crate) fn of_the_machine() -> io::Result<Arc<Timers>> {
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
        std::thread::Builder::new().name("millpond-timer".to_owned()).spawn(move || thread.keep_time())?;
        Ok(Arc::clone(SHARED.get_or_init(|| timers)))
    }

    /// The life of the thread.
    fn keep_time(&self) -> ! {
        let (clock, me) = (Clock::system(), Arc::new(WaitCell::for_this_thread()));
        loop {
            let now = clock.tick();
            let mut state = self.state.lock();
            state.asleep = None;
            if let Some((_, _, who)) = state.queue.pop_due(now) {
                drop(state);
                tell(&who, RingsOn::TimerThread);
                continue;
            }
            let until = state.queue.first_due().unwrap_or(Tick::NEVER);
            me.reset(); // a notification that is still under way costs one more look
            state.asleep = Some((Arc::clone(&me), until));
            drop(state);
            let _slack = TimerSlack::at_most(slack(now, until));
            me.wait(clock.deadline(until), OnInterrupt::Keep);
        }
    }

    /// Tells everybody whose time has come by `now`, on a thread that has advanced a manual clock.
    pub(crate) fn fire(&self, now: Tick) {
        loop {
            let due = self.state.lock().queue.pop_due(now);
            let Some((_, _, who)) = due else { return };
            tell(&who, RingsOn::AdvancingThread);
        }
    }

    fn add(&self, due: Tick, who: Weak<dyn Ring>) -> Key {
        let mut state = self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let key = state.queue.insert(due, number, who);
        let too_late = state.asleep.take_if(|(_, until)| due < *until);
        drop(state);
        if let Some((thread, _)) = too_late {
            thread.notify();
        }
        key
    }

    fn take_back(&self, key: Key) {
        self.state.lock().queue.remove(key);
    }
}

/// A panic there must not be the end of time for all others.
fn tell(who: &Weak<dyn Ring>, on: RingsOn) {
    if let Some(who) = who.upgrade() {
        catch(move || who.ring(on));
    }
}

/// How late the timer thread may wake for an alarm at `until`.
///
/// Between the alarm and the task is another wake-up, of the thread that runs it. So the timer thread asks for less than
/// the 50 µs that Linux allows itself: for next to nothing if the alarm needs a wake-up of its own anyway, and otherwise
/// for enough to find several timers at once, because a wake-up costs more than a small task.
fn slack(now: Tick, until: Tick) -> Duration {
    const APART: Duration = Duration::from_micros(100);
    const LONE: Duration = Duration::from_micros(1);
    const SEVERAL: Duration = Duration::from_micros(20);
    if until > now.plus(APART) { LONE } else { SEVERAL }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("alarms", &self.state.lock().queue.len()).finish_non_exhaustive()
    }
}

/// One alarm, which can be set to one time at a time.
pub(crate) struct Alarm {
    clock: Clock,
    who: Weak<dyn Ring>,
    /// Its timers, once they were needed.
    timers: OnceLock<Arc<Timers>>,
    /// What it is set to.
    to: Mutex<Option<(Tick, Key)>>,
}

impl Alarm {
    pub(crate) fn new(clock: Clock, who: Weak<dyn Ring>) -> Alarm {
        Alarm { clock, who, timers: OnceLock::new(), to: Mutex::default() }
    }

    /// Makes sure that the alarm can be set. Fails if the thread that it needs cannot be started.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        if self.timers.get().is_none() {
            let timers = self.clock.timers()?;
            self.timers.get_or_init(|| timers);
        }
        Ok(())
    }

    /// Sets the alarm to `due`, in the place of what it was set to. It may then ring once too often, and never too
    /// seldom. False: it could not be set, for `prepare` has not succeeded yet.
    pub(crate) fn set(&self, due: Option<Tick>) -> bool {
        let due = due.filter(|due| *due != Tick::NEVER);
        let mut set = self.to.lock();
        if set.map(|(to, _)| to) == due {
            return true;
        }
        let Some(timers) = self.timers.get() else { return false };
        if let Some((_, key)) = set.take() {
            timers.take_back(key);
        }
        *set = due.map(|due| (due, timers.add(due, Weak::clone(&self.who))));
        true
    }

    /// It has rung, so it is set to nothing.
    pub(crate) fn rang(&self) {
        *self.to.lock() = None;
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.set(None);
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("set_to", &*self.to.lock()).finish_non_exhaustive()
    }
}
