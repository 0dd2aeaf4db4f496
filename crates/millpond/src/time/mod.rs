//! Time: clocks, timer structures, and the alarms of schedulers.
//!
//! Each file imports only from files after it in this list: `alarm`, `clock`, `timers`, `wheel`,
//! `heap`, `tick`.

pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod heap;
mod tick;
mod timers;
pub(crate) mod wheel;

pub use clock::{Clock, ManualClock};
