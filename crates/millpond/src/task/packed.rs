//! Packed tasks: the form of a task in the memory of the pool's queue, as short as possible.
//!
//! A [`Task`] has room for the largest closure that is stored in place. In a queue of a million
//! tasks most of that space would be unused. So a packed task has a head and the words of its work:
//! a closure of two words takes four words. The first word of the head is the address of the
//! closure's vtable, or a number for another kind of task. The second part is the id, which takes
//! one word, or two words of 32 bits.
//!
//! ```text
//! closure    vtable | id | the words of the closure
//! tracked    2      | id | a reference to the cell, two words
//! boxed      4      | id | a box, one word: a task with a label, or a periodic one
//! end        6                no more tasks in this segment
//! ```
//!
//! The lowest bit of the first word marks a tombstone: the task has been moved out.
//!
//! # Invariants
//!
//! 1. A [`Space`] is memory of the stated number of words, valid for writes and used by no other
//!    code.
//! 2. A [`PackedTask`] is at the start of an entry that was written through a `Space`, and no other
//!    code accesses its words. If the task was moved out, the entry is a tombstone.
//! 3. After the head of an entry is a value of the type given by the first word: the closure of a
//!    vtable, `TrackedTask` for 2, `Box<Task>` for 4.

use std::mem::ManuallyDrop;
use std::ptr;

use super::closure::{Closure, VTable, WORDS, Word, copy_words, fits};
use super::{CellRef, Task, TaskId, TaskInfo, TaskWork, Tracked, TrackedTask};

const TOMBSTONE: usize = 1;
const TRACKED: usize = 2;
const BOXED: usize = 4;
const END: usize = 6;
/// The bits of a first word that are never set in the address of a vtable.
const KIND: usize = 7;

/// The words before the work: one for the kind, and one or two for the id.
const HEAD: usize = 1 + size_of::<TaskId>().div_ceil(size_of::<Word>());
const TRACKED_WORDS: usize = size_of::<TrackedTask>() / size_of::<Word>();

/// The largest packed task, in words.
pub(crate) const LONGEST: usize = HEAD + WORDS;

const _: () = assert!(size_of::<TrackedTask>() == size_of::<CellRef<dyn Tracked>>());
const _: () = assert!(TRACKED_WORDS <= WORDS && align_of::<TrackedTask>() == align_of::<Word>());

/// Memory for one entry (1).
pub(crate) struct Space {
    start: *mut Word,
    words: usize,
}

/// The proof that an entry was written.
pub(crate) struct Packed(());

impl Space {
    /// # Safety
    /// Requires (1) for `words` words from `start` on, until the space is consumed.
    #[inline]
    pub(crate) unsafe fn new(start: *mut Word, words: usize) -> Space {
        Space { start, words }
    }

    /// Writes a head, and after it a value that takes `words` words.
    ///
    /// # Panics
    /// If the value does not fit in place, so that it could not be moved out again as a whole.
    #[inline(always)]
    fn put<V>(self, first: *const VTable, id: TaskId, words: usize, value: V) -> Packed {
        assert!(words <= WORDS, "work that does not fit has to be packed in a box");
        assert!(self.words == HEAD + words && size_of::<V>() <= words * size_of::<Word>());
        assert!(align_of::<V>() <= align_of::<Word>());
        // SAFETY: (1), and the assertions: head and value fit. The id may need more alignment.
        unsafe {
            self.start.cast::<*const VTable>().write(first);
            self.start.add(1).cast::<TaskId>().write_unaligned(id);
            self.start.add(HEAD).cast::<V>().write(value);
        }
        Packed(())
    }

    /// Packs the value of a closure, which is then spent.
    #[inline]
    fn put_closure(self, id: TaskId, mut f: Closure) -> Packed {
        let work_at = self.start.wrapping_add(HEAD);
        let (vtable, words) = f.take();
        let count = words.len();
        let (from, packed) = (words.as_ptr(), self.put(vtable, id, count, ()));
        // SAFETY: (1): `put` has checked that there are `count` words after the head. This
        // completes (3): the value has been moved out of `f`.
        unsafe { copy_words(from, work_at, count) };
        packed
    }

