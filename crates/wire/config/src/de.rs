//! Reading a typed structure out of the merged tree, collecting every problem on the way.
//!
//! Plain `#[derive(Deserialize)]` structures work as they are. The deserialiser knows the fields of
//! each structure it is asked for, so it matches keys itself (without case), reports all unknown
//! keys at once, and leaves out what is `null`.
//!
//! Serde stops at the first value that does not fit. To find the others, the value is set aside and
//! the tree is read again, until it fits or nothing more can be set aside; a required key whose value
//! was set aside is not reported as missing.

mod access;
mod error;
mod node;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use crate::load::Setting;
use crate::problem::Problem;
use crate::tree::{Entry, Node, join, printable};

use error::ReadError;
use node::NodeReader;

/// Problems reported at most; who has more will not read them.
const MAX_PROBLEMS: usize = 64;
/// Known keys named at most in a message.
const MAX_KEYS_NAMED: usize = 24;
/// How alike an unknown key and a known one must be for a suggestion (Jaro-Winkler, 0 to 1).
const NEAR: f64 = 0.84;

/// What is learnt while the tree is read.
#[derive(Default)]
struct Context {
    /// Key paths of values that were reported and are skipped from now on.
    aside: RefCell<BTreeSet<String>>,
    problems: RefCell<Vec<Problem>>,
    settings: RefCell<BTreeMap<String, Setting>>,
}

impl Context {
    fn is_aside(&self, path: &str) -> bool {
        self.aside.borrow().contains(path)
    }

    /// Whether something below `path` was set aside.
    fn lacks_part_of(&self, path: &str) -> bool {
        let below = |other: &String| {
            other
                .strip_prefix(path)
                .is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        let aside = self.aside.borrow();
        if path.is_empty() {
            !aside.is_empty()
        } else {
            aside.iter().any(below)
        }
    }

    fn report(&self, problem: Problem) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < MAX_PROBLEMS {
            problems.push(problem);
        }
    }

    fn report_unknown(&self, entry: &Entry, path: &str, secret: bool, known: &[&str]) {
        if !self.aside.borrow_mut().insert(path.to_owned()) {
            return;
        }
        let shown = crate::redact::show(&entry.node, secret);
        let mut message = format!("unknown key (value `{shown}`)");
        if !known.is_empty() {
            let mut names: Vec<&str> = known.to_vec();
            names.sort_unstable();
            message.push_str(", expected one of ");
            message.push_str(&names[..names.len().min(MAX_KEYS_NAMED)].join(", "));
            if names.len() > MAX_KEYS_NAMED {
                message.push_str(", …");
            }
        }
        if let Some(near) = nearest(&entry.key, known) {
            message.push_str(&format!("; did you mean `{near}`?"));
        }
        self.report(Problem {
            origin: entry.node.origin.clone(),
            key: path.to_owned(),
            message,
        });
    }
}

/// The known word that `word` was probably meant to be, for a message that suggests it.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&word, &name.to_ascii_lowercase());
    let near = known
        .iter()
        .map(|name| (likeness(name), *name))
        .filter(|(like, _)| *like >= NEAR);
    near.max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// What was read, and which key said what.
pub(crate) struct Read<T> {
    pub(crate) value: T,
    pub(crate) settings: BTreeMap<String, Setting>,
}

/// Reads `T` out of `root`, or says everything that is wrong.
pub(crate) fn read<T: DeserializeOwned>(root: &Node) -> Result<Read<T>, Vec<Problem>> {
    let context = Context::default();
    loop {
        context.settings.borrow_mut().clear();
        match T::deserialize(NodeReader::root(root, &context)) {
            Ok(value) => {
                let problems = context.problems.into_inner();
                if problems.is_empty() {
                    return Ok(Read {
                        value,
                        settings: context.settings.into_inner(),
                    });
                }
                return Err(problems);
            }
            Err(error) => {
                let done = set_aside(&context, root, error);
                if done || context.problems.borrow().len() >= MAX_PROBLEMS {
                    return Err(context.problems.into_inner());
                }
            }
        }
    }
}

/// Reports `error` unless it only follows from an earlier one, and sets its value aside.
/// Says whether nothing is left to be read.
fn set_aside(context: &Context, root: &Node, error: ReadError) -> bool {
    let (problem, missing) = error.into_problem(root);
    let mut path = problem.key.clone();
    // A value that its reader cannot leave out fails again, then what is around it goes as well.
    let again = context.is_aside(&path);
    let follows = again
        || match missing {
            Some(field) => context.is_aside(&join(&path, field)),
            None => context.lacks_part_of(&path),
        };
    if !follows {
        let message = printable(&problem.message, 400);
        context.report(Problem { message, ..problem });
    }
    while context.is_aside(&path) {
        path.truncate(path.rfind(['.', '[']).unwrap_or(0));
    }
    if path.is_empty() {
        return true;
    }
    context.aside.borrow_mut().insert(path);
    false
}

#[cfg(test)]
mod tests;
