//! Streams on schedulers: [`StreamOn`] and what its methods return.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::num::NonZero;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::stream::{FusedStream, Stream};

use super::pipe::{Inlet, Out, Outlet, pipe};
use super::spawn::spawn_on_worker;
use super::task::in_last_turn;
use crate::executor::{RejectReason, Rejected};
use crate::interrupt;
use crate::schedulers::{Scheduler, Worker};
use crate::task::{CancelOnDrop, JoinError, Panic, TaskHandle};

/// How many items may be under way if nothing else is said: Reactor's default.
pub const PREFETCH: NonZero<usize> = NonZero::new(256).expect("not zero");

/// Lets parts of a stream run on a scheduler; for every stream that can be sent there.
///
/// The [module](super) tells how the two fit together.
pub trait StreamOn: Stream<Item: Send + 'static> + Sized + Send + 'static {
    /// What came before runs on `scheduler`: this stream is polled on one of its workers, and its items are
    /// delivered to whoever polls the result.
    ///
    /// So a source that blocks, or computes, never does it on the consumer's thread. At most [`PREFETCH`]
    /// items are fetched ahead; then the source is not polled until three quarters of them have been taken.
    ///
    /// Nothing is polled before the result is. The worker is held from this call on, until the stream has
    /// ended or is dropped. Dropping it drops this stream: at once, or, if it is being polled, after that
    /// poll, which is interrupted.
    ///
    /// # Examples
    /// ```
    /// use millpond::reactive::{self, StreamOn};
    /// use millpond::schedulers;
    /// use std::time::Duration;
    /// # use futures_core::Stream;
    /// # use std::pin::Pin;
    /// # use std::task::{Context, Poll};
    /// # struct Lines(u32);
    /// # impl Stream for Lines {
    /// #     type Item = u32;
    /// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
    /// #         self.0 += 1;
    /// #         Poll::Ready((self.0 <= 3).then_some(self.0))
    /// #     }
    /// # }
    /// # fn lines_of_a_file() -> Lines { Lines(0) }
    ///
    /// let blocking = schedulers::new_bounded_elastic(4, 1000, "files", Duration::from_secs(60))?;
    /// let mut lines = lines_of_a_file().subscribe_on(&blocking); // read there, not here
    ///
    /// let mut sum = 0;
    /// while let Some(line) = reactive::block_on(std::future::poll_fn(|cx| Pin::new(&mut lines).poll_next(cx)))? {
    ///     sum += line?;
    /// }
    /// assert_eq!(sum, 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn subscribe_on(self, scheduler: &(impl Scheduler + ?Sized)) -> SubscribeOn<Self> {
        self.subscribe_on_buffered(scheduler, PREFETCH)
    }

    /// As [`subscribe_on`](Self::subscribe_on), with at most `prefetch` items fetched ahead.
    fn subscribe_on_buffered(
        self,
        scheduler: &(impl Scheduler + ?Sized),
        prefetch: NonZero<usize>,
    ) -> SubscribeOn<Self> {
        let upstream = Box::pin(self);
        let worker = scheduler.create_worker();
        SubscribeOn { stage: Stage::Ahead { upstream, worker, prefetch: prefetch.get() } }
    }

    /// What follows runs on `scheduler`: [`for_each`](PublishOn::for_each) or [`map_on`](PublishOn::map_on),
    /// on one of its workers, item by item and in order.
    ///
    /// # Examples
    /// ```
    /// use millpond::reactive::StreamOn;
    /// use millpond::schedulers;
    /// # use futures_core::Stream;
    /// # use std::pin::Pin;
    /// # use std::task::{Context, Poll};
    /// # struct Orders(u32);
    /// # impl Stream for Orders {
    /// #     type Item = u32;
    /// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
    /// #         self.0 += 1;
    /// #         Poll::Ready((self.0 <= 3).then_some(self.0))
    /// #     }
    /// # }
    /// # fn orders() -> Orders { Orders(0) }
    ///
    /// let cpu = schedulers::new_parallel(2, "cpu")?;
    /// let done = orders().publish_on(&cpu).for_each(|order| println!("order {order}"))?;
    /// done.join()?; // or `.await`
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn publish_on(self, scheduler: &(impl Scheduler + ?Sized)) -> PublishOn<Self> {
        self.publish_on_buffered(scheduler, PREFETCH)
    }

    /// As [`publish_on`](Self::publish_on), with at most `prefetch` items under way.
    fn publish_on_buffered(
        self,
        scheduler: &(impl Scheduler + ?Sized),
        prefetch: NonZero<usize>,
    ) -> PublishOn<Self> {
        PublishOn { upstream: Box::pin(self), worker: scheduler.create_worker(), prefetch: prefetch.get() }
    }
}

