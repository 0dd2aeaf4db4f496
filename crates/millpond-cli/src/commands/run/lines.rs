//! Output line by line: the tags of `--tag`, and `--line-buffer`.

use std::io::{self, Write};

use super::printer::Printer;
use super::process::{Collect, Which};

/// A longer line is printed in pieces, so that output without line ends needs little memory.
const LONGEST_LINE: usize = 64 * 1024;

/// Begins each line with a tag and a tab.
#[derive(Debug)]
pub(super) struct Tagged<'a, W> {
    sink: &'a mut W,
    tag: &'a [u8],
    at_line_start: bool,
}

impl<'a, W: Write> Tagged<'a, W> {
    pub(super) fn new(sink: &'a mut W, tag: &'a [u8]) -> Self {
        Tagged { sink, tag, at_line_start: true }
    }
}

impl<W: Write> Write for Tagged<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut tagged = Vec::with_capacity(bytes.len() + 64);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.at_line_start {
                tagged.extend_from_slice(self.tag);
                tagged.push(b'\t');
            }
            tagged.extend_from_slice(line);
            self.at_line_start = line.ends_with(b"\n");
        }
        self.sink.write_all(&tagged)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Prints each line of a job's output as soon as it is complete.
#[derive(Debug)]
pub(super) struct LineBuffer<'a> {
    printer: &'a Printer,
    tag: Option<&'a [u8]>,
    stdout: Partial,
    stderr: Partial,
}

/// The incomplete last line.
#[derive(Debug, Default)]
struct Partial {
    bytes: Vec<u8>,
    /// Whether an earlier piece of the line was printed, with its tag.
    is_continued: bool,
}

impl<'a> LineBuffer<'a> {
    pub(super) fn new(printer: &'a Printer, tag: Option<&'a [u8]>) -> Self {
        LineBuffer { printer, tag, stdout: Partial::default(), stderr: Partial::default() }
    }

    /// Prints incomplete last lines.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        for which in [Which::Stdout, Which::Stderr] {
            let length = self.partial(which).bytes.len();
            self.print(which, length)?;
        }
        Ok(())
    }

    fn partial(&mut self, which: Which) -> &mut Partial {
        match which {
            Which::Stdout => &mut self.stdout,
            Which::Stderr => &mut self.stderr,
        }
    }

    /// Prints the first `length` bytes of the remaining output.
    fn print(&mut self, which: Which, length: usize) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let (printer, tag) = (self.printer, self.tag);
        let partial = self.partial(which);
        let rest = partial.bytes.split_off(length);
        let complete = std::mem::replace(&mut partial.bytes, rest);
        let mut text = Vec::new();
        match tag {
            Some(tag) => {
                let mut tagged = Tagged::new(&mut text, tag);
                tagged.at_line_start = !partial.is_continued;
                tagged.write_all(&complete).expect("a Vec takes everything");
            }
            None => text = complete.clone(),
        }
        partial.is_continued = !complete.ends_with(b"\n");
        printer.print_now(which, &text)
    }
}

impl Collect for LineBuffer<'_> {
    fn collect(&mut self, which: Which, bytes: &[u8]) -> io::Result<()> {
        let partial = self.partial(which);
        partial.bytes.extend_from_slice(bytes);
        let complete = partial.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let is_too_long = partial.bytes.len() - complete > LONGEST_LINE;
        let length = if is_too_long { partial.bytes.len() } else { complete };
        self.print(which, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_gets_the_tag_however_it_is_cut() {
        for cut in 1..=9 {
            let mut text = Vec::new();
            let mut tagged = Tagged::new(&mut text, b"t");
            b"a\n\nbc\nd".chunks(cut).for_each(|piece| tagged.write_all(piece).expect("room"));
            assert_eq!(String::from_utf8_lossy(&text), "t\ta\nt\t\nt\tbc\nt\td", "pieces of {cut}");
        }
    }
}
