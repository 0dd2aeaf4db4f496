//! An engine with a manual clock, and shortcuts to use it.

use std::time::Duration;

use millpond_cluster::engine::{
    Claim, Claimed, Engine, EngineClock, Fence, ManualEngineClock, NewTask, Report, Retry, Settle, Submitted,
    Verdict,
};
use millpond_cluster::state::{Options, Record};
use millpond_cluster::{DeadReason, Priority, State, SubmitterId, TaskId, WorkerId};

pub(crate) const QUEUE: &str = "q";
pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const START: i64 = 1_800_000_000_000;

pub(crate) struct Kit {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) clock: ManualEngineClock,
}

pub(crate) fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn worker(n: u32) -> WorkerId {
    WorkerId::from_name(&format!("host-1-{n:06x}"))
}

pub(crate) fn id(n: u128) -> TaskId {
    TaskId::from(n)
}

pub(crate) fn task(n: u128) -> NewTask {
    NewTask {
        id: id(n),
        queue: QUEUE.to_owned(),
        name: "name".to_owned(),
        class: Priority::Normal,
        delay: Duration::ZERO,
        deadline: None,
        codec: 0,
        args: vec![1, 2, 3],
        options: Options::default(),
        submitter: SubmitterId(7),
        retry_of: None,
        over_capacity: false,
    }
}

pub(crate) fn failed(error: &str, retry: Retry) -> Verdict {
    Verdict::Failed { error: error.to_owned(), retry }
}

pub(crate) fn retry_in(n: u64) -> Verdict {
    failed("no luck", Retry::After(seconds(n)))
}

pub(crate) fn permanent() -> Verdict {
    failed("never", Retry::Never(DeadReason::Permanent))
}

impl Kit {
    pub(crate) fn new(make: impl FnOnce(EngineClock) -> Box<dyn Engine>) -> Kit {
        let clock = ManualEngineClock::new(START);
        Kit { engine: make(clock.clock()), clock }
    }

    pub(crate) fn submit(&self, tasks: &[NewTask]) -> Vec<Submitted> {
        self.engine.submit(tasks).unwrap()
    }

    pub(crate) fn ask(&self, n: u32, max: usize) -> Claim {
        Claim {
            queue: QUEUE.to_owned(),
            worker: worker(n),
            max,
            max_suspects: 1,
            lease: LEASE,
            ids: Vec::new(),
        }
    }

    pub(crate) fn claim(&self, n: u32, max: usize) -> Vec<Claimed> {
        self.engine.claim(&self.ask(n, max)).unwrap()
    }

    /// Submits one task and claims it.
    pub(crate) fn running(&self, n: u128) -> Fence {
        assert_eq!(self.submit(&[task(n)]), [Submitted::New]);
        self.claim(1, 1)[0].fence
    }

    pub(crate) fn settle(&self, n: u32, fence: Fence, verdict: Verdict) -> bool {
        let reports = [Report { fence, verdict }];
        self.engine.settle(&Settle { worker: &worker(n), local: None, reports: &reports }).unwrap()[0]
    }

    pub(crate) fn record(&self, n: u128) -> Record {
        self.engine.fetch(&[id(n)]).unwrap().pop().unwrap().expect("there is a record")
    }

    pub(crate) fn state(&self, n: u128) -> State {
        self.record(n).state
    }

    pub(crate) fn tick(&self) -> millpond_cluster::engine::Tick {
        self.engine.tick(QUEUE, 500).unwrap()
    }

    /// Lets the leases of all running tasks expire.
    pub(crate) fn lose_workers(&self) {
        self.clock.advance(LEASE + Duration::from_millis(1));
        self.tick();
    }
}
