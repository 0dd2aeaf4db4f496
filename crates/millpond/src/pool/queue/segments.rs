//! The memory of the first-in-first-out queue: packed tasks in a chain of segments.
//!
//! Each end has its own lock and cache line, so submitters and workers do not wait for each other.
//! A position is the number of a word since the beginning. The segment with index `i` holds the
//! positions from `i * WORDS` on. Positions are never reused.
//!
//! Ownership
//! 1. Words at or after `end` belong to the holder of the tail lock. It writes a task, then
//!    advances `end` (Release).
//! 2. Words from the head up to `end` belong to the holder of the head lock, if it has seen that
//!    `end` (Acquire). So it sees the tasks, and the links between their segments.
//! 3. The head has left every segment whose index is below `left` (Release, after its last read).
//!    Such a segment belongs to the holder of the tail lock, if it has seen that `left` (Acquire).
//!    It reuses or frees it.
//! 4. `Tail::segments` lists all segments in the order of their indices, without gaps, and owns
//!    them. The last one contains `end`, or ends there.
//! 5. A task, a tombstone or an end mark begins at the head, at the start of every later segment,
//!    and wherever the previous task or tombstone ends.
//!
//! An operation on both ends takes the tail lock first.

mod counts;

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use self::counts::{HeadCounts, TailCounts};
use crate::sync::{SpinLock, SpinLockGuard};
use crate::task::{Entry, LONGEST, Pack, PackedTask, Task, TaskId};

/// The words of a segment: 8 KiB with its header, about 250 small tasks. Few in models and under
/// Miri, so that they reach the end of a segment.
const WORDS: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => LONGEST,
    (_, true) => 64,
    _ => (8192 - size_of::<(u64, usize)>()) / size_of::<usize>(),
};

/// Segments behind the head that are kept for the tail. A queue of at most about 1,000 small tasks
/// then never allocates. None with [`PLAIN_ALLOC`](crate::PLAIN_ALLOC).
const SPARE: u64 = if crate::PLAIN_ALLOC { 0 } else { 4 };

pub(super) struct Segments {
    tail: TailSide,
    head: HeadSide,
}

#[repr(align(128))]
struct TailSide {
    lock: SpinLock<Tail>,
    counts: TailCounts,
}

#[repr(align(128))]
struct HeadSide {
    lock: SpinLock<Head>,
    counts: HeadCounts,
}

struct Tail {
    /// All segments, see (4). Never empty.
    segments: VecDeque<NonNull<Segment>>,
    /// The last one.
    last: NonNull<Segment>,
    /// The position of its first word.
    base: u64,
    /// The offset in it of the next task.
    at: usize,
}

struct Head {
    segment: NonNull<Segment>,
    /// The position of its first word.
    base: u64,
    at: usize,
    /// The last value of `end` that was read.
    known: u64,
    /// Tombstones between the head and `end`.
    tombstones: u64,
}

pub(super) struct Segment {
    index: u64,
    next: Option<NonNull<Segment>>,
    words: [MaybeUninit<usize>; WORDS],
}

const _: () = assert!(cfg!(any(loom, miri)) || size_of::<Segment>() <= 8192);

// SAFETY: the pointers lead to segments that `Segments` owns, and the tasks in them are `Send`. By
// (1) to (3) one thread at a time uses a word, and ownership passes by a lock or by Release and
// Acquire.
unsafe impl Send for Tail {}
// SAFETY: as for `Tail`.
unsafe impl Send for Head {}

impl Segment {
    fn new(index: u64) -> Box<Segment> {
        let mut segment = Box::<Segment>::new_uninit();
        let fields = segment.as_mut_ptr();
        // SAFETY: the memory is allocated and ours. Every field is written, except for the words,
        // which need no value.
        unsafe {
            (&raw mut (*fields).index).write(index);
            (&raw mut (*fields).next).write(None);
            segment.assume_init()
        }
    }

    /// The word at offset `at`.
    ///
    /// # Safety
    /// `segment` is listed, and `at` is below `WORDS`.
    unsafe fn spot(segment: NonNull<Segment>, at: usize) -> PackedTask {
        debug_assert!(at < WORDS);
        // SAFETY: by the contract. No reference to the words is created: another thread may use
        // other words.
        unsafe { PackedTask::new((&raw mut (*segment.as_ptr()).words).cast::<MaybeUninit<usize>>().add(at)) }
    }

