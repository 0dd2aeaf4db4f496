//! Tests of the reference-counted cell and of the slot. Miri runs them too.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Cancelled, CellRef, Memory, Removal, Slot};
use crate::task::cell::{Pair, TaskCell, new_cell, new_timer_cell};
use crate::task::{Place, ResultToken, TaskId, TaskState};

/// Counts the drops of the captures of a closure.
struct Seen(Arc<AtomicUsize>);

impl Drop for Seen {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[repr(align(64))]
struct Wide(u8);

/// Checks all operations on references, for cells in any memory.
fn check<T: Send + 'static>(make: impl FnOnce(Seen) -> Pair<T>) {
    let drops = Arc::new(AtomicUsize::new(0));
    let (handle, task) = make(Seen(Arc::clone(&drops)));
    assert_eq!(handle.id(), task.id());
    assert!(task.contains(task.place()) && !task.contains(&Place::new()));
    let (again, third) = (handle.clone(), handle.tracked());
    drop((handle, task));
    assert_eq!((again.state(), third.state()), (TaskState::Pending, TaskState::Pending));
    drop(again);
    let last = third.clone();
    drop(third);
    assert_eq!((last.state(), drops.load(Ordering::Relaxed)), (TaskState::Pending, 0));
    drop(last);
    assert_eq!(drops.load(Ordering::Relaxed), 1, "the last owner drops it");
}

fn slab_slot<V: ?Sized>(cell: &CellRef<V>) -> Option<std::num::NonZeroU32> {
    // SAFETY: (1): the header is there as long as `cell` is.
    unsafe { cell.header().as_ref() }.slab_slot
}

#[test]
fn only_the_last_owner_drops_the_value() {
    check(|seen| new_cell(TaskId::fresh(), move || drop(seen)));
}

#[test]
fn a_timer_lies_in_the_slab_if_it_fits() {
    check(|seen| {
        let (handle, task) = new_timer_cell(TaskId::fresh(), move || drop(seen));
        assert!(slab_slot(&handle).is_some());
        (handle, task)
    });
    check(|seen| {
        let large = [0_u64; 40];
        let (handle, task) = new_timer_cell(TaskId::fresh(), move || drop((seen, large)));
        assert!(slab_slot(&handle).is_none());
        (handle, task)
    });
}

#[test]
fn a_value_with_a_large_alignment_is_aligned() {
    for memory in [Memory::Heap, Memory::Slab] {
        let wide = Wide(7);
        check(|seen| {
            let work = move || {
                let _keep = (&wide, &seen); // captured whole
                wide.0
            };
            let (handle, task) = CellRef::pair(memory, || TaskCell::new(TaskId::fresh(), work, false));
            assert!(handle.0.addr().get().is_multiple_of(64) && slab_slot(&handle).is_none());
            (handle.into_joinable(), task.into_tracked())
        });
    }
}

#[test]
fn the_memory_of_a_cell_is_freed_although_a_destructor_panics() {
    struct Loud {
        _seen: Seen,
    }
    impl Drop for Loud {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("loud"));
        }
    }
    type Make = fn(Loud) -> Pair<()>;
    let makes: [Make; 2] = [
        |loud| new_cell(TaskId::fresh(), move || drop(loud)),
        |loud| new_timer_cell(TaskId::fresh(), move || drop(loud)),
    ];
    for make in makes {
        let drops = Arc::new(AtomicUsize::new(0));
        let pair = make(Loud { _seen: Seen(Arc::clone(&drops)) });
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(pair)));
        // It does not matter here whether the panic propagates. It matters that nothing is left.
        drop(dropped);
        assert_eq!((drops.load(Ordering::Relaxed), Arc::strong_count(&drops)), (1, 1));
    }
}

// A handle is shared: one thread creates references from it while another cancels through it.
#[test]
fn references_made_while_a_forgotten_one_is_released_count() {
    const MADE: usize = if cfg!(miri) { 3 } else { 100 };
    for _ in 0..if cfg!(miri) { 20 } else { 500 } {
        let drops = Arc::new(AtomicUsize::new(0));
        let seen = Seen(Arc::clone(&drops));
        let (handle, queued) = new_timer_cell::<()>(TaskId::fresh(), move || drop(seen));
        let begun = AtomicUsize::new(0);
        let make = || {
            begun.store(1, Ordering::Relaxed);
            handle.tracked()
        };
        let mut made = thread::scope(|scope| {
            let made = scope.spawn(|| (0..MADE).map(|_| make()).collect::<Vec<_>>());
            let queued = ManuallyDrop::new(queued);
            while begun.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
            let removal = handle.removal(handle.id(), queued.place());
            assert!(removal.may_forget());
            // SAFETY: 1. `queued` refers to this cell. 2. It is not used or dropped after this.
            unsafe { removal.release_forgotten() };
            made.join().unwrap()
        });
        drop(handle);
        let last = made.pop().expect("some were made");
        drop(made);
        assert_eq!((last.state(), drops.load(Ordering::Relaxed)), (TaskState::Pending, 0));
        drop(last);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_place_outside_of_the_cell_cannot_be_forgotten() {
    let (handle, _task) = new_timer_cell::<()>(TaskId::fresh(), || ());
    let (other, _other_task) = new_timer_cell::<()>(TaskId::fresh(), || ());
    assert!(!handle.removal(other.id(), other.place()).may_forget());
    assert!(!Removal::new(handle.id(), handle.place()).may_forget());
}

#[test]
fn owners_that_leave_at_the_same_time_drop_the_value_once() {
    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
        let drops = Arc::new(AtomicUsize::new(0));
        let seen = Seen(Arc::clone(&drops));
        let (handle, task) = new_cell(TaskId::fresh(), move || drop(seen));
        let third = handle.tracked();
        thread::scope(|scope| {
            scope.spawn(move || drop(task));
            scope.spawn(move || drop(third.clone()));
            drop(handle);
        });
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }
}

/// Instances are counted by their references.
type Thing = Arc<()>;

/// A slot that is cleared on drop.
struct Cleared(Slot<Thing, Thing>);

impl std::ops::Deref for Cleared {
    type Target = Slot<Thing, Thing>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.clear();
    }
}

