//! Templates of all kinds.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use crate::template::Template;
use crate::value::{Finite, Value};

fn any_value() -> impl Strategy<Value = Value> {
    let finite = any::<f64>().prop_filter_map("finite", |it| Finite::new(it).map(Value::Float));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Integer),
        finite,
        "\\PC{0,8}".prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::List),
            btree_map("\\PC{0,5}", inner, 0..4).prop_map(Value::Map),
        ]
    })
}

fn text(pattern: &'static str) -> BoxedStrategy<Value> {
    pattern.prop_map(Value::String).boxed()
}

/// A common field by any of its names, with a value that it can have.
fn common() -> impl Strategy<Value = (String, Value)> {
    let amount = || (1_i64..4096).prop_map(Value::Integer).boxed();
    let key = text("ssh-ed25519 AAAA[A-Za-z0-9+/]{4,20}( me)?");
    let of = |name: &'static str, value: BoxedStrategy<Value>| {
        let value = prop_oneof![9 => value, 1 => Just(Value::Null)];
        value
            .prop_map(move |value| (name.to_owned(), value))
            .boxed()
    };
    proptest::strategy::Union::new([
        of("image", text("[a-z/:.@-]{1,20}")),
        of("user", text("[a-z_][a-z0-9_-]{0,8}")),
        of("cpus", amount()),
        of("memoryMB", amount()),
        of("diskGB", amount()),
        of("arch", text("amd64|x86_64|arm64|aarch64|arm|riscv64")),
        of("region", text("[a-z]{2}-[a-z]{4}-[0-9]")),
        of("sshKeys", vec(key, 0..3).prop_map(Value::List).boxed()),
        of("userData", text("[ -~\n]{0,30}")),
    ])
}

/// A field that only some provider knows; its name is nothing like a known one.
fn other() -> impl Strategy<Value = (String, Value)> {
    ("x_[a-z0-9_-]{6,12}", any_value())
}

fn labels() -> impl Strategy<Value = (String, Value)> {
    let value = option::weighted(0.8, "[ -~]{0,10}");
    let value = value.prop_map(|it| it.map_or(Value::Null, Value::String));
    btree_map("[a-z0-9]{1,6}([./_-][a-z0-9]{1,6})?", value, 1..4)
        .prop_map(|labels| ("labels".to_owned(), Value::Map(labels)))
}

fn overridden() -> impl Strategy<Value = Value> {
    let field = prop_oneof![common(), other(), labels()];
    vec(field, 0..5).prop_map(|fields| Value::Map(fields.into_iter().collect()))
}

pub(super) fn template() -> impl Strategy<Value = Template> {
    (
        "[a-z0-9][a-z0-9._-]{0,20}",
        option::of("[a-z0-9]{1,10}"),
        vec(common(), 0..9),
        option::of(labels()),
        btree_map("x_[a-z0-9_-]{6,12}", any_value(), 0..3),
        btree_map("all|aws|docker|libvirt|local|sim", overridden(), 0..4),
    )
        .prop_map(|(name, extends, fields, labels, extra, overrides)| {
            let mut top: BTreeMap<String, Value> = fields.into_iter().chain(labels).collect();
            top.insert("name".to_owned(), Value::String(name));
            if let Some(parent) = extends {
                top.insert("extends".to_owned(), Value::String(parent));
            }
            top.insert("extra".to_owned(), Value::Map(extra));
            top.insert("overrides".to_owned(), Value::Map(overrides));
            Template::from_value(Value::Map(top)).expect("every part is valid")
        })
}
