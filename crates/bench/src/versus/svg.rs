//! Small charts, written by hand: groups of bars.

use std::fmt::Write as _;

use crate::report::number;

/// One bar: from zero to the median, with a line from the least to the most.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) ours: bool,
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

const WIDTH: f64 = 720.0;
/// Where bars begin and where they end.
const LEFT: f64 = 170.0;
const RIGHT: f64 = WIDTH - 90.0;
const ROW: f64 = 18.0;
const STYLE: &str = "text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.g{fill:#555}\
    .ours{fill:#1f6fb2}.peer{fill:#b8c4ce}.range{stroke:#444;stroke-width:1}";

/// A chart with one group of bars below the other, each with its own scale.
pub(crate) fn bars(title: &str, unit: &str, groups: &[(String, Vec<Bar>)]) -> String {
    let mut body = String::new();
    let mut y = 24.0;
    _ = writeln!(body, r#"<text class="t" x="8" y="{y}">{}, {}</text>"#, escape(title), escape(unit));
    for (heading, bars) in groups {
        y += 26.0;
        _ = writeln!(body, r#"<text class="g" x="8" y="{y}">{}</text>"#, escape(heading));
        y += 6.0;
        let longest = bars.iter().map(|bar| bar.median).fold(0.0, f64::max);
        for bar in bars {
            one(&mut body, bar, y, longest);
            y += ROW;
        }
    }
    let height = y + 12.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\">\n<style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         {body}</svg>\n"
    )
}

fn one(body: &mut String, bar: &Bar, y: f64, longest: f64) {
    // Beyond the longest bar there is room for its range; what does not fit is cut.
    let x = |value: f64| {
        let share = if longest > 0.0 { value / longest } else { 0.0 };
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    };
    let class = if bar.ours { "ours" } else { "peer" };
    let (end, middle, base) = (x(bar.median), y + ROW / 2.0, y + ROW - 5.0);
    let name = escape(&bar.name);
    _ = writeln!(body, r#"<text x="{}" y="{base}" text-anchor="end">{name}</text>"#, LEFT - 6.0);
    let (width, height) = (end - LEFT, ROW - 4.0);
    _ = writeln!(
        body,
        r#"<rect class="{class}" x="{LEFT}" y="{}" width="{width:.1}" height="{height}"/>"#,
        y + 2.0
    );
    let (from, to) = (x(bar.least), x(bar.most));
    _ = writeln!(body, r#"<line class="range" x1="{from:.1}" x2="{to:.1}" y1="{middle}" y2="{middle}"/>"#);
    let after = end.max(to) + 5.0;
    _ = writeln!(body, r#"<text x="{after:.1}" y="{base}">{}</text>"#, number(bar.median));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
