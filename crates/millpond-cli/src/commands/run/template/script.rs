//! A template for `sh -c`.
//!
//! An argument is never pasted into the shell's text. Each placeholder becomes a positional
//! parameter, and the values are passed beside the text (`sh -c TEXT sh VALUE...`). So no argument
//! can become a command. The spelling of the parameter depends on the quotes around it:
//!
//! | in the template | becomes |
//! |---|---|
//! | `mv {} x` | `mv "${1}" x` |
//! | `echo "{} done"` | `echo "${1} done"` |
//! | `echo '{} done'` | `echo ''"${1}"' done'` |
//!
//! With `-n`, several values follow each other: `"${1}" "${2}"`, or `"${1} ${2}"` inside quotes.
//!
//! Some shells run code in a value inside `$((...))`, so only the numbers `{#}` and `{%}` are
//! accepted there.
//!
//! The reader follows quotes through `\`, `$(...)`, backquotes and comments. It does not know
//! here-documents: a placeholder in one may give a wrong text, but never a command.

use super::quote::quote;
use super::{Job, Placeholder, code, foreign, shown};

#[derive(Debug)]
pub(super) struct Script {
    pieces: Vec<Piece>,
    /// The distinct placeholders, in the order of their parameters.
    parameters: Vec<Placeholder>,
    /// The text for a job with one argument, which is the usual case.
    single: Vec<u8>,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Place(Placeholder, Quotes),
}

/// The quotes around a position in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
    Single,
    Arithmetic,
}

/// A construct that is open at a position in the text.
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
    /// Parses the text. Without a placeholder, the argument is appended.
    pub(super) fn new(template: &[u8]) -> Result<Script, String> {
        let mut script = Script { pieces: Vec::new(), parameters: Vec::new(), single: Vec::new() };
        let mut reader = Reader { text: template, at: 0, open: Vec::new(), at_word_start: true };
        while !reader.rest().is_empty() {
            match Placeholder::at_start(reader.rest()) {
                Some((place, length)) => {
                    reader.check_place(place)?;
                    script.push_place(place, reader.quotes());
                    reader.skip(length);
                }
                None => {
                    foreign::check(template, reader.at)?;
                    script.push_text(reader.step());
                }
            }
        }
        if let Some(quotation) = reader.open.iter().rev().find_map(|(open, _)| open.quotation()) {
            return Err(format!("the command has a {quotation} that is not closed"));
        }
        if script.parameters.is_empty() {
            script.push_text(b" ");
            script.push_place(Placeholder::Whole, Quotes::None);
        }
        script.single = script.text(&vec![1; script.parameters.len()]);
        Ok(script)
    }

    pub(super) fn placeholders(&self) -> &[Placeholder] {
        &self.parameters
    }

    /// The words to start: the shell, its text, and the values.
    pub(super) fn expand(&self, job: &Job<'_>) -> Vec<Vec<u8>> {
        let values: Vec<Vec<Vec<u8>>> = self.parameters.iter().map(|place| place.values(job)).collect();
        let counts: Vec<usize> = values.iter().map(Vec::len).collect();
        let is_single = counts.iter().all(|count| *count == 1);
        let text = if is_single { self.single.clone() } else { self.text(&counts) };
        let mut words = vec![b"sh".to_vec(), b"-c".to_vec(), text, b"sh".to_vec()];
        words.extend(values.into_iter().flatten());
        words
    }

    /// The shell text if placeholder `i` has `counts[i]` values.
    fn text(&self, counts: &[usize]) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => text.extend_from_slice(piece),
                Piece::Place(place, quotes) => {
                    let at = self.parameters.iter().position(|known| known == place).expect("it was added");
                    let first = 1 + counts[..at].iter().sum::<usize>();
                    text.extend_from_slice(parameters(first..first + counts[at], *quotes).as_bytes());
                }
            }
        }
        text
    }

    /// The text with the values in it, each quoted.
    pub(super) fn show(&self, job: &Job<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => text.extend_from_slice(piece),
                Piece::Place(place, quotes) => text.extend_from_slice(&quotes.show(&shown(*place, job))),
            }
        }
        text
    }

    fn push_text(&mut self, text: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.extend_from_slice(text),
            _ => self.pieces.push(Piece::Text(text.to_vec())),
        }
    }

    fn push_place(&mut self, place: Placeholder, quotes: Quotes) {
        if !self.parameters.contains(&place) {
            self.parameters.push(place);
        }
        self.pieces.push(Piece::Place(place, quotes));
    }
}

