//! Tests of the segments, small enough for Miri: order, places, tombstones, memory, drops.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

mod random;

pub(in crate::pool) use random::Rng;

use super::{LONGEST, SPARE, Segments, WORDS};
use crate::task::{Task, TaskId, TaskOf};
use crate::task::{TaskHandle, TaskState};

impl Segments {
    /// The number of existing segments.
    pub(in crate::pool) fn held(&self) -> usize {
        let tail = self.tail();
        assert_eq!(tail.tail.segments.len(), self.tail.held.load(super::Ordering::Relaxed));
        tail.tail.segments.len()
    }

    /// Returns the place of the task `id`.
    pub(in crate::pool) fn place_of(&self, id: TaskId) -> Option<u64> {
        self.whole().tasks().find(|(_, _, other)| *other == id).map(|(place, _, _)| place)
    }

    /// The position behind the last task.
    fn end(&self) -> u64 {
        self.tail.end.load(super::Ordering::Relaxed)
    }

    fn pop(&self) -> Option<Task> {
        let mut task = None;
        self.head().pop(&mut task);
        task
    }

    fn remove_at(&self, id: TaskId, place: u64) -> Option<Task> {
        self.whole().remove_at(id, place)
    }
}

/// Records what happened to the captures of tasks, by the numbers of the tasks.
#[derive(Debug, Clone, Default)]
pub(in crate::pool) struct Tally(Arc<Mutex<[Vec<usize>; 2]>>);

impl Tally {
    /// Returns the numbers of the tasks that have run since the last call, in order.
    pub(in crate::pool) fn ran(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap()[0])
    }

    /// Fails unless the captures of exactly the tasks `0..many` have been dropped, each of them
    /// once.
    #[track_caller]
    pub(in crate::pool) fn assert_dropped(&self, many: usize) {
        let mut dropped = self.0.lock().unwrap()[1].clone();
        dropped.sort_unstable();
        assert!(dropped.iter().copied().eq(0..many), "of {many} were dropped {dropped:?}");
    }
}

/// The capture of a task: two words.
struct Token(Tally, usize);

impl Token {
    fn run(self) {
        self.0.0.lock().unwrap()[0].push(self.1);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.0.lock().unwrap()[1].push(self.1);
    }
}

#[repr(align(64))]
struct Line(Token);

/// The number of words of a segment, and the largest number that a task takes.
pub(in crate::pool) const SEGMENT: (usize, usize) = (WORDS, LONGEST);

/// The number of kinds of task that [`task`] creates.
pub(in crate::pool) const KINDS: usize = 10;

/// Creates the task `n`, of the given kind: each kind has another size or another way of being
/// packed.
pub(in crate::pool) fn task(kind: usize, n: usize, tally: &Tally) -> Task {
    let token = Token(tally.clone(), n);
    match kind % KINDS {
        0 => {
            let one_word = Box::new(token);
            Task::new(move || one_word.run())
        }
        1 => Task::new(move || token.run()),
        2 => with_words::<1>(token),
        3 => with_words::<2>(token),
        4 => with_words::<3>(token),
        5 => with_words::<40>(token),
        6 => Task::new(move || token.run()).named("named"),
        7 => {
            let line = Line(token);
            Task::new(move || {
                let line = line; // all of it, with its alignment
                assert_eq!(std::ptr::from_ref(&line).addr() % 64, 0);
                line.0.run();
            })
        }
        8 => TaskOf::new(move || token.run()).into_parts().0,
        _ => TaskOf::new(move || token.run()).with_priority(3).into_parts().0,
    }
}

fn with_words<const N: usize>(token: Token) -> Task {
    let words: [usize; N] = std::array::from_fn(|i| i * token.1);
    Task::new(move || {
        assert!(words.iter().enumerate().all(|(i, word)| *word == i * token.1), "its words are as they were");
        token.run();
    })
}

/// Creates a task with a handle: four words when packed.
fn tracked(n: usize, tally: &Tally) -> (Task, TaskHandle<()>) {
    let token = Token(tally.clone(), n);
    TaskOf::new(move || token.run()).into_parts()
}

fn put(segments: &Segments, task: Task) -> TaskId {
    let id = task.id();
    segments.tail().push(id, task);
    id
}

/// Puts `many` tasks, of all kinds in turn, with numbers from `0` on.
fn put_all(segments: &Segments, many: usize, tally: &Tally) -> Vec<TaskId> {
    (0..many).map(|n| put(segments, task(n, n, tally))).collect()
}

/// Enough tasks for several segments: they take slightly more than four words each.
const MANY: usize = if cfg!(miri) { 120 } else { 6000 };

/// The most segments that a short queue may hold: the one of the head, and the spare ones or the
/// one of the tail.
const MOST_HELD: u64 = if SPARE == 0 { 2 } else { 1 + SPARE };

