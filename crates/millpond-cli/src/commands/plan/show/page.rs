//! The report: one HTML page with figures and charts.

use super::super::Plan;
use super::super::target::Target;
use super::super::words::Phrase;
use super::figures::grid;
use super::{answer, arrivals, chart, formulas, load_name, target_words, tasks, warnings};
use crate::error::Error;
use crate::html::Page;

pub(crate) fn write(plans: &[Plan], target: Option<&Target>) -> Result<String, Error> {
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
        one(&mut page, plan, target, plans.len() > 1)?;
    }
    Ok(page.finish())
}

fn one(page: &mut Page, plan: &Plan, target: Option<&Target>, several: bool) -> Result<(), Error> {
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
        let rows: Vec<Vec<String>> = grid
            .rows
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let cells = grid.columns.iter().map(|column| column.cells[at].clone());
                // Browsers drop leading spaces.
                let name = if name.starts_with(' ') {
                    format!("\u{2003}{}", name.trim())
                } else {
                    (*name).to_owned()
                };
                [name].into_iter().chain(cells).collect()
            })
            .collect();
        page.table(&headers, &rows);
    }
    for panel in chart::panels(plan, target, several) {
        page.figure(&panel.svg()?, panel.caption);
    }
    for warning in warnings(plan, target) {
        page.paragraph(&warning);
    }
    Ok(())
}
