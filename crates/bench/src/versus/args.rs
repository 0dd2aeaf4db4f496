//! The command line.

use std::path::{Path, PathBuf};

use bench::MIMALLOC;

use crate::workloads::{Plan, Workload};

pub(crate) const USAGE: &str = "\
Measures millpond and its peers side by side.

usage: versus [--quick] [--only WORKLOAD..] [--workers N,..] [--cores N] [--rounds] [--out FILE]
       versus --growth [--quick] [--only WORKLOAD..] [--cores N] [--rounds] [--out FILE]
       versus --against PROGRAM [--quick] [--only WORKLOAD..] [--workers N,..] [--cores N] [--rounds]
       versus --redraw [--out FILE]
       versus --list

  --growth          curves instead: the cost per task as sizes and numbers grow
  --quick           fewer rounds and smaller sizes: three minutes at most, instead of twenty
  --only WORKLOAD.. only these workloads
  --workers N,..    numbers of workers; 2,4 if not given, 2 in a quick run
  --cores N         runs everything on N processors, the JDK included
  --against PROGRAM only millpond, in turn with another build of this program: ci/ab.sh makes one
  --out FILE        writes the results into a page, between its marks, and charts to a directory beside it, with
                    its name; docs/performance.md of the repository, if not given and everything is measured,
                    unless built with --features mimalloc
  --redraw          measures nothing: draws the charts of the page again, from its tables
  --rounds          also tells every figure of every round, on stderr
  --list            the workloads and the contestants
";

#[derive(Debug, PartialEq)]
pub(crate) enum Args {
    Help,
    List,
    /// For its own child processes: does the cases that it reads. The number is the steps per
    /// microsecond.
    Serve(u64),
    /// Draws the charts of this page.
    Redraw(PathBuf),
    Run(Run),
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) growth: bool,
    pub(crate) quick: bool,
    pub(crate) rounds: bool,
    /// Keys of workloads. Empty means all.
    pub(crate) only: Vec<String>,
    /// Empty means the default.
    pub(crate) workers: Vec<usize>,
    /// `None` means all.
    pub(crate) cores: Option<usize>,
    /// Another build of this program.
    pub(crate) against: Option<PathBuf>,
    /// The requested page.
    out: Option<PathBuf>,
}

impl Run {
    /// The page to write. By default only a complete run with the default allocator replaces the
    /// page of the repository.
    pub(crate) fn out(&self) -> Option<PathBuf> {
        let whole = !self.quick
            && self.only.is_empty()
            && self.workers.is_empty()
            && self.cores.is_none()
            && self.against.is_none();
        self.out.clone().or((whole && !MIMALLOC).then(usual_page))
    }

    pub(crate) fn plan(&self) -> Plan {
        let usual: &[usize] = if self.quick { &[2] } else { &[2, 4] };
        let workers = if self.workers.is_empty() { usual.to_vec() } else { self.workers.clone() };
        Plan { quick: self.quick, workers }
    }
}

/// The page of the repository.
fn usual_page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md")
}

/// Parses the arguments. An error is one line.
pub(crate) fn parse(args: impl IntoIterator<Item = String>, known: &[&Workload]) -> Result<Args, String> {
    let mut args = args.into_iter().peekable();
    let (mut run, mut redraw) = (Run::default(), false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--help" | "-h" => return Ok(Args::Help),
            "--list" => return Ok(Args::List),
            "--serve" => {
                let steps = args.next().and_then(|steps| steps.parse().ok());
                return Ok(Args::Serve(steps.ok_or("--serve needs a number")?));
            }
            "--redraw" => redraw = true,
            "--rounds" => run.rounds = true,
            "--growth" => run.growth = true,
            "--quick" => run.quick = true,
            "--only" => {
                let before = run.only.len();
                while let Some(key) = args.next_if(|arg| !arg.starts_with('-')) {
                    if !known.iter().any(|workload| workload.key == key) {
                        return Err(format!("no workload is called {key:?}; --list tells them"));
                    }
                    run.only.push(key);
                }
                if run.only.len() == before {
                    return Err("--only needs at least one workload".into());
                }
            }
            "--out" => {
                run.out = Some(args.next().ok_or("--out needs a file, such as docs/performance.md")?.into())
            }
            "--workers" => {
                let list = args.next().ok_or("--workers needs numbers, such as 2,4")?;
                run.workers =
                    numbers(&list).ok_or(format!("--workers needs numbers from 1 to 256, not {list:?}"))?;
            }
            "--cores" => {
                let cores = args.next().and_then(|cores| cores.parse().ok()).filter(|cores| *cores > 0);
                run.cores = Some(cores.ok_or("--cores needs a number, such as 1")?);
            }
            "--against" => {
                run.against = Some(args.next().ok_or("--against needs a program: ci/ab.sh makes one")?.into())
            }
            _ => return Err(format!("unknown argument {arg:?}; --help tells them")),
        }
    }
    if redraw {
        return Ok(Args::Redraw(run.out.unwrap_or_else(usual_page)));
    }
    if run.against.is_some() && (run.growth || run.out.is_some()) {
        return Err("--against goes neither with --growth nor with --out".into());
    }
    let curve = |key: &String| key.starts_with("growth-");
    match run.only.iter().find(|key| curve(key) != run.growth) {
        Some(key) if run.growth => Err(format!("{key:?} is no curve; --list tells them")),
        Some(key) => Err(format!("{key:?} is a curve and needs --growth")),
        None => Ok(Args::Run(run)),
    }
}

fn numbers(list: &str) -> Option<Vec<usize>> {
    list.split(',').map(|number| number.parse().ok().filter(|number| (1..=256).contains(number))).collect()
}
