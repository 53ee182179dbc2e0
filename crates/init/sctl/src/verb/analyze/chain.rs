//! The chain of units that others had to wait for.

use std::collections::BTreeSet;

use super::times::Times;
use crate::render::time::span;

/// Deepest chain that is drawn; an order without cycles is never that deep.
const MAX_DEPTH: usize = 512;

/// A unit in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    indent: String,
    name: String,
    /// When it was up, since the start of user space.
    at: Option<u64>,
    /// How long it took.
    took: u64,
}

impl Line {
    /// The line, with the time that it took as `paint` has it.
    pub(super) fn text(&self, paint: impl Fn(&str) -> String) -> String {
        let mut text = format!("{}{}", self.indent, self.name);
        if let Some(at) = self.at {
            text.push_str(&format!(" @{}", span(at)));
        }
        if self.took > 0 {
            text.push_str(&format!(" {}", paint(&format!("+{}", span(self.took)))));
        }
        text
    }
}

/// The tree below a unit: at each step the unit that was up last before it could start, and those within `fuzz` of that.
///
/// # Errors
/// `after` cannot say what a unit is ordered after.
pub(super) fn lines<E>(
    root: &str,
    times: &Times,
    fuzz: u64,
    after: &mut impl FnMut(&str) -> Result<Vec<String>, E>,
) -> Result<Vec<Line>, E> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([root.to_owned()]);
    found.push(line(String::new(), root, times));
    below(root, "", 0, times, fuzz, after, &mut seen, &mut found)?;
    Ok(found)
}

fn line(indent: String, name: &str, times: &Times) -> Line {
    let unit = times.get(name);
    let up = unit.map_or(0, super::times::UnitTimes::up);
    // What was started after the machine was up has no place in its start.
    let at = (up > 0 && up <= times.finish).then(|| up.saturating_sub(times.userspace));
    Line {
        indent,
        name: name.to_owned(),
        at,
        took: unit.map_or(0, super::times::UnitTimes::took),
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "a recursion with what it reads, what it has seen and what it found"
)]
fn below<E>(
    unit: &str,
    indent: &str,
    depth: usize,
    times: &Times,
    fuzz: u64,
    after: &mut impl FnMut(&str) -> Result<Vec<String>, E>,
    seen: &mut BTreeSet<String>,
    found: &mut Vec<Line>,
) -> Result<(), E> {
    if depth >= MAX_DEPTH {
        return Ok(());
    }
    let began = times.get(unit).map_or(0, |unit| unit.activating);
    let limit = if began > 0 { began } else { u64::MAX };
    let mut before: Vec<(u64, String)> = after(unit)?
        .into_iter()
        .filter_map(|name| {
            let up = times.get(&name)?.up();
            (up > 0 && up <= limit && up <= times.finish.max(1)).then_some((up, name))
        })
        .collect();
    before.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let Some((last, _)) = before.first() else {
        return Ok(());
    };
    let from = last.saturating_sub(fuzz);
    let mut shown: Vec<String> = before
        .into_iter()
        .filter(|(up, _)| *up >= from)
        .map(|(_, name)| name)
        .filter(|name| !seen.contains(name))
        .collect();
    if fuzz == 0 {
        shown.truncate(1);
    }
    let total = shown.len();
    for (n, name) in shown.into_iter().enumerate() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let is_last = n + 1 == total;
        let joint = if is_last {
            "\u{2514}\u{2500}"
        } else {
            "\u{251c}\u{2500}"
        };
        found.push(line(format!("{indent}{joint}"), &name, times));
        let deeper = if is_last { "  " } else { "\u{2502} " };
        let indent = format!("{indent}{deeper}");
        below(&name, &indent, depth + 1, times, fuzz, after, seen, found)?;
    }
    Ok(())
}
