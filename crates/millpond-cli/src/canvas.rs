//! A small SVG writer for pictures whose layout is computed in pixels.
//!
//! Every colour is a class of [`STYLE`], which defines a light and a dark value for it. A viewer
//! without style sheets shows black shapes, so lanes and panels have names too. Text is at least 12
//! pixels high.

use std::fmt::{self, Display, Write};

use crate::html::Escaped;

/// Height of ordinary text in pixels.
pub(crate) const TEXT: f64 = 12.0;

/// Estimated width of a character of ordinary text. SVG cannot measure text without a font.
const CHARACTER: f64 = 6.6;

/// Classes begin with `p-`, because a style sheet in an inline SVG applies to the whole page.
const STYLE: &str = "\
.p-text{font:12px system-ui,sans-serif}.p-bold{font:bold 14px system-ui,sans-serif}\
.p-ink{fill:#1f2328}.p-faint{fill:#59636e}.p-on{fill:#fff;pointer-events:none}.p-paper{fill:#fff}\
.p-grid{stroke:#d8dee4;fill:none}.p-alive{fill:#d8dee4}.p-bound{stroke:#59636e;stroke-dasharray:4 3;fill:none}\
.p-line{stroke:#1f2328;stroke-width:1.6;fill:none}\
.p-core{fill:#00805e;stroke:#00805e}.p-queued{fill:#0068a8;stroke:#0068a8}.p-extra{fill:#b85300;stroke:#b85300}\
.p-idle{fill:#5a7d99;stroke:#5a7d99}.p-caller{fill:#8f3a9e;stroke:#8f3a9e}\
.p-refused{fill:#cf222e;stroke:#cf222e}.p-blocked{fill:#c39ccb;stroke:#c39ccb}\
@media (prefers-color-scheme:dark){\
.p-ink{fill:#e6edf3}.p-faint{fill:#9198a1}.p-on{fill:#0d1117}.p-paper{fill:#0d1117}\
.p-grid{stroke:#2b3139}.p-alive{fill:#2b3139}.p-bound{stroke:#9198a1}.p-line{stroke:#e6edf3}\
.p-core{fill:#3fcf9f;stroke:#3fcf9f}.p-queued{fill:#58a6ff;stroke:#58a6ff}.p-extra{fill:#ff9e64;stroke:#ff9e64}\
.p-idle{fill:#93b4cc;stroke:#93b4cc}.p-caller{fill:#d98ee8;stroke:#d98ee8}\
.p-refused{fill:#ff7b72;stroke:#ff7b72}.p-blocked{fill:#6d4a75;stroke:#6d4a75}}\
.p-core,.p-queued,.p-extra,.p-idle,.p-caller,.p-refused,.p-blocked{stroke-width:0}\
.p-wait{fill-opacity:.45}.p-area{fill-opacity:.35}.p-path{fill:none}";

/// The alignment of a text relative to its x coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture in progress. Coordinates are pixels from the upper left corner.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    body: String,
}

impl Canvas {
    /// A filled rectangle. A width or height below one pixel is drawn as one pixel.
    pub(crate) fn rectangle(&mut self, class: &str, at: (f64, f64), size: (f64, f64), tooltip: Option<&str>) {
        let (x, y, width, height) = (Px(at.0), Px(at.1), Px(size.0.max(1.0)), Px(size.1.max(1.0)));
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\""
        ));
        match tooltip {
            Some(tooltip) => self.put(format_args!("><title>{}</title></rect>\n", Escaped(tooltip))),
            None => self.put(format_args!("/>\n")),
        }
    }

    /// A path in SVG's path syntax. Draws nothing if it is empty.
    pub(crate) fn path(&mut self, class: &str, attributes: &str, path: &str) {
        if !path.is_empty() {
            self.put(format_args!("<path class=\"{class}\"{attributes} d=\"{path}\"/>\n"));
        }
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.path(class, "", &format!("M{} {}L{} {}", Px(from.0), Px(from.1), Px(to.0), Px(to.1)));
    }

    /// A round dot, filled or hollow.
    pub(crate) fn dot(&mut self, class: &str, at: (f64, f64), filled: bool, tooltip: &str) {
        let look = if filled { "" } else { " style=\"fill:none;stroke-width:2\"" };
        self.put(format_args!(
            "<circle class=\"{class}\"{look} cx=\"{}\" cy=\"{}\" r=\"5\"><title>{}</title></circle>\n",
            Px(at.0),
            Px(at.1),
            Escaped(tooltip)
        ));
    }

    /// A text whose base line is at `at.1`.
    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let size = if class.contains("p-bold") { "" } else { "p-text " };
        self.put(format_args!(
            "<text class=\"{size}{class}\" x=\"{}\" y=\"{}\"{anchor}>{}</text>\n",
            Px(at.0),
            Px(at.1),
            Escaped(text)
        ));
    }

    /// Returns a complete SVG document, which can also be embedded in an HTML page.
    pub(crate) fn finish(self, width: f64, height: f64, label: &str) -> String {
        let (width, height) = (Px(width), Px(height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n\
             <rect class=\"p-paper\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
            Escaped(label),
            self.body
        )
    }

    /// Draws `other` on top.
    pub(crate) fn append(&mut self, other: Canvas) {
        self.body.push_str(&other.body);
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        self.body.write_fmt(text).expect("writing to a String never fails");
    }
}

/// The estimated width of `text` in pixels.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// A coordinate with at most one decimal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Px(pub(crate) f64);

impl Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() as i64;
        match tenths % 10 {
            0 => write!(f, "{}", tenths / 10),
            _ => write!(f, "{:.1}", tenths as f64 / 10.0),
        }
    }
}

/// The largest of 1, 2 and 5 times a power of ten with which at least `marks` steps fit below
/// `end`.
pub(crate) fn nice_step(end: f64, marks: usize) -> f64 {
    let rough = end / marks.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power <= rough * 1.000_001).unwrap_or(1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_dark_value() {
        let (light, dark) = STYLE.split_once("@media (prefers-color-scheme:dark){").expect("a dark half");
        for rule in light.split('}').filter(|rule| rule.contains('#')) {
            let (class, values) = rule.split_once('{').expect("a selector");
            for property in ["fill:#", "stroke:#"].iter().filter(|property| values.contains(**property)) {
                let dark = dark.split('}').find(|rule| rule.starts_with(&format!("{class}{{")));
                assert!(dark.is_some_and(|rule| rule.contains(property)), "{class} has no dark {property}");
            }
        }
    }

    #[test]
    fn text_is_escaped_and_tooltips_belong_to_their_shape() {
        let mut canvas = Canvas::default();
        canvas.rectangle("p-core", (1.0, 2.04), (10.0, 0.2), Some("task <1>"));
        canvas.text("p-ink", (3.0, 4.0), Anchor::End, "a & b");
        let svg = canvas.finish(100.0, 50.5, "\"picture\"");
        assert!(
            svg.contains("x=\"1\" y=\"2\" width=\"10\" height=\"1\"><title>task &lt;1&gt;</title></rect>"),
            "{svg}"
        );
        assert!(
            svg.contains(">a &amp; b</text>") && svg.contains("aria-label=\"&quot;picture&quot;\""),
            "{svg}"
        );
        assert!(svg.contains("viewBox=\"0 0 100 50.5\""), "{svg}");
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(nice_step(10.0, 4), 2.0);
        assert_eq!(nice_step(0.9, 4), 0.2);
        assert_eq!(nice_step(1.0, 1), 1.0);
    }
}
