//! [`WaitList`]: a list of waiting threads, from which any entry can be removed in constant time.

/// The place of an entry in its [`WaitList`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    slot: u32,
    /// Unique within the list, in order of arrival.
    number: u64,
}

/// Entries in order of arrival, guarded by a lock of the owner. Removing an entry at any position
/// takes constant time.
///
/// A doubly linked list inside a vector. [`END`] stands for the list itself: its `next` is the
/// oldest entry and its `previous` is the newest, which closes the links to a ring.
#[derive(Debug)]
pub(crate) struct WaitList<E> {
    slots: Vec<Slot<E>>,
    ends: Links,
    /// The first unused slot. Unused slots are linked by `next`.
    unused: u32,
    len: usize,
    last_number: u64,
    /// The number of links followed or changed so far.
    #[cfg(test)]
    steps: usize,
}

#[derive(Debug)]
struct Slot<E> {
    /// `None` if the slot is unused.
    entry: Option<E>,
    number: u64,
    links: Links,
}

#[derive(Debug, Clone, Copy)]
struct Links {
    previous: u32,
    next: u32,
}

const END: u32 = u32::MAX;

/// An empty list keeps memory for at most this many entries.
const KEEP: usize = 64;

impl<E> Default for WaitList<E> {
    fn default() -> Self {
        WaitList::new()
    }
}

impl<E> WaitList<E> {
    pub(crate) const fn new() -> Self {
        WaitList {
            slots: Vec::new(),
            ends: Links { previous: END, next: END },
            unused: END,
            len: 0,
            last_number: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry as the newest one.
    pub(crate) fn push(&mut self, entry: E) -> Key {
        self.last_number += 1;
        self.insert_before(END, self.last_number, entry)
    }

    /// Adds an entry again, at its old position in the order of arrival. Takes time proportional to
    /// the number of older entries.
    pub(crate) fn rejoin(&mut self, key: Key, entry: E) -> Key {
        let mut at = self.links(END).next;
        while at != END && self.slots[at as usize].number < key.number {
            at = self.links(at).next;
        }
        self.insert_before(at, key.number, entry)
    }

    /// Removes an entry. Returns `None` if it is no longer in the list.
    pub(crate) fn remove(&mut self, key: Key) -> Option<E> {
        if self.contains(key) { self.unlink(key.slot) } else { None }
    }

    pub(crate) fn contains(&self, key: Key) -> bool {
        let slot = self.slots.get(key.slot as usize);
        slot.is_some_and(|slot| slot.entry.is_some() && slot.number == key.number)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut E> {
        let slot = self.slots.get_mut(key.slot as usize).filter(|slot| slot.number == key.number)?;
        slot.entry.as_mut()
    }

    /// Returns the oldest entry.
    pub(crate) fn first(&self) -> Option<&E> {
        self.slots.get(self.ends.next as usize)?.entry.as_ref()
    }

    /// Returns the key of the oldest entry.
    pub(crate) fn first_key(&self) -> Option<Key> {
        let slot = self.ends.next;
        Some(Key { slot, number: self.slots.get(slot as usize)?.number })
    }

    pub(crate) fn pop_first(&mut self) -> Option<E> {
        self.unlink(self.ends.next)
    }

    pub(crate) fn pop_last(&mut self) -> Option<E> {
        self.unlink(self.ends.previous)
    }

    /// Removes the oldest entry for which `wanted` returns true.
    pub(crate) fn take_first(&mut self, mut wanted: impl FnMut(&E) -> bool) -> Option<E> {
        let mut at = self.links(END).next;
        while !self.slots.get(at as usize)?.entry.as_ref().is_some_and(&mut wanted) {
            at = self.links(at).next;
        }
        self.unlink(at)
    }

    /// Removes the newest entry for which `wanted` returns true.
    pub(crate) fn take_last(&mut self, mut wanted: impl FnMut(&E) -> bool) -> Option<E> {
        let mut at = self.links(END).previous;
        while !self.slots.get(at as usize)?.entry.as_ref().is_some_and(&mut wanted) {
            at = self.links(at).previous;
        }
        self.unlink(at)
    }

    /// Removes all entries for which `wanted` returns true, oldest first.
    pub(crate) fn take_all(&mut self, mut wanted: impl FnMut(&E) -> bool) -> Vec<E> {
        let mut taken = Vec::new();
        let mut at = self.links(END).next;
        while at != END {
            let next = self.links(at).next;
            if self.slots[at as usize].entry.as_ref().is_some_and(&mut wanted) {
                taken.extend(self.unlink(at));
            }
            at = next;
        }
        taken
    }

    /// Returns the number of the entry that was added last, even if it has left.
    pub(crate) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Removes all entries with a number up to `number`, oldest first.
    pub(crate) fn take_up_to(&mut self, number: u64) -> Vec<E> {
        let mut taken = Vec::new();
        while self.first_key().is_some_and(|first| first.number <= number) {
            taken.extend(self.pop_first());
        }
        taken
    }

    /// Returns all entries, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        let mut at = self.ends.next;
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.links.next;
            slot.entry.as_ref()
        })
    }

