//! Time: clocks, timer structures, and the alarms of schedulers.
//!
//! Files import downwards in this order: `alarm`, `clock`, `timers`, `wheel`, `heap`, `tick`.

pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod heap;
mod tick;
mod timers;
pub(crate) mod wheel;

pub use clock::{Clock, ManualClock};
