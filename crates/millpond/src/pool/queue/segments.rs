//! The memory of the pool's queue: packed tasks in a chain of segments, pushed at the tail and
//! popped at the head.
//!
//! Each end has its own lock and cache line, so that submitters and workers do not wait for each
//! other. A position is the number of a word since the queue was made. Segment `i` holds the
//! positions from `i * WORDS` on. Positions are never reused.
//!
//! # Invariants
//!
//! 1. Words at or after `end` belong to the holder of the tail lock. It writes an entry there, then
//!    advances `end` (Release).
//! 2. Words before `end` and at or after the head belong to the holder of the head lock that has
//!    read that `end` (Acquire). So it sees the entries, and the links to the segments that hold
//!    them.
//! 3. The head leaves a segment for good when it advances `left` (Release, after its last read).
//!    A segment before `left` belongs to the holder of the tail lock that has read that `left`
//!    (Acquire), which reuses or frees it.
//! 4. `segments` has the segments from index `oldest` on, in order and without a gap. They stay
//!    allocated while they are in it. The head is in one of them.
//! 5. Any other access requires both locks. The tail lock is taken first.

use std::collections::VecDeque;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::NonNull;

use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{SpinLock, SpinLockGuard};
use crate::task::{Entry, LONGEST, Pack, PackedTask, Space, Task, TaskId};

/// Words per segment: 8 KiB with the link, about 250 small tasks. Models and Miri use few words, so
/// that they reach the end of a segment.
const WORDS: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => LONGEST,
    (_, true) => 64,
    _ => (8192 - 2 * size_of::<usize>()) / size_of::<usize>(),
};

/// Number of segments behind the head that are kept for the tail. So a short queue does not
/// allocate: the spare segments suffice for bursts of a thousand small tasks. None with
/// [`PLAIN_ALLOC`](crate::PLAIN_ALLOC).
const SPARE: u64 = if crate::PLAIN_ALLOC { 0 } else { 4 };

type Word = MaybeUninit<usize>;

struct Segment {
    /// Written under the tail lock before `end` passes this segment (2).
    next: Option<SegmentPtr>,
    words: [Word; WORDS],
}

#[cfg(not(any(loom, miri)))]
const _: () = assert!(size_of::<Segment>() <= 8192);

/// The address of a segment. The invariants define which thread may access which part of it.
#[derive(Clone, Copy)]
struct SegmentPtr(NonNull<Segment>);

// SAFETY: a segment contains links and packed tasks, which are `Send`. Its ownership passes between
// threads by a lock, or by a Release and an Acquire (1, 2, 3).
unsafe impl Send for SegmentPtr {}

impl SegmentPtr {
    fn allocate() -> SegmentPtr {
        let segment = Box::new(Segment { next: None, words: [const { Word::uninit() }; WORDS] });
        SegmentPtr(NonNull::from(Box::leak(segment)))
    }