    /// # Safety
    /// `segment` is listed and not being reused: the index changes only under (3).
    unsafe fn index(segment: NonNull<Segment>) -> u64 {
        // SAFETY: by the contract.
        unsafe { (*segment.as_ptr()).index }
    }
}

impl Segments {
    /// An empty queue with this initial `limit`.
    pub(super) fn new(limit: u64) -> Self {
        let first = NonNull::from(Box::leak(Segment::new(0)));
        let tail = Tail { segments: VecDeque::from([first]), last: first, base: 0, at: 0 };
        let head = Head { segment: first, base: 0, at: 0, known: 0, tombstones: 0 };
        Segments {
            tail: TailSide { lock: SpinLock::new(tail), counts: TailCounts::new(limit) },
            head: HeadSide { lock: SpinLock::new(head), counts: HeadCounts::default() },
        }
    }

    /// Exact for the moment at which `begin` was read: both only grow, `begin` was not beyond `end`
    /// then, and `end` has not passed it since.
    pub(super) fn is_empty(&self) -> bool {
        let begin = self.head.counts.begin();
        self.tail.counts.end() == begin
    }

    /// Tasks pushed so far.
    #[inline]
    pub(super) fn put(&self) -> u64 {
        self.tail.counts.put()
    }

    /// Tasks popped or removed so far.
    #[inline]
    pub(super) fn gone(&self) -> u64 {
        self.head.counts.gone()
    }

    /// Pushes allowed before `gone` must be read again.
    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.tail.counts.limit()
    }

    /// Returns true if there are more segments than the queue should keep.
    pub(super) fn has_surplus(&self) -> bool {
        let used = (self.tail.counts.end() / WORDS as u64).saturating_sub(self.head.counts.left()) + 1;
        self.tail.counts.held() as u64 > used + SPARE
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
        // No contention back-off here: it would hold the tail lock.
        BothGuard { tail, head: HeadGuard { head: self.head.lock.lock(), all: self } }
    }
}

/// The tail, locked.
pub(super) struct TailGuard<'a> {
    tail: SpinLockGuard<'a, Tail>,
    all: &'a Segments,
}

impl TailGuard<'_> {
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.all.tail.counts.set_limit(limit);
    }

    /// Appends `task`.
    #[inline]
    pub(super) fn push(&mut self, task: impl Pack) {
        self.all.tail.counts.add_put();
        self.append(task);
    }

    /// As `push`, for a task that has been counted.
    #[inline]
    fn append(&mut self, task: impl Pack) {
        let words = task.words();
        if self.tail.at + words > WORDS {
            self.next_segment();
        }
        let Tail { last, base, at, .. } = *self.tail;
        let end = base + at as u64;
        task.goes_to(end);
        // SAFETY: `last` is listed (4), its words from `at` on are ours (1), and there are enough.
        unsafe { task.pack(Segment::spot(last, at)) };
        self.tail.at = at + words;
        self.all.tail.counts.set_end(end + words as u64);
    }

    #[cold]
    fn next_segment(&mut self) {
        let last = self.tail.last;
        if self.tail.at < WORDS {
            // SAFETY: the words from `at` on are ours (1), and there is one.
            unsafe { Segment::spot(last, self.tail.at).pack_end() };
        }
        // SAFETY: it is listed (4).
        let index = unsafe { Segment::index(last) } + 1;
        let next = match self.reusable() {
            Some(mut segment) => {
                (segment.index, segment.next) = (index, None);
                segment
            }
            None => Segment::new(index),
        };
        let next = NonNull::from(Box::leak(next));
        // SAFETY: it is listed, and no thread reads the link before `end` is beyond this segment
        // (2).
        unsafe { (*last.as_ptr()).next = Some(next) };
        self.tail.segments.push_back(next);
        self.tail.last = next;
        self.tail.base = index * WORDS as u64;
        self.tail.at = 0;
        self.all.tail.counts.set_held(self.tail.segments.len());
    }

    /// Unlists the oldest segment, if the head has left it and `keep` more.
    fn pop_left(&mut self, keep: u64) -> Option<Box<Segment>> {
        let left = self.all.head.counts.left();
        let first = *self.tail.segments.front()?;
        // SAFETY: it is listed (4).
        let unused = unsafe { Segment::index(first) } + keep < left;
        if !unused {
            return None;
        }
        self.tail.segments.pop_front();
        // SAFETY: it came from a box, by `Box::leak`. It is ours alone (3) and no longer listed.
        Some(unsafe { Box::from_raw(first.as_ptr()) })
    }

    /// A segment that the head has left. Frees those beyond `SPARE`, without a list of them: a
    /// queue that is never long must not allocate.
    fn reusable(&mut self) -> Option<Box<Segment>> {
        while self.pop_left(SPARE).is_some() {}
        self.pop_left(0)
    }

    /// Unlists the segments that the head has left, all but `keep`.
    fn unused(&mut self, keep: u64) -> Vec<Box<Segment>> {
        let unused = std::iter::from_fn(|| self.pop_left(keep)).collect();
        let segments = &mut self.tail.segments;
        segments.shrink_to(2 * segments.len());
        self.all.tail.counts.set_held(self.tail.segments.len());
        unused
    }
}

