//! The contents of the tables: columns of figures, and which contestant is ahead.

use crate::contestants::Home;
use crate::contestants::field::Contestant;
use crate::measure::{Figure, Measured};

/// One column of a table: a metric of a case.
#[derive(Clone, Copy)]
pub(crate) struct Column<'a> {
    pub(crate) measured: &'a Measured,
    pub(crate) metric: usize,
}

/// The peers of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peers {
    All,
    /// Peers with the same guarantees.
    Alike,
    Jdk,
}

impl Peers {
    pub(crate) const EACH: [Peers; 3] = [Peers::All, Peers::Alike, Peers::Jdk];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Peers::All => "best peer",
            Peers::Alike => "best alike",
            Peers::Jdk => "best of the JDK",
        }
    }

    fn contain(self, one: &Contestant, workload: &str) -> bool {
        let counts = match self {
            Peers::All => true,
            Peers::Alike => one.promise.is_ours(workload),
            Peers::Jdk => one.home == Home::Jdk,
        };
        counts && one.home != Home::Us
    }
}

/// The best of some peers.
pub(crate) struct Best {
    /// The index of the contestant.
    pub(crate) index: usize,
    pub(crate) median: f64,
    /// Their figure divided by millpond's: above 1 millpond is ahead. `None` if millpond has no
    /// figure, or it is zero.
    pub(crate) ratio: Option<f64>,
}

impl Column<'_> {
    /// What distinguishes the column from the others, from the largest to the smallest.
    pub(crate) fn parts(&self) -> Vec<String> {
        let (workload, metric) = (self.measured.workload, &self.measured.workload.metrics[self.metric]);
        let heading = workload.heading(&self.measured.case);
        let name = (!metric.name.is_empty()).then(|| metric.name.to_owned());
        heading.split(", ").map(str::to_owned).chain(name).collect()
    }

    pub(crate) fn heading(&self) -> String {
        self.parts().join(", ")
    }

    pub(crate) fn figure(&self, contestant: usize) -> Option<Figure> {
        self.measured.rows.iter().find(|row| row.index == contestant)?.figure(self.metric)
    }

    pub(crate) fn cell(&self, contestant: usize) -> String {
        let Some(row) = self.measured.rows.iter().find(|row| row.index == contestant) else {
            return "-".into();
        };
        match row.figure(self.metric) {
            Some(figure) => format!("{} ±{:>2.0}%", number(figure.median), 100.0 * figure.spread()),
            None if row.figures.is_err() => "failed".into(),
            None => "unknown".into(),
        }
    }

    pub(crate) fn ours(&self, all: &[Contestant]) -> Option<Figure> {
        let us = |index: &usize| all[*index].home == Home::Us;
        (0..all.len()).filter(us).find_map(|index| self.figure(index))
    }

    pub(crate) fn best(&self, all: &[Contestant], peers: Peers) -> Option<Best> {
        let key = self.measured.workload.key;
        let peers = all.iter().enumerate().filter(|(_, one)| peers.contain(one, key));
        let figures = peers.filter_map(|(index, _)| Some((index, self.figure(index)?.median)));
        let (index, median) = figures.min_by(|one, other| one.1.total_cmp(&other.1))?;
        let ratio = self.ours(all).and_then(|ours| self.ratio(median, ours.median));
        Some(Best { index, median, ratio })
    }

    /// Their median divided by millpond's. `None` if that is zero.
    fn ratio(&self, theirs: f64, ours: f64) -> Option<f64> {
        let grain = self.measured.workload.metrics[self.metric].grain;
        let ours = ours.max(grain);
        (ours > 0.0).then(|| theirs.max(grain) / ours)
    }
}

/// Three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

pub(crate) fn columns(measured: &[Measured]) -> Vec<Column<'_>> {
    let of = |measured| move |metric| Column { measured, metric };
    measured.iter().flat_map(|one| (0..one.workload.metrics.len()).map(of(one))).collect()
}

/// The contestants with a row in a table of these columns.
pub(crate) fn rows(all: &[Contestant], columns: &[Column]) -> Vec<usize> {
    let has = |column: &Column, index| column.measured.rows.iter().any(|row| row.index == index);
    let takes_part = |index: &usize| columns.iter().any(|column| has(column, *index));
    (0..all.len()).filter(takes_part).collect()
}

/// A table of curves: a line for each point, a column for each contestant, headings first.
pub(crate) fn points(all: &[Contestant], measured: &[Measured], metric: usize) -> Vec<Vec<String>> {
    let Some(workload) = measured.first().map(|first| first.workload) else { return Vec::new() };
    let rows = rows(all, &columns(measured));
    let names = rows.iter().map(|index| all[*index].name.to_owned());
    let corner = workload.metrics[metric].name.to_owned();
    let mut lines: Vec<Vec<String>> = vec![std::iter::once(corner).chain(names).collect()];
    for measured in measured {
        let cells = rows.iter().map(|index| Column { measured, metric }.cell(*index));
        lines.push(std::iter::once(workload.heading(&measured.case)).chain(cells).collect());
    }
    lines
}