#[test]
fn tasks_of_all_sizes_come_out_in_order_over_many_segments() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    let ids = put_all(&segments, MANY, &tally);
    assert!(segments.held() > 2, "{} segments", segments.held());
    assert_eq!(segments.whole().ids(), ids);
    assert!(!segments.is_empty());
    for id in ids {
        let task = segments.pop().expect("there are as many as were put");
        assert_eq!(task.id(), id);
        task.run();
    }
    assert!(segments.pop().is_none());
    assert!(segments.is_empty());
    assert!(tally.ran().into_iter().eq(0..MANY));
    tally.assert_dropped(MANY);
}

/// Puts and takes in turns, so that the head follows the tail from segment to segment.
#[test]
fn a_short_queue_keeps_its_segments_and_uses_them_again() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    for n in 0..MANY {
        put(&segments, task(n, n, &tally));
        put(&segments, Task::new(|| {}));
        segments.pop().expect("it was put").run();
        segments.pop().expect("it was put").run();
        assert!(segments.is_empty());
        assert!(segments.held() <= 2, "{} segments", segments.held());
    }
    assert!(segments.end() > 2 * WORDS as u64, "several times around");
    assert!(tally.ran().into_iter().eq(0..MANY));
    tally.assert_dropped(MANY);
}

/// A packed task may end at the last word of a segment, or leave too few words for the next one.
#[test]
fn every_rest_at_the_end_of_a_segment_is_skipped() {
    for rest in 0..LONGEST {
        let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
        let mut put_so_far = 0;
        // Puts tasks without captures, and at first some with one more word, until exactly `rest`
        // words are left.
        while segments.end() < (WORDS - rest) as u64 {
            let left = (WORDS - rest) as u64 - segments.end();
            if left.is_multiple_of(HEAD) {
                put(&segments, Task::new(|| {}));
            } else {
                let word = Box::new(put_so_far);
                put(&segments, Task::new(move || drop(word)));
            }
            put_so_far += 1;
        }
        assert_eq!((segments.end(), segments.held()), ((WORDS - rest) as u64, 1));
        let longest = put(&segments, task(4, 0, &tally));
        assert_eq!(segments.held(), 2);
        assert_eq!(segments.place_of(longest), Some(WORDS as u64));
        assert_eq!(segments.whole().ids().len(), put_so_far + 1);
        (0..put_so_far).for_each(|_| segments.pop().expect("it was put").run());
        assert!(tally.ran().is_empty() && !segments.is_empty());
        segments.pop().expect("it was put").run();
        assert!(segments.is_empty());
        assert_eq!(tally.ran(), [0]);
    }
}

/// The words of a closure without captures, when packed.
const HEAD: u64 = (LONGEST - 5) as u64;

#[test]
fn a_task_is_removed_from_any_place_and_the_others_stay_in_order() {
    let many = MANY / 2;
    let everywhere = [0, 1, 2, many / 3, many / 2, many - 2, many - 1];
    for n in everywhere {
        let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
        let mut ids = put_all(&segments, many, &tally);
        let removed = ids.remove(n);
        let place = segments.place_of(removed).expect("it waits");
        let task = segments.remove_at(removed, place).expect("it is at its place");
        assert_eq!(task.id(), removed);
        task.run();
        assert_eq!(tally.ran(), [n]);
        assert!(segments.remove_at(removed, place).is_none(), "it is there no more");
        assert!(segments.whole().remove(removed).is_none());
        assert_eq!(segments.whole().ids(), ids);
        assert_eq!(segments.put() - segments.gone(), ids.len() as u64);
        let rest = std::iter::from_fn(|| segments.pop()).map(|task| task.id());
        assert!(rest.eq(ids));
        tally.assert_dropped(many);
    }
}

/// Tasks at the beginning and at the end of each segment, next to tasks in other segments.
#[test]
fn tasks_at_the_ends_of_segments_are_removed() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    let mut ids = put_all(&segments, MANY, &tally);
    let places: Vec<u64> = ids.iter().map_while(|id| segments.place_of(*id)).collect();
    let segment = |place: u64| place / WORDS as u64;
    let last_of = |n: usize| places.get(n + 1).is_none_or(|next| segment(*next) > segment(places[n]));
    let first_of = |n: usize| n == 0 || last_of(n - 1);
    let ends: Vec<usize> = (0..MANY).filter(|n| first_of(*n) || last_of(*n)).collect();
    assert!(ends.len() >= 6);
    for n in ends.iter().rev() {
        assert_eq!(segments.remove_at(ids[*n], places[*n]).expect("it is there").id(), ids[*n]);
        ids.remove(*n);
        assert_eq!(segments.whole().ids(), ids);
    }
    let rest = std::iter::from_fn(|| segments.pop()).map(|task| task.id());
    assert!(rest.eq(ids));
    tally.assert_dropped(MANY);
}

