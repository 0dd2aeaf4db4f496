//! Streams on schedulers, using only `futures_core::Stream`.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::support::{Counter, CountsDrop, Gate, LONG, PanicsOnDrop, die, eventually};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use millpond::interrupt::{self, Interrupted};
use millpond::reactive::{self, PREFETCH, StreamError, StreamOn};
use millpond::schedulers::{self, Scheduler, SchedulerExt};
use millpond::{JoinError, RejectReason};

/// A stream that calls a closure for its next item.
struct Source<F>(F);

impl<T, F: FnMut() -> Option<T> + Unpin> Stream for Source<F> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
        Poll::Ready((self.0)())
    }
}

/// The numbers from 0 on.
fn numbers(end: usize) -> impl Stream<Item = usize> + Send + 'static {
    let mut numbers = 0..end;
    Source(move || numbers.next())
}

/// An unbounded channel: a source that the test feeds.
struct Channel<T>(Arc<Mutex<Inner<T>>>);

struct Inner<T> {
    items: VecDeque<T>,
    closed: bool,
    waker: Option<Waker>,
}

struct Sender<T>(Arc<Mutex<Inner<T>>>);

fn channel<T>() -> (Sender<T>, Channel<T>) {
    let inner = Arc::new(Mutex::new(Inner { items: VecDeque::new(), closed: false, waker: None }));
    (Sender(Arc::clone(&inner)), Channel(inner))
}

