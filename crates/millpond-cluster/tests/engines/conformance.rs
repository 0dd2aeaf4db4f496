//! Scenarios: every operation and its refusals, limits of batches, unique keys, capacity,
//! retention.

use std::time::Duration;

use millpond_cluster::engine::*;
use millpond_cluster::state::{Options, UniqueKey};
use millpond_cluster::{DeadReason, Every, MissedRuns, Mode, Priority, Retention, State, Unique, WorkerRow};

use crate::common::Folder;
use crate::kit::*;

macro_rules! suite {
    ($(fn $name:ident($kit:ident) $body:block)*) => {
        $(fn $name($kit: &Kit) $body)*
        mod memory {
            use super::*;
            $(#[test] fn $name() { super::$name(&Kit::new(|clock| Box::new(MemoryEngine::with_clock(clock)))); })*
        }
        mod sqlite {
            use super::*;
            $(#[test] fn $name() {
                let folder = Folder::new(concat!("conformance-", stringify!($name)));
                let path = folder.path("jobs.db");
                let open = |clock| SqliteEngine::open_with_clock(path, Durability::Relaxed, clock).unwrap();
                let kit = Kit::new(|clock| Box::new(open(clock)));
                super::$name(&kit);
                let findings = kit.engine.doctor().unwrap();
                let errors: Vec<_> = findings.iter().filter(|one| one.severity == Severity::Error).collect();
                assert!(errors.is_empty(), "{errors:?}");
            })*
        }
    };
}

fn unique(n: u128, key: &str, until: Unique) -> NewTask {
    let unique = Some(UniqueKey { key: key.to_owned(), until });
    NewTask { options: Options { unique, ..Options::default() }, ..task(n) }
}

fn change_queue(kit: &Kit, change: QueueChange) -> QueueStats {
    kit.engine.queue(QUEUE, &change).unwrap()
}

fn set_mode(kit: &Kit, mode: Mode) {
    change_queue(kit, QueueChange { mode: Some(mode), ..QueueChange::default() });
}

fn stats(kit: &Kit) -> QueueStats {
    change_queue(kit, QueueChange::default())
}

