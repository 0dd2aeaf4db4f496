//! The built-in workloads.

use super::play::Pace;
use super::producer_consumer;
use super::record::Record;
use super::workload::{Origin, Workload, read};
use crate::error::Error;

/// One built-in workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    made: Made,
}

#[derive(Debug, Clone, Copy)]
enum Made {
    /// A workload file.
    File(&'static str),
    /// A program.
    Program { about: &'static str, play: fn(Pace) -> Result<Record, Error> },
}

/// A workload that can be played.
#[derive(Debug)]
pub(super) enum Piece {
    Workload(Workload),
    Program { name: &'static str, about: &'static str, play: fn(Pace) -> Result<Record, Error> },
}

macro_rules! file {
    ($name:literal) => {
        BuiltIn {
            name: $name,
            made: Made::File(include_str!(concat!("../../../workloads/", $name, ".toml"))),
        }
    };
}

/// All built-in workloads, in a sensible reading order.
pub(super) const BUILT_IN: &[BuiltIn] = &[
    file!("growth"),
    file!("stages"),
    file!("keep-alive"),
    file!("prestart"),
    file!("fixed"),
    file!("cached"),
    file!("custom"),
    file!("reject-abort"),
    file!("reject-discard"),
    file!("reject-discard-oldest"),
    file!("reject-caller-runs"),
    file!("reject-custom"),
    file!("reject-block"),
    file!("shutdown"),
    file!("shutdown-stuck"),
    BuiltIn {
        name: "producer-consumer",
        made: Made::Program { about: producer_consumer::ABOUT, play: producer_consumer::play },
    },
    file!("priority"),
    file!("delay"),
    file!("periodic"),
    file!("bounded-elastic"),
    file!("nested"),
    file!("strategies"),
];

pub(super) fn find(name: &str) -> Option<BuiltIn> {
    BUILT_IN.iter().copied().find(|built_in| built_in.name == name)
}

impl BuiltIn {
    pub(super) fn piece(self) -> Result<Piece, Error> {
        match self.made {
            Made::File(source) => read(self.name, Origin::BuiltIn, source).map(Piece::Workload),
            Made::Program { about, play } => Ok(Piece::Program { name: self.name, about, play }),
        }
    }

    /// The text of the workload file, unless it is a program.
    pub(super) fn source(self) -> Option<&'static str> {
        match self.made {
            Made::File(source) => Some(source),
            Made::Program { .. } => None,
        }
    }
}

impl Piece {
    pub(super) fn about(&self) -> &str {
        match self {
            Piece::Workload(workload) => &workload.about,
            Piece::Program { about, .. } => about,
        }
    }

    /// The workload's advice, if it has any.
    pub(super) fn verdict(&self) -> Option<&str> {
        match self {
            Piece::Workload(workload) => workload.verdict.as_deref(),
            Piece::Program { .. } => None,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Piece::Workload(workload) => &workload.name,
            Piece::Program { name, .. } => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_can_be_read_and_says_what_it_is_about() {
        for built_in in BUILT_IN {
            let piece = built_in.piece().unwrap_or_else(|error| panic!("{}: {error:?}", built_in.name));
            assert!(!piece.about().is_empty(), "{}", built_in.name);
            let as_a_file = built_in.source().map(|source| read("x", Origin::File("x"), source));
            assert!(as_a_file.is_none_or(|read| read.is_ok()), "{}", built_in.name);
        }
    }
}
