//! Documents as values with their places, for those who say themselves what the values mean.

use std::path::Path;
use std::sync::Arc;

use crate::parse::{Format, Limits, parse_documents};
use crate::problem::Problem;
use crate::tree::{Node, Origin, Source, Value};

/// A value and where it stands. It may hold secrets: whoever prints it decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Located {
    /// The value.
    pub content: Content,
    /// Where it begins.
    pub origin: Origin,
}

/// What a document can hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// `null`, or nothing where YAML wants a value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without a fraction.
    Integer(i128),
    /// Any other number; YAML has infinite ones, and some that are none.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    List(Vec<Located>),
    /// Keys, each at most once, in their own order and not the document's, with their values.
    Table(Vec<(Key, Located)>),
}

/// A key of a table and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The key as it is written.
    pub text: String,
    /// Where it begins.
    pub origin: Origin,
}

/// Reads the documents of a text that is called `name` in messages. Only YAML can hold more than one; an empty text holds none.
///
/// # Errors
/// The first place where the text is not of its format, has a key twice in a table, or goes over a limit.
pub fn read_documents(
    name: &Path,
    format: Format,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Vec<Located>, Problem> {
    let source = Arc::new(Source::File(name.to_owned()));
    let nodes = parse_documents(&source, format, bytes, limits)?;
    Ok(nodes.into_iter().map(locate).collect())
}

/// The depth of a node is limited when it is parsed.
fn locate(node: Node) -> Located {
    let content = match node.value {
        Value::Null => Content::Null,
        Value::Bool(value) => Content::Bool(value),
        Value::Integer(value) => Content::Integer(value),
        Value::Float(value) => Content::Float(value),
        Value::String(text) | Value::Text(text) => Content::String(text),
        Value::List(items) => Content::List(items.into_iter().map(locate).collect()),
        Value::Table(table) => {
            let entries = table.into_entries().map(|entry| {
                let origin = entry.key_at.unwrap_or_else(|| entry.node.origin.clone());
                let key = Key {
                    text: entry.key,
                    origin,
                };
                (key, locate(entry.node))
            });
            Content::Table(entries.collect())
        }
    };
    Located {
        content,
        origin: node.origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: Format, text: &str) -> Result<Vec<Located>, String> {
        let limits = Limits {
            nodes: 100,
            ..Limits::default()
        };
        read_documents(Path::new("d"), format, text.as_bytes(), &limits)
            .map_err(|problem| problem.to_string())
    }

    /// Every key and every value with its place, in the order of the tree.
    fn places(located: &Located, out: &mut Vec<String>) {
        match &located.content {
            Content::List(items) => items.iter().for_each(|item| places(item, out)),
            Content::Table(entries) => {
                for (key, value) in entries {
                    out.push(format!("{} {}", key.text, key.origin));
                    places(value, out);
                }
            }
            other => out.push(format!("{other:?} {}", located.origin)),
        }
    }

    #[test]
    fn every_key_and_every_value_knows_its_line_and_column() {
        let documents = [
            (Format::Json, "{\"é\": [1, {\"A\": null}],\n  \"a\": 2}"),
            (Format::Toml, "\"é\" =  [1, {A = \"x\"}]\na  = 2"),
            (Format::Yaml, "é: [ 1, {A: }]\na:   2"),
        ];
        let expected = [
            [
                "a d:2:3",
                "Integer(2) d:2:8",
                "é d:1:2",
                "Integer(1) d:1:8",
                "A d:1:12",
                "Null d:1:17",
            ],
            [
                "a d:2:1",
                "Integer(2) d:2:6",
                "é d:1:1",
                "Integer(1) d:1:9",
                "A d:1:13",
                "String(\"x\") d:1:17",
            ],
            [
                "a d:2:1",
                "Integer(2) d:2:6",
                "é d:1:1",
                "Integer(1) d:1:6",
                "A d:1:10",
                "Null d:1:11",
            ],
        ];
        for ((format, text), expected) in documents.into_iter().zip(expected) {
            let found = read(format, text).expect("it is of its format");
            let mut out = Vec::new();
            found.iter().for_each(|located| places(located, &mut out));
            assert_eq!(out, expected, "{format:?}");
        }
    }

    #[test]
    fn yaml_holds_any_number_of_documents_and_anchors_stay_in_theirs() {
        assert_eq!(read(Format::Yaml, "\n \n"), Ok(Vec::new()));
        let found = read(Format::Yaml, "a: &x 1\n---\n- 2\n---\n").expect("three documents");
        assert_eq!(found.len(), 3);
        assert_eq!(found[2].content, Content::Null);
        assert!(read(Format::Yaml, "a: &x 1\n---\nb: *x\n").is_err());
    }

    #[test]
    fn keys_are_what_they_are_and_stand_only_once_in_a_table() {
        assert!(read(Format::Yaml, "a: 1\nA: 2").is_ok());
        assert_eq!(
            read(Format::Yaml, "x:\n  a: 1\n  a: 2"),
            Err("d:3:3: x.a: is given twice in this table".to_owned())
        );
    }

    #[test]
    fn what_is_not_of_its_format_is_refused_with_its_place() {
        assert_eq!(
            read(Format::Json, "{\"a\": tru}"),
            Err("d:1:7: expected a value, found `t`".to_owned())
        );
        let problem = read_documents(
            Path::new("d"),
            Format::Yaml,
            b"a: 1\n\xff",
            &Limits::default(),
        );
        assert_eq!(
            problem.map_err(|problem| problem.to_string()),
            Err("d:2:1: is not UTF-8 text".to_owned())
        );
        let many = "---\n".repeat(101);
        assert_eq!(
            read(Format::Yaml, &many).map_err(|text| text.contains("more than 100 values")),
            Err(true)
        );
    }
}
