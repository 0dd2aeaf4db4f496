//! Refuses placeholders of GNU parallel that this command does not have.
//!
//! Otherwise they would be literal text, and the argument would also be appended.

/// The hint that ends every refusal.
const KNOWN: &str = "the placeholders are {} {.} {/} {//} {/.} {#} {%}";

/// Placeholders of `parallel` and `parallel --plus` that have no number.
const UNNUMBERED: [&str; 9] = ["..", "...", "/..", "/...", "+/", "+.", "+..", "+...", "##"];

/// Endings of numbered placeholders in GNU parallel.
const ENDINGS: [&str; 5] = ["", ".", "/", "//", "/."];

/// Checks the brace at `text[at]`, if it is one.
///
/// # Errors
/// One line with the placeholder and its replacement.
pub(super) fn check(text: &[u8], at: usize) -> Result<(), String> {
    if text[at] != b'{' || before(text, at, 1) == Some(b'$') {
        return Ok(()); // `${1}` is a parameter of the shell
    }
    let inside = &text[at + 1..];
    if is_perl_expression(inside) {
        return Err(format!(
            "{{= =}} runs Perl code in GNU parallel and is not supported; \
             compute the value in a shell command, such as 'echo $(basename {{}} .gz)'; {KNOWN}"
        ));
    }
    let Some(length) = inside.iter().position(|byte| *byte == b'}') else { return Ok(()) };
    let Ok(inside) = str::from_utf8(&inside[..length]) else { return Ok(()) };
    if UNNUMBERED.contains(&inside) {
        return Err(format!(
            "{{{inside}}} is not supported; compute the value in a shell command, \
             such as 'echo $(basename {{}} .tar.gz)'; {KNOWN}"
        ));
    }
    match numbered(inside) {
        Some((number, ending)) if !(ending.is_empty() && is_repetition(text, at)) => {
            Err(numbered_message(inside, number, ending))
        }
        _ => Ok(()),
    }
}

/// The byte `distance` places before `at`.
fn before(text: &[u8], at: usize, distance: usize) -> Option<u8> {
    at.checked_sub(distance).map(|at| text[at])
}

/// `{= ... =}` and `{1= ... =}`.
fn is_perl_expression(inside: &[u8]) -> bool {
    let digits = inside.iter().take_while(|byte| byte.is_ascii_digit()).count();
    inside[digits..].starts_with(b"=") && inside.windows(2).any(|pair| pair == b"=}")
}

/// The number and the ending of `1`, `2/.` or `-1`.
fn numbered(inside: &str) -> Option<(&str, &str)> {
    let digits_begin = usize::from(inside.starts_with('-'));
    let digits = inside[digits_begin..].bytes().take_while(u8::is_ascii_digit).count();
    let (number, ending) = inside.split_at(digits_begin + digits);
    (digits > 0 && ENDINGS.contains(&ending)).then_some((number, ending))
}

/// `[0-9]{3}`, `(ab){3}` and `\d{3}` are regular expressions.
fn is_repetition(text: &[u8], at: usize) -> bool {
    matches!(before(text, at, 1), Some(b']' | b')')) || before(text, at, 2) == Some(b'\\')
}

fn numbered_message(inside: &str, number: &str, ending: &str) -> String {
    let expression = match ending {
        "" => format!(" (in a regular expression write {{{number},{number}}})"),
        _ => String::new(),
    };
    match number {
        "1" => format!("{{{inside}}} is not supported; write {{{ending}}}{expression}"),
        _ => format!(
            "{{{inside}}} is not supported: a job has one argument; for two, write \
             `-n 2 sh -c 'echo \"$1\" \"$2\"' sh {{}}`{expression}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<String> {
        (0..text.len()).find_map(|at| check(text.as_bytes(), at).err())
    }

    #[test]
    fn placeholders_of_parallel_are_refused_with_a_replacement() {
        for (text, hint) in [
            ("{1}", "write {}"),
            ("a/{1.}.png", "write {.}"),
            ("{1/.}", "write {/.}"),
            ("{2}", "-n 2 sh -c"),
            ("{-1}", "-n 2 sh -c"),
            ("x{3}y", "{3,3}"),
            ("{= s/a/b/ =}", "Perl"),
            ("{2=uc=}", "Perl"),
            ("{..}", "basename"),
            ("{+/}", "basename"),
        ] {
            let refusal = refusal(text).unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(refusal.contains(hint), "{text}: {refusal}");
        }
    }

    #[test]
    fn other_braces_are_text() {
        for text in ["{print $1}", "{}", "{x}", "{", "{1", "{1..5}", "{a,b}", "{1,3}", "${1}", "{=", "{-}"] {
            assert_eq!(refusal(text), None, "{text}");
        }
        for expression in ["[0-9]{3}", "(ab){2}", r"\d{4}", r"\.{3}"] {
            assert_eq!(refusal(expression), None, "{expression}");
        }
    }
}
