//! The Grafana board, the alert rules and the documentation name all exported metrics, and no
//! others.

use std::collections::BTreeSet;

use millpond::executors;
use millpond_prometheus::Exporter;
use millpond_prometheus::catalog::METRICS;
use yaml_rust2::{Yaml, YamlLoader};

use crate::board;
use crate::fixture::Fixture;
use crate::reader::{Family, Sample, parse};

const PAGE: &str = include_str!("../../docs/metrics.md");
const RULES: &str = include_str!("../../alerts/millpond.rules.yml");

/// All metrics that a process can export.
fn exported() -> Vec<Family> {
    let (pool, scheduled) = (Fixture::new("docs").end(), executors::scheduled(1));
    let mut text = String::new();
    Exporter::new().write_snapshots(&[pool.snapshot(), scheduled.snapshot()], &mut text).unwrap();
    parse(&text)
}

/// A metric in a query: its name, and its matchers `label="value"`.
struct Selector<'a> {
    name: &'a str,
    matchers: Vec<(&'a str, &'a str, &'a str)>,
}

fn selectors(query: &str) -> Vec<Selector<'_>> {
    let begins = query.match_indices("millpond_").map(|(at, _)| at);
    begins.map(|at| selector(&query[at..])).collect()
}

fn selector(text: &str) -> Selector<'_> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let Some(braces) = rest.strip_prefix('{') else { return Selector { name, matchers: Vec::new() } };
    let (inside, _) = braces.split_once('}').expect("the brace is closed");
    let matchers = inside.split(',').map(|matcher| {
        let (left, value) =
            matcher.strip_suffix('"').and_then(|m| m.split_once('"')).expect("a matcher has a value");
        let label = left.trim_end_matches(['=', '!', '~']);
        (label.trim(), &left[label.len()..], value)
    });
    Selector { name, matchers: matchers.collect() }
}

fn check_query(query: &str, exported: &[Family]) {
    let found = selectors(query);
    assert!(!found.is_empty(), "no metric of millpond in {query}");
    for Selector { name, matchers } in found {
        let samples: Vec<&Sample> =
            exported.iter().flat_map(|family| &family.samples).filter(|sample| sample.name == name).collect();
        assert!(!samples.is_empty(), "{name} is not exported: {query}");
        for (label, operator, value) in matchers {
            let mut values = samples.iter().filter_map(|sample| sample.label(label));
            let is_known = match (label, operator) {
                ("instance" | "job", _) => true, // added by Prometheus
                (_, "=" | "!=") => values.any(|known| known == value),
                _ => values.next().is_some(),
            };
            assert!(is_known, "{name} has no {label}{operator}{value}: {query}");
        }
    }
}

#[test]
fn every_query_of_the_board_finds_its_metric() {
    let exported = exported();
    board::queries().iter().for_each(|query| check_query(query, &exported));
}

#[test]
fn board_shows_every_metric() {
    let queries = board::queries().join(" ");
    let used: BTreeSet<_> = selectors(&queries).iter().map(|selector| selector.name).collect();
    for metric in &METRICS {
        assert!(used.iter().any(|name| name.starts_with(metric.name)), "{} is on no panel", metric.name);
    }
}

/// Grafana moves panels that overlap, and an operator finds a panel by its title.
#[test]
fn panels_of_the_board_have_a_place_a_title_and_an_explanation() {
    let board = board::read();
    let panels = board["panels"].as_array().expect("panels");
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its id is there twice");
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|field| panel["gridPos"][field].as_u64().expect("a number"));
        assert!(w > 0 && h > 0 && x + w <= 24, "{title}: the grid is 24 wide");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{title}: overlaps at {cell:?}");
        }
        let is_row = panel["type"] == "row";
        assert!(is_row || panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{title}");
    }
}

/// The fields of a map, by name.
fn text<'a>(rule: &'a Yaml, field: &str) -> &'a str {
    rule[field].as_str().unwrap_or_else(|| panic!("no {field} in {rule:?}"))
}

#[test]
fn every_alert_rule_finds_its_metric_and_is_explained() {
    let (documents, exported) = (YamlLoader::load_from_str(RULES).expect("the rules are YAML"), exported());
    let rules = documents[0]["groups"][0]["rules"].as_vec().expect("rules");
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = text(rule, "alert");
        assert!(names.insert(name), "{name} is there twice");
        check_query(text(rule, "expr"), &exported);
        assert!(["info", "warning", "critical"].contains(&text(&rule["labels"], "severity")), "{name}");
        assert!(text(&rule["annotations"], "summary").starts_with("{{ $labels.pool }}: "), "{name}");
        assert!(text(&rule["annotations"], "description").ends_with('.'), "{name}");
        assert!(PAGE.contains(&format!("`{name}`")), "docs/metrics.md does not explain {name}");
    }
    assert!(rules.len() >= 10, "{names:?}");
}

#[test]
fn page_has_every_metric_with_its_labels() {
    for family in exported() {
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{}`", family.name)));
        let row = row.unwrap_or_else(|| panic!("docs/metrics.md has no row for {}", family.name));
        assert!(row.contains(&family.kind), "{}: {row}", family.name);
        for sample in &family.samples {
            let labels = sample.labels.iter().filter(|(label, _)| !["pool", "le"].contains(&label.as_str()));
            for (label, value) in labels {
                assert!(row.contains(&format!("`{label}`")), "{}: no {label} in {row}", family.name);
                let is_listed = family.name != "millpond_build_info";
                assert!(!is_listed || PAGE.contains(&format!("`{value}`")), "{}: no {value}", family.name);
            }
        }
    }
}
