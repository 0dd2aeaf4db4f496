//! The command line of `run`, and what is made of it before the first job.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::engine::{self, Order, PoolSize};
use super::halt::{self, Halt};
use super::input::Input;
use super::joblog::{JobLog, Past};
use super::process::Limits;
use super::template::Template;
use crate::error::{Error, Outcome};
use crate::units;

/// What is between the command and its arguments.
const ARGUMENTS_FOLLOW: &str = ":::";

/// Run commands through a pool, one for each argument.
///
/// Arguments are the lines of stdin, or what follows `:::`. In the command {} stands for the argument, {.} for it without
/// its extension, {/} without its directories, {//} for its directory, {/.} without directories and extension, {#} for
/// the number of the job, {%} for its slot. Without any of these the argument is appended.
///
/// Several words are started directly, without a shell. A single word with spaces in it is for `sh -c`; no argument is ever
/// read as shell code.
///
/// The first Ctrl-C stops reading and finishes what was read, the second terminates the jobs, the third kills them.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "millpond run [OPTIONS] [--] COMMAND... [::: ARGUMENT...]",
    after_help = "Examples:
  find . -name '*.png' | millpond run --core 2 --max 8 -- optipng {}
  find . -print0 | millpond run -0 -k 'wc -c < {} | tr -d \" \"'
  millpond run -j4 --timeout 30s --retries 2 ping -c1 {} ::: 10.0.0.1 10.0.0.2

Exit status: 0 if all jobs succeeded; 1 to 99: so many failed; 100: 100 or more
failed; 101: a --halt rule ended it; 102: it could not go on; 126, 127: the
command cannot be run, or found; 128 + N: ended by signal N (130: Ctrl-C); and 2
if it was called wrongly: then no job has run."
)]
pub(crate) struct Args {
    /// The command, with places for the argument
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    words: Vec<OsString>,

    /// So many jobs at a time; the same as --core N --max N
    #[arg(short, long, value_name = "N", conflicts_with_all = ["core", "max"], help_heading = "Pool")]
    jobs: Option<usize>,
    /// Jobs at a time as long as the queue has room [default: one for each CPU]
    #[arg(long, value_name = "N", help_heading = "Pool")]
    core: Option<usize>,
    /// Jobs at a time when the queue is full [default: as --core]
    #[arg(long, value_name = "N", help_heading = "Pool")]
    max: Option<usize>,
    /// Read so many arguments ahead; 0: none
    #[arg(long, value_name = "N", default_value = "1000", value_parser = queue, help_heading = "Pool")]
    queue: usize,
    /// Go up to --max before the queue is used
    #[arg(long, help_heading = "Pool")]
    eager: bool,

    /// Arguments end with a NUL byte, as from find -print0
    #[arg(short = '0', long, help_heading = "Input")]
    null: bool,
    /// Read arguments from this file instead of stdin
    #[arg(short, long, value_name = "FILE", help_heading = "Input")]
    arg_file: Option<PathBuf>,
    /// Give the command to sh -c, also if it is several words
    #[arg(long, help_heading = "Input")]
    shell: bool,
    /// Print the commands instead of running them
    #[arg(long, help_heading = "Input")]
    dry_run: bool,

    /// Print outputs in the order of the arguments
    #[arg(short, long, help_heading = "Output")]
    keep_order: bool,
    /// Do not collect outputs: jobs write whenever they like
    #[arg(short, long, conflicts_with = "keep_order", help_heading = "Output")]
    ungroup: bool,
    /// No progress, not even on a terminal
    #[arg(long, help_heading = "Output")]
    no_progress: bool,

    /// Terminate an attempt that takes longer; it has failed
    #[arg(long, value_name = "TIME", value_parser = timeout, help_heading = "Failure")]
    timeout: Option<Duration>,
    /// Kill what is not gone so long after it was told to terminate
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration, help_heading = "Failure")]
    grace: Duration,
    /// Run a job that failed again, up to so many times
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Failure")]
    retries: u32,
    /// never; soon,N or soon,N%: start no more after so many failures (or so many of all that have finished); now,N or
    /// now,N%: also end those that run
    #[arg(long, value_name = "RULE", default_value = "never", value_parser = halt::parse, help_heading = "Failure")]
    halt: Halt,

    /// Write a line about each finished job to this file
    #[arg(long, value_name = "FILE", help_heading = "Log")]
    joblog: Option<PathBuf>,
    /// Skip the jobs that the log has as finished
    #[arg(long, requires = "joblog", help_heading = "Log")]
    resume: bool,
    /// Skip only those that succeeded: what failed is run again
    #[arg(long, requires = "joblog", help_heading = "Log")]
    resume_failed: bool,
}

fn queue(text: &str) -> Result<usize, String> {
    usize::try_from(units::count(text)?).map_err(|_| format!("'{text}' is too large"))
}

