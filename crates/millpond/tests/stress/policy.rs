//! Full pools: the bound of the queue holds at all times, every thread that waits for room gets it,
//! and the policies account for each task that they reject, run or discard.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{
    Gate, LONG, Rng, SetOnDrop, assert_settled, block, end, eventually, keep_busy, rounds, soon,
};
use millpond::interrupt::{self, Interrupted};
use millpond::queue::{BlockingQueue, LinkedBlockingQueue, OfferError, PutError};
use millpond::{Builder, JoinError, RejectReason, Task, TaskOf, ThreadPoolExecutor, WorkQueue, policy};

fn pool(core: usize, maximum: usize) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum)
}

/// A bounded queue that counts its items. An item is counted after its insertion and uncounted
/// before it is handed on. So the count never exceeds the real length, and must not exceed the
/// bound.
struct Counted {
    queue: LinkedBlockingQueue<Task>,
    held: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Counted {
    fn came_in<E>(&self, put: Result<(), E>) -> Result<(), E> {
        put.inspect(|()| {
            self.most.fetch_max(self.queue.len(), Ordering::SeqCst);
            self.held.fetch_add(1, Ordering::SeqCst);
        })
    }

    fn went_out(&self, tasks: usize) {
        self.held.fetch_sub(tasks, Ordering::SeqCst);
    }
}

impl BlockingQueue<Task> for Counted {
    fn offer(&self, task: Task) -> Result<(), Task> {
        self.came_in(self.queue.offer(task))
    }
    fn put(&self, task: Task) -> Result<(), PutError<Task>> {
        self.came_in(self.queue.put(task))
    }
    fn offer_timeout(&self, task: Task, timeout: Duration) -> Result<(), OfferError<Task>> {
        self.came_in(self.queue.offer_timeout(task, timeout))
    }
    fn poll(&self) -> Option<Task> {
        self.queue.poll().inspect(|_| self.went_out(1))
    }
    fn take(&self) -> Result<Task, Interrupted> {
        self.queue.take().inspect(|_| self.went_out(1))
    }
    fn poll_timeout(&self, timeout: Duration) -> Result<Option<Task>, Interrupted> {
        self.queue.poll_timeout(timeout).inspect(|task| self.went_out(usize::from(task.is_some())))
    }
    fn len(&self) -> usize {
        self.queue.len()
    }
    fn remaining_capacity(&self) -> usize {
        self.queue.remaining_capacity()
    }
    fn drain_to(&self, into: &mut Vec<Task>, max: usize) -> usize {
        let drained = self.queue.drain_to(into, max);
        self.went_out(drained);
        drained
    }
    fn remove_if(&self, matches: &mut dyn FnMut(&Task) -> bool) -> Vec<Task> {
        let removed = self.queue.remove_if(matches);
        self.went_out(removed.len());
        removed
    }
    fn for_each(&self, see: &mut dyn FnMut(&Task)) {
        self.queue.for_each(see);
    }
}

/// Each of `producers` threads submits `each` tasks, while another thread watches the length of the
/// queue. Returns the number of accepted tasks and the maximum length.
fn flood(pool: &ThreadPoolExecutor, producers: usize, each: usize, rng: &mut Rng) -> (usize, usize) {
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        let over = &over;
        let watcher = s.spawn(move || {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(pool.queued_count()).max(pool.queued_tasks().len());
            }
            most
        });
        let _at_the_end = SetOnDrop(over);
        let producers: Vec<_> = (0..producers)
            .map(|_| {
                let mut rng = rng.fork();
                s.spawn(move || {
                    let submit = |_: &usize| {
                        if rng.once_in(8) {
                            rng.dawdle();
                        }
                        pool.execute(|| ()).is_ok()
                    };
                    (0..each).filter(submit).count()
                })
            })
            .collect();
        let accepted = producers.into_iter().map(|producer| producer.join().unwrap()).sum();
        over.store(true, Ordering::Relaxed);
        (accepted, watcher.join().unwrap())
    })
}

