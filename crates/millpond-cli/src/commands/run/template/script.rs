//! A template for `sh -c`.
//!
//! The argument is never pasted into the shell's text: each placeholder becomes a positional parameter, and the values are
//! handed over beside the text (`sh -c TEXT sh VALUE...`). So whatever an argument contains, it cannot become a command. How the
//! parameter has to be written depends on the quotes around it:
//!
//! | in the template | becomes |
//! |---|---|
//! | `mv {} x` | `mv "${1}" x` |
//! | `echo "{} done"` | `echo "${1} done"` |
//! | `echo '{} done'` | `echo ''"${1}"' done'` |
//!
//! In `$((...))` a shell may run what it finds in a value: there only the numbers `{#}` and `{%}` are taken.
//!
//! The quotes are followed through `\`, `$(...)`, backquotes and comments. Here-documents are not known; a
//! mistake there gives a wrong text, but still no command.

use super::quote::quote;
use super::{Job, Placeholder, shown};

#[derive(Debug)]
pub(super) struct Script {
    /// The text for the shell, with the parameters in place.
    text: Vec<u8>,
    /// The value of parameter N+1.
    parameters: Vec<Placeholder>,
    /// The same text in pieces, to be shown.
    pieces: Vec<Shown>,
}

#[derive(Debug)]
enum Shown {
    Text(Vec<u8>),
    Place(Placeholder, Quotes),
}

/// What is around a place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
    Single,
    Arithmetic,
}

/// What is open at a place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Double,
    Single,
    /// `$(` or `(`.
    Parenthesis,
    /// Each parenthesis of `$((`, and those within.
    Arithmetic,
    Backquote,
}

impl Script {
    /// Reads the text; without a placeholder the argument is appended.
    pub(super) fn new(template: &[u8]) -> Result<Script, String> {
        let mut script = Script { text: Vec::new(), parameters: Vec::new(), pieces: Vec::new() };
        let mut reader = Reader { rest: template, open: Vec::new(), at_word_start: true };
        while !reader.rest.is_empty() {
            match Placeholder::at_the_beginning_of(reader.rest) {
                Some((place, length)) => {
                    if reader.quotes() == Quotes::Arithmetic && !place.is_number() {
                        return Err(
                            "only {#} and {%} may stand in $((...)), where a shell may run what it finds; \
                                    write $( ( if you mean that"
                                .to_owned(),
                        );
                    }
                    script.push_place(place, reader.quotes());
                    reader.skip(length);
                }
                None => script.push_text(reader.step()),
            }
        }
        if let Some(quotation) = reader.open.iter().rev().find_map(|open| open.quotation()) {
            return Err(format!("the command has a {quotation} that is not closed"));
        }
        if script.parameters.is_empty() {
            script.push_text(b" ");
            script.push_place(Placeholder::Whole, Quotes::None);
        }
        Ok(script)
    }

    pub(super) fn placeholders(&self) -> &[Placeholder] {
        &self.parameters
    }

    /// The words to start: the shell, its text, and the values.
    pub(super) fn expand(&self, job: &Job<'_>) -> Vec<Vec<u8>> {
        let mut words = vec![b"sh".to_vec(), b"-c".to_vec(), self.text.clone(), b"sh".to_vec()];
        words.extend(self.parameters.iter().map(|place| place.value(job)));
        words
    }

    /// The text with the values in it, each in quotes of its own.
    pub(super) fn show(&self, job: &Job<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &self.pieces {
            match piece {
                Shown::Text(piece) => text.extend_from_slice(piece),
                Shown::Place(place, quotes) => {
                    let value = shown(*place, job);
                    let (around, value): (&[u8], _) = match quotes {
                        Quotes::None => (b"", quote(&value)),
                        Quotes::Double => (b"\"", quote(&value)),
                        Quotes::Single => (b"'", quote(&value)),
                        Quotes::Arithmetic => (b"", value),
                    };
                    text.extend_from_slice(around);
                    text.extend_from_slice(&value);
                    text.extend_from_slice(around);
                }
            }
        }
        text
    }

