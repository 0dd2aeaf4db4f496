//! Processor time, affinity and timer slack of this process. Linux only: elsewhere nothing is known
//! and nothing is set.

use std::time::Duration;

/// Processor time used so far.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime {
    /// Of all threads of this process, including those that have ended.
    pub process: Duration,
    /// Of the calling thread.
    pub thread: Duration,
}

impl CpuTime {
    /// The time used since `before`. Both must be taken on the same thread.
    pub fn since(self, before: CpuTime) -> CpuTime {
        CpuTime { process: self.process - before.process, thread: self.thread - before.thread }
    }

    /// The time used by all threads but the calling one.
    pub fn of_others(self) -> Duration {
        self.process.saturating_sub(self.thread)
    }
}

pub use imp::{FineTimers, cpu_time, restrict_to};

#[cfg(target_os = "linux")]
mod imp {
    use std::time::Duration;

    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::sys::prctl;
    use nix::time::{ClockId, clock_gettime};
    use nix::unistd::Pid;

    use super::CpuTime;

    /// `None` if the system does not report it.
    pub fn cpu_time() -> Option<CpuTime> {
        let of = |clock| clock_gettime(clock).ok().map(Duration::from);
        Some(CpuTime {
            process: of(ClockId::CLOCK_PROCESS_CPUTIME_ID)?,
            thread: of(ClockId::CLOCK_THREAD_CPUTIME_ID)?,
        })
    }

    /// Restricts the calling thread, and all threads and processes it starts later, to the first
    /// `cores` of the processors that it may use.
    ///
    /// # Errors
    /// There are not that many, or the system refuses.
    pub fn restrict_to(cores: usize) -> Result<(), String> {
        let this = Pid::from_raw(0);
        let problem = |error| format!("the affinity cannot be set: {error}");
        let allowed = sched_getaffinity(this).map_err(problem)?;
        let usable = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false));
        let chosen: Vec<usize> = usable.take(cores).collect();
        if chosen.len() < cores {
            return Err(format!("there are {} processors, not {cores}", chosen.len()));
        }
        let mut set = CpuSet::new();
        chosen.into_iter().try_for_each(|core| set.set(core)).map_err(problem)?;
        sched_setaffinity(this, &set).map_err(problem)
    }

    /// Sleeps of the calling thread end on time while this value lives, instead of up to 50 µs
    /// late.
    #[derive(Debug)]
    pub struct FineTimers(());

    impl FineTimers {
        /// Threads started by this one inherit the setting, so start them before.
        pub fn set() -> FineTimers {
            // A refusal only makes the producer less punctual.
            _ = prctl::set_timerslack(1);
            FineTimers(())
        }
    }

    impl Drop for FineTimers {
        fn drop(&mut self) {
            // 0 restores the default.
            _ = prctl::set_timerslack(0);
        }
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(missing_docs)]
mod imp {
    pub fn cpu_time() -> Option<super::CpuTime> {
        None
    }

    pub fn restrict_to(_cores: usize) -> Result<(), String> {
        Err("the affinity can only be set on Linux".into())
    }

    #[derive(Debug)]
    pub struct FineTimers(());

    impl FineTimers {
        pub fn set() -> FineTimers {
            FineTimers(())
        }
    }
}