/// The head, locked.
pub(super) struct HeadGuard<'a> {
    head: SpinLockGuard<'a, Head>,
    all: &'a Segments,
}

impl HeadGuard<'_> {
    /// Pops the first task, if there is one.
    #[inline]
    pub(super) fn pop(&mut self, into: &mut Option<Task>) {
        if self.next(into) {
            self.all.head.counts.add_gone(1);
        }
    }

    /// Calls `inspect` with the first task, if there is one and it is boxed.
    pub(super) fn with_first<R>(&mut self, inspect: impl FnOnce(Option<&Task>) -> R) -> R {
        let spot = self.skip_tombstones();
        // SAFETY: a task begins there, and it is ours (2) while we hold the lock, which outlives
        // `inspect`. Nothing moves it meanwhile.
        inspect(spot.and_then(|spot| unsafe { spot.boxed() }))
    }

    #[inline(always)]
    fn next(&mut self, into: &mut Option<Task>) -> bool {
        let Some(spot) = self.skip_tombstones() else { return false };
        // SAFETY: a task begins there and it is ours (2). The head passes it, so it is not read
        // again.
        self.head.at += unsafe { spot.unpack(into) };
        if self.head.tombstones > 0 {
            self.skip_tombstones(); // the rest may be tombstones only
        }
        true
    }

    /// The position of the head.
    #[inline]
    fn position(&self) -> u64 {
        self.head.base + self.head.at as u64
    }

    /// Skips tombstones and returns the first task. `None`: the queue is empty.
    fn skip_tombstones(&mut self) -> Option<PackedTask> {
        loop {
            let Head { segment, at, known, .. } = *self.head;
            let position = self.position();
            if position == known {
                self.head.known = self.all.tail.counts.end();
                if position == self.head.known {
                    return None;
                }
            }
            if at == WORDS {
                self.next_segment();
                continue;
            }
            // SAFETY: the word is before `end`, so something begins there (5), and it is ours (2).
            unsafe {
                let spot = Segment::spot(segment, at);
                match spot.lies() {
                    Entry::Task(_) => return Some(spot),
                    Entry::End => self.next_segment(),
                    Entry::Hole => {
                        self.head.at += spot.words();
                        self.head.tombstones -= 1;
                    }
                }
            }
        }
    }

    /// Advances to the next segment. There is one, because `end` is beyond this one.
    #[cold]
    fn next_segment(&mut self) {
        // SAFETY: the head's segment is not below `left`, so it is listed (3). `end` is beyond it,
        // so its link has been written (2).
        let next = unsafe { (*self.head.segment.as_ptr()).next };
        let next = next.expect("`end` is beyond this segment, so it has a successor");
        // SAFETY: `end` is in or beyond it, so it is listed and not being reused.
        let index = unsafe { Segment::index(next) };
        self.head.segment = next;
        self.head.base = index * WORDS as u64;
        self.head.at = 0;
        self.all.head.counts.set_left(index);
    }
}

