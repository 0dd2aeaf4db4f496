//! The command line.

use std::path::PathBuf;

use crate::workloads::{Plan, Workload};

pub(crate) const USAGE: &str = "\
Measures millpond and its peers side by side.

usage: versus [--quick] [--only WORKLOAD..] [--workers N,..] [--out FILE]
       versus --growth [--quick] [--only WORKLOAD..] [--out FILE]
       versus --list

  --growth          curves instead: the cost per task as sizes and numbers grow
  --quick           fewer rounds and smaller sizes: three minutes at most
  --only WORKLOAD.. only these workloads
  --workers N,..    numbers of workers; 2,4 if not given, 2 in a quick run
  --out FILE        also writes a page with tables, and charts to a directory beside it, with its name;
                    docs/performance.md, or docs/growth.md, if not given and everything is measured
  --list            the workloads and the contestants
";

#[derive(Debug, PartialEq)]
pub(crate) enum Args {
    Help,
    List,
    /// For its own child processes: the name of a pool, and how many closures.
    Memory(String, u64),
    Run(Run),
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) growth: bool,
    pub(crate) quick: bool,
    /// Keys of workloads. Empty: all.
    pub(crate) only: Vec<String>,
    /// Empty: as many as is usual.
    pub(crate) workers: Vec<usize>,
    /// Asked for.
    out: Option<PathBuf>,
}

impl Run {
    /// Where the page goes. Only what was measured whole replaces the page of the repository unasked.
    pub(crate) fn out(&self) -> Option<PathBuf> {
        let whole = !self.quick && self.only.is_empty() && self.workers.is_empty();
        let page = if self.growth { "docs/growth.md" } else { "docs/performance.md" };
        self.out.clone().or(whole.then(|| page.into()))
    }

    pub(crate) fn plan(&self) -> Plan {
        let usual: &[usize] = if self.quick { &[2] } else { &[2, 4] };
        let workers = if self.workers.is_empty() { usual.to_vec() } else { self.workers.clone() };
        Plan { quick: self.quick, workers }
    }
}

/// Reads the arguments; an error is one line.
pub(crate) fn parse(args: impl IntoIterator<Item = String>, known: &[&Workload]) -> Result<Args, String> {
    let mut args = args.into_iter().peekable();
    let mut run = Run::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--help" | "-h" => return Ok(Args::Help),
            "--list" => return Ok(Args::List),
            "--memory" => {
                let name = args.next().ok_or("--memory needs a pool and a number")?;
                let size = args.next().and_then(|size| size.parse().ok()).ok_or("--memory needs a number")?;
                return Ok(Args::Memory(name, size));
            }
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
            _ => return Err(format!("unknown argument {arg:?}; --help tells them")),
        }
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
