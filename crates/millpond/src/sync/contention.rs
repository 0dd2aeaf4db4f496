//! Who steps back from a lock that several threads want all the time; why that pays is told in the file above this one.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::sync::backoff::yield_while;

std::thread_local! {
    static MINE: Cell<Contention> = const { Cell::new(Contention::NONE) };
}

/// How a thread fares with locks that others want too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contention {
    /// So many times has it found one taken, each soon after it had got one.
    in_a_row: u32,
    /// When it got the last of these.
    last: Option<Instant>,
}

/// The calling thread has found a lock taken: leaves it to the others for a while, if that happens again and again.
pub(super) fn step_back() -> Contention {
    let found = Instant::now();
    let (contention, pause) = MINE.get().found_taken(found);
    if let Some(pause) = pause {
        yield_while(pause, || true); // the holder of the lock may want this core
    }
    contention
}

impl Contention {
    const NONE: Contention = Contention { in_a_row: 0, last: None };
    /// Who finds a lock taken so soon after it had one has done little in between. A thread that runs tasks of some
    /// microseconds finds a lock taken now and then, but not several times in a row.
    const SOON: Duration = Duration::from_micros(2);
    /// So often that may happen before it steps back.
    const CALM: u32 = 2;
    /// For so long at first, and each time twice as long as before.
    const SHORTEST: Duration = Duration::from_nanos(500);
    /// So many times: up to 16 microseconds, less than to sleep and be woken would take.
    const DOUBLINGS: u32 = 5;

    /// The calling thread has got the lock.
    pub(super) fn is_over(self) {
        MINE.set(self.had_it(Instant::now()));
    }

    /// It has found a lock taken: how long it is to step back.
    fn found_taken(self, now: Instant) -> (Contention, Option<Duration>) {
        let soon = self.last.is_some_and(|last| now.saturating_duration_since(last) < Self::SOON);
        let in_a_row = if soon { (self.in_a_row + 1).min(Self::CALM + 1 + Self::DOUBLINGS) } else { 0 };
        let doublings = in_a_row.checked_sub(Self::CALM + 1);
        (Contention { in_a_row, ..self }, doublings.map(|doublings| Self::SHORTEST * (1 << doublings)))
    }

    fn had_it(self, now: Instant) -> Contention {
        Contention { last: Some(now), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_a_lock_taken_again_and_again_steps_back_for_longer_and_longer() {
        let begin = Instant::now();
        let mut contention = Contention::NONE;
        let mut pause_at = |nanos: u64| {
            let now = begin + Duration::from_nanos(nanos);
            let (next, pause) = contention.found_taken(now);
            contention = next.had_it(now);
            pause.map(|pause| pause.as_nanos())
        };
        let pauses: Vec<_> = (0..11).map(|step| pause_at(step * 1900)).collect();
        let grows = [500, 1000, 2000, 4000, 8000, 16_000, 16_000, 16_000].map(Some);
        assert_eq!(pauses, [[None; 3].as_slice(), &grows].concat());
        let after_some_work: Vec<_> = [21_000, 21_100, 21_200, 21_300].map(pause_at).into();
        assert_eq!(after_some_work, [None, None, None, Some(500)], "it begins anew");
    }
}
