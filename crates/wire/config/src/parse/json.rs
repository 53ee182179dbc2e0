//! JSON with positions. The usual JSON crates forget where a value stood, and a configuration error
//! without a line is of little use, so this is a small strict parser (RFC 8259) of our own; it is
//! tested against serde_json to accept the same documents.

use super::lines::Lines;
use super::{Builder, Fault};
use crate::tree::{Node, Origin, Source, Table, Value, join};
use std::sync::Arc;

pub(super) fn parse_json(builder: &Builder<'_>, text: &str) -> Result<Node, Fault> {
    let mut parser = Parser {
        builder,
        text,
        at: 0,
        nodes: 0,
        lines: Lines::new(text),
    };
    let node = parser.value("", 1)?;
    parser.space();
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.fault("nothing may follow the end of the document")),
    }
}

/// A list or an object written inline, as a flag's or an environment variable's value.
pub(crate) fn parse_json_value(
    source: &Arc<Source>,
    text: &str,
    limits: &super::Limits,
) -> Option<Node> {
    let mut node = parse_json(
        &Builder {
            source,
            limits,
            reading: super::Reading::Layer,
        },
        text,
    )
    .ok()?;
    forget_lines(&mut node);
    Some(node)
}

fn forget_lines(node: &mut Node) {
    node.origin = Origin::whole(&node.origin.source);
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(forget_lines),
        Value::Table(table) => {
            for entry in table.iter_mut() {
                forget_lines(&mut entry.node);
            }
        }
        _ => {}
    }
}

struct Parser<'a> {
    builder: &'a Builder<'a>,
    text: &'a str,
    at: usize,
    nodes: usize,
    lines: Lines<'a>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        let message: String = message.into();
        Fault::stopped(self.lines.mark(self.at), message)
    }

    fn expected(&self, what: &str) -> Fault {
        let found = self
            .text
            .get(self.at..)
            .and_then(|rest| rest.chars().next());
        self.fault(match found {
            None => format!("expected {what}, but the document ends"),
            Some(c) => format!("expected {what}, found `{}`", c.escape_debug()),
        })
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, path: &str, depth: usize) -> Result<Node, Fault> {
        self.space();
        let mark = self.lines.mark(self.at);
        self.builder.count(&mut self.nodes, depth, mark)?;
        let value = match self.peek() {
            Some(b'{') => Value::Table(self.table(path, depth)?),
            Some(b'[') => Value::List(self.list(path, depth)?),
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(self.builder.node(mark, value))
    }

    fn word(&mut self) -> Result<Value, Fault> {
        let words = [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
        ];
        for (word, value) in words {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.expected("a value"))
    }

    fn table(&mut self, path: &str, depth: usize) -> Result<Table, Fault> {
        self.at += 1;
        let mut table = Table::default();
        self.space();
        if self.eat(b'}') {
            return Ok(table);
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in double quotes"));
            }
            let mark = self.lines.mark(self.at);
            let key = self.string()?;
            self.space();
            if !self.eat(b':') {
                return Err(self.expected("`:` after the key"));
            }
            let node = self.value(&join(path, &key), depth + 1)?;
            self.builder.insert(&mut table, path, (key, mark), node)?;
            self.space();
            if self.eat(b'}') {
                return Ok(table);
            }
            if !self.eat(b',') {
                return Err(self.expected("`,` or `}`"));
            }
        }
    }

    fn list(&mut self, path: &str, depth: usize) -> Result<Vec<Node>, Fault> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.value(path, depth + 1)?);
            self.space();
            if self.eat(b']') {
                return Ok(items);
            }
            if !self.eat(b',') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(c) = self
                .text
                .get(self.at..)
                .and_then(|rest| rest.chars().next())
            else {
                return Err(self.expected("`\"` at the end of the string"));
            };
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(out);
                }
                '\\' => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                '\0'..='\x1f' => return Err(self.expected("an escape for a control character")),
                c => {
                    self.at += c.len_utf8();
                    out.push(c);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let plain = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.expected("an escape such as `\\n` or `\\u00e9`")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode_escape(&mut self) -> Result<char, Fault> {
        let high = self.hex()?;
        let code = if (0xd800..0xdc00).contains(&high) {
            if !(self.eat(b'\\') && self.eat(b'u')) {
                return Err(self.fault("half of a surrogate pair"));
            }
            let low = self.hex()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(self.fault("half of a surrogate pair"));
            }
            0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code).ok_or_else(|| self.fault("half of a surrogate pair"))
    }

    fn hex(&mut self) -> Result<u32, Fault> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return Err(self.expected("four hexadecimal digits"));
        };
        self.at += 4;
        Ok(code)
    }

    fn digits(&mut self) -> Result<(), Fault> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.expected("a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        self.eat(b'-');
        if self.eat(b'0') {
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.fault("a number must not begin with 0"));
            }
        } else {
            self.digits()?;
        }
        let mut whole = true;
        if self.eat(b'.') {
            whole = false;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        if whole && let Ok(value) = text.parse() {
            return Ok(Value::Integer(value));
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Value::Float(value)),
            _ => Err(self.fault("the number is out of range")),
        }
    }
}
