//! Small SVG charts: groups of bars, and curves. They follow the reader's light or dark scheme and
//! have a background of their own.

use std::fmt::Write as _;

use crate::contestants::Home;
use crate::table::number;

const STYLE: &str = "\
text{font:12px sans-serif;fill:#1f2328}.t{font-size:14px;font-weight:bold}.h{font-weight:bold}.a{fill:#59636e}\
.us{font-weight:bold}.bg{fill:#fff}.grid{stroke:#d8dee4;fill:none}.range{stroke:#1f2328}\
.b0{fill:#1f6fb2}.b1{fill:#b4c0ca}.b2{fill:#e0bd8c}\
.l0{stroke:#1f6fb2}.l1{stroke:#c0504d}.l2{stroke:#5b8a2f}.l3{stroke:#8064a2}.l4{stroke:#c07a1a}.l5{stroke:#57606a}\
.l6{stroke:#1a8a8a}.curve{fill:none;stroke-width:1.5}.curve.l0{stroke-width:3}.dot{stroke-width:4;stroke-linecap:round}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.a{fill:#9198a1}.bg{fill:#0d1117}.grid{stroke:#30363d}\
.range{stroke:#e6edf3}.b0{fill:#58a6ff}.b1{fill:#545d68}.b2{fill:#8a6a35}\
.l0{stroke:#58a6ff}.l1{stroke:#ff7b72}.l2{stroke:#7ee787}.l3{stroke:#d2a8ff}.l4{stroke:#ffa657}.l5{stroke:#9198a1}\
.l6{stroke:#56d4dd}}";

fn document(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\">\n<style>{STYLE}</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n\
         {body}</svg>\n"
    )
}

/// Text with a class. `anchor` is start, middle or end.
fn text(body: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    let words = escape(words);
    _ = writeln!(
        body,
        r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#
    );
}

