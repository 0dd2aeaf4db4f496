//! Random steps on a queue, compared with a simple model.

use super::*;

/// A generator of random numbers that are the same in every run.
pub(in crate::pool) struct Rng(pub(in crate::pool) u64);

impl Rng {
    pub(in crate::pool) fn below(&mut self, bound: usize) -> usize {
        // The constants are those of a linear congruential generator with a full period; the upper
        // bits are used.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }
}

/// The most tasks that are put or taken in one step: several segments full.
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
        self.segments.tail().push(task.id(), task);
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
                let removed = self.segments.whole().remove(expected.expect("it is in the model").0);
                self.check(removed, expected);
            }
            94 => {
                let one_in = 2 + rng.below(20);
                let unwanted: Vec<_> = self.model.iter().copied().filter(|(_, n)| n % one_in == 0).collect();
                let removed = self
                    .segments
                    .whole()
                    .remove_if(|task| unwanted.iter().any(|(id, _)| *id == task.id()), |_, _| {});
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
