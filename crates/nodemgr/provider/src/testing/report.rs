//! What the suite found.

use std::collections::BTreeSet;
use std::fmt;

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    /// As promised.
    Passed,
    /// Not, and why.
    Failed(String),
    /// Not asked, and why.
    Skipped(String),
}

/// Every case and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order in which they ran.
    pub cases: Vec<(&'static str, CaseOutcome)>,
}

impl Report {
    /// The names of those that were skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &'static str> {
        self.select(|outcome| matches!(outcome, CaseOutcome::Skipped(_)))
    }

    /// Fails the test unless exactly these were skipped, and for these reasons, and all others passed.
    ///
    /// # Panics
    /// With the whole report, if it is otherwise.
    #[track_caller]
    pub fn assert_skipped_only(&self, expected: &[(&str, &str)]) {
        self.assert_passed();
        let skipped = self
            .cases
            .iter()
            .filter_map(|(name, outcome)| match outcome {
                CaseOutcome::Skipped(why) => Some((*name, why.as_str())),
                CaseOutcome::Passed | CaseOutcome::Failed(_) => None,
            });
        let skipped: BTreeSet<_> = skipped.collect();
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        assert_eq!(skipped, expected, "skipped, and expected to be\n{self}");
    }

    /// The names of those that passed.
    pub fn passed(&self) -> impl Iterator<Item = &'static str> {
        self.select(|outcome| *outcome == CaseOutcome::Passed)
    }

    /// This and another, as one: what a provider does, and what can be done in its machines.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.cases.extend(other.cases);
        self
    }

    /// Fails the test if fewer cases passed: those that were skipped prove nothing.
    ///
    /// # Panics
    /// With the whole report, if it is so.
    #[track_caller]
    pub fn assert_at_least(&self, passed: usize) {
        let found = self.passed().count();
        assert!(
            found >= passed,
            "{found} cases passed, not {passed}\n{self}"
        );
    }

    /// The names of those that failed.
    pub fn failed(&self) -> impl Iterator<Item = &'static str> {
        self.select(|outcome| matches!(outcome, CaseOutcome::Failed(_)))
    }

    fn select(&self, which: impl Fn(&CaseOutcome) -> bool) -> impl Iterator<Item = &'static str> {
        let chosen = self.cases.iter().filter(move |(_, outcome)| which(outcome));
        chosen.map(|&(name, _)| name)
    }

    /// Fails the test if a case did.
    ///
    /// # Panics
    /// With the whole report, if a case failed.
    #[track_caller]
    pub fn assert_passed(&self) {
        let mut outcomes = self.cases.iter();
        let failed = outcomes.any(|(_, outcome)| matches!(outcome, CaseOutcome::Failed(_)));
        assert!(!failed, "\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, outcome) in &self.cases {
            match outcome {
                CaseOutcome::Passed => writeln!(f, "passed   {name}")?,
                CaseOutcome::Failed(what) => writeln!(f, "FAILED   {name}: {what}")?,
                CaseOutcome::Skipped(why) => writeln!(f, "skipped  {name}: {why}")?,
            }
        }
        let (passed, skipped) = (self.passed().count(), self.skipped().count());
        writeln!(f, "{passed} passed, {skipped} skipped")
    }
}
