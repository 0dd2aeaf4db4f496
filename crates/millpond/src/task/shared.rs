//! [`Shared`]: a counted reference to the state that a task shares with its handle.
//!
//! It is an `Arc` with fewer exchanges on the way of a task. One that is submitted, run and joined costs an `Arc` four of them:
//! a second reference, two that are given up, and the weak one that all strong ones have together. Here both references are
//! made at once, nobody has a weak one, and who finds itself the last owner need not say so to anybody: that leaves one.
//! Joining a thousand tasks takes a quarter less time, cancelling a thousand timers a tenth.
//!
//! Some states need weak references, as those of futures do, or more alignment than a count. They come in an `Arc`, and the
//! lowest bit of the address tells which it is: it is set if the value lies in a [`CountedCell`].
//!
//! This file is one of the rooms with `unsafe`; its outside is safe.

#[cfg(not(loom))]
use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::ptr::NonNull;

use super::cell::{Cancelled, Core, Joinable, Place, Tracked, Work};
#[cfg(not(loom))]
use super::slab;
use crate::sync::{Arc, AtomicU32, Ordering, fence};
use crate::task::TaskId;

/// How many references there are.
///
/// An owner gives its reference up with a Release, and the last one learns that it is the last by an
/// Acquire, so it sees what all others did before. An owner that reads "one" is alone and stays so:
/// a new reference is made of an existing one, and that is its own. Model:
/// `loom_tests::handle::who_gives_up_the_last_reference_sees_what_all_did`.
pub(crate) struct RefCount {
    number: AtomicU32,
}

/// Before a counted value.
#[repr(align(8))] // so that values that are aligned to a word can lie right behind it
pub(crate) struct CellHeader {
    pub(crate) count: RefCount,
    /// Where the memory is from.
    note: u32,
}

impl CellHeader {
    pub(crate) fn two(note: u32) -> CellHeader {
        CellHeader { count: RefCount { number: AtomicU32::new(2) }, note }
    }

    #[inline]
    pub(crate) fn note(&self) -> u32 {
        self.note
    }
}

/// The last owner may free the memory while another one is still in a method here, behind its last
/// access. That is allowed because a reference to a `RefCount` covers nothing but an atomic; a
/// reference to the whole `CellHeader` would promise that the memory stays until the method returns.
impl RefCount {
    /// Far below the overflow, so that threads that pass it at the same time still abort.
    const MOST: u32 = u32::MAX / 2;

    pub(crate) fn one_more(&self) {
        // Relaxed: the caller has a reference, and nothing depends on the order of the two.
        if self.number.fetch_add(1, Ordering::Relaxed) > Self::MOST {
            std::process::abort(); // as with an `Arc`: there is nothing else that would be sound
        }
    }

    /// Gives up one of at least two references that the caller owns.
    #[inline]
    pub(crate) fn one_less_of_two(&self) {
        let before = self.number.fetch_sub(1, Ordering::Release);
        debug_assert!(before >= 2, "the caller keeps another one");
    }

    /// True: there is none any more.
    #[inline]
    pub(crate) fn one_less(&self) -> bool {
        // The last owner need not say so to anybody, which saves an exchange.
        if self.number.load(Ordering::Acquire) == 1 {
            return true;
        }
        if self.number.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire); // the others gave up theirs between the two steps
        true
    }
}

/// A value with the number of its owners before it.
#[repr(C)]
struct CountedCell<V: ?Sized> {
    owners: CellHeader,
    value: V,
}

/// The value is so far behind the number: right behind it, for it needs no more alignment than that.
const VALUE: usize = size_of::<CellHeader>();
/// Set in the address of a value in a [`CountedCell`].
const COUNTED: usize = 1;
/// The note of a value that lies in a box. No spot has this number.
const BOXED: u32 = 0;

/// A reference that counts.
pub(crate) struct Shared<V: ?Sized>(NonNull<V>);

// SAFETY: it gives shared references to the value to the threads that have it, and the last of them drops the value: as an
// `Arc`, it asks for both.
unsafe impl<V: ?Sized + Send + Sync> Send for Shared<V> {}
// SAFETY: as above; who has a reference to it can make another one.
unsafe impl<V: ?Sized + Send + Sync> Sync for Shared<V> {}

