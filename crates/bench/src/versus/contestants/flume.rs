//! The crate `flume`: a channel.

use flume::{Receiver, Sender, bounded, unbounded};

use super::{Line, Queue};

pub(super) struct Channel;

impl Queue for Channel {
    const NAME: &'static str = "flume";
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
