//! Plays scenarios on `millpond` and writes traces, to be compared with those of
//! `java.util.concurrent`.
//!
//! A scenario is a small deterministic program for a pool, a queue or a scheduled pool. Its trace
//! contains the result of every step, the events meanwhile, and the state of the pool at rest. The
//! crate's README describes both, how traces are recorded, and how to run a campaign.
//!
//! - [`scenario`], [`trace`]: the input and the output; [`difference`] compares two traces.
//! - [`pool_player`], [`queue_player`], [`scheduled_player`]: play one scenario. [`gate`] blocks
//!   tasks, [`ledger`] and [`diary`] collect events, [`settle`] detects when a pool is at rest,
//!   [`time`] is the clock or its replacement, [`future`] describes handles as the reference
//!   describes its futures.
//! - [`runner`]: plays many scenarios at once, with traces in order; [`lanes`] limits those with
//!   real time.
//! - [`model`], [`generator`], [`rng`]: random scenarios whose outcome the reference determines.

pub mod diary;
pub mod difference;
pub mod future;
pub mod gate;
pub mod generator;
pub mod lanes;
pub mod ledger;
pub mod model;
pub mod pool_player;
pub mod queue_player;
pub mod rng;
pub mod runner;
pub mod scenario;
pub mod scheduled_player;
pub mod settle;
pub mod time;
pub mod trace;

use std::fmt;

/// Why a scenario has no trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlayError {
    /// The run was too slow: the scenario has to be played again.
    TooSlow(&'static str),
    /// The scenario cannot be played, or the pool never came to rest.
    Failed(String),
}

impl PlayError {
    /// A failure with a reason.
    pub fn failed(why: impl Into<String>) -> PlayError {
        PlayError::Failed(why.into())
    }
}

impl fmt::Display for PlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlayError::TooSlow(what) => write!(f, "the machine was too slow: {what}"),
            PlayError::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PlayError {}
