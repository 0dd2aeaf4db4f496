//! [`Limit`]: at most one event per pool and second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);

/// Lets one event per pool and second pass, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    pools: Mutex<HashMap<Arc<str>, Held>>,
}

#[derive(Debug)]
struct Held {
    last: Instant,
    count: u64,
}

impl Limit {
    /// Returns the number of events suppressed since the last one. `None`: suppress this one too.
    pub(crate) fn pass(&self, pool: &Arc<str>, now: Instant) -> Option<u64> {
        let mut pools = self.lock();
        let Some(held) = pools.get_mut(pool) else {
            pools.insert(Arc::clone(pool), Held { last: now, count: 0 });
            return Some(0);
        };
        if now.saturating_duration_since(held.last) < INTERVAL {
            held.count += 1;
            return None;
        }
        held.last = now;
        Some(std::mem::take(&mut held.count))
    }

    /// Removes the entry of a pool that has terminated.
    pub(crate) fn forget(&self, pool: &str) {
        self.lock().remove(pool);
    }

    /// Ignores poisoning: a panic cannot leave the map inconsistent.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Held>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{INTERVAL, Limit};
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn one_event_per_pool_and_interval_passes_and_tells_of_the_others() {
        let (limit, start) = (Limit::default(), Instant::now());
        let (db, web): (Arc<str>, Arc<str>) = ("db".into(), "web".into());
        assert_eq!(limit.pass(&db, start), Some(0));
        assert_eq!(limit.pass(&db, start), None);
        assert_eq!(limit.pass(&web, start), Some(0), "each pool has a limit of its own");
        assert_eq!(limit.pass(&db, start + INTERVAL / 2), None);
        assert_eq!(limit.pass(&db, start + INTERVAL), Some(2));
        assert_eq!(limit.pass(&db, start + INTERVAL), None);
        limit.forget("db");
        assert_eq!(limit.pass(&db, start + INTERVAL), Some(0), "a new pool of that name");
    }
}
