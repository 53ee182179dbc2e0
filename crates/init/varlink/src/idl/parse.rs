//! Text to [`Interface`].

use std::collections::BTreeSet;

use super::lex::{Lexer, Token};
use super::{Field, Interface, Member, MemberKind, Type};

/// Why a text is no interface description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseInterfaceError {
    /// Where, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: Box<str>,
}

/// How deep types may nest.
const MAX_DEPTH: usize = 32;

impl Interface {
    /// Reads a description.
    ///
    /// # Errors
    /// If it is not one: where, and what was expected there.
    pub fn parse(text: &str) -> Result<Self, ParseInterfaceError> {
        let mut parser = Parser::new(text)?;
        let interface = parser.interface()?;
        parser.check_names(&interface)?;
        Ok(interface)
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token<'t>,
    line: usize,
    /// Comments since the last thing that they could belong to.
    docs: Vec<Box<str>>,
}

type Parsed<T> = Result<T, ParseInterfaceError>;

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parsed<Self> {
        let mut parser = Self {
            lexer: Lexer::new(text),
            token: Token::End,
            line: 1,
            docs: Vec::new(),
        };
        parser.advance()?;
        Ok(parser)
    }

    fn fail<T>(&self, what: impl Into<Box<str>>) -> Parsed<T> {
        Err(ParseInterfaceError {
            line: self.line,
            what: what.into(),
        })
    }

