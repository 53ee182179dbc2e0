use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::tree::{Entry, Origin, Source, Spelling};

/// Values only: what a reader of the tree could tell apart.
#[derive(Debug, Clone, PartialEq)]
enum Plain {
    Null,
    Integer(i128),
    List(Vec<Plain>),
    Table(bool, Vec<(String, Plain)>),
}

fn plain(node: &Node) -> Plain {
    match &node.value {
        Value::Integer(value) => Plain::Integer(*value),
        Value::List(items) => Plain::List(items.iter().map(plain).collect()),
        Value::Table(table) => Plain::Table(
            table.fresh,
            table
                .iter()
                .map(|e| (e.key.to_ascii_lowercase(), plain(&e.node)))
                .collect(),
        ),
        _ => Plain::Null,
    }
}

fn node(value: Value) -> Node {
    Node {
        value,
        origin: Origin::whole(&Arc::new(Source::Program("test".to_owned()))),
    }
}

fn table(entries: Vec<(String, Node)>) -> Node {
    let mut table = Table::default();
    for (key, node) in entries {
        // A key drawn twice keeps its first value.
        let _ = table.insert(Entry {
            key,
            spelling: Spelling::Written,
            key_at: None,
            node,
        });
    }
    node(Value::Table(table))
}

fn any_node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        Just(()).prop_map(|()| node(Value::Null)),
        (0_i128..5).prop_map(|value| node(Value::Integer(value))),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(|items| node(Value::List(items))),
            4 => prop::collection::vec(("[a-cA-C]", inner), 0..4).prop_map(table),
        ]
    })
    .prop_map(|node| node)
}

fn any_layer() -> impl Strategy<Value = Node> {
    prop::collection::vec(("[a-cA-C]", any_node()), 0..4).prop_map(table)
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        plain(self).fmt(f)
    }
}

proptest! {
    #[test]
    fn an_empty_layer_changes_nothing(layer in any_layer()) {
        let empty = || node(Value::Table(Table::default()));
        prop_assert_eq!(plain(&merge(empty(), layer.clone())), plain(&layer));
        prop_assert_eq!(plain(&merge(layer.clone(), empty())), plain(&layer));
    }

    #[test]
    fn a_layer_over_itself_changes_nothing(layer in any_layer()) {
        prop_assert_eq!(plain(&merge(layer.clone(), layer.clone())), plain(&layer));
    }

    #[test]
    fn layering_is_associative(a in any_layer(), b in any_layer(), c in any_layer()) {
        let left = merge(merge(a.clone(), b.clone()), c.clone());
        let right = merge(a, merge(b, c));
        prop_assert_eq!(plain(&left), plain(&right));
    }

    #[test]
    fn what_the_upper_layer_says_is_what_is_read(lower in any_layer(), upper in any_layer()) {
        let merged = merge(lower, upper.clone());
        let Value::Table(upper) = &upper.value else { unreachable!("layers are tables") };
        let Value::Table(merged) = &merged.value else { panic!("layers stay tables") };
        for above in upper.iter().filter(|entry| !matches!(entry.node.value, Value::Table(_))) {
            let found = merged.iter().find(|entry| entry.key.eq_ignore_ascii_case(&above.key));
            prop_assert_eq!(found.map(|entry| plain(&entry.node)), Some(plain(&above.node)));
        }
    }
}