impl<T> Sender<T> {
    fn change(&self, f: impl FnOnce(&mut Inner<T>)) {
        let waker = {
            let mut inner = self.0.lock().unwrap();
            f(&mut inner);
            inner.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn send(&self, item: T) {
        self.change(|inner| inner.items.push_back(item));
    }

    fn close(&self) {
        self.change(|inner| inner.closed = true);
    }

    fn is_awaited(&self) -> bool {
        self.0.lock().unwrap().waker.is_some()
    }

    /// Whether the receiving channel has been dropped.
    fn is_unwanted(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl<T> Stream for Channel<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut inner = self.0.lock().unwrap();
        match inner.items.pop_front() {
            Some(item) => Poll::Ready(Some(item)),
            None if inner.closed => Poll::Ready(None),
            None => {
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Waits on this thread for the next item.
fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    reactive::block_on(poll_fn(|context| Pin::new(&mut *stream).poll_next(context))).unwrap()
}

fn collect<S: Stream + Unpin>(mut stream: S) -> Vec<S::Item> {
    std::iter::from_fn(|| next(&mut stream)).collect()
}

/// All items. Panics at an error.
fn good<T, S: Stream<Item = Result<T, StreamError>> + Unpin>(stream: S) -> Vec<T> {
    collect(stream).into_iter().map(Result::unwrap).collect()
}

fn up_to(n: usize) -> NonZero<usize> {
    NonZero::new(n).unwrap()
}

fn single(name: &str) -> Arc<dyn Scheduler> {
    schedulers::new_single(name).unwrap()
}

fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

/// Occupies the only thread of `scheduler` until the gate opens.
fn hold(scheduler: &dyn Scheduler, gate: &Gate) {
    let (running, pass) = (Gate::new(), gate.clone());
    let knock = running.clone();
    scheduler
        .schedule(move || {
            knock.open();
            pass.pass();
        })
        .unwrap();
    running.pass();
}

/// A thousand numbers, which `f` consumes on its own thread. The thread is interrupted at the
/// tenth. Fails if `f` does not return within `LONG`.
#[track_caller]
fn interrupted_at_the_tenth<R: Send + 'static>(
    f: impl FnOnce(Pin<Box<dyn Stream<Item = usize> + Send>>) -> R + Send + 'static,
) -> R {
    let (done, result) = mpsc::channel();
    let thread = thread::spawn(move || {
        let (mut numbers, me) = (0..1000, interrupt::current());
        let source = Source(move || {
            let next = numbers.next();
            if next == Some(10) {
                me.interrupt();
            }
            next
        });
        let _ = done.send((f(Box::pin(source)), interrupt::interrupted()));
    });
    let (result, still_interrupted) = result.recv_timeout(LONG).expect("it returns although interrupted");
    thread.join().unwrap();
    assert!(still_interrupted, "the flag is left to the caller");
    result
}

/// Polls without waiting until the stream is pending or has ended.
fn poll_all<T>(mut stream: impl Stream<Item = Result<T, StreamError>> + Unpin) -> Vec<T> {
    let mut context = Context::from_waker(Waker::noop());
    let mut items = Vec::new();
    while let Poll::Ready(Some(item)) = Pin::new(&mut stream).poll_next(&mut context) {
        items.push(item.unwrap());
    }
    items
}

// ---- the immediate scheduler, with an interrupted caller

#[test]
fn for_each_on_the_immediate_scheduler_ends_although_the_caller_is_interrupted() {
    let outcome = interrupted_at_the_tenth(|source| {
        let (count, immediate) = (Counter::new(), schedulers::immediate());
        let add = count.clone();
        let ended = source.publish_on_buffered(&immediate, up_to(16)).for_each(move |_| add.add()).unwrap();
        (ended.is_done(), count.get())
    });
    assert_eq!(outcome, (true, 1000));
}

#[test]
fn subscribe_on_the_immediate_scheduler_delivers_although_the_caller_is_interrupted() {
    let items = interrupted_at_the_tenth(|source| {
        poll_all(source.subscribe_on_buffered(&schedulers::immediate(), up_to(16)))
    });
    assert_eq!(items, (0..1000).collect::<Vec<_>>());
}

#[test]
fn map_on_the_immediate_scheduler_delivers_although_the_caller_is_interrupted() {
    let items = interrupted_at_the_tenth(|source| {
        let me = interrupt::current();
        let map = move |n| {
            if n == 20 {
                me.interrupt();
            }
            n + 1
        };
        poll_all(source.publish_on_buffered(&schedulers::immediate(), up_to(16)).map_on(map))
    });
    assert_eq!(items, (1..=1000).collect::<Vec<_>>());
}

// ---- subscribe_on

#[test]
fn subscribe_on_delivers_all_items_in_order() {
    let scheduler = single("sub");
    let all = (0..10_000).collect::<Vec<_>>();
    assert_eq!(good(numbers(10_000).subscribe_on(&scheduler)), all);
    assert_eq!(good(numbers(100).subscribe_on_buffered(&scheduler, up_to(1))), all[..100]);
    assert!(good(numbers(0).subscribe_on(&*scheduler)).is_empty());
}

#[test]
fn subscribe_on_polls_and_drops_the_source_on_the_scheduler() {
    struct Where(mpsc::Sender<ThreadId>);
    impl Drop for Where {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }
    let scheduler = single("sub-thread");
    let (send, dropped_on) = mpsc::channel();
    let (place, mut left) = (Where(send), 3);
    let source = Source(move || {
        let _ = &place;
        left -= 1;
        (left >= 0).then(|| (thread_name(), thread::current().id()))
    });
    let seen = good(source.subscribe_on(&scheduler));
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|(name, id)| name.starts_with("sub-thread") && *id == seen[0].1));
    assert_eq!(dropped_on.recv().unwrap(), seen[0].1);
}

#[test]
fn subscribe_on_does_nothing_before_it_is_polled() {
    let (scheduler, polls) = (single("lazy"), Counter::new());
    let count = polls.clone();
    let mut stream = Source(move || {
        count.add();
        Some(())
    })
    .subscribe_on_buffered(&scheduler, up_to(4));
    // Every task that was submitted earlier has had its turn.
    assert!(scheduler.schedule(|| {}).unwrap().wait(LONG).unwrap());
    assert_eq!(polls.get(), 0);
    assert!(next(&mut stream).unwrap().is_ok());
}

/// The default of Reactor.
#[test]
fn the_default_prefetch_is_256() {
    assert_eq!(PREFETCH.get(), 256);
}

#[test]
fn the_source_is_not_polled_while_the_buffer_is_full() {
    for prefetch in [1, 2, 5, 256] {
        let (scheduler, fetched) = (single("full"), Counter::new());
        let count = fetched.clone();
        let source = Source(move || {
            count.add();
            Some(())
        });
        let mut stream = source.subscribe_on_buffered(&scheduler, up_to(prefetch));
        for taken in 1..=3 * prefetch {
            assert!(next(&mut stream).unwrap().is_ok());
            let ahead = fetched.get() - taken;
            assert!(ahead <= prefetch, "{ahead} items ahead, but at most {prefetch} may be");
        }
        // It fetches ahead, not one item at a time. It requests more only when at most three
        // quarters are left.
        eventually(|| fetched.get() - 3 * prefetch > prefetch / 4);
    }
}

#[test]
fn a_slow_consumer_wakes_the_source_once_for_three_quarters_of_the_buffer() {
    let scheduler = single("tide");
    let mut stream = numbers(usize::MAX).subscribe_on_buffered(&scheduler, up_to(100));
    let fetch = |stream: &mut _, n: usize| (0..n).for_each(|_| drop(next::<_>(stream)));
    fetch(&mut stream, 1);
    // The pump is idle when the buffer is full: only then an empty task gets its turn, and counts
    // are stable.
    let rests = || {
        let before = scheduler.stats().completed;
        scheduler.schedule(|| {}).unwrap().wait(LONG).unwrap();
        scheduler.stats().completed == before + 1
    };
    eventually(rests);
    let before = scheduler.stats().completed;
    fetch(&mut stream, 70);
    assert_eq!(scheduler.stats().completed, before, "a turn for every item taken");
    fetch(&mut stream, 400);
    eventually(rests);
}

#[test]
fn items_from_elsewhere_reach_the_consumer() {
    let scheduler = single("wake");
    let (send, source) = channel();
    let mut stream = source.subscribe_on(&scheduler);
    thread::scope(|scope| {
        let consumer = crate::support::block(scope, move || {
            let first = next(&mut stream).unwrap().unwrap();
            (first, collect(stream).len())
        });
        eventually(|| send.is_awaited());
        send.send(1);
        send.send(2);
        send.close();
        assert_eq!(consumer.join(), (1, 1));
    });
}

#[test]
fn dropping_the_consumer_stops_and_drops_an_idle_source_at_once() {
    let scheduler = single("idle");
    let (send, source) = channel::<CountsDrop>();
    let (dropped, mut stream) = (Counter::new(), source.subscribe_on(&scheduler));
    send.send(dropped.on_drop());
    send.send(dropped.on_drop());
    drop(next(&mut stream));
    eventually(|| send.is_awaited());
    // The poll that stored the waker is over once another task has had its turn.
    scheduler.schedule(|| {}).unwrap().wait(LONG).unwrap();
    drop(stream);
    assert!(send.is_unwanted());
    assert_eq!(dropped.get(), 2, "what was fetched ahead is dropped too");
}

#[test]
fn dropping_the_consumer_interrupts_a_source_that_blocks_and_drops_it() {
    let (scheduler, running, dropped) = (single("blocks"), Gate::new(), Counter::new());
    let (send, slept) = mpsc::channel();
    let (knock, captured, mut first) = (running.clone(), dropped.on_drop(), true);
    let source = Source(move || {
        let _ = &captured;
        if std::mem::take(&mut first) {
            return Some(1);
        }
        knock.open();
        send.send(interrupt::sleep(LONG)).unwrap();
        Some(2)
    });
    let mut stream = source.subscribe_on(&scheduler);
    assert_eq!(next(&mut stream).unwrap().unwrap(), 1);
    running.pass();
    drop(stream);
    assert_eq!(slept.recv().unwrap(), Err(Interrupted));
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
    assert_eq!(dropped.get(), 1);
}

#[test]
fn a_panic_of_the_source_is_an_error_after_the_items_before_it() {
    let (scheduler, mut n) = (single("panics"), 0);
    let mut stream = Source(move || {
        n += 1;
        if n > 3 { die("no more") } else { Some(n) }
    })
    .subscribe_on(&scheduler);
    assert_eq!((0..3).map(|_| next(&mut stream).unwrap().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    let error = next(&mut stream).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the stream panicked: no more");
    assert!(matches!(error, StreamError::Panicked(panic) if panic.message() == Some("no more")));
    assert!(next(&mut stream).is_none() && stream.is_terminated());
}

#[test]
fn disposing_of_the_scheduler_cuts_an_idle_stream_off() {
    for end in [
        |s: &dyn Scheduler| s.dispose(),
        |s: &dyn Scheduler| {
            let _ = s.dispose_gracefully(Duration::ZERO);
        },
    ] {
        let scheduler = single("idle-end");
        let (send, source) = channel();
        let mut stream = source.subscribe_on(&scheduler);
        send.send(1);
        assert_eq!(next(&mut stream).unwrap().unwrap(), 1);
        eventually(|| send.is_awaited());
        thread::scope(|scope| {
            let consumer = crate::support::block(scope, || next(&mut stream).unwrap().unwrap_err());
            end(&*scheduler);
            assert!(matches!(consumer.join(), StreamError::CutOff));
        });
        assert!(next(&mut stream).is_none());
        assert!(send.is_unwanted());
        assert!(scheduler.dispose_gracefully(LONG).unwrap());
    }
}

#[test]
fn items_fetched_before_the_end_of_the_scheduler_are_delivered_before_the_error() {
    let scheduler = single("rest");
    let (send, source) = channel();
    let mut stream = source.subscribe_on(&scheduler);
    (0..5).for_each(|n| send.send(n));
    assert_eq!(next(&mut stream).unwrap().unwrap(), 0);
    eventually(|| send.is_awaited());
    scheduler.dispose();
    let rest = collect(stream);
    assert_eq!(rest.len(), 5);
    assert!((1..5).zip(&rest).all(|(n, item)| matches!(item, Ok(m) if *m == n)));
    assert!(matches!(rest[4], Err(StreamError::CutOff)));
}

#[test]
fn a_stream_on_a_disposed_scheduler_is_refused_with_the_first_poll() {
    let scheduler = single("ended");
    scheduler.dispose();
    let mut stream = numbers(3).subscribe_on(&scheduler);
    let error = next(&mut stream).unwrap().unwrap_err();
    assert!(matches!(error, StreamError::Refused(RejectReason::Shutdown)), "{error:?}");
    assert!(next(&mut stream).is_none());
}

/// A turn processes many items, each of which may block.
#[test]
fn the_end_of_the_scheduler_ends_the_turn_under_way() {
    let (scheduler, gate, running, fetched) = (single("turn"), Gate::new(), Gate::new(), Counter::new());
    let (pass, knock, count) = (gate.clone(), running.clone(), fetched.clone());
    let source = Source(move || {
        count.add();
        if count.get() == 3 {
            knock.open();
            pass.pass();
        }
        Some(count.get())
    });
    let mut stream = source.subscribe_on(&scheduler);
    assert_eq!(next(&mut stream).unwrap().unwrap(), 1);
    running.pass();
    scheduler.dispose();
    gate.open();
    let rest = collect(stream);
    assert!(matches!(rest[..], [Ok(2), Ok(3), Err(StreamError::CutOff)]), "{rest:?}");
    assert_eq!(fetched.get(), 3);
}

#[test]
fn an_endless_source_leaves_its_thread_to_others() {
    let scheduler = single("fair");
    let (running, mut stream) = (Gate::new(), numbers(usize::MAX).subscribe_on(&scheduler));
    let knock = running.clone();
    assert!(next(&mut stream).unwrap().is_ok());
    scheduler.schedule(move || knock.open()).unwrap();
    while !running.is_open() {
        assert!(next(&mut stream).unwrap().is_ok());
    }
}

#[test]
fn a_stream_that_has_ended_frees_its_worker() {
    let scheduler = schedulers::new_bounded_elastic(2, 10, "frees", Duration::from_secs(60)).unwrap();
    let mut stream = numbers(3).subscribe_on(&scheduler);
    assert_eq!(scheduler.stats().busy, 1, "held from the call on");
    while next(&mut stream).is_some() {}
    eventually(|| scheduler.stats().busy == 0 && scheduler.stats().queued == 0);
    drop(stream);
}

// ---- publish_on

#[test]
fn for_each_runs_on_the_scheduler_in_order() {
    let scheduler = single("each");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let push = Arc::clone(&seen);
    let each = move |n| push.lock().unwrap().push((n, thread_name().starts_with("each")));
    let handle = numbers(1000).publish_on_buffered(&scheduler, up_to(7)).for_each(each).unwrap();
    crate::support::soon(handle).unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..1000).map(|n| (n, true)).collect::<Vec<_>>());
}

#[test]
fn subscribe_on_and_publish_on_have_a_scheduler_each() {
    let (from, to) = (single("from"), single("to"));
    let source = {
        let mut left = 5;
        Source(move || {
            left -= 1;
            (left >= 0).then(thread_name)
        })
    };
    let mut stream = source.subscribe_on(&from).publish_on(&to).map_on(|name| (name.unwrap(), thread_name()));
    for _ in 0..5 {
        let (fetched, mapped) = next(&mut stream).unwrap().unwrap();
        assert!(fetched.starts_with("from") && mapped.starts_with("to"), "{fetched} {mapped}");
    }
    assert!(next(&mut stream).is_none());
}

#[test]
fn a_panic_in_for_each_goes_to_the_handle_and_drops_the_stream() {
    let (scheduler, dropped) = (single("each-panics"), Counter::new());
    let captured = dropped.on_drop();
    let source = Source(move || {
        let _ = &captured;
        Some(1)
    });
    let handle = source.publish_on(&scheduler).for_each(|_| die("each")).unwrap();
    let outcome = crate::support::soon(handle);
    assert!(matches!(outcome, Err(JoinError::Panicked(panic)) if panic.message() == Some("each")));
    assert_eq!(dropped.get(), 1);
}

#[test]
fn cancelling_for_each_ends_an_endless_stream() {
    let (scheduler, count, dropped) = (single("endless"), Counter::new(), Counter::new());
    let (counts, captured) = (count.clone(), dropped.on_drop());
    let each = move |_| {
        let _ = &captured;
        counts.add();
    };
    let handle = numbers(usize::MAX).publish_on(&scheduler).for_each(each).unwrap();
    eventually(|| count.get() > 1000);
    assert!(handle.cancel(false));
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
    assert_eq!(dropped.get(), 1);
    assert!(matches!(crate::support::soon(handle), Err(JoinError::Cancelled)));
}

/// A turn processes many items: it ends after the current one, even without an interrupt.
#[test]
fn a_cancelled_for_each_takes_no_further_item() {
    let (scheduler, gate, running, count) = (single("stop"), Gate::new(), Gate::new(), Counter::new());
    let (pass, knock, counts) = (gate.clone(), running.clone(), count.clone());
    let each = move |n| {
        counts.add();
        if n == 2 {
            knock.open();
            pass.pass();
        }
    };
    let handle = numbers(100).publish_on(&scheduler).for_each(each).unwrap();
    running.pass();
    assert!(handle.cancel(false));
    gate.open();
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
    assert_eq!(count.get(), 3);
}

#[test]
fn for_each_is_abandoned_with_its_scheduler_and_refused_after_it() {
    let scheduler = single("each-ends");
    let (send, source) = channel::<u8>();
    let handle = source.publish_on(&scheduler).for_each(drop).unwrap();
    eventually(|| send.is_awaited());
    scheduler.dispose();
    assert!(matches!(crate::support::soon(handle), Err(JoinError::Abandoned)));
    let rejected = numbers(1).publish_on(&scheduler).for_each(drop).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::Shutdown);
}

#[test]
fn map_on_maps_on_the_scheduler_and_keeps_the_order() {
    let scheduler = schedulers::new_parallel(3, "map").unwrap();
    let here = thread::current().id();
    let source = {
        let mut numbers = 0..1000;
        Source(move || numbers.next().map(|n| (n, thread::current().id())))
    };
    let mapped = source.publish_on(&scheduler).map_on(|(n, polled)| (n, polled, thread_name()));
    let all = good(mapped);
    assert_eq!(all.iter().map(|(n, ..)| *n).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
    assert!(all.iter().all(|(_, polled, _)| *polled == here), "the source stays where it is polled");
    assert!(all.iter().all(|(_, _, name)| name.starts_with("map") && *name == all[0].2));
}

#[test]
fn map_on_has_no_more_items_under_way_than_it_may() {
    let scheduler = single("bound");
    for prefetch in [1, 3, 64] {
        let fetched = Counter::new();
        let count = fetched.clone();
        let source = Source(move || {
            count.add();
            Some(())
        });
        let mut stream = source.publish_on_buffered(&scheduler, up_to(prefetch)).map_on(|()| ());
        for taken in 0..200 {
            assert!(next(&mut stream).unwrap().is_ok());
            let under_way = fetched.get() - taken;
            assert!(under_way <= prefetch, "{under_way} under way, but at most {prefetch} may be");
        }
    }
}

/// While the closure is blocked, the source is polled for as many items as may be in flight, and no
/// more.
#[test]
fn map_on_fetches_ahead_while_the_closure_is_busy() {
    let (scheduler, gate, fetched) = (single("ahead"), Gate::new(), Counter::new());
    hold(&*scheduler, &gate);
    let count = fetched.clone();
    let source = Source(move || {
        count.add();
        Some(count.get())
    });
    let mut stream = source.publish_on_buffered(&scheduler, up_to(8)).map_on(|n| n * 10);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        assert!(Pin::new(&mut stream).poll_next(&mut context).is_pending());
        assert_eq!(fetched.get(), 8);
    }
    gate.open();
    assert_eq!(next(&mut stream).unwrap().unwrap(), 10);
}

#[test]
fn a_panic_in_map_on_is_an_error_after_the_results_before_it() {
    let scheduler = single("map-panics");
    let mut stream = numbers(10).publish_on(&scheduler).map_on(|n| if n == 3 { die("three") } else { n });
    assert_eq!((0..3).map(|_| next(&mut stream).unwrap().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    let error = next(&mut stream).unwrap().unwrap_err();
    assert!(matches!(error, StreamError::Panicked(panic) if panic.message() == Some("three")));
    assert!(next(&mut stream).is_none() && stream.is_terminated());
}

#[test]
fn the_end_of_the_scheduler_cuts_map_on_off_and_drops_what_was_under_way() {
    let (scheduler, gate, dropped) = (single("map-ends"), Gate::new(), Counter::new());
    hold(&*scheduler, &gate);
    let items = dropped.clone();
    let source = Source(move || Some(items.on_drop()));
    let mut stream = source.publish_on_buffered(&scheduler, up_to(4)).map_on(|item| item);
    assert!(Pin::new(&mut stream).poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
    scheduler.dispose();
    assert!(matches!(next(&mut stream), Some(Err(StreamError::CutOff))));
    assert!(next(&mut stream).is_none());
    assert_eq!(dropped.get(), 4);
    gate.open();
}

#[test]
fn dropping_map_on_drops_the_closure_and_what_is_under_way() {
    let (scheduler, gate, dropped) = (single("map-drop"), Gate::new(), Counter::new());
    hold(&*scheduler, &gate);
    let (items, captured) = (dropped.clone(), dropped.on_drop());
    let source = Source(move || Some(items.on_drop()));
    let mut stream = source.publish_on_buffered(&scheduler, up_to(4)).map_on(move |item| {
        let _ = &captured;
        item
    });
    assert!(Pin::new(&mut stream).poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(stream);
    assert_eq!(dropped.get(), 5);
    gate.open();
}

/// Even if the closure swallows the interrupt and further items wait for it.
#[test]
fn dropping_map_on_ends_the_turn_of_a_closure_that_blocks() {
    let (scheduler, running, count) = (single("map-turn"), Gate::new(), Counter::new());
    let (knock, counts) = (running.clone(), count.clone());
    let mut stream = numbers(100).publish_on(&scheduler).map_on(move |_| {
        counts.add();
        knock.open();
        interrupt::sleep(LONG).unwrap_err();
    });
    assert!(Pin::new(&mut stream).poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
    running.pass();
    drop(stream);
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
    assert_eq!(count.get(), 1);
}

#[test]
fn a_source_whose_destructor_panics_does_not_keep_map_on_from_its_end() {
    struct Fragile<S> {
        source: S,
        _bomb: PanicsOnDrop,
    }
    impl<S: Stream + Unpin> Stream for Fragile<S> {
        type Item = S::Item;
        fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
            Pin::new(&mut self.source).poll_next(context)
        }
    }
    let dropped = Counter::new();
    let source = Fragile { source: numbers(3), _bomb: PanicsOnDrop(dropped.on_drop()) };
    let mut mapped = source.publish_on(&single("map")).map_on(|n| n * 2);
    // The source ends and is dropped inside the first poll: its panic reaches the poller.
    let first = catch_unwind(AssertUnwindSafe(|| next(&mut mapped)));
    assert_eq!(first.unwrap_err().downcast_ref(), Some(&"destructor"));
    assert_eq!(dropped.get(), 1);
    let (done, rest) = mpsc::channel();
    let thread = thread::spawn(move || done.send(good(mapped)).unwrap());
    assert_eq!(rest.recv_timeout(LONG), Ok(vec![0, 2, 4]));
    thread.join().unwrap();
}

#[test]
fn an_unpolled_stream_that_is_dropped_frees_its_worker() {
    let scheduler = schedulers::new_bounded_elastic(2, 10, "unpolled", Duration::from_secs(60)).unwrap();
    let streams = (numbers(1).subscribe_on(&scheduler), numbers(1).publish_on(&scheduler).map_on(|n| n));
    assert_eq!(scheduler.stats().busy, 2);
    drop(streams);
    assert_eq!(scheduler.stats().busy, 0);
}

// ---- races

/// Whenever the consumer is dropped, the source and all its items are dropped, and the scheduler is
/// free.
#[test]
fn a_consumer_that_goes_at_any_time_leaves_nothing_behind() {
    let scheduler = single("race");
    let mut rng = crate::support::Rng::new();
    for _ in crate::support::rounds(500) {
        let (made, dropped, sources) = (Counter::new(), Counter::new(), Counter::new());
        let (count, items, captured) = (made.clone(), dropped.clone(), sources.on_drop());
        let source = Source(move || {
            let _ = &captured;
            count.add();
            Some(items.on_drop())
        });
        let mut stream = source.subscribe_on_buffered(&scheduler, up_to(1 + rng.below(6)));
        for _ in 0..rng.below(20) {
            drop(next(&mut stream).unwrap().unwrap());
        }
        rng.dawdle();
        drop(stream);
        eventually(|| sources.get() == 1 && made.get() == dropped.get());
    }
    eventually(|| scheduler.stats().queued == 0);
}

/// Whenever the scheduler ends, the stream ends: with all items, or with an error after some.
#[test]
fn a_scheduler_that_ends_at_any_time_ends_the_stream() {
    let mut rng = crate::support::Rng::new();
    for _ in crate::support::rounds(300) {
        let scheduler = single("race-end");
        let (length, mut dawdler) = (rng.below(200), rng.fork());
        let stream = numbers(length).subscribe_on_buffered(&scheduler, up_to(1 + rng.below(6)));
        let (items, ()) = crate::support::together(
            || collect(stream),
            || {
                dawdler.dawdle();
                scheduler.dispose();
            },
        );
        let good = items.iter().map_while(|item| item.as_ref().ok().copied()).collect::<Vec<_>>();
        assert_eq!(good, (0..good.len()).collect::<Vec<_>>());
        match items.last() {
            Some(Err(StreamError::CutOff | StreamError::Refused(_))) => {
                assert_eq!(items.len(), good.len() + 1)
            }
            Some(Err(error)) => panic!("{error}"),
            Some(Ok(_)) | None => assert_eq!(items.len(), length),
        }
        assert!(scheduler.dispose_gracefully(LONG).unwrap());
    }
}

/// The same for `map_on`, whose items go to the scheduler and come back.
#[test]
fn a_scheduler_that_ends_at_any_time_ends_map_on() {
    let mut rng = crate::support::Rng::new();
    for _ in crate::support::rounds(300) {
        let scheduler = single("race-map");
        let (length, mut dawdler) = (rng.below(200), rng.fork());
        let prefetch = up_to(1 + rng.below(6));
        let stream = numbers(length).publish_on_buffered(&scheduler, prefetch).map_on(|n| n);
        let (items, ()) = crate::support::together(
            || collect(stream),
            || {
                dawdler.dawdle();
                let _ = scheduler.dispose_gracefully(Duration::ZERO);
            },
        );
        let good = items.iter().map_while(|item| item.as_ref().ok().copied()).collect::<Vec<_>>();
        assert_eq!(good, (0..good.len()).collect::<Vec<_>>());
        assert!(
            good.len() == length || items.last().is_some_and(Result::is_err),
            "{} of {length}",
            good.len()
        );
        assert!(scheduler.dispose_gracefully(LONG).unwrap());
    }
}
