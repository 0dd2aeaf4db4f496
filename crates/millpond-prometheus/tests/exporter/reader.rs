//! A strict reader of the text format.

use std::collections::HashSet;

/// The samples of one metric.
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

impl Sample {
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|label| label.0 == name).map(|label| label.1.as_str())
    }
}

/// Reads the text and panics at the first violation of the format or of its conventions.
pub(crate) fn parse(text: &str) -> Vec<Family> {
    assert!(text.ends_with('\n'), "the last line must end");
    let mut families: Vec<Family> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ").unwrap_or_else(|| panic!("no HELP: {line}"));
        let (name, help) = help.split_once(' ').expect("HELP has a text");
        assert!(help.ends_with('.'), "{name}: help is a sentence");
        let header = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect("TYPE follows HELP");
        let (typed, kind) = header.split_once(' ').expect("TYPE has a type");
        assert_eq!(typed, name, "TYPE and HELP have the same name");
        let mut samples = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            samples.push(sample(line));
        }
        families.push(Family { name: name.to_owned(), kind: kind.to_owned(), samples });
    }
    check(&families);
    families
}

fn sample(line: &str) -> Sample {
    let (name, rest) = line.split_once('{').unwrap_or_else(|| panic!("no labels: {line}"));
    assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
    let (labels, rest) = labels(rest);
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no space before the value: {line}"));
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("no value: {line}"));
    assert!(value.is_finite() && value >= 0.0, "{line}");
    Sample { name: name.to_owned(), labels, value }
}

/// Reads labels up to the closing brace. Returns the rest of the text.
fn labels(mut text: &str) -> (Vec<(String, String)>, &str) {
    let mut labels = Vec::new();
    loop {
        let (name, rest) = text.split_once("=\"").expect("a label has a value");
        let (value, rest) = unescaped(rest);
        labels.push((name.to_owned(), value));
        match rest.split_at(1) {
            (",", rest) => text = rest,
            ("}", rest) => return (labels, rest),
            other => panic!("after a label: {other:?}"),
        }
    }
}

/// Reads up to the closing quote.
fn unescaped(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next().expect("an escape has a second character").1 {
                'n' => value.push('\n'),
                c @ ('\\' | '"') => value.push(c),
                c => panic!("unknown escape {c}"),
            },
            c => value.push(c),
        }
    }
    panic!("no closing quote: {text}")
}

fn check(families: &[Family]) {
    let (mut names, mut series) = (HashSet::new(), HashSet::new());
    for family in families {
        assert!(names.insert(&family.name), "{} is there twice", family.name);
        assert!(!family.samples.is_empty(), "{} has no samples", family.name);
        assert_eq!(family.kind == "counter", family.name.ends_with("_total"), "{}", family.name);
        for sample in &family.samples {
            let mut labels = sample.labels.clone();
            labels.sort();
            assert!(
                labels.windows(2).all(|pair| pair[0].0 != pair[1].0),
                "a label is there twice: {labels:?}"
            );
            assert!(
                series.insert((&sample.name, labels)),
                "{} {:?} is there twice",
                sample.name,
                sample.labels
            );
        }
        match family.kind.as_str() {
            "histogram" | "summary" => check_histogram(family),
            "counter" | "gauge" => assert!(family.samples.iter().all(|sample| sample.name == family.name)),
            kind => panic!("unknown type {kind}"),
        }
    }
}

fn check_histogram(family: &Family) {
    let of = |suffix: &str, pool: &str| -> Vec<&Sample> {
        let name = format!("{}_{suffix}", family.name);
        family.samples.iter().filter(|s| s.name == name && s.label("pool") == Some(pool)).collect()
    };
    let pools: HashSet<&str> = family.samples.iter().filter_map(|sample| sample.label("pool")).collect();
    for pool in pools {
        let (sum, count, buckets) = (of("sum", pool), of("count", pool), of("bucket", pool));
        assert_eq!((sum.len(), count.len()), (1, 1), "{} of {pool}", family.name);
        if family.kind == "summary" {
            assert!(buckets.is_empty());
            continue;
        }
        let bounds: Vec<f64> =
            buckets.iter().map(|bucket| bucket.label("le").expect("le").parse().expect("a number")).collect();
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        assert!(buckets.windows(2).all(|pair| pair[0].value <= pair[1].value), "not cumulative");
        assert_eq!(bounds.last(), Some(&f64::INFINITY));
        assert_eq!(buckets.last().expect("+Inf").value, count[0].value);
    }
}

/// The value of the series `name{labels}`, with the labels in the order of the text.
pub(crate) fn value(families: &[Family], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let all = families.iter().flat_map(|family| &family.samples);
    let has = |sample: &&Sample| {
        sample.name == name
            && sample.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).eq(labels.iter().copied())
    };
    all.filter(has).map(|sample| sample.value).next()
}
