//! Charts as SVG that are legible on light and on dark paper.
//!
//! Axes, ticks and curves come from `plotters`. It writes each colour as an attribute; we add a
//! style sheet that gives each of our colours its counterpart on dark paper, so use the colours of
//! this file and no others. Without a style sheet (in a viewer that knows none) the light colours
//! remain.

use std::fmt::Write;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::error::Error;

pub(crate) const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub(crate) const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
pub(crate) const FAINT: RGBColor = RGBColor(0x65, 0x6d, 0x76);
pub(crate) const GRID: RGBColor = RGBColor(0xd8, 0xde, 0xe4);
/// For curves and bars: told apart also by people who do not tell red from green.
pub(crate) const SERIES: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2), // blue
    RGBColor(0xd5, 0x5e, 0x00), // vermilion
    RGBColor(0x00, 0x9e, 0x73), // green
    RGBColor(0xaa, 0x4a, 0x8c), // purple
    RGBColor(0xb8, 0x86, 0x00), // ochre
    RGBColor(0x3d, 0x9c, 0xcf), // sky
    RGBColor(0x6e, 0x77, 0x81), // grey
];

/// Each colour, and what it becomes on dark paper.
const DARK: [(RGBColor, &str); 11] = [
    (PAPER, "#0d1117"),
    (INK, "#e6edf3"),
    (FAINT, "#9198a1"),
    (GRID, "#2b3139"),
    (SERIES[0], "#58a6ff"),
    (SERIES[1], "#ff8b4d"),
    (SERIES[2], "#3fcf9f"),
    (SERIES[3], "#e08cc4"),
    (SERIES[4], "#e3b341"),
    (SERIES[5], "#9ad4f5"),
    (SERIES[6], "#8b949e"),
];

pub(crate) const FONT: &str = "sans-serif";

/// What plotters draws on.
pub(crate) type Paper<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What drawing can go wrong with; it does not, as text always takes more text.
pub(crate) type DrawResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Draws a picture of `width` times `height` pixels and returns the SVG.
pub(crate) fn draw(
    (width, height): (u32, u32),
    draw: impl FnOnce(&Paper<'_>) -> DrawResult,
) -> Result<String, Error> {
    let mut svg = String::new();
    {
        let paper = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        paper
            .fill(&PAPER)
            .map_err(|error| error.to_string())
            .and_then(|()| draw(&paper).map_err(|error| error.to_string()))
            .and_then(|()| paper.present().map_err(|error| error.to_string()))
            .map_err(|error| Error::new(format_args!("cannot draw the chart: {error}")))?;
    }
    Ok(finish(&svg))
}

fn finish(svg: &str) -> String {
    let body = svg.trim_end().strip_suffix("</svg>").unwrap_or(svg);
    let head = body.find('>').map_or(0, |end| end + 1);
    let (head, body) = body.split_at(head);
    format!("{head}\n<style>{}</style>{body}</svg>\n", dark_style())
}

fn dark_style() -> String {
    let mut rules = String::new();
    for (RGBColor(r, g, b), dark) in DARK {
        for property in ["fill", "stroke"] {
            write!(rules, "[{property}=\"#{r:02X}{g:02X}{b:02X}\"]{{{property}:{dark}}}")
                .expect("a String takes everything");
        }
    }
    format!("@media (prefers-color-scheme:dark){{{rules}}}")
}

/// One curve: its name and its points, by rising x.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart of one or more curves over a common x axis; both axes begin at zero unless the values
/// say otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    pub(crate) size: (u32, u32),
}

impl Chart<'_> {
    /// Draws it.
    pub(crate) fn curves(&self, curves: &[Curve]) -> Result<String, Error> {
        draw(self.size, |paper| self.draw_on(paper, curves))
    }

    /// Draws it as a part of a larger picture, as large as `paper` is.
    pub(crate) fn draw_on(&self, paper: &Paper<'_>, curves: &[Curve]) -> DrawResult {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
        let least = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::min);
        let xs = least(|p| p.0)..positive(most(|p| p.0));
        let ys = least(|p| p.1)..positive(most(|p| p.1) * 1.05);
        let corner = emptiest_corner(curves, &xs, &ys);
        let mut chart = ChartBuilder::on(paper)
            .caption(self.title, (FONT, 17).into_font().color(&INK))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(xs, ys)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(FAINT)
            .label_style((FONT, 13).into_font().color(&FAINT))
            .axis_desc_style((FONT, 14).into_font().color(&INK))
            .x_desc(self.x)
            .y_desc(self.y)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        for (curve, colour) in curves.iter().zip(SERIES.into_iter().cycle()) {
            chart
                .draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)))?
                .label(curve.name.as_str())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        if curves.len() > 1 {
            chart
                .configure_series_labels()
                .position(corner)
                .label_font((FONT, 13).into_font().color(&INK))
                .background_style(PAPER.filled())
                .border_style(GRID)
                .draw()?;
        }
        Ok(())
    }
}