impl<S> StreamOn for S
where
    S: Stream + Send + 'static,
    S::Item: Send + 'static,
{
}

/// Why a stream on a scheduler ended before its end. It is the last item.
#[derive(Debug)]
#[non_exhaustive]
pub enum StreamError {
    /// What ran on the scheduler panicked.
    Panicked(Panic),
    /// The scheduler did not take the work when the stream was first polled.
    Refused(RejectReason),
    /// The scheduler ended, or did not take the work any more.
    CutOff,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => write!(f, "the stream panicked: {panic}"),
            Self::Refused(reason) => {
                write!(f, "the stream could not start: the scheduler {}", reason.predicate())
            }
            Self::CutOff => f.write_str("the stream was cut off: its scheduler takes no more work"),
        }
    }
}

impl Error for StreamError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Panicked(panic) => Some(panic),
            Self::Refused(_) | Self::CutOff => None,
        }
    }
}

/// Items that a future on a scheduler puts into a pipe.
struct Delivery<T> {
    /// Dropped first: the future is told to stop before its items go.
    future: CancelOnDrop<()>,
    outlet: Outlet<T>,
}

impl<T> Delivery<T> {
    /// `None` is the end, as is an error.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, StreamError>>> {
        match self.outlet.poll_out(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Out::Item(item)) => Poll::Ready(Some(Ok(item))),
            Poll::Ready(Out::End) => Poll::Ready(None),
            // The future was dropped before it was through; its handle knows why, or will in a moment.
            Poll::Ready(Out::Cut) => Pin::new(&mut self.future).poll(context).map(|outcome| {
                Some(Err(match outcome {
                    Err(JoinError::Panicked(panic)) => StreamError::Panicked(panic),
                    _ => StreamError::CutOff,
                }))
            }),
        }
    }
}

fn refused(rejected: Rejected) -> StreamError {
    StreamError::Refused(rejected.reason())
}

/// A stream whose source is polled on a scheduler. Made by [`StreamOn::subscribe_on`].
///
/// Its items are `Ok`, in order. If the source panics, or the scheduler refuses it or ends, there is one
/// [`StreamError`] after the items fetched before; then the stream is over.
#[must_use = "streams do nothing unless they are polled"]
pub struct SubscribeOn<S: Stream> {
    stage: Stage<S>,
}

enum Stage<S: Stream> {
    /// Not yet polled.
    Ahead {
        upstream: Pin<Box<S>>,
        worker: Worker,
        prefetch: usize,
    },
    Going(Delivery<S::Item>),
    Over,
}

impl<S> SubscribeOn<S>
where
    S: Stream + Send + 'static,
    S::Item: Send + 'static,
{
    fn start(&mut self) -> Result<(), StreamError> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Ahead { upstream, worker, prefetch } => {
                let (inlet, outlet) = pipe(prefetch);
                let pump = Pump { upstream: Some(upstream), inlet: Some(inlet), prefetch };
                let future = spawn_on_worker(worker, pump).map_err(refused)?.cancel_on_drop();
                self.stage = Stage::Going(Delivery { future, outlet });
            }
            stage => self.stage = stage,
        }
        Ok(())
    }
}

impl<S> Stream for SubscribeOn<S>
where
    S: Stream + Send + 'static,
    S::Item: Send + 'static,
{
    type Item = Result<S::Item, StreamError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.start() {
            return Poll::Ready(Some(Err(error)));
        }
        let Stage::Going(delivery) = &mut self.stage else { return Poll::Ready(None) };
        let next = delivery.poll_next(context);
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.stage = Stage::Over;
        }
        next
    }
}

impl<S> FusedStream for SubscribeOn<S>
where
    S: Stream + Send + 'static,
    S::Item: Send + 'static,
{
    fn is_terminated(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }
}

/// Nothing in it is pinned in place: the source has a box of its own.
impl<S: Stream> Unpin for SubscribeOn<S> {}

impl<S: Stream> fmt::Debug for SubscribeOn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Ahead { .. } => "not polled yet",
            Stage::Going(_) => "going",
            Stage::Over => "over",
        };
        f.debug_struct("SubscribeOn").field("stage", &stage).finish_non_exhaustive()
    }
}

/// Polls a source as long as there is room for what it gives.
struct Pump<S: Stream> {
    /// There until it has ended.
    upstream: Option<Pin<Box<S>>>,
    inlet: Option<Inlet<S::Item>>,
    /// Also how many items it fetches in one turn.
    prefetch: usize,
}