#[test]
fn a_place_where_the_task_is_not_is_refused() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    let ids = put_all(&segments, KINDS, &tally);
    let end = segments.end();
    for id in &ids {
        let own = segments.place_of(*id).expect("it waits");
        // Before the head, inside of tasks, places of other tasks, behind the end, and the value of
        // a task that was never put.
        for place in (0..end + 2 * WORDS as u64).chain([u64::MAX - 1, u64::MAX]).filter(|place| *place != own)
        {
            assert!(segments.remove_at(*id, place).is_none(), "{place}");
        }
    }
    assert_eq!(segments.whole().ids(), ids);
    assert_eq!(segments.end(), end);
}

/// A place from another queue: in this queue it may be inside of the last task.
#[test]
fn a_place_inside_of_the_last_task_is_refused() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    let stranger = Task::new(|| {}).id();
    let last = put(&segments, task(4, 0, &tally));
    for place in 0..=segments.end() {
        assert!(segments.remove_at(stranger, place).is_none());
        assert_eq!(segments.remove_at(last, place.max(1)).map(|task| task.id()), None);
    }
    // The same at the very end of a segment, with no task behind it.
    let segments = Segments::new(u64::MAX);
    while segments.end() < WORDS as u64 {
        let left = WORDS as u64 - segments.end();
        match left % HEAD {
            0 => put(&segments, Task::new(|| {})),
            _ => put(&segments, task(0, 1, &Tally::default())),
        };
    }
    assert_eq!((segments.end(), segments.held()), (WORDS as u64, 1));
    for place in WORDS as u64 - 4..=WORDS as u64 {
        assert!(segments.remove_at(stranger, place).is_none());
    }
}

/// A place before the head, in a segment that has been left and is reused.
#[test]
fn a_place_that_the_head_has_passed_is_refused() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    let first = put(&segments, task(1, 0, &tally));
    let place = segments.place_of(first).expect("it waits");
    let passed = segments.pop().expect("it was put");
    for n in 1..WORDS {
        put(&segments, task(1, n, &tally));
        if n > 2 {
            drop(segments.pop());
        }
    }
    assert!(segments.end() > 3 * WORDS as u64 && segments.held() == 2);
    assert!(segments.remove_at(first, place).is_none());
    assert!(segments.whole().remove(first).is_none());
    drop(passed);
    drop(segments);
    tally.assert_dropped(WORDS);
}

#[test]
fn holes_are_skipped_wherever_they_are() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    let ids = put_all(&segments, MANY, &tally);
    // Whole segments and single places become tombstones.
    let stays = |n: usize| (n % 7 == 3 && n < MANY / 4) || n == MANY / 2;
    for (n, id) in ids.iter().enumerate().filter(|(n, _)| !stays(*n)) {
        let place = segments.place_of(*id).expect("it waits");
        assert_eq!(segments.remove_at(*id, place).expect("it is there").id(), *id, "{n}");
        assert!(!segments.is_empty() || n > MANY / 2);
    }
    let left: Vec<TaskId> = (0..MANY).filter(|n| stays(*n)).map(|n| ids[n]).collect();
    assert_eq!(segments.whole().ids(), left);
    let rest = std::iter::from_fn(|| segments.pop()).map(|task| task.id());
    assert!(rest.eq(left));
    assert!(segments.is_empty());
    tally.assert_dropped(MANY);
}

#[test]
fn removing_the_last_task_leaves_an_empty_queue() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    for n in 0..MANY {
        let id = put(&segments, task(n, n, &tally));
        let place = segments.place_of(id).expect("it waits");
        segments.remove_at(id, place).expect("it is there").run();
        assert!(segments.is_empty(), "its hole does not count");
        assert!(segments.held() as u64 <= MOST_HELD);
    }
    assert!(segments.pop().is_none());
    tally.assert_dropped(MANY);
}

#[test]
fn remove_if_takes_out_what_is_unwanted_and_keeps_the_order_of_the_rest() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    let mut ids = put_all(&segments, MANY, &tally);
    drop(segments.pop());
    drop(segments.whole().remove(ids[1]));
    drop(segments.whole().remove(ids[MANY / 2]));
    for at in [MANY / 2, 1, 0] {
        ids.remove(at);
    }
    let unwanted: Vec<TaskId> = ids.iter().copied().step_by(3).collect();
    let removed = segments.whole().remove_if(|task| unwanted.contains(&task.id()), |_, _| {});
    assert!(removed.iter().map(Task::id).eq(unwanted.iter().copied()));
    ids.retain(|id| !unwanted.contains(id));
    assert_eq!(segments.whole().ids(), ids);
    assert_eq!(segments.put() - segments.gone(), ids.len() as u64);
    // The tasks are now close together, at new places.
    for id in ids.iter().step_by(MANY / 20) {
        let place = segments.place_of(*id).expect("it waits");
        let back = segments.remove_at(*id, place).expect("it is there");
        assert_eq!(back.id(), *id);
    }
    drop(removed);
    drop(segments);
    tally.assert_dropped(MANY);
}

