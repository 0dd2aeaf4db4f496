//! `millpond lab`: plays a workload on real pools and shows what happened.

mod demo;
mod demo_picture;
mod gate;

use crate::error::{Error, Outcome};
use crate::term;

/// Play a workload on real pools and show what happened.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

impl Args {
    /// What a bare `millpond` does.
    pub(crate) fn when_nothing_is_asked() -> Args {
        Args {}
    }
}

pub(crate) fn run(_args: Args) -> Result<Outcome, Error> {
    let seen = demo::play().map_err(Error::new)?;
    term::print(&demo_picture::draw(&seen))?;
    Ok(Outcome::Yes)
}