/// The useful comparisons: one with the same result as another is omitted.
pub(crate) fn comparisons(all: &[Contestant], columns: &[Column]) -> Vec<Peers> {
    let best = |peers| {
        let one = |column: &Column| column.best(all, peers).map(|best| best.index);
        columns.iter().map(one).collect::<Vec<_>>()
    };
    let worth = |peers: &Peers| match peers {
        Peers::All | Peers::Jdk => best(*peers).iter().any(Option::is_some),
        Peers::Alike => best(Peers::Alike) != best(Peers::All),
    };
    Peers::EACH.into_iter().filter(worth).collect()
}

/// A name, and a ratio for each column.
pub(crate) type Ratios = (String, Vec<Option<f64>>);

/// Ratios in addition to [`comparisons`]: for millpond's further contestants, and against the
/// reference peer.
pub(crate) fn further_ratios(all: &[Contestant], columns: &[Column]) -> Vec<Ratios> {
    let name_of = |index: usize| all[index].name;
    let rows = rows(all, columns);
    let ours: Vec<usize> = rows.iter().copied().filter(|index| all[*index].home == Home::Us).collect();
    let best = |index: usize| {
        let one = |column: &Column| {
            let best = column.best(all, Peers::All)?;
            column.ratio(best.median, column.figure(index)?.median)
        };
        (format!("best peer / {}", name_of(index)), columns.iter().map(one).collect())
    };
    let mut ratios: Vec<Ratios> = ours.into_iter().skip(1).map(best).collect();
    let reference = columns.first().and_then(|column| column.measured.workload.reference());
    if let Some(reference) = reference.and_then(|name| rows.into_iter().find(|index| name_of(*index) == name))
    {
        let one = |column: &Column| column.ratio(column.figure(reference)?.median, column.ours(all)?.median);
        ratios.push((format!("{} / us", name_of(reference)), columns.iter().map(one).collect()));
    }
    ratios
}

/// The number of rounds, how busy the machine was, and the distance of its cores.
pub(crate) fn circumstances(measured: &[Measured]) -> String {
    let rounds = measured.iter().map(|measured| measured.rounds);
    let others = measured.iter().filter_map(|measured| measured.others).reduce(f64::max);
    let others = others.map_or("unknown".into(), |others| format!("up to {:.0} %", 100.0 * others));
    let (least, most) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
    let rounds = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let distance = distance(measured).map_or(String::new(), |distance| format!("; {distance}"));
    format!("{rounds} rounds; share of the machine that others used: {others}{distance}")
}

/// The quartiles of the distances measured between the rounds.
fn distance(measured: &[Measured]) -> Option<String> {
    let Figure { low, high, .. } = Figure::of(measured.iter().flat_map(|one| one.distances.iter().copied()))?;
    Some(format!("a cache line took {low:.0} to {high:.0} ns from core to core"))
}

/// Failures by contestant and case.
pub(crate) fn failures(all: &[Contestant], measured: &[Measured]) -> Vec<String> {
    let mut failures = Vec::new();
    for measured in measured {
        for row in &measured.rows {
            if let Err(what) = &row.figures {
                let label = measured.workload.heading(&measured.case);
                failures.push(format!("{}, {label}: {what}", all[row.index].name));
            }
        }
    }
    failures
}

/// The largest share of the machine that other processes used, if that can distort figures.
pub(crate) fn disturbance<'a>(measured: impl Iterator<Item = &'a Measured>) -> Option<String> {
    let most = measured.filter_map(|one| one.others).fold(0.0, f64::max);
    (most > 0.1).then(|| {
        let share = 100.0 * most;
        format!("The machine was busy with other things: up to {share:.0} % of it. Ratios may be wrong.")
    })
}

/// The number of figures in which millpond is at least level with the best peer.
pub(crate) fn verdict(all: &[Contestant], columns: &[Column]) -> String {
    let count = |peers: Peers| {
        let ratios = || columns.iter().filter_map(|column| column.best(all, peers)?.ratio);
        let (ahead, of) = (ratios().filter(|ratio| *ratio >= 1.0).count(), ratios().count());
        (of > 0).then(|| format!("the {} in {ahead} of {of} figures", peers.name()))
    };
    let counts: Vec<String> = Peers::EACH.into_iter().filter_map(count).collect();
    format!("millpond is at least level with {}", counts.join(", "))
}
