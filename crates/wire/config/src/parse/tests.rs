use proptest::prelude::*;

use super::*;

fn parse_json(text: &str) -> Result<Node, Vec<Problem>> {
    let source = Arc::new(Source::Program("test".to_owned()));
    parse(&source, Format::Json, text.as_bytes(), &Limits::default())
}

/// The tree as serde_json would hold it.
fn to_json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
            (Ok(value), _) => value.into(),
            (_, Ok(value)) => value.into(),
            #[expect(
                clippy::cast_precision_loss,
                reason = "serde_json reads such numbers as floats"
            )]
            _ => (*value as f64).into(),
        },
        Value::Float(value) => (*value).into(),
        Value::String(text) | Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Table(table) => {
            let entries = table
                .iter()
                .map(|entry| (entry.key.clone(), to_json(&entry.node)));
            serde_json::Value::Object(entries.collect())
        }
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        (-1e300_f64..1e300).prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    let value = leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-z\"\\\\é]{0,4}", inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-z]{1,3}", value, 0..4)
        .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()))
}

proptest! {
    #[test]
    fn json_is_read_as_serde_json_writes_it(value in any_json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let node = parse_json(&text.unwrap()).unwrap();
        prop_assert_eq!(to_json(&node), value);
    }

    #[test]
    fn json_is_accepted_exactly_where_serde_json_accepts_it(
        text in "\\{\"a\": ?([\\[\\]{},:\"0-9eE+.\\-\\\\ua-f \t\n]|true|null|\\\\u[d-e][8-f][0-9]{2}){0,12}\\}"
    ) {
        let ours = parse_json(&text);
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        let duplicate = ours.as_ref().err().is_some_and(|p| p[0].message.contains("given twice"));
        prop_assert!(duplicate || ours.is_ok() == theirs.is_ok(), "{:?} {:?}", ours.err(), theirs);
    }
}

#[test]
fn json_numbers_keep_their_kind() {
    let node = parse_json(r#"{"a": 18446744073709551616, "b": 1.0, "c": -0, "d": 1E2}"#).unwrap();
    let Value::Table(table) = &node.value else {
        panic!("a table")
    };
    let kinds: Vec<_> = table.iter().map(|entry| &entry.node.value).collect();
    assert!(matches!(
        kinds[..],
        [
            Value::Integer(18_446_744_073_709_551_616),
            Value::Float(_),
            Value::Integer(0),
            Value::Float(_)
        ]
    ));
}

#[test]
fn every_value_knows_its_line() {
    let source = Arc::new(Source::Program("test".to_owned()));
    let documents = [
        (Format::Json, "{\n\"a\": 1,\n\"b\": {\n\"c\": [\n2]}}"),
        (Format::Toml, "\na = 1\n[b]\nc = [\n2]\n"),
        (Format::Yaml, "---\na: 1\nb:\n  c:\n  - 2\n"),
    ];
    for (format, text) in documents {
        let node = parse(&source, format, text.as_bytes(), &Limits::default()).unwrap();
        let Value::Table(top) = &node.value else {
            panic!("a table")
        };
        let lines: Vec<_> = top.iter().map(|entry| entry.node.origin.line).collect();
        assert_eq!(lines, [Some(2), Some(3)], "{format:?}");
        let Some(Value::Table(inner)) = top.iter().nth(1).map(|entry| &entry.node.value) else {
            panic!("b is a table")
        };
        let Some(c) = inner.iter().next() else {
            panic!("c is there")
        };
        let Value::List(items) = &c.node.value else {
            panic!("c is a list")
        };
        assert_eq!(
            (c.node.origin.line, items[0].origin.line),
            (Some(4), Some(5)),
            "{format:?}"
        );
    }
}
