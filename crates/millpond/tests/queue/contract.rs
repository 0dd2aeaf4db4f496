//! The contract of all queues, run on every kind through the trait object. Ids such as BQ-003 name
//! the behaviour of the reference that a test checks.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{LONG, SHORT, block, interrupt_myself};
use millpond::interrupt::{self, Interrupted};
use millpond::queue::{
    ArrayBlockingQueue, BlockingQueue, DelayQueue, Delayed, LinkedBlockingQueue, OfferError,
    PriorityBlockingQueue, PutError, QueueEmpty, QueueFull, SynchronousQueue,
};

/// An item for every kind: ordered by its number, and long due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item(u64);

impl Delayed for Item {
    fn due(&self) -> Instant {
        static BASE: OnceLock<Instant> = OnceLock::new();
        *BASE.get_or_init(|| Instant::now() - Duration::from_secs(1)) + Duration::from_nanos(self.0)
    }
}

type Queue = Arc<dyn BlockingQueue<Item>>;

/// One kind of queue; `capacity` is `None` if it has no bound.
struct Kind {
    name: &'static str,
    capacity: Option<usize>,
    make: fn() -> Queue,
}

const CAPACITY: usize = 4;

const KINDS: [Kind; 9] = [
    Kind {
        name: "array",
        capacity: Some(CAPACITY),
        make: || Arc::new(ArrayBlockingQueue::new(CAPACITY).unwrap()),
    },
    Kind {
        name: "fair array",
        capacity: Some(CAPACITY),
        make: || Arc::new(ArrayBlockingQueue::fair(CAPACITY).unwrap()),
    },
    Kind {
        name: "bounded linked",
        capacity: Some(CAPACITY),
        make: || Arc::new(LinkedBlockingQueue::bounded(CAPACITY).unwrap()),
    },
    Kind { name: "linked", capacity: None, make: || Arc::new(LinkedBlockingQueue::unbounded()) },
    Kind { name: "synchronous", capacity: Some(0), make: || Arc::new(SynchronousQueue::new()) },
    Kind { name: "fair synchronous", capacity: Some(0), make: || Arc::new(SynchronousQueue::fair()) },
    Kind { name: "priority", capacity: None, make: || Arc::new(PriorityBlockingQueue::new()) },
    Kind { name: "priority by", capacity: None, make: || Arc::new(PriorityBlockingQueue::by(Item::cmp)) },
    Kind { name: "delay", capacity: None, make: || Arc::new(DelayQueue::new()) },
];

impl Kind {
    /// A new queue that contains the items `0..n`, in this order for every kind.
    fn holding(&self, n: usize) -> Queue {
        let queue = (self.make)();
        (0..n as u64).for_each(|n| queue.add(Item(n)).unwrap());
        queue
    }

    fn full(&self) -> Queue {
        self.holding(self.capacity.unwrap())
    }

    fn put_may_wait(&self) -> bool {
        self.capacity.is_some() || self.name == "linked"
    }
}

fn all(property: impl Fn(&Kind)) {
    KINDS.iter().for_each(|kind| {
        println!("{}", kind.name);
        property(kind);
    });
}

/// Checks `property` for the kinds that can store items.
fn stores(property: impl Fn(&Kind)) {
    all(|kind| {
        if kind.capacity != Some(0) {
            property(kind);
        }
    });
}

/// Checks `property` for the kinds that can be full.
fn bounded(property: impl Fn(&Kind)) {
    all(|kind| {
        if kind.capacity.is_some() {
            property(kind);
        }
    });
}

fn items(range: std::ops::Range<u64>) -> Vec<Item> {
    range.map(Item).collect()
}

#[test]
fn bq_003_drain_to_of_at_most_zero_moves_nothing() {
    stores(|kind| {
        let queue = kind.holding(3);
        let mut into = vec![Item(99)];
        assert_eq!(queue.drain_to(&mut into, 0), 0);
        assert_eq!((into, queue.len()), (vec![Item(99)], 3));
    });
}

#[test]
fn bq_004_drain_to_appends_in_queue_order_and_tells_how_many() {
    stores(|kind| {
        let queue = kind.holding(4);
        let mut into = vec![Item(99)];
        assert_eq!(queue.drain_to(&mut into, usize::MAX), 4);
        assert_eq!(into[1..], items(0..4));
        assert!(queue.is_empty());
    });
}

