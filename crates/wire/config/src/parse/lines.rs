//! From a byte offset to a line and a column.

pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    /// The line of `offset`, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// The column of `offset` in characters, from 1.
    pub(super) fn column(&self, offset: usize) -> usize {
        let start = self.starts[self.line(offset) - 1];
        let end = offset.min(self.text.len());
        self.text
            .get(start..end)
            .map_or(1, |before| before.chars().count() + 1)
    }
}