// Peer case 7.
#[test]
fn block_takes_every_task_of_many_producers_and_the_bound_holds() {
    let mut rng = Rng::new();
    for round in rounds(12) {
        let bound = 1 + rng.below(3);
        let (held, most_held) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let queue = match round % 4 {
            0 => WorkQueue::array(bound),
            1 => WorkQueue::linked_bounded(bound),
            2 => WorkQueue::synchronous(),
            _ => WorkQueue::custom(Counted {
                queue: LinkedBlockingQueue::bounded(bound).unwrap(),
                held: Arc::clone(&held),
                most: Arc::clone(&most_held),
            }),
        };
        let bound = if round % 4 == 2 { 0 } else { bound };
        let pool = pool(rng.below(3), 2)
            .keep_alive_time(if rng.once_in(2) { Duration::ZERO } else { LONG })
            .work_queue(queue)
            .rejected_execution_handler(policy::Block::timeout(LONG))
            .build()
            .unwrap();
        let (accepted, most) = flood(&pool, 4, 250, &mut rng);
        assert_eq!(accepted, 1000, "no task is rejected");
        end(&pool);
        assert!(most <= bound && most_held.load(Ordering::SeqCst) <= bound, "{most} in a queue of {bound}");
        assert_eq!(held.load(Ordering::SeqCst), 0);
        assert_settled(&pool, 1000);
        assert_eq!(pool.stats().rejected, 0);
    }
}

#[test]
fn the_bound_holds_under_every_policy() {
    let mut rng = Rng::new();
    for round in rounds(12) {
        let builder = pool(1, 2).work_queue(WorkQueue::array(2));
        let builder = match round % 4 {
            0 => builder.rejected_execution_handler(policy::Abort),
            1 => builder.rejected_execution_handler(policy::Discard),
            2 => builder.rejected_execution_handler(policy::DiscardOldest),
            _ => builder.rejected_execution_handler(policy::CallerRuns),
        };
        let pool = builder.build().unwrap();
        let (_, most) = flood(&pool, 3, 200, &mut rng);
        assert!(most <= 2, "{most} in a queue of 2");
        end(&pool);
        let stats = pool.stats();
        assert_settled(&pool, stats.submitted as usize);
        match round % 4 {
            2 => {
                let by = pool.snapshot().rejected;
                assert!(by.evicted <= stats.handed_back, "each replaced at least one: {by:?} {stats:?}");
                assert_eq!(stats.submitted + by.total() - by.evicted, 600, "{by:?} {stats:?}");
            }
            _ => assert_eq!(stats.submitted + stats.rejected, 600, "{stats:?}"),
        }
    }
}

// Room also comes from cancelling and removing queued tasks.
#[test]
fn a_blocked_submitter_gets_the_place_of_a_task_that_is_cancelled_or_removed() {
    let mut rng = Rng::new();
    for round in rounds(200) {
        let pool = pool(1, 1)
            .work_queue(WorkQueue::array(1))
            .rejected_execution_handler(policy::Block::timeout(LONG))
            .build()
            .unwrap();
        let gate = Gate::new();
        let busy = keep_busy(&pool, &gate);
        let queued = pool.submit(|| ()).unwrap();
        thread::scope(|s| {
            let blocked = if round % 4 == 0 {
                Ok(block(s, || pool.submit(|| "got in").unwrap()))
            } else {
                Err(s.spawn(|| pool.submit(|| "got in").unwrap())) // perhaps not blocked yet
            };
            rng.dawdle();
            if round % 2 == 0 {
                assert!(queued.cancel(false))
            } else {
                assert!(pool.remove(queued.id()))
            }
            let handle = match blocked {
                Ok(blocked) => blocked.join(),
                Err(thread) => thread.join().unwrap(),
            };
            assert_eq!(pool.queued_count(), 1);
            gate.open();
            assert_eq!(soon(handle).unwrap(), "got in");
        });
        soon(busy).unwrap();
        end(&pool);
        assert_settled(&pool, 3);
    }
}

