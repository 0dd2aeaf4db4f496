//! A task as a run of words, as short as it can be: how it lies in the pool's queue.
//!
//! A [`Task`] on the stack has room for the largest closure that is kept in place. In a queue of a million most would be empty, so
//! there a task takes a head of two words and what its work needs: a closure of two words lies in four. The first word
//! tells what comes: the address of the closure's verbs, or none, with the kind in its lowest bits. The second is the id; if
//! words have 32 bits it takes two. A task that has a name, a priority, a due time or a series goes in a box. This file
//! is one of the rooms with `unsafe`.
//!
//! ```text
//! plain    verbs | id | the closure's words
//! tracked  2     | id | the shared state, two words
//! boxed    4     | id | the box, one word
//! end      6                 no more tasks in this run of memory
//! ```
//!
//! The lowest bit is set in a hole: what lay there has been taken out.

use std::mem::ManuallyDrop;
use std::ptr;

use super::closure::{Closure, VTable, WORDS, Word, fits};
use super::{CellRef, Task, TaskId, TaskInfo, TaskWork, Tracked, TrackedTask};

const HOLE: usize = 1;
const TRACKED: usize = 2;
const BOXED: usize = 4;
const END: usize = 6;
const BITS: usize = 7;

/// The words before the work: two, or three where the id takes two of them.
const HEAD: usize = 1 + size_of::<TaskId>().div_ceil(size_of::<Word>());
const TRACKED_WORDS: usize = size_of::<TrackedTask>() / size_of::<Word>();

/// The most words that a packed task takes.
pub(crate) const LONGEST: usize = HEAD + WORDS;

/// Memory for packed tasks: a place in a run of words. Copying it copies the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedTask(*mut Word);

/// What lies at a [`PackedTask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Task(TaskId),
    Hole,
    End,
}

/// What can be packed.
///
/// # Safety
/// `pack` writes no more than `words` words.
pub(crate) unsafe trait Pack {
    /// The words that it takes when packed.
    fn words(&self) -> usize;

    /// It will lie at this place of a queue.
    fn goes_to(&self, place: u64);

    /// Packs it.
    ///
    /// # Safety
    /// `words()` words from there on are valid for writes, and nobody else touches them.
    unsafe fn pack(self, to: PackedTask);
}

// SAFETY: the three kinds take what `words` says.
unsafe impl Pack for Task {
    fn words(&self) -> usize {
        HEAD + match &self.work {
            _ if self.info.has_label() => 1,
            TaskWork::Plain(f) => f.verbs.words,
            TaskWork::Tracked(_) => TRACKED_WORDS,
            TaskWork::Series(..) => 1,
        }
    }

    fn goes_to(&self, place: u64) {
        self.set_place(place);
    }

    unsafe fn pack(self, to: PackedTask) {
        // SAFETY: the caller says so.
        unsafe { to.pack(self) }
    }
}

/// A closure that is to become a task, on its shortest way into a queue: as a [`Task`] it would be moved once more.
pub(crate) struct Bare<F> {
    id: TaskId,
    f: F,
}

impl<F: FnOnce() + Send + 'static> Bare<F> {
    /// Gives `f` back if it does not fit into a queue without a box.
    #[inline]
    pub(crate) fn new(f: F) -> Result<Self, F> {
        if fits::<F>() { Ok(Bare { id: TaskId::fresh(), f }) } else { Err(f) }
    }

    pub(crate) fn id(&self) -> TaskId {
        self.id
    }

    pub(crate) fn into_inner(self) -> F {
        self.f
    }
}

// SAFETY: the closure takes the words that its verbs say.
unsafe impl<F: FnOnce() + Send + 'static> Pack for Bare<F> {
    #[inline]
    fn words(&self) -> usize {
        HEAD + VTable::of::<F>().words
    }

    #[inline]
    fn goes_to(&self, _: u64) {}

    #[inline]
    unsafe fn pack(self, to: PackedTask) {
        // SAFETY: the caller says that there is room, and `new` has seen that F is aligned to a word.
        unsafe {
            to.0.add(HEAD).cast::<F>().write(self.f);
            to.pack_head(VTable::of::<F>(), self.id);
        }
    }
}

impl TrackedTask {
    /// Packs what every task with a handle has: one without a label is nothing more.
    ///
    /// # Safety
    /// As [`Pack::pack`].
    #[inline]
    unsafe fn pack_with(self, id: TaskId, to: PackedTask) {
        // SAFETY: the caller says that there is room; a `TrackedTask` is aligned to a word.
        unsafe {
            to.0.add(HEAD).cast::<TrackedTask>().write(self);
            to.pack_head(ptr::without_provenance(TRACKED), id);
        }
    }
}

