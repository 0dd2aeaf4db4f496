//! [`TaskInfo`]: the id, name, priority and due time of a task.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use super::TaskId;
use super::propagated::Propagated;
use crate::sync::{Arc, deadline_after};
use crate::time::clock::Tick;

/// The optional attributes. Most tasks have none, so they live behind a pointer.
#[derive(Debug, Clone, Default)]
struct Label {
    name: Option<Cow<'static, str>>,
    priority: i32,
    due: Option<Instant>,
    /// When a pool with a limited queue time accepted the task.
    queued_at: Option<Tick>,
    /// The context of the thread that submitted the task.
    context: Option<Propagated>,
}

/// The description of a task that hooks receive.
#[derive(Debug, Clone)]
pub struct TaskInfo {
    id: TaskId,
    label: Option<Arc<Label>>,
}

impl TaskInfo {
    /// Returns the id of the task.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Returns the name of the task, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.label.as_ref()?.name.as_deref()
    }

    /// Returns the priority of the task. Default: 0.
    pub fn priority(&self) -> i32 {
        self.label.as_ref().map_or(0, |label| label.priority)
    }

    /// Creates the info of a new task without attributes.
    #[inline]
    pub(crate) fn fresh() -> TaskInfo {
        TaskInfo::of(TaskId::fresh())
    }

    /// Creates the info of the task `id`, without attributes.
    #[inline]
    pub(crate) fn of(id: TaskId) -> TaskInfo {
        TaskInfo { id, label: None }
    }

    /// Returns true if the task has any attribute.
    #[inline]
    pub(crate) fn has_label(&self) -> bool {
        self.label.is_some()
    }

    /// Replaces the id.
    pub(crate) fn set_id(&mut self, id: TaskId) {
        self.id = id;
    }

    pub(crate) fn set_name(&mut self, name: Cow<'static, str>) {
        self.label_mut().name = Some(name);
    }

    pub(super) fn set_priority(&mut self, priority: i32) {
        self.label_mut().priority = priority;
    }

    /// Makes the task due `delay` from now. If no `Instant` can represent that, it is due in 100
    /// years.
    pub(super) fn set_delay(&mut self, delay: Duration) {
        const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let due = deadline_after(delay).or_else(|| deadline_after(FAR)).unwrap_or_else(Instant::now);
        self.label_mut().due = Some(due);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.label.as_ref()?.due
    }

    pub(super) fn set_queued_at(&mut self, now: Tick) {
        self.label_mut().queued_at = Some(now);
    }

    pub(super) fn queued_at(&self) -> Option<Tick> {
        self.label.as_ref()?.queued_at
    }

    #[inline]
    pub(super) fn context(&self) -> Option<&Propagated> {
        self.label.as_ref()?.context.as_ref()
    }

    pub(super) fn set_context(&mut self, context: Propagated) {
        self.label_mut().context = Some(context);
    }

    /// Returns the same info without a context. An info that outlives its task must not keep the
    /// context, which is user code.
    pub(crate) fn without_context(&self) -> TaskInfo {
        let mut info = self.clone();
        if info.context().is_some() {
            info.label_mut().context = None;
        }
        info
    }

    fn label_mut(&mut self) -> &mut Label {
        Arc::make_mut(self.label.get_or_insert_default())
    }
}
