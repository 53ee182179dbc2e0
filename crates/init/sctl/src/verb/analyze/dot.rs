//! Dependencies for Graphviz.

use std::collections::BTreeSet;

use muster_unit_file::install::glob;

use crate::cli::Dot;

/// An edge of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) colour: &'static str,
}

/// Properties that are drawn, with their colours, as `systemd-analyze dot` has them.
const REQUIREMENTS: &[(&str, &str)] = &[
    ("Requires", "black"),
    ("Requisite", "darkblue"),
    ("BindsTo", "gold"),
    ("Wants", "grey66"),
    ("Conflicts", "red"),
];
const ORDER: &[(&str, &str)] = &[("After", "green")];
const BOTH: &[(&str, &str)] = &[
    ("After", "green"),
    ("Requires", "black"),
    ("Requisite", "darkblue"),
    ("BindsTo", "gold"),
    ("Wants", "grey66"),
    ("Conflicts", "red"),
];

/// What is drawn.
pub(super) fn kinds(arguments: &Dot) -> &'static [(&'static str, &'static str)] {
    match (arguments.order, arguments.require) {
        (true, _) => ORDER,
        (_, true) => REQUIREMENTS,
        _ => BOTH,
    }
}

/// The graph, with those edges that fit the patterns.
pub(super) fn graph(edges: &[Edge], arguments: &Dot) -> String {
    let fits = |patterns: &[String], name: &str| patterns.iter().any(|pattern| glob(pattern, name));
    let fits_or_all = |patterns: &[String], name: &str| patterns.is_empty() || fits(patterns, name);
    let mut lines = BTreeSet::new();
    for edge in edges {
        let ends = arguments.patterns.is_empty()
            || fits(&arguments.patterns, &edge.from)
            || fits(&arguments.patterns, &edge.to);
        if ends
            && fits_or_all(&arguments.from_pattern, &edge.from)
            && fits_or_all(&arguments.to_pattern, &edge.to)
        {
            lines.insert(format!(
                "\t{}->{} [color=\"{}\"];\n",
                quoted(&edge.from),
                quoted(&edge.to),
                edge.colour
            ));
        }
    }
    let body: String = lines.into_iter().collect();
    format!("digraph units {{\n{body}}}\n")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}
