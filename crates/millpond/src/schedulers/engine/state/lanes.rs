//! The lanes of a scheduler, and the jobs in each.
//!
//! A lane is a worker, or a periodic task without one.

use crate::interrupt::wait::WaitCell;
use crate::schedulers::engine::lane_queue::LaneQueue;
use crate::schedulers::engine::model::{LaneRef, Permit, SlotRef, Waits};
use crate::schedulers::job::{JobRef, Location};
use crate::sync::Arc;
use crate::task::TaskId;
use crate::time::clock::{Clock, Tick};
use crate::time::heap::{Key, TimerQueue};

/// What a lane does.
///
/// ```text
/// Idle    -> Queued   a job is due
/// Queued  -> Running  a thread has taken the first job
/// Queued  -> Idle     the jobs that were due have been cancelled
/// Running -> Idle     the job has ended
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LanePhase {
    Idle,
    Queued,
    Running,
}

/// One lane.
#[derive(Debug)]
pub(super) struct LaneCell {
    /// The slot whose capacity it uses, and where it runs if work may not move.
    home: SlotRef,
    /// Keeps the home slot. Taken when the lane is removed.
    permit: Option<Permit>,
    phase: LanePhase,
    /// Its place in the queues while it is queued.
    place: Option<u64>,
    /// The jobs that came without a delay and before all in `later`, and the job that runs. No
    /// clock is needed to know that these are due.
    queue: Arc<LaneQueue>,
    /// All other jobs, due or not.
    later: TimerQueue<JobRef>,
    /// The last number given to a job in `later`.
    last_number: u64,
    /// It has or had a periodic job, whose next run may be due before a job that came meanwhile. So
    /// all its jobs go to `later`.
    by_time: bool,
    /// When the running job of `later` was due.
    due: Tick,
    /// Its entry among the timers while it is idle and has jobs.
    timer: Option<Key>,
    /// Accepts nothing more, and runs what it has.
    is_finishing: bool,
    /// Accepts nothing more, and has nothing except perhaps a run under way.
    is_closed: bool,
    /// Its index in [`Lanes::unsettled`].
    listed: Option<usize>,
    /// Jobs in the lane that threads of this scheduler wait for. The lane may be queued for one of
    /// those threads, so they are notified when it is queued: each can run the jobs before its own.
    awaited: Vec<JobRef>,
}

impl LaneCell {
    fn new(permit: Permit, is_finishing: bool) -> LaneCell {
        LaneCell {
            home: permit.slot(),
            permit: Some(permit),
            phase: LanePhase::Idle,
            place: None,
            queue: LaneQueue::new(),
            later: TimerQueue::new(),
            last_number: 0,
            by_time: false,
            due: Tick::from_nanos(0),
            timer: None,
            is_finishing,
            is_closed: false,
            listed: None,
            awaited: Vec::new(),
        }
    }

    pub(super) fn home(&self) -> SlotRef {
        self.home
    }

    pub(super) fn queue(&self) -> &Arc<LaneQueue> {
        &self.queue
    }

    // ---- phase

    pub(super) fn phase(&self) -> LanePhase {
        self.phase
    }

    pub(super) fn set_phase(&mut self, phase: LanePhase) {
        self.phase = phase;
    }

    /// Its run has ended.
    pub(super) fn stop(&mut self) {
        self.queue.stop();
        self.phase = LanePhase::Idle;
    }

    pub(super) fn set_place(&mut self, place: u64) {
        self.place = Some(place);
    }

    pub(super) fn take_place(&mut self) -> Option<u64> {
        self.place.take()
    }

    pub(super) fn set_timer(&mut self, timer: Key) {
        self.timer = Some(timer);
    }

    pub(super) fn take_timer(&mut self) -> Option<Key> {
        self.timer.take()
    }

    // ---- its end