/// Two references to the state of a new task: for the handle and for the task.
///
/// The state is made where it will lie. To make it first and to move it there would read it in other pieces than it was written
/// in, while it is still on its way to the cache: that takes as long as all else here.
#[inline]
pub(crate) fn halves<T, W>(id: TaskId, work: W) -> (Shared<dyn Joinable<T>>, Shared<dyn Tracked>)
where
    T: Send + 'static,
    W: Work<T> + 'static,
{
    // In models too: there each step of the number would be tried in all orders, in models that are about something else.
    if cfg!(loom) || align_of::<Core<T, W>>() > align_of::<CellHeader>() {
        let value = Arc::new(Core::new(id, work));
        return (
            Shared::from(Arc::clone(&value) as Arc<dyn Joinable<T>>),
            Shared::from(value as Arc<dyn Tracked>),
        );
    }
    let mut place = Box::<CountedCell<Core<T, W>>>::new_uninit();
    place.write(CountedCell { owners: CellHeader::two(BOXED), value: Core::new(id, work) });
    let counted: *mut CountedCell<Core<T, W>> = Box::into_raw(place).cast();
    // SAFETY: it has just been made, with two owners.
    unsafe { owned_twice(counted) }
}

/// As [`halves`], for a task that is to wait for its time: in memory that is meant for many of those.
#[inline]
pub(crate) fn halves_of_timer<T, W>(id: TaskId, work: W) -> (Shared<dyn Joinable<T>>, Shared<dyn Tracked>)
where
    T: Send + 'static,
    W: Work<T> + 'static,
{
    #[cfg(not(loom))]
    if align_of::<Core<T, W>>() <= align_of::<CellHeader>()
        && let Some(spot) = slab::take(Layout::new::<CountedCell<Core<T, W>>>())
    {
        let counted: *mut CountedCell<Core<T, W>> = spot.address.as_ptr().cast();
        // SAFETY: the spot is ours and large enough, and aligned to more than we need.
        unsafe {
            counted
                .write(CountedCell { owners: CellHeader::two(spot.number.get()), value: Core::new(id, work) })
        };
        // SAFETY: it has just been made, with two owners.
        return unsafe { owned_twice(counted) };
    }
    halves(id, work)
}

/// The two references that a new value has.
///
/// # Safety
/// The value has just been made, with two owners, in a box or in the spot that its note tells.
#[inline]
unsafe fn owned_twice<T, V>(counted: *mut CountedCell<V>) -> (Shared<dyn Joinable<T>>, Shared<dyn Tracked>)
where
    V: Joinable<T> + 'static,
{
    // SAFETY: it is there.
    let value: *mut V = unsafe { &raw mut (*counted).value };
    debug_assert_eq!(value.addr() - counted.addr(), VALUE);
    let value = value.wrapping_byte_add(COUNTED); // the bit is free: a value behind a number is aligned as that
    // SAFETY: next to a value there is no null.
    let value = unsafe { NonNull::new_unchecked(value) };
    (Shared(value), Shared(value))
}

/// Drops a value and gives its memory back.
///
/// # Safety
/// It has no owner any more.
#[inline]
unsafe fn dispose<V: ?Sized>(counted: *mut CountedCell<V>) {
    // SAFETY: it is still there.
    let note = unsafe { (*counted).owners.note() };
    let Some(_number) = NonZeroU32::new(note) else {
        // SAFETY: the note says that it came out of a box, and nobody else has the address.
        return drop(unsafe { Box::from_raw(counted) });
    };
    #[cfg(not(loom))]
    {
        let spot = GiveBack(_number, counted.cast());
        // SAFETY: nobody else has the address, and we forget it.
        unsafe { std::ptr::drop_in_place(counted) };
        spot.now();
    }
}

/// Gives a spot back, also if the destructor of what lay there panics.
#[cfg(not(loom))]
struct GiveBack(NonZeroU32, *mut u8);

#[cfg(not(loom))]
impl GiveBack {
    /// The usual way, on which nothing panics.
    #[inline]
    fn now(self) {
        let GiveBack(number, address) = *ManuallyDrop::new(self);
        // SAFETY: the number is that of a spot whose value has been dropped, and whose address nobody has.
        unsafe { slab::give_back(number, address) };
    }
}

#[cfg(not(loom))]
impl Drop for GiveBack {
    #[cold]
    fn drop(&mut self) {
        GiveBack(self.0, self.1).now();
    }
}

impl<V: ?Sized> From<Arc<V>> for Shared<V> {
    fn from(value: Arc<V>) -> Self {
        assert!(align_of_val(&*value) > COUNTED, "the lowest bit of the address is needed");
        // SAFETY: the address of a value is not null.
        Shared(unsafe { NonNull::new_unchecked(Arc::into_raw(value).cast_mut()) })
    }
}

impl<V: ?Sized> Shared<V> {
    /// The address of the value.
    #[inline]
    fn value(&self) -> *mut V {
        let address = self.0.as_ptr();
        address.wrapping_byte_sub(address.addr() & COUNTED)
    }

