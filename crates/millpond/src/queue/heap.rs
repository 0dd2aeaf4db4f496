//! [`Heap`]: a binary heap that stays consistent if a comparison panics. Stores the priority queue.
//!
//! Every operation first runs all comparisons to find the new positions, and then moves entries,
//! which cannot fail. Each operation receives the order as a function `before`, which returns true
//! if its first argument leaves the heap before its second. An inconsistent `before` gives an
//! unspecified order, but the heap itself never panics.

/// Heaps up to this capacity never release memory.
const SMALL: usize = 1024;

#[derive(Debug)]
pub(super) struct Heap<E> {
    /// Invariant: no entry comes before its parent. The parent of position `at` is `(at - 1) / 2`.
    entries: Vec<E>,
}

impl<E> Heap<E> {
    pub(super) fn new() -> Self {
        Heap { entries: Vec::new() }
    }

    pub(super) fn with_capacity(capacity: usize) -> Self {
        Heap { entries: Vec::with_capacity(capacity) }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn first(&self) -> Option<&E> {
        self.entries.first()
    }

    /// Finds the position of a new entry, which leaves before those entries for which `before`
    /// returns true. Position 0 is the head.
    pub(super) fn place_for(&self, mut before: impl FnMut(&E) -> bool) -> usize {
        let mut place = self.entries.len();
        while place > 0 && before(&self.entries[parent(place)]) {
            place = parent(place);
        }
        place
    }

    /// Inserts an entry at the position that `place_for` returned. The heap must not change between
    /// the two calls.
    pub(super) fn insert(&mut self, place: usize, entry: E) {
        let mut at = self.entries.len();
        self.entries.push(entry);
        while at > place {
            self.entries.swap(at, parent(at));
            at = parent(at);
        }
    }

    pub(super) fn pop(&mut self, before: impl FnMut(&E, &E) -> bool) -> Option<E> {
        let mut at = self.place_of_last(before);
        let mut moved = self.entries.pop()?;
        if self.entries.is_empty() {
            return Some(moved);
        }
        // The last entry moves to its new position. The entries on the path above it move up by
        // one, so that the head ends up in `moved`.
        loop {
            std::mem::swap(&mut self.entries[at], &mut moved);
            if at == 0 {
                self.give_back();
                return Some(moved);
            }
            at = parent(at);
        }
    }

    /// Finds the position that the last entry takes when the head is removed.
    fn place_of_last(&self, mut before: impl FnMut(&E, &E) -> bool) -> usize {
        let Some((last, rest)) = self.entries.split_last() else { return 0 };
        let mut hole = 0;
        loop {
            let (left, right) = (2 * hole + 1, 2 * hole + 2);
            if left >= rest.len() {
                return hole;
            }
            let first = if right < rest.len() && before(&rest[right], &rest[left]) { right } else { left };
            if !before(&rest[first], last) {
                return hole;
            }
            hole = first;
        }
    }

    /// Returns the positions of the first `limit` entries, in the order in which they would be
    /// popped.
    ///
    /// The next entry is always a child of an earlier one, so a heap of candidates suffices.
    fn order(&self, limit: usize, mut before: impl FnMut(&E, &E) -> bool) -> Vec<usize> {
        let limit = limit.min(self.len());
        let mut order = Vec::with_capacity(limit);
        let mut candidates = Heap::with_capacity(limit + 1);
        let mut sooner = |a: usize, b: usize| before(&self.entries[a], &self.entries[b]);
        if self.len() > 0 {
            candidates.insert(0, 0);
        }
        while order.len() < limit
            && let Some(at) = candidates.pop(|a, b| sooner(*a, *b))
        {
            order.push(at);
            for child in [2 * at + 1, 2 * at + 2].into_iter().filter(|child| *child < self.len()) {
                let place = candidates.place_for(|other| sooner(child, *other));
                candidates.insert(place, child);
            }
        }
        order
    }

    /// Calls `see` with the first `limit` entries, in the order in which they would be popped.
    pub(super) fn for_first(
        &self,
        limit: usize,
        before: impl FnMut(&E, &E) -> bool,
        mut see: impl FnMut(&E),
    ) {
        self.order(limit, before).into_iter().for_each(|at| see(&self.entries[at]));
    }

    /// Removes and returns all matches. Calls `matches` and returns entries in the order in which
    /// they would be popped.
    pub(super) fn remove_if(
        &mut self,
        before: impl FnMut(&E, &E) -> bool,
        mut matches: impl FnMut(&E) -> bool,
    ) -> Vec<E> {
        let order = self.order(usize::MAX, before);
        let doomed: Vec<bool> = order.iter().map(|at| matches(&self.entries[*at])).collect();
        if !doomed.contains(&true) {
            return Vec::new();
        }
        // From here on, entries only move. The result is a heap, because it is sorted.
        let mut slots: Vec<Option<E>> = self.entries.drain(..).map(Some).collect();
        let mut removed = Vec::new();
        for (at, doomed) in order.into_iter().zip(doomed) {
            let entry = slots[at].take().expect("each position comes once");
            if doomed { removed.push(entry) } else { self.entries.push(entry) }
        }
        self.give_back();
        removed
    }

    pub(super) fn take_all(&mut self) -> Vec<E> {
        std::mem::take(&mut self.entries)
    }

    fn give_back(&mut self) {
        let slots = self.entries.capacity();
        if slots > SMALL && self.entries.len() < slots / 8 {
            self.entries.shrink_to((2 * self.entries.len()).max(SMALL));
        }
    }
}

fn parent(at: usize) -> usize {
    (at - 1) / 2
}