    /// # Safety
    /// The segment is no longer in a chain, and no thread uses it.
    unsafe fn free(self) {
        // SAFETY: `allocate` made it from a box, and by the contract no other thread uses it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }

    /// Returns the address of a word. Does not create a reference to all words, because other
    /// threads access other words.
    #[inline]
    fn word(self, at: usize) -> *mut Word {
        debug_assert!(at < WORDS);
        let words = self.0.as_ptr().wrapping_byte_add(offset_of!(Segment, words));
        words.cast::<Word>().wrapping_add(at)
    }
}

pub(super) struct Segments {
    tail: TailSide,
    head: HeadSide,
}

#[repr(align(128))]
struct TailSide {
    lock: SpinLock<Tail>,
    /// Number of tasks pushed so far. Written under the lock, before `end`: a thread that sees a
    /// task also sees it counted.
    put: AtomicU64,
    /// The position after the last task. Written under the lock (1).
    end: AtomicU64,
    /// The value of `put` at which a push must check further: the queue may be full, or a time mark
    /// may be due. Written under the lock.
    limit: AtomicU64,
    /// The number of segments. Written under the lock.
    held: AtomicUsize,
}

#[repr(align(128))]
struct HeadSide {
    lock: SpinLock<Head>,
    /// The position of the head, which is never a tombstone. Written when the lock is released.
    begin: AtomicU64,
    /// Number of tasks removed so far, at the head or elsewhere. Written under the lock.
    gone: AtomicU64,
    /// The index of the segment that contains the head. Written under the lock (3).
    left: AtomicU64,
}

struct Tail {
    /// Never empty (4).
    segments: VecDeque<SegmentPtr>,
    oldest: u64,
    /// The last of `segments`.
    last: SegmentPtr,
    /// The position of the first word of `last`.
    base: u64,
    /// The index in `last` of the next entry, which is position `end`.
    at: usize,
}

struct Head {
    segment: SegmentPtr,
    /// The position of the first word of `segment`.
    base: u64,
    at: usize,
    /// The value of `end` that was read last.
    known: u64,
    /// Number of tombstones between the head and `end`. Changes when both ends are locked, or when
    /// the head passes a tombstone.
    tombstones: u64,
}

/// Segments that no thread uses any more. Dropping this frees them, so drop it without a lock.
pub(super) struct Unused(Vec<SegmentPtr>);

impl Drop for Unused {
    fn drop(&mut self) {
        for segment in self.0.drain(..) {
            // SAFETY: it was taken out of the chain, by (3) or when the queue was dropped.
            unsafe { segment.free() };
        }
    }
}

impl Segments {
    /// Creates an empty queue with this initial `limit`.
    pub(super) fn new(limit: u64) -> Self {
        let first = SegmentPtr::allocate();
        let tail = Tail { segments: VecDeque::from([first]), oldest: 0, last: first, base: 0, at: 0 };
        let head = Head { segment: first, base: 0, at: 0, known: 0, tombstones: 0 };
        Segments {
            tail: TailSide {
                lock: SpinLock::new(tail),
                put: AtomicU64::new(0),
                end: AtomicU64::new(0),
                limit: AtomicU64::new(limit),
                held: AtomicUsize::new(1),
            },
            head: HeadSide {
                lock: SpinLock::new(head),
                begin: AtomicU64::new(0),
                gone: AtomicU64::new(0),
                left: AtomicU64::new(0),
            },
        }
    }

    /// Returns true if the queue is empty. Exact at the moment when `begin` was read: `begin` is
    /// never after `end`, both only grow, and `end` has not passed it since.
    pub(super) fn is_empty(&self) -> bool {
        self.first_position().is_none()
    }

    /// Returns the position of the head, unless the queue is empty. Acquire, for `end`: the caller
    /// sees what was written before the push of that task.
    pub(super) fn first_position(&self) -> Option<u64> {
        let begin = self.head.begin.load(Ordering::Acquire);
        (self.tail.end.load(Ordering::Acquire) != begin).then_some(begin)
    }

    /// Returns the position of the head, which may be stale.
    pub(super) fn begin(&self) -> u64 {
        self.head.begin.load(Ordering::Relaxed)
    }

    /// Returns the number of tasks pushed so far.
    #[inline]
    pub(super) fn put(&self) -> u64 {
        self.tail.put.load(Ordering::Relaxed)
    }

    /// Returns the number of tasks removed so far. Acquire: a later read of `put` is not smaller,
    /// because the thread that removed a task had read `end`, which is written after `put`.
    #[inline]
    pub(super) fn gone(&self) -> u64 {
        self.head.gone.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.tail.limit.load(Ordering::Relaxed)
    }

    /// Returns true if more segments are kept than the queue needs.
    pub(super) fn has_surplus(&self) -> bool {
        let left = self.head.left.load(Ordering::Relaxed);
        let last = self.tail.end.load(Ordering::Relaxed) / WORDS as u64;
        self.tail.held.load(Ordering::Relaxed) as u64 > last.saturating_sub(left) + 1 + SPARE
    }

    /// Locks the end where tasks are pushed.
    #[inline]
    pub(super) fn tail(&self) -> TailGuard<'_> {
        TailGuard { tail: self.tail.lock.lock_contended(), all: self }
    }

    /// Locks the end where tasks are popped.
    #[inline]
    pub(super) fn head(&self) -> HeadGuard<'_> {
        HeadGuard { head: self.head.lock.lock_contended(), all: self }
    }

    /// Locks both ends.
    pub(super) fn whole(&self) -> BothGuard<'_> {
        let tail = self.tail();
        // Not `lock_contended`: a thread with the tail lock must not pause.
        BothGuard { tail, head: HeadGuard { head: self.head.lock.lock(), all: self } }
    }
}

/// The locked tail.
pub(super) struct TailGuard<'a> {
    tail: SpinLockGuard<'a, Tail>,
    all: &'a Segments,
}

