//! The channel, and a pool built on it: threads that receive boxed closures. It has no rendezvous.

use std::thread::{self, JoinHandle};

use crossfire::mpmc::{Array, List, bounded_blocking, unbounded_blocking};
use crossfire::{MRx, MTx};

use super::{Done, Line, Pool, Queue, Shape, wait, with_channel};

type Job = Box<dyn FnOnce() + Send>;

/// The kind of channel is part of its type.
pub(super) enum AnySender<T: Send + Unpin + 'static> {
    Bounded(MTx<Array<T>>),
    Unbounded(MTx<List<T>>),
}

pub(super) enum AnyReceiver<T: Send + Unpin + 'static> {
    Bounded(MRx<Array<T>>),
    Unbounded(MRx<List<T>>),
}

impl<T: Send + Unpin> AnySender<T> {
    fn send(&self, item: T) {
        let sent = match self {
            AnySender::Bounded(sender) => sender.send(item),
            AnySender::Unbounded(sender) => sender.send(item),
        };
        assert!(sent.is_ok(), "the others listen");
    }

    /// Returns the item if the channel is full.
    fn try_send(&self, item: T) -> Result<(), T> {
        let sent = match self {
            AnySender::Bounded(sender) => sender.try_send(item),
            AnySender::Unbounded(sender) => sender.try_send(item),
        };
        sent.map_err(|refused| refused.into_inner())
    }
}

/// `each` senders and receivers. No capacity means unbounded.
fn ends<T: Send + Unpin>(capacity: Option<usize>, each: usize) -> (Vec<AnySender<T>>, Vec<AnyReceiver<T>>) {
    let all = 0..each;
    if let Some(capacity) = capacity {
        let (sender, receiver) = bounded_blocking(capacity);
        let senders = all.clone().map(|_| AnySender::Bounded(sender.clone())).collect();
        return (senders, all.map(|_| AnyReceiver::Bounded(receiver.clone())).collect());
    }
    let (sender, receiver) = unbounded_blocking();
    let senders = all.clone().map(|_| AnySender::Unbounded(sender.clone())).collect();
    (senders, all.map(|_| AnyReceiver::Unbounded(receiver.clone())).collect())
}

fn work(jobs: AnyReceiver<Job>) {
    // The kind is decided once, not for each task.
    match jobs {
        AnyReceiver::Bounded(jobs) => std::iter::from_fn(|| jobs.recv().ok()).for_each(|job| job()),
        AnyReceiver::Unbounded(jobs) => std::iter::from_fn(|| jobs.recv().ok()).for_each(|job| job()),
    }
}

pub(super) struct Crossfire {
    sender: AnySender<Job>,
    caller_runs: bool,
    threads: Vec<JoinHandle<()>>,
}

impl Pool for Crossfire {
    const NAME: &'static str = "crossfire pool";
    type Handle = Done;

    fn new(shape: Shape) -> Option<Self> {
        let capacity = match shape {
            Shape::Fixed { .. } => None,
            Shape::Blocking { capacity, .. }
            | Shape::CallerRuns { capacity, .. }
            | Shape::Rejecting { capacity, .. } => Some(capacity),
            Shape::Discarding { .. } | Shape::Elastic { .. } => return None,
        };
        let (mut senders, receivers) = ends(capacity, shape.workers());
        let threads = receivers.into_iter().map(|jobs| thread::spawn(move || work(jobs))).collect();
        senders.truncate(1);
        let sender = senders.pop().expect("there is a worker");
        Some(Crossfire { sender, caller_runs: matches!(shape, Shape::CallerRuns { .. }), threads })
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        let job: Job = Box::new(f);
        if !self.caller_runs {
            return self.sender.send(job);
        }
        if let Err(job) = self.sender.try_send(job) {
            job();
        }
    }

    fn submit(&self, f: impl FnOnce() + Send + 'static) -> Done {
        let (f, done) = with_channel(f);
        self.execute(f);
        done
    }

    fn join(done: Done) {
        wait(done);
    }

    fn try_execute(&self, f: impl FnOnce() + Send + 'static) -> bool {
        self.sender.try_send(Box::new(f)).is_ok()
    }

    fn close(self) {
        drop(self.sender);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no task panics"));
    }
}

pub(super) struct Channel;

impl Queue for Channel {
    const NAME: &'static str = "crossfire";
    type Sender = AnySender<u64>;
    type Receiver = AnyReceiver<u64>;

    fn ends(line: Line, each: usize) -> Option<(Vec<AnySender<u64>>, Vec<AnyReceiver<u64>>)> {
        match line {
            Line::Bounded(capacity) => Some(ends(Some(capacity), each)),
            Line::Unbounded => Some(ends(None, each)),
            Line::Rendezvous => None,
        }
    }

    fn put(sender: &AnySender<u64>, item: u64) {
        sender.send(item);
    }

    fn take(receiver: &AnyReceiver<u64>) -> u64 {
        let taken = match receiver {
            AnyReceiver::Bounded(receiver) => receiver.recv(),
            AnyReceiver::Unbounded(receiver) => receiver.recv(),
        };
        taken.expect("the others send")
    }
}
