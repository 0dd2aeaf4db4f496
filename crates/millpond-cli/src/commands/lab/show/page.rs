//! The report: one HTML page with figures, tables and charts.

use super::super::record::Record;
use super::text::ending;
use super::{Played, admissions, compare, figure, summary};
use crate::html::Page;
use crate::term::Screen;
use crate::units;

/// A screen without colours, to embed tables of the terminal.
const PLAIN: Screen = Screen { is_terminal: false, width: 100, colours: false };

/// Caption of a timeline.
const LANES: &str = "A lane for each thread. The colour of a bar is how its task was admitted; a thin line before \
                     it is the task's time in the queue. Point at a bar for its times.";

/// Caption of a timeline with more runs than fit.
const SUMMARISED: &str = "A lane for each thread or group of threads. Each pixel shows the most frequent admission of \
                          its moment, darker the longer the threads are busy; a curve shows the mean with a band \
                          from least to most.";

pub(crate) fn write(played: &[Played]) -> String {
    let names: Vec<&str> = played.iter().map(|workload| workload.name.as_str()).collect();
    let mut page = Page::new(&format!("millpond lab: {}", names.join(", ")));
    for workload in played {
        if played.len() > 1 {
            page.heading(&workload.name);
        }
        page.paragraph(&workload.about);
        let speed = workload.scenes.first().map_or(1.0, |scene| scene.speed);
        if speed != 1.0 {
            page.paragraph(&format!("Played {speed} times as fast; times are scaled back."));
        }
        if let Some(verdict) = &workload.verdict {
            page.paragraph(verdict);
        }
        if workload.compare {
            comparison(&mut page, workload);
        } else {
            for record in &workload.scenes {
                scene(&mut page, record);
            }
        }
    }
    page.finish()
}

fn comparison(page: &mut Page, workload: &Played) {
    let legend = compare::legend(&workload.scenes);
    let rows: Vec<Vec<&str>> = legend.into_iter().map(|(title, pool)| vec![title, pool]).collect();
    page.table(&["pool", "made of"], &rows);
    for (heading, scenes) in compare::groups(&workload.scenes) {
        page.subheading(heading);
        let rows: Vec<Vec<String>> = scenes.iter().map(|scene| compare::figures(scene)).collect();
        page.table(&compare::HEADERS, &rows);
        let [wide, narrow] =
            [crate::figure::WIDE, crate::figure::NARROW].map(|layout| figure::comparison(&scenes, layout));
        page.picture(&wide, &narrow, "All pools have the same scales. The lowest panel counts refused tasks as waiting for ever (red).");
        page.folded("The timeline of each pool", |page| {
            for record in scenes {
                page.subheading(&record.title);
                page.scrolling(&figure::scene(record, crate::figure::WIDE), caption(record));
            }
            page
        });
    }
    for record in &workload.scenes {
        unmet(page, record);
    }
}

fn timeline(page: &mut Page, record: &Record) {
    let [wide, narrow] =
        [crate::figure::WIDE, crate::figure::NARROW].map(|layout| figure::scene(record, layout));
    page.picture(&wide, &narrow, caption(record));
}

fn caption(record: &Record) -> &'static str {
    if figure::is_summarised(record) { SUMMARISED } else { LANES }
}

fn scene(page: &mut Page, record: &Record) {
    page.subheading(&record.title).paragraph(&record.pool);
    if let Some(says) = &record.says {
        page.paragraph(says);
    }
    if !record.tasks.is_empty() {
        page.paragraph(&format!("{}. {}", admissions::totals(record), summary(record)));
    }
    timeline(page, record);
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
}

fn unmet(page: &mut Page, record: &Record) {
    for unmet in &record.unmet {
        page.paragraph(&format!("NOT as expected: {}: {unmet}", record.title));
    }
}