/// The executing half of a task that has a handle and no label, on its shortest way into a queue.
///
/// It is packed or made a task of, and not dropped: the task would be lost. What need not be dropped stays in registers on that
/// way. What must be, should anything unwind, is moved in memory from call to call, and each move waits for the one before.
#[must_use]
pub(crate) struct Half {
    id: TaskId,
    task: ManuallyDrop<TrackedTask>,
}

impl Half {
    #[inline]
    pub(super) fn new(id: TaskId, task: TrackedTask) -> Half {
        Half { id, task: ManuallyDrop::new(task) }
    }

    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        self.id
    }

    /// As [`Task::entered`].
    #[inline]
    pub(crate) fn entered(&self, home: u64) {
        self.task.0.entered(home);
    }

    pub(crate) fn into_task(self) -> Task {
        Task { info: TaskInfo::of(self.id), work: TaskWork::Tracked(ManuallyDrop::into_inner(self.task)) }
    }
}

// SAFETY: it takes the words of a tracked task.
unsafe impl Pack for Half {
    #[inline]
    fn words(&self) -> usize {
        HEAD + TRACKED_WORDS
    }

    #[inline]
    fn goes_to(&self, place: u64) {
        self.task.0.place().set(place);
    }

    #[inline]
    unsafe fn pack(self, to: PackedTask) {
        // SAFETY: the caller says so.
        unsafe { ManuallyDrop::into_inner(self.task).pack_with(self.id, to) }
    }
}

impl PackedTask {
    pub(crate) fn new(words: *mut Word) -> Self {
        PackedTask(words)
    }

    /// # Safety
    /// As [`Pack::pack`].
    unsafe fn pack(self, task: Task) {
        let Task { info, work } = task;
        let id = info.id();
        let work_at = self.0.wrapping_add(HEAD);
        let first = match work {
            TaskWork::Plain(f) if !info.has_label() => {
                let f = ManuallyDrop::new(f);
                // SAFETY: the closure lies in the first `verbs.words` words of `f`, which is not dropped: it is
                // moved. The caller says that there is room for as many.
                unsafe { copy_words(f.words.as_ptr(), work_at, f.verbs.words) };
                ptr::from_ref(f.verbs)
            }
            TaskWork::Tracked(task) if !info.has_label() => {
                // SAFETY: the caller says so.
                return unsafe { task.pack_with(id, self) };
            }
            work => {
                let task = Box::new(Task { info, work });
                // SAFETY: as before, for one word.
                unsafe { work_at.cast::<Box<Task>>().write(task) };
                ptr::without_provenance(BOXED)
            }
        };
        // SAFETY: as before, for the head.
        unsafe { self.pack_head(first, id) }
    }

    /// # Safety
    /// The words of the head are valid for writes, and nobody else touches them.
    #[inline]
    unsafe fn pack_head(self, first: *const VTable, id: TaskId) {
        // SAFETY: the caller says so.
        unsafe {
            self.0.cast::<*const VTable>().write(first);
            self.0.add(1).cast::<TaskId>().write_unaligned(id); // it may be aligned to more than a word
        }
    }

    /// Marks the end of a run of memory.
    ///
    /// # Safety
    /// One word here is valid for writes, and nobody else touches it.
    pub(crate) unsafe fn pack_end(self) {
        // SAFETY: the caller says so.
        unsafe { self.0.cast::<*const VTable>().write(ptr::without_provenance(END)) }
    }

    /// The first word.
    ///
    /// # Safety
    /// Something was packed here, and nobody writes to it meanwhile.
    unsafe fn first(self) -> *const VTable {
        // SAFETY: the caller says that `pack` or `pack_end` has written a first word here.
        unsafe { self.0.cast::<*const VTable>().read() }
    }

    /// What lies here.
    ///
    /// # Safety
    /// Something was packed here, and nobody writes to it meanwhile.
    pub(crate) unsafe fn lies(self) -> Entry {
        // SAFETY: the caller says so. What is neither an end nor a hole has a second word, its id.
        unsafe {
            let first = self.first().addr();
            match first {
                END => Entry::End,
                _ if first & HOLE != 0 => Entry::Hole,
                _ => Entry::Task(self.0.add(1).cast::<TaskId>().read_unaligned()),
            }
        }
    }

    /// The words of what lies here, a task or a hole.
    ///
    /// # Safety
    /// A task was packed here, and nobody writes to it meanwhile.
    pub(crate) unsafe fn words(self) -> usize {
        // SAFETY: the caller says so. Without bits of another kind the address is that of the verbs, which live for ever.
        unsafe {
            let first = self.first().map_addr(|first| first & !HOLE);
            HEAD + match first.addr() & BITS {
                TRACKED => TRACKED_WORDS,
                BOXED => 1,
                _ => (*first).words,
            }
        }
    }

