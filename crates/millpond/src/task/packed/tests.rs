//! Tests that pack tasks of every kind and take them out again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::task::TaskOf;
use crate::task::TaskState;

/// Memory for one entry, followed by a guard word.
struct Room {
    words: Vec<Word>,
}

const GUARD: usize = 0x5a5a_5a5a;

impl Room {
    /// Allocates this many words and the guard.
    fn new(words: usize) -> Room {
        let mut room = Room { words: vec![Word::uninit(); words] };
        room.words.push(Word::new(GUARD));
        room
    }

    fn space(&mut self) -> Space {
        let words = self.words.len() - 1;
        // SAFETY: (1): there are as many words before the guard, and no other code accesses them.
        unsafe { Space::new(self.words.as_mut_ptr(), words) }
    }

    fn entry(&mut self) -> PackedTask {
        // SAFETY: (2): tests call this after packing, and unpack once.
        unsafe { PackedTask::new(self.words.as_mut_ptr()) }
    }

    fn is_whole(&self) -> bool {
        // SAFETY: the last word was initialized, and every value written there since was
        // initialized too.
        unsafe { self.words[self.words.len() - 1].assume_init() == GUARD }
    }
}

/// Packs `task`, moves it out, and removes it. Returns it and its number of words.
fn there_and_back(task: impl Pack, id: TaskId) -> (Task, usize) {
    let words = task.words();
    assert!((HEAD..=LONGEST).contains(&words));
    let mut room = Room::new(words);
    task.pack(id, room.space());
    assert_eq!((room.entry().entry(), room.entry().words()), (Entry::Task(id), words));
    let mut back = None;
    assert_eq!(room.entry().unpack(&mut back), words);
    back.take().expect("it was there").pack(id, room.space());
    let back = room.entry().remove();
    assert_eq!((room.entry().entry(), room.entry().words()), (Entry::Tombstone, words));
    assert!(room.entry().boxed().is_none());
    assert!(room.is_whole());
    let back = back.expect("it was there");
    assert_eq!(back.id(), id);
    (back, words)
}

fn task_there_and_back(task: Task) -> (Task, usize) {
    let id = task.id();
    there_and_back(task, id)
}

/// A task that checks its `N` further words and then adds one to the counter.
fn adds<const N: usize>(to: &Arc<AtomicUsize>) -> Task {
    let to = Arc::clone(to);
    let words: [usize; N] = std::array::from_fn(|i| i + 100);
    Task::new(move || {
        assert!(words.iter().copied().eq(100..100 + N));
        to.fetch_add(1, Ordering::Relaxed);
    })
}

#[test]
fn a_closure_takes_its_own_words_and_the_head() {
    let ran = Arc::new(AtomicUsize::new(0));
    let all = [adds::<0>(&ran), adds::<1>(&ran), adds::<2>(&ran), adds::<3>(&ran), adds::<4>(&ran)];
    for (n, task) in all.into_iter().enumerate() {
        let (task, words) = task_there_and_back(task);
        assert_eq!(words, HEAD + 1 + n);
        task.run();
        assert_eq!(ran.load(Ordering::Relaxed), n + 1);
    }
    let (task, words) = task_there_and_back(adds::<5>(&ran));
    assert_eq!(words, HEAD + 1, "six words are in a box");
    task.run();
    assert_eq!(ran.load(Ordering::Relaxed), 6);
    assert_eq!(Arc::strong_count(&ran), 1, "what was captured has been dropped");
}

#[test]
fn a_task_that_does_not_run_is_dropped_once() {
    let ran = Arc::new(AtomicUsize::new(0));
    for task in [adds::<0>(&ran), adds::<4>(&ran), adds::<9>(&ran), adds::<1>(&ran).named("named")] {
        let (task, _) = task_there_and_back(task);
        assert!(Arc::strong_count(&ran) > 1);
        drop(task);
    }
    assert_eq!((Arc::strong_count(&ran), ran.load(Ordering::Relaxed)), (1, 0));
}

#[test]
fn a_closure_without_captures_takes_the_head_alone() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let (task, words) = task_there_and_back(Task::new(|| {
        RAN.fetch_add(1, Ordering::Relaxed);
    }));
    assert_eq!(words, HEAD);
    task.run();
    assert_eq!(RAN.load(Ordering::Relaxed), 1);
}

/// Partly used words, padding, references, and a value with a larger alignment than a word.
#[test]
fn closures_of_odd_shapes_come_back_as_they_were() {
    let sum = Arc::new(AtomicUsize::new(0));
    let add = |n: usize| sum.fetch_add(n, Ordering::Relaxed);
    let text: &'static str = "five!";

    let (a, b, c) = (1_u8, 2_u16, 3_u8);
    let to = Arc::clone(&sum);
    let (task, _) = task_there_and_back(Task::new(move || {
        to.fetch_add(usize::from(a) + usize::from(b) + usize::from(c), Ordering::Relaxed);
    }));
    task.run();
    assert_eq!(add(0), 6);

    let bytes = [1_u8; 7]; // with the rest five words, where words are short
    let to = Arc::clone(&sum);
    let (task, words) = task_there_and_back(Task::new(move || {
        to.fetch_add(text.len() + bytes.iter().copied().map(usize::from).sum::<usize>(), Ordering::Relaxed);
    }));
    assert!(words > HEAD + 1);
    task.run();
    assert_eq!(add(0), 18);

    #[repr(align(128))]
    struct Line(u8);
    let line = Line(8);
    let to = Arc::clone(&sum);
    let (task, words) = task_there_and_back(Task::new(move || {
        let line = line; // all of it, with its alignment
        assert_eq!(ptr::from_ref(&line).addr() % 128, 0);
        to.fetch_add(usize::from(line.0), Ordering::Relaxed);
    }));
    assert_eq!(words, HEAD + 1);
    task.run();
    assert_eq!(add(0), 26);
}

