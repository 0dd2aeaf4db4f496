//! Which types may be used after a panic was caught: all whose state a panic cannot break.
//!
//! User code runs while none of our locks is held, and its panics are caught where they happen, so no
//! panic leaves a pool, a handle or a queue in a state that was not meant. The compiler cannot see that,
//! for they contain cells, closures and hooks. As with [`std::sync::mpsc`] and [`std::thread::JoinHandle`]
//! it does not depend on the values inside, which pass from hand to hand.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::executors::{SingleScheduledExecutor, SingleThreadExecutor};
use crate::interrupt::{Interrupter, Registration};
use crate::queue::{
    ArrayBlockingQueue, DelayQueue, LinkedBlockingQueue, PriorityBlockingQueue, SynchronousQueue,
};
use crate::{
    CancelOnDrop, Canceller, Clock, ExecutorCompletionService, JoinError, ManualClock, Panic, PeriodicTask,
    PoolRef, Rejected, ScheduledHandle, ScheduledPoolRef, ScheduledThreadPoolExecutor, ShutdownReport, Task,
    TaskHandle, TaskOf, ThreadPoolExecutor, WorkQueue,
};

macro_rules! unwind_safe {
    ($($type:ident $(<$param:ident $(: $bound:path)?>)?,)*) => {$(
        impl $(<$param $(: $bound)?>)? UnwindSafe for $type $(<$param>)? {}
        impl $(<$param $(: $bound)?>)? RefUnwindSafe for $type $(<$param>)? {}
    )*};
}

unwind_safe! {
    ThreadPoolExecutor, PoolRef, SingleThreadExecutor, ScheduledThreadPoolExecutor, ScheduledPoolRef,
    SingleScheduledExecutor, ExecutorCompletionService<T>, WorkQueue,
    Task, TaskOf<T>, PeriodicTask, TaskHandle<T>, ScheduledHandle<T>, CancelOnDrop<T>, Canceller,
    Rejected, Panic, JoinError, ShutdownReport, Interrupter, Registration, Clock, ManualClock,
    ArrayBlockingQueue<T>, LinkedBlockingQueue<T>, SynchronousQueue<T>, PriorityBlockingQueue<T>,
    DelayQueue<T>,
}
