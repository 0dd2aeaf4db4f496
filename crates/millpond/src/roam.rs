//! A worker that moves to another core.
//!
//! Who is woken often begins on the core of who woke it, though another is idle: in many virtual machines a core that has
//! nothing to do counts as taken away, and is not chosen. If then one thread submits and waits, and the other runs the task,
//! each has to wait until the other gives the core up: four microseconds for what takes half a one on two cores. The system
//! notices after ten milliseconds or more in which both were busy, and never if they sleep now and then.
//!
//! So a worker that has found task after task only by letting another thread run asks for any core but its own, and then takes
//! that back: by then it is on another core, and free to go wherever it might before. If it does not help it asks less and less
//! often. Only workers do that, of which all others sleep, never a thread of the user's; and nobody does elsewhere than on Linux.
//!
//! This file is one of the rooms with `unsafe`; its outside is safe.

use std::cell::Cell;

/// After so many tasks in a row the first try is made, and after twice as many each time that it was in vain.
const FIRST: u32 = 8;
const MOST: u32 = 1 << 14;

thread_local! {
    static SHARING: Cell<Sharing> = const { Cell::new(Sharing::NONE) };
}

/// How a thread has shared its core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sharing {
    /// So many tasks in a row came when it had let another thread run.
    tasks: u32,
    /// After so many it moves.
    patience: u32,
}

impl Sharing {
    const NONE: Sharing = Sharing { tasks: 0, patience: FIRST };

    /// Another task has come. True: it is time to move.
    fn comes(&mut self, shared: bool) -> bool {
        if !shared {
            // A core of one's own, for as long as it lasts: it pays to ask for it again.
            *self = Sharing { tasks: 0, patience: (self.patience - self.patience.div_ceil(16)).max(FIRST) };
            return false;
        }
        self.tasks += 1;
        let moves = self.tasks >= self.patience;
        if moves {
            *self = Sharing { tasks: 0, patience: (self.patience * 2).min(MOST) };
        }
        moves
    }
}

/// For a worker that has found a task: moves to another core if it is time to. `shared`: it came when others had been let run.
pub(crate) fn found_a_task(shared: bool) {
    let mut sharing = SHARING.get();
    let moves = sharing.comes(shared);
    SHARING.set(sharing);
    if moves {
        system::on_another_core(|| {});
    }
}

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod system {
    use std::ffi::{c_int, c_ulong};

    /// A bit for each of 1024 cores: as much as the system's own type has.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(transparent)]
    pub(super) struct Cores([c_ulong; 1024 / BITS]);

    const BITS: usize = c_ulong::BITS as usize;
    const THIS_THREAD: c_int = 0;

    unsafe extern "C" {
        fn sched_getcpu() -> c_int;
        fn sched_getaffinity(thread: c_int, size: usize, cores: *mut Cores) -> c_int;
        fn sched_setaffinity(thread: c_int, size: usize, cores: *const Cores) -> c_int;
    }

    impl Cores {
        const ALL: Cores = Cores([c_ulong::MAX; 1024 / BITS]);

        /// Those that the calling thread may run on.
        pub(super) fn allowed() -> Option<Cores> {
            Cores::allowed_to(THIS_THREAD)
        }

        /// Those that the first thread of the process may run on.
        pub(super) fn allowed_to_the_first() -> Option<Cores> {
            Cores::allowed_to(c_int::try_from(std::process::id()).ok()?)
        }

        fn allowed_to(thread: c_int) -> Option<Cores> {
            let mut cores = Cores([0; 1024 / BITS]);
            // SAFETY: it is the system's function of this name, and writes no more than it is told there is room for.
            let known = unsafe { sched_getaffinity(thread, size_of::<Cores>(), &raw mut cores) } == 0;
            known.then_some(cores)
        }

        /// The calling thread may run on these from now on, as far as the system lets it. False: on none of them.
        pub(super) fn allow(&self) -> bool {
            // SAFETY: it is the system's function of this name, and reads as much as it is told there is.
            unsafe { sched_setaffinity(THIS_THREAD, size_of::<Cores>(), self) == 0 }
        }

        /// These without that one. `None`: none is left.
        pub(super) fn without(mut self, core: usize) -> Option<Cores> {
            *self.0.get_mut(core / BITS)? &= !(1 << (core % BITS));
            self.0.iter().any(|word| *word != 0).then_some(self)
        }
    }

    pub(super) fn this_core() -> Option<usize> {
        // SAFETY: it is the system's function of this name, and has no arguments.
        usize::try_from(unsafe { sched_getcpu() }).ok()
    }

    /// Calls `f` on another core than this one, if there is one that the calling thread may run on; it may go back afterwards.
    pub(super) fn on_another_core(f: impl FnOnce()) -> Option<()> {
        let before = Cores::allowed()?;
        let others = before.without(this_core()?)?;
        // What a thread may use that was never told so follows what its container may use. It is to do so after this too: if it
        // was not kept from any core before it is told "all", and not "these". One that may use other cores than the first thread of
        // the process has been told, and is never allowed more, not for a moment.
        let was_told = Cores::allowed_to_the_first() != Some(before);
        let is_kept = was_told || !Cores::ALL.allow() || Cores::allowed() != Some(before);
        let whole = if is_kept { before } else { Cores::ALL };
        if others.allow() {
            f();
        }
        whole.allow().then_some(())
    }
}

