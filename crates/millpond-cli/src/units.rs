//! Parses and formats quantities: `50ms`, `1m30s`, `0.1%`, `10k`.
//!
//! An error is one line with the text and a valid form. Parsers have the signature that clap
//! expects: `#[arg(value_parser = units::duration)]`.

use std::time::Duration;

/// The units of time, longest first.
const TIME_UNITS: [(&str, f64); 7] =
    [("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];

/// `50ms`, `1.5s`, `1m30s`, `2h`; a bare `0` needs no unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wanted = || format!("'{text}' is not a duration such as 50ms, 1.5s or 1m30s");
    let trimmed = text.trim().replace('µ', "u");
    if trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = trimmed.as_str();
    let mut seconds = 0.0;
    if rest.is_empty() {
        return Err(wanted());
    }
    while !rest.is_empty() {
        let (number, after) = leading_number(rest).ok_or_else(wanted)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("'{text}' has no unit; write {number}ms or {number}s"));
        }
        let (_, length) = TIME_UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wanted)?;
        seconds += number * length;
        rest = after;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("'{text}' is too long for a duration"))
}

/// A share: `0.1%` or `0.001`, from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let wanted = || format!("'{text}' is not a share such as 0.1% or 0.001");
    let trimmed = text.trim();
    let (number, scale) = match trimmed.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 0.01),
        None => (trimmed, 1.0),
    };
    let (value, rest) = leading_number(number).ok_or_else(wanted)?;
    if !rest.is_empty() {
        return Err(wanted());
    }
    let share = value * scale;
    if share > 1.0 {
        return Err(format!("'{text}' is more than 100%"));
    }
    Ok(share)
}

/// A count: `7`, `10k`, `2.5M`, `1_000`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let value = amount(text)?;
    if value.fract() != 0.0 {
        return Err(format!("'{text}' is not a whole number"));
    }
    if value >= u64::MAX as f64 {
        return Err(format!("'{text}' is too large"));
    }
    Ok(value as u64)
}

/// A number, not necessarily whole: `0.5`, `10k`, `2.5M`.
pub(crate) fn amount(text: &str) -> Result<f64, String> {
    let wanted = || format!("'{text}' is not a number such as 7, 10k or 2.5M");
    let trimmed = text.trim().replace('_', "");
    let (value, suffix) = leading_number(&trimmed).ok_or_else(wanted)?;
    let scale = match suffix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err(wanted()),
    };
    Ok(value * scale)
}

/// A rate per second: `200/s`, `3k/min`, or a bare number.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let (number, per) = text.trim().split_once('/').unwrap_or((text, "s"));
    let seconds = match per.trim() {
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{text}' is not a rate such as 200/s or 3k/min")),
    };
    Ok(amount(number)? / seconds)
}

/// The number at the beginning of `text` (digits and at most one point: no sign, no exponent), and
/// the rest.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    Some((number.parse().ok()?, rest))
}

/// A duration in at most six columns, in a suitable unit: `850 us`, `12.5 ms`, `3.25 s`,
/// `2m05s`.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let three = |value: f64, unit: &str| match value {
        v if v >= 99.95 => format!("{v:.0} {unit}"),
        v if v >= 9.995 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    };
    match seconds {
        0.0 => "0".to_owned(),
        s if s < 0.999_5e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 0.999_5e-3 => three(s * 1e6, "us"),
        s if s < 0.999_5 => three(s * 1e3, "ms"),
        s if s < 99.95 => three(s, "s"),
        s if s < 3599.5 => format!("{}m{:02}s", s.round() as u64 / 60, s.round() as u64 % 60),
        s => format!("{}h{:02}m", (s / 60.0).round() as u64 / 60, (s / 60.0).round() as u64 % 60),
    }
}

/// A count with separated thousands: `1 234 567`.
pub(crate) fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, millis) in
            [("50ms", 50.0), ("1.5s", 1500.0), ("1m30s", 90_000.0), ("2h", 7_200_000.0), ("0", 0.0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs_f64(millis / 1000.0)), "{text}");
        }
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("250µs"), Ok(Duration::from_micros(250)));
    }

    #[test]
    fn other_texts_are_refused_with_the_text_and_an_example() {
        for text in ["", "fast", "5 parsecs", "1.2.3s", "-1s", "s", "1s2"] {
            let error = duration(text).expect_err(text);
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
        assert_eq!(duration("50").unwrap_err(), "'50' has no unit; write 50ms or 50s");
        assert!(duration("999999999999999999d").is_err());
    }

    #[test]
    fn shares_are_percentages_or_fractions_up_to_one() {
        assert_eq!(share("50%"), Ok(0.5));
        assert!((share("0.1%").unwrap() - 0.001).abs() < 1e-12);
        assert_eq!(share("0.25"), Ok(0.25));
        assert_eq!(share("100 %"), Ok(1.0));
        for text in ["101%", "1.01", "half", "%", "-1%", "NaN"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_take_suffixes_and_must_be_whole() {
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("2.5M"), Ok(2_500_000));
        assert_eq!(count("1_000"), Ok(1000));
        for text in ["", "1.5", "ten", "-1", "1e99G", "k"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_per_second_by_default() {
        assert_eq!(rate("200"), Ok(200.0));
        assert_eq!(rate("1.5k/s"), Ok(1500.0));
        assert_eq!(rate("120/min"), Ok(2.0));
        assert!(rate("3/fortnight").is_err());
    }

    #[test]
    fn durations_are_shown_with_three_digits_in_a_suitable_unit() {
        for (duration, text) in [
            (Duration::ZERO, "0"),
            (Duration::from_nanos(999), "999 ns"),
            (Duration::from_micros(850), "850 us"),
            (Duration::from_micros(12_500), "12.5 ms"),
            (Duration::from_micros(999_800), "1.00 s"),
            (Duration::from_millis(3250), "3.25 s"),
            (Duration::from_millis(99_990), "1m40s"),
            (Duration::from_secs(125), "2m05s"),
            (Duration::from_secs(3600 * 3 + 65), "3h01m"),
        ] {
            assert_eq!(show(duration), text, "{duration:?}");
        }
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(show_count(7), "7");
        assert_eq!(show_count(1234), "1 234");
        assert_eq!(show_count(1_234_567), "1 234 567");
    }
}
