//! Columns of CSV files that are read, and those that are refused.

use super::*;

fn file(column: Option<&str>, unit: TimeUnit) -> FileWords {
    FileWords { path: "a.csv".into(), column: column.map(str::to_owned), unit }
}

fn parse(text: &str, column: Option<&str>, unit: TimeUnit) -> Result<Vec<Nanos>, String> {
    let mut moments = Vec::new();
    let mut text = text.as_bytes();
    skip_mark("a.csv", &mut text)?;
    columns("a.csv", &mut text, [(&file(column, unit), moment)], |[at]| {
        moments.push(at);
        Ok(())
    })?;
    moments.sort_unstable();
    since_first("a.csv", moments.iter().copied()).map(|times| times.to_vec())
}

fn seconds(text: &str) -> Result<Vec<Nanos>, String> {
    parse(text, None, TimeUnit::Seconds)
}

#[test]
fn first_column_is_read_with_or_without_a_heading() {
    let expected = [0, 250_000_000, 1_000_000_000];
    assert_eq!(seconds("12\n12.25\n13.0\n").unwrap(), expected);
    assert_eq!(seconds("\u{feff}at,what\n13,a\n12,\"b, c\"\n# later\n12.25\n").unwrap(), expected);
    assert_eq!(seconds("-1\n-0.75\n0").unwrap(), expected);
}

#[test]
fn times_since_1970_keep_their_nanoseconds() {
    assert_eq!(seconds("1785456789.123456789\n1785456789.123456790").unwrap(), [0, 1]);
    let millis = parse("1785456789123\n1785456789124.5", None, TimeUnit::Millis).unwrap();
    assert_eq!(millis, [0, 1_500_000]);
}

#[test]
fn dates_are_read_with_any_offset() {
    let text = "at\n2031-05-17T09:30:00Z\n2031-05-17 09:30:00.25\n2031-05-17T11:30:01+02:00\n";
    assert_eq!(seconds(text).unwrap(), [0, 250_000_000, 1_000_000_000]);
    let zero = date("1970-01-01T00:00:00Z");
    assert_eq!(zero, Some(0));
    // From `date -ud 2000-03-01 +%s`.
    for (day, since) in
        [("2000-02-29", 951_782_400), ("2000-03-01", 951_868_800), ("2100-03-01", 4_107_542_400)]
    {
        assert_eq!(date(&format!("{day}T00:00:00Z")), Some(since * 1_000_000_000), "{day}");
    }
    // A first line with a date is not a heading.
    assert_eq!(seconds("2031-05-17T09:30:00Z\n2031-05-17T09:30:02Z\n").unwrap().len(), 2);
    assert!(seconds("at\n2031-02-30T09:30:00Z\n").is_err());
    assert!(seconds("at\n2031-05-17\n").is_err());
}

#[test]
fn a_column_may_be_named() {
    let text = "id,started\n1,5\n2,7\n";
    let times = parse(text, Some("started"), TimeUnit::Micros).unwrap();
    assert_eq!(times, [0, 2000]);
    assert_eq!(
        parse(text, Some("ended"), TimeUnit::Micros).unwrap_err(),
        "a.csv:1: there is no column 'ended'; the columns are id, started"
    );
}

#[test]
fn a_bad_cell_is_reported_with_its_line() {
    let error = seconds("at\n1\n2\nsoon\n").unwrap_err();
    assert!(error.starts_with("a.csv:4: 'soon' is not a time in seconds"), "{error}");
    for text in ["1\n\"2\"\n-\n", "1\n1e9\n", "1\n.5\n", "1\n0x10\n", "1\n,7\n"] {
        assert!(seconds(text).is_err(), "{text:?}");
    }
    assert!(seconds("").unwrap_err().contains("no rows"));
    assert!(seconds("only a heading\n").unwrap_err().contains("no rows"));
    assert!(seconds("0\n99999999999999\n").unwrap_err().contains("is the unit right?"));
}

#[test]
fn other_separators_and_binary_files_are_refused() {
    let error = seconds("t;u\n1,5;2\n2,5;3\n").unwrap_err();
    assert!(error.starts_with("a.csv:1: the columns are separated by semicolons"), "{error}");
    assert!(seconds("t\tu\n1\t2\n").unwrap_err().contains("separated by tabs"));
    assert!(seconds("1\n\0").unwrap_err().contains("zero bytes"));
}

#[test]
fn arrivals_and_durations_of_a_row_stay_together() {
    let text = "start,ms\n7,30\n5,10\n6,20.5\n";
    let (at, takes) = (file(Some("start"), TimeUnit::Seconds), file(Some("ms"), TimeUnit::Millis));
    let mut rows = Vec::new();
    columns("a.csv", &mut text.as_bytes(), [(&at, moment), (&takes, number)], |row| {
        rows.push(row);
        Ok(())
    })
    .unwrap();
    assert_eq!(rows[2], [6_000_000_000, 20_500_000]);
    assert!(as_duration(-1).is_err() && as_duration(LONGEST + 1).is_err());
}
