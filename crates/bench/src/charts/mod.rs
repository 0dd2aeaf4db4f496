//! Draws the tables of a page as charts, so that a chart shows what its table says.
//!
//! A chart stands above its table as an HTML `picture` with two files: a wide one, and one for
//! screens narrower than 600 pixels, because text that is scaled down is not legible. All axes are
//! logarithmic, and all panels of a chart have the same scale. Files follow the reader's light or
//! dark scheme and have a background of their own.

mod axis;
mod curves;
mod dots;
mod svg;
mod table;

use table::Table;

/// The width of a chart in pixels. Its height follows from what it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Wide,
    /// For a phone.
    Narrow,
}

impl Width {
    const EACH: [Width; 2] = [Width::Wide, Width::Narrow];

    fn pixels(self) -> f64 {
        match self {
            Width::Wide => 900.0,
            Width::Narrow => 344.0,
        }
    }

    fn file(self, key: &str) -> String {
        match self {
            Width::Wide => format!("{key}.svg"),
            Width::Narrow => format!("{key}-narrow.svg"),
        }
    }
}

/// The line of a page that shows the chart `key`. `directory` is that of the charts, as seen from
/// the page.
pub fn link(directory: &str, key: &str, title: &str) -> String {
    let [wide, narrow] = Width::EACH.map(|width| format!("{directory}/{}", width.file(key)));
    format!(
        "<picture><source media=\"(max-width: 600px)\" srcset=\"{narrow}\">\
         <img alt=\"{title}: the table below as a chart\" src=\"{wide}\"></picture>"
    )
}

/// The names and contents of all charts of a page.
pub fn of_page(page: &str) -> Vec<(String, String)> {
    let mut charts = Vec::new();
    for section in page.split("\n### ").skip(1) {
        // The last section of a part ends at its mark.
        let section = section.split("\n<!-- ").next().unwrap_or_default();
        let Some(key) = key(section) else { continue };
        let title = section.lines().next().unwrap_or_default();
        let tables = table::all(section);
        for width in Width::EACH {
            charts.push((width.file(key), draw(title, &tables, width)));
        }
    }
    charts
}

/// The key of the chart that a section shows.
fn key(section: &str) -> Option<&str> {
    let (_, after) = section.split_once("<img alt=")?;
    let (path, _) = after.split_once("src=\"")?.1.split_once(".svg\"")?;
    path.rsplit('/').next()
}

/// Curves if the rows are points of an axis, else dots.
fn draw(title: &str, tables: &[Table], width: Width) -> String {
    let points = |table: &Table| table.rows.iter().all(|row| row.name.parse::<f64>().is_ok());
    match tables {
        [table] if !points(table) => dots::draw(title, table, width),
        _ => curves::draw(title, tables, width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page and its directory of charts.
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/performance.md");

    #[test]
    fn charts_of_the_page_show_its_tables() {
        let page = std::fs::read_to_string(PAGE).expect("the page is in the repository");
        let directory = std::path::Path::new(PAGE).with_extension("");
        let charts = of_page(&page);
        let files = std::fs::read_dir(&directory).expect("it has charts").count();
        assert_eq!(charts.len(), files, "a file of {} belongs to no table", directory.display());
        for (name, chart) in charts {
            let file = std::fs::read_to_string(directory.join(&name)).expect(&name);
            assert!(file == chart, "{name} is not its table: run versus --redraw");
        }
    }

    const DOTS: &str = "\n### Title\n\n<picture><source srcset=\"x/some-narrow.svg\">\
        <img alt=\"t\" src=\"x/some.svg\"></picture>\n\n\
        | ns | n=2 | n=4 |\n|---|---:|---:|\n| **millpond** | **10.0 ± 5%** | **100 ±12%** |\n\
        | kanal | 1000 ± 0% | - |\n| *best peer / millpond* | *100* (kanal) | - |\n\n\
        <!-- versus: end -->\n\n| another | table |\n|---|---|\n| without | a chart |\n";

    /// The x coordinates of the circles of that class, without the one in the legend.
    fn places(chart: &str, class: &str) -> Vec<f64> {
        let mark = format!("class=\"{class}\" cx=\"");
        let number = |text: &str| text.split('"').next().and_then(|text| text.parse().ok());
        chart.split(&mark).skip(2).filter_map(number).collect()
    }

    #[test]
    fn equal_ratios_are_equal_distances_in_every_panel() {
        let (_, chart) = of_page(DOTS).swap_remove(1);
        // One below the other in the narrow chart, with one scale: 10, 100 and 1000.
        let (ours, peer) = (places(&chart, "m0"), places(&chart, "m1"));
        assert_eq!((ours.len(), peer.len()), (2, 1), "{chart}");
        assert!(((ours[1] - ours[0]) - (peer[0] - ours[1])).abs() < 0.2, "{ours:?} {peer:?}");
    }

    #[test]
    fn both_widths_keep_their_width_and_have_no_bars() {
        let charts = of_page(DOTS);
        let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["some.svg", "some-narrow.svg"]);
        assert!(charts[0].1.contains("width=\"900\"") && charts[1].1.contains("width=\"344\""));
        assert!(charts.iter().all(|(_, chart)| chart.matches("<rect").count() == 1), "only a background");
    }

    #[test]
    fn zero_is_marked_at_the_edge_of_the_axis() {
        let page = DOTS.replace("10.0 ± 5%", "0.00 ± 0%");
        let (_, chart) = of_page(&page).swap_remove(1);
        assert!(chart.contains("class=\"zero m0\""), "{chart}");
        assert_eq!(places(&chart, "m0").len(), 1, "{chart}");
    }

    #[test]
    fn tables_with_numbers_as_names_become_curves() {
        let table = "\n| insert | millpond | JDK scheduled |\n|---|---:|---:|\n\
            | 10 | 83.3 ±11% | 201 ±12% |\n| 100 | 75.0 ± 1% | 178 ± 9% |\n";
        let page = format!("\n### Timers\n\n{}\n{table}", link("x", "growth-timers", "Timers"));
        let charts = of_page(&page);
        assert_eq!(charts[0].0, "growth-timers.svg");
        assert_eq!(charts[0].1.matches("class=\"curve ").count(), 4, "two curves and two keys");
        assert!(charts[1].1.contains("JDK scheduled insert"));
    }
}
