//! `/proc/swaps`.

use std::collections::BTreeMap;

use super::line::unescape;

/// A swap that was turned on or off, or whose priority changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapChange {
    /// The device or file.
    pub what: Box<str>,
    /// Its priority now; `None` if it is off.
    pub priority: Option<i32>,
}

/// All swaps and their priorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwapTable {
    swaps: BTreeMap<Box<str>, i32>,
    skipped: usize,
}

impl SwapTable {
    /// Takes the kernel's text in and says what changed.
    pub fn update(&mut self, text: &[u8]) -> Vec<SwapChange> {
        let mut swaps = BTreeMap::new();
        self.skipped = 0;
        // The first line names the columns.
        let lines = text.split(|byte| *byte == b'\n').skip(1);
        for line in lines.filter(|line| !line.is_empty()) {
            match parse(line) {
                Some((what, priority)) => drop(swaps.insert(what, priority)),
                None => self.skipped += 1,
            }
        }
        let gone = self.swaps.keys().filter(|what| !swaps.contains_key(*what));
        let gone = gone.map(|what| (what, None));
        let new = swaps
            .iter()
            .filter(|(what, priority)| self.swaps.get(*what) != Some(*priority))
            .map(|(what, priority)| (what, Some(*priority)));
        let changes = gone.chain(new).map(|(what, priority)| SwapChange {
            what: what.clone(),
            priority,
        });
        let changes = changes.collect();
        self.swaps = swaps;
        changes
    }

    /// Whether this device or file is in use, and with which priority.
    #[must_use]
    pub fn priority(&self, what: &str) -> Option<i32> {
        self.swaps.get(what).copied()
    }

    /// All swaps and their priorities.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.swaps
            .iter()
            .map(|(what, priority)| (&**what, *priority))
    }

    /// Lines of the last text that could not be read.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }
}

/// `Filename Type Size Used Priority`, with any white space between.
fn parse(line: &[u8]) -> Option<(Box<str>, i32)> {
    let mut fields = line
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty());
    let what = unescape(fields.next()?, "file").ok()?;
    let priority = fields.nth(3)?;
    let priority = std::str::from_utf8(priority).ok()?.parse().ok()?;
    // A swap file that was deleted is still used; its name is told with a remark.
    let what = what.strip_suffix(" (deleted)").unwrap_or(&what);
    Some((what.into(), priority))
}