fn timeout(text: &str) -> Result<Duration, String> {
    match units::duration(text)? {
        Duration::ZERO => Err("a command needs more time than none".to_owned()),
        timeout => Ok(timeout),
    }
}

pub(crate) fn run(args: Args) -> Result<Outcome, Error> {
    let (words, listed) = split(&args.words)?;
    let template = Template::new(&words, args.shell).map_err(Error::new)?;
    if args.dry_run {
        return engine::dry_run(&template, args.input(listed)?);
    }
    let size = args.pool_size()?;
    allow_open_files(size.max)?;
    let input = args.input(listed)?;
    let (log, past) = args.log()?;
    engine::run(
        Order {
            template,
            size,
            limits: Limits { timeout: args.timeout, grace: args.grace },
            retries: args.retries,
            halt: args.halt,
            keep_order: args.keep_order,
            ungroup: args.ungroup,
            // With --ungroup the jobs write to the terminal too, and nobody could take the line away in time.
            progress: !args.no_progress && !args.ungroup,
            resume_failed: args.resume_failed,
        },
        input,
        log,
        past,
    )
}

/// The command, and the arguments if they are on the command line.
fn split(words: &[OsString]) -> Result<(Vec<OsString>, Option<Vec<OsString>>), Error> {
    let is_mark = |word: &OsString| word == OsStr::new(ARGUMENTS_FOLLOW);
    let Some(at) = words.iter().position(is_mark) else { return Ok((words.to_vec(), None)) };
    let (command, arguments) = (&words[..at], &words[at + 1..]);
    if command.is_empty() {
        return Err(Error::new("no command; write it before :::"));
    }
    if arguments.iter().any(is_mark) {
        return Err(Error::new("there is more than one :::; write all arguments after the first"));
    }
    Ok((command.to_vec(), Some(arguments.to_vec())))
}

impl Args {
    fn input(&self, listed: Option<Vec<OsString>>) -> Result<Input, Error> {
        let separator = if self.null { 0 } else { b'\n' };
        if let Some(arguments) = listed {
            if self.arg_file.is_some() || self.null {
                return Err(Error::new(
                    "arguments after ::: leave nothing to read; leave out --arg-file and -0",
                ));
            }
            return Ok(Input::Listed(arguments.into_iter()));
        }
        if let Some(path) = &self.arg_file {
            let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
            return Ok(Input::stream(file.into(), separator, path.display().to_string()));
        }
        let stdin = io::stdin();
        if stdin.is_terminal() {
            let _ = writeln!(io::stderr(), "millpond: one argument in a line; Ctrl-D ends them");
        }
        let fd = stdin.as_fd().try_clone_to_owned();
        let fd = fd.map_err(|error| {
            Error::new(format_args!("cannot read stdin: {error}; give arguments after :::"))
        })?;
        Ok(Input::stream(fd, separator, "stdin".to_owned()))
    }

    fn pool_size(&self) -> Result<PoolSize, Error> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let (core, max) = match (self.jobs, self.core, self.max) {
            (Some(jobs), _, _) => (jobs, jobs),
            (None, Some(core), Some(max)) if core > max => {
                return Err(Error::new(format_args!("--core {core} is more than --max {max}; swap them")));
            }
            (None, Some(core), max) => (core, max.unwrap_or(core)),
            (None, None, Some(max)) => (cpus.min(max), max),
            (None, None, None) => (cpus, cpus),
        };
        if max == 0 {
            return Err(Error::new("no job can run with 0 at a time; give --jobs or --max at least 1"));
        }
        Ok(PoolSize { core, max, queue: self.queue, eager: self.eager })
    }

    fn log(&self) -> Result<(Option<JobLog>, Past), Error> {
        match &self.joblog {
            None => Ok((None, Past::default())),
            Some(path) if self.resume || self.resume_failed => {
                JobLog::resume(path).map(|(log, past)| (Some(log), past))
            }
            Some(path) => Ok((Some(JobLog::create(path)?), Past::default())),
        }
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> Error {
    Error::new(format_args!("cannot read {}: {error}", path.display()))
}

/// Three for each job that runs, three more while it is being started; and what is open anyway.
fn allow_open_files(jobs: usize) -> Result<(), Error> {
    let needed = (jobs as u64).saturating_mul(6).saturating_add(64);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    // A limit without an end may be refused all the same; then what there is now is all that we know.
    let too_few = || too_few_files(jobs, needed, limit.maximum.or(limit.current).unwrap_or(0));
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(too_few());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit }).map_err(|_| too_few())
}

fn too_few_files(jobs: usize, needed: u64, limit: u64) -> Error {
    Error::new(match limit.saturating_sub(64) / 6 {
        0 => format!("even one job needs 70 open files, and the limit is {limit}; raise it with `ulimit -n`"),
        most => format!(
            "{jobs} jobs at a time need {needed} open files, and the limit allows {most} jobs; raise it with \
             `ulimit -n`, or lower --max"
        ),
    })
}
