//! The memory of the pool's queue: packed tasks in a chain of segments, appended at one end and taken at the other.
//!
//! Each end has a lock and a cache line of its own, so that those who submit and those who take do not wait for
//! each other. This file is one of the rooms with `unsafe`; its outside is safe.
//!
//! Who may touch what
//! - A position is the number of a word since the beginning. The segment with the index `i` holds the positions from
//!   `i * WORDS` on. Positions are never used twice.
//! - From `end` on: only who holds the tail's lock. It writes a task there, then raises `end` (Release).
//! - Before `end`: only who holds the head's lock, and has seen that `end` (Acquire). So it sees the task, and the
//!   link to the next segment, which was written before too.
//! - A segment whose index is below `left` has been left by the head for good (Release, after its last read). It
//!   belongs to who holds the tail's lock and has seen that `left` (Acquire): to be used again, or freed.
//! - Who wants more holds both locks, the tail's first.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{SpinLock, SpinLockGuard};
use crate::task::{Entry, LONGEST, Pack, PackedTask, Task, TaskId};

/// The words of a segment: 8 KiB with its header, some 250 small tasks. Few in models and under
/// Miri, so that they reach the end of a segment.
const WORDS: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => LONGEST,
    (_, true) => 64,
    _ => (8192 - size_of::<(u64, usize)>()) / size_of::<usize>(),
};

/// Segments behind the head that are kept for the tail, so that a queue which is never long needs no
/// allocator: bursts of a thousand small tasks. None with [`PLAIN_ALLOC`](crate::PLAIN_ALLOC).
const SPARE: u64 = if crate::PLAIN_ALLOC { 0 } else { 4 };

pub(super) struct Segments {
    tail: TailSide,
    head: HeadSide,
}

#[repr(align(128))]
struct TailSide {
    lock: SpinLock<Tail>,
    /// Tasks put so far. Written under the lock, before `end`: who finds a task knows that it was put.
    put: AtomicU64,
    /// The position behind the last task. Written under the lock.
    end: AtomicU64,
    /// As many tasks may be put before one must look at `gone` again. Written under the lock.
    limit: AtomicU64,
    /// Segments that there are. Written under the lock.
    held: AtomicUsize,
}

#[repr(align(128))]
struct HeadSide {
    lock: SpinLock<Head>,
    /// Where the head is. Written under the lock, when it is freed; there is no hole there then.
    begin: AtomicU64,
    /// Tasks taken out so far, at the head or elsewhere. Written under the lock.
    gone: AtomicU64,
    /// The index of the segment that the head is in. Written under the lock.
    left: AtomicU64,
}

struct Tail {
    /// All segments, in order, from the oldest that has not been freed. Never empty.
    segments: VecDeque<NonNull<Segment>>,
    /// The last of them.
    last: NonNull<Segment>,
    /// The position of its first word.
    base: u64,
    /// Where in it the next task goes.
    at: usize,
}

struct Head {
    segment: NonNull<Segment>,
    /// The position of its first word.
    base: u64,
    at: usize,
    /// As far as `end` is known to be.
    known: u64,
    /// Holes between here and `end`. Changed when both ends are locked, or one is passed.
    holes: u64,
}

struct Segment {
    index: u64,
    next: Option<NonNull<Segment>>,
    words: [MaybeUninit<usize>; WORDS],
}

#[cfg(not(any(loom, miri)))]
const _: () = assert!(size_of::<Segment>() <= 8192);

// SAFETY: the pointers are to segments that `Segments` owns, with tasks in them, which are `Send`; who may follow them
// is told at the top of this file, and each change of hands goes by a lock or by a pair of Release and Acquire.
unsafe impl Send for Tail {}
// SAFETY: as for `Tail`.
unsafe impl Send for Head {}

impl Segment {
    fn new(index: u64) -> NonNull<Segment> {
        let segment: *mut Segment = Box::into_raw(Box::<Segment>::new_uninit()).cast();
        // SAFETY: the memory is ours, for a segment. The words need no value. A box is not null.
        unsafe {
            (&raw mut (*segment).index).write(index);
            (&raw mut (*segment).next).write(None);
            NonNull::new_unchecked(segment)
        }
    }

    /// # Safety
    /// It was made by `new`, and nobody uses it any more.
    unsafe fn free(segment: NonNull<Segment>) {
        // SAFETY: `new` got it from a box, and by the contract of this function it is ours alone. Its
        // fields have no destructors.
        drop(unsafe { Box::from_raw(segment.as_ptr()) });
    }

