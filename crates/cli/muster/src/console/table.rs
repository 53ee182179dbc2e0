//! Lines in columns.

use super::paint::{Paint, Tone};

/// Columns whose words have a tone.
const STATES: [&str; 3] = ["STATE", "LINK", "CHOSEN"];

/// Lines in columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A list with a header.
    pub(crate) fn list(header: &[&'static str], rows: Vec<Vec<String>>) -> Self {
        Self {
            header: header.to_vec(),
            rows,
        }
    }

    /// What is known about one thing: names and values, those without a value left out.
    pub(crate) fn facts(facts: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let rows = facts.into_iter().filter(|(_, value)| !value.is_empty());
        Self {
            header: Vec::new(),
            rows: rows
                .map(|(name, value)| vec![format!("{name}:"), value])
                .collect(),
        }
    }

    /// Several such things, with empty lines between them.
    pub(crate) fn things(things: impl IntoIterator<Item = Self>) -> Self {
        let mut rows = Vec::new();
        for thing in things {
            if !rows.is_empty() {
                rows.push(Vec::new());
            }
            rows.extend(thing.rows);
        }
        Self {
            header: Vec::new(),
            rows,
        }
    }

    /// What the lines are about: the first column, or the value of the first fact.
    pub(crate) fn names(&self) -> Vec<&str> {
        let facts = self.header.is_empty();
        let rows: &[Vec<String>] = match facts {
            true => &self.rows[..self.rows.len().min(1)],
            false => &self.rows,
        };
        rows.iter()
            .filter_map(|row| row.get(usize::from(facts)).map(String::as_str))
            .collect()
    }

    /// How wide its columns are.
    pub(crate) fn layout(&self) -> Layout {
        let mut layout = Layout {
            header: self.header.clone(),
            widths: Vec::new(),
        };
        layout.widen(self.header.iter().copied());
        for row in &self.rows {
            layout.widen(row.iter().map(String::as_str));
        }
        layout
    }

    /// Columns are as wide as they need to be; the last one is not filled up.
    pub(crate) fn render(&self, paint: Paint) -> String {
        let layout = self.layout();
        let mut text = String::new();
        if !self.header.is_empty() {
            text.push_str(&layout.heading(paint));
        }
        for row in &self.rows {
            text.push_str(&layout.line(row, paint));
        }
        text
    }
}

/// The columns of a table to which lines may be added later.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    header: Vec<&'static str>,
    widths: Vec<usize>,
}

impl Layout {
    fn widen<'a>(&mut self, cells: impl Iterator<Item = &'a str>) {
        for (column, cell) in cells.enumerate() {
            let width = cell.chars().count();
            match self.widths.get_mut(column) {
                Some(known) => *known = width.max(*known),
                None => self.widths.push(width),
            }
        }
    }

    fn heading(&self, paint: Paint) -> String {
        let cells: Vec<String> = self.header.iter().map(|&it| it.to_owned()).collect();
        let line = self.filled(&cells, |_, text| text.to_owned());
        format!("{}\n", paint.bold(&line))
    }

    /// One line. A cell that is wider than its column pushes the others to the right.
    pub(crate) fn line(&self, row: &[String], paint: Paint) -> String {
        let mut line = self.filled(row, |column, text| {
            let is_state = (self.header.get(column)).is_some_and(|name| STATES.contains(name));
            match Tone::of_state(text).filter(|_| is_state) {
                Some(tone) => paint.tone(tone, text),
                None => text.to_owned(),
            }
        });
        line.push('\n');
        line
    }

    fn filled(&self, row: &[String], painted: impl Fn(usize, &str) -> String) -> String {
        let last = row.iter().rposition(|cell| !cell.is_empty());
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
            line.push_str(&painted(column, cell));
            if Some(column) != last {
                let width = self.widths.get(column).copied().unwrap_or(0);
                let blanks = width.saturating_sub(cell.chars().count()) + 2;
                line.extend(std::iter::repeat_n(' ', blanks));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Paint = Paint(false);

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        let row = |row: &&[&str]| row.iter().map(|&cell| cell.to_owned()).collect();
        rows.iter().map(row).collect()
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
        let table = Table::list(
            &["X", "Y", "Z"],
            rows(&[&["a", "long value", ""], &["longer", "b", "c"]]),
        );
        assert_eq!(
            table.render(PLAIN),
            "X       Y           Z\na       long value\nlonger  b           c\n"
        );
        assert_eq!(table.names(), ["a", "longer"]);
    }

    #[test]
    fn colours_change_no_column() {
        let table = Table::list(
            &["NODE", "STATE", "TYPE"],
            rows(&[&["a", "active", "x"], &["b", "unknown", "failed"]]),
        );
        let painted = table.render(Paint(true));
        assert!(painted.starts_with("\x1b[1mNODE"), "{painted:?}");
        assert!(painted.contains("\x1b[32mactive\x1b[0m   x"), "{painted:?}");
        let mut stripped = painted;
        for code in ["\x1b[1m", "\x1b[32m", "\x1b[0m"] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, table.render(PLAIN));
    }

    #[test]
    fn lines_may_come_later() {
        let layout = Table::list(&["NODE", "STATE"], rows(&[&["node-1", "paused"]])).layout();
        let later = |cells: &[&str]| layout.line(&rows(&[cells])[0], PLAIN);
        assert_eq!(later(&["n", "active"]), "n       active\n");
        assert_eq!(later(&["node-1000", "gone"]), "node-1000  gone\n");
    }

    #[test]
    fn facts_without_a_value_are_left_out() {
        let table = Table::facts([
            ("Name", "n1".to_owned()),
            ("Title", String::new()),
            ("State", "paused".to_owned()),
        ]);
        let text = "Name:   n1\nState:  paused\n";
        assert_eq!(table.render(PLAIN), text);
        assert_eq!(table.names(), ["n1"]);
        let both = Table::things([table, Table::facts([("X", "y".to_owned())])]);
        assert_eq!(both.render(PLAIN), format!("{text}\nX:      y\n"));
    }
}