#[test]
fn bq_005_drain_to_moves_the_lesser_of_max_and_len() {
    stores(|kind| {
        for max in 0..=6 {
            let queue = kind.holding(4);
            let mut into = Vec::new();
            assert_eq!(queue.drain_to(&mut into, max), max.min(4));
            assert_eq!(into, items(0..max.min(4) as u64));
            assert_eq!(queue.to_vec(), items(max.min(4) as u64..4));
        }
    });
}

/// BQ-007, also for `clear`, `remove` and `retain`: each freed place releases one blocked putter.
#[test]
fn bq_007_every_way_of_freeing_places_releases_that_many_putters() {
    type Free = fn(&Queue) -> usize;
    let ways: [(&str, Free, usize); 5] = [
        ("drain all", |queue| queue.drain_to(&mut Vec::new(), usize::MAX), CAPACITY),
        ("drain two", |queue| queue.drain_to(&mut Vec::new(), 2), 2),
        (
            "clear",
            |queue| {
                queue.clear();
                CAPACITY
            },
            CAPACITY,
        ),
        ("remove one", |queue| usize::from(queue.remove(&Item(1))), 1),
        (
            "retain odd",
            |queue| {
                queue.retain(&mut |item| item.0 % 2 == 1);
                2
            },
            2,
        ),
    ];
    bounded(|kind| {
        if kind.capacity == Some(0) {
            return; // has no places to free; see syq_008
        }
        for (way, free, places) in ways {
            println!("{way}");
            let queue = kind.full();
            thread::scope(|s| {
                let putters: Vec<_> = (0..3)
                    .map(|n| {
                        block(s, {
                            let queue = &queue;
                            move || queue.put(Item(100 + n))
                        })
                    })
                    .collect();
                assert_eq!(free(&queue), places);
                let released = places.min(putters.len());
                assert_eq!(queue.len(), CAPACITY - places + released);
                let late = queue.to_vec().iter().filter(|item| item.0 >= 100).count();
                assert_eq!(late, released);
                while queue.poll().is_some() {}
                putters.into_iter().for_each(|putter| assert_eq!(putter.join(), Ok(())));
            });
        }
    });
}

#[test]
fn bq_009_take_on_an_empty_queue_waits_until_an_item_comes() {
    all(|kind| {
        let queue = (kind.make)();
        thread::scope(|s| {
            let taker = block(s, || queue.take());
            assert!(!taker.is_finished());
            queue.put(Item(7)).unwrap();
            assert_eq!(taker.join(), Ok(Item(7)));
        });
        assert_eq!(queue.len(), 0);
    });
}

#[test]
fn bq_009_take_is_interruptible_and_clears_the_flag() {
    all(|kind| {
        let queue = (kind.make)();
        thread::scope(|s| {
            let taker = block(s, || (queue.take(), interrupt::is_interrupted()));
            taker.interrupt();
            assert_eq!(taker.join(), (Err(Interrupted), false));
        });
        interrupt_myself();
        assert_eq!(queue.take(), Err(Interrupted));
        assert!(!interrupt::is_interrupted());
    });
}

/// BQ-009, DLQ-012, SYQ-009: a set flag makes the call fail even if it need not wait. Nothing is
/// removed.
#[test]
fn bq_009_take_with_the_flag_set_fails_although_an_item_is_there() {
    stores(|kind| {
        let queue = kind.holding(2);
        interrupt_myself();
        assert_eq!(queue.take(), Err(Interrupted));
        assert_eq!(queue.take(), Ok(Item(0)));
        interrupt_myself();
        assert_eq!(queue.poll_timeout(LONG), Err(Interrupted));
        interrupt_myself();
        assert_eq!(queue.poll_timeout(Duration::ZERO), Err(Interrupted));
        assert_eq!(queue.len(), 1);
    });
}

/// Calls that never wait do not check the flag.
#[test]
fn offer_and_poll_leave_the_interrupt_flag_alone() {
    stores(|kind| {
        let queue = (kind.make)();
        interrupt_myself();
        assert_eq!(queue.offer(Item(1)), Ok(()));
        assert_eq!(queue.peek(), Some(Item(1)));
        assert_eq!(queue.poll(), Some(Item(1)));
        assert!(interrupt::interrupted());
    });
}