    fn push_text(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        match self.pieces.last_mut() {
            Some(Shown::Text(last)) => last.extend_from_slice(text),
            _ => self.pieces.push(Shown::Text(text.to_vec())),
        }
    }

    fn push_place(&mut self, place: Placeholder, quotes: Quotes) {
        let known = self.parameters.iter().position(|known| *known == place);
        let index = known.unwrap_or_else(|| {
            self.parameters.push(place);
            self.parameters.len() - 1
        });
        let parameter = match quotes {
            Quotes::None => format!("\"${{{}}}\"", index + 1),
            Quotes::Double | Quotes::Arithmetic => format!("${{{}}}", index + 1),
            Quotes::Single => format!("'\"${{{}}}\"'", index + 1),
        };
        self.text.extend_from_slice(parameter.as_bytes());
        self.pieces.push(Shown::Place(place, quotes));
    }
}

/// Follows the quotes through a text.
struct Reader<'a> {
    rest: &'a [u8],
    open: Vec<Open>,
    /// A `#` here begins a comment.
    at_word_start: bool,
}

impl<'a> Reader<'a> {
    fn quotes(&self) -> Quotes {
        match self.open.last() {
            Some(Open::Single) => Quotes::Single,
            Some(Open::Double) => Quotes::Double,
            Some(Open::Arithmetic) => Quotes::Arithmetic,
            Some(Open::Parenthesis | Open::Backquote) | None => Quotes::None,
        }
    }

    fn skip(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        self.at_word_start = false;
        taken
    }

    /// Takes the next byte, or what belongs together, and notes what it opens or closes.
    fn step(&mut self) -> &'a [u8] {
        let top = self.open.last().copied();
        let plain = self.quotes() == Quotes::None;
        let comment = plain && self.at_word_start;
        match (self.rest[0], top) {
            (b'\'', Some(Open::Single)) => return self.close(),
            (_, Some(Open::Single)) => {}
            (b'\\', _) => return self.skip(2),
            (b'"', Some(Open::Double)) => return self.close(),
            (b'"', _) => return self.open(Open::Double, 1),
            (b'\'', _) if plain => return self.open(Open::Single, 1),
            (b'$', _) if self.rest.starts_with(b"$((") => {
                self.open.push(Open::Arithmetic);
                return self.open(Open::Arithmetic, 3);
            }
            (b'(', Some(Open::Arithmetic)) => return self.open(Open::Arithmetic, 1),
            (b')', Some(Open::Arithmetic)) => return self.close(),
            (b'$', _) if self.rest.starts_with(b"$(") => return self.open(Open::Parenthesis, 2),
            (b'(', _) if plain => return self.open(Open::Parenthesis, 1),
            (b')', Some(Open::Parenthesis)) => return self.close(),
            (b'`', Some(Open::Backquote)) => return self.close(),
            (b'`', _) => return self.open(Open::Backquote, 1),
            (b'#', _) if comment => return self.skip(self.to_the_end_of_the_line()),
            _ => {}
        }
        let byte = self.skip(1);
        self.at_word_start = byte[0].is_ascii_whitespace() || b";&|".contains(&byte[0]);
        byte
    }

    fn open(&mut self, what: Open, length: usize) -> &'a [u8] {
        self.open.push(what);
        let taken = self.skip(length);
        self.at_word_start = matches!(what, Open::Parenthesis | Open::Backquote);
        taken
    }

    fn close(&mut self) -> &'a [u8] {
        self.open.pop();
        self.skip(1)
    }

    fn to_the_end_of_the_line(&self) -> usize {
        self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len())
    }
}