/// The parameters with these numbers, spelled for the quotes around them.
fn parameters(numbers: std::ops::Range<usize>, quotes: Quotes) -> String {
    let separator = if quotes == Quotes::None { "\" \"" } else { " " };
    let list = numbers.map(|number| format!("${{{number}}}")).collect::<Vec<_>>().join(separator);
    match quotes {
        Quotes::None => format!("\"{list}\""),
        Quotes::Double | Quotes::Arithmetic => list,
        Quotes::Single => format!("'\"{list}\"'"),
    }
}

impl Quotes {
    /// The values as they appear in the text: quotes around them are closed and reopened.
    fn show(self, values: &[Vec<u8>]) -> Vec<u8> {
        let around: &[u8] = match self {
            Quotes::None => return values.iter().map(|value| quote(value)).collect::<Vec<_>>().join(&b' '),
            Quotes::Arithmetic => return values.join(&b' '),
            Quotes::Double => b"\"",
            Quotes::Single => b"'",
        };
        [around, &quote(&values.join(&b' ')), around].concat()
    }
}

/// Follows the quotes through a text.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// The open constructs, each with the start of the text inside it.
    open: Vec<(Open, usize)>,
    /// A `#` here begins a comment.
    at_word_start: bool,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn top(&self) -> Option<Open> {
        self.open.last().map(|(open, _)| *open)
    }

    fn quotes(&self) -> Quotes {
        match self.top() {
            Some(Open::Single) => Quotes::Single,
            Some(Open::Double) => Quotes::Double,
            Some(Open::Arithmetic) => Quotes::Arithmetic,
            Some(Open::Parenthesis | Open::Backquote) | None => Quotes::None,
        }
    }

    /// Refuses a place where a value is not safe.
    fn check_place(&self, place: Placeholder) -> Result<(), String> {
        if place.is_number() {
            return Ok(());
        }
        let quote = match self.quotes() {
            Quotes::None => return Ok(()),
            Quotes::Arithmetic => {
                return Err(
                    "only {#} and {%} may stand in $((...)), where a shell may run a value as code; \
                            write $( ( if you mean a subshell"
                        .to_owned(),
                );
            }
            Quotes::Double => b'"',
            Quotes::Single => b'\'',
        };
        let begin = self.open.last().map_or(1, |(_, begin)| *begin);
        let inside = &self.text[begin..];
        let end = inside.iter().position(|byte| *byte == quote).unwrap_or(inside.len());
        code::check_quotation(&self.text[..begin - 1], &inside[..end])
    }

    fn skip(&mut self, length: usize) -> &'a [u8] {
        let taken = &self.rest()[..length.min(self.rest().len())];
        self.at += taken.len();
        self.at_word_start = false;
        taken
    }

    /// Takes the next token, and records what it opens or closes.
    fn step(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let top = self.top();
        let plain = self.quotes() == Quotes::None;
        let comment = plain && self.at_word_start;
        match (rest[0], top) {
            (b'\'', Some(Open::Single)) => return self.close(),
            (_, Some(Open::Single)) => {}
            (b'\\', _) => return self.skip(2),
            (b'"', Some(Open::Double)) => return self.close(),
            (b'"', _) => return self.open(Open::Double, 1),
            (b'\'', _) if plain => return self.open(Open::Single, 1),
            (b'$', _) if rest.starts_with(b"$((") => {
                self.open.push((Open::Arithmetic, self.at + 2));
                return self.open(Open::Arithmetic, 3);
            }
            (b'(', Some(Open::Arithmetic)) => return self.open(Open::Arithmetic, 1),
            (b')', Some(Open::Arithmetic)) => return self.close(),
            (b'$', _) if rest.starts_with(b"$(") => return self.open(Open::Parenthesis, 2),
            (b'(', _) if plain => return self.open(Open::Parenthesis, 1),
            (b')', Some(Open::Parenthesis)) => return self.close(),
            (b'`', Some(Open::Backquote)) => return self.close(),
            (b'`', _) => return self.open(Open::Backquote, 1),
            (b'#', _) if comment => return self.skip(self.line_length()),
            _ => {}
        }
        let byte = self.skip(1);
        self.at_word_start = byte[0].is_ascii_whitespace() || b";&|".contains(&byte[0]);
        byte
    }

    fn open(&mut self, what: Open, length: usize) -> &'a [u8] {
        let taken = self.skip(length);
        self.open.push((what, self.at));
        self.at_word_start = matches!(what, Open::Parenthesis | Open::Backquote);
        taken
    }

    fn close(&mut self) -> &'a [u8] {
        self.open.pop();
        self.skip(1)
    }

    fn line_length(&self) -> usize {
        self.rest().iter().position(|byte| *byte == b'\n').unwrap_or(self.rest().len())
    }
}

