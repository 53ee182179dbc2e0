//! The layers that are not documents: environment variables and flags.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use crate::merge::merge;
use crate::parse::{Limits, MAX_DEPTH, parse_json_value};
use crate::problem::Problem;
use crate::tree::{Entry, Node, Origin, Source, Spelling, Table, Value, printable};

/// The environment as a layer: `<PREFIX>__SECTION__KEY=value`, where every name begins with `start`,
/// the prefix and its underscores.
pub(crate) fn from_environment(
    start: &str,
    variables: &[(OsString, OsString)],
    limits: &Limits,
) -> Result<Node, Vec<Problem>> {
    let named =
        |(name, value): &(OsString, OsString)| (name.to_string_lossy().into_owned(), value.clone());
    let mut variables: Vec<(String, OsString)> = variables.iter().map(named).collect();
    variables.sort();

    let mut layer = Table::default();
    let mut problems = Vec::new();
    for (name, value) in variables {
        let source = Arc::new(Source::Environment(name.clone()));
        let keys: Vec<&str> = name[start.len()..].split("__").collect();
        let added =
            setting(&source, &keys, &value, limits).and_then(|entry| add(&mut layer, entry));
        if let Err(message) = added {
            problems.push(whole(&source, message));
        }
    }
    if problems.is_empty() {
        Ok(root(layer, start))
    } else {
        Err(problems)
    }
}

/// One flag `key.path=value` as a layer. Flags come one by one because a later one wins.
pub(crate) fn from_flag(flag: &str, limits: &Limits) -> Result<Node, Vec<Problem>> {
    let Some((path, value)) = flag.split_once('=') else {
        let source = Arc::new(Source::Flag(flag.to_owned()));
        return Err(vec![whole(&source, "has no `=` (write key.path=value)")]);
    };
    let source = Arc::new(Source::Flag(path.to_owned()));
    let keys: Vec<&str> = path.split('.').collect();
    let entry = setting(&source, &keys, OsStr::new(value), limits)
        .map_err(|message| vec![whole(&source, message)])?;
    let mut layer = Table::default();
    // The table is empty, so the key cannot be taken.
    let _inserted = layer.insert(entry).is_ok();
    Ok(root(layer, path))
}

fn root(layer: Table, name: &str) -> Node {
    let origin = Origin::whole(&Arc::new(Source::Program(printable(name, 64))));
    Node {
        value: Value::Table(layer),
        origin,
    }
}

fn whole(source: &Arc<Source>, message: impl Into<String>) -> Problem {
    Problem {
        origin: Origin::whole(source),
        key: String::new(),
        message: message.into(),
    }
}

/// The entry for `keys`, one table inside the other, with `value` at the end.
fn setting(
    source: &Arc<Source>,
    keys: &[&str],
    value: &OsStr,
    limits: &Limits,
) -> Result<Entry, String> {
    if keys.iter().any(|key| key.is_empty()) {
        return Err("has an empty part in its key path".to_owned());
    }
    if keys.len() > limits.depth.min(MAX_DEPTH) {
        return Err(format!(
            "has a key path of more than {} parts",
            limits.depth.min(MAX_DEPTH)
        ));
    }
    if value.len() > limits.file_bytes {
        return Err(format!(
            "is larger than {} bytes, the most that is read",
            limits.file_bytes
        ));
    }
    let text = value.to_str().ok_or("is not UTF-8 text")?;
    let leaf = |value| Node {
        value,
        origin: Origin::whole(source),
    };
    let mut node = match text.trim_start().as_bytes().first() {
        // An address such as `[::1]:80` is no JSON and stays text.
        Some(b'[' | b'{') => parse_json_value(source, text, limits)
            .unwrap_or_else(|| leaf(Value::Text(text.to_owned()))),
        _ if text == "null" => leaf(Value::Null),
        _ => leaf(Value::Text(text.to_owned())),
    };
    let mut keys = keys.iter().rev().map(|key| (*key).to_owned());
    let mut key = keys.next().ok_or("has no key")?;
    for outer in keys {
        let mut table = Table::default();
        let _inserted = table
            .insert(Entry {
                key,
                spelling: Spelling::Loose,
                key_at: None,
                node,
            })
            .is_ok();
        node = leaf(Value::Table(table));
        key = outer;
    }
    Ok(Entry {
        key,
        spelling: Spelling::Loose,
        key_at: None,
        node,
    })
}

/// Adds one variable's entry to the layer; two variables must not speak of the same key.
fn add(layer: &mut Table, entry: Entry) -> Result<(), String> {
    let Some(existing) = layer.get_mut(&entry.key, entry.spelling) else {
        return layer.insert(entry).map_err(|_| "is given twice".to_owned());
    };
    let other = existing.node.origin.source.to_string();
    match (&mut existing.node.value, entry.node.value) {
        (Value::Table(below), Value::Table(above)) => {
            for inner in above.into_entries() {
                add(below, inner)?;
            }
            Ok(())
        }
        _ => Err(format!("speaks of the same key as {other}")),
    }
}

/// All flags over `lower`, in order.
pub(crate) fn lay_flags(
    mut lower: Node,
    flags: &[String],
    limits: &Limits,
) -> (Node, Vec<Problem>) {
    let mut problems = Vec::new();
    for flag in flags {
        match from_flag(flag, limits) {
            Ok(layer) => lower = merge(lower, layer),
            Err(found) => problems.extend(found),
        }
    }
    (lower, problems)
}
