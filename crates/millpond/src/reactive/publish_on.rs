//! [`PublishOn`] and [`MapOn`]: consumers of a stream that run on a scheduler.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::stream::{FusedStream, Stream};

use super::delivery::{Delivery, StreamError, again, turn_of};
use super::pipe::{Inlet, Out, Outlet, pipe};
use super::spawn::spawn_on_worker;
use crate::executor::Rejected;
use crate::schedulers::Worker;
use crate::task::TaskHandle;

/// A stream that continues on a worker of a scheduler. Created by
/// [`StreamOn::publish_on`](super::StreamOn::publish_on).
///
/// It is not a stream itself, because a stream runs where it is polled.
/// [`for_each`](Self::for_each) and [`map_on`](Self::map_on) define the code that runs on the
/// worker.
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
    pub(super) fn new(upstream: Pin<Box<S>>, worker: Worker, prefetch: usize) -> Self {
        PublishOn { upstream, worker, prefetch }
    }

    /// Consumes the stream on the scheduler: calls `f` with every item, one after the other. Starts
    /// now and does not block.
    ///
    /// The handle is done when the stream has ended. It receives a panic of `f` or of the stream.
    /// Cancelling the handle drops both, after the current item. If the scheduler ends first, the
    /// handle is abandoned. The stream is polled on the worker too; call
    /// [`subscribe_on`](super::StreamOn::subscribe_on) first if its source has to run elsewhere.
    /// After `prefetch` items, other work on the same thread gets its turn.
    ///
    /// # Errors
    /// Returns [`Rejected`] if the scheduler has ended or is full.
    pub fn for_each<F>(self, f: F) -> Result<TaskHandle<()>, Rejected>
    where
        F: FnMut(S::Item) + Send + 'static,
    {
        spawn_on_worker(self.worker, ForEach { upstream: self.upstream, f, at_once: self.prefetch })
    }

    /// Returns a stream of the results of `f`. `f` runs on the scheduler, one item at a time, in
    /// order.
    ///
    /// The source is polled where the result is polled, like the part before `publishOn` in
    /// Reactor. Its items are passed to the worker, and the results are passed back. At most
    /// `prefetch` items are waiting for `f`, being processed, or waiting to be taken.
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

/// No field is structurally pinned.
impl<S, F> Unpin for ForEach<S, F> {}

/// A stream of the results of a closure that runs on a scheduler. Created by [`PublishOn::map_on`].
///
/// Its items are `Ok`, in order. If the closure panics, or the scheduler rejects it or ends, one
/// [`StreamError`] follows the finished items, and the stream ends. Items in progress are then
/// lost. A panic of the source propagates to the thread that polls.
#[must_use = "streams do nothing unless they are polled"]
pub struct MapOn<S: Stream, U, F> {
    /// Present until the source has ended.
    upstream: Option<Pin<Box<S>>>,
    prefetch: usize,
    /// Items passed to the closure whose results have not been taken yet. At most `prefetch`, so
    /// neither pipe overflows.
    under_way: usize,
    mapping: Mapping<S::Item, U, F>,
}

enum Mapping<T, U, F> {
    /// Not yet polled.
    Ahead(Worker, F),
    Going {
        delivery: Delivery<U>,
        /// Present until the source has ended.
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
                let delivery = Delivery::start(worker, mapper, outlet)?;
                self.mapping = Mapping::Going { delivery, inlet: Some(inlet) };
            }
            mapping => self.mapping = mapping,
        }
        Ok(())
    }

    /// Passes items to the closure while items are ready and fewer than `prefetch` are in progress.
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
                    // Finish the inlet first, so that the closure sees the end even if the
                    // destructor of the source panics.
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

/// No field is structurally pinned: the source is boxed, and the closure is only called.
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
    /// Present until the end.
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
                Poll::Ready(Out::Cut) => return Poll::Ready(()), // the stream is dropped
            }
        }
        again(context)
    }
}

/// No field is structurally pinned.
impl<T, U, F> Unpin for Mapper<T, U, F> {}
