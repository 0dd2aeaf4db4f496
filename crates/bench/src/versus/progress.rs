//! Reports progress on stderr: in one changing line on a terminal, otherwise in a line per case.

use std::io::IsTerminal;
use std::time::Duration;

use crate::measure::Progress;
use crate::workloads::{Case, Failure, Outcome, Workload};

pub(crate) struct Teller {
    cases: usize,
    /// The number of the case, from 1.
    case: usize,
    label: String,
    left: String,
    terminal: bool,
    /// Whether every figure is reported.
    figures: bool,
}

impl Teller {
    pub(crate) fn new(cases: usize, figures: bool) -> Teller {
        let (label, left) = (String::new(), String::new());
        Teller { cases, case: 0, label, left, terminal: std::io::stderr().is_terminal(), figures }
    }

    /// Called when a case begins. `left` is the time for it and all later ones.
    pub(crate) fn next(&mut self, workload: &Workload, case: &Case, left: Duration) {
        self.case += 1;
        self.label = format!("{} {}", workload.key, workload.heading(case));
        let seconds = left.as_secs();
        self.left = format!("up to {}:{:02} min left", seconds / 60, seconds % 60);
        if !self.terminal {
            eprintln!("{}", self.line());
        }
    }

    /// Clears the line before other output.
    pub(crate) fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn line(&self) -> String {
        format!("[{}/{}, {}] {}", self.case, self.cases, self.left, self.label)
    }
}

impl Progress for Teller {
    fn begins(&mut self, round: usize, name: &str) {
        if self.terminal {
            eprint!("\r\x1b[K{}, round {round}: {name}", self.line());
        }
    }

    fn ended(&mut self, round: usize, name: &str, outcome: &Outcome) {
        let text = match outcome {
            Err(Failure::NotOffered) => return,
            Err(Failure::Wrong(what)) => format!("failed, {what}"),
            Ok(figures) if self.figures => {
                figures.iter().map(|figure| format!("{figure:.1}")).collect::<Vec<_>>().join(" ")
            }
            Ok(_) => return,
        };
        self.clear();
        eprintln!("{}, round {round}, {name}: {text}", self.label);
    }
}