    /// The place of the word `at`.
    ///
    /// # Safety
    /// `segment` is there, and `at` is below `WORDS`.
    unsafe fn spot(segment: NonNull<Segment>, at: usize) -> PackedTask {
        debug_assert!(at < WORDS);
        // SAFETY: the caller says so. No reference to the words is made: others may be at work in other words.
        unsafe { PackedTask::new((&raw mut (*segment.as_ptr()).words).cast::<MaybeUninit<usize>>().add(at)) }
    }

    /// # Safety
    /// `segment` is there, and nobody changes its index: that happens only while it belongs to the tail alone.
    unsafe fn index(segment: NonNull<Segment>) -> u64 {
        // SAFETY: the caller says so.
        unsafe { (*segment.as_ptr()).index }
    }
}

/// Segments that nobody uses any more; dropping it frees them, which is best done without a lock.
pub(super) struct Unused(Vec<NonNull<Segment>>);

impl Drop for Unused {
    fn drop(&mut self) {
        for segment in self.0.drain(..) {
            // SAFETY: whoever put it here has taken it out of the chain.
            unsafe { Segment::free(segment) };
        }
    }
}

impl Segments {
    /// An empty queue whose `limit` is at first this.
    pub(super) fn new(limit: u64) -> Self {
        let first = Segment::new(0);
        let tail = Tail { segments: VecDeque::from([first]), last: first, base: 0, at: 0 };
        let head = Head { segment: first, base: 0, at: 0, known: 0, holes: 0 };
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

    /// There is no task. Exact at the moment when `begin` was read: it was not behind `end` then, both only grow, and
    /// `end` is no more than that even now.
    pub(super) fn is_empty(&self) -> bool {
        let begin = self.head.begin.load(Ordering::Acquire);
        self.tail.end.load(Ordering::Acquire) == begin
    }

    /// Tasks put so far.
    #[inline]
    pub(super) fn put(&self) -> u64 {
        self.tail.put.load(Ordering::Relaxed)
    }

    /// Tasks taken out so far. Acquire: whoever reads `put` afterwards reads no less, for who took a task had seen
    /// its `end`, before which `put` was written.
    #[inline]
    pub(super) fn gone(&self) -> u64 {
        self.head.gone.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.tail.limit.load(Ordering::Relaxed)
    }

    /// There are more segments than are of use.
    pub(super) fn has_surplus(&self) -> bool {
        let left = self.head.left.load(Ordering::Relaxed);
        let last = self.tail.end.load(Ordering::Relaxed) / WORDS as u64;
        self.tail.held.load(Ordering::Relaxed) as u64 > last.saturating_sub(left) + 1 + SPARE
    }

    /// The end where tasks are put.
    #[inline]
    pub(super) fn tail(&self) -> TailGuard<'_> {
        TailGuard { tail: self.tail.lock.lock_contended(), all: self }
    }

    /// The end where tasks are taken.
    #[inline]
    pub(super) fn head(&self) -> HeadGuard<'_> {
        HeadGuard { head: self.head.lock.lock_contended(), all: self }
    }

    /// All of it.
    pub(super) fn whole(&self) -> BothGuard<'_> {
        let tail = self.tail();
        // Not in turns: who has the tail must not keep it while it steps back from the head.
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
        self.all.tail.limit.store(limit, Ordering::Relaxed);
    }

    /// Appends `task`.
    #[inline]
    pub(super) fn push(&mut self, task: impl Pack) {
        let put = &self.all.tail.put;
        put.store(put.load(Ordering::Relaxed) + 1, Ordering::Relaxed); // one writer at a time, under the lock
        self.append(task);
    }

    /// As `push`, for a task that is counted already.
    #[inline]
    fn append(&mut self, task: impl Pack) {
        let words = task.words();
        if self.tail.at + words > WORDS {
            self.next_segment();
        }
        let Tail { last, base, at, .. } = *self.tail;
        let end = base + at as u64;
        task.goes_to(end);
        // SAFETY: `last` lives as long as it is in `segments`. From `at` on, which is `end`, its words are ours, and
        // there is room for as many as the task takes.
        unsafe { task.pack(Segment::spot(last, at)) };
        self.tail.at = at + words;
        self.all.tail.end.store(end + words as u64, Ordering::Release);
    }

    #[cold]
    fn next_segment(&mut self) {
        let last = self.tail.last;
        if self.tail.at < WORDS {
            // SAFETY: the words from `at` on are ours, and there is one left.
            unsafe { Segment::spot(last, self.tail.at).pack_end() };
        }
        // SAFETY: it is in `segments`.
        let index = unsafe { Segment::index(last) } + 1;
        let next = match self.used_again() {
            Some(again) => {
                // SAFETY: it is ours alone.
                unsafe {
                    (*again.as_ptr()).index = index;
                    (*again.as_ptr()).next = None;
                }
                again
            }
            None => Segment::new(index),
        };
        // SAFETY: nobody reads the link before `end` is beyond this segment.
        unsafe { (*last.as_ptr()).next = Some(next) };
        self.tail.segments.push_back(next);
        self.tail.last = next;
        self.tail.base = index * WORDS as u64;
        self.tail.at = 0;
        self.all.tail.held.store(self.tail.segments.len(), Ordering::Relaxed);
    }

    /// Takes the oldest segment out of the chain, if the head has left it and `keep` more.
    fn pop_left(&mut self, keep: u64) -> Option<NonNull<Segment>> {
        let left = self.all.head.left.load(Ordering::Acquire);
        let first = *self.tail.segments.front()?;
        // SAFETY: it is in `segments`.
        let unused = unsafe { Segment::index(first) } + keep < left;
        if unused { self.tail.segments.pop_front() } else { None }
    }

    /// Takes a segment that the head has left out of the chain, and frees those that are too many. Without a list of them: a
    /// queue that is never long needs no allocator.
    fn used_again(&mut self) -> Option<NonNull<Segment>> {
        while let Some(surplus) = self.pop_left(SPARE) {
            // SAFETY: it is out of the chain.
            unsafe { Segment::free(surplus) };
        }
        self.pop_left(0)
    }

    /// Takes the segments that the head has left out of the chain, all but `keep`.
    fn unused(&mut self, keep: u64) -> Unused {
        let unused = std::iter::from_fn(|| self.pop_left(keep)).collect();
        let segments = &mut self.tail.segments;
        segments.shrink_to(2 * segments.len());
        self.all.tail.held.store(self.tail.segments.len(), Ordering::Relaxed);
        Unused(unused)
    }
}

