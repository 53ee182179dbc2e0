//! Columns.

use super::style::{Style, cut};

/// One place of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    colour: &'static str,
}

impl Cell {
    /// A text; what is empty is shown as a dash.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let text = if text.is_empty() {
            "-".to_owned()
        } else {
            text
        };
        Self { text, colour: "" }
    }

    /// A text as it is, also an empty one.
    pub(crate) fn raw(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            colour: "",
        }
    }

    /// In a colour.
    pub(crate) fn coloured(self, colour: &'static str) -> Self {
        Self { colour, ..self }
    }
}

/// Rows under a head line. The last column is not filled up, and cut where the terminal is too narrow.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self {
            head: head.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; it has as many cells as the head.
    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.head.len());
        self.rows.push(row);
    }

    /// The table as text.
    pub(crate) fn render(&self, style: Style, with_head: bool) -> String {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| {
                let head = if with_head {
                    self.head[column].chars().count()
                } else {
                    0
                };
                let cells = self.rows.iter().map(|row| row[column].text.chars().count());
                cells.max().unwrap_or(0).max(head)
            })
            .collect();
        let before_last: usize = widths.iter().rev().skip(1).map(|width| width + 1).sum();
        let room = style
            .width
            .map(|width| width.saturating_sub(before_last).max(10));
        let mut text = String::new();
        if with_head {
            let cells: Vec<Cell> = self.head.iter().map(|word| Cell::raw(*word)).collect();
            let line = line(&cells, &widths, style, None);
            text.push_str(&style.paint("4", line.trim_end()));
            text.push('\n');
        }
        for row in &self.rows {
            text.push_str(line(row, &widths, style, room).trim_end());
            text.push('\n');
        }
        text
    }
}

fn line(row: &[Cell], widths: &[usize], style: Style, room: Option<usize>) -> String {
    let mut text = String::new();
    for (n, (cell, width)) in row.iter().zip(widths).enumerate() {
        let is_last = n + 1 == row.len();
        let shown = match room {
            Some(room) if is_last => cut(&cell.text, room),
            _ => cell.text.clone(),
        };
        let fill = width.saturating_sub(shown.chars().count());
        text.push_str(&style.paint(cell.colour, &shown));
        if !is_last {
            text.extend(std::iter::repeat_n(' ', fill + 1));
        }
    }
    text
}
