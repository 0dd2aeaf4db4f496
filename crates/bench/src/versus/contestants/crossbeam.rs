//! The channel, and a pool built on it: threads that receive boxed closures.

use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::{Done, Line, Pool, Queue, Shape, wait, with_channel};

type Job = Box<dyn FnOnce() + Send>;

pub(super) struct Crossbeam {
    sender: Sender<Job>,
    caller_runs: bool,
    threads: Vec<JoinHandle<()>>,
}

fn work(jobs: Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        job();
    }
}

impl Pool for Crossbeam {
    const NAME: &'static str = "crossbeam pool";
    type Handle = Done;

    fn new(shape: Shape) -> Option<Self> {
        let (sender, receiver) = match shape {
            Shape::Fixed { .. } => unbounded(),
            Shape::Blocking { capacity, .. }
            | Shape::CallerRuns { capacity, .. }
            | Shape::Rejecting { capacity, .. } => bounded(capacity),
            Shape::Discarding { .. } | Shape::Elastic { .. } => return None,
        };
        let start = |_| {
            let jobs = receiver.clone();
            thread::spawn(move || work(jobs))
        };
        let threads = (0..shape.workers()).map(start).collect();
        Some(Crossbeam { sender, caller_runs: matches!(shape, Shape::CallerRuns { .. }), threads })
    }

    fn execute(&self, f: impl FnOnce() + Send + 'static) {
        let job: Job = Box::new(f);
        if !self.caller_runs {
            return self.sender.send(job).expect("the threads listen");
        }
        if let Err(refused) = self.sender.try_send(job) {
            refused.into_inner()();
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
    const NAME: &'static str = "crossbeam";
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn ends(line: Line, each: usize) -> Option<(Vec<Sender<u64>>, Vec<Receiver<u64>>)> {
        let (sender, receiver) = match line {
            Line::Bounded(capacity) => bounded(capacity),
            Line::Unbounded => unbounded(),
            Line::Rendezvous => bounded(0),
        };
        Some((vec![sender; each], vec![receiver; each]))
    }

    fn put(sender: &Sender<u64>, item: u64) {
        sender.send(item).expect("the others listen");
    }

    fn take(receiver: &Receiver<u64>) -> u64 {
        receiver.recv().expect("the others send")
    }
}
