//! The raw task cell: [`CellRef`], a counted reference to a cell, and [`Slot`], the place in it
//! that holds the work and later the result.
//!
//! A cell is one allocation: a header of eight bytes, directly followed by a value. `CellRef` is an
//! `Arc` with one atomic operation per task instead of four. The first two references are made
//! together, none is weak, and the last owner does not decrement the count.
//!
//! # Invariants of `CellRef`
//!
//! 1. The pointer refers to an initialised value. A [`Header`] ends where the value begins. Both
//!    are in one allocation, whose origin is recorded in the header.
//! 2. The count is the number of `CellRef`s, plus those that a queue has forgotten and whose
//!    [`Removal`] has not yet released them. The cell lives until the count is zero.
//!
//! # Invariants of `Slot`
//!
//! 3. The state in the word says which thread may access the content:
//!    - Pending: the content is the work and belongs to no thread. The thread whose exchange leaves
//!      Pending (to begin, cancel, abandon or decorate) owns the content from then on.
//!    - Held, Running, Finishing: the content belongs to the thread that made it so, even if the
//!      task is cancelled meanwhile. The canceller changes the word and never touches the content.
//!    - Succeeded, Failed: the content is the result and belongs to the holder of the
//!      [`ResultToken`]. If `DETACHED` was set before, it belongs to the runner.
//!    - Cancelled, Abandoned, Expired: the content is empty, or belongs to a runner or decorator
//!      that has not noticed yet. No other thread accesses it.
//! 4. The exchange that gives up the content is a Release; the one that obtains it is an Acquire.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::{self, ManuallyDrop};
use std::num::NonZeroU32;
use std::ops::Deref;
use std::ptr::NonNull;

use super::id::{ResultToken, TaskId};
use super::place::{Memory, Place, RefCount};
#[cfg(not(loom))]
use super::slab::{self, SlabSlot};
use super::tracked::{Attached, Erased, Joinable, Tracked};
use super::word::{Cancel, Leave, StateWord, Word};
use crate::sync::{Ordering, UnsafeCell};

/// The start of a cell.
#[repr(C, align(8))]
struct Header {
    count: RefCount,
    /// The number of the cell's slot in the slab; `None` if the cell has its own allocation.
    slab_slot: Option<NonZeroU32>,
}

const HEADER: usize = size_of::<Header>();
const _: () = assert!(align_of::<Header>() == 8 && HEADER.is_multiple_of(8));

/// Returns the layout of a cell for a value with this layout, and the offset of the value.
#[inline]
fn cell_layout(value: Layout) -> (Layout, usize) {
    let align = value.align().max(align_of::<Header>());
    let offset = HEADER.next_multiple_of(align);
    let layout = Layout::from_size_align(offset + value.size(), align);
    (layout.expect("a value that exists leaves room for a header"), offset)
}

/// A counted reference to a cell.
pub(crate) struct CellRef<V: ?Sized>(NonNull<V>);

// SAFETY: as for `Arc`: threads share access to the value, and the last one drops it.
unsafe impl<V: ?Sized + Send + Sync> Send for CellRef<V> {}
// SAFETY: as above.
unsafe impl<V: ?Sized + Send + Sync> Sync for CellRef<V> {}

/// Allocates a new cell. Returns the address of the header, and the slot if it is from the slab.
#[inline]
fn allocate(value: Layout, memory: Memory) -> (NonNull<u8>, Option<NonZeroU32>) {
    let (layout, offset) = cell_layout(value);
    #[cfg(not(loom))]
    if memory == Memory::Slab
        && let Some(slot) = slab::take(layout)
    {
        return (slot.address(), Some(slot.into_number()));
    }
    let _ = memory; // for models
    // SAFETY: the layout contains a header, so it is not empty.
    let start = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
    // SAFETY: the allocation contains the header and the padding before it, which `offset` sums up.
    (unsafe { start.byte_add(offset - HEADER) }, None)
}

impl<V> CellRef<V> {
    pub(crate) fn new(value: V) -> CellRef<V> {
        CellRef::new_in(Memory::Heap, value)
    }

    pub(crate) fn new_in(memory: Memory, value: V) -> CellRef<V> {
        CellRef(CellRef::create(1, memory, || value))
    }

    /// Creates two references to a new cell. `make` builds the value in its final place. Moving it
    /// there would read stores that are still in the store buffer, which stalls.
    #[inline]
    pub(super) fn pair(memory: Memory, make: impl FnOnce() -> V) -> (CellRef<V>, CellRef<V>) {
        let value = CellRef::create(2, memory, make);
        (CellRef(value), CellRef(value))
    }

