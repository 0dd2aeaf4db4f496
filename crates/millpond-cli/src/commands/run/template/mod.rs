//! Builds the command line of a job: `convert {} {.}.jpg` with the argument `a b.png` becomes
//! `convert 'a b.png' 'a b.jpg'`.
//!
//! A template of several words is started directly, word by word, without a shell. A template for
//! the shell is one text; [`script`] passes the arguments beside the text, never inside it.
//! [`code`] refuses templates that would paste an argument into the code of another interpreter.

mod code;
mod foreign;
mod path;
mod quote;
mod script;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

pub(super) use self::quote::quote;
use self::script::Script;

/// A placeholder for the argument or a value derived from it.
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
    fn at_start(text: &[u8]) -> Option<(Placeholder, usize)> {
        let found = PLACEHOLDERS.into_iter().find(|(token, _)| text.starts_with(token.as_bytes()));
        found.map(|(token, placeholder)| (placeholder, token.len()))
    }

    /// Whether the value consists of digits only, for every argument.
    fn is_number(self) -> bool {
        matches!(self, Placeholder::Number | Placeholder::Slot)
    }

    /// One value per argument of the job, or a single number.
    fn values(self, job: &Job<'_>) -> Vec<Vec<u8>> {
        match self {
            Placeholder::Number => vec![job.number.to_string().into_bytes()],
            Placeholder::Slot => vec![job.slot.to_string().into_bytes()],
            _ => job.arguments.iter().map(|argument| self.part_of(argument).to_vec()).collect(),
        }
    }

    fn part_of(self, argument: &[u8]) -> &[u8] {
        match self {
            Placeholder::Stem => path::stem(argument),
            Placeholder::Name => path::name(argument),
            Placeholder::Directory => path::directory(argument),
            Placeholder::NameStem => path::stem(path::name(argument)),
            Placeholder::Whole | Placeholder::Number | Placeholder::Slot => argument,
        }
    }
}

/// The arguments of one job: at least one, usually exactly one.
///
/// Stored as one text, separated by NUL bytes. No argument contains one, since no command line can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arguments(Vec<u8>);

impl Arguments {
    pub(super) fn one(argument: Vec<u8>) -> Arguments {
        Arguments(argument)
    }

    pub(super) fn push(&mut self, argument: &[u8]) {
        self.0.push(0);
        self.0.extend_from_slice(argument);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == 0)
    }

    /// Total length, with one separator between two arguments.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All arguments separated by spaces, for display.
    pub(super) fn joined(&self) -> Vec<u8> {
        self.0.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect()
    }
}

/// The values that placeholders can stand for in one job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) arguments: &'a Arguments,
    /// From 1, in the order of the input.
    pub(super) number: u64,
    /// From 1 to the number of concurrent jobs. No two running jobs have the same slot.
    pub(super) slot: usize,
}

/// A command with placeholders.
#[derive(Debug)]
pub(super) struct Template {
    form: Form,
    uses_slot: bool,
    /// Whether the program's name has no placeholder: if it cannot be started once, it never can.
    pub(super) program_is_fixed: bool,
}

#[derive(Debug)]
enum Form {
    Words(Vec<Word>),
    Shell(Script),
}

/// One word: text and placeholders, alternating.
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
    /// Parses the words of a command line. A single word that contains a space is for the shell,
    /// and so is every command if `shell` is set. `batched`: a job may have several arguments.
    ///
    /// # Errors
    /// One line that says what is wrong and what to write instead.
    pub(super) fn new(words: &[OsString], shell: bool, batched: bool) -> Result<Template, String> {
        let is_script = |word: &OsString| word.as_bytes().iter().any(u8::is_ascii_whitespace);
        if shell || (words.len() == 1 && is_script(&words[0])) {
            let text = words.join(OsStr::new(" "));
            let script = Script::new(text.as_bytes())?;
            let uses_slot = script.placeholders().contains(&Placeholder::Slot);
            return Ok(Template { form: Form::Shell(script), uses_slot, program_is_fixed: true });
        }
        let texts: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        code::check_words(&texts)?;
        let mut words: Vec<Word> = texts.into_iter().map(Word::new).collect::<Result<_, _>>()?;
        if words.iter().all(|word| word.placeholders().next().is_none()) {
            words.push(Word { pieces: vec![Piece::Place(Placeholder::Whole)] });
        }
        if batched {
            words.iter().try_for_each(Word::check_batched)?;
        }
        let uses_slot = words.iter().any(|word| word.placeholders().any(|place| place == Placeholder::Slot));
        let program_is_fixed = words[0].placeholders().next().is_none();
        Ok(Template { form: Form::Words(words), uses_slot, program_is_fixed })
    }

    /// Whether the template contains `{%}`, so that jobs need slots.
    pub(super) fn uses_slot(&self) -> bool {
        self.uses_slot
    }

    /// The program and its arguments. Never empty.
    pub(super) fn expand(&self, job: &Job<'_>) -> Vec<OsString> {
        let words: Vec<Vec<u8>> = match &self.form {
            Form::Words(words) => {
                words.iter().flat_map(|word| word.expand_with(|place| place.values(job))).collect()
            }
            Form::Shell(script) => script.expand(job),
        };
        words.into_iter().map(OsString::from_vec).collect()
    }

    /// The command in shell syntax. `{%}` remains, because it differs between runs.
    pub(super) fn show(&self, job: &Job<'_>) -> Vec<u8> {
        match &self.form {
            Form::Words(words) => {
                let shown = words.iter().flat_map(|word| word.expand_with(|place| shown(place, job)));
                shown.map(|word| quote(&word)).collect::<Vec<_>>().join(&b' ')
            }
            Form::Shell(script) => script.show(job),
        }
    }
}

impl Word {
    fn new(text: &[u8]) -> Result<Word, String> {
        let mut word = Word::default();
        let mut plain = Vec::new();
        let mut at = 0;
        while at < text.len() {
            if let Some((place, length)) = Placeholder::at_start(&text[at..]) {
                word.push_text(&mut plain);
                word.pieces.push(Piece::Place(place));
                at += length;
            } else {
                foreign::check(text, at)?;
                plain.push(text[at]);
                at += 1;
            }
        }
        word.push_text(&mut plain);
        Ok(word)
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

    /// Several arguments become several words, so text around the placeholder has no meaning.
    fn check_batched(&self) -> Result<(), String> {
        if self.pieces.len() > 1 && self.placeholders().any(|place| !place.is_number()) {
            return Err("with -n a placeholder must be a word of its own; \
                        use a shell command, or leave out -n"
                .to_owned());
        }
        Ok(())
    }

    /// A lone placeholder becomes one word per value.
    fn expand_with(&self, values: impl Fn(Placeholder) -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        if let [Piece::Place(place)] = self.pieces[..] {
            return values(place);
        }
        let mut expanded = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => expanded.extend_from_slice(text),
                Piece::Place(place) => expanded.extend_from_slice(&values(*place).join(&b' ')),
            }
        }
        vec![expanded]
    }
}

/// The values as shown in the log: a slot remains a placeholder.
fn shown(place: Placeholder, job: &Job<'_>) -> Vec<Vec<u8>> {
    match place {
        Placeholder::Slot => vec![b"{%}".to_vec()],
        _ => place.values(job),
    }
}
