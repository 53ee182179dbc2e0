//! From a policy to a program.

mod assemble;
mod lists;
mod restrict;
mod rules;

use crate::arch::{Abi, Arch};
use crate::names::Purpose;
use crate::policy::{CallFilter, Policy, Refusal};
use crate::program::{MAX_INSTRUCTIONS, Program};
use assemble::Assembler;
use lists::List;
use rules::{Action, Decisions, Rule};

/// The most names that a list has: far more than there are system calls.
const MAX_NAMES: usize = 8192;

/// What a policy comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The filter, one for everything; nothing where the policy keeps nothing from the process.
    pub program: Option<Program>,
    /// Names in the policy that are neither a system call nor a group: they are left out.
    pub unknown: Vec<Box<str>>,
}

/// Why there is no filter for a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The kernel knows no error with that number.
    #[error("system call filter: {number} is no error number")]
    ErrorNumber {
        /// The number.
        number: u16,
    },
    /// More names than anybody writes.
    #[error("system call filter: {count} names are too many")]
    TooManyNames {
        /// How many there are.
        count: usize,
    },
    /// The kernel does not take a program of that length.
    #[error("system call filter: a program of {length} instructions is too long")]
    TooLong {
        /// How many instructions it has.
        length: usize,
    },
}

/// The filter of a policy for a machine.
///
/// # Errors
/// The policy has numbers that mean nothing to the kernel, or is too large for it.
pub fn compile(policy: &Policy, arch: Arch) -> Result<Compiled, CompileError> {
    check(policy)?;
    let mut unknown = Vec::new();
    let mut listed = |filter: &CallFilter, purpose| {
        let mut listed = filter.listed(purpose);
        unknown.append(&mut listed.unknown);
        listed
    };
    let mut lists = Vec::new();
    if let Some(filter) = &policy.calls {
        let listed = listed(filter, Purpose::Refuse);
        lists.push(List::of_refused(&listed, filter.allow, policy.refusal));
    }
    if let Some(filter) = &policy.logged {
        lists.push(List::of_logged(&listed(filter, Purpose::Log), filter.allow));
    }
    let decisions = |abi: Abi| {
        if !admitted(policy, arch, abi) {
            return Decisions::always(Action::Kill);
        }
        let mut layers: Vec<_> = lists.iter().map(|list| list.layer(abi)).collect();
        layers.extend(restrict::layers(policy, abi));
        Decisions::of(&layers)
    };
    let foreign = if policy.architectures.is_empty() {
        Action::Allow
    } else {
        Action::Kill
    };
    Ok(Compiled {
        program: program(arch, foreign, decisions)?,
        unknown,
    })
}

fn check(policy: &Policy) -> Result<(), CompileError> {
    let filters = [&policy.calls, &policy.logged];
    let rules = || filters.into_iter().flatten().flat_map(|list| &list.rules);
    let own = rules().filter_map(|rule| rule.refusal);
    for refusal in own.chain([policy.refusal]) {
        if let Refusal::Errno(number) = refusal
            && number > Refusal::MAX_ERROR
        {
            return Err(CompileError::ErrorNumber { number });
        }
    }
    let families = policy.families.iter().flat_map(|list| &list.families);
    let count = rules().count() + families.count() + policy.architectures.len();
    if count > MAX_NAMES {
        return Err(CompileError::TooManyNames { count });
    }
    Ok(())
}

/// Whether calls of a table may be made at all. Names of other machines' tables mean nothing here.
fn admitted(policy: &Policy, arch: Arch, abi: Abi) -> bool {
    let mut named = policy.architectures.iter();
    abi == arch.own() || policy.architectures.is_empty() || named.any(|name| **name == *abi.name())
}

fn program(
    arch: Arch,
    foreign: Action,
    decisions: impl Fn(Abi) -> Decisions,
) -> Result<Option<Program>, CompileError> {
    let marks: Vec<(u32, Spans)> = arch
        .marks()
        .iter()
        .map(|(mark, tables)| (*mark, spans(tables, &decisions)))
        .collect();
    let everything_allowed = |spans: &Spans| matches!(&spans[..], [(_, rules)] if rules.is_empty());
    if foreign == Action::Allow && marks.iter().all(|(_, spans)| everything_allowed(spans)) {
        return Ok(None);
    }
    let mut assembler = Assembler::default();
    let otherwise = assembler.rules(&Rule::always(foreign));
    let marks: Vec<_> = marks
        .iter()
        .map(|(mark, spans)| (*mark, assembler.numbers(spans)))
        .collect();
    assembler.marks(&marks, otherwise);
    let instructions = assembler.finish();
    match instructions.len() {
        length if length > MAX_INSTRUCTIONS => Err(CompileError::TooLong { length }),
        _ => Ok(Some(Program(instructions))),
    }
}

/// Numbers that are treated alike: where each span of them begins, and its rules.
type Spans = Vec<(u32, Vec<Rule>)>;

/// Which numbers are treated alike.
fn spans(tables: &[Abi], decisions: impl Fn(Abi) -> Decisions) -> Spans {
    let mut spans = Spans::new();
    let mut begin = |number: u32, rules: &[Rule]| {
        if spans.last().is_none_or(|(_, last)| *last != rules) {
            spans.push((number, rules.to_vec()));
        }
    };
    let mut table = |numbers: std::ops::RangeInclusive<u32>, decisions: &Decisions| {
        if !decisions.listed.contains_key(numbers.start()) {
            begin(*numbers.start(), &decisions.otherwise);
        }
        for (number, rules) in decisions.listed.range(numbers) {
            begin(*number, rules);
            if !decisions.listed.contains_key(&(number + 1)) {
                begin(number + 1, &decisions.otherwise);
            }
        }
    };
    let x32 = Abi::X32_NUMBERS;
    let own = tables.first().copied().map(&decisions).unwrap_or_default();
    table(0..=x32.start() - 1, &own);
    let extended = tables.contains(&Abi::X32).then(|| decisions(Abi::X32));
    table(x32.clone(), extended.as_ref().unwrap_or(&own));
    table(x32.end() + 1..=u32::MAX, &own);
    spans
}

#[cfg(test)]
mod tests;
