//! Elements of an SVG file, and its colours.

use std::fmt::Write as _;

const STYLE: &str = "\
text{font:13px sans-serif;fill:#1f2328}.t{font-size:15px;font-weight:bold}.h{font-weight:bold}.a{fill:#59636e}\
.us{font-weight:bold}.bg{fill:#fff}.grid{stroke:#d8dee4;fill:none}.row{stroke:#eaeef2}\
.m0,.r0{fill:#0969da;stroke:#0969da}.m1,.r1{fill:#6e7781;stroke:#6e7781}.m2,.r2{fill:#bc6c00;stroke:#bc6c00}\
.r0,.r1,.r2{stroke-width:3;stroke-opacity:.35}\
.l0{stroke:#0969da}.l1{stroke:#c0504d}.l2{stroke:#5b8a2f}.l3{stroke:#8064a2}.l4{stroke:#c07a1a}.l5{stroke:#57606a}\
.l6{stroke:#1a8a8a}.curve{fill:none;stroke-width:1.5}.curve.l0{stroke-width:3}.dot{stroke-width:5;stroke-linecap:round}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.a{fill:#9198a1}.bg{fill:#0d1117}.grid{stroke:#30363d}\
.row{stroke:#21262d}.m0,.r0{fill:#58a6ff;stroke:#58a6ff}.m1,.r1{fill:#9198a1;stroke:#9198a1}\
.m2,.r2{fill:#e3a13e;stroke:#e3a13e}\
.l0{stroke:#58a6ff}.l1{stroke:#ff7b72}.l2{stroke:#7ee787}.l3{stroke:#d2a8ff}.l4{stroke:#ffa657}.l5{stroke:#9198a1}\
.l6{stroke:#56d4dd}}";

/// The alignment of a text relative to its position.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The elements of a file.
#[derive(Debug, Default)]
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn finish(self, width: f64, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\">\n<style>{STYLE}</style>\n\
             <rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
            self.0
        )
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, words: &str) {
        let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        _ = writeln!(self.0, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{words}</text>");
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let class = format!("class=\"{class}\"");
        _ = writeln!(self.0, r#"<line {class} x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#);
    }

    pub(super) fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        _ = writeln!(self.0, r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius}"/>"#);
    }

    pub(super) fn diamond(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let (left, right, top, bottom) = (x - radius, x + radius, y - radius, y + radius);
        _ = writeln!(
            self.0,
            r#"<path class="{class}" d="M{left:.1} {y:.1}L{x:.1} {top:.1}L{right:.1} {y:.1}L{x:.1} {bottom:.1}z"/>"#
        );
    }

    /// `attributes` begins with a space, or is empty.
    pub(super) fn path(&mut self, class: &str, attributes: &str, data: &str) {
        _ = writeln!(self.0, r#"<path class="{class}"{attributes} d="{data}"/>"#);
    }
}
