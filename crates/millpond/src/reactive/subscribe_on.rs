//! [`SubscribeOn`]: a stream whose source is polled on a scheduler.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::stream::{FusedStream, Stream};

use super::delivery::{Delivery, StreamError, again, turn_of};
use super::pipe::{Inlet, pipe};
use crate::schedulers::Worker;

/// A stream whose source is polled on a scheduler. Created by
/// [`StreamOn::subscribe_on`](super::StreamOn::subscribe_on).
///
/// Its items are `Ok`, in order. If the source panics, or the scheduler rejects it or ends, one
/// [`StreamError`] follows the items that were already fetched. Then the stream ends.
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
    pub(super) fn new(upstream: Pin<Box<S>>, worker: Worker, prefetch: usize) -> Self {
        SubscribeOn { stage: Stage::Ahead { upstream, worker, prefetch } }
    }

    fn start(&mut self) -> Result<(), StreamError> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Ahead { upstream, worker, prefetch } => {
                let (inlet, outlet) = pipe(prefetch);
                let pump = Pump { upstream: Some(upstream), inlet: Some(inlet), prefetch };
                self.stage = Stage::Going(Delivery::start(worker, pump, outlet)?);
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

/// No field is structurally pinned: the source is boxed.
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

/// Polls a source while the pipe has space for its items.
struct Pump<S: Stream> {
    /// Present until the source has ended.
    upstream: Option<Pin<Box<S>>>,
    inlet: Option<Inlet<S::Item>>,
    /// Also the largest number of items per turn.
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

/// No field is structurally pinned.
impl<S: Stream> Unpin for Pump<S> {}
