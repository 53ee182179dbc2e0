//! Cuts a service's output into lines.
//!
//! [`next_line`] looks at bytes that have arrived and says which of them are the next line, if it is
//! complete. It keeps nothing: whoever holds the bytes calls it again from where the last line ended.

/// What ended a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineBreak {
    /// A newline, the usual end.
    Newline,
    /// A zero byte.
    Nul,
    /// The line is longer than allowed; its rest follows as a line of its own.
    LineMax,
    /// The writer went away in the middle of the line.
    Eof,
    /// Another process went on writing in the middle of the line.
    PidChange,
}

impl LineBreak {
    /// The value of `_LINE_BREAK=`; a newline is not worth a field.
    #[must_use]
    pub const fn field(self) -> Option<&'static str> {
        match self {
            Self::Newline => None,
            Self::Nul => Some("nul"),
            Self::LineMax => Some("line-max"),
            Self::Eof => Some("eof"),
            Self::PidChange => Some("pid-change"),
        }
    }
}

/// A line at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line without what ended it.
    pub text: &'a [u8],
    /// How many bytes the line and its end take.
    pub taken: usize,
    /// What ended it.
    pub ended_by: LineBreak,
}

/// Whether more bytes may follow those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// The writer may go on: an incomplete line waits.
    Possible,
    /// Nothing follows: what is there is the last line.
    No(LineBreak),
}

/// The first line of `bytes`; `None` if it is not complete yet, or if there is nothing.
#[must_use]
pub fn next_line(bytes: &[u8], line_max: usize, more: More) -> Option<Line<'_>> {
    if bytes.is_empty() {
        return None;
    }
    let line_max = line_max.max(1);
    let window = &bytes[..bytes.len().min(line_max)];
    let end = window.iter().position(|byte| *byte == b'\n' || *byte == 0);
    let (length, taken, ended_by) = match end {
        Some(at) if bytes[at] == 0 => (at, at + 1, LineBreak::Nul),
        Some(at) => (at, at + 1, LineBreak::Newline),
        None if bytes.len() >= line_max => (line_max, line_max, LineBreak::LineMax),
        None => match more {
            More::Possible => return None,
            More::No(reason) => (bytes.len(), bytes.len(), reason),
        },
    };
    Some(Line {
        text: &bytes[..length],
        taken,
        ended_by,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All lines of a text that arrives in pieces, as a stream's owner would cut them.
    fn cut(pieces: &[Vec<u8>], line_max: usize) -> Vec<(Vec<u8>, LineBreak)> {
        let mut held = Vec::new();
        let mut lines = Vec::new();
        let take = |held: &mut Vec<u8>, more, lines: &mut Vec<_>| {
            while let Some(line) = next_line(held, line_max, more) {
                lines.push((line.text.to_vec(), line.ended_by));
                let taken = line.taken;
                held.drain(..taken);
            }
        };
        for piece in pieces {
            held.extend_from_slice(piece);
            take(&mut held, More::Possible, &mut lines);
        }
        take(&mut held, More::No(LineBreak::Eof), &mut lines);
        lines
    }

    #[test]
    fn each_end_is_told_apart() {
        let lines = cut(&[b"one\ntwo\0\nthree".to_vec()], 100);
        assert_eq!(
            lines,
            [
                (b"one".to_vec(), LineBreak::Newline),
                (b"two".to_vec(), LineBreak::Nul),
                (b"".to_vec(), LineBreak::Newline),
                (b"three".to_vec(), LineBreak::Eof),
            ]
        );
    }

    #[test]
    fn a_long_line_is_split_and_its_rest_follows() {
        let lines = cut(&[b"abcdefgh\n".to_vec()], 3);
        assert_eq!(
            lines,
            [
                (b"abc".to_vec(), LineBreak::LineMax),
                (b"def".to_vec(), LineBreak::LineMax),
                (b"gh".to_vec(), LineBreak::Newline),
            ]
        );
    }

    proptest! {
        /// However the bytes arrive, the lines are the same, no byte is lost and none is made up.
        #[test]
        fn lines_do_not_depend_on_how_the_bytes_arrive(
            text in proptest::collection::vec(prop_oneof![3 => Just(b'x'), 1 => Just(b'\n'), 1 => Just(0u8)], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..8),
            line_max in 1usize..40,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<Vec<u8>> = cuts.windows(2).map(|pair| text[pair[0]..pair[1]].to_vec()).collect();
            let lines = cut(&pieces, line_max);
            prop_assert_eq!(&lines, &cut(std::slice::from_ref(&text), line_max));
            let mut again = Vec::new();
            for (line, ended_by) in &lines {
                prop_assert!(line.len() <= line_max);
                prop_assert!(!line.contains(&b'\n') && !line.contains(&0));
                again.extend_from_slice(line);
                match ended_by {
                    LineBreak::Newline => again.push(b'\n'),
                    LineBreak::Nul => again.push(0),
                    _ => {}
                }
            }
            prop_assert_eq!(again, text);
        }
    }
}
