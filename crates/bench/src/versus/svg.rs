//! Small charts, written by hand: groups of bars, and curves.

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

/// A line through points, from left to right.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) ours: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Curves over logarithmic axes, each named at its end.
pub(crate) fn curves(title: &str, unit: &str, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x = Axis::over(points().map(|point| point.0), 60.0, WIDTH - 190.0);
    let y = Axis::over(points().map(|point| point.1), 320.0, 50.0);
    let mut body = String::new();
    _ = writeln!(body, r#"<text class="t" x="8" y="24">{}, {}</text>"#, escape(title), escape(unit));
    for power in x.powers() {
        let at = x.place(power);
        _ = writeln!(body, r##"<line x1="{at:.1}" x2="{at:.1}" y1="50" y2="320" stroke="#ddd"/>"##);
        _ = writeln!(body, r#"<text class="g" x="{at:.1}" y="338" text-anchor="middle">{power}</text>"#);
    }
    for power in y.powers() {
        let at = y.place(power);
        let to = WIDTH - 190.0;
        _ = writeln!(body, r##"<line x1="60" x2="{to}" y1="{at:.1}" y2="{at:.1}" stroke="#ddd"/>"##);
        let base = at + 4.0;
        _ = writeln!(body, r#"<text class="g" x="54" y="{base:.1}" text-anchor="end">{power}</text>"#);
    }
    for (index, curve) in curves.iter().enumerate() {
        let path: Vec<String> = curve
            .points
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", x.place(*at), y.place(*value)))
            .collect();
        let (color, width) = if curve.ours { ("#1f6fb2", 3) } else { (PEERS[index % PEERS.len()], 1) };
        let path = path.join(" ");
        _ = writeln!(
            body,
            r#"<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>"#
        );
        // The names have a column of their own, where they cannot cover each other.
        let line = 60.0 + ROW * index as f64;
        let left = WIDTH - 178.0;
        _ = writeln!(body, r#"<rect x="{left}" y="{}" width="12" height="4" fill="{color}"/>"#, line - 6.0);
        _ = writeln!(body, r#"<text x="{}" y="{line}">{}</text>"#, left + 18.0, escape(&curve.name));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} 350\" width=\"{WIDTH}\" height=\"350\">\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

const PEERS: [&str; 5] = ["#c0504d", "#7f9f3f", "#8064a2", "#d08a2f", "#666666"];

/// A logarithmic axis, over whole powers of ten.
struct Axis {
    /// Exponents of ten.
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let logs: Vec<f64> = values.map(|value| value.max(1.0).log10()).collect();
        let least = logs.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let most = logs.iter().copied().fold(0.0, f64::max).ceil();
        let least = if least.is_finite() { least } else { 0.0 };
        Axis { least, most: most.max(least + 1.0), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.max(1.0).log10() - self.least) / (self.most - self.least);
        self.from + (self.to - self.from) * share
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.least as i32..=self.most as i32).map(|power| 10_f64.powi(power))
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
