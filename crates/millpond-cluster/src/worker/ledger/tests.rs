//! Tests of the ledger alone.

use super::*;
use crate::state::Options;

const LEASE: Duration = Duration::from_secs(30);

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn ledger() -> Ledger {
    Ledger::new(WorkerId::from_name("w"), "q", LEASE, 2)
}

fn task(n: u128, is_suspect: bool) -> Claimed {
    Claimed {
        fence: Fence { id: TaskId::from(n), attempt: 1 },
        name: String::new(),
        codec: 0,
        args: Vec::new(),
        options: Options::default(),
        failures: 0,
        is_suspect,
        deadline_in: None,
        age: Duration::ZERO,
    }
}

#[test]
fn worker_that_lost_everything_claims_again() {
    let mut ledger = ledger();
    ledger.claimed(&[task(1, false)], seconds(0), seconds(0));
    ledger.renew_failed(seconds(10));
    assert!(ledger.ask(seconds(29)).is_some());
    assert!(ledger.ask(seconds(30)).is_none(), "cut off for two thirds of a lease");
    ledger.pass_time(seconds(30));
    assert_eq!((ledger.held(), ledger.lease_lost), (0, 1));
    assert!(ledger.ask(seconds(31)).is_some());
}

#[test]
fn second_suspect_is_not_asked_for() {
    let mut ledger = ledger();
    ledger.claimed(&[task(1, true)], seconds(0), seconds(0));
    assert_eq!(ledger.ask(seconds(1)).unwrap().max_suspects, 0);
    ledger.settled(task(1, true).fence);
    assert_eq!(ledger.ask(seconds(1)).unwrap().max_suspects, 1);
}

#[test]
fn only_old_leases_are_renewed_and_lost_ones_are_forgotten() {
    let mut ledger = ledger();
    ledger.claimed(&[task(1, false)], seconds(0), seconds(0));
    ledger.claimed(&[task(2, false)], seconds(5), seconds(5));
    assert!(ledger.renewals(seconds(9)).is_empty());
    assert_eq!(ledger.renewals(seconds(10)), [(task(1, false).fence, None)]);
    ledger.renewed(&[task(1, false).fence], &[Renewed::Held], seconds(10));
    assert!(ledger.renewals(seconds(14)).is_empty());
    ledger.renewed(&[task(2, false).fence], &[Renewed::Lost], seconds(15));
    assert_eq!(ledger.begin(task(2, false).fence, None, None, seconds(15)), Begin::Lost);
    assert_eq!(ledger.begin(task(1, false).fence, None, None, seconds(15)), Begin::Run);
}

#[test]
fn drain_skips_what_waits_and_keeps_what_runs() {
    let mut ledger = ledger();
    ledger.claimed(&[task(1, false), task(2, false)], seconds(0), seconds(0));
    assert_eq!(ledger.begin(task(1, false).fence, None, None, seconds(0)), Begin::Run);
    assert_eq!(ledger.drain(), [task(2, false).fence]);
    assert_eq!(ledger.begin(task(2, false).fence, None, None, seconds(1)), Begin::Lost);
    assert!(ledger.ask(seconds(1)).is_none());
    assert_eq!(ledger.unfinished(), 1);
    assert!(ledger.finish(task(1, false).fence, seconds(1)).unwrap().is_last);
}

#[test]
fn task_cancelled_before_it_begins_does_not_run() {
    let mut ledger = ledger();
    ledger.claimed(&[task(1, false)], seconds(0), seconds(0));
    assert!(ledger.cancel(task(1, false).fence).is_none(), "no thread to interrupt yet");
    assert_eq!(ledger.begin(task(1, false).fence, None, None, seconds(1)), Begin::Cancelled);
    assert_eq!((ledger.unfinished(), ledger.held()), (0, 1));
}

#[test]
fn only_a_task_without_a_report_on_its_way_counts_as_lost() {
    let mut ledger = ledger();
    let again = |attempt| Claimed { fence: Fence { attempt, ..task(1, false).fence }, ..task(1, false) };
    ledger.claimed(&[again(1)], seconds(0), seconds(0));
    assert_eq!(ledger.begin(again(1).fence, None, None, seconds(0)), Begin::Run);
    assert!(ledger.finish(again(1).fence, seconds(0)).is_some());
    // It failed and is retried at once: the answer to the report arrives after the next claim.
    ledger.claimed(&[again(2)], seconds(0), seconds(0));
    ledger.settled(again(1).fence);
    assert_eq!((ledger.held(), ledger.unfinished(), ledger.lease_lost), (1, 1, 0));
    assert_eq!(ledger.begin(again(2).fence, None, None, seconds(0)), Begin::Run);
    ledger.claimed(&[again(3)], seconds(0), seconds(0));
    assert_eq!((ledger.held(), ledger.unfinished(), ledger.lease_lost), (1, 1, 1));
}
