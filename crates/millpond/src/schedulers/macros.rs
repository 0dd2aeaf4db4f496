//! The methods that many types of this folder have in common, written once.

/// Expands to the three scheduling methods of [`Scheduler`](super::Scheduler) and
/// [`Lane`](super::Lane). `|it, order| expression` says what each does with its
/// [`Order`](super::work::Order).
macro_rules! scheduling_methods {
    (|$it:ident, $order:ident| $submit:expr) => {
        fn schedule_task(
            &self,
            task: $crate::task::Task,
        ) -> Result<$crate::schedulers::Disposable, $crate::executor::Rejected> {
            let ($it, $order) = (self, $crate::schedulers::work::Order::Now(task));
            $submit
        }

        fn schedule_task_after(
            &self,
            delay: ::std::time::Duration,
            task: $crate::task::Task,
        ) -> Result<$crate::schedulers::Disposable, $crate::executor::Rejected> {
            let ($it, $order) = (self, $crate::schedulers::work::Order::After(delay, task));
            $submit
        }

        fn schedule_periodically_task(
            &self,
            initial: ::std::time::Duration,
            period: ::std::time::Duration,
            task: $crate::schedulers::PeriodicTask,
        ) -> Result<$crate::schedulers::Disposable, $crate::executor::Rejected> {
            let order = $crate::schedulers::work::Order::Periodic(initial, period, task);
            let ($it, $order) = (self, order);
            $submit
        }
    };
}

/// Implements [`Scheduler`](super::Scheduler) by the scheduler that `|it| expression` names.
macro_rules! forward_scheduler {
    ([$($generics:tt)*] $type:ty, |$it:ident| $inner:expr) => {
        impl<$($generics)*> $crate::schedulers::Scheduler for $type {
            scheduling_methods!(|$it, order| $crate::schedulers::scheduler::forward(&$inner, order));

            fn create_worker(&self) -> $crate::schedulers::Worker {
                let $it = self;
                $crate::schedulers::Scheduler::create_worker(&$inner)
            }

            fn dispose(&self) {
                let $it = self;
                $crate::schedulers::Scheduler::dispose(&$inner);
            }

            fn dispose_gracefully(
                &self,
                timeout: ::std::time::Duration,
            ) -> Result<bool, $crate::interrupt::Interrupted> {
                let $it = self;
                $crate::schedulers::Scheduler::dispose_gracefully(&$inner, timeout)
            }

            fn disposal(&self) -> ::std::pin::Pin<Box<dyn ::std::future::Future<Output = ()> + Send>> {
                let $it = self;
                $crate::schedulers::Scheduler::disposal(&$inner)
            }

            fn is_disposed(&self) -> bool {
                let $it = self;
                $crate::schedulers::Scheduler::is_disposed(&$inner)
            }

            fn stats(&self) -> $crate::schedulers::SchedulerStats {
                let $it = self;
                $crate::schedulers::Scheduler::stats(&$inner)
            }
        }
    };
}