    /// Where the value and its number lie, if there is a number.
    #[inline]
    fn counted(&self) -> Option<*mut CountedCell<V>> {
        let is_counted = self.0.as_ptr().addr() & COUNTED != 0;
        is_counted.then(|| self.value().wrapping_byte_sub(VALUE) as *mut CountedCell<V>)
    }
}

/// A reference to the state of a task that the task's queue has leaked.
///
/// A queue that holds many timers takes one out without touching it, and so cannot drop its
/// reference. It hands out this instead, and `Shared::cancel` gives the reference up.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the reference that it stands for is never given up without it"]
pub(crate) struct LeakedRef(TaskId);

impl LeakedRef {
    /// # Safety
    /// 1. A [`Shared`] to the state of the task `id` has been leaked: it is never used or dropped.
    /// 2. No other `LeakedRef` stands for it.
    pub(crate) unsafe fn new(id: TaskId) -> LeakedRef {
        LeakedRef(id)
    }
}

/// A task that was cancelled while it waited, for the queue that is to remove it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Removal<'a> {
    id: TaskId,
    place: &'a Place,
    may_leak: bool,
}

impl<'a> Removal<'a> {
    /// The queue takes its entry out and drops it.
    pub(crate) fn new(id: TaskId, place: &'a Place) -> Self {
        Removal { id, place, may_leak: false }
    }

    /// The queue may leak its entry instead, and hand out a [`LeakedRef`].
    ///
    /// # Safety
    /// `id` and `place` belong to one state. A queue sets `place` only for an entry that holds a
    /// [`Shared`] to this state.
    #[inline]
    pub(crate) unsafe fn may_leak(id: TaskId, place: &'a Place) -> Self {
        Removal { id, place, may_leak: true }
    }

    #[inline]
    pub(crate) fn id(self) -> TaskId {
        self.id
    }

    #[inline]
    pub(crate) fn place(self) -> &'a Place {
        self.place
    }

    /// Tells whether a reference to the state may be leaked, as is told at [`may_leak`](Self::may_leak).
    #[inline]
    pub(crate) fn is_leakable(self) -> bool {
        self.may_leak
    }
}

impl<V: Tracked + ?Sized> Shared<V> {
    /// Cancels the task. True: this call did it.
    #[inline]
    pub(crate) fn cancel(&self, may_interrupt: bool) -> bool {
        match self.try_cancel(may_interrupt) {
            Cancelled::No => false,
            Cancelled::Yes => true,
            Cancelled::Leaked(leaked) => {
                self.give_up_leaked(leaked);
                true
            }
        }
    }

    #[inline]
    fn give_up_leaked(&self, leaked: LeakedRef) {
        assert!(leaked.0 == self.id(), "a reference to another task");
        match self.counted() {
            // SAFETY: we are an owner, so the number is there. Ids are unique, so the leaked reference
            // is one to this state, and by the contract of `LeakedRef::new` it is counted and nobody
            // else gives it up. Ours stays, so at least one is left.
            Some(counted) => unsafe { (*counted).owners.count.one_less_of_two() },
            // SAFETY: as above; both references are from `Arc::into_raw`.
            None => unsafe { Arc::decrement_strong_count(self.value()) },
        }
    }
}

impl<V: ?Sized> Deref for Shared<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: the value is there as long as it has an owner, and we are one.
        unsafe { &*self.value() }
    }
}

impl<V: ?Sized> Clone for Shared<V> {
    fn clone(&self) -> Self {
        match self.counted() {
            // SAFETY: we are an owner, so the number is there.
            Some(counted) => unsafe { (*counted).owners.count.one_more() },
            // SAFETY: the address is from `Arc::into_raw`, and the reference that it was made of is ours.
            None => unsafe { Arc::increment_strong_count(self.value()) },
        }
        Shared(self.0)
    }
}

impl<V: ?Sized> Drop for Shared<V> {
    #[inline]
    fn drop(&mut self) {
        match self.counted() {
            // SAFETY: we are an owner, so the number is there until we have counted down. If that says that there is no other
            // owner, nobody else has the address.
            Some(counted) => unsafe {
                if (*counted).owners.count.one_less() {
                    dispose(counted);
                }
            },
            // SAFETY: the address is from `Arc::into_raw`, and the reference that it was made of is ours.
            None => drop(unsafe { Arc::from_raw(self.value()) }),
        }
    }
}

