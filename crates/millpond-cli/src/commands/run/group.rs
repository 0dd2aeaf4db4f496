//! Checks whether a process group still has running members after its leader has ended.
//!
//! A shell exits at once on `SIGTERM`, but its children may ignore the signal. So ending a job
//! means ending the whole group.

use rustix::process::{Pid, test_kill_process_group};

/// Whether a process of the group is still running.
///
/// The caller must have reaped the leader. The system does not reuse the id of a group that still
/// has members, so the answer is never about another group.
pub(super) fn is_alive(group: Pid) -> bool {
    test_kill_process_group(group).is_ok() && !has_only_zombies(group)
}

/// A zombie remains in the group until its new parent reaps it. In a container this may never
/// happen.
#[cfg(target_os = "linux")]
fn has_only_zombies(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let stats = processes.flatten().filter_map(|process| std::fs::read(process.path().join("stat")).ok());
    !stats.into_iter().any(|stat| runs_in(&stat, group))
}

#[cfg(not(target_os = "linux"))]
fn has_only_zombies(_group: Pid) -> bool {
    false
}

/// Parses `7 (name) S 1 7 ...`: state, parent and group follow the name, which may contain
/// anything.
#[cfg(target_os = "linux")]
fn runs_in(stat: &[u8], group: Pid) -> bool {
    let after_name = stat.iter().rposition(|byte| *byte == b')').map_or(stat, |end| &stat[end + 1..]);
    let text = String::from_utf8_lossy(after_name);
    let mut fields = text.split_whitespace();
    let is_dead = matches!(fields.next(), Some("Z" | "X") | None);
    !is_dead && fields.nth(1) == Some(&group.as_raw_nonzero().to_string())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn state_and_group_are_read_after_the_name() {
        let group = Pid::from_raw(7).expect("not zero");
        assert!(runs_in(b"12 (a) b (c) S 1 7 7 0", group));
        assert!(!runs_in(b"12 (a) b (c) S 1 70 7 0", group), "another group");
        assert!(!runs_in(b"12 () S 1 7) Z 1 7 7 0", group), "it has ended");
        assert!(!runs_in(b"", group));
    }
}