#[test]
fn a_tracked_task_knows_its_place_also_when_it_was_moved() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    let (moved, handle) = tracked(0, &tally);
    let shared = moved.cell().expect("it has a handle").clone();
    let (id, other) = (put(&segments, moved), put(&segments, task(1, 1, &tally)));
    assert_eq!(Some(shared.place().get()), segments.place_of(id));
    assert!(segments.whole().remove_if(|_| false, |_, _| {}).is_empty());
    assert_eq!(Some(shared.place().get()), segments.place_of(id));
    assert!(shared.place().get() > segments.place_of(id).unwrap() - 1);
    segments.remove_at(id, shared.place().get()).expect("it is at its place").run();
    assert_eq!(tally.ran(), [0]);
    assert_eq!(segments.whole().ids(), [other]);
    handle.join().unwrap();
}

#[test]
fn dropping_a_queue_drops_its_tasks_and_tells_their_handles() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    put_all(&segments, MANY, &tally);
    let (last, handle) = tracked(MANY, &tally);
    put(&segments, last);
    (0..MANY / 3).for_each(|_| segments.pop().expect("it was put").run());
    let ids = segments.whole().ids();
    drop(segments.whole().remove(ids[ids.len() / 2]));
    drop(segments);
    assert_eq!(handle.state(), TaskState::Abandoned);
    assert!(tally.ran().into_iter().eq(0..MANY / 3));
    tally.assert_dropped(MANY + 1);
}

/// A destructor that panics affects only its own task. The rest of the queue is dropped.
#[test]
fn dropping_a_queue_survives_a_destructor_that_panics() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("as asked"));
        }
    }
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    put(&segments, task(1, 0, &tally));
    let bomb = Bomb;
    put(&segments, Task::new(move || drop(bomb)));
    put(&segments, task(1, 1, &tally));
    drop(segments);
    tally.assert_dropped(2);
}

#[test]
fn a_closure_that_was_not_made_a_task_before_comes_out_as_one() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    let mut ids = Vec::new();
    for n in 0..MANY {
        let token = Token(tally.clone(), n);
        let words = [n; 3];
        let id = TaskId::fresh();
        ids.push(id);
        segments.tail().push(id, move || {
            assert_eq!(words, [token.1; 3]);
            token.run();
        });
    }
    assert_eq!(segments.whole().ids(), ids);
    let removed = ids.remove(MANY / 2);
    drop(segments.whole().remove(removed).expect("it waits"));
    for id in &ids[..MANY / 2] {
        let task = segments.pop().expect("it was put");
        assert_eq!(task.id(), *id);
        task.run();
    }
    drop(segments);
    assert!(tally.ran().into_iter().eq(0..MANY / 2));
    tally.assert_dropped(MANY);
}

#[test]
fn segments_are_given_back_after_a_burst() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    put_all(&segments, MANY, &tally);
    let most = segments.held();
    assert!(most as u64 > 1 + SPARE && !segments.has_surplus(), "{most} segments, all in use");
    (0..MANY / 2).for_each(|_| drop(segments.pop()));
    assert_eq!(segments.held(), most, "taking tasks frees nothing");
    if segments.has_surplus() {
        drop(segments.whole().trim());
        assert!(segments.held() < most);
    }
    assert!(!segments.has_surplus());
    while let Some(task) = segments.pop() {
        drop(task);
    }
    if segments.has_surplus() {
        drop(segments.whole().trim());
    }
    assert!(segments.held() as u64 <= 1 + SPARE, "{} segments", segments.held());
    put(&segments, task(0, MANY, &tally));
    segments.pop().expect("it goes on").run();
    tally.assert_dropped(MANY + 1);
}

/// The tail reuses one of the segments that the head has left, and frees the surplus.
#[test]
fn segments_are_given_back_by_the_tail_too() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    put_all(&segments, MANY, &tally);
    assert!(segments.held() as u64 > 1 + SPARE);
    while segments.pop().is_some() {}
    for _ in 0..WORDS {
        put(&segments, Task::new(|| {}));
        drop(segments.pop());
    }
    assert!(segments.held() as u64 <= MOST_HELD, "{} segments", segments.held());
    tally.assert_dropped(MANY);
}