impl TailGuard<'_> {
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.all.tail.limit.store(limit, Ordering::Relaxed);
    }

    /// The position after the last task.
    pub(super) fn end(&self) -> u64 {
        self.tail.base + self.tail.at as u64
    }

    /// Appends `task` with the id `id`.
    #[inline]
    pub(super) fn push(&mut self, id: TaskId, task: impl Pack) {
        let put = &self.all.tail.put;
        put.store(put.load(Ordering::Relaxed) + 1, Ordering::Relaxed); // one writer, under the lock
        self.append(id, task);
    }

    /// Like `push`, for a task that is already counted.
    #[inline]
    fn append(&mut self, id: TaskId, task: impl Pack) {
        let words = task.words();
        if self.tail.at + words > WORDS {
            self.next_segment();
        }
        let Tail { last, base, at, .. } = *self.tail;
        let end = base + at as u64;
        task.moves_to(end);
        // SAFETY: (1) and (4): the words from `end` on belong to this thread, and the segment has
        // `words` of them.
        task.pack(id, unsafe { Space::new(last.word(at), words) });
        self.tail.at = at + words;
        self.all.tail.end.store(end + words as u64, Ordering::Release);
    }

    #[cold]
    fn next_segment(&mut self) {
        let Tail { last, base, at, .. } = *self.tail;
        if at < WORDS {
            // SAFETY: (1) and (4): the words from `at` on belong to this thread, and at least one
            // is left.
            unsafe { Space::new(last.word(at), WORDS - at) }.put_end();
        }
        let next = self.reuse().unwrap_or_else(SegmentPtr::allocate);
        // SAFETY: (1) to (4): no thread reads a link before `end` passes it. `last` is in the
        // chain, and `next` was just taken out of it or allocated.
        unsafe {
            (*next.0.as_ptr()).next = None;
            (*last.0.as_ptr()).next = Some(next);
        }
        self.tail.segments.push_back(next);
        self.tail.last = next;
        self.tail.base = base + WORDS as u64;
        self.tail.at = 0;
        self.all.tail.held.store(self.tail.segments.len(), Ordering::Relaxed);
    }

    /// Removes the oldest segment from the chain, if the head has left more than `keep` segments
    /// (3).
    fn pop_left(&mut self, keep: u64) -> Option<SegmentPtr> {
        let left = self.all.head.left.load(Ordering::Acquire);
        let unused = self.tail.oldest + keep < left;
        if !unused {
            return None;
        }
        self.tail.oldest += 1;
        self.tail.segments.pop_front()
    }

    /// Removes a segment that the head has left from the chain and returns it. Frees surplus
    /// segments at once: collecting them in a list would allocate.
    fn reuse(&mut self) -> Option<SegmentPtr> {
        while let Some(surplus) = self.pop_left(SPARE) {
            // SAFETY: (3): it is out of the chain.
            unsafe { surplus.free() };
        }
        self.pop_left(0)
    }

    /// Removes the segments that the head has left from the chain, all but `keep`.
    fn take_unused(&mut self, keep: u64) -> Unused {
        let unused = std::iter::from_fn(|| self.pop_left(keep)).collect();
        let segments = &mut self.tail.segments;
        segments.shrink_to(2 * segments.len());
        self.all.tail.held.store(self.tail.segments.len(), Ordering::Relaxed);
        Unused(unused)
    }
}

/// The locked head.
pub(super) struct HeadGuard<'a> {
    head: SpinLockGuard<'a, Head>,
    all: &'a Segments,
}