#[cfg(not(all(target_os = "linux", not(loom), not(miri))))]
mod system {
    pub(super) fn on_another_core(_: impl FnOnce()) -> Option<()> {
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// How many tasks there are between two moves, if all come when others have been let run.
    fn tasks_until_it_moves(sharing: &mut Sharing) -> u32 {
        (1..).find(|_| sharing.comes(true)).expect("there is no end of tasks")
    }

    #[test]
    fn who_shares_its_core_in_vain_tries_less_and_less_often() {
        let mut sharing = Sharing::NONE;
        let tries: Vec<_> = (0..13).map(|_| tasks_until_it_moves(&mut sharing)).collect();
        assert_eq!(tries[..4], [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]);
        assert_eq!(tries[11..], [MOST; 2]);
    }

    #[test]
    fn who_has_a_core_of_its_own_stays_and_will_ask_again_soon() {
        let mut sharing = Sharing::NONE;
        for _ in 0..100 {
            assert!((1..FIRST).all(|_| !sharing.comes(true)));
            assert!(!sharing.comes(false), "they were not all in a row");
        }
        (0..8).for_each(|_| _ = tasks_until_it_moves(&mut sharing));
        (0..200).for_each(|_| assert!(!sharing.comes(false)));
        assert_eq!(tasks_until_it_moves(&mut sharing), FIRST);
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    mod on_linux {
        use super::super::system::{Cores, on_another_core, this_core};

        /// In a thread of its own, whose cores nobody else depends on.
        fn aside(f: impl FnOnce() + Send) {
            std::thread::scope(|s| s.spawn(f).join().unwrap());
        }

        #[test]
        fn it_is_on_another_core_and_may_use_the_same_as_before() {
            aside(|| {
                let before = Cores::allowed().unwrap();
                if before.without(this_core().unwrap()).is_none() {
                    return println!("SKIPPED: there is one core only");
                }
                for _ in 0..10 {
                    let mut during = None;
                    assert_eq!(on_another_core(|| during = this_core().zip(Cores::allowed())), Some(()));
                    let (core, allowed) = during.expect("it is called");
                    let is_one_of = |cores: Cores| cores.without(core) != Some(cores);
                    assert!(is_one_of(allowed) && is_one_of(before) && allowed != before);
                    assert_eq!(Cores::allowed(), Some(before));
                }
            });
        }

        #[test]
        fn who_is_kept_to_some_cores_stays_there() {
            aside(|| {
                let all = Cores::allowed().unwrap();
                let here = this_core().unwrap();
                let Some(others) = all.without(here) else {
                    return println!("SKIPPED: there is one core only");
                };
                assert!(others.allow());
                on_another_core(|| {});
                assert_eq!(Cores::allowed(), Some(others));
            });
        }
    }
}
