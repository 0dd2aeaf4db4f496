//! Refuses commands that would paste an argument into code: `sh -c 'echo {}'`, `perl -e '... {}'`.
//!
//! The interpreter would run whatever the argument contains: a file named `$(reboot)` would be a
//! command. A placeholder that is the whole word (`sh -c {}`) is accepted, because there the
//! argument is meant to be code.

use super::Placeholder;

/// Programs that run a word as code, with the letters of the options before that word.
const INTERPRETERS: [(&str, &str); 14] = [
    ("sh", "c"),
    ("bash", "c"),
    ("dash", "c"),
    ("ash", "c"),
    ("zsh", "c"),
    ("ksh", "c"),
    ("fish", "c"),
    ("su", "c"),
    ("perl", "eE"),
    ("ruby", "e"),
    ("lua", "e"),
    ("node", "ep"),
    ("php", "r"),
    ("python", "c"),
];

/// Checks a command that is started without a shell.
pub(super) fn check_words(words: &[&[u8]]) -> Result<(), String> {
    match (0..words.len()).find_map(|at| code_word(&words[at..])) {
        Some(code) if pastes_argument(code.text) => Err(code.refusal()),
        _ => Ok(()),
    }
}

/// Checks a quoted placeholder in a shell command. `before` is the text up to the quotation, and
/// `quoted` is the text inside.
pub(super) fn check_quotation(before: &[u8], quoted: &[u8]) -> Result<(), String> {
    let begin = before.iter().rposition(|byte| b";|&(`\n".contains(byte)).map_or(0, |end| end + 1);
    let mut words: Vec<&[u8]> =
        before[begin..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    words.push(quoted);
    match (0..words.len()).find_map(|at| code_word(&words[at..])) {
        Some(code) if std::ptr::eq(code.text, quoted) && pastes_argument(quoted) => Err(code.refusal()),
        _ => Ok(()),
    }
}

/// A word that an interpreter runs.
struct Code<'a> {
    interpreter: &'static str,
    option: &'a [u8],
    text: &'a [u8],
}

/// The code in `words`, if the first one is an interpreter: `bash -o pipefail -ec CODE`.
fn code_word<'a>(words: &[&'a [u8]]) -> Option<Code<'a>> {
    let (interpreter, letters) = interpreter(words.first()?)?;
    let mut takes_value = false;
    for (at, word) in words.iter().enumerate().skip(1) {
        let is_option = word.len() > 1 && matches!(word[0], b'-' | b'+');
        if is_option && !word.starts_with(b"--") && word.iter().any(|byte| letters.as_bytes().contains(byte))
        {
            return words.get(at + 1).map(|text| Code { interpreter, option: word, text });
        }
        // `su USER -c CODE` has an operand before the option.
        if !is_option && !takes_value && interpreter != "su" {
            return None;
        }
        takes_value = matches!(*word, b"-o" | b"+o" | b"-O" | b"+O");
    }
    None
}

fn interpreter(program: &[u8]) -> Option<(&'static str, &'static str)> {
    let name = super::path::name(program);
    let without_version = match name.starts_with(b"python") {
        true => name.trim_ascii_end().split(|byte| byte.is_ascii_digit()).next().unwrap_or(name),
        false => name,
    };
    INTERPRETERS.into_iter().find(|(known, _)| known.as_bytes() == without_version)
}

/// Whether the text is more than a single placeholder and contains a non-numeric one.
fn pastes_argument(text: &[u8]) -> bool {
    let is_lone = Placeholder::at_start(text).is_some_and(|(_, length)| length == text.len());
    let mut places = (0..text.len()).filter_map(|at| Placeholder::at_start(&text[at..]));
    !is_lone && places.any(|(place, _)| !place.is_number())
}

impl Code<'_> {
    fn refusal(&self) -> String {
        let option = String::from_utf8_lossy(self.option);
        let name = self.interpreter;
        let text = String::from_utf8_lossy(self.text);
        let shown = if text.contains('\'') || text.len() > 60 { "... {} ..." } else { &text };
        match self.interpreter {
            "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh" | "fish" | "su" => format!(
                "{name} {option} would run the argument as code; write `millpond run '{shown}'`, or pass \
                 the argument as a parameter: `sh -c 'echo \"$1\"' sh {{}}`"
            ),
            _ => format!(
                "{name} {option} would run the argument as code; pass it as a parameter: \
                 `{name} {option} CODE {{}}`"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &[&str]) -> Result<(), String> {
        check_words(&command.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
    }

    #[test]
    fn code_with_an_argument_in_it_is_refused() {
        for command in [
            &["sh", "-c", "echo {}"][..],
            &["/bin/bash", "-ec", "rm {.}"],
            &["bash", "-o", "pipefail", "-c", "echo '{}'"],
            &["env", "A=1", "sudo", "dash", "-c", "x{}"],
            &["su", "nobody", "-c", "ls {}"],
            &["perl", "-ne", "print {}"],
            &["python3.11", "-c", "print('{}')"],
        ] {
            let error = check(command).expect_err(&command.join(" "));
            assert!(error.contains("would run the argument as code"), "{error}");
        }
    }

    #[test]
    fn parameters_numbers_and_whole_commands_are_accepted() {
        for command in [
            &["sh", "-c", "echo \"$1\"", "sh", "{}"][..],
            &["sh", "-c", "echo {#} {%}", "sh", "{}"],
            &["sh", "-c", "{}"],
            &["sh", "script.sh", "-c", "x{}"],
            &["python3", "tool.py", "-c", "x{}"],
            &["echo", "-c", "x{}"],
            &["sh", "-c"],
        ] {
            assert_eq!(check(command), Ok(()), "{command:?}");
        }
    }

    #[test]
    fn a_nested_shell_is_noticed() {
        let error = check_quotation(b"cd /tmp && bash -c ", b"echo {}").expect_err("code");
        assert!(error.starts_with("bash -c would run"), "{error}");
        assert_eq!(check_quotation(b"bash -c 'echo' ", b"echo {}"), Ok(()));
        assert_eq!(check_quotation(b"echo sh; echo -c ", b"a {}"), Ok(()));
        assert_eq!(check_quotation(b"sh -c ", b"{}"), Ok(()));
    }
}