impl<S: Stream> Future for Pump<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let me = &mut *self;
        for _ in turn_of(me.prefetch) {
            let (Some(upstream), Some(inlet)) = (&mut me.upstream, &me.inlet) else {
                return Poll::Ready(());
            };
            match inlet.poll_room(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {}
            }
            match upstream.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(item)) => inlet.push(item),
                Poll::Ready(None) => {
                    me.upstream = None;
                    me.inlet.take().into_iter().for_each(Inlet::finish);
                }
            }
        }
        again(context)
    }
}

/// The items of one turn: at most `most`, so that other work gets its turn too. An interrupt ends the turn after
/// the current item, and the last turn takes none, so a cancel or the end of a scheduler waits for one item
/// and not for the rest.
///
/// A turn that is not the last always takes its first item. On an executor that polls on the caller's thread the
/// flag stays set from one turn to the next, and a turn without an item would never get anywhere.
fn turn_of(most: usize) -> impl Iterator<Item = usize> {
    (0..most).take_while(|taken| !in_last_turn() && (*taken == 0 || !interrupt::is_interrupted()))
}

/// Lets others have their turn, and asks for the next.
fn again(context: &Context<'_>) -> Poll<()> {
    context.waker().wake_by_ref();
    Poll::Pending
}

/// Nothing in it is pinned in place.
impl<S: Stream> Unpin for Pump<S> {}

/// A stream and the worker on which it goes on: say with what. Made by [`StreamOn::publish_on`].
///
/// It is not a stream itself: a stream runs where it is polled, so what is to run elsewhere must be told.
#[must_use = "nothing runs on the scheduler before `for_each` or `map_on`"]
pub struct PublishOn<S> {
    upstream: Pin<Box<S>>,
    worker: Worker,
    prefetch: usize,
}

impl<S> PublishOn<S>
where
    S: Stream + Send + 'static,
    S::Item: Send + 'static,
{
    /// Consumes the stream on the scheduler: calls `f` with every item, one after the other, beginning now.
    ///
    /// The handle is done when the stream is. A panic of `f` or of the stream goes to it; cancelling it drops
    /// both. If the scheduler ends first it is abandoned. Since there is nobody else to poll it, the stream
    /// is polled on the worker too; put a [`subscribe_on`](StreamOn::subscribe_on) before it if its source
    /// has to run elsewhere. After as many items as may be under way others on the same thread have their
    /// turn. A cancel takes effect after the item that `f` is at.
    ///
    /// # Errors
    /// [`Rejected`] if the scheduler has ended or is full.
    pub fn for_each<F>(self, f: F) -> Result<TaskHandle<()>, Rejected>
    where
        F: FnMut(S::Item) + Send + 'static,
    {
        spawn_on_worker(self.worker, ForEach { upstream: self.upstream, f, at_once: self.prefetch })
    }

    /// A stream of what `f` makes of the items. `f` runs on the scheduler, one item at a time, in order.
    ///
    /// This stream is polled where the result is polled, as upstream of Reactor's `publishOn` stays where it
    /// was; its items go to the worker and come back. At most as many as `prefetch` says are under way:
    /// waiting for `f`, in it, or waiting to be taken.
    pub fn map_on<U, F>(self, f: F) -> MapOn<S, U, F>
    where
        F: FnMut(S::Item) -> U + Send + 'static,
        U: Send + 'static,
    {
        let PublishOn { upstream, worker, prefetch } = self;
        MapOn { upstream: Some(upstream), prefetch, under_way: 0, mapping: Mapping::Ahead(worker, f) }
    }
}

impl<S> fmt::Debug for PublishOn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishOn").field("prefetch", &self.prefetch).finish_non_exhaustive()
    }
}

struct ForEach<S, F> {
    upstream: Pin<Box<S>>,
    f: F,
    at_once: usize,
}

impl<S: Stream, F: FnMut(S::Item)> Future for ForEach<S, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let me = &mut *self;
        for _ in turn_of(me.at_once) {
            match me.upstream.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(item)) => (me.f)(item),
                Poll::Ready(None) => return Poll::Ready(()),
            }
        }
        again(context)
    }
}

/// Nothing in it is pinned in place.
impl<S, F> Unpin for ForEach<S, F> {}

/// A stream of what a closure on a scheduler makes of the items of another. Made by [`PublishOn::map_on`].
///
/// Its items are `Ok`, in order. If the closure panics, or the scheduler refuses it or ends, there is one
/// [`StreamError`] after what was made before; items that were under way are lost with it. Then the stream is
/// over. A panic of the source is the poller's own.
#[must_use = "streams do nothing unless they are polled"]
pub struct MapOn<S: Stream, U, F> {
    /// There until it has ended.
    upstream: Option<Pin<Box<S>>>,
    prefetch: usize,
    /// Given to the closure, and what it made not yet taken. At most `prefetch`, so neither pipe overflows.
    under_way: usize,
    mapping: Mapping<S::Item, U, F>,
}

