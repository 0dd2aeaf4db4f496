//! Futures and streams meet executors and schedulers. With the feature `futures`.
//!
//! # Futures
//!
//! [`ExecutorFutureExt::spawn_future`] runs a future on any executor, [`SchedulerFutureExt::spawn_future`] on
//! one worker of any scheduler. No runtime is needed, and any can be next door: a timer or a channel of
//! another runtime wakes the future, and the wake-up becomes a task of our executor. The other way round,
//! every [`TaskHandle`](crate::TaskHandle) can be awaited anywhere. [`block_on`] waits for a future on a
//! plain thread.
//!
//! # Streams
//!
//! In Reactor items are pushed, and `subscribeOn` and `publishOn` say on which threads. In Rust a stream is
//! pulled: it runs where it is polled. [`StreamOn`] gives the two names the meaning that they can have here:
//!
//! | method | runs on the scheduler | stays with whoever polls |
//! |---|---|---|
//! | [`subscribe_on`](StreamOn::subscribe_on) | all that came before | what follows |
//! | [`publish_on`](StreamOn::publish_on)`.map_on(f)` | `f` | what came before, and what follows |
//! | [`publish_on`](StreamOn::publish_on)`.for_each(f)` | `f`, and the stream itself | nothing |
//!
//! ```text
//! rows.subscribe_on(&blocking)         // the query blocks a thread of `blocking`
//!     .publish_on(&cpu).map_on(render) // `render` computes on a thread of `cpu`, one row after the other
//!     .for_each(|page| ...)            // of any stream library: on the runtime that awaits it
//! ```
//!
//! Each of them has one worker of its scheduler, so order is kept, and a bounded buffer, by default of
//! [`PREFETCH`] items: when the consumer is slow, the source is not polled. There are no other operators:
//! take them from the stream library of your choice.
//!
//! # How a stream ends
//!
//! * The source ends: after the last item there is `None`.
//! * Something on the scheduler panics: the items that were ready, then [`StreamError::Panicked`], then
//!   `None`. The consumer decides whether to panic on.
//! * The scheduler ends, or refuses a turn because it is full: the items that were ready, then
//!   [`StreamError::CutOff`], then `None`. It is never mistaken for the end of the source.
//! * The consumer drops the stream: the source is dropped, at once or after the poll under way, which is
//!   interrupted.

mod core;
mod delivery;
mod pipe;
mod polled;
mod publish_on;
mod spawn;
mod stream;
mod subscribe_on;
mod task;

pub use self::delivery::StreamError;
pub use self::publish_on::{MapOn, PublishOn};
pub use self::spawn::{ExecutorFutureExt, SchedulerFutureExt, block_on};
pub use self::stream::{PREFETCH, StreamOn};
pub use self::subscribe_on::SubscribeOn;