#[test]
fn a_blocked_submitter_that_is_interrupted_races_room_and_loses_no_task() {
    let mut rng = Rng::new();
    for _ in rounds(300) {
        let pool = pool(1, 1)
            .work_queue(WorkQueue::array(1))
            .rejected_execution_handler(policy::Block::timeout(LONG))
            .build()
            .unwrap();
        let gate = Gate::new();
        drop(keep_busy(&pool, &gate));
        pool.execute(|| ()).unwrap();
        let got_in = thread::scope(|s| {
            let submit = || {
                let result = pool.execute(|| ());
                (result.map_err(|rejected| rejected.reason()), interrupt::interrupted())
            };
            let (one, two) = (block(s, submit), block(s, submit));
            let mut here = rng.fork();
            s.spawn(|| gate.open());
            here.dawdle();
            one.interrupt();
            let mut got_in = 0;
            for (result, flag) in [one.join(), two.join()] {
                match result {
                    Ok(()) => got_in += 1,
                    Err(reason) => {
                        assert_eq!(reason, RejectReason::Interrupted);
                        assert!(flag, "the flag stays set");
                    }
                }
            }
            got_in
        });
        assert!(got_in >= 1, "only one was interrupted");
        end(&pool);
        assert_settled(&pool, 2 + got_in);
    }
}

#[test]
fn a_blocked_submitter_whose_time_runs_out_races_room_and_loses_no_task() {
    let mut rng = Rng::new();
    for round in rounds(10) {
        let queue = if round % 2 == 0 { WorkQueue::array(1) } else { WorkQueue::synchronous() };
        let pool = pool(1, 1)
            .work_queue(queue)
            .rejected_execution_handler(policy::Block::timeout(Duration::from_micros(rng.below(60) as u64)))
            .build()
            .unwrap();
        let (accepted, most) = flood(&pool, 3, 200, &mut rng);
        end(&pool);
        assert!(most <= 1);
        assert_settled(&pool, accepted);
        assert_eq!(pool.stats().rejected, 600 - accepted as u64);
    }
}

#[test]
fn discard_oldest_under_contention_resolves_every_handle() {
    let mut rng = Rng::new();
    for round in rounds(60) {
        let queue = match round % 3 {
            0 => WorkQueue::array(2),
            1 => WorkQueue::synchronous(),
            _ => WorkQueue::custom(LinkedBlockingQueue::bounded(2).unwrap()),
        };
        let pool =
            pool(1, 2).work_queue(queue).rejected_execution_handler(policy::DiscardOldest).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let results: Vec<_> = thread::scope(|s| {
            let submitters: Vec<_> = (0..3)
                .map(|_| {
                    let (pool, ran, mut rng) = (&pool, &ran, rng.fork());
                    s.spawn(move || {
                        let submit = |_| {
                            rng.dawdle();
                            let ran = Arc::clone(ran);
                            pool.submit(move || {
                                ran.fetch_add(1, Ordering::Relaxed);
                            })
                        };
                        (0..30).map(submit).collect::<Vec<_>>()
                    })
                })
                .collect();
            submitters.into_iter().flat_map(|submitter| submitter.join().unwrap()).collect()
        });
        let (mut succeeded, mut evicted, mut refused) = (0, 0, 0);
        for result in results {
            match result.map(soon) {
                Ok(Ok(())) => succeeded += 1,
                Ok(Err(JoinError::Abandoned)) => evicted += 1,
                Ok(Err(other)) => panic!("{other}"),
                Err(rejected) => {
                    assert_eq!(rejected.reason(), RejectReason::Saturated, "nothing to evict");
                    refused += 1;
                }
            }
        }
        end(&pool);
        assert_eq!(succeeded + evicted + refused, 90);
        assert_eq!(ran.load(Ordering::Relaxed), succeeded);
        assert_settled(&pool, succeeded + evicted);
        assert_eq!(pool.stats().handed_back, evicted as u64);
    }
}

