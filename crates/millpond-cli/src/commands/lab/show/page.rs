//! The report: one HTML page with figures, tables and charts.

use super::super::record::Record;
use super::text::ending;
use super::{Played, admissions, chart, compare, summary};
use crate::error::Error;
use crate::html::Page;
use crate::term::Screen;
use crate::units;

/// A screen without colours: for tables that are made for the terminal.
const PLAIN: Screen = Screen { is_terminal: false, width: 100, colours: false };

/// Below a timeline.
const LANES: &str = "A lane for each thread; below, the tasks in the queue and the number of threads. Point at a task \
                     to read about it.";

pub(crate) fn write(played: &[Played]) -> Result<String, Error> {
    let names: Vec<&str> = played.iter().map(|workload| workload.name.as_str()).collect();
    let mut page = Page::new(&format!("millpond lab: {}", names.join(", ")));
    for workload in played {
        if played.len() > 1 {
            page.heading(&workload.name);
        }
        page.paragraph(&workload.about);
        let speed = workload.scenes.first().map_or(1.0, |scene| scene.speed);
        if speed != 1.0 {
            page.paragraph(&format!("Played {speed} times as fast; times are shown as if it were not."));
        }
        if workload.compare {
            comparison(&mut page, workload)?;
        } else {
            for record in &workload.scenes {
                scene(&mut page, record)?;
            }
        }
        if let Some(verdict) = &workload.verdict {
            page.paragraph(verdict);
        }
    }
    Ok(page.finish())
}

fn comparison(page: &mut Page, workload: &Played) -> Result<(), Error> {
    let legend = compare::legend(&workload.scenes);
    let rows: Vec<Vec<&str>> = legend.into_iter().map(|(title, pool)| vec![title, pool]).collect();
    page.table(&["pool", "made of"], &rows);
    for (heading, scenes) in compare::groups(&workload.scenes) {
        page.subheading(heading);
        let rows: Vec<Vec<String>> = scenes.iter().map(|scene| compare::figures(scene)).collect();
        page.table(&compare::HEADERS, &rows);
        let [threads, queue] = chart::comparison(&scenes)?;
        page.figure(&threads, "How many threads each pool has.");
        page.figure(&queue, "How many tasks wait in each queue.");
        let timelines = chart::scenes(&scenes)?;
        page.folded("The timeline of each pool", |page| page.figure(&timelines, LANES));
    }
    for record in &workload.scenes {
        unmet(page, record);
    }
    Ok(())
}

fn scene(page: &mut Page, record: &Record) -> Result<(), Error> {
    page.subheading(&record.title).paragraph(&record.pool);
    if let Some(says) = &record.says {
        page.paragraph(says);
    }
    if !record.tasks.is_empty() {
        page.paragraph(&format!("{}. {}", admissions::totals(record), summary(record)));
    }
    page.figure(&chart::scenes(&[record])?, LANES);
    if let Some(table) = admissions::table(record, &PLAIN) {
        page.table(&table.headers(), table.rows());
    }
    let steps: Vec<Vec<String>> = record
        .steps
        .iter()
        .map(|step| {
            let figures = [step.threads, step.active, step.queued].map(|figure| figure.to_string());
            let mut row = vec![step.says.clone(), units::show(step.at)];
            row.extend(figures);
            row.push(step.completed.to_string());
            row
        })
        .collect();
    page.table(&["after this step", "at", "threads", "active", "queued", "done"], &steps);
    if !record.notes.is_empty() {
        page.verbatim(&record.notes.join("\n"));
    }
    if record.ending.asked_for {
        page.paragraph(&ending(record));
    }
    unmet(page, record);
    Ok(())
}

fn unmet(page: &mut Page, record: &Record) {
    for unmet in &record.unmet {
        page.paragraph(&format!("NOT as expected: {}: {unmet}", record.title));
    }
}
