//! [`Interface`] to text.

use std::fmt;

use super::{Field, Interface, Member, MemberKind, Type};

/// Longer lines are broken, one field in each.
const WIDTH: usize = 100;

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_docs(f, &self.docs, 0)?;
        writeln!(f, "interface {}", self.name)?;
        for member in &self.members {
            writeln!(f)?;
            print_docs(f, &member.docs, 0)?;
            writeln!(f, "{member}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Member {
    /// Without its comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            MemberKind::Type(of) => write!(f, "type {} {}", self.name, Indented(of, 0)),
            MemberKind::Method { input, output } => write!(
                f,
                "method {}{} -> {}",
                self.name,
                Fields(input, 0),
                Fields(output, 0)
            ),
            MemberKind::Error(fields) => write!(f, "error {} {}", self.name, Fields(fields, 0)),
        }
    }
}

fn print_docs(f: &mut fmt::Formatter<'_>, docs: &[Box<str>], depth: usize) -> fmt::Result {
    for line in docs {
        let gap = if line.is_empty() { "" } else { " " };
        writeln!(f, "{:indent$}#{gap}{line}", "", indent = depth * 2)?;
    }
    Ok(())
}

struct Indented<'t>(&'t Type, usize);

impl fmt::Display for Indented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(of, depth) = *self;
        match of {
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Float => f.write_str("float"),
            Type::String => f.write_str("string"),
            Type::Object => f.write_str("object"),
            Type::Any => f.write_str("any"),
            Type::Named(name) => f.write_str(name),
            Type::Array(inner) => write!(f, "[]{}", Self(inner, depth)),
            Type::Map(inner) => write!(f, "[string]{}", Self(inner, depth)),
            Type::Optional(inner) => write!(f, "?{}", Self(inner, depth)),
            Type::Struct(fields) => write!(f, "{}", Fields(fields, depth)),
            Type::Enum(words) => write!(f, "({})", words.join(", ")),
        }
    }
}

struct Fields<'t>(&'t [Field], usize);

impl Fields<'_> {
    fn on_one_line(&self) -> String {
        let fields = self.0.iter();
        let fields = fields.map(|field| format!("{}: {}", field.name, Indented(&field.of, self.1)));
        format!("({})", fields.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(fields, depth) = *self;
        if fields.iter().all(|field| field.docs.is_empty()) {
            let line = self.on_one_line();
            if line.len() + depth * 2 <= WIDTH && !line.contains('\n') {
                return f.write_str(&line);
            }
        }
        writeln!(f, "(")?;
        for (index, field) in fields.iter().enumerate() {
            print_docs(f, &field.docs, depth + 1)?;
            let comma = if index + 1 < fields.len() { "," } else { "" };
            let of = Indented(&field.of, depth + 1);
            let indent = (depth + 1) * 2;
            writeln!(f, "{:indent$}{}: {of}{comma}", "", field.name)?;
        }
        write!(f, "{:indent$})", "", indent = depth * 2)
    }
}
