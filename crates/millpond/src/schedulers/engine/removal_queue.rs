//! [`RemovalQueue`]: a FIFO queue whose entries can be removed from the middle.
//!
//! A removed entry leaves a tombstone. Tombstones at both ends are dropped at once, all others as
//! soon as they outnumber the entries. So a removal takes O(log n), amortized.

use std::collections::VecDeque;

/// Entries in order of their places. Places increase from front to back and are never reused.
#[derive(Debug)]
pub(super) struct RemovalQueue<T> {
    /// `None` is a tombstone. Neither the first nor the last entry is one.
    entries: VecDeque<(u64, Option<T>)>,
    /// The number of entries, tombstones excluded.
    len: usize,
}

/// An empty queue keeps its memory up to this capacity, in entries.
const KEEP: usize = 1024;

impl<T> RemovalQueue<T> {
    pub(super) fn new() -> Self {
        RemovalQueue { entries: VecDeque::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends `item`. `place` must be larger than all places pushed before.
    pub(super) fn push(&mut self, place: u64, item: T) {
        self.entries.push_back((place, Some(item)));
        self.len += 1;
    }

    pub(super) fn first_place(&self) -> Option<u64> {
        self.entries.front().map(|(place, _)| *place)
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.entries.front()?.1.as_ref()
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let (_, item) = self.entries.pop_front()?;
        self.after_removal();
        Some(item.expect("the first entry is no tombstone"))
    }

    /// Removes the entry at `place`. Returns `None` if it is gone.
    pub(super) fn remove(&mut self, place: u64) -> Option<T> {
        let at = self.entries.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        let item = self.entries[at].1.take()?;
        self.after_removal();
        if self.entries.len() > 32 && self.len * 2 < self.entries.len() {
            self.entries.retain(|(_, item)| item.is_some());
        }
        Some(item)
    }

    fn after_removal(&mut self) {
        self.len -= 1;
        while matches!(self.entries.front(), Some((_, None))) {
            self.entries.pop_front();
        }
        while matches!(self.entries.back(), Some((_, None))) {
            self.entries.pop_back();
        }
        if self.len == 0 && self.entries.capacity() > KEEP {
            self.entries = VecDeque::new();
        }
    }

    /// Iterates over all places from the front, with `None` for tombstones.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Option<&T>)> {
        self.entries.iter().map(|(place, item)| (*place, item.as_ref()))
    }

    /// Iterates over the entries from the front.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.entries.iter().filter_map(|(_, item)| item.as_ref())
    }

    /// Finds an entry for which `selected` returns true, searching from both ends alternately. So
    /// both the newest and the oldest entries are found soon.
    pub(super) fn find(&self, selected: impl Fn(&T) -> bool) -> Option<&T> {
        let mut entries = self.iter();
        while let Some(newest) = entries.next_back() {
            let found = Some(newest).filter(|item| selected(item));
            let found = found.or_else(|| entries.next().filter(|item| selected(item)));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Removes and returns all entries.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.len = 0;
        std::mem::take(&mut self.entries).into_iter().filter_map(|(_, item)| item)
    }

    /// Removes and returns the entries for which `selected` returns true.
    pub(super) fn take_if(&mut self, selected: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for (place, item) in std::mem::take(&mut self.entries) {
            match item {
                Some(item) if selected(&item) => taken.push(item),
                Some(item) => self.entries.push_back((place, Some(item))),
                None => {}
            }
        }
        self.len = self.entries.len();
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::RemovalQueue;

    #[test]
    fn tombstones_are_skipped_and_dropped() {
        let mut queue = RemovalQueue::new();
        (0..100).for_each(|place| queue.push(place, place));
        assert_eq!((queue.remove(0), queue.remove(0), queue.remove(1000)), (Some(0), None, None));
        assert_eq!(queue.first_place(), Some(1));
        (0..100).filter(|place| place % 10 != 5).for_each(|place| {
            queue.remove(place);
        });
        assert_eq!(queue.len(), 10);
        assert!(queue.entries.len() <= 32, "{} entries for 10", queue.entries.len());
        assert_eq!(queue.iter().count(), 10);
        assert!((0..100).all(|place| queue.find(|item| *item == place).is_some() == (place % 10 == 5)));
        assert_eq!((queue.pop(), queue.remove(15), queue.pop()), (Some(5), Some(15), Some(25)));
        assert_eq!(queue.take_if(|item| *item > 60), [65, 75, 85, 95]);
        assert_eq!((queue.len(), queue.remove(65), queue.first_place()), (3, None, Some(35)));
        assert_eq!(queue.take_all().collect::<Vec<_>>(), [35, 45, 55]);
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    /// So `find` looks at no tombstone if the entries are removed in one direction.
    #[test]
    fn no_tombstone_is_left_at_either_end() {
        let mut queue = RemovalQueue::new();
        (0..100).for_each(|place| queue.push(place, place));
        for place in 0..49 {
            assert_eq!((queue.remove(99 - place), queue.remove(place)), (Some(99 - place), Some(place)));
            assert_eq!(queue.entries.len(), queue.len());
        }
    }
}