impl<T> Shared<dyn Joinable<T>> {
    /// Another reference, as the executor sees it.
    pub(crate) fn tracked(&self) -> Shared<dyn Tracked> {
        // The one that is made does not end here: it goes on under the other name.
        let another = ManuallyDrop::new(self.clone());
        Shared(another.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::task::TaskState;

    /// Counts the drops of what a closure captured.
    struct Seen(Arc<AtomicUsize>);

    impl Drop for Seen {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[repr(align(64))]
    struct Wide(u8);

    /// Checks all that can be done with the references, whichever way the value is held.
    fn check<T: Send + 'static>(make: impl FnOnce(Seen) -> (Shared<dyn Joinable<T>>, Shared<dyn Tracked>)) {
        let drops = Arc::new(AtomicUsize::new(0));
        let (handle, task) = make(Seen(Arc::clone(&drops)));
        assert_eq!(handle.id(), task.id());
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

    #[test]
    fn the_last_owner_drops_the_value_and_no_other() {
        check(|seen| halves(TaskId::fresh(), move || drop(seen)));
    }

    #[test]
    fn the_last_owner_of_a_timer_drops_it_too() {
        check(|seen| {
            let (handle, task) = halves_of_timer(TaskId::fresh(), move || drop(seen));
            // SAFETY: there are owners.
            let note = handle.counted().map(|counted| unsafe { (*counted).owners.note() });
            assert!(note.is_some_and(|note| note != BOXED), "it has a place of its own");
            (handle, task)
        });
        check(|seen| halves_of_timer(TaskId::fresh(), move || drop((seen, [0_u64; 40]))));
        let wide = Wide(7);
        check(|seen| halves_of_timer(TaskId::fresh(), move || drop((seen, wide.0))));
    }

    #[test]
    fn all_that_a_timer_captured_is_gone_also_if_a_destructor_panics() {
        struct Loud {
            _seen: Seen,
        }
        impl Drop for Loud {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new("loud"));
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let loud = Loud { _seen: Seen(Arc::clone(&drops)) };
        let halves = halves_of_timer(TaskId::fresh(), move || drop(loud));
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(halves)));
        // Whether it is kept quiet on the way does not matter here, but that all of it is gone.
        drop(dropped);
        assert_eq!((drops.load(Ordering::Relaxed), Arc::strong_count(&drops)), (1, 1));
    }

    // A handle is shared: one thread makes references of it while another cancels by it.
    #[test]
    fn references_that_are_made_of_a_handle_while_it_cancels_count() {
        const MADE: usize = if cfg!(miri) { 3 } else { 100 };
        for _ in 0..if cfg!(miri) { 20 } else { 500 } {
            let drops = Arc::new(AtomicUsize::new(0));
            let seen = Seen(Arc::clone(&drops));
            let (handle, queued) = halves_of_timer::<(), _>(TaskId::fresh(), move || drop(seen));
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
                // SAFETY: 1. `queued` is never dropped, nor used after this. 2. This is done once.
                handle.give_up_leaked(unsafe { LeakedRef::new(queued.id()) });
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
    #[should_panic(expected = "a reference to another task")]
    fn a_leaked_reference_to_another_task_is_refused() {
        let (handle, _task) = halves_of_timer::<(), _>(TaskId::fresh(), || ());
        let (_other, leaked) = halves_of_timer::<(), _>(TaskId::fresh(), || ());
        let leaked = ManuallyDrop::new(leaked);
        // SAFETY: 1. `leaked` is never dropped, nor used after this. 2. This is done once.
        handle.give_up_leaked(unsafe { LeakedRef::new(leaked.id()) });
    }

    #[test]
    fn a_value_that_is_aligned_to_more_than_a_number_is_held_as_well() {
        let wide = Wide(7);
        check(move |seen| {
            let (handle, task) = halves(TaskId::fresh(), move || {
                let _keep = (&wide, &seen);
                wide.0
            });
            assert!(handle.counted().is_none() && handle.value().addr().is_multiple_of(64));
            (handle, task)
        });
    }

    #[test]
    fn what_is_in_an_arc_can_have_weak_references_too() {
        let drops = Arc::new(AtomicUsize::new(0));
        let seen = Seen(Arc::clone(&drops));
        let arc = Arc::new(Core::new(TaskId::fresh(), move || drop(seen)));
        let weak = Arc::downgrade(&arc);
        let shared: Shared<dyn Tracked> = Shared::from(arc as Arc<dyn Tracked>);
        let other = shared.clone();
        drop(shared);
        assert!(weak.upgrade().is_some());
        drop(other);
        assert!(weak.upgrade().is_none());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn owners_that_give_up_at_once_drop_the_value_once() {
        for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
            let drops = Arc::new(AtomicUsize::new(0));
            let seen = Seen(Arc::clone(&drops));
            let (handle, task) = halves(TaskId::fresh(), move || drop(seen));
            let third = handle.tracked();
            thread::scope(|scope| {
                scope.spawn(move || drop(task));
                scope.spawn(move || drop(third.clone()));
                drop(handle);
            });
            assert_eq!(drops.load(Ordering::Relaxed), 1);
        }
    }
}
