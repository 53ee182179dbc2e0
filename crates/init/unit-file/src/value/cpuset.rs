//! Sets of processors and memory nodes.

use std::fmt;

use super::{AssignError, Setting, ValueContext, ValueError};
use crate::syntax::{WordRules, Words};

/// More than any machine has; keeps a set under a kilobyte.
const MAX_CPU: usize = 8191;

/// A set of small numbers, written as `0-3,5`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CpuSet {
    bits: Vec<u64>,
}

impl CpuSet {
    /// Whether a number is in the set.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.bits
            .get(cpu / 64)
            .is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.bits.len() * 64).filter(|cpu| self.contains(*cpu))
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    /// Reads a set as the kernel and unit files write it.
    ///
    /// # Errors
    /// It is none.
    pub fn from_text(text: &str) -> Result<Self, ValueError> {
        Self::parse(text)
    }

    /// Adds all numbers of another set.
    pub fn extend(&mut self, other: &Self) {
        other.iter().for_each(|cpu| self.insert(cpu));
    }

    fn insert(&mut self, cpu: usize) {
        if self.bits.len() <= cpu / 64 {
            self.bits.resize(cpu / 64 + 1, 0);
        }
        self.bits[cpu / 64] |= 1 << (cpu % 64);
    }

    fn parse(text: &str) -> Result<Self, ValueError> {
        let invalid = |word: &str| ValueError::invalid(word, "numbers and ranges such as 0-3,5");
        let mut set = Self::default();
        let rules = WordRules {
            separators: b" \t\n\r,",
            ..WordRules::LIST
        };
        for word in Words::new(text, rules) {
            let word = word.map_err(|error| ValueError::words(text, error))?;
            let (first, last) = word.split_once('-').unwrap_or((&word, &word));
            let number = |text: &str| {
                text.parse::<usize>()
                    .ok()
                    .filter(|n| *n <= MAX_CPU && !text.starts_with('+'))
            };
            let (Some(first), Some(last)) = (number(first), number(last)) else {
                return Err(invalid(&word));
            };
            if first > last {
                return Err(invalid(&word));
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while let Some(next) = numbers.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = " ";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl Setting for CpuSet {
    const KIND: &'static str = "set of numbers";

    fn assign(&mut self, text: &str, _: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            *self = Self::default();
            return Ok(());
        }
        Self::parse(text)?.iter().for_each(|cpu| self.insert(cpu));
        Ok(())
    }
}

/// The processors a service may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAffinity {
    /// Explicit ones.
    pub cpus: CpuSet,
    /// Those of the memory nodes that `NUMAMask=` names.
    pub from_numa: bool,
}

impl Setting for CpuAffinity {
    const KIND: &'static str = "set of processors, or numa";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text == "numa" {
            *self = Self {
                cpus: CpuSet::default(),
                from_numa: true,
            };
            return Ok(());
        }
        self.cpus.assign(text, context)?;
        self.from_numa = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};

    #[test]
    fn ranges_add_up() {
        assert_eq!(read::<CpuSet>(&["0-3,5 7", "6"]).to_string(), "0-3 5-7");
        assert!(read::<CpuSet>(&["1", ""]).is_empty());
        for text in ["x", "3-1", "1-", "8192", "-1", "1-99999999999999999999"] {
            assert_eq!(assign(&mut CpuSet::default(), &[text]).len(), 1, "{text}");
        }
        assert!(read::<CpuAffinity>(&["0", "numa"]).from_numa);
    }
}