    #[inline]
    fn create(references: u32, memory: Memory, make: impl FnOnce() -> V) -> NonNull<V> {
        let (start, slab_slot) = allocate(Layout::new::<V>(), memory);
        let header = Header { count: RefCount::new(references), slab_slot };
        // SAFETY: `allocate` returned memory for a header and a value after it, aligned for both,
        // which belongs to this thread alone. From here on (1) holds.
        unsafe {
            let value = start.byte_add(HEADER).cast::<V>();
            start.cast::<Header>().write(header);
            value.write(make());
            value
        }
    }

    pub(crate) fn into_tracked<'a>(self) -> CellRef<dyn Tracked + 'a>
    where
        V: Tracked + 'a,
    {
        CellRef(ManuallyDrop::new(self).0)
    }

    pub(crate) fn into_joinable<'a, T>(self) -> CellRef<dyn Joinable<T> + 'a>
    where
        V: Joinable<T> + 'a,
    {
        CellRef(ManuallyDrop::new(self).0)
    }
}

impl<X, W: Erased + 'static> CellRef<Attached<X, W>> {
    /// Erases the type of the work.
    pub(crate) fn erase(self) -> CellRef<Attached<X>> {
        CellRef(ManuallyDrop::new(self).0)
    }
}

impl<'a, T> CellRef<dyn Joinable<T> + 'a> {
    pub(crate) fn tracked(&self) -> CellRef<dyn Tracked + 'a> {
        CellRef(ManuallyDrop::new(self.clone()).0)
    }
}

impl<V: ?Sized> CellRef<V> {
    #[inline]
    fn header(&self) -> NonNull<Header> {
        // SAFETY: by (1) the header is in the same allocation, right before the value.
        unsafe { self.0.cast::<Header>().byte_sub(HEADER) }
    }

    /// Returns a reference to the count alone: see [`RefCount`].
    #[inline]
    fn count(&self) -> &RefCount {
        // SAFETY: by (1) a header is there, and by (2) it lives as long as this reference.
        unsafe { &(*self.header().as_ptr()).count }
    }

    /// Returns true if `place` lies inside this cell.
    #[inline]
    pub(super) fn contains(&self, place: &Place) -> bool {
        let offset = std::ptr::from_ref(place).addr().wrapping_sub(self.0.addr().get());
        offset < size_of_val(&**self)
    }

    /// Describes the task at `place`, which was cancelled through this reference, to its queue.
    #[inline]
    pub(super) fn removal<'a>(&'a self, id: TaskId, place: &'a Place) -> Removal<'a> {
        Removal { id, place, count: self.contains(place).then(|| self.count()) }
    }
}

impl<V: ?Sized> Deref for CellRef<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: by (1) and (2) the value is initialised and lives as long as this reference. A
        // `CellRef` gives exclusive access only when it is the last.
        unsafe { self.0.as_ref() }
    }
}

impl<V: ?Sized> Clone for CellRef<V> {
    fn clone(&self) -> Self {
        self.count().add();
        CellRef(self.0)
    }
}

impl<V: ?Sized> Drop for CellRef<V> {
    #[inline]
    fn drop(&mut self) {
        if !self.count().release() {
            return;
        }
        let (layout, offset) = cell_layout(Layout::for_value(&**self));
        // SAFETY: (1) and (2): this was the last reference, and the cell still exists. The header
        // follows the padding, which `offset` includes.
        let memory = unsafe {
            let slab_slot = self.header().as_ref().slab_slot;
            CellMemory { slab_slot, start: self.header().byte_sub(offset - HEADER).cast(), layout }
        };
        // SAFETY: by (2) no other reference exists, and this one does not use the value again.
        unsafe { self.0.drop_in_place() };
        drop(memory);
    }
}

/// Frees the memory of a cell, even if the destructor of the value panics.
struct CellMemory {
    slab_slot: Option<NonZeroU32>,
    start: NonNull<u8>,
    layout: Layout,
}

impl Drop for CellMemory {
    #[inline]
    fn drop(&mut self) {
        match self.slab_slot {
            #[cfg(not(loom))]
            // SAFETY: the header names the slot that `allocate` took for this cell, and the value
            // in it has been dropped.
            Some(number) => slab::give_back(unsafe { SlabSlot::from_number(number, self.start) }),
            // SAFETY: `allocate` got the memory from the allocator, with this layout: size and
            // alignment of the value have not changed. It is no longer in use.
            _ => unsafe { dealloc(self.start.as_ptr(), self.layout) },
        }
    }
}

