//! Interface descriptions: the text that `GetInterfaceDescription` gives, as a value.
//!
//! [`Interface::parse`] reads it, [`Display`](std::fmt::Display) prints it in one canonical form, and
//! [`Interface::check_call`] and its siblings hold JSON values against it, so that a test can tell whether hand-written types and
//! the description agree.

mod check;
mod lex;
mod parse;
mod print;

pub use check::Mismatch;
pub use parse::ParseInterfaceError;

/// A described interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Comment lines before it.
    pub docs: Vec<Box<str>>,
    /// Its name, as a domain read backwards.
    pub name: Box<str>,
    /// What it consists of.
    pub members: Vec<Member>,
}

/// A type, method or error of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Comment lines before it.
    pub docs: Vec<Box<str>>,
    /// Its name.
    pub name: Box<str>,
    /// What it is.
    pub kind: MemberKind,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A named type: a structure or an enumeration.
    Type(Type),
    /// A method.
    Method {
        /// What it takes.
        input: Vec<Field>,
        /// What it gives.
        output: Vec<Field>,
    },
    /// An error and what it says.
    Error(Vec<Field>),
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Comment lines before it.
    pub docs: Vec<Box<str>>,
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub of: Type,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Text.
    String,
    /// Any JSON object.
    Object,
    /// Any JSON value.
    Any,
    /// A named type of the same interface.
    Named(Box<str>),
    /// A list.
    Array(Box<Type>),
    /// A map from text.
    Map(Box<Type>),
    /// Perhaps nothing.
    Optional(Box<Type>),
    /// Fields.
    Struct(Vec<Field>),
    /// One of some words.
    Enum(Vec<Box<str>>),
}

impl Interface {
    /// The methods, with what they take and give.
    pub fn methods(&self) -> impl Iterator<Item = (&str, &[Field], &[Field])> {
        self.members.iter().filter_map(|member| match &member.kind {
            MemberKind::Method { input, output } => {
                Some((&*member.name, input.as_slice(), output.as_slice()))
            }
            _ => None,
        })
    }

    fn member(&self, name: &str) -> Option<&MemberKind> {
        let member = self.members.iter().find(|member| *member.name == *name)?;
        Some(&member.kind)
    }
}

#[cfg(test)]
mod tests;
