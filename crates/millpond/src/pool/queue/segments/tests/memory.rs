//! Memory of the segments: reuse, release, and one drop per task; and random steps.

use super::*;

#[test]
fn dropping_a_queue_drops_its_tasks_and_tells_their_handles() {
    let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
    put_all(&segments, MANY, &tally);
    let (last, handle) = tracked(MANY, &tally);
    put(&segments, last);
    (0..MANY / 3).for_each(|_| segments.pop().expect("it was put").run());
    let ids = segments.whole().ids();
    drop(segments.whole().remove(ids[ids.len() / 2], None));
    drop(segments);
    assert_eq!(handle.state(), TaskState::Abandoned);
    assert!(tally.ran().into_iter().eq(0..MANY / 3));
    tally.assert_dropped(MANY + 1);
}

/// A destructor that panics affects one task only. The rest of the queue is dropped.
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
        let bare = Bare::new(move || {
            assert_eq!(words, [token.1; 3]);
            token.run();
        });
        let Ok(bare) = bare else { panic!("five words fit") };
        ids.push(bare.id());
        segments.tail().push(bare);
    }
    assert_eq!(segments.whole().ids(), ids);
    let removed = ids.remove(MANY / 2);
    drop(segments.whole().remove(removed, None).expect("it waits"));
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
    while let Some(task) = segments.pop() {
        drop(task);
    }
    for _ in 0..WORDS {
        put(&segments, Task::new(|| {}));
        drop(segments.pop());
    }
    assert!(segments.held() as u64 <= MOST_HELD, "{} segments", segments.held());
    tally.assert_dropped(MANY);
}

/// The most tasks that one random step pushes or pops: several segments.
const MOST_AT_ONCE: usize = if cfg!(miri) { 20 } else { 700 };

/// A queue and its expected contents.
struct Modelled {
    segments: Segments,
    model: VecDeque<(TaskId, usize)>,
    tally: Tally,
    made: usize,
}

impl Modelled {
    fn put(&mut self, kind: usize) {
        let task = task(kind, self.made, &self.tally);
        self.model.push_back((task.id(), self.made));
        self.segments.tail().push(task);
        self.made += 1;
    }

    fn check(&self, task: Option<Task>, expected: Option<(TaskId, usize)>) {
        assert_eq!(task.as_ref().map(Task::id), expected.map(|(id, _)| id));
        if let (Some(task), Some((_, n))) = (task, expected)
            && n % 2 == 0
        {
            task.run();
            assert_eq!(self.tally.ran(), [n]);
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(100) {
            0..40 => self.put(rng.below(KINDS)),
            40..44 => (0..rng.below(MOST_AT_ONCE)).for_each(|_| self.put(rng.below(KINDS))),
            44..76 => {
                let popped = self.segments.pop();
                let expected = self.model.pop_front();
                self.check(popped, expected);
            }
            76..78 => {
                for _ in 0..rng.below(MOST_AT_ONCE) {
                    let popped = self.segments.pop();
                    let expected = self.model.pop_front();
                    self.check(popped, expected);
                }
            }
            78..88 if !self.model.is_empty() => {
                let at = rng.below(self.model.len());
                let (id, n) = self.model[at];
                let place = self.segments.place_of(id).expect("it waits");
                let other = self.model[rng.below(self.model.len())].0;
                assert!(other == id || self.segments.remove_at(other, place).is_none());
                assert!(self.segments.remove_at(id, place + 1 + rng.below(WORDS) as u64).is_none());
                let removed = self.segments.remove_at(id, place);
                self.model.remove(at);
                self.check(removed, Some((id, n)));
            }
            88..94 if !self.model.is_empty() => {
                let at = rng.below(self.model.len());
                let expected = self.model.remove(at);
                let removed = self.segments.whole().remove(expected.expect("it is in the model").0, None);
                self.check(removed, expected);
            }
            94 => {
                let one_in = 2 + rng.below(20);
                let unwanted: Vec<_> = self.model.iter().copied().filter(|(_, n)| n % one_in == 0).collect();
                let removed =
                    self.segments.whole().remove_if(|task| unwanted.iter().any(|(id, _)| *id == task.id()));
                self.model.retain(|(_, n)| n % one_in != 0);
                assert_eq!(removed.len(), unwanted.len());
                removed.into_iter().zip(unwanted).for_each(|(task, what)| self.check(Some(task), Some(what)));
            }
            _ if self.segments.has_surplus() => drop(self.segments.whole().trim()),
            _ => {}
        }
        assert_eq!(self.segments.put() - self.segments.gone(), self.model.len() as u64);
        assert!(!self.segments.is_empty() || self.model.is_empty());
    }
}

#[test]
fn random_steps_give_what_a_simple_queue_gives() {
    let seeds = if cfg!(miri) { 2 } else { 8 };
    for seed in 0..seeds {
        let mut rng = Rng(seed);
        let (segments, tally) = (Segments::new(u64::MAX), Tally::default());
        let mut modelled = Modelled { segments, model: VecDeque::new(), tally, made: 0 };
        for step in 0..if cfg!(miri) { 100 } else { 3000 } {
            modelled.step(&mut rng);
            if step % 64 == 0 {
                assert!(
                    modelled.segments.whole().ids().into_iter().eq(modelled.model.iter().map(|(id, _)| *id))
                );
            }
        }
        let Modelled { segments, tally, made, .. } = modelled;
        drop(segments);
        tally.assert_dropped(made);
    }
}
