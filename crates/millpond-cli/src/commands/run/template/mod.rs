//! What a command line becomes for one argument: `convert {} {.}.jpg` and `a b.png` make `convert 'a b.png' 'a b.jpg'`.
//!
//! A template of several words is started directly, word by word, and no shell sees the argument. A template for the shell
//! is one text; see [`script`] for how the argument gets into it without ever being read as shell code.

mod path;
mod quote;
mod script;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use self::script::Script;

/// What stands in for the argument, or for something made from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    /// `{}`: the argument.
    Whole,
    /// `{.}`: without its extension.
    Stem,
    /// `{/}`: without its directories.
    Name,
    /// `{//}`: its directory.
    Directory,
    /// `{/.}`: without directories and extension.
    NameStem,
    /// `{#}`: the number of the job.
    Number,
    /// `{%}`: the number of the slot.
    Slot,
}

const PLACEHOLDERS: [(&str, Placeholder); 7] = [
    ("{}", Placeholder::Whole),
    ("{.}", Placeholder::Stem),
    ("{/}", Placeholder::Name),
    ("{//}", Placeholder::Directory),
    ("{/.}", Placeholder::NameStem),
    ("{#}", Placeholder::Number),
    ("{%}", Placeholder::Slot),
];

impl Placeholder {
    /// The placeholder that `text` begins with, and its length.
    fn at_the_beginning_of(text: &[u8]) -> Option<(Placeholder, usize)> {
        let found = PLACEHOLDERS.into_iter().find(|(token, _)| text.starts_with(token.as_bytes()));
        found.map(|(token, placeholder)| (placeholder, token.len()))
    }

    /// Nothing but digits, whatever the argument is.
    fn is_number(self) -> bool {
        matches!(self, Placeholder::Number | Placeholder::Slot)
    }

    fn value(self, job: &Job<'_>) -> Vec<u8> {
        match self {
            Placeholder::Whole => job.argument.to_vec(),
            Placeholder::Stem => path::stem(job.argument).to_vec(),
            Placeholder::Name => path::name(job.argument).to_vec(),
            Placeholder::Directory => path::directory(job.argument).to_vec(),
            Placeholder::NameStem => path::stem(path::name(job.argument)).to_vec(),
            Placeholder::Number => job.number.to_string().into_bytes(),
            Placeholder::Slot => job.slot.to_string().into_bytes(),
        }
    }
}

/// One job, as far as placeholders can tell it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) argument: &'a [u8],
    /// From 1, in the order of the input.
    pub(super) number: u64,
    /// From 1 to the largest number of jobs at a time; no two jobs have the same at the same time.
    pub(super) slot: usize,
}

/// A command with places for the argument.
#[derive(Debug)]
pub(super) struct Template {
    form: Form,
    uses_slot: bool,
    /// No placeholder in the name of the program: if it cannot be found once, it never can.
    pub(super) program_is_fixed: bool,
}

#[derive(Debug)]
enum Form {
    Words(Vec<Word>),
    Shell(Script),
}

/// One word: pieces of text and placeholders, in turn.
#[derive(Debug, Default)]
struct Word {
    pieces: Vec<Piece>,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Place(Placeholder),
}

impl Template {
    /// Reads the words of a command line. A single word with a space in it is for the shell, and so is all if `shell`.
    ///
    /// # Errors
    /// One line, if a shell would not know where a quotation ends.
    pub(super) fn new(words: &[OsString], shell: bool) -> Result<Template, String> {
        let is_script = |word: &OsString| word.as_bytes().iter().any(u8::is_ascii_whitespace);
        if shell || (words.len() == 1 && is_script(&words[0])) {
            let text = words.join(OsStr::new(" "));
            let script = Script::new(text.as_bytes())?;
            let uses_slot = script.placeholders().contains(&Placeholder::Slot);
            return Ok(Template { form: Form::Shell(script), uses_slot, program_is_fixed: true });
        }
        let mut words: Vec<Word> = words.iter().map(|word| Word::new(word.as_bytes())).collect();
        if words.iter().all(|word| word.placeholders().next().is_none()) {
            words.push(Word { pieces: vec![Piece::Place(Placeholder::Whole)] });
        }
        let uses_slot = words.iter().any(|word| word.placeholders().any(|place| place == Placeholder::Slot));
        let program_is_fixed = words[0].placeholders().next().is_none();
        Ok(Template { form: Form::Words(words), uses_slot, program_is_fixed })
    }

    /// Whether `{%}` is in it, so that somebody has to give out slots.
    pub(super) fn uses_slot(&self) -> bool {
        self.uses_slot
    }

