//! [`StreamOn`]: runs parts of a stream on a scheduler.

use std::num::NonZero;

use futures_core::stream::Stream;

use super::publish_on::PublishOn;
use super::subscribe_on::SubscribeOn;
use crate::schedulers::Scheduler;

/// The default limit for items in progress, as in Reactor.
pub const PREFETCH: NonZero<usize> = NonZero::new(256).expect("not zero");

/// Runs parts of a stream on a scheduler. Implemented for every stream that is `Send`.
///
/// The [module documentation](super) describes how the methods fit together.
pub trait StreamOn: Stream<Item: Send + 'static> + Sized + Send + 'static {
    /// Polls this stream on a worker of `scheduler`, and delivers its items to the thread that
    /// polls the result.
    ///
    /// So a source that blocks or computes does not do so on the consumer's thread. At most
    /// [`PREFETCH`] items are fetched ahead. Then the source is not polled until three quarters of
    /// them are taken.
    ///
    /// The source is not polled before the first poll of the result. The worker is held from this
    /// call until the stream has ended or is dropped. Dropping the result drops the source at once,
    /// or after the current poll, which is interrupted.
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
    /// let next = std::future::poll_fn(|cx| Pin::new(&mut lines).poll_next(cx));
    /// let mut next = std::pin::pin!(next);
    /// while let Some(line) = reactive::block_on(next.as_mut())? {
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
        SubscribeOn::new(upstream, worker, prefetch.get())
    }

    /// Runs the consumer on a worker of `scheduler`, item by item and in order: see
    /// [`for_each`](PublishOn::for_each) and [`map_on`](PublishOn::map_on).
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

    /// As [`publish_on`](Self::publish_on), with at most `prefetch` items in progress.
    fn publish_on_buffered(
        self,
        scheduler: &(impl Scheduler + ?Sized),
        prefetch: NonZero<usize>,
    ) -> PublishOn<Self> {
        PublishOn::new(Box::pin(self), scheduler.create_worker(), prefetch.get())
    }
}

impl<S> StreamOn for S
where
    S: Stream + Send + 'static,
    S::Item: Send + 'static,
{
}
