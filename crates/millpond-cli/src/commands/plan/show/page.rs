//! The report: one HTML page with figures and charts.

use super::super::Plan;
use super::super::target::Target;
use super::super::words::Phrase;
use super::figures::grid;
use super::{answer, arrivals, chart, formulas, load_name, target_words, tasks, warnings};
use crate::html::Page;

/// The most important figures. The others are collapsed.
const FIRST: [&str; 7] =
    ["refused", "total p50", "total p99", "threads peak", "utilisation", "target", "breaks at load"];

pub(crate) fn write(plans: &[Plan], target: Option<&Target>) -> String {
    let mut page = Page::new("millpond plan");
    let first = &plans[0].workload;
    page.paragraph(&format!("Arrivals: {}. Tasks: {}. Seed {}.", arrivals(first), tasks(first), first.seed));
    if let Some(target) = target {
        page.heading("The smallest pool").paragraph(&format!("Target: {}.", target_words(target)));
        for said in plans.iter().filter_map(|plan| answer::say(plan, target)) {
            page.subheading(&said.pool);
            said.paste.iter().for_each(|line| _ = page.verbatim(line));
            said.reasons.iter().for_each(|reason| _ = page.paragraph(reason));
        }
    }
    for plan in plans {
        if plans.len() > 1 {
            page.heading(&format!("At {}", load_name(plan.factor))).paragraph(&arrivals(&plan.workload));
        }
        one(&mut page, plan, target);
    }
    page.finish()
}

fn one(page: &mut Page, plan: &Plan, target: Option<&Target>) {
    for sentence in formulas(&plan.offered) {
        page.paragraph(&sentence);
    }
    if !plan.cases.is_empty() {
        let pools: Vec<Vec<String>> = plan
            .cases
            .iter()
            .map(|case| vec![case.pool.name.clone(), Phrase(&case.pool.pool).to_string()])
            .collect();
        page.table(&["pool", "made of"], &pools);
        let grid = grid(plan);
        let headers: Vec<&str> =
            [""].into_iter().chain(grid.columns.iter().map(|column| column.head.as_str())).collect();
        let rows: Vec<Vec<String>> = full_names(&grid.rows)
            .into_iter()
            .enumerate()
            .map(|(at, name)| {
                let cells = grid.columns.iter().map(|column| column.cells[at].clone());
                [name].into_iter().chain(cells).collect()
            })
            .collect();
        let (first, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| FIRST.contains(&&*row[0]));
        page.table(&headers, &first);
        page.folded("All figures", |page| page.table(&headers, &others));
    }
    for picture in chart::pictures(plan, target) {
        page.picture(&picture.wide, &picture.narrow, picture.caption);
    }
    for warning in warnings(plan, target) {
        page.paragraph(&warning);
    }
}

/// Names of rows with the name of their group: `total p99` for `p99` below `total mean`.
fn full_names(rows: &[&str]) -> Vec<String> {
    let mut group = "";
    rows.iter()
        .map(|name| match name.strip_prefix(' ') {
            Some(_) => format!("{group} {}", name.trim()),
            None => {
                group = name.split(' ').next().unwrap_or(name);
                (*name).to_owned()
            }
        })
        .collect()
}
