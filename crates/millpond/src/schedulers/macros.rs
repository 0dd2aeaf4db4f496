//! Macros for methods that many types of this folder have in common.

/// Expands to the three scheduling methods of [`Scheduler`](super::Scheduler) and
/// [`Lane`](super::Lane). `|it, delay, work| expression` is their common body; `work` is a
/// [`Submission`](super::work::Submission). With `jobs` it also defines `schedule_job`.
macro_rules! scheduling_methods {
    (jobs |$it:ident, $delay:ident, $work:ident| $submit:expr) => {
        scheduling_methods!(|$it, $delay, $work| $submit);

        fn schedule_job(
            &self,
            job: $crate::schedulers::work::NewJob<'_>,
        ) -> Option<Result<$crate::schedulers::Disposable, $crate::executor::Rejected>> {
            let ($it, $delay) = (self, job.delay());
            let $work = job.make();
            Some($submit)
        }
    };
    (|$it:ident, $delay:ident, $work:ident| $submit:expr) => {
        fn schedule_task(
            &self,
            task: $crate::task::Task,
        ) -> Result<$crate::schedulers::Disposable, $crate::executor::Rejected> {
            let ($it, $delay, $work) = (self, ::std::time::Duration::ZERO, task);
            $submit
        }

        fn schedule_task_after(
            &self,
            delay: ::std::time::Duration,
            task: $crate::task::Task,
        ) -> Result<$crate::schedulers::Disposable, $crate::executor::Rejected> {
            let ($it, $delay, $work) = (self, delay, task);
            $submit
        }

        fn schedule_periodically_task(
            &self,
            initial: ::std::time::Duration,
            period: ::std::time::Duration,
            task: $crate::schedulers::PeriodicTask,
        ) -> Result<$crate::schedulers::Disposable, $crate::executor::Rejected> {
            let ($it, $delay, $work) = (self, initial, (period, task));
            $submit
        }
    };
}

/// Expands to all scheduling methods of [`Scheduler`](super::Scheduler), forwarded to the scheduler
/// that `|it| expression` returns.
macro_rules! forward_scheduling {
    (|$it:ident| $inner:expr) => {
        fn schedule_task(
            &self,
            task: $crate::task::Task,
        ) -> Result<$crate::schedulers::Disposable, $crate::executor::Rejected> {
            let $it = self;
            $crate::schedulers::Scheduler::schedule_task($inner, task)
        }

        fn schedule_task_after(
            &self,
            delay: ::std::time::Duration,
            task: $crate::task::Task,
        ) -> Result<$crate::schedulers::Disposable, $crate::executor::Rejected> {
            let $it = self;
            $crate::schedulers::Scheduler::schedule_task_after($inner, delay, task)
        }

        fn schedule_periodically_task(
            &self,
            initial: ::std::time::Duration,
            period: ::std::time::Duration,
            task: $crate::schedulers::PeriodicTask,
        ) -> Result<$crate::schedulers::Disposable, $crate::executor::Rejected> {
            let $it = self;
            $crate::schedulers::Scheduler::schedule_periodically_task($inner, initial, period, task)
        }

        fn schedule_job(
            &self,
            job: $crate::schedulers::work::NewJob<'_>,
        ) -> Option<Result<$crate::schedulers::Disposable, $crate::executor::Rejected>> {
            let $it = self;
            $crate::schedulers::Scheduler::schedule_job($inner, job)
        }
    };
}

/// Implements [`Scheduler`](super::Scheduler) by forwarding to the scheduler that `|it| expression`
/// returns.
macro_rules! forward_scheduler {
    ([$($generics:tt)*] $type:ty, |$it:ident| $inner:expr) => {
        impl<$($generics)*> $crate::schedulers::Scheduler for $type {
            forward_scheduling!(|$it| &$inner);

            fn scheduler_id(&self) -> Option<$crate::schedulers::scheduler::SchedulerId> {
                let $it = self;
                $crate::schedulers::Scheduler::scheduler_id(&$inner)
            }

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

            fn pool_ref(&self) -> Option<$crate::monitor::PoolRef> {
                let $it = self;
                $crate::schedulers::Scheduler::pool_ref(&$inner)
            }
        }
    };
}
