//! Keeps a minimum time between the starts of two jobs (`--delay`), and their order.
//!
//! A worker takes the turn, waits until the delay since the last start has elapsed, starts the
//! process, and passes the turn on. So the time between two starts is never too short, even if a
//! thread wakes late.
//!
//! A pool of fixed size passes jobs to workers in order, but the workers then race for the turn. So
//! each job has a place, and its first start waits for all earlier places. Their jobs are already
//! with workers, so the wait is short. Dropping a job releases its place. A growing pool has no
//! places: its extra threads run the newest job first.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::stop::{Step, Stop};
use super::wait::{poll_until, readable};

#[derive(Debug)]
pub(super) struct Pace {
    delay: Option<Duration>,
    in_order: bool,
    state: Mutex<State>,
    /// Notified when the turn is free or a place has passed.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of places given out.
    places: u64,
    /// The least place that has not passed.
    next: u64,
    /// Places after `next` that have passed.
    passed: BTreeSet<u64>,
    turn_is_taken: bool,
    last_start: Option<Instant>,
    /// Threads that wait for the turn.
    waiting: usize,
}

/// The position of a job in the order of starts. It passes on drop.
#[derive(Debug)]
pub(super) struct Place {
    pace: Arc<Pace>,
    number: u64,
}

/// The right to start one process. The delay counts from the end of the turn.
#[derive(Debug)]
pub(super) struct Turn<'a>(Option<&'a Pace>);

impl Pace {
    pub(super) fn new(delay: Option<Duration>, in_order: bool) -> Arc<Pace> {
        let delay = delay.filter(|delay| !delay.is_zero());
        Arc::new(Pace { delay, in_order, state: Mutex::default(), changed: Condvar::new() })
    }

    /// The next place. `None` if starts have no order.
    pub(super) fn place(self: &Arc<Self>) -> Option<Place> {
        if self.delay.is_none() || !self.in_order {
            return None;
        }
        let mut state = self.state();
        state.places += 1;
        Some(Place { pace: Arc::clone(self), number: state.places - 1 })
    }

    /// Waits for the turn and the delay. `None` if the run stops first.
    pub(super) fn turn(&self, place: Option<&Place>, stop: &Stop) -> Option<Turn<'_>> {
        let Some(delay) = self.delay else { return Some(Turn(None)) };
        let last_start = self.take_turn(place);
        let turn = Turn(Some(self));
        let Some(last_start) = last_start else { return Some(turn) };
        // A delay beyond the end of the clock ends only with the run.
        let until = last_start.checked_add(delay);
        while until.is_none_or(|until| Instant::now() < until) {
            let is_stopping = || stop.step() >= Step::Finishing;
            if is_stopping() || poll_until(&mut [readable(stop.start_alarm().as_fd())], until).is_err() {
                turn.give_back();
                return None;
            }
        }
        Some(turn)
    }

    /// Returns the time of the last start.
    fn take_turn(&self, place: Option<&Place>) -> Option<Instant> {
        let mut state = self.state();
        state.waiting += 1;
        while state.turn_is_taken || place.is_some_and(|place| place.number > state.next) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.turn_is_taken = true;
        state.last_start
    }

    fn free_turn(&self, started: Option<Instant>) {
        let mut state = self.state();
        state.turn_is_taken = false;
        state.last_start = started.or(state.last_start);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Ends the turn without a start.
    fn give_back(mut self) {
        self.0.take().into_iter().for_each(|pace| pace.free_turn(None));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.into_iter().for_each(|pace| pace.free_turn(Some(Instant::now())));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.pace.state();
        state.passed.insert(self.number);
        while let Some(true) = state.passed.first().map(|first| *first == state.next) {
            state.passed.pop_first();
            state.next += 1;
        }
        self.pace.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::commands::run::stop::Reason;

    /// Takes a turn and returns when it began.
    fn start(pace: &Pace, place: Option<Place>) -> Instant {
        let stop = Stop::new().expect("pipes");
        let turn = pace.turn(place.as_ref(), &stop).expect("the run goes on");
        let begun = Instant::now();
        drop(turn);
        begun
    }

    #[test]
    fn the_delay_counts_from_the_end_of_the_last_turn() {
        let delay = Duration::from_millis(50);
        let pace = Pace::new(Some(delay), true);
        let stop = Stop::new().expect("pipes");
        let turn = pace.turn(None, &stop).expect("the first starts at once");
        thread::sleep(delay);
        let started = Instant::now();
        drop(turn);
        assert!(start(&pace, None) >= started + delay);
    }

    /// Without places, the first worker would take the first turn.
    #[test]
    fn a_later_place_waits_for_an_earlier_one() {
        let pace = Pace::new(Some(Duration::from_millis(1)), true);
        let (first, second) = (pace.place(), pace.place());
        let worker = thread::spawn({
            let pace = Arc::clone(&pace);
            move || start(&pace, second)
        });
        while pace.state().waiting == 0 && !worker.is_finished() {
            thread::yield_now();
        }
        let begun = start(&pace, first);
        assert!(worker.join().expect("no panic") > begun);
    }

    #[test]
    fn a_place_whose_job_is_dropped_passes() {
        let pace = Pace::new(Some(Duration::from_millis(1)), true);
        let places: Vec<Option<Place>> = (0..4).map(|_| pace.place()).collect();
        let [first, second, third, fourth] = places.try_into().expect("four");
        drop(third);
        drop(second);
        start(&pace, first);
        start(&pace, fourth);
        let state = pace.state();
        assert_eq!((state.next, state.passed.len()), (4, 0));
    }

    #[test]
    fn a_pool_that_grows_has_no_places() {
        assert!(Pace::new(Some(Duration::from_secs(1)), false).place().is_none());
        assert!(Pace::new(None, true).place().is_none());
    }

    #[test]
    fn a_stop_ends_the_waits_one_after_the_other() {
        let stop = Stop::new().expect("pipes");
        let pace = Pace::new(Some(Duration::MAX), true);
        assert!(pace.turn(None, &stop).is_some(), "the first may start at once");
        thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(|| pace.turn(None, &stop).is_none())).collect();
            stop.advance(Step::Finishing, Reason::Halt);
            assert!(workers.into_iter().all(|worker| worker.join().expect("no panic")));
        });
        let _ = millpond::interrupt::interrupted();
    }
}
