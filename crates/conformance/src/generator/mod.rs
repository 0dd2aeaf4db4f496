//! Random scenarios whose outcome the reference determines.
//!
//! Each scenario belongs to a *tag*, a family with one focus: growing, shrinking, expiry, draining
//! and so on. Steps are drawn at random with the tag's weights. A step whose outcome would not be
//! determined in the current state of the [`model`](crate::model) is drawn again.

mod pool;
mod queue;
mod scheduled;

use serde_json::json;

use crate::rng::Rng;
use crate::scenario::{Program, Scenario};

/// What kind of scenarios to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Thread pools.
    Pool,
    /// Blocking queues.
    Queue,
    /// Scheduled pools.
    Scheduled,
}

/// Makes `count` scenarios of this kind, the tags in turn; the same ones for the same seed.
pub fn scenarios(seed: u64, count: usize, kind: Kind) -> impl Iterator<Item = Scenario> {
    (0..count).map(move |n| {
        // A generator for each scenario, so that a scenario does not depend on earlier ones.
        let mut rng = Rng::new(Rng::new(seed).bits() ^ Rng::new(n as u64).bits());
        let (name, tag, program) = match kind {
            Kind::Pool => {
                let tag = pool::Tag::ALL[n % pool::Tag::ALL.len()];
                let (config, steps) = pool::program(&mut rng, tag);
                ("pool", tag.name(), Program::Pool { config, steps })
            }
            Kind::Queue => {
                let tag = queue::TAGS[n % queue::TAGS.len()];
                let (config, steps) = queue::program(&mut rng, tag);
                ("queue", tag, Program::Queue { config, steps })
            }
            Kind::Scheduled => {
                let tag = scheduled::TAGS[n % scheduled::TAGS.len()];
                let (config, steps) = scheduled::program(&mut rng, tag);
                ("scheduled", tag, Program::Scheduled { config, steps })
            }
        };
        Scenario { id: json!(format!("{name}-{seed}-{n}")), tag: Some(tag.to_owned()), program }
    })
}