impl Open {
    /// What to call it if it is never closed. A parenthesis may be half of a `case`: the shell knows better.
    fn quotation(self) -> Option<&'static str> {
        match self {
            Open::Double => Some("double quote"),
            Open::Single => Some("single quote"),
            Open::Backquote => Some("backquote"),
            Open::Parenthesis | Open::Arithmetic => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn text(template: &str) -> String {
        String::from_utf8(Script::new(template.as_bytes()).expect("sound").text).expect("UTF-8")
    }

    #[test]
    fn a_placeholder_becomes_a_parameter_that_fits_the_quotes_around_it() {
        for (template, expected) in [
            ("mv {} {.}.old", r#"mv "${1}" "${2}".old"#),
            ("echo {} {}", r#"echo "${1}" "${1}""#),
            (r#"echo "{} done""#, r#"echo "${1} done""#),
            ("echo '{} done'", r#"echo ''"${1}"' done'"#),
            (r#"echo "$(cat {})""#, r#"echo "$(cat "${1}")""#),
            (r#"echo "$(cat "{}") {}""#, r#"echo "$(cat "${1}") ${1}""#),
            (r#"echo "`cat {}`""#, r#"echo "`cat "${1}"`""#),
            (r#"echo \"{}\' {}"#, r#"echo \""${1}"\' "${1}""#),
            ("true # don't\necho {}", "true # don't\necho \"${1}\""),
            ("echo a#'{}'", "echo a#''\"${1}\"''"),
            ("(cd {//} && ls)", r#"(cd "${1}" && ls)"#),
            ("sleep $(((4-{#})*2)) {}", r#"sleep $(((4-${1})*2)) "${2}""#),
            ("echo $( (cat {}) )", r#"echo $( (cat "${1}") )"#),
            ("cat -n", r#"cat -n "${1}""#),
        ] {
            assert_eq!(text(template), expected, "{template}");
        }
    }

    #[test]
    fn a_quotation_without_an_end_is_refused_by_name() {
        for (template, name) in
            [("echo '{}", "single quote"), ("echo \"{}", "double quote"), ("echo `{}", "backquote")]
        {
            assert!(Script::new(template.as_bytes()).expect_err(template).contains(name), "{template}");
        }
    }

    #[test]
    fn an_argument_is_not_taken_into_arithmetic() {
        let error = Script::new(b"echo $((1+{}))").expect_err("a shell may run `a[$(...)]`");
        assert!(error.starts_with("only {#} and {%} may stand in $((...))"), "{error}");
    }

    /// Whatever is in the argument reaches the command as it is, and nothing of it is run; what is shown does the same.
    #[test]
    fn no_argument_is_read_as_shell_code() {
        let evil = "a  b'c\"d$(echo e)`echo f`;echo g #\\ $HOME *\n{}";
        for (template, expected) in [
            ("printf %s {}", evil.to_owned()),
            (r#"printf %s "<{}>""#, format!("<{evil}>")),
            ("printf %s '<{}>'", format!("<{evil}>")),
            (r#"printf %s "$(printf %s {})""#, evil.to_owned()),
            (r#"printf %s "`printf %s {}`""#, evil.to_owned()),
        ] {
            let script = Script::new(template.as_bytes()).expect("sound");
            let job = Job { argument: evil.as_bytes(), number: 1, slot: 1 };
            let words: Vec<String> =
                script.expand(&job).into_iter().map(|word| String::from_utf8(word).unwrap()).collect();
            let output = Command::new(&words[0]).args(&words[1..]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{template}");
        }
        for template in ["printf %s {}", r#"printf %s "<{}>""#, "printf %s '<{}>'"] {
            let script = Script::new(template.as_bytes()).expect("sound");
            let job = Job { argument: evil.as_bytes(), number: 1, slot: 1 };
            let shown = String::from_utf8(script.show(&job)).unwrap();
            let output = Command::new("sh").arg("-c").arg(&shown).output().expect("a shell");
            assert!(String::from_utf8_lossy(&output.stdout).contains(evil), "{template}: {shown}");
        }
    }
}
