//! Values as YAML in block style, which people read. Reading YAML is `muster-config`'s.

use std::fmt::Write;

use serde_json::Value;

/// A value as one document. Its depth is that of a value that was read within limits, or made by a program.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => table(&mut text, value, 0, false),
        Value::Array(list) if !list.is_empty() => entries(&mut text, list, 0),
        other => {
            scalar(&mut text, other);
            text.push('\n');
        }
    }
    text
}

/// The entries of a table; the first one goes on in the line of the list's dash where `in_line`.
fn table(text: &mut String, value: &Value, indent: usize, in_line: bool) {
    let Value::Object(map) = value else { return };
    for (nth, (key, value)) in map.iter().enumerate() {
        if nth > 0 || !in_line {
            pad(text, indent);
        }
        name(text, key);
        text.push(':');
        below(text, value, indent);
    }
}

/// What stands after a key.
fn below(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            table(text, value, indent + 2, false);
        }
        Value::Array(list) if !list.is_empty() => {
            text.push('\n');
            entries(text, list, indent);
        }
        other => {
            text.push(' ');
            scalar(text, other);
            text.push('\n');
        }
    }
}

fn entries(text: &mut String, list: &[Value], indent: usize) {
    for entry in list {
        pad(text, indent);
        text.push('-');
        element(text, entry, indent);
    }
}

/// What stands after a dash.
fn element(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push(' ');
            table(text, value, indent + 2, true);
        }
        Value::Array(list) if !list.is_empty() => below(text, value, indent + 2),
        other => below(text, other, indent),
    }
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// Plain where no reader could take it for anything else, else in JSON's quotes, which YAML has too.
fn name(text: &mut String, word: &str) {
    let first = word.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let is_reserved = reserved.iter().any(|it| it.eq_ignore_ascii_case(word));
    if first && word.chars().all(plain) && !is_reserved {
        text.push_str(word);
    } else {
        scalar_json(text, &Value::from(word));
    }
}

fn scalar(text: &mut String, value: &Value) {
    match value {
        Value::String(word) => name(text, word),
        // Empty lists and tables read the same in JSON and YAML.
        other => scalar_json(text, other),
    }
}

fn scalar_json(text: &mut String, value: &Value) {
    // Writing into a text does not fail.
    let _ = write!(text, "{value}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_tables_are_written_in_block_style_also_at_the_top() {
        let value = json!([{"name": "web", "labels": ["a", "yes"]}, [1, [2]], null, []]);
        let text =
            "- labels:\n  - a\n  - \"yes\"\n  name: web\n-\n  - 1\n  -\n    - 2\n- null\n- []\n";
        assert_eq!(to_yaml(&value), text);
    }
}
