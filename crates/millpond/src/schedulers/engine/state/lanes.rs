//! The lanes of a scheduler, and the jobs in each.
//!
//! A lane belongs to a worker, or to a periodic task without a worker. It runs one job at a time.

use crate::interrupt::wait::WaitCell;
use crate::schedulers::engine::lane_queue::LaneQueue;
use crate::schedulers::engine::model::{LaneRef, Permit, SlotRef, Waits};
use crate::schedulers::job::{JobRef, Location};
use crate::sync::Arc;
use crate::task::TaskId;
use crate::time::clock::{Clock, Tick};
use crate::time::heap::{Key, TimerQueue};

/// The phase of a lane.
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
    /// The slot whose capacity the lane uses. The lane also runs there if work may not move.
    home: SlotRef,
    /// Keeps the home slot from being removed. Taken when the lane is removed.
    permit: Option<Permit>,
    phase: LanePhase,
    /// The place in the queues while the lane is queued.
    place: Option<u64>,
    /// Jobs that arrived without a delay and before all jobs in `later`, and the running job. The
    /// ready jobs are due without a check of the clock.
    queue: Arc<LaneQueue>,
    /// All other jobs, due or not.
    later: TimerQueue<JobRef>,
    /// The last number given to a job in `later`.
    last_number: u64,
    /// The lane has or had a periodic job, whose next run may be due before a job that arrived
    /// meanwhile. So all its jobs go to `later`.
    by_time: bool,
    /// When the running job of `later` was due.
    due: Tick,
    /// The timer of an idle lane with jobs.
    timer: Option<Key>,
    /// The lane accepts no more jobs and runs those it has.
    is_finishing: bool,
    /// The lane accepts no more jobs. It is empty, except perhaps for a running job.
    is_closed: bool,
    /// Its index in [`Lanes::unsettled`].
    listed: Option<usize>,
    /// Jobs in the lane that threads of this scheduler wait for. These threads are notified when
    /// the lane is queued, because each of them can run the jobs before its own. The lane may even
    /// be queued for one of them.
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

    /// Marks the run as ended.
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

    /// Closes the lane. Returns false if it was already closed.
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

    /// Returns true if no job has to be ordered by time.
    pub(super) fn is_in_order_of_arrival(&self) -> bool {
        !self.by_time && self.later.is_empty()
    }

    /// Adds a job.
    pub(super) fn add(&mut self, lane: LaneRef, job: &JobRef, waits: Waits, clock: &Clock) {
        self.by_time |= job.is_periodic();
        if job.is_periodic() && job.is_awaited() {
            self.add_awaited(job); // the waiter registered during a run, when the job was not here
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

    /// Starts the first due job. Also returns the time since which it waits, and whether more jobs
    /// are ready.
    pub(super) fn start_due(&mut self, clock: &Clock) -> Option<(JobRef, Tick, bool)> {
        let (later, due) = (&mut self.later, &mut self.due);
        self.queue.start(|| {
            later.first_due()?; // avoids reading the clock
            let (was_due, _, job) = later.pop_due(clock.tick())?;
            *due = was_due;
            Some((job, was_due))
        })
    }

    /// Returns since when the first job waits, if it is due by `now`.
    pub(super) fn first_since(&self, now: Tick) -> Option<Tick> {
        self.queue.first_since().or_else(|| self.later.first_due().filter(|due| *due <= now))
    }

    pub(super) fn has_due(&self, clock: &Clock) -> bool {
        self.queue.has_ready() || self.later.first_due().is_some_and(|due| due <= clock.tick())
    }

    /// Returns when the first job of `later` is due.
    pub(super) fn next_due(&self) -> Option<Tick> {
        self.later.first_due()
    }

    /// Iterates over the jobs of `later` with their due times, earliest first.
    pub(super) fn later(&self) -> impl Iterator<Item = (Tick, &JobRef)> {
        self.later.iter()
    }

    /// Returns when the running periodic job was due.
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

    /// Registers `job`, so that its waiters are notified when the lane is queued. Drops jobs
    /// without waiters, so there are never more entries than waiting threads.
    pub(super) fn add_awaited(&mut self, job: &JobRef) {
        self.awaited.retain(|known| known.is_awaited() && !known.is(job));
        self.awaited.push(job.clone());
    }

    /// Notifies waiting threads that the lane is queued. A thread that keeps waiting registers
    /// again.
    pub(super) fn notify_awaiting(&mut self, wake: &mut Vec<Arc<WaitCell>>) {
        self.awaited.drain(..).for_each(|job| job.became_startable(wake));
    }
}

/// All lanes that are not closed or that still run.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Each entry has the generation of the lane that is or was stored there.
    entries: Vec<(u32, Option<Box<LaneCell>>)>,
    free: Vec<u32>,
    /// The number of jobs in [`LaneCell::later`] of all lanes.
    later: usize,
    /// Lanes that may have unsettled changes: they accept jobs without the scheduler's lock, or run
    /// several jobs in a row.
    unsettled: Vec<LaneRef>,
    /// Lanes whose job runs in place, inside a task that waits for it.
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

    /// Calls `change`, which may add or remove jobs, and updates the number of jobs in `later`.
    pub(super) fn change<R>(&mut self, lane: LaneRef, change: impl FnOnce(&mut LaneCell) -> R) -> Option<R> {
        let cell = self.get_mut(lane)?;
        let before = cell.later.len();
        let changed = change(cell);
        let after = cell.later.len();
        self.later = self.later + after - before;
        Some(changed)
    }

    /// Returns the number of jobs in [`LaneCell::later`] of all lanes.
    pub(super) fn later(&self) -> usize {
        self.later
    }

    /// Returns the lane with this index.
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
