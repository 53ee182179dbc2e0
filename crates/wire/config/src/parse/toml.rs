//! TOML, parsed by the toml crate with spans.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::lines::Lines;
use super::{Builder, Fault, Mark};
use crate::tree::{Node, Table, Value, join, printable};

pub(super) fn parse_toml(builder: &Builder<'_>, text: &str) -> Result<Node, Fault> {
    let lines = Lines::new(text);
    let document = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        Fault::stopped(lines.mark(offset), printable(error.message(), 200))
    })?;
    let mut walk = Walk {
        builder,
        lines,
        nodes: 0,
    };
    walk.table(document.get_ref(), "", 1)
        .map(|table| builder.node(Mark::START, Value::Table(table)))
}

struct Walk<'a> {
    builder: &'a Builder<'a>,
    lines: Lines<'a>,
    nodes: usize,
}

impl Walk<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &str, depth: usize) -> Result<Table, Fault> {
        let mut out = Table::default();
        // In the order of the text, so that of two keys the second is the one given twice.
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let key_at = self.lines.mark(key.span().start);
            let node = self.value(value, &join(path, key.get_ref()), depth + 1)?;
            let key = (key.get_ref().to_string(), key_at);
            self.builder.insert(&mut out, path, key, node)?;
        }
        Ok(out)
    }

    fn value(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        path: &str,
        depth: usize,
    ) -> Result<Node, Fault> {
        let mark = self.lines.mark(value.span().start);
        self.builder.count(&mut self.nodes, depth, mark)?;
        let out_of_range = || Fault {
            key: path.to_owned(),
            ..Fault::at(mark, "the number is out of range")
        };
        let value = match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(number) => Value::Integer(
                i128::from_str_radix(number.as_str(), number.radix())
                    .map_err(|_| out_of_range())?,
            ),
            DeValue::Float(number) => {
                Value::Float(number.as_str().parse().map_err(|_| out_of_range())?)
            }
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Datetime(time) => Value::String(time.to_string()),
            DeValue::Array(items) => {
                let mut out = Vec::new();
                for item in items.iter() {
                    out.push(self.value(item, path, depth + 1)?);
                }
                Value::List(out)
            }
            DeValue::Table(table) => Value::Table(self.table(table, path, depth)?),
        };
        Ok(self.builder.node(mark, value))
    }
}