    fn links(&mut self, at: u32) -> &mut Links {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        if at == END { &mut self.ends } else { &mut self.slots[at as usize].links }
    }

    fn insert_before(&mut self, next: u32, number: u64, entry: E) -> Key {
        let previous = self.links(next).previous;
        let new = Slot { entry: Some(entry), number, links: Links { previous, next } };
        let slot = self.unused;
        let slot = if slot == END {
            self.slots.push(new);
            (self.slots.len() - 1) as u32
        } else {
            self.unused = self.links(slot).next;
            self.slots[slot as usize] = new;
            slot
        };
        self.links(previous).next = slot;
        self.links(next).previous = slot;
        self.len += 1;
        Key { slot, number }
    }

    /// Removes the entry of a slot. Returns `None` for [`END`].
    fn unlink(&mut self, at: u32) -> Option<E> {
        let slot = self.slots.get_mut(at as usize)?;
        let entry = slot.entry.take()?;
        let Links { previous, next } = slot.links;
        self.links(previous).next = next;
        self.links(next).previous = previous;
        self.links(at).next = std::mem::replace(&mut self.unused, at);
        self.len -= 1;
        if self.len == 0 && self.slots.len() > KEEP {
            self.slots = Vec::new();
            self.unused = END;
        }
        Some(entry)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn all<E: Copy>(list: &WaitList<E>) -> Vec<E> {
        list.iter().copied().collect()
    }

    #[test]
    fn entries_leave_from_both_ends_and_from_the_middle() {
        let mut list = WaitList::new();
        let keys: Vec<Key> = (0..6).map(|n| list.push(n)).collect();
        assert_eq!((list.pop_first(), list.pop_last()), (Some(0), Some(5)));
        assert_eq!(list.remove(keys[2]), Some(2));
        assert_eq!((list.first(), all(&list), list.len()), (Some(&1), vec![1, 3, 4], 3));
        assert_eq!(list.take_first(|n| n % 2 == 0), Some(4));
        assert_eq!(list.take_last(|n| *n < 3), Some(1));
        assert_eq!(list.take_last(|n| *n < 3), None);
        assert_eq!(list.take_all(|_| true), [3]);
        assert!(list.is_empty() && list.pop_first().is_none() && list.pop_last().is_none());
    }

    #[test]
    fn a_key_is_valid_for_its_own_entry_only() {
        let mut list = WaitList::new();
        let old = list.push('a');
        assert_eq!(list.pop_first(), Some('a'));
        let new = list.push('b');
        assert_eq!(old.slot, new.slot, "the slot is reused");
        assert_eq!((list.remove(old), list.contains(old), list.contains(new)), (None, false, true));
        assert_eq!(list.get_mut(old), None);
        assert_eq!(list.get_mut(new), Some(&mut 'b'));
        assert_eq!(list.remove(new), Some('b'));
    }

    #[test]
    fn an_entry_that_rejoins_is_at_its_old_place() {
        let mut list = WaitList::new();
        let keys: Vec<Key> = (0..4).map(|n| list.push(n)).collect();
        assert_eq!((list.pop_first(), list.pop_first()), (Some(0), Some(1)));
        let again = [list.rejoin(keys[1], 1), list.rejoin(keys[0], 0)];
        assert_eq!(all(&list), [0, 1, 2, 3]);
        list.push(4);
        assert_eq!((list.remove(again[0]), list.remove(again[1])), (Some(1), Some(0)));
        assert_eq!(all(&list), [2, 3, 4]);
    }

    #[test]
    fn removing_takes_the_same_number_of_steps_for_any_length() {
        let steps_of_leaving = |entries: usize| {
            let mut list = WaitList::new();
            let mut keys: Vec<Key> = (0..entries).map(|n| list.push(n)).collect();
            let steps = list.steps;
            // Every third entry first, then the others from the newest to the oldest.
            keys.iter().step_by(3).for_each(|key| _ = list.remove(*key).expect("not removed yet"));
            keys.retain(|key| list.contains(*key));
            keys.into_iter().rev().for_each(|key| _ = list.remove(key).expect("not removed yet"));
            assert!(list.is_empty() && list.slots.capacity() == 0, "the memory is given back");
            list.steps - steps
        };
        assert_eq!(steps_of_leaving(12_000), 4 * steps_of_leaving(3_000));
    }
}