/// The head, locked.
pub(super) struct HeadGuard<'a> {
    head: SpinLockGuard<'a, Head>,
    all: &'a Segments,
}

impl HeadGuard<'_> {
    /// Takes the first task, if there is one.
    #[inline]
    pub(super) fn pop(&mut self, into: &mut Option<Task>) {
        if self.next(into) {
            self.count(1);
        }
    }

    /// Calls `look` with the first task, if there is one and it lies in a box.
    pub(super) fn with_first<R>(&mut self, look: impl FnOnce(Option<&Task>) -> R) -> R {
        let spot = self.skip_holes();
        // SAFETY: a task lies there. It is ours as long as we hold the lock, which is longer than `look` takes, and
        // nothing moves it meanwhile.
        look(spot.and_then(|spot| unsafe { spot.boxed() }))
    }

    #[inline(always)]
    fn next(&mut self, into: &mut Option<Task>) -> bool {
        let Some(spot) = self.skip_holes() else { return false };
        // SAFETY: a task lies there. It is ours, for it is before `end` and we hold the lock. Nobody looks at what is before
        // the head.
        self.head.at += unsafe { spot.unpack(into) };
        if self.head.holes > 0 {
            self.skip_holes(); // what is left may be nothing else
        }
        true
    }

    /// Where the first task is.
    fn skip_holes(&mut self) -> Option<PackedTask> {
        loop {
            let spot = self.spot()?;
            // SAFETY: a task or a hole lies there, and it is ours.
            unsafe {
                match spot.lies() {
                    Entry::Hole => {
                        self.head.at += spot.words();
                        self.head.holes -= 1;
                    }
                    _ => return Some(spot),
                }
            }
        }
    }

    /// Where the head is.
    #[inline]
    fn position(&self) -> u64 {
        self.head.base + self.head.at as u64
    }

    /// `tasks` have been taken out.
    fn count(&mut self, tasks: u64) {
        let gone = &self.all.head.gone;
        // One writer at a time, under the lock. Release: who sees that there is room may use it.
        gone.store(gone.load(Ordering::Relaxed) + tasks, Ordering::Release);
    }

    /// Where the head is: before a task or a hole. `None`: at the end.
    fn spot(&mut self) -> Option<PackedTask> {
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
                // SAFETY: there is a word, and it is before `end`, so something lies there.
                let (spot, lies) = unsafe {
                    let spot = Segment::spot(segment, at);
                    (spot, spot.lies())
                };
                if lies != Entry::End {
                    return Some(spot);
                }
            }
            self.next_segment();
        }
    }

    /// Goes on to the next segment. There is one: `end` is beyond this one.
    #[cold]
    fn next_segment(&mut self) {
        // SAFETY: the head's segment is not below `left`, so it is there. `end` is beyond it, so its link was written before.
        let next = unsafe { (*self.head.segment.as_ptr()).next };
        let next = next.expect("there is more, so there is a next segment");
        // SAFETY: `end` is in or beyond it.
        let index = unsafe { Segment::index(next) };
        self.head.segment = next;
        self.head.base = index * WORDS as u64;
        self.head.at = 0;
        // Release: our last look at the segment before was earlier.
        self.all.head.left.store(index, Ordering::Release);
    }
}

