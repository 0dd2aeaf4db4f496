//! The command line of `run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::halt::{self, Halt};
use crate::units;

/// Run a command for each argument, several at a time.
///
/// Arguments are the lines of stdin, or the words after `:::`. In the command, {} stands for the
/// argument, {.} for it without its extension, {/} without its directories, {//} for its directory,
/// {/.} without directories and extension, {#} for the number of the job, {%} for its slot.
/// Without a placeholder the argument is appended.
///
/// Several words are started directly, without a shell. A single word that contains a space runs in
/// `sh -c`; arguments reach it as parameters, never as shell code.
///
/// The first Ctrl-C starts no more jobs and waits for the running ones. The second terminates them,
/// the third kills them. SIGUSR1 prints a line of progress.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "millpond run [OPTIONS] [--] COMMAND... [::: ARGUMENT...]",
    after_help = "Examples:
  find . -name '*.png' | millpond run --core 2 --max 8 -- optipng {}
  find . -print0 | millpond run -0 -k 'wc -c < {} | tr -d \" \"'
  millpond run -j4 --timeout 30s --attempts 3 ping -c1 {} ::: 10.0.0.1 10.0.0.2
  millpond run sh -c < commands.txt      one shell command per line

Exit status: 0 if all jobs succeeded; 1 to 99: the number of failed jobs; 100:
100 or more failed; 101: ended by --halt; 102: could not continue; 126, 127: the
command cannot be run, or was not found; 128 + N: ended by signal N (130:
Ctrl-C); 2: wrong usage, no job has run.

docs/coming-from-parallel.md in the source repository compares it with GNU
parallel and xargs."
)]
pub(crate) struct Args {
    /// The command, with placeholders for the argument
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(super) words: Vec<OsString>,

    /// Maximum number of concurrent jobs: 4, +1 or -1 (CPUs plus or minus one), 200% (of the CPUs).
    /// Same as --core N --max N
    #[arg(short, long, visible_short_alias = 'P', visible_alias = "max-procs", value_name = "N",
          value_parser = jobs, allow_negative_numbers = true, conflicts_with_all = ["core", "max"],
          help_heading = "Pool")]
    pub(super) jobs: Option<Jobs>,
    /// Concurrent jobs while the queue has room [default: one per CPU]
    #[arg(long, value_name = "N", help_heading = "Pool")]
    pub(super) core: Option<usize>,
    /// Concurrent jobs while the queue is full [default: as --core]
    #[arg(long, value_name = "N", help_heading = "Pool")]
    pub(super) max: Option<usize>,
    /// Number of jobs to read ahead. 0 disables reading ahead
    #[arg(long, value_name = "N", default_value = "1000", value_parser = queue, help_heading = "Pool")]
    pub(super) queue: usize,
    /// Start up to --max jobs before the queue is used
    #[arg(long, help_heading = "Pool")]
    pub(super) eager: bool,
    /// Minimum time between the starts of two jobs
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Pool")]
    pub(super) delay: Option<Duration>,

    /// Arguments end with a NUL byte, as from find -print0
    #[arg(short = '0', long, conflicts_with = "delimiter", help_heading = "Input")]
    pub(super) null: bool,
    /// Arguments end with this byte: a character, \t, \n, \0 or \x2c
    #[arg(short, long, value_name = "C", value_parser = delimiter, help_heading = "Input")]
    pub(super) delimiter: Option<u8>,
    /// Read arguments from this file instead of stdin
    #[arg(short, long, value_name = "FILE", help_heading = "Input")]
    pub(super) arg_file: Option<PathBuf>,
    /// Give up to N arguments to each job
    #[arg(short = 'n', long, value_name = "N", default_value = "1", value_parser = at_least_one,
          help_heading = "Input")]
    pub(super) max_args: u32,
    /// Run the command with sh -c, also if it has several words
    #[arg(long, help_heading = "Input")]
    pub(super) shell: bool,
    /// Print the commands instead of running them
    #[arg(long, help_heading = "Input")]
    pub(super) dry_run: bool,

    /// Print outputs in the order of the arguments
    #[arg(short, long, help_heading = "Output")]
    pub(super) keep_order: bool,
    /// Print each line as soon as it is complete, not the whole output at the end of the job
    #[arg(long, visible_alias = "lb", conflicts_with = "keep_order", help_heading = "Output")]
    pub(super) line_buffer: bool,
    /// Do not collect output: jobs write directly to stdout and stderr
    #[arg(short, long, conflicts_with_all = ["keep_order", "line_buffer", "tag"], help_heading = "Output")]
    pub(super) ungroup: bool,
    /// Begin each line with the argument and a tab
    #[arg(long, help_heading = "Output")]
    pub(super) tag: bool,
    /// Print each command to stderr before it starts
    #[arg(short = 't', long, help_heading = "Output")]
    pub(super) verbose: bool,
    /// Show no progress, not even on a terminal
    #[arg(long, help_heading = "Output")]
    pub(super) no_progress: bool,

    /// Terminate an attempt that takes longer; it has failed
    #[arg(long, value_name = "TIME", value_parser = timeout, help_heading = "Failure")]
    pub(super) timeout: Option<Duration>,
    /// Time between SIGTERM and SIGKILL
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration,
          help_heading = "Failure")]
    pub(super) grace: Duration,
    /// Run a job up to N times, until it succeeds [default: 1]
    #[arg(long, visible_alias = "retries", value_name = "N", value_parser = at_least_one,
          help_heading = "Failure")]
    pub(super) attempts: Option<u32>,
    /// never; soon,N: start no more jobs after N failures; soon,N%: after N% of the finished jobs
    /// failed (from the tenth on); now,N and now,N%: also end the running jobs
    #[arg(long, value_name = "RULE", default_value = "never", value_parser = halt::parse,
          help_heading = "Failure")]
    pub(super) halt: Halt,

    /// Write a line about each finished job to this file
    #[arg(long, value_name = "FILE", help_heading = "Log")]
    pub(super) joblog: Option<PathBuf>,
    /// Skip jobs whose command the log has as finished
    #[arg(long, requires = "joblog", help_heading = "Log")]
    pub(super) resume: bool,
    /// Skip only jobs that succeeded; failed ones run again
    #[arg(long, requires = "joblog", help_heading = "Log")]
    pub(super) resume_failed: bool,

    /// Already the default, as in `xargs -r`
    #[arg(short = 'r', long, hide = true)]
    no_run_if_empty: bool,
    /// No effect: there is nothing to cite
    #[arg(long, hide = true)]
    will_cite: bool,
    /// No effect: there is only one compatibility mode
    #[arg(long, hide = true)]
    gnu: bool,
}

