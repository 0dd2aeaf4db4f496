//! Time: clocks, timer structures, and the thread that waits for the timers of schedulers.

pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod heap;
pub(crate) mod wheel;

pub use clock::{Clock, ManualClock};
