//! `millpond run`.

use crate::error::{Error, Outcome};

/// Run shell commands through a pool.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<Outcome, Error> {
    Err(Error::new("run is not there yet; try `millpond lab`"))
}