/// A waiting task that was cancelled, for the queue that removes it.
#[derive(Clone, Copy)]
pub(crate) struct Removal<'a> {
    id: TaskId,
    place: &'a Place,
    /// The count of the cell that contains `place`.
    count: Option<&'a RefCount>,
}

impl<'a> Removal<'a> {
    /// Creates a removal for a queue that takes its entry out and drops it.
    pub(crate) fn new(id: TaskId, place: &'a Place) -> Self {
        Removal { id, place, count: None }
    }

    pub(crate) fn id(self) -> TaskId {
        self.id
    }

    #[inline]
    pub(crate) fn place(self) -> &'a Place {
        self.place
    }

    /// Returns true if the queue may forget its entry instead of dropping it, and then call
    /// [`release_forgotten`](Self::release_forgotten).
    #[inline]
    pub(crate) fn may_forget(self) -> bool {
        self.count.is_some()
    }

    /// Releases the reference of an entry that the queue has forgotten without touching it.
    ///
    /// # Safety
    /// 1. The entry held a `CellRef` to the cell that contains `place`.
    /// 2. The entry is never used or dropped, and this is called once for it.
    #[inline]
    pub(crate) unsafe fn release_forgotten(self) {
        if let Some(count) = self.count {
            count.release_shared(); // the canceller has another reference
        }
    }
}

/// The work of a task and later its result. Fields in the order of first use: see `TaskCell`.
#[repr(C)]
pub(super) struct Slot<W, R> {
    id: TaskId,
    word: StateWord,
    /// Not dropped with the slot: the word shows whether anything is left, without reading the
    /// content. See `clear`.
    content: ManuallyDrop<UnsafeCell<Content<W, R>>>,
}

enum Content<W, R> {
    Work(W),
    Result(R),
    Empty,
}

// SAFETY: threads that share a slot move work and result through it, one at a time by (3) and (4).
// No thread gets a shared reference to the content, so `Send` is enough.
unsafe impl<W: Send, R: Send> Sync for Slot<W, R> {}

/// The content, owned by (3).
struct Owned<'a, W, R>(&'a Slot<W, R>);

impl<'a, W, R> Owned<'a, W, R> {
    /// # Safety
    /// By (3) the content belongs to the calling thread, which obtained it by an Acquire (4). The
    /// thread does not use this value after it has given the content up.
    #[inline]
    unsafe fn new(slot: &'a Slot<W, R>) -> Self {
        Owned(slot)
    }

    #[inline]
    fn with<T>(&mut self, access: impl FnOnce(&mut Content<W, R>) -> T) -> T {
        // SAFETY: by the contract of `new` no other thread accesses the content now.
        self.0.content.with_mut(|content| access(unsafe { &mut *content }))
    }

    #[inline]
    fn take_work(&mut self) -> W {
        match self.with(|content| mem::replace(content, Content::Empty)) {
            Content::Work(work) => work,
            _ => unreachable!("a pending task has its work"),
        }
    }

    #[inline]
    fn take_result(&mut self) -> Option<R> {
        match self.with(|content| mem::replace(content, Content::Empty)) {
            Content::Result(result) => Some(result),
            _ => None,
        }
    }

    #[inline]
    fn put(&mut self, new: Content<W, R>) {
        self.with(|content| *content = new);
    }
}

/// The result of a cancel.
pub(super) enum Cancelled<W> {
    /// The task was already done.
    No,
    /// The task had not begun. Contains its work.
    Unstarted(W, Word),
    /// The work is elsewhere: the task is running, or a decorator has the work.
    Started(Word),
}

/// See [`StateWord`] for the transitions that these methods make.
impl<W, R> Slot<W, R> {
    /// Creates a slot with work. `detached` means that no handle will take the result.
    #[inline(always)]
    pub(super) fn new(id: TaskId, work: W, detached: bool) -> Self {
        let content = ManuallyDrop::new(UnsafeCell::new(Content::Work(work)));
        Slot { id, word: StateWord::pending(detached), content }
    }

    pub(super) fn id(&self) -> TaskId {
        self.id
    }

    #[inline]
    pub(super) fn load(&self) -> Word {
        self.word.load()
    }

    #[inline]
    pub(super) fn owner(&self, order: Ordering) -> u64 {
        self.word.owner(order)
    }

    #[inline]
    pub(super) fn set_owner(&self, owner: u64) {
        self.word.set_owner(owner);
    }

    pub(super) fn announce_waiter(&self) -> bool {
        self.word.announce_waiter()
    }

    /// Drops the content. Called before the slot is dropped, unless nothing is left.
    pub(super) fn clear(&mut self) {
        let empty = ManuallyDrop::new(UnsafeCell::new(Content::Empty));
        drop(ManuallyDrop::into_inner(mem::replace(&mut self.content, empty)));
    }

