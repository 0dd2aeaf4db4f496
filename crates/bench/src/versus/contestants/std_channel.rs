//! The standard library's channel. Its receiver cannot be shared, so there is only one.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use super::{Line, Queue};

pub(super) struct Channel;

pub(super) enum AnySender {
    Unbounded(Sender<u64>),
    Bounded(SyncSender<u64>),
}

impl Queue for Channel {
    const NAME: &'static str = "std";
    type Sender = AnySender;
    type Receiver = Receiver<u64>;

    fn ends(line: Line, each: usize) -> Option<(Vec<AnySender>, Vec<Receiver<u64>>)> {
        if each > 1 {
            return None;
        }
        let (sender, receiver) = match line {
            Line::Bounded(capacity) => bounded(capacity),
            Line::Rendezvous => bounded(0),
            Line::Unbounded => {
                let (sender, receiver) = channel();
                (AnySender::Unbounded(sender), receiver)
            }
        };
        Some((vec![sender], vec![receiver]))
    }

    fn put(sender: &AnySender, item: u64) {
        let sent = match sender {
            AnySender::Unbounded(sender) => sender.send(item),
            AnySender::Bounded(sender) => sender.send(item),
        };
        sent.expect("the other listens");
    }

    fn take(receiver: &Receiver<u64>) -> u64 {
        receiver.recv().expect("the other sends")
    }
}

fn bounded(capacity: usize) -> (AnySender, Receiver<u64>) {
    let (sender, receiver) = sync_channel(capacity);
    (AnySender::Bounded(sender), receiver)
}