suite! {
    fn submit_is_idempotent_and_changes_nothing(kit) {
        assert_eq!(kit.submit(&[task(1), task(1), task(2)]), [Submitted::New, Submitted::Known(State::Ready), Submitted::New]);
        let fence = kit.claim(1, 1)[0].fence;
        let before = kit.record(1);
        assert_eq!(kit.submit(&[NewTask { args: vec![9], ..task(1) }]), [Submitted::Known(State::Running)]);
        assert_eq!(kit.record(1), before);
        assert!(kit.settle(1, fence, Verdict::Succeeded(vec![5])));
        assert_eq!(kit.submit(&[task(1)]), [Submitted::Known(State::Succeeded)]);
        assert_eq!(stats(kit).submitted, 2);
    }

    fn batches_have_edges(kit) {
        assert!(kit.submit(&[]).is_empty());
        assert!(kit.claim(1, 0).is_empty());
        let tasks: Vec<NewTask> = (0..500).map(task).collect();
        assert!(kit.submit(&tasks).iter().all(|answer| *answer == Submitted::New));
        let tasks: Vec<NewTask> = (500..1001).map(task).collect();
        let error = kit.engine.submit(&tasks).unwrap_err();
        assert_eq!(error.to_string(), "a batch of 501 is over the limit of 500");
        assert_eq!(stats(kit).ready, 500);
        kit.submit(&tasks[..1]);
        assert_eq!(kit.claim(1, 501).len(), 500);
        assert_eq!(kit.claim(1, 501).len(), 1);
        kit.clock.advance(LEASE * 2);
        let tick = kit.tick();
        assert_eq!((tick.expired, tick.is_full), (500, true));
        let tick = kit.tick();
        assert_eq!((tick.expired, tick.is_full), (1, false));
    }

    fn claim_goes_by_class_and_then_by_submission(kit) {
        let class = |n, class| NewTask { class, ..task(n) };
        kit.submit(&[class(1, Priority::Low), class(2, Priority::Normal), class(3, Priority::High), class(4, Priority::Normal)]);
        let order: Vec<TaskIdOf> = kit.claim(1, 10).iter().map(|one| one.fence.id).collect();
        assert_eq!(order, [id(3), id(2), id(4), id(1)]);
    }

    fn submit_and_claim_hands_out_the_head_of_the_queue(kit) {
        kit.submit(&[NewTask { delay: seconds(5), ..task(1) }]);
        let (answers, claimed) = kit.engine.submit_and_claim(&[task(2), task(3)], &kit.ask(1, 1)).unwrap();
        assert_eq!((answers, claimed[0].fence.id, claimed.len()), (vec![Submitted::New; 2], id(2), 1));
        let (answers, claimed) = kit.engine.submit_and_claim(&[task(2)], &kit.ask(1, 5)).unwrap();
        assert_eq!((answers, claimed[0].fence.id), (vec![Submitted::Known(State::Running)], id(3)));
        // The task that it does not claim must wake a waiting feeder.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| kit.engine.wait_work(QUEUE, true, seconds(3600)).unwrap());
            kit.engine.submit_and_claim(&[task(4), task(5)], &kit.ask(1, 1)).unwrap();
            waiting.join().unwrap();
        });
        assert_eq!(kit.claim(1, 5).len(), 1);
    }

    fn two_claimers_never_get_the_same_task(kit) {
        kit.submit(&(0..100).map(task).collect::<Vec<_>>());
        let taken: Vec<Vec<TaskIdOf>> = std::thread::scope(|scope| {
            let claim = |n| scope.spawn(move || {
                let mut all = Vec::new();
                loop {
                    let some = kit.claim(n, 7);
                    if some.is_empty() { return all; }
                    all.extend(some.iter().map(|one| one.fence.id));
                }
            });
            [claim(1), claim(2), claim(3)].map(|thread| thread.join().unwrap()).into()
        });
        let mut all: Vec<TaskIdOf> = taken.concat();
        all.sort();
        assert_eq!(all, (0..100).map(id).collect::<Vec<_>>());
    }

    fn claim_of_named_tasks(kit) {
        kit.submit(&[task(1), task(2), NewTask { delay: seconds(5), ..task(3) }]);
        let ask = Claim { ids: vec![id(2), id(3), id(9)], max: 3, ..kit.ask(1, 3) };
        let taken = kit.engine.claim(&ask).unwrap();
        assert_eq!(taken.iter().map(|one| one.fence.id).collect::<Vec<_>>(), [id(2)]);
        assert_eq!((kit.state(1), kit.state(3)), (State::Ready, State::Delayed));
    }

    fn fence_needs_attempt_and_owner(kit) {
        let first = kit.running(1);
        kit.lose_workers();
        let second = kit.claim(2, 1)[0].fence;
        assert_eq!((first.attempt, second.attempt), (1, 2));
        for (n, fence) in [(1, first), (1, second), (2, first)] {
            for verdict in [Verdict::Succeeded(vec![1]), retry_in(1), permanent(), Verdict::GivenBack, Verdict::NoHandler, Verdict::Cancelled] {
                let before = kit.record(1);
                assert!(!kit.settle(n, fence, verdict));
                assert_eq!(kit.record(1), before);
            }
            assert_eq!(kit.engine.renew(&worker(n), LEASE, &[(fence, None)]).unwrap(), [Renewed::Lost]);
        }
        assert_eq!(stats(kit).fence_refused, 18);
        assert!(kit.settle(2, second, Verdict::Succeeded(vec![1])));
        assert!(!kit.settle(2, second, Verdict::Succeeded(vec![2])), "an end never changes");
        assert_eq!(kit.record(1).result, Some(vec![1]));
    }

    fn success_keeps_the_result_and_drops_the_arguments(kit) {
        let fence = kit.running(1);
        kit.clock.advance(seconds(2));
        assert!(kit.settle(1, fence, Verdict::Succeeded(vec![4, 2])));
        let record = kit.record(1);
        assert_eq!((record.state, record.result, record.args), (State::Succeeded, Some(vec![4, 2]), None));
        assert_eq!((record.lease, record.finished, record.expires), (None, Some(START + 2000), Some(START + 3_602_000)));
        assert_eq!(record.owner, Some(worker(1)));
    }

    fn failure_waits_and_then_is_dead(kit) {
        kit.submit(&[NewTask { options: Options { max_attempts: Some(2), ..Options::default() }, ..task(1) }]);
        let fence = kit.claim(1, 1)[0].fence;
        assert!(kit.settle(1, fence, retry_in(10)));
        let record = kit.record(1);
        assert_eq!((record.state, record.due, record.failures, record.owner), (State::Delayed, Some(START + 10_000), 1, None));
        assert!(kit.claim(1, 1).is_empty());
        kit.clock.advance(seconds(10));
        let again = kit.claim(2, 1).remove(0);
        assert_eq!((again.fence.attempt, again.failures), (2, 1));
        assert!(kit.settle(2, again.fence, retry_in(10)));
        let record = kit.record(1);
        assert_eq!((record.state, record.reason, record.failures), (State::Dead, Some(DeadReason::Attempts), 2));
        assert_eq!(record.args, Some(vec![1, 2, 3]), "kept for a retry");
        assert_eq!(record.history.iter().map(|one| one.attempt).collect::<Vec<_>>(), [1, 2]);
    }

    fn give_back_uses_no_budget_and_goes_to_the_front(kit) {
        let fence = kit.running(1);
        kit.submit(&[task(2)]);
        assert!(kit.settle(1, fence, Verdict::GivenBack));
        let record = kit.record(1);
        assert_eq!((record.state, record.attempt, record.failures, record.crashes), (State::Ready, 1, 0, 0));
        let again = kit.claim(2, 1)[0].fence;
        assert_eq!((again.id, again.attempt), (id(1), 2));
    }

    fn unknown_name_waits_and_is_dead_after_an_hour(kit) {
        let fence = kit.running(1);
        assert!(kit.settle(1, fence, Verdict::NoHandler));
        assert_eq!(kit.record(1).due, Some(START + 5000));
        kit.clock.advance(seconds(3599));
        let fence = kit.claim(1, 1)[0].fence;
        assert!(kit.settle(1, fence, Verdict::NoHandler));
        assert_eq!(kit.state(1), State::Delayed);
        kit.clock.advance(seconds(5));
        let fence = kit.claim(1, 1)[0].fence;
        assert!(kit.settle(1, fence, Verdict::NoHandler));
        assert_eq!((kit.state(1), kit.record(1).reason), (State::Dead, Some(DeadReason::NoHandler)));
    }

    fn lease_expires_only_when_it_is_over(kit) {
        let fence = kit.running(1);
        kit.clock.advance(LEASE);
        assert_eq!(kit.tick().expired, 0);
        assert_eq!(kit.engine.renew(&worker(1), LEASE, &[(fence, Some(vec![7]))]).unwrap(), [Renewed::Held]);
        assert_eq!(kit.record(1).progress, Some(vec![7]));
        kit.clock.advance(LEASE);
        assert_eq!(kit.tick().expired, 0);
        kit.clock.step(1);
        assert_eq!(kit.tick().expired, 1);
        assert_eq!((kit.state(1), kit.record(1).crashes), (State::Ready, 1));
    }

    fn third_crash_is_dead_with_the_names_of_the_workers(kit) {
        kit.submit(&[task(1)]);
        for n in 1..=3 {
            assert_eq!(kit.claim(n, 1)[0].fence.attempt, n);
            kit.lose_workers();
        }
        let record = kit.record(1);
        assert_eq!((record.state, record.reason, record.crashes), (State::Dead, Some(DeadReason::Crashed), 3));
        assert_eq!(record.history.iter().map(|one| one.owner.clone()).collect::<Vec<_>>(), [worker(1), worker(2), worker(3)]);
    }

    fn worker_gets_at_most_one_suspect(kit) {
        kit.submit(&(0..4).map(task).collect::<Vec<_>>());
        assert_eq!(kit.claim(1, 4).len(), 4);
        kit.lose_workers();
        kit.submit(&[task(10), task(11)]);
        let taken = kit.claim(2, 10);
        assert_eq!(taken.iter().map(|one| (one.fence.id, one.is_suspect)).collect::<Vec<_>>(), [(id(0), true), (id(10), false), (id(11), false)]);
        let none = Claim { max_suspects: 0, ..kit.ask(2, 10) };
        assert!(kit.engine.claim(&none).unwrap().is_empty());
        assert_eq!(kit.claim(3, 10).len(), 1);
    }

    fn cancel_by_state(kit) {
        kit.submit(&[task(1), NewTask { delay: seconds(5), ..task(2) }, task(3)]);
        assert_eq!(kit.engine.cancel(&[id(1), id(2), id(99)]).unwrap(), [CancelAnswer::Cancelled, CancelAnswer::Cancelled, CancelAnswer::Unknown]);
        let fence = kit.claim(1, 5).remove(0).fence;
        assert_eq!(fence.id, id(3));
        assert!(!kit.settle(1, fence, Verdict::Cancelled), "nobody asked for it");
        assert_eq!(kit.engine.cancel(&[id(3), id(1)]).unwrap(), [CancelAnswer::Requested, CancelAnswer::AlreadyDone]);
        assert_eq!(kit.engine.renew(&worker(1), LEASE, &[(fence, None)]).unwrap(), [Renewed::Cancel]);
        assert_eq!(kit.engine.orders(&worker(1)).unwrap().cancel, [fence]);
        assert!(kit.engine.orders(&worker(2)).unwrap().cancel.is_empty());
        assert!(kit.settle(1, fence, Verdict::Cancelled));
        assert_eq!(kit.state(3), State::Cancelled);
        assert_eq!(stats(kit).cancelled, 3);
    }

    fn cancelled_task_does_not_run_again(kit) {
        let fences: Vec<Fence> = (1..=4).map(|n| kit.running(n)).collect();
        let ids: Vec<TaskIdOf> = fences.iter().map(|fence| fence.id).collect();
        kit.engine.cancel(&ids).unwrap();
        assert!(kit.settle(1, fences[0], retry_in(1)));
        assert!(kit.settle(1, fences[1], Verdict::GivenBack));
        assert!(kit.settle(1, fences[2], Verdict::Succeeded(vec![1])));
        kit.lose_workers();
        let states: Vec<State> = (1..=4).map(|n| kit.state(n)).collect();
        assert_eq!(states, [State::Cancelled, State::Cancelled, State::Succeeded, State::Cancelled]);
    }

    fn deadline_ends_what_waits(kit) {
        let deadline = |n, delay| NewTask { deadline: Some(seconds(10)), delay: seconds(delay), ..task(n) };
        kit.submit(&[deadline(1, 0), deadline(2, 60), task(3), deadline(4, 0)]);
        let left: Vec<_> = kit.claim(1, 1).iter().map(|one| one.deadline_in).collect();
        assert_eq!(left, [Some(seconds(10))]);
        kit.clock.advance(seconds(10));
        assert_eq!(kit.claim(1, 5).iter().map(|one| one.fence.id).collect::<Vec<_>>(), [id(3)]);
        assert_eq!((kit.state(2), kit.state(4)), (State::Dead, State::Dead));
        assert_eq!(kit.record(4).reason, Some(DeadReason::Deadline));
        assert!(kit.settle(1, Fence { id: id(1), attempt: 1 }, retry_in(1)));
        assert_eq!(kit.record(1).reason, Some(DeadReason::Deadline), "no attempt after the deadline");
    }

    fn unique_keys_are_freed_by_their_kind(kit) {
        assert_eq!(kit.submit(&[unique(1, "a", Unique::UntilDone), unique(2, "b", Unique::UntilStarted), unique(3, "c", Unique::For(seconds(60)))]), [Submitted::New; 3]);
        let again = || kit.submit(&[unique(11, "a", Unique::UntilDone), unique(12, "b", Unique::UntilStarted), unique(13, "c", Unique::For(seconds(60)))]);
        assert_eq!(again(), [Submitted::Duplicate(id(1)), Submitted::Duplicate(id(2)), Submitted::Duplicate(id(3))]);
        let fences: Vec<Fence> = kit.claim(1, 3).iter().map(|one| one.fence).collect();
        assert_eq!(again(), [Submitted::Duplicate(id(1)), Submitted::New, Submitted::Duplicate(id(3))]);
        for fence in fences {
            assert!(kit.settle(1, fence, Verdict::Succeeded(vec![])));
        }
        assert_eq!(kit.submit(&[unique(21, "a", Unique::UntilDone), unique(23, "c", Unique::For(seconds(60)))]), [Submitted::New, Submitted::Duplicate(id(3))]);
        kit.clock.advance(seconds(60));
        kit.tick();
        assert_eq!(kit.submit(&[unique(33, "c", Unique::For(seconds(60)))]), [Submitted::New]);
    }

    fn capacity_counts_what_waits(kit) {
        change_queue(kit, QueueChange { capacity: Some(Some(3)), ..QueueChange::default() });
        let full = Submitted::Full { waiting: 3, capacity: 3 };
        assert_eq!(kit.submit(&[task(1), NewTask { delay: seconds(9), ..task(2) }, task(3), task(4)]), [Submitted::New, Submitted::New, Submitted::New, full]);
        assert_eq!(kit.submit(&[task(1)]), [Submitted::Known(State::Ready)], "a known id needs no room");
        kit.claim(1, 1);
        assert_eq!(kit.submit(&[task(4), task(5), NewTask { over_capacity: true, ..task(6) }]), [Submitted::New, full, Submitted::New]);
        change_queue(kit, QueueChange { capacity: Some(None), ..QueueChange::default() });
        assert_eq!(kit.submit(&[task(7)]), [Submitted::New]);
    }

    fn modes_of_a_queue(kit) {
        kit.submit(&[task(1)]);
        set_mode(kit, Mode::Paused);
        assert!(kit.claim(1, 1).is_empty());
        assert_eq!(kit.submit(&[task(2)]), [Submitted::New]);
        set_mode(kit, Mode::Closed);
        assert_eq!(kit.submit(&[task(3), task(1)]), [Submitted::Closed, Submitted::Known(State::Ready)]);
        assert_eq!(kit.claim(1, 5).len(), 2);
        set_mode(kit, Mode::Open);
        assert_eq!(kit.submit(&[task(3)]), [Submitted::New]);
    }

    fn finished_records_are_bounded_by_time(kit) {
        let keep = |n, hours: u64| NewTask { options: Options { keep_result_ms: Some(hours * 3_600_000), ..Options::default() }, ..task(n) };
        kit.submit(&[task(1), keep(2, 2), task(3)]);
        for claimed in kit.claim(1, 3) {
            let verdict = if claimed.fence.id == id(3) { permanent() } else { Verdict::Succeeded(vec![1]) };
            assert!(kit.settle(1, claimed.fence, verdict));
        }
        kit.clock.advance(seconds(3600));
        assert_eq!(kit.tick().purged, 0);
        kit.clock.step(1);
        assert_eq!(kit.tick().purged, 1);
        kit.clock.advance(seconds(3600));
        assert_eq!(kit.tick().purged, 1);
        assert_eq!(kit.state(3), State::Dead, "dead letters are kept for 14 days");
        kit.clock.advance(seconds(14 * 24 * 3600));
        assert_eq!(kit.tick().purged, 1);
        let stats = stats(kit);
        assert_eq!((stats.succeeded, stats.dead, stats.purged, stats.finished_bytes), (0, 0, 3, 0));
        assert_eq!(kit.submit(&[task(1)]), [Submitted::New], "the id is free again");
    }

    fn finished_records_are_bounded_by_count_and_bytes(kit) {
        change_queue(kit, QueueChange { retention: Some(Retention { records: 5, bytes: 1 << 20 }), ..QueueChange::default() });
        let finish = |range: std::ops::Range<u128>, bytes: usize| {
            for n in range {
                let fence = kit.running(n);
                assert!(kit.settle(1, fence, Verdict::Succeeded(vec![0; bytes])));
                kit.clock.step(1);
            }
        };
        finish(0..8, 10);
        assert_eq!(kit.tick().purged, 3);
        assert_eq!((kit.engine.fetch(&[id(2)]).unwrap()[0].is_none(), kit.state(3)), (true, State::Succeeded));
        finish(10..14, 260_000);
        kit.tick();
        let stats = stats(kit);
        assert!(stats.succeeded <= 5 && stats.finished_bytes <= 1 << 20, "{stats:?}");
    }

    fn dead_letter_is_retried_under_a_new_id(kit) {
        let fence = kit.running(1);
        let retry = |new| kit.engine.retry_dead(&[(id(1), id(new)), (id(9), id(new + 10))]).unwrap();
        assert_eq!(retry(2), [None, None], "it is not dead");
        assert!(kit.settle(1, fence, permanent()));
        let before = kit.record(1);
        set_mode(kit, Mode::Closed);
        assert_eq!(retry(2), [Some(Submitted::Closed), None]);
        set_mode(kit, Mode::Open);
        assert_eq!(retry(2), [Some(Submitted::New), None]);
        assert_eq!(retry(2), [Some(Submitted::Known(State::Ready)), None], "twice is once");
        let many: Vec<_> = (0..501).map(|n| (id(1), id(1000 + n))).collect();
        assert!(kit.engine.retry_dead(&many).is_err(), "a batch is bounded");
        assert_eq!(kit.record(1), before, "the old record keeps its outcome");
        let again = kit.record(2);
        assert_eq!((again.retry_of, again.args, again.failures, again.attempt), (Some(id(1)), Some(vec![1, 2, 3]), 0, 0));
        kit.clock.advance(seconds(10));
        assert_eq!(kit.engine.purge_dead(QUEUE, seconds(11)).unwrap(), 0);
        assert_eq!(kit.engine.purge_dead(QUEUE, seconds(10)).unwrap(), 1);
        assert!(kit.engine.fetch(&[id(1)]).unwrap()[0].is_none());
    }

    fn notices_name_what_ended_and_are_not_removed(kit) {
        let mut cursor = Cursor::default();
        let mut other = Cursor::default();
        let none = Duration::ZERO;
        assert!(kit.engine.wait_notices(&mut cursor, none).unwrap().is_empty());
        assert!(kit.engine.wait_notices(&mut other, none).unwrap().is_empty());
        let fences: Vec<Fence> = (1..=3).map(|n| kit.running(n)).collect();
        assert!(kit.settle(1, fences[0], Verdict::Succeeded(vec![])));
        assert!(kit.settle(1, fences[1], retry_in(5)));
        let reports = [Report { fence: fences[2], verdict: Verdict::Succeeded(vec![]) }];
        let local = Some(millpond_cluster::SubmitterId(7));
        kit.engine.settle(&Settle { worker: &worker(1), local, reports: &reports }).unwrap();
        kit.engine.cancel(&[id(2)]).unwrap();
        for cursor in [&mut cursor, &mut other] {
            assert_eq!(kit.engine.wait_notices(cursor, none).unwrap(), [id(1), id(2)]);
            assert!(kit.engine.wait_notices(cursor, none).unwrap().is_empty());
        }
    }

    fn wait_work_returns_at_once_if_there_is_work(kit) {
        // With so long a timeout, the test hangs unless the wait returns early.
        let long = seconds(3600);
        kit.submit(&[task(1)]);
        kit.engine.wait_work(QUEUE, true, long).unwrap();
        kit.claim(1, 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| kit.engine.wait_work(QUEUE, true, long).unwrap());
            kit.submit(&[task(2)]);
            waiting.join().unwrap();
        });
        kit.claim(1, 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| kit.engine.wait_work(QUEUE, true, long).unwrap());
            while !waiting.is_finished() {
                kit.engine.wake();
                std::thread::yield_now();
            }
        });
    }

    fn periodic_rate_runs_once_per_period_or_for_all_that_were_missed(kit) {
        let spec = |missed| PeriodicSpec { every: Every::rate(seconds(10)), missed, task: "beat".to_owned(), args: vec![1], class: Priority::Normal, options: Options::default() };
        assert!(kit.engine.set_periodic(QUEUE, "one", Some(&spec(MissedRuns::One))).unwrap());
        assert!(kit.engine.set_periodic(QUEUE, "all", Some(&spec(MissedRuns::All))).unwrap());
        assert!(!kit.engine.set_periodic(QUEUE, "all", Some(&spec(MissedRuns::All))).unwrap());
        assert_eq!(kit.tick().submitted, 0);
        kit.clock.advance(seconds(10));
        assert_eq!(kit.tick().submitted, 2);
        assert_eq!(kit.tick().submitted, 0);
        kit.clock.advance(seconds(35));
        assert_eq!(kit.tick().submitted, 1 + 3);
        let next: Vec<i64> = kit.engine.periodics(QUEUE).unwrap().iter().map(|row| row.next).collect();
        assert_eq!(next, [START + 50_000, START + 50_000]);
        assert!(kit.engine.set_periodic(QUEUE, "all", None).unwrap());
        assert!(!kit.engine.set_periodic(QUEUE, "all", None).unwrap());
        assert_eq!(stats(kit).submitted, 6);
    }

    fn periodic_delay_waits_for_the_end_of_the_last_run(kit) {
        let spec = PeriodicSpec { every: Every::delay(seconds(10)), missed: MissedRuns::One, task: "beat".to_owned(), args: vec![1], class: Priority::Normal, options: Options::default() };
        kit.engine.set_periodic(QUEUE, "pause", Some(&spec)).unwrap();
        kit.clock.advance(seconds(10));
        assert_eq!(kit.tick().submitted, 1);
        let fence = kit.claim(1, 1)[0].fence;
        for _ in 0..5 {
            kit.clock.advance(seconds(5));
            assert_eq!(kit.tick().submitted, 0, "the run has not ended");
        }
        assert!(kit.settle(1, fence, Verdict::Succeeded(vec![])));
        kit.clock.advance(seconds(9));
        kit.tick();
        assert_eq!(stats(kit).submitted, 1);
        kit.clock.advance(seconds(1));
        assert_eq!(kit.tick().submitted, 1);
    }

    fn workers_are_listed_and_asked_to_drain(kit) {
        let row = WorkerRow { worker: worker(1), queue: QUEUE.to_owned(), started: 0, seen: 0, threads: 4, held: 1, finished: 2, draining: false };
        kit.engine.beat(&row).unwrap();
        kit.clock.advance(seconds(5));
        kit.engine.beat(&row).unwrap();
        let listed = kit.engine.workers().unwrap();
        assert_eq!((listed[0].started, listed[0].seen, listed.len()), (START, START + 5000, 1));
        assert!(!kit.engine.orders(&worker(1)).unwrap().drain);
        assert!(kit.engine.order_drain(&worker(1)).unwrap());
        assert!(!kit.engine.order_drain(&worker(2)).unwrap());
        kit.engine.beat(&row).unwrap();
        assert!(kit.engine.orders(&worker(1)).unwrap().drain, "a beat does not take the order back");
        kit.engine.remove_worker(&worker(1)).unwrap();
        assert!(kit.engine.workers().unwrap().is_empty());
    }

    fn deleted_queue_is_gone_batch_by_batch_and_others_are_untouched(kit) {
        let other = |n| NewTask { queue: "other".to_owned(), ..task(n) };
        kit.submit(&[other(1), NewTask { delay: seconds(9), ..other(2) }]);
        // Dead, suspect, running, delayed, with a unique key, and more than a batch of ready tasks.
        let fence = kit.running(10);
        assert!(kit.settle(1, fence, permanent()));
        kit.running(11);
        kit.running(12);
        kit.lose_workers();
        let held = kit.claim(1, 1)[0].fence;
        kit.submit(&[NewTask { delay: seconds(9), ..task(13) }, unique(14, "key", Unique::UntilDone)]);
        kit.submit(&(1000..1500).map(task).collect::<Vec<_>>());
        let spec = PeriodicSpec { every: Every::rate(seconds(10)), missed: MissedRuns::One, task: "beat".to_owned(), args: vec![1], class: Priority::Normal, options: Options::default() };
        kit.engine.set_periodic(QUEUE, "beat", Some(&spec)).unwrap();
        let before = kit.engine.queue("other", &QueueChange::default()).unwrap();

        assert!(!kit.engine.delete_queue(QUEUE).unwrap(), "there are more than a batch");
        let findings = kit.engine.doctor().unwrap();
        assert!(findings.iter().all(|one| one.severity != Severity::Error), "{findings:?}");
        assert!(kit.engine.delete_queue(QUEUE).unwrap());
        assert!(kit.engine.delete_queue(QUEUE).unwrap(), "twice is once");

        assert_eq!(kit.engine.queues().unwrap(), ["other"]);
        assert_eq!(kit.engine.queue("other", &QueueChange::default()).unwrap(), before);
        assert!(kit.engine.periodics(QUEUE).unwrap().is_empty());
        assert_eq!(kit.engine.fetch(&[held.id, id(10), id(1499)]).unwrap(), [None, None, None]);
        assert!(!kit.settle(1, held, Verdict::Succeeded(vec![])));
        assert_eq!(kit.submit(&[unique(16, "key", Unique::UntilDone)]), [Submitted::New]);
        assert_eq!((stats(kit).submitted, stats(kit).purged), (1, 0));
    }

    fn old_deep_queue_does_not_hide_the_head(kit) {
        for chunk in 0..10 {
            kit.submit(&(chunk * 500..chunk * 500 + 500).map(task).collect::<Vec<_>>());
        }
        kit.submit(&[NewTask { class: Priority::High, ..task(100_000) }]);
        assert_eq!(kit.claim(1, 1)[0].fence.id, id(100_000));
        assert_eq!(kit.claim(1, 100).len(), 100);
        assert_eq!(stats(kit).oldest_ready, Some(Duration::ZERO));
    }
}

type TaskIdOf = millpond_cluster::TaskId;
