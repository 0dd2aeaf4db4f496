//! Keeps a minimum time between the starts of two jobs (`--delay`).

use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::stop::{Step, Stop};
use super::wait::{poll_until, readable};

#[derive(Debug)]
pub(super) struct Pace {
    delay: Option<Duration>,
    /// The earliest time of the next start. None before the first.
    next: Mutex<Option<Instant>>,
}

impl Pace {
    pub(super) fn new(delay: Option<Duration>) -> Pace {
        Pace { delay: delay.filter(|delay| !delay.is_zero()), next: Mutex::new(None) }
    }

    /// Waits for the turn of one start. False if the run stops first.
    pub(super) fn wait(&self, stop: &Stop) -> bool {
        let Some(delay) = self.delay else { return true };
        let turn = self.reserve(delay, Instant::now());
        while Instant::now() < turn {
            if poll_until(&mut [readable(stop.start_alarm().as_fd())], Some(turn)).is_err()
                || stop.step() >= Step::Finishing
            {
                return false;
            }
        }
        true
    }

    fn reserve(&self, delay: Duration, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = next.map_or(now, |next| next.max(now));
        // A delay beyond the end of the clock is as long as an hour for this purpose.
        *next = Some(turn.checked_add(delay).unwrap_or(turn + Duration::from_secs(3600)));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::run::stop::Reason;

    #[test]
    fn turns_are_at_least_the_delay_apart() {
        let second = Duration::from_secs(1);
        let pace = Pace::new(Some(second));
        let begin = Instant::now();
        let turns: Vec<Instant> = (0..3).map(|_| pace.reserve(second, begin)).collect();
        assert_eq!(turns, [begin, begin + second, begin + 2 * second]);
        let late = begin + 10 * second;
        assert_eq!(pace.reserve(second, late), late, "time that nobody used is not made up");
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let stop = Stop::new().expect("pipes");
        let pace = Pace::new(Some(Duration::from_secs(3600)));
        assert!(pace.wait(&stop), "the first may start at once");
        stop.advance(Step::Finishing, Reason::Halt);
        assert!(!pace.wait(&stop));
        let _ = millpond::interrupt::interrupted();
    }
}
