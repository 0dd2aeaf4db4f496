//! Marks the public types as unwind safe: a panic cannot break their invariants.
//!
//! User code runs while the library holds no lock, and its panics are caught where they occur. So
//! no panic leaves a pool, a handle or a queue in an inconsistent state. The compiler cannot infer
//! that, because these types contain cells, closures and hooks. As with [`std::sync::mpsc`] and
//! [`std::thread::JoinHandle`], this holds for values of any type inside.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::executors::{SingleScheduledExecutor, SingleThreadExecutor};
use crate::interrupt::{Interrupter, Registration};
use crate::queue::{
    ArrayBlockingQueue, DelayQueue, LinkedBlockingQueue, PriorityBlockingQueue, SynchronousQueue,
};
use crate::{
    CancelOnDrop, Canceller, Clock, ExecutorCompletionService, JoinError, ManualClock, Panic, PeriodicTask,
    PoolRef, Rejected, ScheduledHandle, ScheduledPoolRef, ScheduledThreadPoolExecutor, ScopedTaskHandle,
    ShutdownReport, SubmitAsync, Task, TaskHandle, TaskOf, ThreadPoolExecutor, WorkQueue,
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
    SubmitAsync<T>, Rejected, Panic, JoinError, ShutdownReport, Interrupter, Registration, Clock, ManualClock,
    ArrayBlockingQueue<T>, LinkedBlockingQueue<T>, SynchronousQueue<T>, PriorityBlockingQueue<T>,
    DelayQueue<T>,
}

impl<T> UnwindSafe for ScopedTaskHandle<'_, T> {}
impl<T> RefUnwindSafe for ScopedTaskHandle<'_, T> {}
