//! Numbers and label values of the text format.

use std::fmt;
use std::time::Duration;

/// A duration in seconds, as an exact decimal number without trailing zeros.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, mut fraction) = (self.0.as_secs(), self.0.subsec_nanos());
        if fraction == 0 {
            return write!(f, "{seconds}");
        }
        let mut digits = 9;
        while fraction % 10 == 0 {
            fraction /= 10;
            digits -= 1;
        }
        write!(f, "{seconds}.{fraction:0digits$}")
    }
}

/// A label value, escaped for use between quotes.
pub(crate) fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Seconds, escaped};
    use std::time::Duration;

    #[test]
    fn seconds_are_exact_decimal_numbers() {
        let cases = [
            (Duration::ZERO, "0"),
            (Duration::from_nanos(1), "0.000000001"),
            (Duration::from_nanos(1024), "0.000001024"),
            (Duration::from_millis(1500), "1.5"),
            (Duration::from_secs(20), "20"),
            (Duration::from_nanos(1 << 34), "17.179869184"),
            (Duration::MAX, "18446744073709551615.999999999"),
        ];
        for (duration, text) in cases {
            assert_eq!(Seconds(duration).to_string(), text);
        }
    }

    #[test]
    fn label_values_are_escaped_as_the_format_asks() {
        assert_eq!(escaped("db"), "db");
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
        assert_eq!(escaped("größe 貯水池"), "größe 貯水池");
    }
}