impl Drop for HeadGuard<'_> {
    fn drop(&mut self) {
        self.all.head.counts.set_begin(self.position());
    }
}

/// Both ends, locked.
pub(super) struct BothGuard<'a> {
    tail: TailGuard<'a>,
    head: HeadGuard<'a>,
}

impl BothGuard<'_> {
    /// Visits the tasks from a position on until `visit` returns true.
    ///
    /// `from` is the head, or the start of a later segment.
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, PackedTask, TaskId) -> bool) {
        let end = self.tail.all.tail.counts.end();
        let mut position = from;
        while position < end {
            // SAFETY: the position is between head and `end`, we hold both locks (1, 2), and
            // something begins there (5).
            unsafe {
                let spot = self.spot(position);
                match spot.lies() {
                    Entry::End => position = (position / WORDS as u64 + 1) * WORDS as u64,
                    Entry::Task(id) if visit(position, spot, id) => return,
                    Entry::Task(_) | Entry::Hole => position += spot.words() as u64,
                }
            }
        }
    }

    /// # Safety
    /// The position is between the head and `end`.
    unsafe fn spot(&self, position: u64) -> PackedTask {
        let segments = &self.tail.tail.segments;
        let index = position / WORDS as u64;
        // SAFETY: by (4) the segment with this index is in the list.
        unsafe {
            let oldest = Segment::index(segments[0]);
            Segment::spot(segments[(index - oldest) as usize], (position % WORDS as u64) as usize)
        }
    }

    pub(super) fn tombstones(&self) -> u64 {
        self.head.head.tombstones
    }

    /// The ids of all tasks.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        let mut ids = Vec::new();
        self.walk(self.head.position(), |_, _, id| {
            ids.push(id);
            false
        });
        ids
    }

    /// Removes the task `id`. With a `place`, only if it begins there.
    ///
    /// `place` is a hint, and may be a position of another queue. A task begins there only if a
    /// walk from the start of its segment reaches it.
    pub(super) fn remove(&mut self, id: TaskId, place: Option<u64>) -> Option<Task> {
        let head = self.head.position();
        let from = place.map_or(head, |place| head.max(place - place % WORDS as u64));
        let mut found = None;
        self.walk(from, |position, spot, other| {
            let is_here = other == id && place.is_none_or(|place| place == position);
            found = is_here.then_some(spot);
            is_here || place.is_some_and(|place| place <= position)
        });
        // SAFETY: `walk` has found it there, under the same locks.
        found.and_then(|spot| unsafe { self.take(spot) })
    }

    /// # Safety
    /// A task begins there, between the head and `end`.
    unsafe fn take(&mut self, spot: PackedTask) -> Option<Task> {
        self.head.all.head.counts.add_gone(1);
        let mut task = None;
        // SAFETY: by the contract, and we hold both locks (2). A tombstone replaces the moved task.
        unsafe {
            spot.unpack(&mut task);
            spot.leave_hole();
        }
        self.head.head.tombstones += 1;
        self.head.skip_tombstones();
        task
    }

    /// Removes all tasks for which `unwanted` returns true, in order. The others are appended
    /// again, which drops the tombstones between them.
    pub(super) fn remove_if(&mut self, unwanted: impl Fn(&Task) -> bool) -> Vec<Task> {
        let mut removed = Vec::new();
        let waiting = self.tail.all.put() - self.tail.all.gone();
        for _ in 0..waiting {
            let mut next = None;
            self.head.next(&mut next);
            let Some(task) = next else { break };
            if unwanted(&task) {
                removed.push(task);
            } else {
                self.tail.append(task);
            }
        }
        self.head.all.head.counts.add_gone(removed.len() as u64);
        removed
    }

    /// Unlists surplus segments. Dropping the result frees them, outside of the locks.
    pub(super) fn trim(&mut self) -> Vec<Box<Segment>> {
        self.tail.unused(SPARE)
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        let left = self.whole().remove_if(|_| true);
        left.into_iter().for_each(Task::drop_caught);
        for segment in std::mem::take(&mut self.tail.lock.lock().segments) {
            // SAFETY: it came from a box, by `Box::leak`, and no thread uses the queue any more.
            drop(unsafe { Box::from_raw(segment.as_ptr()) });
        }
    }
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests;
