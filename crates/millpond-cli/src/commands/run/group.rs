//! A process group whose leader has ended: does anybody else live in it?
//!
//! A shell that is told to terminate goes at once, and what it was running may ignore that. So whoever ends a job has to look at
//! the group, not only at its leader.

use rustix::process::{Pid, test_kill_process_group};

/// Whether a process of the group is still running. The leader is to have been waited for: as long as somebody else is in
/// the group the system gives its number to nobody, and if nobody is, there is no such group.
pub(super) fn is_alive(group: Pid) -> bool {
    test_kill_process_group(group).is_ok() && !has_only_the_dead(group)
}

/// A member that has ended stays in the group until its new parent has waited for it, and in a container that may be never.
#[cfg(target_os = "linux")]
fn has_only_the_dead(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let stats = processes.flatten().filter_map(|process| std::fs::read(process.path().join("stat")).ok());
    !stats.into_iter().any(|stat| runs_in(&stat, group))
}

#[cfg(not(target_os = "linux"))]
fn has_only_the_dead(_group: Pid) -> bool {
    false
}

/// `7 (name) S 1 7 ...`: the state, the parent and the group come after the name, in which there may be anything.
#[cfg(target_os = "linux")]
fn runs_in(stat: &[u8], group: Pid) -> bool {
    let after_the_name = stat.iter().rposition(|byte| *byte == b')').map_or(stat, |end| &stat[end + 1..]);
    let text = String::from_utf8_lossy(after_the_name);
    let mut fields = text.split_whitespace();
    let is_dead = matches!(fields.next(), Some("Z" | "X") | None);
    !is_dead && fields.nth(1) == Some(&group.as_raw_nonzero().to_string())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_what_comes_after_its_name() {
        let group = Pid::from_raw(7).expect("not zero");
        assert!(runs_in(b"12 (a) b (c) S 1 7 7 0", group));
        assert!(!runs_in(b"12 (a) b (c) S 1 70 7 0", group), "another group");
        assert!(!runs_in(b"12 () S 1 7) Z 1 7 7 0", group), "it has ended");
        assert!(!runs_in(b"", group));
    }
}
