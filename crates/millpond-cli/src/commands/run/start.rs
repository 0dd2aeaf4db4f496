//! Checks the command line and sets up the run: input, pool size, limits, log.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::engine::{self, Order, PoolSize};
use super::habits;
use super::input::Input;
use super::joblog::JobLog;
use super::options::Args;
use super::past::Past;
use super::process::Limits;
use super::template::Template;
use crate::error::{Error, Outcome};

/// Separates the command from its arguments.
const ARGUMENTS_FOLLOW: &str = ":::";

pub(crate) fn run(args: Args) -> Result<Outcome, Error> {
    let (words, listed) = split(&args.words)?;
    habits::check_words(&words, args.shell).map_err(Error::new)?;
    let template = Template::new(&words, args.shell, args.max_args > 1).map_err(Error::new)?;
    if args.dry_run {
        return engine::dry_run(&template, args.input(listed)?);
    }
    let size = args.pool_size()?;
    allow_open_files(size.max)?;
    let input = args.input(listed)?;
    let (log, past) = args.log()?;
    engine::run(args.order(template, size), input, log, past)
}

/// Splits the words into the command and, if present, its arguments.
fn split(words: &[OsString]) -> Result<(Vec<OsString>, Option<Vec<OsString>>), Error> {
    let is_mark = |word: &OsString| word == OsStr::new(ARGUMENTS_FOLLOW);
    if let Some(message) = words.iter().find_map(|word| habits::other_source(word)) {
        return Err(Error::new(message));
    }
    let at = words.iter().position(is_mark).unwrap_or(words.len());
    let (command, rest) = words.split_at(at);
    if command.is_empty() {
        return Err(Error::new(habits::NO_COMMAND));
    }
    if rest.iter().skip(1).any(is_mark) {
        return Err(Error::new(
            "two ::: would combine two lists, which is not supported; let the shell combine them: \
             ::: {a,b}-{1,2}",
        ));
    }
    Ok((command.to_vec(), rest.get(1..).map(<[OsString]>::to_vec)))
}

impl Args {
    fn order(&self, template: Template, size: PoolSize) -> Order {
        Order {
            template,
            size,
            limits: Limits {
                timeout: self.timeout,
                grace: self.grace,
                has_terminal: File::open("/dev/tty").is_ok(),
            },
            delay: self.delay,
            attempts: self.attempts,
            halt: self.halt,
            keep_order: self.keep_order,
            ungroup: self.ungroup,
            line_buffer: self.line_buffer,
            tag: self.tag,
            verbose: self.verbose,
            // With --ungroup the jobs write to the terminal and would overwrite the progress line.
            progress: !self.no_progress && !self.ungroup,
            resume_failed: self.resume_failed,
        }
    }

    fn input(&self, listed: Option<Vec<OsString>>) -> Result<Input, Error> {
        let separator = if self.null { 0 } else { self.delimiter.unwrap_or(b'\n') };
        if let Some(arguments) = listed {
            if self.arg_file.is_some() || self.null || self.delimiter.is_some() {
                return Err(Error::new(
                    "arguments after ::: leave nothing to read; leave out --arg-file, -0 and -d",
                ));
            }
            return Ok(Input::listed(arguments, self.max_args));
        }
        match &self.arg_file {
            Some(path) if path != Path::new("-") => {
                let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
                Ok(Input::stream(file.into(), separator, path.display().to_string(), self.max_args))
            }
            _ => self.stdin(separator),
        }
    }

    fn stdin(&self, separator: u8) -> Result<Input, Error> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            let hint = "reading arguments from the terminal, one per line; Ctrl-D ends them";
            let _ = writeln!(io::stderr(), "millpond: {hint}");
        }
        let fd = stdin.as_fd().try_clone_to_owned().map_err(|error| {
            Error::new(format_args!("cannot read stdin: {error}; give arguments after :::"))
        })?;
        Ok(Input::stream(fd, separator, "stdin".to_owned(), self.max_args))
    }

    fn pool_size(&self) -> Result<PoolSize, Error> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map(|jobs| jobs.on(cpus));
        let (core, max) = match (jobs, self.core, self.max) {
            (Some(jobs), _, _) => (jobs, jobs),
            (None, Some(core), Some(max)) if core > max => {
                return Err(Error::new(format_args!("--core {core} is more than --max {max}; swap them")));
            }
            (None, Some(core), max) => (core, max.unwrap_or(core)),
            (None, None, Some(max)) => (cpus.min(max), max),
            (None, None, None) => (cpus, cpus),
        };
        if max == 0 {
            return Err(Error::new(
                "no job can run with 0 at a time; give --jobs or --max at least 1 (unlimited jobs, the \
                 meaning of -j 0 in GNU parallel and -P 0 in xargs, are not supported)",
            ));
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

/// Raises the limit of open files if it is too low. A job needs three, and three more while it
/// starts; 64 are for the rest of the process.
fn allow_open_files(jobs: usize) -> Result<(), Error> {
    let needed = (jobs as u64).saturating_mul(6).saturating_add(64);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    // Raising an unlimited maximum may be refused; then only the current limit is known.
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