#[test]
fn a_label_is_kept_with_its_task() {
    let ran = Arc::new(AtomicUsize::new(0));
    let (task, words) = task_there_and_back(adds::<2>(&ran).named("resize").with_priority(-3));
    assert_eq!(words, HEAD + 1);
    assert_eq!((task.name(), task.priority()), (Some("resize"), -3));
    task.run();
    let (task, handle) = TaskOf::new(|| 7).named("answer").into_parts();
    let (task, words) = task_there_and_back(task);
    assert_eq!((words, task.name()), (HEAD + 1, Some("answer")));
    task.run();
    assert_eq!(handle.join().unwrap(), 7);
}

#[test]
fn a_task_with_a_handle_is_still_its_half() {
    let (task, handle) = TaskOf::new(|| 7).into_parts();
    task.moves_to(41);
    assert_eq!(task.cell().expect("it has a handle").place().get(), 41);
    let (task, words) = task_there_and_back(task);
    assert_eq!(words, HEAD + 2);
    assert_eq!(handle.state(), TaskState::Pending, "being moved is not being dropped");
    task.run();
    assert_eq!(handle.join().unwrap(), 7);

    let (task, handle) = TaskOf::new(|| 7).into_parts();
    let (task, _) = task_there_and_back(task);
    drop(task);
    assert_eq!(handle.state(), TaskState::Abandoned);
}

#[test]
fn the_half_of_a_handle_comes_back_as_a_task() {
    let (half, handle) = TaskOf::bare(|| 7);
    half.moves_to(41);
    let id = half.id();
    let (task, words) = there_and_back(half, id);
    assert_eq!((task.cell().expect("it has a handle").place().get(), words), (41, HEAD + 2));
    task.run();
    assert_eq!(handle.join().unwrap(), 7);

    let (half, handle) = TaskOf::bare(|| 7);
    let id = half.id();
    drop(there_and_back(half, id));
    assert_eq!(handle.state(), TaskState::Abandoned);
}

#[test]
fn a_bare_closure_comes_back_as_a_task() {
    let ran = Arc::new(AtomicUsize::new(0));
    let to = Arc::clone(&ran);
    let words = [7_usize; WORDS - 1];
    let bare = move || {
        assert_eq!(words, [7; WORDS - 1]);
        to.fetch_add(1, Ordering::Relaxed);
    };
    let id = bare.packed_id();
    let (task, words) = there_and_back(bare, id);
    assert_eq!(words, LONGEST);
    task.run();
    assert_eq!((Arc::strong_count(&ran), ran.load(Ordering::Relaxed)), (1, 1));

    let bare = || {};
    let id = bare.packed_id();
    assert_eq!(there_and_back(bare, id).1, HEAD);
}

#[test]
fn a_closure_of_more_words_than_an_entry_has_does_not_fit() {
    fn fits<W: Pack>(_: &W) -> bool {
        W::FITS
    }
    let (longest, longer) = ([7_usize; WORDS], [7_usize; WORDS + 1]);
    assert!(fits(&move || assert_eq!(longest, [7; WORDS])));
    assert!(!fits(&move || assert_eq!(longer, [7; WORDS + 1])));
}

#[test]
fn the_end_is_one_word() {
    let mut room = Room::new(1);
    room.space().put_end();
    assert_eq!(room.entry().entry(), Entry::End);
    assert!(room.is_whole());
}

#[test]
fn any_number_of_words_is_copied() {
    for many in 0..=WORDS {
        let from: [Word; WORDS] = std::array::from_fn(|i| Word::new(i + 1));
        let mut to = [Word::new(GUARD); WORDS];
        // SAFETY: both have `WORDS` words, and they are not the same.
        unsafe { copy_words(from.as_ptr(), to.as_mut_ptr(), many) };
        for (i, word) in to.into_iter().enumerate() {
            // SAFETY: every word was initialized, and only initialized words were copied to it.
            let word = unsafe { word.assume_init() };
            assert_eq!(word, if i < many { i + 1 } else { GUARD }, "word {i} of {many}");
        }
    }
}

/// Moving such an entry out would copy only a part of it.
#[test]
#[should_panic = "has to be packed in a box"]
fn a_closure_that_needs_a_box_is_not_packed_without() {
    let longer = [7_usize; WORDS + 1];
    let task = move || assert_eq!(longer, [7; WORDS + 1]);
    let mut room = Room::new(Pack::words(&task));
    task.pack(TaskId::fresh(), room.space());
}