enum Mapping<T, U, F> {
    /// Not yet polled.
    Ahead(Worker, F),
    Going {
        delivery: Delivery<U>,
        /// There until the source has ended.
        inlet: Option<Inlet<T>>,
    },
    Over,
}

impl<S, U, F> MapOn<S, U, F>
where
    S: Stream + Send + 'static,
    S::Item: Send + 'static,
    U: Send + 'static,
    F: FnMut(S::Item) -> U + Send + 'static,
{
    fn start(&mut self) -> Result<(), StreamError> {
        match std::mem::replace(&mut self.mapping, Mapping::Over) {
            Mapping::Ahead(worker, f) => {
                let (inlet, items) = pipe(self.prefetch);
                let (made, outlet) = pipe(self.prefetch);
                let mapper = Mapper { items, f, made: Some(made), at_once: self.prefetch };
                let future = spawn_on_worker(worker, mapper).map_err(refused)?.cancel_on_drop();
                self.mapping = Mapping::Going { delivery: Delivery { future, outlet }, inlet: Some(inlet) };
            }
            mapping => self.mapping = mapping,
        }
        Ok(())
    }

    /// Gives the closure as many items as there are and may be under way.
    fn feed(&mut self, context: &mut Context<'_>) {
        let Mapping::Going { inlet, .. } = &mut self.mapping else { return };
        while self.under_way < self.prefetch
            && let Some(upstream) = &mut self.upstream
        {
            match upstream.as_mut().poll_next(context) {
                Poll::Pending => return,
                Poll::Ready(Some(item)) => {
                    self.under_way += 1;
                    if let Some(inlet) = inlet {
                        inlet.push(item);
                    }
                }
                Poll::Ready(None) => {
                    // The inlet first: if the destructor of the source panics the closure still learns of the end.
                    inlet.take().into_iter().for_each(Inlet::finish);
                    self.upstream = None;
                }
            }
        }
    }

    fn end(&mut self) {
        self.mapping = Mapping::Over;
        self.upstream = None;
    }
}

impl<S, U, F> Stream for MapOn<S, U, F>
where
    S: Stream + Send + 'static,
    S::Item: Send + 'static,
    U: Send + 'static,
    F: FnMut(S::Item) -> U + Send + 'static,
{
    type Item = Result<U, StreamError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let me = &mut *self;
        if let Err(error) = me.start() {
            me.end();
            return Poll::Ready(Some(Err(error)));
        }
        me.feed(context);
        let Mapping::Going { delivery, .. } = &mut me.mapping else { return Poll::Ready(None) };
        let next = delivery.poll_next(context);
        match &next {
            Poll::Ready(Some(Ok(_))) => me.under_way -= 1,
            Poll::Ready(None | Some(Err(_))) => me.end(),
            Poll::Pending => {}
        }
        next
    }
}

impl<S, U, F> FusedStream for MapOn<S, U, F>
where
    S: Stream + Send + 'static,
    S::Item: Send + 'static,
    U: Send + 'static,
    F: FnMut(S::Item) -> U + Send + 'static,
{
    fn is_terminated(&self) -> bool {
        matches!(self.mapping, Mapping::Over)
    }
}

/// Nothing in it is pinned in place: the source has a box of its own, and the closure is only called.
impl<S: Stream, U, F> Unpin for MapOn<S, U, F> {}

impl<S: Stream, U, F> fmt::Debug for MapOn<S, U, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapOn")
            .field("prefetch", &self.prefetch)
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

/// Calls the closure of a [`MapOn`], on its worker.
struct Mapper<T, U, F> {
    items: Outlet<T>,
    f: F,
    /// There until the end.
    made: Option<Inlet<U>>,
    at_once: usize,
}

impl<T, U, F: FnMut(T) -> U> Future for Mapper<T, U, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let me = &mut *self;
        for _ in turn_of(me.at_once) {
            let Some(made) = &me.made else { return Poll::Ready(()) };
            match me.items.poll_out(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Out::Item(item)) => made.push((me.f)(item)),
                Poll::Ready(Out::End) => me.made.take().into_iter().for_each(Inlet::finish),
                Poll::Ready(Out::Cut) => return Poll::Ready(()), // nobody polls the stream any more
            }
        }
        again(context)
    }
}

/// Nothing in it is pinned in place.
impl<T, U, F> Unpin for Mapper<T, U, F> {}