/// An interrupt that came before the item wins, even if the thread has not noticed it yet.
#[test]
fn what_comes_after_the_interrupt_is_not_given_to_the_interrupted() {
    stores(|kind| {
        let queue = (kind.make)();
        for _ in 0..50 {
            thread::scope(|s| {
                let taker = block(s, || queue.take());
                taker.interrupt();
                assert_eq!(queue.offer(Item(1)), Ok(()));
                assert_eq!(taker.join(), Err(Interrupted));
                assert_eq!(queue.poll(), Some(Item(1)));
            });
        }
    });
    bounded(|kind| {
        let queue = kind.full();
        thread::scope(|s| {
            let putter = block(s, || queue.put(Item(100)));
            putter.interrupt();
            let mut into = Vec::new();
            queue.drain_to(&mut into, usize::MAX);
            assert_eq!((into.len(), queue.poll()), (kind.capacity.unwrap(), None));
            assert_eq!(putter.join(), Err(PutError::Interrupted(Item(100))));
        });
    });
}

#[test]
fn bq_010_timed_poll_gives_up_no_sooner_than_asked() {
    all(|kind| {
        let queue = (kind.make)();
        let start = Instant::now();
        assert_eq!(queue.poll_timeout(SHORT), Ok(None));
        assert!(start.elapsed() >= SHORT);
    });
}

#[test]
fn bq_010_timed_poll_gets_an_item_that_comes_in_time() {
    all(|kind| {
        for patience in [LONG, Duration::MAX] {
            let queue = (kind.make)();
            thread::scope(|s| {
                let taker = block(s, || queue.poll_timeout(patience));
                queue.put(Item(7)).unwrap();
                assert_eq!(taker.join(), Ok(Some(Item(7))));
            });
        }
    });
}

#[test]
fn bq_010_timed_poll_is_interruptible_before_and_while_it_waits() {
    all(|kind| {
        let queue = (kind.make)();
        interrupt_myself();
        assert_eq!(queue.poll_timeout(LONG), Err(Interrupted));
        thread::scope(|s| {
            let taker = block(s, || queue.poll_timeout(Duration::MAX));
            taker.interrupt();
            assert_eq!(taker.join(), Err(Interrupted));
        });
        assert_eq!(queue.poll_timeout(Duration::ZERO), Ok(None));
    });
}

#[test]
fn bq_012_put_with_the_flag_set_fails_although_there_is_room_and_hands_the_item_back() {
    all(|kind| {
        let queue = (kind.make)();
        interrupt_myself();
        if kind.put_may_wait() {
            assert_eq!(queue.put(Item(1)), Err(PutError::Interrupted(Item(1))));
            assert!(!interrupt::is_interrupted());
            interrupt_myself();
            assert_eq!(queue.offer_timeout(Item(2), LONG), Err(OfferError::Interrupted(Item(2))));
            interrupt_myself();
            assert_eq!(queue.offer_timeout(Item(3), Duration::ZERO), Err(OfferError::Interrupted(Item(3))));
            assert!(queue.is_empty());
        } else {
            assert_eq!(queue.put(Item(1)), Ok(()));
            assert_eq!(queue.offer_timeout(Item(2), LONG), Ok(()));
            assert_eq!(queue.len(), 2);
            assert!(interrupt::interrupted()); // calls that never wait leave the flag alone
        }
        assert!(!interrupt::is_interrupted());
    });
}

#[test]
fn bq_013_without_patience_timed_calls_do_not_wait() {
    all(|kind| {
        let queue = (kind.make)();
        assert_eq!(queue.poll_timeout(Duration::ZERO), Ok(None));
        if kind.capacity.is_none() {
            assert_eq!(queue.offer_timeout(Item(5), Duration::ZERO), Ok(()));
            assert_eq!(queue.poll_timeout(Duration::ZERO), Ok(Some(Item(5))));
        } else {
            let queue = kind.full();
            assert_eq!(queue.offer_timeout(Item(5), Duration::ZERO), Err(OfferError::TimedOut(Item(5))));
        }
    });
}

