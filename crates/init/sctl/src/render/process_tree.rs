//! Groups of processes as a tree.

use std::collections::BTreeMap;

use super::style::{Style, cut};

/// A group with its processes and the groups below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    processes: Vec<(u32, String)>,
    groups: BTreeMap<String, Branch>,
}

impl Branch {
    /// Adds a process to the group at `path`, which is made with those above it.
    pub(crate) fn add(&mut self, path: &str, pid: u32, command: &str) {
        let at = self.at(path);
        at.processes.push((pid, command.to_owned()));
    }

    /// The group at `path`, which is made if it is not there.
    pub(crate) fn at(&mut self, path: &str) -> &mut Self {
        let mut at = self;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = at.groups.entry(name.to_owned()).or_default();
        }
        at
    }

    fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.groups.values().all(Self::is_empty)
    }
}

/// One line per process and group, each after `indent`.
pub(crate) fn tree(root: &Branch, indent: &str, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    draw(root, indent, style, &mut lines);
    lines
}

fn draw(branch: &Branch, indent: &str, style: Style, lines: &mut Vec<String>) {
    let mut processes: Vec<&(u32, String)> = branch.processes.iter().collect();
    processes.sort_unstable();
    let groups: Vec<_> = branch
        .groups
        .iter()
        .filter(|(_, group)| !group.is_empty())
        .collect();
    let pid_width = processes
        .iter()
        .map(|(pid, _)| pid.to_string().len())
        .max()
        .unwrap_or(0);
    let total = processes.len() + groups.len();
    for (n, (pid, command)) in processes.into_iter().enumerate() {
        let joint = joint(n + 1 == total);
        let text = format!("{indent}{joint}{pid:>pid_width$} {command}");
        let text = match style.width {
            Some(width) => cut(&text, width),
            None => text,
        };
        let own = text
            .chars()
            .skip(indent.chars().count())
            .collect::<String>();
        lines.push(format!("{indent}{}", style.paint("38;5;245", &own)));
    }
    let before = total - groups.len();
    for (n, (name, group)) in groups.into_iter().enumerate() {
        let is_last = before + n + 1 == total;
        lines.push(format!("{indent}{}{name}", joint(is_last)));
        let deeper = if is_last { "  " } else { "\u{2502} " };
        draw(group, &format!("{indent}{deeper}"), style, lines);
    }
}

fn joint(is_last: bool) -> &'static str {
    if is_last {
        "\u{2514}\u{2500}"
    } else {
        "\u{251c}\u{2500}"
    }
}
