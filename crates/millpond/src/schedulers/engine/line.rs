//! A queue whose entries can be taken out of the middle: what waits for a slot's thread, or for its turn in a lane.

use std::collections::VecDeque;

/// Entries with their places, which grow from front to back and are used once.
///
/// An entry that is taken out of the middle leaves a gap. The first one is never a gap, and if there are many of them
/// they are closed. What a large burst needed is given back when the last of it has left.
#[derive(Debug)]
pub(super) struct SlotQueue<T> {
    entries: VecDeque<(u64, Option<T>)>,
    /// Entries that are no gaps.
    count: usize,
}

/// Room for so many is kept when the line is empty.
const KEPT: usize = 1024;

impl<T> SlotQueue<T> {
    pub(super) fn new() -> Self {
        SlotQueue { entries: VecDeque::new(), count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts `item` at the end; `place` is larger than all before it.
    pub(super) fn push(&mut self, place: u64, item: T) {
        self.entries.push_back((place, Some(item)));
        self.count += 1;
    }

    pub(super) fn first(&self) -> Option<(u64, &T)> {
        let (place, item) = self.entries.front()?;
        Some((*place, item.as_ref().expect("the first is no gap")))
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let (_, item) = self.entries.pop_front()?;
        self.left();
        Some(item.expect("the first is no gap"))
    }

    /// Takes out what is at `place`: what was put there, or nothing.
    pub(super) fn remove(&mut self, place: u64) -> Option<T> {
        let at = self.entries.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        let item = self.entries[at].1.take()?;
        self.left();
        if self.entries.len() > 32 && self.count * 2 < self.entries.len() {
            self.entries.retain(|(_, item)| item.is_some());
        }
        Some(item)
    }

    fn left(&mut self) {
        self.count -= 1;
        while matches!(self.entries.front(), Some((_, None))) {
            self.entries.pop_front();
        }
        if self.count == 0 && self.entries.capacity() > KEPT {
            self.entries = VecDeque::new();
        }
    }

    /// All with their places, from the front.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.entries.iter().filter_map(|(place, item)| Some((*place, item.as_ref()?)))
    }

    /// Takes all out.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.count = 0;
        std::mem::take(&mut self.entries).into_iter().filter_map(|(_, item)| item)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::SlotQueue;

    #[test]
    fn gaps_are_skipped_and_closed() {
        let mut line = SlotQueue::new();
        (0..100).for_each(|place| line.push(place, place));
        assert_eq!((line.remove(0), line.remove(0), line.remove(1000)), (Some(0), None, None));
        assert_eq!(line.first(), Some((1, &1)));
        (0..100).filter(|place| place % 10 != 5).for_each(|place| {
            line.remove(place);
        });
        assert_eq!(line.len(), 10);
        assert!(line.entries.len() <= 32, "{} entries for 10", line.entries.len());
        assert_eq!(line.iter().map(|(place, _)| place).collect::<Vec<_>>().len(), 10);
        assert_eq!((line.pop(), line.remove(15), line.pop()), (Some(5), Some(15), Some(25)));
        assert_eq!(line.take_all().collect::<Vec<_>>(), [35, 45, 55, 65, 75, 85, 95]);
        assert!(line.is_empty() && line.pop().is_none());
    }
}