    pub(super) fn accepts(&self) -> bool {
        !self.is_closed && !self.is_finishing
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns false if it was closed before.
    pub(super) fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.is_closed, true)
    }

    pub(super) fn finish(&mut self) {
        self.is_finishing = true;
    }

    // ---- jobs

    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.later.len()
    }

    /// Returns true if no job needs the clock to be ordered.
    pub(super) fn is_in_order_of_arrival(&self) -> bool {
        !self.by_time && self.later.is_empty()
    }

    /// Adds a job.
    pub(super) fn add(&mut self, lane: LaneRef, job: &JobRef, waits: Waits, clock: &Clock) {
        self.by_time |= job.is_periodic();
        if job.is_periodic() && job.is_awaited() {
            self.add_awaited(job); // registered during a run, when the job was not in the lane
        }
        let due = match waits {
            Waits::Accepted(since) if self.is_in_order_of_arrival() => {
                return self.queue.push(lane.index, job, since);
            }
            Waits::Accepted(_) => clock.tick(),
            Waits::Due(due) => due,
        };
        self.queue.shut();
        self.last_number += 1;
        let key = self.later.insert(due, self.last_number, job.clone());
        job.set_location(Location::Later(lane.index, key));
    }

    pub(super) fn remove(&mut self, location: Location) -> Option<JobRef> {
        match location {
            Location::Ready(_, place) => self.queue.remove(place),
            Location::Later(_, key) => self.later.remove(key),
            _ => None,
        }
    }

    /// Starts the first job that is due. Also returns since when it waits, and whether more jobs
    /// are ready.
    pub(super) fn start_due(&mut self, clock: &Clock) -> Option<(JobRef, Tick, bool)> {
        let (later, due) = (&mut self.later, &mut self.due);
        self.queue.start(|| {
            later.first_due()?; // no look at the clock without need
            let (was_due, _, job) = later.pop_due(clock.tick())?;
            *due = was_due;
            Some((job, was_due))
        })
    }

    /// Since when the first job waits, if it is due by `now`.
    pub(super) fn first_since(&self, now: Tick) -> Option<Tick> {
        self.queue.first_since().or_else(|| self.later.first_due().filter(|due| *due <= now))
    }

    pub(super) fn has_due(&self, clock: &Clock) -> bool {
        self.queue.has_ready() || self.later.first_due().is_some_and(|due| due <= clock.tick())
    }

    /// When the first job of `later` is due.
    pub(super) fn next_due(&self) -> Option<Tick> {
        self.later.first_due()
    }

    /// The jobs of `later` with their due times, the first one first.
    pub(super) fn later(&self) -> impl Iterator<Item = (Tick, &JobRef)> {
        self.later.iter()
    }

    /// When the running periodic job was due.
    pub(super) fn was_due(&self) -> Tick {
        self.due
    }

    pub(super) fn take_all(&mut self) -> Vec<JobRef> {
        let mut all: Vec<_> = self.queue.take_all().collect();
        all.extend(std::iter::from_fn(|| self.later.pop().map(|(_, _, job)| job)));
        all
    }

    pub(super) fn take_periodic(&mut self) -> Vec<JobRef> {
        self.later.remove_if(|job| job.is_periodic())
    }

    pub(super) fn find_task(&self, id: TaskId) -> Option<JobRef> {
        self.queue.find_task(id).or_else(|| self.later.find(|job| job.is_of(id)).cloned())
    }

    // ---- waiting threads

    /// Notifies the waiters of `job` when the lane is queued. Forgets jobs without waiters, so
    /// there are never more of them than waiting threads.
    pub(super) fn add_awaited(&mut self, job: &JobRef) {
        self.awaited.retain(|known| known.is_awaited() && !known.is(job));
        self.awaited.push(job.clone());
    }

    /// The lane is queued. A waiter that has to wait on registers again.
    pub(super) fn notify_awaiting(&mut self, wake: &mut Vec<Arc<WaitCell>>) {
        self.awaited.drain(..).for_each(|job| job.became_startable(wake));
    }
}

/// All lanes that are not closed or that still run.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// With the generation of the lane that is or was there.
    entries: Vec<(u32, Option<Box<LaneCell>>)>,
    free: Vec<u32>,
    /// The jobs in [`LaneCell::later`] of all lanes.
    later: usize,
    /// Lanes that may have something to settle: they accept jobs without the scheduler's lock, or
    /// run several jobs in a row.
    unsettled: Vec<LaneRef>,
    /// Lanes whose job runs inside a task that waits for it, on the thread of another slot.
    in_place: Vec<LaneRef>,
}

impl Lanes {
    pub(super) fn add(&mut self, permit: Permit, is_finishing: bool) -> LaneRef {
        let cell = Some(Box::new(LaneCell::new(permit, is_finishing)));
        let Some(index) = self.free.pop() else {
            let index = u32::try_from(self.entries.len()).ok().filter(|index| *index != u32::MAX);
            let index = index.expect("fewer than 2^32 - 1 lanes fit into memory");
            self.entries.push((0, cell));
            return LaneRef { index, generation: 0 };
        };
        let entry = &mut self.entries[index as usize];
        *entry = (entry.0.wrapping_add(1), cell);
        LaneRef { index, generation: entry.0 }
    }

