//! YAML 1.2 (core schema), built from parser events.
//!
//! The events come one by one and open tables and lists wait on a stack of our own, so depth costs no
//! machine stack. Anchors keep a copy of what they name; every copy and every use counts against the
//! limits, so that an alias bomb is refused before it is expanded.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use super::{Builder, Fault, Mark, Reading};
use crate::tree::{Node, Table, Value, join, printable};

/// The documents of a stream, in order; one without any is as one that is empty.
pub(super) fn parse_yaml(builder: &Builder<'_>, text: &str) -> Result<Vec<Node>, Fault> {
    let mut assembly = Assembly {
        builder,
        open: Vec::new(),
        anchors: HashMap::new(),
        copied: Size::default(),
        nodes: 0,
        roots: Vec::new(),
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let message = printable(error.info().as_str(), 200);
            Fault::stopped(Mark::of(error.marker()), message)
        })?;
        assembly.take(event, span)?;
    }
    Ok(assembly.roots)
}

impl Mark {
    fn of(marker: &Marker) -> Self {
        Self {
            line: marker.line(),
            column: marker.col() + 1,
        }
    }
}

/// What a value costs: itself, all inside it, and the bytes of its text.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl Size {
    fn add(&mut self, inner: Self) {
        self.nodes += inner.nodes;
        self.bytes += inner.bytes;
        self.height = self.height.max(inner.height + 1);
    }
}

enum Content {
    List(Vec<Node>),
    Table {
        table: Table,
        key: Option<(String, Mark)>,
    },
}

/// A list or table whose end has not been seen.
struct Open {
    content: Content,
    mark: Mark,
    anchor: usize,
    size: Size,
}

struct Assembly<'a> {
    builder: &'a Builder<'a>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, Size)>,
    /// Copies that anchors keep and that aliases made.
    copied: Size,
    nodes: usize,
    roots: Vec<Node>,
}