fn slot(work: &Thing) -> (Cleared, ResultToken) {
    let token = ResultToken::fresh();
    (Cleared(Slot::new(token.id(), Arc::clone(work), false)), token)
}

/// Runs a runner, a canceller, and a holder of the token that waits for the result or gives it up.
fn round(thing: &Thing, waits: bool) {
    let (slot, mut token) = slot(thing);
    let (ran, cancelled, taken) = thread::scope(|s| {
        let runner = s.spawn(|| {
            let (work, running) = slot.begin()?;
            let (unwanted, _) = running.finish()?.end(true, work);
            Some(unwanted)
        });
        let canceller = s.spawn(|| !matches!(slot.cancel(), Cancelled::No));
        let joiner = s.spawn(|| {
            while waits && !slot.load().is_done() {
                thread::yield_now();
            }
            if waits { slot.take(&mut token) } else { slot.detach(&mut token) }
        });
        (runner.join().unwrap(), canceller.join().unwrap(), joiner.join().unwrap())
    });
    assert!(slot.load().is_done());
    assert_eq!(ran.is_some(), !cancelled, "one of them decides");
    assert_eq!(ran.flatten().is_some() as usize + taken.is_some() as usize, usize::from(!cancelled));
    drop((slot, taken));
    assert_eq!(Arc::strong_count(thing), 1, "nothing is kept, and nothing dropped twice");
}

#[test]
fn exactly_one_thread_gets_the_result() {
    const ROUNDS: usize = if cfg!(miri) { 10 } else { 500 };
    let thing = Thing::default();
    for waits in [true, false] {
        (0..ROUNDS).for_each(|_| round(&thing, waits));
    }
}

#[test]
fn held_work_is_not_there_until_it_is_put_back() {
    let thing = Thing::default();
    let (slot, _token) = slot(&thing);
    let (work, held) = slot.hold().unwrap();
    assert_eq!(slot.load().state(), TaskState::Pending);
    assert!(slot.begin().is_none() && slot.hold().is_none() && slot.abandon().is_none());
    assert!(held.put_back(work).is_none());
    let (work, held) = slot.hold().unwrap();
    assert!(matches!(slot.cancel(), Cancelled::Started(_)));
    assert!(held.put_back(work).is_some());
    assert_eq!(slot.load().state(), TaskState::Cancelled);
    assert_eq!(Arc::strong_count(&thing), 1);
}

#[test]
fn periodic_work_comes_back_and_the_waiter_stays() {
    let thing = Thing::default();
    let (slot, mut token) = slot(&thing);
    assert!(slot.announce_waiter());
    for _ in 0..2 {
        let (work, running) = slot.begin().unwrap();
        running.finish().unwrap().put_back(work);
        assert_eq!(slot.load().state(), TaskState::Pending);
    }
    let (work, running) = slot.begin().unwrap();
    let (unwanted, seen) = running.finish().unwrap().end(false, work);
    assert!(unwanted.is_none() && seen.is_waited_for());
    assert!(!slot.announce_waiter(), "too late");
    assert!(slot.take(&mut token).is_some() && slot.take(&mut token).is_none());
    assert_eq!(slot.load().state(), TaskState::Failed);
}

#[test]
fn the_runner_of_a_detached_task_gets_the_result() {
    let thing = Thing::default();
    let slot = Cleared(Slot::new(TaskId::fresh(), Arc::clone(&thing), true));
    let (work, running) = slot.begin().unwrap();
    assert!(running.finish().unwrap().end(true, work).0.is_some());
}

#[test]
#[should_panic(expected = "a token is good for its own task")]
fn a_token_of_another_task_is_refused() {
    let thing = Thing::default();
    let ((slot, _token), (_other_slot, mut other)) = (slot(&thing), slot(&thing));
    let (work, running) = slot.begin().unwrap();
    running.finish().unwrap().end(true, work);
    slot.take(&mut other);
}