    pub(super) fn get(&self, lane: LaneRef) -> Option<&LaneCell> {
        let (generation, cell) = self.entries.get(lane.index as usize)?;
        cell.as_deref().filter(|_| *generation == lane.generation)
    }

    pub(super) fn get_mut(&mut self, lane: LaneRef) -> Option<&mut LaneCell> {
        let (generation, cell) = self.entries.get_mut(lane.index as usize)?;
        cell.as_deref_mut().filter(|_| *generation == lane.generation)
    }

    /// Calls `change`, which may add or remove jobs of a lane.
    pub(super) fn change<R>(&mut self, lane: LaneRef, change: impl FnOnce(&mut LaneCell) -> R) -> Option<R> {
        let cell = self.get_mut(lane)?;
        let before = cell.later.len();
        let changed = change(cell);
        let after = cell.later.len();
        self.later = self.later + after - before;
        Some(changed)
    }

    /// The number of jobs that came with a delay, are periodic, or came behind such a one.
    pub(super) fn later(&self) -> usize {
        self.later
    }

    /// The lane with this index.
    pub(super) fn at(&self, index: u32) -> Option<LaneRef> {
        let (generation, cell) = self.entries.get(index as usize)?;
        cell.as_ref().map(|_| LaneRef { index, generation: *generation })
    }

    pub(super) fn all(&self) -> Vec<LaneRef> {
        (0..self.entries.len()).filter_map(|index| self.at(index as u32)).collect()
    }

    /// Removes a lane and returns its permit.
    pub(super) fn remove(&mut self, lane: LaneRef) -> Option<Permit> {
        let permit = self.get_mut(lane)?.permit.take();
        self.mark_settled(lane);
        self.entries[lane.index as usize].1 = None;
        self.free.push(lane.index);
        permit
    }

    // ---- runs in place

    pub(super) fn in_place(&self) -> impl Iterator<Item = LaneRef> {
        self.in_place.iter().copied()
    }

    pub(super) fn begin_in_place(&mut self, lane: LaneRef) {
        self.in_place.push(lane);
    }

    pub(super) fn end_in_place(&mut self, lane: LaneRef) {
        self.in_place.retain(|running| *running != lane);
    }

    // ---- settling

    pub(super) fn mark_unsettled(&mut self, lane: LaneRef) {
        let place = self.unsettled.len();
        let Some(cell) = self.get_mut(lane) else { return };
        if cell.listed.is_none() {
            cell.listed = Some(place);
            self.unsettled.push(lane);
        }
    }

    pub(super) fn mark_settled(&mut self, lane: LaneRef) {
        let Some(place) = self.get_mut(lane).and_then(|cell| cell.listed.take()) else { return };
        self.unsettled.swap_remove(place);
        let moved = self.unsettled.get(place).copied();
        if let Some(cell) = moved.and_then(|moved| self.get_mut(moved)) {
            cell.listed = Some(place);
        }
    }

    pub(super) fn unsettled(&self) -> &[LaneRef] {
        &self.unsettled
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn lane(lanes: &mut Lanes) -> LaneRef {
        lanes.add(Permit::new(SlotRef { index: 0, id: 0 }), false)
    }

    fn assert_each_knows_its_place(lanes: &Lanes, listed: &[LaneRef]) {
        assert_eq!(lanes.unsettled.len(), listed.len());
        for lane in listed {
            let place = lanes.get(*lane).expect("it is there").listed.expect("it is listed");
            assert_eq!(lanes.unsettled[place], *lane);
        }
    }

    #[test]
    fn a_list_of_unsettled_lanes_has_each_once_and_none_that_is_gone() {
        let mut lanes = Lanes::default();
        let [a, b, c, d] = [(); 4].map(|()| lane(&mut lanes));
        for listed in [a, b, c, d, b, a] {
            lanes.mark_unsettled(listed);
        }
        assert_each_knows_its_place(&lanes, &[a, b, c, d]);
        let _ = lanes.remove(b);
        let another = lane(&mut lanes);
        assert_eq!(another.index, b.index, "in the place of the one that is gone");
        assert_each_knows_its_place(&lanes, &[a, c, d]);
        lanes.mark_unsettled(another);
        [a, b, a, d].into_iter().for_each(|settled| lanes.mark_settled(settled));
        assert_each_knows_its_place(&lanes, &[c, another]);
    }
}