impl Drop for HeadGuard<'_> {
    fn drop(&mut self) {
        // Release: who sees the queue empty sees what was done by those who took the tasks out, up to here.
        self.all.head.begin.store(self.position(), Ordering::Release);
    }
}

/// Both ends, locked.
pub(super) struct BothGuard<'a> {
    // In this order: the tail's lock is freed first, which is of no importance.
    tail: TailGuard<'a>,
    head: HeadGuard<'a>,
}

impl BothGuard<'_> {
    /// Visits the tasks from the first to the last, until `visit` says true.
    fn walk(&self, mut visit: impl FnMut(u64, PackedTask, TaskId) -> bool) {
        let end = self.end();
        let mut position = self.head.position();
        while position < end {
            // SAFETY: the position is from the head to `end`, and we hold both locks. It is where a task, a hole or an
            // end begins: we go from one to the next.
            unsafe {
                let spot = self.spot(position);
                match spot.lies() {
                    Entry::End => {
                        position = (position / WORDS as u64 + 1) * WORDS as u64;
                        continue;
                    }
                    Entry::Task(id) if visit(position, spot, id) => return,
                    Entry::Task(_) | Entry::Hole => position += spot.words() as u64,
                }
            }
        }
    }

    fn end(&self) -> u64 {
        self.tail.all.tail.end.load(Ordering::Relaxed)
    }

    /// # Safety
    /// The position is from the head to `end`.
    unsafe fn spot(&self, position: u64) -> PackedTask {
        let segments = &self.tail.tail.segments;
        let index = position / WORDS as u64;
        // SAFETY: the segments are in the order of their indices, without a gap, and the last one has `end` in it or right
        // behind it.
        unsafe {
            let oldest = Segment::index(segments[0]);
            Segment::spot(segments[(index - oldest) as usize], (position % WORDS as u64) as usize)
        }
    }

    /// The holes between the tasks.
    pub(super) fn holes(&self) -> u64 {
        self.head.head.holes
    }

    /// The ids of all tasks.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        let mut ids = Vec::new();
        self.walk(|_, _, id| {
            ids.push(id);
            false
        });
        ids
    }

    /// Takes the task `id` out, if it lies at `place`.
    pub(super) fn remove_at(&mut self, id: TaskId, place: u64) -> Option<Task> {
        let first = self.head.position();
        if place < first || place >= self.end() {
            return None;
        }
        // A place is only believed if a task begins there: we walk to it from the beginning of its segment. It may be
        // one of another queue, and inside of the last task here: so we look at nothing behind it.
        let mut position = first.max(place - place % WORDS as u64);
        while position < place {
            // SAFETY: as in `walk`; tasks begin at the head, and at the beginning of each later segment.
            unsafe {
                let spot = self.spot(position);
                if spot.lies() == Entry::End {
                    return None;
                }
                position += spot.words() as u64;
            }
        }
        if position > place {
            return None;
        }
        // SAFETY: as before, and the place is before `end`.
        unsafe {
            let spot = self.spot(place);
            if spot.lies() == Entry::Task(id) { self.take(spot) } else { None }
        }
    }

    /// Takes the task `id` out, wherever it is.
    pub(super) fn remove(&mut self, id: TaskId) -> Option<Task> {
        let mut found = None;
        self.walk(|_, spot, other| {
            found = (other == id).then_some(spot);
            found.is_some()
        });
        // SAFETY: `walk` has just found it there.
        found.and_then(|spot| unsafe { self.take(spot) })
    }

    /// # Safety
    /// A task lies there, before `end`, and not before the head.
    unsafe fn take(&mut self, spot: PackedTask) -> Option<Task> {
        self.head.count(1);
        let mut task = None;
        // SAFETY: the caller says so, and we hold both locks.
        unsafe {
            spot.unpack(&mut task);
            spot.leave_hole();
        }
        self.head.head.holes += 1;
        self.head.skip_holes();
        task
    }

    /// Takes out all tasks that `unwanted` accepts, in order. The others get new places behind the old ones, and so the
    /// holes between them go.
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
        self.head.count(removed.len() as u64);
        removed
    }

    /// Takes the segments out of the chain that are of no use.
    pub(super) fn trim(&mut self) -> Unused {
        self.tail.unused(SPARE)
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        let left = self.whole().remove_if(|_| true);
        left.into_iter().for_each(Task::drop_caught);
        // Nobody has a lock any more, and nobody will.
        let segments = std::mem::take(&mut self.tail.lock.lock().segments);
        drop(Unused(segments.into()));
    }
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests;
