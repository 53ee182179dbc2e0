//! Everything that is wrong with documents, gathered so that it is mended at once.

use std::fmt;

use muster_config::{Key, Located, Origin, Problem, nearest, printable};

/// Problems kept at most; who has more will not read them.
const MOST: usize = 64;

/// What was found wrong while documents were read.
#[derive(Debug, Default)]
pub struct Findings {
    problems: Vec<Problem>,
}

impl Findings {
    /// Adds a problem at a place; `key` is the path to it inside its document.
    pub fn report(&mut self, origin: &Origin, key: impl Into<String>, message: impl fmt::Display) {
        if !self.is_full() {
            self.problems.push(Problem {
                origin: origin.clone(),
                key: key.into(),
                message: printable(&message.to_string(), 512),
            });
        }
    }

    /// Adds that a key has no meaning, and what was probably meant.
    pub fn unknown_key(&mut self, key: &Key, path: &str, known: &[&str]) {
        if self.is_full() {
            return;
        }
        let near = nearest(&key.text, known);
        let near = near.map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
        let message = format!("unknown key, expected one of {}{near}", known.join(", "));
        self.report(&key.origin, join(path, &key.text), message);
    }

    /// Adds that a value is not of the kind that is wanted here.
    pub fn wrong_kind(&mut self, located: &Located, path: &str, wanted: &str) {
        use muster_config::Content;
        let found = match located.content {
            Content::Null => "nothing",
            Content::Bool(_) => "a truth value",
            Content::Integer(_) | Content::Float(_) => "a number",
            Content::String(_) => "text",
            Content::List(_) => "a list",
            Content::Table(_) => "a table",
        };
        self.report(
            &located.origin,
            path,
            format!("expected {wanted}, found {found}"),
        );
    }

    /// Adds what a parser said.
    pub fn add(&mut self, problem: Problem) {
        if !self.is_full() {
            self.problems.push(problem);
        }
    }

    /// Whether nothing more is kept, so that looking for more is of no use.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.problems.len() >= MOST
    }

    /// Whether nothing was found wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// The problems of each document in the order of its text.
    #[must_use]
    pub fn into_problems(mut self) -> Vec<Problem> {
        let place = |problem: &Problem| {
            let origin = &problem.origin;
            (origin.source.to_string(), origin.line, origin.column)
        };
        self.problems.sort_by_cached_key(place);
        self.problems
    }
}

/// The path of `key` inside `parent`.
#[must_use]
pub fn join(parent: &str, key: &str) -> String {
    let key = printable(key, 64);
    match parent {
        "" => key,
        _ => format!("{parent}.{key}"),
    }
}

/// Problems, each on a line of its own.
pub(crate) fn lines(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| format!("\n{problem}"))
        .collect()
}
