//! Ids of tasks, workers and submitters.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// The id of a task: a UUID that the submitter chooses. Submitting the same id twice submits the
/// task once.
///
/// # Examples
/// ```
/// use millpond_cluster::TaskId;
///
/// let order = TaskId::from_name("order:42");
/// assert_eq!(order, TaskId::from_name("order:42")); // the same task
/// assert_eq!(order, order.to_string().parse().unwrap());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(Uuid);

impl TaskId {
    /// Makes a fresh id: a UUID of version 7, which sorts by time. Within a process, later ids are
    /// greater.
    pub fn fresh() -> TaskId {
        /// The latest time in milliseconds, and a 12-bit counter within it.
        static LATEST: AtomicU64 = AtomicU64::new(0);
        /// Drawn once from the system: a system call per id would add 5 % to a round trip.
        static KEY: OnceLock<RandomState> = OnceLock::new();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        let next = |latest: u64| (latest + 1).max(time << 12);
        let next_of = |latest| Some(next(latest));
        // Relaxed: threads share only the number itself.
        let latest = LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next_of);
        let number = next(latest.expect("there is always a next"));
        // Other processes have another key, and a fork of this process has another process id.
        let random = KEY.get_or_init(RandomState::new).hash_one((std::process::id(), number));
        let high = (number >> 12) << 16 | 0x7000 | number & 0xfff;
        TaskId(Uuid::from_u64_pair(high, 0b10 << 62 | random >> 2))
    }

    /// Makes an id from a name, such as an order number: a UUID of version 5.
    pub fn from_name(name: &str) -> TaskId {
        TaskId(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()))
    }

    /// The id as 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id with these 16 bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> TaskId {
        TaskId(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<Uuid> for TaskId {
    fn from(id: Uuid) -> TaskId {
        TaskId(id)
    }
}

impl From<u128> for TaskId {
    fn from(id: u128) -> TaskId {
        TaskId(Uuid::from_u128(id))
    }
}

impl From<TaskId> for Uuid {
    fn from(id: TaskId) -> Uuid {
        id.0
    }
}

/// The error of a text that is not a task id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseIdError(String);

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a task id: a task id is a UUID", self.0)
    }
}

impl std::error::Error for ParseIdError {}

impl FromStr for TaskId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<TaskId, ParseIdError> {
        Uuid::parse_str(text).map(TaskId).map_err(|_| ParseIdError(text.to_owned()))
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TaskId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The identity of a worker, fresh at each start: host, process id and a random part.
///
/// It cannot be configured: if two workers shared a name, the death of one would go unnoticed.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    pub(crate) fn fresh() -> WorkerId {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host: String =
            host.trim().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(16).collect();
        let host = if host.is_empty() { "host" } else { &host };
        WorkerId(format!("{host}-{}-{:06x}", std::process::id(), fastrand::u32(..1 << 24)).into())
    }

    /// The worker of this name, as listed by the administration.
    pub fn from_name(name: &str) -> WorkerId {
        WorkerId(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for WorkerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for WorkerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WorkerId, D::Error> {
        String::deserialize(deserializer).map(|name| WorkerId(name.into()))
    }
}

/// Identifies the connection that submitted a task, so that notices reach its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubmitterId(pub u64);

impl SubmitterId {
    pub(crate) fn fresh() -> SubmitterId {
        // 47 bits: SQLite stores them in six bytes, and collisions are rare. A collision costs only
        // latency: one submitter then learns of an end in its safety poll.
        SubmitterId(fastrand::u64(1..1 << 47))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_ids_are_different_and_grow() {
        let draw = || (0..10_000).map(|_| TaskId::fresh()).collect::<Vec<_>>();
        let threads = [(); 4].map(|()| std::thread::spawn(draw));
        let mut all = Vec::new();
        for thread in threads {
            let ids = thread.join().unwrap();
            assert!(ids.is_sorted(), "a later id is greater");
            all.extend(ids);
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 40_000);
    }

    #[test]
    fn fresh_id_is_a_uuid_of_version_7_with_the_time() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let id = Uuid::from(TaskId::fresh());
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        let (seconds, _) = id.get_timestamp().unwrap().to_unix();
        assert!((before..before + 60).contains(&seconds), "{seconds}");
    }
}
