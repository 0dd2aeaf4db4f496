//! `millpond run`: shell commands through a pool.
//!
//! `input` gives arguments, `template` makes commands of them, `engine` puts them through a pool, `process` runs one, `group` knows
//! whether what it started is still there, `no_program` says why it cannot be run, `output` keeps what it writes, `printer` hands that over and writes the `joblog`, `stop` and `signals` end it all early, `tally`
//! counts and tells how it ended.

#[cfg(unix)]
mod engine;
#[cfg(unix)]
mod group;
#[cfg(unix)]
mod halt;
#[cfg(unix)]
mod input;
#[cfg(unix)]
mod joblog;
#[cfg(unix)]
mod no_program;
#[cfg(unix)]
mod options;
#[cfg(unix)]
mod output;
#[cfg(unix)]
mod printer;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod progress;
#[cfg(unix)]
mod signals;
#[cfg(unix)]
mod stop;
#[cfg(unix)]
mod tally;
#[cfg(unix)]
mod template;

#[cfg(unix)]
pub(crate) use self::options::{Args, run};

#[cfg(not(unix))]
pub(crate) use self::elsewhere::{Args, run};

#[cfg(not(unix))]
mod elsewhere {
    use crate::error::{Error, Outcome};

    /// Run shell commands through a pool (on Unix only).
    #[derive(Debug, clap::Args)]
    pub(crate) struct Args {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        _command: Vec<std::ffi::OsString>,
    }

    pub(crate) fn run(_args: Args) -> Result<Outcome, Error> {
        Err(Error::new("run needs a Unix system: signals and process groups; try `millpond lab`"))
    }
}
