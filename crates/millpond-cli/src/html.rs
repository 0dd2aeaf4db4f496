//! An HTML page in one file, without external scripts, fonts or pictures, so it can be mailed.

use std::fmt::{self, Display, Write};

/// Light by default, dark if the reader's system is. The figures have their own colours, see
/// `canvas.rs`.
const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1f2328; --faint: #656d76; --line: #d0d7de; --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --faint: #8d96a0; --line: #30363d; --paper: #0d1117; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.25; }
figure { margin: 1.5rem 0; }
figure svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; }
figure .scroll svg { max-width: none; }
.narrow { display: none; }
@media (max-width: 640px) { .wide-only { display: none; } .narrow { display: block; } }
summary { cursor: pointer; }
figcaption, footer { color: var(--faint); font-size: 0.9em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.75rem; border-bottom: 1px solid var(--line); text-align: left; }
@media (max-width: 640px) { table { font-size: 0.85em; } th, td { padding: 0.25rem 0.3rem; } }
.n { text-align: right; white-space: nowrap; }
pre { background: color-mix(in srgb, var(--ink) 6%, transparent); padding: 0.75rem; overflow-x: auto; }
";

/// A page under construction, from top to bottom.
#[derive(Debug)]
pub(crate) struct Page {
    body: String,
    title: String,
}

impl Page {
    pub(crate) fn new(title: &str) -> Page {
        let mut page = Page { body: String::new(), title: title.to_owned() };
        page.element("h1", title);
        page
    }

    pub(crate) fn heading(&mut self, text: &str) -> &mut Page {
        self.element("h2", text)
    }

    pub(crate) fn subheading(&mut self, text: &str) -> &mut Page {
        self.element("h3", text)
    }

    pub(crate) fn paragraph(&mut self, text: &str) -> &mut Page {
        self.element("p", text)
    }

    /// Preformatted text.
    pub(crate) fn verbatim(&mut self, text: &str) -> &mut Page {
        self.element("pre", text)
    }

    /// A figure in two widths, for desktops and phones, with a caption.
    pub(crate) fn picture(&mut self, wide: &str, narrow: &str, caption: &str) -> &mut Page {
        self.put(format_args!(
            "<figure>\n<div class=\"wide-only\">\n{wide}</div>\n<div class=\"narrow\">\n{narrow}</div>\n\
             <figcaption>{}</figcaption>\n</figure>\n",
            Escaped(caption)
        ))
    }

    /// A figure that keeps its size and scrolls if it does not fit.
    pub(crate) fn scrolling(&mut self, svg: &str, caption: &str) -> &mut Page {
        self.put(format_args!(
            "<figure>\n<div class=\"scroll\">\n{svg}</div>\n<figcaption>{}</figcaption>\n</figure>\n",
            Escaped(caption)
        ))
    }

    /// A collapsed section.
    pub(crate) fn folded(&mut self, summary: &str, inside: impl FnOnce(&mut Page) -> &mut Page) -> &mut Page {
        self.put(format_args!("<details>\n<summary>{}</summary>\n", Escaped(summary)));
        inside(self).put(format_args!("</details>\n"))
    }

    /// A table. Columns of numbers are right-aligned.
    pub(crate) fn table<H: AsRef<str>, C: AsRef<str>>(
        &mut self,
        headers: &[H],
        rows: &[Vec<C>],
    ) -> &mut Page {
        let is_figure = |cell: &C| cell.as_ref().starts_with(|c: char| c.is_ascii_digit() || c == '-');
        // Most non-empty cells decide: one of them may be a word.
        let figures = |at: usize| {
            let cells = || rows.iter().filter_map(|row| row.get(at)).filter(|cell| !cell.as_ref().is_empty());
            at > 0 && 2 * cells().filter(|cell| is_figure(cell)).count() > cells().count()
        };
        let class = |at: usize| if figures(at) { " class=\"n\"" } else { "" };
        self.put(format_args!("<div class=\"wide\"><table>\n<tr>"));
        for (at, header) in headers.iter().enumerate() {
            self.put(format_args!("<th{}>{}</th>", class(at), Escaped(header.as_ref())));
        }
        self.put(format_args!("</tr>\n"));
        for row in rows {
            self.put(format_args!("<tr>"));
            for (at, cell) in row.iter().enumerate() {
                self.put(format_args!("<td{}>{}</td>", class(at), Escaped(cell.as_ref())));
            }
            self.put(format_args!("</tr>\n"));
        }
        self.put(format_args!("</table></div>\n"))
    }

    /// Returns the complete page.
    pub(crate) fn finish(&self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n{}<footer>Made by millpond {}.</footer>\n</body>\n</html>\n",
            Escaped(&self.title),
            self.body,
            env!("CARGO_PKG_VERSION"),
        )
    }

    fn element(&mut self, name: &str, text: &str) -> &mut Page {
        self.put(format_args!("<{name}>{}</{name}>\n", Escaped(&unbroken(text))))
    }

    fn put(&mut self, text: fmt::Arguments<'_>) -> &mut Page {
        self.body.write_fmt(text).expect("a String takes everything");
        self
    }
}

/// Keeps numbers with separated thousands, and numbers with units, on one line.
fn unbroken(text: &str) -> String {
    const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
    let mut words = text.split(' ').peekable();
    let mut line = String::with_capacity(text.len());
    while let Some(word) = words.next() {
        line.push_str(word);
        let Some(next) = words.peek() else { break };
        let is_number_so_far = word.ends_with(|c: char| c.is_ascii_digit());
        let unit = next.trim_end_matches(|c: char| c.is_ascii_punctuation());
        let goes_on = next.starts_with(|c: char| c.is_ascii_digit()) || UNITS.contains(&unit);
        line.push(if is_number_so_far && goes_on { '\u{a0}' } else { ' ' });
    }
    line
}

/// Escapes text for HTML and SVG, including attributes.
#[derive(Debug)]
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            other => f.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_said_on_a_page_is_text_and_not_markup() {
        let mut page = Page::new("<script> & \"co\"");
        page.table(&["a<b"], &[vec!["1>0"]]);
        let html = page.finish();
        assert!(html.contains("<h1>&lt;script&gt; &amp; &quot;co&quot;</h1>"), "{html}");
        assert!(html.contains("<th>a&lt;b</th>") && html.contains("<td>1&gt;0</td>"), "{html}");
        assert!(!html.contains("<script"), "{html}");
    }

    #[test]
    fn numbers_do_not_break() {
        assert_eq!(unbroken("1 100 tasks in 11.0 s; wait"), "1\u{a0}100 tasks in 11.0\u{a0}s; wait");
        assert_eq!(unbroken(" two  spaces 3 "), " two  spaces 3 ");
    }

    #[test]
    fn columns_with_empty_cells_stand_to_the_right_too() {
        let mut page = Page::new("t");
        page.table(&["", "formula"], &[vec!["refused", "0.033%"], vec!["peak", ""], vec!["target", ""]]);
        assert!(page.finish().contains("<td class=\"n\">0.033%</td>"));
    }

    #[test]
    fn columns_of_figures_stand_to_the_right() {
        let mut page = Page::new("t");
        page.table(&["1st", "figures", "words"], &[vec!["1", "2", "3"], vec!["4", "-", "five"]]);
        let html = page.finish();
        assert!(html.contains("<tr><td>1</td><td class=\"n\">2</td><td>3</td></tr>"), "{html}");
    }
}
