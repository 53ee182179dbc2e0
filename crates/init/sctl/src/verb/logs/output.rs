//! Entries on their way to the console.

use muster_journal::Entry;

use super::format::{Record, Shape};
use crate::console::{Console, OutputClosed};

/// Prints entries and remembers the last one.
pub(super) struct Sink<'a> {
    shape: Shape,
    console: &'a mut Console,
    quiet: bool,
    /// Cursor and boot of the last entry.
    last: Option<(String, String)>,
    buffer: Vec<u8>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(shape: Shape, quiet: bool, console: &'a mut Console) -> Self {
        Self {
            shape,
            console,
            quiet,
            last: None,
            buffer: Vec::new(),
        }
    }

    /// Prints an entry. One that is damaged is printed as far as it can be read.
    pub(super) fn print(&mut self, entry: &Entry) -> Result<(), OutputClosed> {
        let record = Record::of(entry);
        self.buffer.clear();
        if let Some((_, boot)) = &self.last
            && *boot != record.boot
            && !self.quiet
            && self.shape.tells_boots()
        {
            let line = format!("-- Boot {} --", record.boot);
            let line = self.shape.style.paint("1", &line);
            self.buffer.extend(format!("{line}\n").as_bytes());
        }
        self.shape.print(&record, &mut self.buffer);
        self.last = Some((record.cursor, record.boot));
        self.console.bytes(&self.buffer)
    }

    pub(super) fn flush(&mut self) -> Result<(), OutputClosed> {
        self.console.flush()
    }

    /// The cursor of the last entry that was printed.
    pub(super) fn last_cursor(&self) -> Option<String> {
        self.last.as_ref().map(|(cursor, _)| cursor.clone())
    }
}
