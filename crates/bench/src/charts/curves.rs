//! A curve for each contestant and metric, over a number that grows.

use super::Width;
use super::axis::{Axis, short};
use super::svg::{Anchor, Svg};
use super::table::Table;

struct Curve {
    name: String,
    /// Curves of one contestant have the same colour. Millpond is the first.
    color: usize,
    /// All but the first are dashed.
    metric: usize,
    points: Vec<(f64, f64)>,
}

/// One curve per column and table.
fn curves(tables: &[Table]) -> Vec<Curve> {
    let mut curves = Vec::new();
    let contestants = tables.first().map_or(0, |table| table.columns.len());
    for index in 0..contestants {
        for (metric, table) in tables.iter().enumerate() {
            let point = |row: &super::table::Row| {
                Some((row.name.parse().ok()?, row.figures.get(index).copied().flatten()?.median))
            };
            let points: Vec<(f64, f64)> = table.rows.iter().filter_map(point).collect();
            let name = format!("{} {}", table.columns[index], table.corner).trim().to_owned();
            curves.push(Curve {
                name,
                color: if index == 0 { 0 } else { 1 + (index - 1) % 6 },
                metric,
                points,
            });
        }
    }
    curves
}

/// `title` names the horizontal axis.
pub(super) fn draw(title: &str, tables: &[Table], width: Width) -> String {
    let curves = curves(tables);
    let (plot, bottom) = if width == Width::Wide { (600.0, 330.0) } else { (334.0, 280.0) };
    let top = 62.0;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let mut places: Vec<f64> = points().map(|point| point.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let x = Axis::exact(&places, 56.0, plot - 10.0);
    let y = Axis::around(points().map(|point| point.1), bottom, top);
    let mut svg = Svg::default();
    svg.text("t", (8.0, 24.0), Anchor::Start, title);
    svg.text("a", (8.0, 46.0), Anchor::Start, "ns each, less is better; both scales logarithmic");
    for place in places {
        let at = x.place(place);
        svg.line("grid", (at, bottom), (at, top));
        svg.text("a", (at, bottom + 18.0), Anchor::Middle, &short(place));
    }
    for tick in y.ticks(18.0) {
        let at = y.place(tick);
        svg.line("grid", (x.from, at), (x.to, at));
        svg.text("a", (x.from - 8.0, at + 4.5), Anchor::End, &short(tick));
    }
    svg.text("a", ((x.from + x.to) / 2.0, bottom + 37.0), Anchor::Middle, &title.to_lowercase());
    // Millpond's curves are drawn on top.
    curves.iter().rev().for_each(|curve| draw_curve(&mut svg, curve, &x, &y));
    let (left, from) = if width == Width::Wide { (plot + 20.0, top + 8.0) } else { (12.0, bottom + 62.0) };
    let end = legend(&mut svg, &curves, (left, from));
    svg.finish(width.pixels(), end.max(bottom + 50.0))
}

fn dashes(curve: &Curve) -> &'static str {
    if curve.metric == 0 { "" } else { r#" stroke-dasharray="5 4""# }
}

fn draw_curve(svg: &mut Svg, curve: &Curve, x: &Axis, y: &Axis) {
    let place = |(at, value): &(f64, f64)| format!("{:.1} {:.1}", x.place(*at), y.place(*value));
    let places: Vec<String> = curve.points.iter().map(place).collect();
    let color = format!("l{}", curve.color);
    svg.path(&format!("curve {color}"), dashes(curve), &format!("M{}", places.join("L")));
    // A line of no length with round ends is a dot.
    let dots: String = places.iter().map(|place| format!("M{place}h0")).collect();
    svg.path(&format!("dot {color}"), "", &dots);
}

/// A line and a name for each curve. Returns where they end.
fn legend(svg: &mut Svg, curves: &[Curve], (left, mut y): (f64, f64)) -> f64 {
    for curve in curves {
        svg.path(&format!("curve l{}", curve.color), dashes(curve), &format!("M{left} {y}h30"));
        let class = if curve.color == 0 { "us" } else { "" };
        svg.text(class, (left + 38.0, y + 4.5), Anchor::Start, &curve.name);
        y += 21.0;
    }
    y
}