/// The number of concurrent jobs, absolute or relative to the number of CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Jobs {
    Exactly(usize),
    More(usize),
    Fewer(usize),
    Percent(f64),
}

impl Jobs {
    /// At least 1, unless 0 was requested.
    pub(super) fn on(self, cpus: usize) -> usize {
        match self {
            Jobs::Exactly(jobs) => jobs,
            Jobs::More(more) => cpus.saturating_add(more),
            Jobs::Fewer(fewer) => cpus.saturating_sub(fewer).max(1),
            Jobs::Percent(percent) => ((cpus as f64 * percent / 100.0) as usize).max(1),
        }
    }
}

fn jobs(text: &str) -> Result<Jobs, String> {
    let wanted = || format!("'{text}' is not a number of jobs such as 4, +1, -1 or 200%");
    let whole = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().map_err(|_| wanted()),
        false => Err(wanted()),
    };
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.parse().ok().filter(|percent: &f64| percent.is_finite() && *percent > 0.0);
        return percent.map(Jobs::Percent).ok_or_else(wanted);
    }
    match text.as_bytes() {
        [b'+', ..] => whole(&text[1..]).map(Jobs::More),
        [b'-', ..] => whole(&text[1..]).map(Jobs::Fewer),
        _ => whole(text).map(Jobs::Exactly),
    }
}

fn queue(text: &str) -> Result<usize, String> {
    usize::try_from(units::count(text)?).map_err(|_| format!("'{text}' is too large"))
}

fn timeout(text: &str) -> Result<Duration, String> {
    if text.ends_with('%') {
        return Err("a share of the usual time is not supported; give a time such as 30s".to_owned());
    }
    match units::duration(text)? {
        Duration::ZERO => Err("the timeout must be above zero".to_owned()),
        timeout => Ok(timeout),
    }
}

fn at_least_one(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("the smallest number is 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("'{text}' is not a whole number from 1 to {}", u32::MAX)),
    }
}

/// One byte: itself, or an escape.
fn delimiter(text: &str) -> Result<u8, String> {
    let byte = match text.as_bytes() {
        [byte] => Some(*byte),
        br"\n" => Some(b'\n'),
        br"\t" => Some(b'\t'),
        br"\0" => Some(0),
        br"\\" => Some(b'\\'),
        [b'\\', b'x', digits @ ..] => {
            str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok())
        }
        _ => None,
    };
    byte.ok_or_else(|| format!(r"'{text}' is not one byte, such as , or \t or \x2c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_jobs_may_depend_on_the_cpus() {
        for (text, on_four) in [("3", 3), ("0", 0), ("+1", 5), ("+0", 4), ("-1", 3), ("-9", 1)] {
            assert_eq!(jobs(text).expect(text).on(4), on_four, "{text}");
        }
        for (text, on_four) in [("100%", 4), ("50%", 2), ("200%", 8), ("1%", 1), ("37.5%", 1)] {
            assert_eq!(jobs(text).expect(text).on(4), on_four, "{text}");
        }
        for text in ["", "x", "+", "-", "+-1", "%", "0%", "-50%", "NaN%", "inf%", "1.5", "--1"] {
            assert!(jobs(text).expect_err(text).contains("such as 4, +1, -1 or 200%"), "{text}");
        }
    }

    #[test]
    fn a_delimiter_is_one_byte() {
        for (text, byte) in [(",", b','), (r"\n", b'\n'), (r"\t", b'\t'), (r"\0", 0), (r"\x2c", b',')] {
            assert_eq!(delimiter(text), Ok(byte), "{text}");
        }
        for text in ["", "ab", "é", r"\q", r"\x", r"\x123"] {
            assert!(delimiter(text).is_err(), "{text}");
        }
    }
}