    /// The program and its arguments. Never empty.
    pub(super) fn expand(&self, job: &Job<'_>) -> Vec<OsString> {
        let words: Vec<Vec<u8>> = match &self.form {
            Form::Words(words) => words.iter().map(|word| word.expand(job)).collect(),
            Form::Shell(script) => script.expand(job),
        };
        words.into_iter().map(OsString::from_vec).collect()
    }

    /// The command as one could type it into a shell. Without the slot, which differs from run to run.
    pub(super) fn show(&self, job: &Job<'_>) -> Vec<u8> {
        let job = &Job { slot: 0, ..*job };
        match &self.form {
            Form::Words(words) => {
                let quoted: Vec<Vec<u8>> =
                    words.iter().map(|word| quote::quote(&word.expand_shown(job))).collect();
                quoted.join(&b' ')
            }
            Form::Shell(script) => script.show(job),
        }
    }
}

impl Word {
    fn new(mut text: &[u8]) -> Word {
        let mut word = Word::default();
        let mut plain = Vec::new();
        while let [first, rest @ ..] = text {
            if let Some((place, length)) = Placeholder::at_the_beginning_of(text) {
                word.push_text(&mut plain);
                word.pieces.push(Piece::Place(place));
                text = &text[length..];
            } else {
                plain.push(*first);
                text = rest;
            }
        }
        word.push_text(&mut plain);
        word
    }

    fn push_text(&mut self, text: &mut Vec<u8>) {
        if !text.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(text)));
        }
    }

    fn placeholders(&self) -> impl Iterator<Item = Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Place(place) => Some(*place),
            Piece::Text(_) => None,
        })
    }

    fn expand(&self, job: &Job<'_>) -> Vec<u8> {
        self.expand_with(|place| place.value(job))
    }

    fn expand_shown(&self, job: &Job<'_>) -> Vec<u8> {
        self.expand_with(|place| shown(place, job))
    }

    fn expand_with(&self, value: impl Fn(Placeholder) -> Vec<u8>) -> Vec<u8> {
        let mut expanded = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => expanded.extend_from_slice(text),
                Piece::Place(place) => expanded.extend_from_slice(&value(*place)),
            }
        }
        expanded
    }
}

/// What the log shows for `place`: the value, but the slot stays a placeholder.
fn shown(place: Placeholder, job: &Job<'_>) -> Vec<u8> {
    match place {
        Placeholder::Slot => b"{%}".to_vec(),
        _ => place.value(job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(words: &[&str], argument: &str) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let template = Template::new(&words, false).expect("a sound template");
        let job = Job { argument: argument.as_bytes(), number: 7, slot: 3 };
        template.expand(&job).into_iter().map(|word| word.into_string().expect("UTF-8")).collect()
    }

    #[test]
    fn every_placeholder_gives_its_part_of_the_argument() {
        let words = ["run", "{}", "{.}", "{/}", "{//}", "{/.}", "{#}", "{%}"];
        assert_eq!(
            expanded(&words, "in/a b.tar.gz"),
            ["run", "in/a b.tar.gz", "in/a b.tar", "a b.tar.gz", "in", "a b.tar", "7", "3"]
        );
    }

    #[test]
    fn a_placeholder_may_stand_anywhere_in_a_word_and_more_than_once() {
        assert_eq!(expanded(&["{}", "x{}y{#}", "{{}}"], "a"), ["a", "xay7", "{a}"]);
    }

    #[test]
    fn braces_that_are_no_placeholder_stay() {
        assert_eq!(
            expanded(&["awk", "{print}", "{}", "{x}", "{", "}"], "a"),
            ["awk", "{print}", "a", "{x}", "{", "}"]
        );
    }

    #[test]
    fn without_a_placeholder_the_argument_comes_last() {
        assert_eq!(expanded(&["echo", "-n"], "a b"), ["echo", "-n", "a b"]);
        assert_eq!(expanded(&["echo", "{#}"], "a b"), ["echo", "7"]);
        assert_eq!(expanded(&["echo"], ""), ["echo", ""]);
    }

    #[test]
    fn what_is_shown_can_be_typed_and_does_not_depend_on_the_slot() {
        let words: Vec<OsString> = ["echo", "{}", "it's", "{%}", ""].iter().map(OsString::from).collect();
        let template = Template::new(&words, false).expect("a sound template");
        let shown = template.show(&Job { argument: b"a b", number: 1, slot: 4 });
        assert_eq!(String::from_utf8(shown).unwrap(), r"echo 'a b' 'it'\''s' '{%}' ''");
    }
}