    /// Writes the marker for the end of a segment.
    pub(crate) fn put_end(self) -> Packed {
        assert!(self.words >= 1);
        // SAFETY: (1), for one word.
        unsafe { self.start.cast::<*const VTable>().write(ptr::without_provenance(END)) };
        Packed(())
    }
}

/// Work that becomes a task in the queue. A closure, and the executing half of a task with a
/// handle, are packed without becoming a [`Task`] first: moving a `Task` costs as much as queueing
/// it.
pub(crate) trait Pack: Sized {
    /// False if the work needs a box, and must therefore become a [`Task`] first: `pack` panics.
    const FITS: bool = true;

    /// Returns the id for the packed task. A closure returns a new id with each call.
    fn packed_id(&self) -> TaskId;

    /// Like [`Task::entered`].
    fn entered(&self, owner: u64);

    /// Returns the number of words of the entry.
    fn words(&self) -> usize;

    /// Stores the position of the task in the queue.
    fn moves_to(&self, position: u64);

    /// Writes the entry. `space` has `words()` words.
    fn pack(self, id: TaskId, space: Space) -> Packed;

    fn into_task(self) -> Task;
}

impl Pack for Task {
    #[inline]
    fn packed_id(&self) -> TaskId {
        self.id()
    }

    #[inline]
    fn entered(&self, owner: u64) {
        self.entered(owner);
    }

    fn words(&self) -> usize {
        HEAD + match &self.work {
            _ if self.info.has_label() => 1,
            TaskWork::Plain(f) => f.words(),
            TaskWork::Tracked(_) => TRACKED_WORDS,
            TaskWork::Series(..) => 1,
        }
    }

    fn moves_to(&self, position: u64) {
        self.set_place(position);
    }

    fn pack(self, id: TaskId, space: Space) -> Packed {
        match self {
            Task { info, work: TaskWork::Plain(f) } if !info.has_label() => space.put_closure(id, f),
            Task { info, work: TaskWork::Tracked(task) } if !info.has_label() => {
                ManuallyDrop::new(task).pack(id, space)
            }
            task => space.put(ptr::without_provenance(BOXED), id, 1, Box::new(task)),
        }
    }

    fn into_task(self) -> Task {
        self
    }
}

impl<F: FnOnce() + Send + 'static> Pack for F {
    const FITS: bool = fits::<F>();

    #[inline]
    fn packed_id(&self) -> TaskId {
        TaskId::fresh()
    }

    #[inline]
    fn entered(&self, _: u64) {}

    #[inline]
    fn words(&self) -> usize {
        HEAD + VTable::of::<F>().words()
    }

    #[inline]
    fn moves_to(&self, _: u64) {}

    #[inline]
    fn pack(self, id: TaskId, space: Space) -> Packed {
        let vtable = VTable::of::<F>();
        space.put(vtable, id, vtable.words(), self)
    }

    fn into_task(self) -> Task {
        Task::new(self)
    }
}

/// The executing half of a task that has a handle and no label.
///
/// It is packed or turned into a task, and never dropped, because dropping it would lose the task.
/// A value without a destructor stays in registers on this path. A value with a destructor is moved
/// through memory from call to call, because a call may unwind.
impl Pack for ManuallyDrop<TrackedTask> {
    #[inline]
    fn packed_id(&self) -> TaskId {
        self.id()
    }

    #[inline]
    fn entered(&self, owner: u64) {
        self.0.entered(owner);
    }

    #[inline]
    fn words(&self) -> usize {
        HEAD + TRACKED_WORDS
    }

    #[inline]
    fn moves_to(&self, position: u64) {
        self.0.place().set(position);
    }

    #[inline]
    fn pack(self, id: TaskId, space: Space) -> Packed {
        space.put(ptr::without_provenance(TRACKED), id, TRACKED_WORDS, ManuallyDrop::into_inner(self))
    }

    fn into_task(self) -> Task {
        ManuallyDrop::into_inner(self).into_task()
    }
}

/// An entry (2).
#[derive(Debug)]
pub(crate) struct PackedTask(*mut Word);

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Task(TaskId),
    Tombstone,
    End,
}

impl PackedTask {
    /// # Safety
    /// Requires (2) for the entry at `start`, while this value and its results are used.
    #[inline]
    pub(crate) unsafe fn new(start: *mut Word) -> PackedTask {
        PackedTask(start)
    }

