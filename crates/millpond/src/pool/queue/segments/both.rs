//! Operations that need both ends of the queue: reading all tasks, and removing tasks in the
//! middle.

use super::{BothGuard, Entries, SPARE, Unused};
use crate::task::{Entry, PackedTask, Task, TaskId, TaskInfo};

impl BothGuard<'_> {
    /// Returns the tasks from the first to the last, with their positions and ids.
    pub(super) fn tasks(&self) -> impl Iterator<Item = (u64, PackedTask, TaskId)> {
        Entries::from(self, 0).filter_map(|(position, entry)| match entry.entry() {
            Entry::Task(id) => Some((position, entry, id)),
            _ => None,
        })
    }

    /// Returns the tasks among the first `limit` entries, with their positions.
    pub(in super::super) fn first_tasks(&self, limit: usize) -> impl Iterator<Item = (TaskInfo, u64)> {
        let entries = Entries::from(self, 0).take(limit);
        entries.filter_map(|(position, entry)| Some((entry.info()?, position)))
    }

    /// Returns the number of tombstones between the tasks.
    pub(in super::super) fn tombstones(&self) -> u64 {
        self.head.head.tombstones
    }

    /// Returns the ids of all tasks.
    pub(in super::super) fn ids(&self) -> Vec<TaskId> {
        self.tasks().map(|(_, _, id)| id).collect()
    }

    /// Removes the task `id`, if it is at `place`.
    ///
    /// `place` may come from another queue, and may point into the middle of an entry here. So it
    /// is valid only if iteration from the start of its segment reaches it.
    pub(in super::super) fn remove_at(&mut self, id: TaskId, place: u64) -> Option<Task> {
        let (_, entry) = Entries::from(self, place)
            .take_while(|(position, _)| *position <= place)
            .find(|(position, _)| *position == place)?;
        if entry.entry() == Entry::Task(id) { self.take(entry) } else { None }
    }

    /// Removes the task `id` at any position.
    pub(in super::super) fn remove(&mut self, id: TaskId) -> Option<Task> {
        let (_, task, _) = self.tasks().find(|(_, _, other)| *other == id)?;
        self.take(task)
    }

    fn take(&mut self, task: PackedTask) -> Option<Task> {
        self.head.count_gone(1);
        let task = task.remove();
        self.head.head.tombstones += 1;
        self.head.first_task();
        task
    }

    /// Removes all tasks that `unwanted` accepts, and returns them in order. The other tasks move
    /// to the tail, so the tombstones between them disappear. `moved` receives the positions of the
    /// head and of the tail before each move.
    pub(in super::super) fn remove_if(
        &mut self,
        unwanted: impl Fn(&Task) -> bool,
        mut moved: impl FnMut(u64, u64),
    ) -> Vec<Task> {
        let mut removed = Vec::new();
        let waiting = self.tail.all.put() - self.tail.all.gone();
        for _ in 0..waiting {
            let (mut next, from) = (None, self.head.position());
            self.head.next(&mut next);
            let Some(task) = next else { break };
            if unwanted(&task) {
                removed.push(task);
            } else {
                moved(from, self.tail.end());
                self.tail.append(task.id(), task);
            }
        }
        self.head.count_gone(removed.len() as u64);
        removed
    }

    /// Removes surplus segments from the chain.
    pub(in super::super) fn trim(&mut self) -> Unused {
        self.tail.take_unused(SPARE)
    }
}
