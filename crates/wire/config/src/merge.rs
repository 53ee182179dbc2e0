//! Laying one tree over another.
//!
//! Tables merge key by key, to any depth; everything else replaces. `null` replaces too, and a key
//! that is `null` at the end counts as never written, so it falls back to its default.
//!
//! Laws, held by property tests: laying an empty table over a tree, or a tree over an empty table,
//! changes nothing, and layering is associative.

use crate::tree::{Node, Table, Value};

/// `upper` over `lower`.
pub(crate) fn merge(lower: Node, upper: Node) -> Node {
    match (lower.value, upper.value) {
        (Value::Table(below), Value::Table(above)) if !above.fresh => {
            // The table is where the lower layer opened it; the upper one only adds to it.
            Node {
                value: Value::Table(merge_tables(below, above)),
                origin: lower.origin,
            }
        }
        (Value::Table(_), above) => Node {
            value: above,
            origin: upper.origin,
        },
        (_, Value::Table(mut above)) => {
            above.fresh = true;
            Node {
                value: Value::Table(above),
                origin: upper.origin,
            }
        }
        (_, above) => Node {
            value: above,
            origin: upper.origin,
        },
    }
}

fn merge_tables(mut below: Table, above: Table) -> Table {
    for entry in above.into_entries() {
        if let Some(existing) = below.get_mut(&entry.key, entry.spelling) {
            let placeholder = Node {
                value: Value::Null,
                origin: existing.node.origin.clone(),
            };
            let lower = std::mem::replace(&mut existing.node, placeholder);
            existing.node = merge(lower, entry.node);
        } else {
            // `get_mut` found no such key, so it cannot clash.
            let _inserted = below.insert(entry).is_ok();
        }
    }
    below
}

#[cfg(test)]
mod tests;