#[test]
fn caller_runs_under_contention_runs_every_task_once() {
    let mut rng = Rng::new();
    for round in rounds(60) {
        let queue = if round % 2 == 0 { WorkQueue::array(1) } else { WorkQueue::synchronous() };
        let pool =
            pool(1, 2).work_queue(queue).rejected_execution_handler(policy::CallerRuns).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        thread::scope(|s| {
            for _ in 0..3 {
                let (pool, ran, mut rng) = (&pool, &ran, rng.fork());
                s.spawn(move || {
                    for n in 0..40 {
                        if rng.once_in(4) {
                            rng.dawdle();
                        }
                        let ran = Arc::clone(ran);
                        let handle = pool.submit(move || {
                            ran.fetch_add(1, Ordering::Relaxed);
                            n
                        });
                        assert_eq!(soon(handle.unwrap()).unwrap(), n);
                    }
                });
            }
        });
        end(&pool);
        assert_eq!(ran.load(Ordering::Relaxed), 120);
        let stats = pool.stats();
        assert_settled(&pool, stats.submitted as usize);
        assert_eq!(stats.submitted + stats.rejected, 120);
    }
}

// The most urgent first, equal ones in the order of each submitter, even if workers lag behind by
// many submissions.
#[test]
fn a_priority_queue_filled_by_many_is_emptied_in_order() {
    let mut rng = Rng::new();
    for _ in rounds(60) {
        let pool = pool(1, 1).work_queue(WorkQueue::priority()).build().unwrap();
        let gate = Gate::new();
        let busy = keep_busy(&pool, &gate);
        let order = Arc::new(Mutex::new(Vec::new()));
        thread::scope(|s| {
            for submitter in 0..3 {
                let (pool, order, mut rng) = (&pool, &order, rng.fork());
                s.spawn(move || {
                    for n in 0..30 {
                        let priority = rng.below(4) as i32;
                        let order = Arc::clone(order);
                        let run = move || order.lock().unwrap().push((priority, submitter, n));
                        if n % 2 == 0 {
                            pool.execute_task(Task::new(run).with_priority(priority)).unwrap();
                        } else {
                            drop(pool.submit_task(TaskOf::new(run).with_priority(priority)).unwrap());
                        }
                    }
                });
            }
        });
        assert_eq!(pool.queued_count(), 90);
        gate.open();
        soon(busy).unwrap();
        end(&pool);
        let order = order.lock().unwrap();
        assert_eq!(order.len(), 90);
        for pair in order.windows(2) {
            assert!(pair[0].0 >= pair[1].0, "{pair:?}");
        }
        for submitter in 0..3 {
            for priority in 0..4 {
                let of_one: Vec<i32> =
                    order.iter().filter(|t| t.0 == priority && t.1 == submitter).map(|t| t.2).collect();
                assert!(of_one.is_sorted(), "{of_one:?}");
            }
        }
        assert_settled(&pool, 91);
    }
}

// While tasks are being taken: a task never starts before a more urgent one that was already queued
// when it was submitted.
#[test]
fn a_priority_queue_under_load_starts_the_urgent_before_the_rest() {
    let mut rng = Rng::new();
    for _ in rounds(100) {
        let pool = pool(1, 1).work_queue(WorkQueue::priority()).build().unwrap();
        let gate = Gate::new();
        drop(keep_busy(&pool, &gate));
        let started = Arc::new(Mutex::new(Vec::new()));
        let submit = |priority: i32| {
            let started = Arc::clone(&started);
            let run = move || started.lock().unwrap().push(priority);
            pool.execute_task(Task::new(run).with_priority(priority)).unwrap();
        };
        submit(9);
        thread::scope(|s| {
            s.spawn(|| gate.open());
            (0..20).for_each(|_| submit(rng.below(9) as i32));
        });
        eventually(|| started.lock().unwrap().len() == 21); // all have started
        assert_eq!(started.lock().unwrap()[0], 9);
        end(&pool);
        assert_settled(&pool, 22);
    }
}
