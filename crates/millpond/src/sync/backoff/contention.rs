//! Contention back-off: a thread that repeatedly finds a lock taken pauses. So the current owner
//! can take the lock again without fetching the cache lines that it guards.

use std::time::{Duration, Instant};

use super::{THREAD, yield_while};

/// The recent contention that one thread has seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contention {
    /// How often in a row the thread found a lock taken soon after it had acquired one.
    in_a_row: u32,
    /// When the thread last acquired a lock that it had found taken.
    last: Option<Instant>,
}

impl Contention {
    pub(super) const NONE: Contention = Contention { in_a_row: 0, last: None };
    /// A lock that is found taken within this time after the last one counts as contention. A
    /// thread that runs tasks of a few microseconds finds a lock taken now and then, but not in a
    /// row.
    const SOON: Duration = Duration::from_micros(2);
    /// Number of times in a row before the thread pauses.
    const CALM: u32 = 2;
    /// The first pause. Each pause is twice as long as the one before.
    const SHORTEST: Duration = Duration::from_nanos(500);
    /// The longest pause is 16 µs, which is less than a park and a wake-up cost.
    const DOUBLINGS: u32 = 5;

    /// Called by a thread that found a lock taken. Pauses if that has happened several times in a
    /// row.
    pub(crate) fn back_off() -> Contention {
        let (contention, pause) = THREAD.with(|thread| thread.contention.get().found_taken(Instant::now()));
        if let Some(pause) = pause {
            yield_while(pause, || true); // the holder of the lock may need this core
        }
        contention
    }

    /// Called when the same thread has acquired the lock.
    pub(crate) fn acquired(self) {
        THREAD.with(|thread| thread.contention.set(self.acquired_at(Instant::now())));
    }

    /// Returns the next state, and how long to pause.
    fn found_taken(self, now: Instant) -> (Contention, Option<Duration>) {
        let soon = self.last.is_some_and(|last| now.saturating_duration_since(last) < Self::SOON);
        let in_a_row = if soon { (self.in_a_row + 1).min(Self::CALM + 1 + Self::DOUBLINGS) } else { 0 };
        let doublings = in_a_row.checked_sub(Self::CALM + 1);
        (Contention { in_a_row, ..self }, doublings.map(|doublings| Self::SHORTEST * (1 << doublings)))
    }

    fn acquired_at(self, now: Instant) -> Contention {
        Contention { last: Some(now), ..self }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_while_locks_are_found_taken_in_a_row() {
        let begin = Instant::now();
        let mut contention = Contention::NONE;
        let mut pause_at = |nanos: u64| {
            let now = begin + Duration::from_nanos(nanos);
            let (next, pause) = contention.found_taken(now);
            contention = next.acquired_at(now);
            pause.map(|pause| pause.as_nanos())
        };
        let pauses: Vec<_> = (0..11).map(|step| pause_at(step * 1900)).collect();
        let grows = [500, 1000, 2000, 4000, 8000, 16_000, 16_000, 16_000].map(Some);
        assert_eq!(pauses, [[None; 3].as_slice(), &grows].concat());
        let after_some_work: Vec<_> = [21_000, 21_100, 21_200, 21_300].map(pause_at).into();
        assert_eq!(after_some_work, [None, None, None, Some(500)], "it starts over");
    }
}