/// Where the names of the curves hide least of them.
fn emptiest_corner(curves: &[Curve], xs: &Range<f64>, ys: &Range<f64>) -> SeriesLabelPosition {
    // From 0 to 1, left to right and bottom to top.
    let along = |value: f64, axis: &Range<f64>| (value - axis.start) / (axis.end - axis.start);
    let hidden = |left: bool, upper: bool| -> usize {
        let covers = |(x, y): (f64, f64)| {
            let (x, y) = (along(x, xs), along(y, ys));
            (if left { x < 0.3 } else { x > 0.7 }) && (if upper { y > 0.6 } else { y < 0.4 })
        };
        curves.iter().flat_map(|curve| sampled(&curve.points, xs)).filter(|point| covers(*point)).count()
    };
    let corners = [
        (SeriesLabelPosition::UpperLeft, hidden(true, true)),
        (SeriesLabelPosition::UpperRight, hidden(false, true)),
        (SeriesLabelPosition::LowerRight, hidden(false, false)),
        (SeriesLabelPosition::LowerLeft, hidden(true, false)),
    ];
    corners.into_iter().min_by_key(|(_, hidden)| *hidden).expect("there are four").0
}

/// A curve at even distances, wherever its points are; and its points, for where it is steep.
fn sampled(points: &[(f64, f64)], xs: &Range<f64>) -> impl Iterator<Item = (f64, f64)> {
    let steps = (0..=100).map(|at| xs.start + (xs.end - xs.start) * f64::from(at) / 100.0);
    let at = |x: f64| {
        let next = points.partition_point(|point| point.0 < x);
        let (before, after) = (points.get(next.checked_sub(1)?)?, points.get(next)?);
        let share = (x - before.0) / (after.0 - before.0);
        Some((x, before.1 + (after.1 - before.1) * share))
    };
    steps.filter_map(at).chain(points.iter().copied())
}

/// An axis needs some length.
fn positive(end: f64) -> f64 {
    if end > 0.0 { end } else { 1.0 }
}

/// A number on an axis: no more digits than it needs.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        s if s >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        s if s >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = if value.abs() >= 100.0 { format!("{value:.1}") } else { format!("{value:.3}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_of_a_chart_has_its_counterpart_on_dark_paper() {
        let curve = |name: &str| Curve { name: name.to_owned(), points: vec![(0.0, 1.0), (2.0, 3.0)] };
        let curves: Vec<Curve> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(curve).into();
        let chart = Chart { title: "t", x: "x", y: "y", size: (600, 300) };
        let svg = chart.curves(&curves).unwrap();
        let (_, rest) = svg.split_once("</style>").expect("a style sheet");
        for attribute in ["fill=\"#", "stroke=\"#"] {
            for piece in rest.split(attribute).skip(1) {
                let colour = &piece[..6];
                assert!(svg.contains(&format!("=\"#{colour}\"]")), "#{colour} has none:\n{svg}");
            }
        }
    }

    #[test]
    fn the_names_of_curves_stand_where_they_hide_least() {
        let corner = |points: &[(f64, f64)]| {
            let curves = [Curve { name: "a".to_owned(), points: points.to_vec() }];
            emptiest_corner(&curves, &(0.0..1.0), &(0.0..1.0))
        };
        assert_eq!(corner(&[(0.0, 0.0), (1.0, 1.0)]), SeriesLabelPosition::UpperLeft);
        assert_eq!(corner(&[(0.0, 1.0), (0.2, 0.0), (1.0, 0.0)]), SeriesLabelPosition::UpperRight);
        assert_eq!(corner(&[(0.0, 0.0), (0.1, 1.0), (1.0, 1.0)]), SeriesLabelPosition::LowerRight);
    }

    #[test]
    fn numbers_on_an_axis_are_short() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(0.25), "0.25");
        assert_eq!(short(1500.0), "1500");
        assert_eq!(short(25_000.0), "25k");
        assert_eq!(short(2_500_000.0), "2.5M");
    }
}