impl HeadGuard<'_> {
    /// Pops the first task, if there is one.
    #[inline]
    pub(super) fn pop(&mut self, into: &mut Option<Task>) {
        if self.next(into) {
            self.count_gone(1);
        }
    }

    /// Calls `inspect` with the first task, if there is one and it is in a box.
    pub(super) fn with_first<R>(&mut self, inspect: impl FnOnce(Option<&Task>) -> R) -> R {
        let first = self.first_task();
        inspect(first.as_ref().and_then(PackedTask::boxed))
    }

    #[inline(always)]
    fn next(&mut self, into: &mut Option<Task>) -> bool {
        let Some(task) = self.first_task() else { return false };
        self.head.at += task.unpack(into); // the head passes the entry for good
        if self.head.tombstones > 0 {
            self.first_task(); // tombstones may be all that is left
        }
        true
    }

    /// Moves the head to the first task and returns it.
    fn first_task(&mut self) -> Option<PackedTask> {
        loop {
            let entry = self.first_entry()?;
            if entry.entry() != Entry::Tombstone {
                return Some(entry);
            }
            self.head.at += entry.words();
            self.head.tombstones -= 1;
        }
    }

    /// The position of the head.
    #[inline]
    fn position(&self) -> u64 {
        self.head.base + self.head.at as u64
    }

    /// Counts `tasks` that have been removed.
    fn count_gone(&mut self, tasks: u64) {
        let gone = &self.all.head.gone;
        // One writer, under the lock. Release: a submitter that sees the room may use it.
        gone.store(gone.load(Ordering::Relaxed) + tasks, Ordering::Release);
    }

    /// Returns the task or tombstone at the head; `None` at the end.
    fn first_entry(&mut self) -> Option<PackedTask> {
        loop {
            let Head { segment, at, known, .. } = *self.head;
            let position = self.position();
            if position == known {
                self.head.known = self.all.tail.end.load(Ordering::Acquire);
                if position == self.head.known {
                    return None;
                }
            }
            if at < WORDS {
                // SAFETY: (2) and (4): an entry starts at the head, which is before `end`. Its task
                // has not been moved out, or it is a tombstone.
                let entry = unsafe { PackedTask::new(segment.word(at)) };
                if entry.entry() != Entry::End {
                    return Some(entry);
                }
            }
            self.next_segment();
        }
    }

    /// Moves on to the next segment, which exists because `end` is beyond this one.
    #[cold]
    fn next_segment(&mut self) {
        // SAFETY: (2) and (4): the segment is in the chain, and its link was written before `end`
        // passed it.
        let next = unsafe { (*self.head.segment.0.as_ptr()).next };
        self.head.segment = next.expect("`end` is beyond this segment, so there is a next one");
        self.head.base += WORDS as u64;
        self.head.at = 0;
        // Release (3): this thread has finished reading the previous segment.
        self.all.head.left.store(self.head.base / WORDS as u64, Ordering::Release);
    }
}

impl Drop for HeadGuard<'_> {
    fn drop(&mut self) {
        // Release: a thread that sees the queue empty sees what was written before the last pop.
        self.all.head.begin.store(self.position(), Ordering::Release);
    }
}

/// Both ends, locked. Its methods are in `both.rs`.
pub(super) struct BothGuard<'a> {
    tail: TailGuard<'a>,
    head: HeadGuard<'a>,
}

/// The tasks and tombstones of a locked queue, with their positions.
///
/// An item must not be used after the lock has been released or the entries have changed.
struct Entries<'a> {
    tail: &'a Tail,
    /// An entry starts at this position, unless it is `end`.
    position: u64,
    end: u64,
}

impl<'a> Entries<'a> {
    /// Returns all entries from the head, or from the segment of `position` if that is later.
    fn from(queue: &'a BothGuard<'_>, position: u64) -> Entries<'a> {
        let start_of_segment = position - position % WORDS as u64;
        let end = queue.tail.all.tail.end.load(Ordering::Relaxed);
        Entries { tail: &queue.tail.tail, position: queue.head.position().max(start_of_segment), end }
    }
}

impl Iterator for Entries<'_> {
    type Item = (u64, PackedTask);

    fn next(&mut self) -> Option<(u64, PackedTask)> {
        while self.position < self.end {
            let (index, at) = (self.position / WORDS as u64, (self.position % WORDS as u64) as usize);
            let segment = self.tail.segments[(index - self.tail.oldest) as usize]; // (4)
            // SAFETY: (2), with both ends locked. Entries start at the head, at the start of each
            // later segment, and after each entry.
            let entry = unsafe { PackedTask::new(segment.word(at)) };
            if entry.entry() == Entry::End {
                self.position = (index + 1) * WORDS as u64;
                continue;
            }
            let position = self.position;
            self.position += entry.words() as u64;
            return Some((position, entry));
        }
        None
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        let left = self.whole().remove_if(|_| true, |_, _| {});
        left.into_iter().for_each(Task::drop_caught);
        // `&mut self`: no thread holds a lock or can take one.
        let segments = std::mem::take(&mut self.tail.lock.lock().segments);
        drop(Unused(segments.into()));
    }
}

mod both;

#[cfg(all(test, not(loom)))]
pub(super) mod tests;