fn line(body: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    _ = writeln!(body, r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#);
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// One bar up to the median, with a line from quartile to quartile.
pub(crate) struct Bar {
    pub(crate) name: &'static str,
    pub(crate) home: Home,
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Bars with a scale of their own.
pub(crate) struct Group {
    pub(crate) heading: String,
    pub(crate) unit: &'static str,
    pub(crate) bars: Vec<Bar>,
}

/// Two groups side by side.
const GROUP: f64 = 480.0;
/// Where the bars of a group begin and end.
const LEFT: f64 = 150.0;
const RIGHT: f64 = GROUP - 60.0;
const ROW: f64 = 17.0;
/// Above the bars of a group, and below them.
const ABOVE: f64 = 24.0;
const BELOW: f64 = 44.0;

/// A chart with groups of bars, each with its own scale and the shortest bar on top.
pub(crate) fn bars(title: &str, mut groups: Vec<Group>) -> String {
    let mut body = String::new();
    let width = if groups.len() > 1 { 2.0 * GROUP } else { GROUP };
    text(&mut body, "t", 8.0, 24.0, "start", title);
    legend(&mut body, 46.0);
    let mut top = 60.0;
    for pair in groups.chunks_mut(2) {
        let most = pair.iter().map(|group| group.bars.len()).max().unwrap_or(0);
        for (column, one) in pair.iter_mut().enumerate() {
            one.bars.sort_by(|one, other| one.median.total_cmp(&other.median));
            group(&mut body, (column as f64 * GROUP, top), one);
        }
        top += ABOVE + ROW * most as f64 + BELOW;
    }
    document(width, top, &body)
}

fn legend(body: &mut String, y: f64) {
    for (index, name) in ["millpond", "Rust", "JDK"].into_iter().enumerate() {
        let x = 8.0 + 90.0 * index as f64;
        _ = writeln!(body, r#"<rect class="b{index}" x="{x}" y="{}" width="12" height="12"/>"#, y - 10.0);
        text(body, "a", x + 18.0, y, "start", name);
    }
}

fn group(body: &mut String, (left, top): (f64, f64), Group { heading, unit, bars }: &Group) {
    let (top, bottom) = (top + ABOVE, top + ABOVE + ROW * bars.len() as f64);
    text(body, "h", left + 8.0, top - 8.0, "start", heading);
    let (from, to) = (left + LEFT, left + RIGHT);
    let axis = Axis::for_bars(bars.iter().map(|bar| bar.median), from, to);
    for tick in axis.ticks() {
        let x = axis.place(tick);
        line(body, "grid", (x, top), (x, bottom));
        text(body, "a", x, bottom + 14.0, "middle", &short(tick));
    }
    let scale = if axis.logarithmic { ", logarithmic scale" } else { "" };
    text(body, "a", (from + to) / 2.0, bottom + 29.0, "middle", &format!("{unit}{scale}, less is better"));
    for (index, bar) in bars.iter().enumerate() {
        one(body, bar, left, top + ROW * index as f64, &axis);
    }
}

fn one(body: &mut String, bar: &Bar, left: f64, y: f64, axis: &Axis) {
    let (end, middle, base) = (axis.place(bar.median), y + ROW / 2.0, y + ROW - 5.0);
    let (class, words) = match bar.home {
        Home::Us => ("b0", "us"),
        Home::Rust => ("b1", ""),
        Home::Jdk => ("b2", ""),
    };
    text(body, words, left + LEFT - 6.0, base, "end", bar.name);
    let (from, width) = (left + LEFT, end - left - LEFT);
    let top = y + 2.0;
    _ = writeln!(
        body,
        r#"<rect class="{class}" x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{:.1}"/>"#,
        ROW - 4.0
    );
    let (low, high) = (axis.place(bar.low), axis.place(bar.high));
    line(body, "range", (low, middle), (high, middle));
    text(body, words, end.max(high) + 5.0, base, "start", &number(bar.median));
}

/// A line through points, from left to right.
pub(crate) struct Curve {
    pub(crate) name: String,
    /// Curves with the same number have the same colour.
    pub(crate) who: usize,
    pub(crate) ours: bool,
    /// All but the first are dashed.
    pub(crate) metric: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

const PLOT: (f64, f64) = (70.0, 530.0);
const HEIGHT: (f64, f64) = (330.0, 50.0);

/// Curves over logarithmic axes. `title` names the horizontal axis.
pub(crate) fn curves(title: &str, unit: &str, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let mut places: Vec<f64> = points().map(|point| point.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let x = Axis::exact(&places, PLOT.0, PLOT.1);
    let y = Axis::around(points().map(|point| point.1), HEIGHT.0, HEIGHT.1);
    let mut body = String::new();
    text(&mut body, "t", 8.0, 24.0, "start", title);
    for place in places {
        let at = x.place(place);
        line(&mut body, "grid", (at, HEIGHT.0), (at, HEIGHT.1));
        text(&mut body, "a", at, HEIGHT.0 + 18.0, "middle", &short(place));
    }
    for tick in y.ticks() {
        let at = y.place(tick);
        line(&mut body, "grid", (PLOT.0, at), (PLOT.1, at));
        text(&mut body, "a", PLOT.0 - 6.0, at + 4.0, "end", &short(tick));
    }
    let below = format!("{} (both scales logarithmic)", title.to_lowercase());
    text(&mut body, "a", (PLOT.0 + PLOT.1) / 2.0, HEIGHT.0 + 38.0, "middle", &below);
    text(&mut body, "a", 8.0, HEIGHT.1 - 8.0, "start", &format!("{unit} each, less is better"));
    // Millpond's curves are drawn on top.
    let names = curves.iter().filter(|curve| !curve.ours).chain(curves.iter().filter(|curve| curve.ours));
    names.for_each(|curve| draw(&mut body, curve, curves, &x, &y));
    for (index, curve) in curves.iter().enumerate() {
        let at = HEIGHT.1 + 10.0 + 20.0 * index as f64;
        let class = format!("curve {}", color(curve, curves));
        _ = writeln!(body, r#"<path class="{class}"{} d="M{} {at}h30"/>"#, dashes(curve), PLOT.1 + 20.0);
        text(&mut body, if curve.ours { "us" } else { "" }, PLOT.1 + 58.0, at + 4.0, "start", &curve.name);
    }
    document(PLOT.1 + 270.0, HEIGHT.0 + 50.0, &body)
}

/// Millpond has the first colour, the others follow in order.
fn color(curve: &Curve, curves: &[Curve]) -> String {
    let mut others: Vec<usize> = curves.iter().filter(|one| !one.ours).map(|one| one.who).collect();
    others.dedup();
    let index = others.iter().position(|who| *who == curve.who).map_or(0, |index| 1 + index % 6);
    format!("l{index}")
}

fn dashes(curve: &Curve) -> &'static str {
    if curve.metric == 0 { "" } else { r#" stroke-dasharray="5 4""# }
}

fn draw(body: &mut String, curve: &Curve, curves: &[Curve], x: &Axis, y: &Axis) {
    let color = color(curve, curves);
    let place = |(at, value): &(f64, f64)| format!("{:.1} {:.1}", x.place(*at), y.place(*value));
    let places: Vec<String> = curve.points.iter().map(place).collect();
    _ = writeln!(body, r#"<path class="curve {color}"{} d="M{}"/>"#, dashes(curve), places.join("L"));
    // A line of no length with round ends is a dot.
    let dots: String = places.iter().map(|place| format!("M{place}h0")).collect();
    _ = writeln!(body, r#"<path class="dot {color}" d="{dots}"/>"#);
}

/// Maps values to positions.
struct Axis {
    logarithmic: bool,
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

/// With a larger ratio between two bars the shorter one is invisible.
const TOO_LONG: f64 = 25.0;

impl Axis {
    /// Starts at zero if all bars are visible then.
    fn for_bars(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let values: Vec<f64> = values.collect();
        let most = values.iter().copied().fold(0.0, f64::max).max(1e-3);
        let least = values.iter().copied().filter(|value| *value > 0.0).fold(most, f64::min);
        if most / least < TOO_LONG {
            return Axis { logarithmic: false, least: 0.0, most, from, to };
        }
        // The shortest bar has a length, too.
        Axis { logarithmic: true, least: below(least / 1.5), most, from, to }
    }

    fn exact(values: &[f64], from: f64, to: f64) -> Axis {
        let (least, most) = (values.first().copied().unwrap_or(1.0), values.last().copied().unwrap_or(10.0));
        Axis { logarithmic: true, least, most: most.max(least * 2.0), from, to }
    }

    fn around(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let least = values.clone().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { below(least) } else { 1.0 };
        let most = values.fold(0.0, f64::max).max(least * 2.0);
        Axis {
            logarithmic: true,
            least,
            most: steps(least).find(|step| *step >= most).unwrap_or(most),
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.least) / self.least).ln() / (self.most / self.least).ln()
        } else {
            (value - self.least) / (self.most - self.least)
        };
        // Values that do not fit are cut, with some space for the range of the longest bar.
        self.from + (self.to - self.from) * share.clamp(0.0, 1.04)
    }

    /// Round values, not too many.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let all: Vec<f64> = steps(self.least).take_while(|step| *step <= self.most * 1.001).collect();
            let powers = |step: &f64| (step.log10() - step.log10().round()).abs() < 1e-6;
            return if all.len() <= 7 { all } else { all.into_iter().filter(powers).collect() };
        }
        let step = steps(self.most / 100.0).find(|step| self.most / step <= 5.0).unwrap_or(self.most);
        (0..=(self.most / step) as u32).map(|index| f64::from(index) * step).collect()
    }
}

/// 1, 2, 5, 10, 20 and so on, starting at or just below `from`.
fn steps(from: f64) -> impl Iterator<Item = f64> {
    let power = from.log10().floor() as i32;
    let all = (power..power + 20).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
    all.skip_while(move |step| *step < from * 0.999)
}

/// The step at or below `value`.
fn below(value: f64) -> f64 {
    steps(value / 10.0).take_while(|step| *step <= value * 1.001).last().unwrap_or(value)
}

/// 20, 5k, 1M.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    // No more digits than a step has.
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}