    /// Makes a hole of a task that was moved out.
    ///
    /// # Safety
    /// A task was packed here, and nobody else touches its words.
    pub(crate) unsafe fn leave_hole(self) {
        // SAFETY: the caller says so.
        unsafe {
            let first = self.first();
            self.0.cast::<*const VTable>().write(first.map_addr(|first| first | HOLE));
        }
    }

    /// The task that lies here, if it lies in a box: one with a label does.
    ///
    /// # Safety
    /// [`lies`](Self::lies) said that there is a task. Nobody moves it, or writes to it, as long as the reference lives.
    pub(crate) unsafe fn boxed<'a>(self) -> Option<&'a Task> {
        // SAFETY: the caller says so. A first word of this kind was written by `pack`, after the box behind the head.
        unsafe {
            let is_boxed = self.first().addr() & BITS == BOXED;
            is_boxed.then(|| &**self.0.add(HEAD).cast::<Box<Task>>())
        }
    }

    /// Moves the task out, `into` the place where it will run and where nothing is. Returns the words that it took.
    ///
    /// Nothing is written here: these words were written by who put the task, on another core as a rule, and to write them too would
    /// fetch their cache line a second time.
    ///
    /// # Safety
    /// [`lies`](Self::lies) said that there is a task, and nobody else has touched it since, nor does now. Nobody takes it
    /// for a task afterwards.
    #[inline]
    pub(crate) unsafe fn unpack(self, into: &mut Option<Task>) -> usize {
        debug_assert!(into.is_none());
        let work_at = self.0.wrapping_add(HEAD);
        // SAFETY: the caller says that a task lies here, and that nobody reads it again. Each kind is read as what `pack` wrote
        // for it. What `write` does not drop is nothing.
        unsafe {
            let first = self.first();
            let id = self.0.add(1).cast::<TaskId>().read_unaligned();
            let info = TaskInfo::of(id);
            HEAD + match first.addr() & BITS {
                TRACKED => {
                    let work = TaskWork::Tracked(work_at.cast::<TrackedTask>().read());
                    ptr::write(into, Some(Task { info, work }));
                    TRACKED_WORDS
                }
                BOXED => {
                    ptr::write(into, Some(*work_at.cast::<Box<Task>>().read()));
                    1
                }
                _ => {
                    // The closure's words go straight to where they will be used. Nothing between the two steps can
                    // unwind, so nobody sees the verbs without their words.
                    let verbs = &*first;
                    let f = Closure { verbs, words: [Word::uninit(); WORDS] };
                    ptr::write(into, Some(Task { info, work: TaskWork::Plain(f) }));
                    if let Some(Task { work: TaskWork::Plain(f), .. }) = into {
                        copy_words(work_at, f.words.as_mut_ptr(), verbs.words);
                    }
                    verbs.words
                }
            }
        }
    }
}

impl Task {
    /// As `*slot = None`, and in short for most of those that have run: nothing is left of them.
    #[inline]
    pub(crate) fn clear(slot: &mut Option<Task>) {
        match slot {
            Some(Task { info, work: TaskWork::Plain(f) }) if !info.has_label() && f.is_spent() => {
                // SAFETY: what is not dropped holds nothing: it has no label, and its closure has been called.
                unsafe { ptr::write(slot, None) }
            }
            _ => *slot = None,
        }
    }
}

/// Copies `words` words, at most `WORDS`: what the library's function does, without the call.
///
/// # Safety
/// As for [`ptr::copy_nonoverlapping`].
#[inline(always)]
unsafe fn copy_words(from: *const Word, to: *mut Word, words: usize) {
    debug_assert!(words <= WORDS);
    // SAFETY: the caller says so; each copy is of a part of the words, and together they are all of them.
    unsafe {
        if words >= 4 {
            ptr::copy_nonoverlapping(from, to, 4);
            if words > 4 {
                to.add(4).write(from.add(4).read());
            }
            return;
        }
        if words & 2 != 0 {
            ptr::copy_nonoverlapping(from, to, 2);
        }
        if words & 1 != 0 {
            to.add(words - 1).write(from.add(words - 1).read());
        }
    }
}

const _: () = assert!(size_of::<TrackedTask>() == size_of::<CellRef<dyn Tracked>>());
const _: () = assert!(TRACKED_WORDS <= WORDS && align_of::<TrackedTask>() == align_of::<Word>());

#[cfg(all(test, not(loom)))]
mod tests;