/// ABQ-006, LBQ-002, SYQ-004.
#[test]
fn put_on_a_full_queue_waits_for_room() {
    bounded(|kind| {
        let queue = kind.full();
        thread::scope(|s| {
            let putter = block(s, || queue.put(Item(100)));
            assert!(!putter.is_finished());
            let mut seen: Vec<Item> = (0..queue.len()).map(|_| queue.take().unwrap()).collect();
            seen.push(queue.take().unwrap());
            assert_eq!(putter.join(), Ok(()));
            assert_eq!(seen.pop(), Some(Item(100)));
        });
        assert!(queue.is_empty());
    });
}

/// ABQ-006, LBQ-002, SYQ-004: the queue is unchanged, and the item is not delivered later.
#[test]
fn an_interrupted_put_hands_its_item_back_and_leaves_nothing() {
    bounded(|kind| {
        let queue = kind.full();
        thread::scope(|s| {
            let putter = block(s, || queue.put(Item(100)));
            putter.interrupt();
            assert_eq!(putter.join(), Err(PutError::Interrupted(Item(100))));
            let offerer = block(s, || queue.offer_timeout(Item(101), Duration::MAX));
            offerer.interrupt();
            assert_eq!(offerer.join(), Err(OfferError::Interrupted(Item(101))));
        });
        assert_eq!(queue.len(), kind.capacity.unwrap());
        let mut rest = Vec::new();
        queue.drain_to(&mut rest, usize::MAX);
        assert_eq!(rest, items(0..kind.capacity.unwrap() as u64));
    });
}

/// ABQ-007, LBQ-002, SYQ-005.
#[test]
fn timed_offer_gives_up_no_sooner_than_asked_and_leaves_nothing() {
    bounded(|kind| {
        let queue = kind.full();
        let start = Instant::now();
        assert_eq!(queue.offer_timeout(Item(100), SHORT), Err(OfferError::TimedOut(Item(100))));
        assert!(start.elapsed() >= SHORT);
        let mut rest = Vec::new();
        queue.drain_to(&mut rest, usize::MAX);
        assert_eq!(rest.len(), kind.capacity.unwrap());
    });
}

/// ABQ-007, LBQ-002, SYQ-006.
#[test]
fn timed_offer_goes_in_when_room_appears_in_time() {
    bounded(|kind| {
        let queue = kind.full();
        thread::scope(|s| {
            let putter = block(s, || queue.offer_timeout(Item(100), LONG));
            while queue.poll().is_some() {}
            assert_eq!(putter.join(), Ok(()));
        });
    });
}

#[test]
fn bq_014_remove_takes_one_occurrence_and_contains_agrees() {
    stores(|kind| {
        let queue = kind.holding(3);
        queue.add(Item(1)).unwrap();
        assert!(queue.contains(&Item(1)) && !queue.contains(&Item(9)));
        assert!(!queue.remove(&Item(9)));
        assert!(queue.remove(&Item(1)));
        assert_eq!((queue.len(), queue.contains(&Item(1))), (3, true));
        assert!(queue.remove(&Item(1)));
        assert_eq!((queue.to_vec(), queue.contains(&Item(1))), (vec![Item(0), Item(2)], false));
        assert!(!queue.remove(&Item(1)));
    });
}

/// BQ-015, LBQ-005.
#[test]
fn bq_015_a_queue_emptied_by_removal_is_as_new() {
    stores(|kind| {
        let queue = kind.holding(2);
        let empty: [fn(&Queue); 3] = [
            |queue| assert!(queue.remove(&Item(1)) && queue.remove(&Item(0))),
            |queue| assert_eq!(queue.remove_if(&mut |_| true).len(), 2),
            |queue| queue.retain(&mut |_| false),
        ];
        for empty in empty {
            empty(&queue);
            assert_eq!((queue.len(), queue.poll()), (0, None));
            assert_eq!(queue.remaining_capacity(), kind.capacity.unwrap_or(usize::MAX));
            queue.put(Item(5)).unwrap();
            assert_eq!(queue.take(), Ok(Item(5)));
            queue.put(Item(0)).unwrap();
            queue.put(Item(1)).unwrap();
        }
    });
}

#[test]
fn bq_016_an_empty_queue_looks_empty_from_every_side() {
    all(|kind| {
        let queue = (kind.make)();
        assert_eq!((queue.len(), queue.is_empty()), (0, true));
        assert_eq!((queue.poll(), queue.peek()), (None, None));
        assert_eq!((queue.element(), queue.remove_head()), (Err(QueueEmpty), Err(QueueEmpty)));
        assert_eq!(queue.to_vec(), []);
        queue.for_each(&mut |_| panic!("there is nothing to see"));
        assert!(queue.remove_if(&mut |_| true).is_empty());
        assert_eq!(queue.drain_to(&mut Vec::new(), usize::MAX), 0);
    });
}

