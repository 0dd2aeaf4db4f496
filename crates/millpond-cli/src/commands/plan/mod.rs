//! `millpond plan`.

use crate::error::{Error, Outcome};

/// Answer "how should I size it?" in virtual time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<Outcome, Error> {
    Err(Error::new("plan is not there yet; try `millpond lab`"))
}