impl Open {
    /// Its name in an error message if it must be closed. A parenthesis may belong to a `case`.
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

    use super::super::Arguments;
    use super::*;

    fn text(template: &str) -> String {
        String::from_utf8(Script::new(template.as_bytes()).expect("sound").single).expect("UTF-8")
    }

    #[test]
    fn a_placeholder_becomes_a_parameter_that_fits_its_quotes() {
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
    fn an_unclosed_quotation_is_refused_by_name() {
        for (template, name) in
            [("echo '{}", "single quote"), ("echo \"{}", "double quote"), ("echo `{}", "backquote")]
        {
            assert!(Script::new(template.as_bytes()).expect_err(template).contains(name), "{template}");
        }
    }

    #[test]
    fn an_argument_in_arithmetic_is_refused() {
        let error = Script::new(b"echo $((1+{}))").expect_err("a shell may run `a[$(...)]`");
        assert!(error.starts_with("only {#} and {%} may stand in $((...))"), "{error}");
    }

    /// The argument reaches the command unchanged, and no part of it runs. The same holds for the
    /// displayed text.
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
            let arguments = Arguments::one(evil.as_bytes().to_vec());
            let job = Job { arguments: &arguments, number: 1, slot: 1 };
            let words: Vec<String> =
                script.expand(&job).into_iter().map(|word| String::from_utf8(word).unwrap()).collect();
            let output = Command::new(&words[0]).args(&words[1..]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{template}");
        }
        for template in ["printf %s {}", r#"printf %s "<{}>""#, "printf %s '<{}>'"] {
            let script = Script::new(template.as_bytes()).expect("sound");
            let arguments = Arguments::one(evil.as_bytes().to_vec());
            let job = Job { arguments: &arguments, number: 1, slot: 1 };
            let shown = String::from_utf8(script.show(&job)).unwrap();
            let output = Command::new("sh").arg("-c").arg(&shown).output().expect("a shell");
            assert!(String::from_utf8_lossy(&output.stdout).contains(evil), "{template}: {shown}");
        }
    }

    #[test]
    fn several_arguments_become_several_words_or_one_quoted_text() {
        let mut arguments = Arguments::one(b"a b".to_vec());
        arguments.push(b"c");
        let job = Job { arguments: &arguments, number: 7, slot: 1 };
        for (template, text, shown) in [
            ("ls {} > {#}", r#"ls "${1}" "${2}" > "${3}""#, "ls 'a b' c > 7"),
            ("echo {#} \"{}\"", r#"echo "${1}" "${2} ${3}""#, r#"echo 7 ""'a b c'"""#),
            ("echo '{}'", r#"echo ''"${1} ${2}"''"#, "echo '''a b c'''"),
        ] {
            let script = Script::new(template.as_bytes()).expect("sound");
            assert_eq!(String::from_utf8_lossy(&script.expand(&job)[2]), text, "{template}");
            assert_eq!(String::from_utf8_lossy(&script.show(&job)), shown, "{template}");
        }
    }

    #[test]
    fn code_for_a_nested_shell_is_refused() {
        let error = Script::new(b"cd x && bash -c \"echo {}\"").expect_err("bash would run it");
        assert!(error.contains("would run the argument as code"), "{error}");
        assert!(Script::new(b"bash -c 'echo \"$1\"' bash \"{}\"").is_ok());
    }
}
