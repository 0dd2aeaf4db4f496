//! Futures and streams on executors and schedulers. Requires the feature `futures`.
//!
//! # Futures
//!
//! [`ExecutorFutureExt::spawn_future`] runs a future on any executor, and
//! [`SchedulerFutureExt::spawn_future`] on one worker of any scheduler. They need no async runtime
//! and work together with any: a timer or a channel of another runtime wakes the future, and the
//! wake-up becomes a task of the executor. In the other direction, every
//! [`TaskHandle`](crate::TaskHandle) can be awaited anywhere. [`block_on`] waits for a future on a
//! plain thread.
//!
//! # Streams
//!
//! In Reactor, items are pushed, and `subscribeOn` and `publishOn` select the threads. In Rust, a
//! stream is pulled: it runs where it is polled. [`StreamOn`] gives the two names the corresponding
//! meaning:
//!
//! | method | runs on the scheduler | stays on the polling thread |
//! |---|---|---|
//! | [`subscribe_on`](StreamOn::subscribe_on) | everything before | everything after |
//! | [`publish_on`](StreamOn::publish_on)`.map_on(f)` | `f` | everything before and after |
//! | [`publish_on`](StreamOn::publish_on)`.for_each(f)` | `f`, and the stream itself | nothing |
//!
//! ```text
//! rows.subscribe_on(&blocking)         // the query blocks a thread of `blocking`
//!     .publish_on(&cpu).map_on(render) // `render` computes on a thread of `cpu`, row by row
//!     .for_each(|page| ...)            // of any stream library: on the runtime that awaits it
//! ```
//!
//! Each operator has one worker of its scheduler, so items stay in order. Each has a bounded buffer
//! of [`PREFETCH`] items by default; while the consumer is slow, the source is not polled. There
//! are no other operators. Use those of any stream library.
//!
//! # How a stream ends
//!
//! * The source ends: the last item, then `None`.
//! * Code on the scheduler panics: the finished items, then [`StreamError::Panicked`], then `None`.
//!   The consumer decides whether to propagate the panic.
//! * The scheduler rejects the work at the first poll: [`StreamError::Refused`], then `None`.
//! * The scheduler ends, or rejects a later task because it is full: the finished items, then
//!   [`StreamError::CutOff`], then `None`. So the consumer can distinguish this from the end of the
//!   source.
//! * The consumer drops the stream: the source is dropped, at once or after the current poll, which
//!   is interrupted.

mod block_on;
mod core;
mod delivery;
mod pipe;
mod polled;
mod publish_on;
mod spawn;
mod stream;
mod subscribe_on;
mod task;
mod waiter;

pub use self::block_on::block_on;
pub use self::delivery::StreamError;
pub use self::publish_on::{MapOn, PublishOn};
pub use self::spawn::{ExecutorFutureExt, SchedulerFutureExt};
pub use self::stream::{PREFETCH, StreamOn};
pub use self::subscribe_on::SubscribeOn;
