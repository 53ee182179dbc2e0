//! What rsync says: a line for each thing that it has dealt with, how far it is, and the rest in words. Pure.
//!
//! The machine's rsync speaks through ours, so that nothing of this is more than figures and words, and all of it is bounded.

use tokio::sync::watch;

use crate::transfer::{Progress, RelPath, Report};

/// What a line about a file begins with.
const ITEM: &[u8] = b"muster-item ";

/// How such a line goes on: what was done, the length of the file, and the bytes that it took. With the latter rsync says the
/// line when it is done with the file, not before.
pub(super) const FORMAT: &str = "--out-format=muster-item %i %l %b";

/// How rsync names what it does not copy.
const LEFT_OUT: &[u8] = b"skipping non-regular file \"";

/// The longest line that is looked at.
const MOST_LINE: usize = 16 * 1024;

/// How much of what both sides complain about is kept.
const MOST_COMPLAINTS: usize = 4096;

/// How many of those that are not copied are named.
const MOST_SKIPPED: usize = 10_000;

/// What was heard so far.
#[derive(Debug, Default)]
pub(super) struct Said {
    line: Vec<u8>,
    /// How many files were copied, links included.
    pub(super) files: u64,
    /// How many bytes of files are done.
    pub(super) bytes: u64,
    /// How many bytes there are, as far as that is known.
    all_bytes: u64,
    /// How many files and folders were removed.
    pub(super) removed: u64,
    /// What was not copied.
    pub(super) skipped: Vec<RelPath>,
    /// Everything else.
    pub(super) complaints: Vec<u8>,
}

impl Said {
    /// Hears some more.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    self.understand(&line);
                }
                _ if self.line.len() < MOST_LINE => self.line.push(byte),
                _ => {}
            }
        }
    }

    /// There is no more; a last line need not end.
    pub(super) fn end(&mut self) {
        self.hear(b"\n");
    }

    /// Whether anything has been done that need not be done again.
    pub(super) fn is_progress(&self) -> bool {
        self.files > 0 || self.removed > 0 || self.bytes > 0
    }

    /// Adds what was done to a report.
    pub(super) fn add_to(&mut self, report: &mut Report) {
        report.files += self.files;
        report.removed += self.removed;
        // Every attempt names them again.
        report.skipped = std::mem::take(&mut self.skipped);
    }

    /// Shows how far it is. How many files are left rsync does not know.
    pub(super) fn show(&self, to: Option<&watch::Sender<Progress>>) {
        if let Some(sender) = to {
            sender.send_modify(|it| {
                (it.files, it.files_done) = (self.files, self.files);
                (it.bytes, it.bytes_done) = (self.all_bytes.max(self.bytes), self.bytes);
            });
        }
    }

    fn understand(&mut self, line: &[u8]) {
        if let Some(item) = line.strip_prefix(ITEM) {
            return self.count(item);
        }
        if let Some(rest) = line.strip_prefix(LEFT_OUT) {
            let name = rest.strip_suffix(b"\"").unwrap_or(rest);
            if let Ok(path) = RelPath::new(unescape(name))
                && self.skipped.len() < MOST_SKIPPED
            {
                self.skipped.push(path);
            }
            return;
        }
        if let Some((bytes, percent)) = how_far(line) {
            self.bytes = bytes;
            let all = bytes.saturating_mul(100).checked_div(percent);
            self.all_bytes = all.unwrap_or(self.all_bytes);
            return;
        }
        if line.is_empty() {
            return;
        }
        let room = MOST_COMPLAINTS.saturating_sub(self.complaints.len());
        self.complaints
            .extend(line.iter().chain(b"\n").take(room).copied());
    }

    /// `>f` and `<f` moved a file, `cL` made a link; what is only seen to begins with a dot.
    fn count(&mut self, item: &[u8]) {
        match item {
            [b'*', rest @ ..] if rest.starts_with(b"deleting") => self.removed += 1,
            [b'<' | b'>', b'f', ..] | [b'<' | b'>' | b'c', b'L', ..] => self.files += 1,
            _ => {}
        }
    }
}

/// How many bytes of files have been dealt with, and which part of all that is, of a line such as
/// `   30000004  99%  317.89MB/s    0:00:00 (xfr#3, to-chk=0/7)`.
fn how_far(line: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split_ascii_whitespace();
    let bytes = words.next()?.parse().ok()?;
    let percent = words.next()?.strip_suffix('%')?.parse().ok()?;
    words.next()?.ends_with("B/s").then_some((bytes, percent))
}

/// rsync writes what cannot be printed as `\#` and three octal digits.
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match after {
            [
                b'#',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ] if byte == b'\\' => {
                plain.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                after
            }
            after => {
                plain.push(byte);
                after
            }
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What rsync 3.5 said of a real copy.
    const REAL: &[u8] = b"skipping non-regular file \"pi\\#012pe\"\n\
        \r              2   0%    0.00kB/s    0:00:00  \r              2   0%    0.00kB/s    0:00:00 (xfr#1, to-chk=5/7)\n\
        muster-item >f+++++++++ 2 45\nmuster-item cL+++++++++ 1 0\nmuster-item cd+++++++++ 4096 0\n\
        muster-item .f...p..... 5 0\nmuster-item *deleting   0 0\n\
        \r       30000004  50%  317.89MB/s    0:00:00 (xfr#3, to-chk=0/7)\nmuster-item <f+++++++++ 30000000 30003703\n\
        rsync: [sender] opendir \"/x\" failed: Permission denied (13)\n";

    #[test]
    fn what_rsync_says_is_counted_in_whatever_pieces_it_comes() {
        for length in [1, 7, REAL.len()] {
            let mut said = Said::default();
            assert!(!said.is_progress());
            REAL.chunks(length).for_each(|it| said.hear(it));
            said.end();
            assert!(said.is_progress());
            assert_eq!((said.files, said.removed), (3, 1));
            assert_eq!((said.bytes, said.all_bytes), (30_000_004, 60_000_008));
            assert_eq!(said.skipped, [RelPath::new("pi\npe").unwrap()]);
            let words = b"rsync: [sender] opendir \"/x\" failed: Permission denied (13)\n";
            assert_eq!(said.complaints, words);
        }
    }

    #[test]
    fn whatever_a_machine_says_through_rsync_is_bounded() {
        let mut said = Said::default();
        said.hear(&vec![b'x'; 10_000_000]);
        assert!(said.line.len() <= MOST_LINE);
        for index in 0..2 * MOST_SKIPPED {
            said.hear(format!("\nskipping non-regular file \"{index}\"\nwords {index}").as_bytes());
        }
        said.hear(b"\nskipping non-regular file \"../../etc\"\nmuster-item \nmuster-item *");
        said.hear(b"\n99999999999999999999 5% 1B/s\n18446744073709551615 1% 1kB/s");
        said.end();
        assert_eq!(said.skipped.len(), MOST_SKIPPED);
        assert!(said.complaints.len() <= MOST_COMPLAINTS);
        assert_eq!((said.files, said.removed), (0, 0));
    }
}