#[test]
fn bq_017_clear_empties_and_restores_the_capacity() {
    stores(|kind| {
        let queue = kind.holding(CAPACITY);
        queue.clear();
        assert_eq!((queue.len(), queue.poll()), (0, None));
        assert_eq!(queue.remaining_capacity(), kind.capacity.unwrap_or(usize::MAX));
        (0..CAPACITY as u64).for_each(|n| queue.add(Item(n)).unwrap());
        assert_eq!(queue.to_vec(), items(0..CAPACITY as u64));
    });
}

#[test]
fn bq_018_retain_keeps_what_it_is_told_to_and_remove_if_returns_the_rest() {
    stores(|kind| {
        let queue = kind.holding(4);
        assert_eq!(queue.remove_if(&mut |item| item.0 % 2 == 0), [Item(0), Item(2)]);
        assert_eq!(queue.remove_if(&mut |_| false), []);
        queue.retain(&mut |item| item.0 == 3);
        assert_eq!(queue.to_vec(), [Item(3)]);
    });
}

#[test]
fn bq_019_add_all_adds_in_order_until_one_does_not_fit() {
    stores(|kind| {
        let queue = (kind.make)();
        assert_eq!(queue.add_all(&mut [].into_iter()), Ok(0));
        let mut more = (0..6).map(Item);
        match kind.capacity {
            None => assert_eq!(queue.add_all(&mut more), Ok(6)),
            Some(_) => {
                assert_eq!(queue.add_all(&mut more), Err(QueueFull(Item(4))));
                assert_eq!(more.next(), Some(Item(5))); // the rest of the iterator is not consumed
            }
        }
        assert_eq!(queue.to_vec(), items(0..kind.capacity.map_or(6, |c| c as u64)));
    });
}

#[test]
fn bq_020_a_panicking_predicate_leaves_the_queue_whole() {
    stores(|kind| {
        for trouble in 0..4 {
            let queue = kind.holding(4);
            let mut judge = |item: &Item| if item.0 == trouble { panic!("no judgement") } else { true };
            assert!(catch_unwind(AssertUnwindSafe(|| queue.remove_if(&mut judge))).is_err());
            assert!(
                catch_unwind(AssertUnwindSafe(|| queue.for_each(&mut |item| {
                    judge(item);
                })))
                .is_err()
            );
            assert!(catch_unwind(AssertUnwindSafe(|| queue.retain(&mut |item| !judge(item)))).is_err());
            assert_eq!((queue.len(), queue.to_vec()), (4, items(0..4)));
            assert_eq!(queue.remove_if(&mut |item| item.0 == trouble), [Item(trouble)]);
            assert_eq!(queue.len(), 3);
        }
    });
}

#[test]
fn remove_if_asks_about_every_item_once_in_queue_order() {
    stores(|kind| {
        let queue = kind.holding(4);
        let mut asked = Vec::new();
        queue.remove_if(&mut |item| {
            asked.push(*item);
            item.0 == 1
        });
        assert_eq!(asked, items(0..4));
    });
}

#[test]
fn peek_and_element_show_the_head_and_leave_it() {
    stores(|kind| {
        let queue = kind.holding(2);
        assert_eq!((queue.peek(), queue.element()), (Some(Item(0)), Ok(Item(0))));
        assert_eq!(queue.remove_head(), Ok(Item(0)));
        assert_eq!((queue.peek(), queue.len()), (Some(Item(1)), 1));
    });
}

#[test]
fn errors_say_what_happened_without_the_item() {
    struct Opaque;
    let text = |error: &dyn std::error::Error| format!("{error} / {error:?}");
    let full = "the queue is full: it holds as many items as its capacity allows / QueueFull(..)";
    assert_eq!(text(&QueueFull(Opaque)), full);
    assert_eq!(text(&QueueEmpty), "the queue has nothing to take / QueueEmpty");
    let (put, time) =
        ("interrupted while waiting for room in the queue", "timed out while waiting for room in the queue");
    assert_eq!(text(&PutError::Interrupted(Opaque)), format!("{put} / Interrupted(..)"));
    assert_eq!(text(&OfferError::Interrupted(Opaque)), format!("{put} / Interrupted(..)"));
    assert_eq!(text(&OfferError::TimedOut(Opaque)), format!("{time} / TimedOut(..)"));
    assert_eq!(QueueFull(1).into_inner() + PutError::Interrupted(2).into_inner(), 3);
    assert_eq!(OfferError::TimedOut(3).into_inner() + OfferError::Interrupted(4).into_inner(), 7);
}