    /// The current token; the next one becomes current, comments aside.
    fn advance(&mut self) -> Parsed<Token<'t>> {
        loop {
            let next = self.lexer.next();
            self.line = self.lexer.line();
            match next {
                Some(Token::Comment(text)) => self.docs.push(text.into()),
                Some(token) => return Ok(std::mem::replace(&mut self.token, token)),
                None => return self.fail("a character that no description contains"),
            }
        }
    }

    fn take_docs(&mut self) -> Vec<Box<str>> {
        std::mem::take(&mut self.docs)
    }

    fn eat(&mut self, token: &Token<'_>) -> Parsed<bool> {
        let found = self.token == *token;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, token: &Token<'_>, what: &str) -> Parsed<()> {
        if self.eat(token)? {
            return Ok(());
        }
        self.fail(format!("expected {what}"))
    }

    fn word(&mut self, what: &str, valid: fn(&str) -> bool) -> Parsed<&'t str> {
        match self.token {
            Token::Word(word) if valid(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => self.fail(format!("expected {what}")),
        }
    }

    fn interface(&mut self) -> Parsed<Interface> {
        let docs = self.take_docs();
        self.expect(&Token::Word("interface"), "`interface`")?;
        let name = self.word("the name of an interface", is_interface_name)?;
        let mut members = Vec::new();
        while self.token != Token::End {
            members.push(self.member()?);
        }
        Ok(Interface {
            docs,
            name: name.into(),
            members,
        })
    }

    fn member(&mut self) -> Parsed<Member> {
        let docs = self.take_docs();
        let keyword = self.word("`type`, `method` or `error`", |word| {
            matches!(word, "type" | "method" | "error")
        })?;
        let name = self.word("a name that begins with a capital", is_type_name)?;
        let kind = match keyword {
            "type" => MemberKind::Type(self.braced(0)?),
            "method" => {
                let input = self.fields()?;
                self.expect(&Token::Arrow, "`->`")?;
                let output = self.fields()?;
                MemberKind::Method { input, output }
            }
            // The keyword alone is an error without content.
            _ if self.token == Token::Sign('(') => MemberKind::Error(self.fields()?),
            _ => MemberKind::Error(Vec::new()),
        };
        Ok(Member {
            docs,
            name: name.into(),
            kind,
        })
    }

    fn fields(&mut self) -> Parsed<Vec<Field>> {
        match self.braced(0)? {
            Type::Struct(fields) => Ok(fields),
            _ => self.fail("expected fields with types"),
        }
    }

    /// A structure or an enumeration.
    fn braced(&mut self, depth: usize) -> Parsed<Type> {
        if depth > MAX_DEPTH {
            return self.fail("types nest too deep");
        }
        self.expect(&Token::Sign('('), "`(`")?;
        let mut docs = self.take_docs();
        let mut fields = Vec::new();
        let mut words: Vec<Box<str>> = Vec::new();
        if self.eat(&Token::Sign(')'))? {
            return Ok(Type::Struct(fields));
        }
        loop {
            let name = self.word("the name of a field", is_field_name)?;
            let known = fields.iter().any(|field: &Field| *field.name == *name)
                || words.iter().any(|word| **word == *name);
            if known {
                return self.fail(format!("{name} is there twice"));
            }
            if self.eat(&Token::Sign(':'))? {
                fields.push(Field {
                    docs,
                    name: name.into(),
                    of: self.r#type(depth + 1)?,
                });
            } else {
                words.push(name.into());
            }
            if !fields.is_empty() && !words.is_empty() {
                return self.fail("some fields have a type and some do not");
            }
            if self.eat(&Token::Sign(')'))? {
                break;
            }
            self.expect(&Token::Sign(','), "`,` or `)`")?;
            docs = self.take_docs();
        }
        Ok(if words.is_empty() {
            Type::Struct(fields)
        } else {
            Type::Enum(words)
        })
    }

    fn r#type(&mut self, depth: usize) -> Parsed<Type> {
        if depth > MAX_DEPTH {
            return self.fail("types nest too deep");
        }
        if self.eat(&Token::Sign('?'))? {
            return match self.r#type(depth + 1)? {
                Type::Optional(_) => self.fail("`?` is there twice"),
                inner => Ok(Type::Optional(Box::new(inner))),
            };
        }
        if self.eat(&Token::Sign('['))? {
            let map = self.eat(&Token::Word("string"))?;
            self.expect(&Token::Sign(']'), "`]`")?;
            let inner = Box::new(self.r#type(depth + 1)?);
            return Ok(if map {
                Type::Map(inner)
            } else {
                Type::Array(inner)
            });
        }
        if self.token == Token::Sign('(') {
            return self.braced(depth + 1);
        }
        let word = self.word("a type", |word| {
            builtin(word).is_some() || is_type_name(word)
        })?;
        Ok(builtin(word).unwrap_or_else(|| Type::Named(word.into())))
    }

    /// Every name stands for one thing, and every type that is used is there.
    fn check_names(&self, interface: &Interface) -> Parsed<()> {
        let mut names = BTreeSet::new();
        for member in &interface.members {
            if !names.insert(&*member.name) {
                return self.fail(format!("{} is described twice", member.name));
            }
        }
        let is_type = |name: &str| matches!(interface.member(name), Some(MemberKind::Type(_)));
        for member in &interface.members {
            let missing = match &member.kind {
                MemberKind::Type(of) => missing(of, &is_type),
                MemberKind::Error(fields) => missing_in(fields, &is_type),
                MemberKind::Method { input, output } => {
                    missing_in(input, &is_type).or_else(|| missing_in(output, &is_type))
                }
            };
            if let Some(name) = missing {
                return self.fail(format!(
                    "{} uses {name}, which is no type of this interface",
                    member.name
                ));
            }
        }
        Ok(())
    }
}

fn missing_in<'t>(fields: &'t [Field], is_type: &dyn Fn(&str) -> bool) -> Option<&'t str> {
    fields.iter().find_map(|field| missing(&field.of, is_type))
}

fn missing<'t>(of: &'t Type, is_type: &dyn Fn(&str) -> bool) -> Option<&'t str> {
    match of {
        Type::Named(name) => (!is_type(name)).then_some(name),
        Type::Array(inner) | Type::Map(inner) | Type::Optional(inner) => missing(inner, is_type),
        Type::Struct(fields) => missing_in(fields, is_type),
        _ => None,
    }
}

fn builtin(word: &str) -> Option<Type> {
    Some(match word {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "float" => Type::Float,
        "string" => Type::String,
        "object" => Type::Object,
        "any" => Type::Any,
        _ => return None,
    })
}

fn is_type_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_alphanumeric())
}

fn is_field_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !word.ends_with('_')
        && !word.contains("__")
}

fn is_interface_name(word: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.contains('.')
        && word.split('.').all(is_label)
}