    #[inline]
    fn first(&self) -> *const VTable {
        // SAFETY: (2): every entry has a first word.
        unsafe { self.0.cast::<*const VTable>().read() }
    }

    #[inline]
    fn id(&self) -> TaskId {
        // SAFETY: (2); called for tasks only, which have an id.
        unsafe { self.0.add(1).cast::<TaskId>().read_unaligned() }
    }

    #[inline]
    fn work(&self) -> *mut Word {
        self.0.wrapping_add(HEAD)
    }

    #[inline]
    pub(crate) fn entry(&self) -> Entry {
        match self.first().addr() {
            END => Entry::End,
            first if first & TOMBSTONE != 0 => Entry::Tombstone,
            _ => Entry::Task(self.id()),
        }
    }

    /// Returns the number of words of a task or tombstone.
    pub(crate) fn words(&self) -> usize {
        let first = self.first().map_addr(|first| first & !TOMBSTONE);
        HEAD + match first.addr() & KIND {
            TRACKED => TRACKED_WORDS,
            BOXED => 1,
            // SAFETY: (3): this is the address of a vtable, which lives forever.
            _ => unsafe { &*first }.words(),
        }
    }

    /// Returns the task if it is in a box. A task with attributes is in a box.
    pub(crate) fn boxed(&self) -> Option<&Task> {
        let is_boxed = self.first().addr() & (KIND | TOMBSTONE) == BOXED;
        // SAFETY: (3), and by (2) no other code moves it out while the reference lives.
        is_boxed.then(|| unsafe { &**self.work().cast::<Box<Task>>() })
    }

    /// Returns the info of the task; `None` for a tombstone.
    pub(crate) fn info(&self) -> Option<TaskInfo> {
        match self.entry() {
            Entry::Task(id) => Some(self.boxed().map_or(TaskInfo::of(id), |task| task.info().clone())),
            Entry::Tombstone | Entry::End => None,
        }
    }

    /// Moves the task out, `into` the empty place where it will run. Returns the number of words of
    /// the entry.
    ///
    /// Does not write to the entry: another core wrote its cache line, and writing to it would
    /// fetch the line a second time. So the caller either passes the entry for good, or makes it a
    /// tombstone with [`remove`](Self::remove) (2).
    #[inline]
    pub(crate) fn unpack(self, into: &mut Option<Task>) -> usize {
        debug_assert!(into.is_none() && matches!(self.entry(), Entry::Task(_)));
        let first = self.first();
        let info = TaskInfo::of(self.id());
        HEAD + match first.addr() & KIND {
            TRACKED => {
                // SAFETY: (3), and the value is not used here again.
                let task = unsafe { self.work().cast::<TrackedTask>().read() };
                *into = Some(Task { info, work: TaskWork::Tracked(task) });
                TRACKED_WORDS
            }
            BOXED => {
                // SAFETY: (3), and the value is not used here again.
                *into = Some(*unsafe { self.work().cast::<Box<Task>>().read() });
                1
            }
            _ => {
                // SAFETY: (3): this is the address of a vtable, which lives forever.
                let vtable = unsafe { &*first };
                let task = into.insert(Task { info, work: TaskWork::Plain(Closure::spent()) });
                if let TaskWork::Plain(f) = &mut task.work {
                    // SAFETY: (3), and the value is not used here again. It is moved directly to
                    // the place where it will be called.
                    unsafe { f.fill(vtable, self.work()) };
                }
                vtable.words()
            }
        }
    }

    /// Moves the task out and leaves a tombstone.
    pub(crate) fn remove(self) -> Option<Task> {
        let (mut task, start, first) = (None, self.0, self.first());
        self.unpack(&mut task);
        // SAFETY: (2), for the first word.
        unsafe { start.cast::<*const VTable>().write(first.map_addr(|first| first | TOMBSTONE)) };
        task
    }
}

impl Task {
    /// Like `*slot = None`, but shorter for most tasks that have run, because nothing is left to
    /// drop.
    #[inline]
    pub(crate) fn clear(slot: &mut Option<Task>) {
        match slot {
            Some(Task { info, work: TaskWork::Plain(f) }) if !info.has_label() && f.is_spent() => {
                std::mem::forget(slot.take()); // skips a destructor that would do nothing
            }
            _ => *slot = None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