impl Assembly<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let mark = Mark::of(&span.start);
        match event {
            Event::DocumentStart(..) => {
                if self.builder.reading == Reading::Layer && !self.roots.is_empty() {
                    return Err(Fault::at(mark, "a second document: a file holds only one"));
                }
                // An anchor names something of its own document; the limits are those of all together.
                self.anchors.clear();
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), mark)
            }
            Event::SequenceStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), "seq", mark)?;
                self.begin(Content::List(Vec::new()), anchor, mark)
            }
            Event::MappingStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), "map", mark)?;
                self.begin(
                    Content::Table {
                        table: Table::default(),
                        key: None,
                    },
                    anchor,
                    mark,
                )
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, mark),
            _ => Ok(()),
        }
    }

    fn path(&self) -> String {
        let keys = self.open.iter().filter_map(|open| match &open.content {
            Content::Table {
                key: Some((key, _)),
                ..
            } => Some(key),
            _ => None,
        });
        keys.fold(String::new(), |path, key| join(&path, key))
    }

    /// Whether the next value is the key of an open table.
    fn at_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(Open {
                content: Content::Table { key: None, .. },
                ..
            })
        )
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        mark: Mark,
    ) -> Result<(), Fault> {
        if self.at_key() {
            if text == "<<" && style == ScalarStyle::Plain {
                return Err(Fault {
                    key: self.path(),
                    ..Fault::at(
                        mark,
                        "merge keys (`<<`) are not supported; use a drop-in file",
                    )
                });
            }
            if anchor != 0 {
                let size = Size {
                    nodes: 1,
                    bytes: text.len(),
                    height: 0,
                };
                let key = self.builder.node(mark, Value::String(text.to_owned()));
                self.remember(anchor, &key, size, mark)?;
            }
            self.key(text.to_owned(), mark);
            return Ok(());
        }
        let text_only = match tag.map(Tag::core_suffix) {
            None => style != ScalarStyle::Plain,
            Some(Some("str")) => true,
            Some(Some("null" | "bool" | "int" | "float")) => false,
            Some(_) => return Err(unknown_tag(mark)),
        };
        let value = if text_only {
            Value::String(text.to_owned())
        } else {
            resolve(text)
        };
        let size = Size {
            nodes: 1,
            bytes: text.len(),
            height: 0,
        };
        let node = self.builder.node(mark, value);
        self.builder
            .count(&mut self.nodes, self.open.len() + 1, mark)?;
        self.remember(anchor, &node, size, mark)?;
        self.place(node, size)
    }

    fn key(&mut self, text: String, mark: Mark) {
        if let Some(Open {
            content: Content::Table { key, .. },
            ..
        }) = self.open.last_mut()
        {
            *key = Some((text, mark));
        }
    }

    fn begin(&mut self, content: Content, anchor: usize, mark: Mark) -> Result<(), Fault> {
        if self.at_key() {
            return Err(Fault {
                key: self.path(),
                ..Fault::at(mark, "a key must be text, not a list or a table")
            });
        }
        self.builder
            .count(&mut self.nodes, self.open.len() + 1, mark)?;
        let size = Size {
            nodes: 1,
            bytes: 0,
            height: 0,
        };
        self.open.push(Open {
            content,
            mark,
            anchor,
            size,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(Open {
            content,
            mark,
            anchor,
            size,
        }) = self.open.pop()
        else {
            return Ok(());
        };
        let value = match content {
            Content::List(items) => Value::List(items),
            Content::Table { table, .. } => Value::Table(table),
        };
        let node = self.builder.node(mark, value);
        self.remember(anchor, &node, size, mark)?;
        self.place(node, size)
    }

    fn alias(&mut self, anchor: usize, mark: Mark) -> Result<(), Fault> {
        let Some(size) = self.anchors.get(&anchor).map(|(_, size)| *size) else {
            return Err(Fault {
                key: self.path(),
                ..Fault::at(mark, "the alias stands inside what it refers to")
            });
        };
        // What the copy costs is known, and refused, before it is made.
        if !self.at_key() {
            let depth = self.open.len() + 1 + size.height;
            self.builder.count(&mut self.copied.nodes, depth, mark)?;
        }
        self.copied.nodes += size.nodes - 1;
        self.copied.bytes += size.bytes;
        self.within_limits(self.copied, mark)?;
        let Some((node, _)) = self.anchors.get(&anchor) else {
            return Ok(());
        };
        if self.at_key() {
            let Value::String(text) = &node.value else {
                return Err(Fault::at(mark, "a key must be text, not a list or a table"));
            };
            self.key(text.clone(), mark);
            return Ok(());
        }
        let node = self.builder.node(mark, node.value.clone());
        self.place(node, size)
    }

    /// Keeps a copy of what `anchor` names.
    fn remember(
        &mut self,
        anchor: usize,
        node: &Node,
        size: Size,
        mark: Mark,
    ) -> Result<(), Fault> {
        if anchor == 0 {
            return Ok(());
        }
        self.copied.nodes += size.nodes;
        self.copied.bytes += size.bytes;
        self.within_limits(self.copied, mark)?;
        self.anchors.insert(anchor, (node.clone(), size));
        Ok(())
    }

    fn within_limits(&self, copied: Size, mark: Mark) -> Result<(), Fault> {
        let limits = self.builder.limits;
        if copied.nodes > limits.nodes || copied.bytes > limits.file_bytes {
            return Err(Fault::at(
                mark,
                format!(
                    "anchors and aliases amount to more than {} values",
                    limits.nodes
                ),
            ));
        }
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, node: Node, size: Size) -> Result<(), Fault> {
        let Some(mut parent) = self.open.pop() else {
            self.roots.push(node);
            return Ok(());
        };
        parent.size.add(size);
        match &mut parent.content {
            Content::List(items) => items.push(node),
            Content::Table { table, key } => {
                let key = key.take().unwrap_or((String::new(), Mark::START));
                self.builder.insert(table, &self.path(), key, node)?;
            }
        }
        self.open.push(parent);
        Ok(())
    }
}

fn check_tag(tag: Option<&Tag>, expected: &str, mark: Mark) -> Result<(), Fault> {
    match tag.map(Tag::core_suffix) {
        None => Ok(()),
        Some(Some(suffix)) if suffix == expected => Ok(()),
        Some(_) => Err(unknown_tag(mark)),
    }
}

fn unknown_tag(mark: Mark) -> Fault {
    Fault::at(
        mark,
        "a tag that does not fit or is not known (`!!str` makes a value text)",
    )
}

/// A plain scalar as the core schema reads it. `yes`, `no`, `on` and `off` are words, and so is a
/// number that begins with 0 like a file mode: guessing its base would be a trap.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    let based = |prefix, radix| {
        let digits: &str = text.strip_prefix(prefix)?;
        let all_digits = digits.bytes().all(|b| char::from(b).is_digit(radix));
        i128::from_str_radix(digits, radix)
            .ok()
            .filter(|_| all_digits)
    };
    if let Some(value) = based("0x", 16).or_else(|| based("0o", 8)) {
        return Value::Integer(value);
    }
    let digits = text.trim_start_matches(['-', '+']);
    let leading_zero = digits.len() > 1
        && digits.starts_with('0')
        && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    let numeric = text
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if leading_zero || !numeric {
        return Value::String(text.to_owned());
    }
    if let Ok(value) = text.parse() {
        return Value::Integer(value);
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Value::Float(value),
        _ => Value::String(text.to_owned()),
    }
}