#[test]
fn pointers_to_queues_are_queues() {
    fn fill(queue: impl BlockingQueue<Item>) {
        queue.put(Item(1)).unwrap();
        queue.offer_timeout(Item(2), SHORT).unwrap();
        queue.offer(Item(3)).unwrap();
        assert_eq!((queue.remaining_capacity(), queue.len(), queue.is_empty()), (1, 3, false));
        assert_eq!(queue.add_all(&mut items(4..6).into_iter()), Err(QueueFull(Item(5))));
        assert_eq!(queue.add(Item(6)), Err(QueueFull(Item(6))));
        assert_eq!((queue.peek(), queue.element()), (Some(Item(1)), Ok(Item(1))));
        assert!(queue.contains(&Item(2)) && queue.remove(&Item(2)));
        assert_eq!(queue.remove_if(&mut |item| item.0 == 3), [Item(3)]);
        assert_eq!(queue.to_vec(), [Item(1), Item(4)]);
        let mut seen = 0;
        queue.for_each(&mut |_| seen += 1);
        queue.retain(&mut |_| true);
        assert_eq!((seen, queue.poll(), queue.take()), (2, Some(Item(1)), Ok(Item(4))));
        assert_eq!((queue.poll_timeout(SHORT), queue.remove_head()), (Ok(None), Err(QueueEmpty)));
        queue.add(Item(7)).unwrap();
        assert_eq!(queue.drain_to(&mut Vec::new(), 9), 1);
        queue.clear();
    }
    let queue = ArrayBlockingQueue::new(4).unwrap();
    fill(&queue);
    let shared = Arc::new(queue);
    fill(Arc::clone(&shared));
    fill(shared as Arc<dyn BlockingQueue<Item>>);
    fill(Box::new(ArrayBlockingQueue::new(4).unwrap()));
    fill(Box::new(ArrayBlockingQueue::new(4).unwrap()) as Box<dyn BlockingQueue<Item>>);
}

/// BQ-022: under concurrent changes a snapshot is a contiguous part of the sequence of items.
#[test]
fn bq_022_a_snapshot_taken_amid_changes_has_no_holes() {
    const COUNT: u64 = 3_000;
    stores(|kind| {
        let queue = (kind.make)();
        thread::scope(|s| {
            s.spawn(|| (0..COUNT).for_each(|n| queue.put(Item(n)).unwrap()));
            s.spawn(|| (0..COUNT).for_each(|n| assert_eq!(queue.take(), Ok(Item(n)))));
            let looker = s.spawn(|| {
                for _ in 0..200 {
                    let seen = queue.to_vec();
                    assert!(seen.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{seen:?}");
                    assert!(seen.len() <= kind.capacity.unwrap_or(usize::MAX));
                }
            });
            looker.join().unwrap();
        });
        assert!(queue.is_empty());
    });
}

/// BQ-026: interrupted producers and consumers stop; the others get all items.
#[test]
fn bq_026_interrupting_some_leaves_the_others_unharmed() {
    const COUNT: u64 = 500;
    all(|kind| {
        let queue = (kind.make)();
        let (put, taken) = thread::scope(|s| {
            let doomed: Vec<_> = (0..2).map(|_| block(s, || queue.poll_timeout(LONG))).collect();
            doomed.iter().for_each(|taker| taker.interrupt());
            // From here on the interrupted takers get no item, whether or not they have woken.
            let taker = s.spawn(|| (0..COUNT).map(|_| queue.take().unwrap()).collect::<BTreeSet<_>>());
            let put: BTreeSet<_> = (0..COUNT).map(Item).collect();
            put.iter().for_each(|item| queue.put(*item).unwrap());
            for taker in doomed {
                assert_eq!(taker.join(), Err(Interrupted));
            }
            (put, taker.join().unwrap())
        });
        assert_eq!(put, taken);
    });
}
