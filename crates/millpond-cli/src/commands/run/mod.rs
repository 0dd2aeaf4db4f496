//! `millpond run`: runs a command for each argument, through a pool.
//!
//! | module | task |
//! |---|---|
//! | `options`, `habits`, `start` | the command line, hints for users of other tools, the setup |
//! | `input`, `template` | reads arguments, builds commands |
//! | `engine`, `job`, `process`, `group` | the pool, one job, one attempt, its process group |
//! | `slots`, `pace` | numbers for `{%}`, the `--delay` between starts |
//! | `output`, `lines`, `printer` | collects output and writes it |
//! | `joblog`, `past` | the log, and what a resumed run skips |
//! | `stop`, `signals`, `halt` | ends a run early |
//! | `tally`, `progress`, `no_program` | counts, progress, messages |

#[cfg(unix)]
mod engine;
#[cfg(all(unix, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(unix)]
mod group;
#[cfg(unix)]
mod habits;
#[cfg(unix)]
mod halt;
#[cfg(unix)]
mod input;
#[cfg(unix)]
mod job;
#[cfg(unix)]
mod joblog;
#[cfg(unix)]
mod lines;
#[cfg(unix)]
mod no_program;
#[cfg(unix)]
mod options;
#[cfg(unix)]
mod output;
#[cfg(unix)]
mod pace;
#[cfg(unix)]
mod past;
#[cfg(unix)]
mod printer;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod progress;
#[cfg(unix)]
pub(crate) mod signals;
#[cfg(unix)]
mod slots;
#[cfg(unix)]
mod start;
#[cfg(unix)]
mod stop;
#[cfg(unix)]
mod tally;
#[cfg(unix)]
mod template;
#[cfg(unix)]
mod wait;

#[cfg(unix)]
pub(crate) use self::{habits::explain, options::Args, start::run};

#[cfg(not(unix))]
pub(crate) use self::elsewhere::{Args, explain, run};

#[cfg(not(unix))]
mod elsewhere {
    use std::ffi::OsString;

    use crate::error::{Error, Outcome};

    /// Run shell commands through a pool (on Unix only).
    #[derive(Debug, clap::Args)]
    pub(crate) struct Args {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        _command: Vec<OsString>,
    }

    pub(crate) fn run(_args: Args) -> Result<Outcome, Error> {
        Err(Error::new("run needs a Unix system: signals and process groups; try `millpond lab`"))
    }

    pub(crate) fn explain(_arguments: &[OsString], _error: &clap::Error) -> Option<String> {
        None
    }
}
