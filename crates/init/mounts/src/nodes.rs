//! What holds at each path that something is said about, without what its parent says anyway.

use std::collections::BTreeSet;

use crate::entries::Rule;
use crate::machine::Machine;
use crate::path::upwards;
use crate::settle::{Ruled, Settled};
use crate::sight::Provided;

/// A path where something has to be done.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) path: &'a str,
    pub(crate) directive: &'static str,
    pub(crate) optional: bool,
    pub(crate) what: NodeKind<'a>,
    pub(crate) effect: Effect,
    /// Whether executing is allowed or forbidden at this very path.
    pub(crate) states_exec: bool,
    /// The nearest node above it.
    pub(crate) parent: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeKind<'a> {
    Hidden,
    Provided(&'a Provided),
    /// Only rights change; `mount`: something is mounted right there already.
    Ruled {
        mount: bool,
    },
}

/// What may be done at a path, and below it as far as nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) read_only: bool,
    /// `None` as long as nothing is said.
    pub(crate) exec: Option<bool>,
}

/// All nodes, parents before what is below them.
pub(crate) fn needed<'a, M: Machine>(settled: &'a Settled<'_, M>) -> Vec<Node<'a>> {
    let paths: BTreeSet<&str> = settled
        .providers
        .keys()
        .chain(settled.rules.keys())
        .map(String::as_str)
        .collect();
    let mut nodes: Vec<Node<'a>> = Vec::with_capacity(paths.len());
    for path in paths {
        let parent = nearest_above(&nodes, path);
        if parent.is_some_and(|parent| matches!(nodes[parent].what, NodeKind::Hidden)) {
            continue;
        }
        let above = parent.map_or_else(Effect::default, |parent| nodes[parent].effect);
        let provided = settled.providers.get(path);
        let rules = settled.rules.get(path).map_or(&[][..], Vec::as_slice);
        nodes.extend(node(path, provided, rules, above, parent));
    }
    nodes
}

fn nearest_above(nodes: &[Node<'_>], path: &str) -> Option<usize> {
    upwards(path)
        .skip(1)
        .find_map(|folder| nodes.binary_search_by(|node| node.path.cmp(folder)).ok())
}

/// What is to be done at a path, if its parent does not do it already.
fn node<'a>(
    path: &'a str,
    provided: Option<&'a Provided>,
    rules: &[Ruled],
    above: Effect,
    parent: Option<usize>,
) -> Option<Node<'a>> {
    // Rules are sorted, the strictest first.
    let has = |rule: Rule| rules.iter().any(|ruled| ruled.rule == rule);
    let first = rules.first();
    let optional = rules.iter().all(|ruled| ruled.optional);
    let ruled_directive = first.map(|ruled| ruled.directive);
    if has(Rule::Hide) {
        return Some(Node {
            path,
            directive: ruled_directive?,
            optional,
            what: NodeKind::Hidden,
            effect: Effect::default(),
            states_exec: false,
            parent,
        });
    }
    let exec = if has(Rule::NoExec) {
        Some(false)
    } else if has(Rule::Exec) {
        Some(true)
    } else {
        None
    };
    let read_only_by_rule = if has(Rule::ReadOnly) {
        Some(true)
    } else if has(Rule::ReadWrite) {
        Some(false)
    } else {
        None
    };
    if let Some(provided) = provided {
        return Some(Node {
            path,
            directive: provided.directive,
            optional: provided.optional,
            what: NodeKind::Provided(provided),
            effect: Effect {
                read_only: provided.provider.read_only || read_only_by_rule == Some(true),
                exec: exec.or(above.exec),
            },
            states_exec: exec.is_some(),
            parent,
        });
    }
    let effect = Effect {
        read_only: read_only_by_rule.unwrap_or(above.read_only),
        exec: exec.or(above.exec),
    };
    (effect != above).then_some(Node {
        path,
        directive: ruled_directive?,
        optional,
        what: NodeKind::Ruled {
            mount: first?.mount,
        },
        effect,
        states_exec: exec.is_some(),
        parent,
    })
}