    /// Takes the work, to run it. Returns `None` if the task is not pending.
    #[inline]
    pub(super) fn begin(&self) -> Option<(W, Running<'_, W, R>)> {
        let (work, owned, _) = self.leave_pending(Leave::Run)?;
        Some((work, Running(owned)))
    }

    /// Takes the work, to replace it. Returns `None` if the task is not pending.
    pub(super) fn hold(&self) -> Option<(W, HeldWork<'_, W, R>)> {
        let (work, owned, _) = self.leave_pending(Leave::Hold)?;
        Some((work, HeldWork(owned)))
    }

    /// Ends a task that has not begun and returns its work. `None` if it has begun or ended.
    pub(super) fn abandon(&self) -> Option<(W, Word)> {
        let (work, _, seen) = self.leave_pending(Leave::Abandon)?;
        Some((work, seen))
    }

    #[inline]
    fn leave_pending(&self, to: Leave) -> Option<(W, Owned<'_, W, R>, Word)> {
        let seen = self.word.leave_pending(to)?;
        // SAFETY: (3): this thread left Pending, and (4) with an Acquire.
        let mut owned = unsafe { Owned::new(self) };
        Some((owned.take_work(), owned, seen))
    }

    pub(super) fn cancel(&self) -> Cancelled<W> {
        match self.word.cancel() {
            Cancel::TooLate => Cancelled::No,
            Cancel::Started(seen) => Cancelled::Started(seen),
            Cancel::Pending(seen) => {
                // SAFETY: (3): this thread left Pending, and (4) with an Acquire.
                let mut owned = unsafe { Owned::new(self) };
                Cancelled::Unstarted(owned.take_work(), seen)
            }
        }
    }

    #[inline]
    pub(super) fn take(&self, token: &mut ResultToken) -> Option<R> {
        self.take_from(self.word.load(), token)
    }

    /// Gives up the token. Returns the result if there is one; otherwise the runner will own it.
    pub(super) fn detach(&self, token: &mut ResultToken) -> Option<R> {
        self.take_from(self.word.detach(), token)
    }

    /// Takes the result if it belongs to the token, according to the word `seen` by an Acquire.
    #[inline]
    fn take_from(&self, seen: Word, token: &mut ResultToken) -> Option<R> {
        assert_eq!(token.id(), self.id, "a token is good for its own task");
        if !seen.has_result_for_handle() {
            return None;
        }
        // SAFETY: (3): the result belongs to the token, which is the only one of this task and
        // borrowed exclusively. (4): `seen` comes from an Acquire.
        unsafe { Owned::new(self) }.take_result()
    }
}

/// The content of a task that is being decorated.
pub(super) struct HeldWork<'a, W, R>(Owned<'a, W, R>);

impl<W, R> HeldWork<'_, W, R> {
    /// Makes the task pending again, with this work. Returns the work if the task was cancelled.
    pub(super) fn put_back(self, work: W) -> Option<W> {
        let HeldWork(mut owned) = self;
        owned.put(Content::Work(work));
        let is_pending = owned.0.word.put_back();
        // If the task was cancelled, the content still belongs to this thread by (3).
        (!is_pending).then(|| owned.take_work())
    }
}

/// The content of a task that runs.
pub(super) struct Running<'a, W, R>(Owned<'a, W, R>);

impl<'a, W, R> Running<'a, W, R> {
    /// Returns `None` if the task was cancelled meanwhile.
    #[inline]
    pub(super) fn finish(self) -> Option<Finishing<'a, W, R>> {
        self.0.0.word.finish().then_some(Finishing(self.0))
    }
}

/// The content of a task that has run, with the right to publish the outcome.
pub(super) struct Finishing<'a, W, R>(Owned<'a, W, R>);

impl<W, R> Finishing<'_, W, R> {
    /// Ends the task with this result. Returns the result if no handle will take it.
    #[inline]
    pub(super) fn end(self, succeeded: bool, result: R) -> (Option<R>, Word) {
        let Finishing(mut owned) = self;
        owned.put(Content::Result(result));
        let seen = owned.0.word.end(succeeded);
        if !seen.is_detached() {
            return (None, seen);
        }
        (owned.take_result(), seen) // (3): the handle has left the result to the runner
    }

    pub(super) fn expire(self) -> Word {
        self.0.0.word.expire()
    }

    pub(super) fn put_back(self, work: W) {
        let Finishing(mut owned) = self;
        owned.put(Content::Work(work));
        owned.0.word.repeat();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
