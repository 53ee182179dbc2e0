//! From a byte offset to a line and a column.

use std::cell::Cell;

use super::Mark;

pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// The last offset that was asked for, and its mark: from there it is not far to the next one, however long the line is.
    last: Cell<(usize, Mark)>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(after_breaks).collect(),
            last: Cell::new((0, Mark { line: 1, column: 1 })),
        }
    }

    /// The line of `offset`, and its column in characters.
    pub(super) fn mark(&self, offset: usize) -> Mark {
        let line = self.starts.partition_point(|start| *start <= offset);
        let (last, known) = self.last.get();
        let (start, column) = match known.line == line && last <= offset {
            true => (last, known.column),
            false => (self.starts[line - 1], 1),
        };
        let end = offset.min(self.text.len());
        let between = self.text.get(start..end);
        let column = column + between.map_or(0, |between| between.chars().count());
        let mark = Mark { line, column };
        self.last.set((offset, mark));
        mark
    }
}
