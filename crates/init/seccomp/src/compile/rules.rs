//! What a filter decides by: rules about one call, and which rules a directive has for which calls.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::arch::Abi;
use crate::names;
use crate::policy::Refusal;

/// What a system call comes to, the mildest first: the kernel lets the strictest of several win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Action {
    Allow,
    Log,
    Errno(u16),
    Kill,
}

impl Action {
    /// How strict it is; two errors are as strict as each other.
    const fn strictness(self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Log => 1,
            Self::Errno(_) => 2,
            Self::Kill => 3,
        }
    }

    /// The value that a filter returns for it.
    pub(crate) const fn value(self) -> u32 {
        match self {
            Self::Allow => 0x7fff_0000,
            Self::Log => 0x7ffc_0000,
            Self::Errno(number) => 0x0005_0000 | number as u32,
            Self::Kill => 0x8000_0000,
        }
    }
}

impl From<Refusal> for Action {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Kill => Self::Kill,
            Refusal::Errno(number) => Self::Errno(number),
        }
    }
}

/// Values of an argument: ranges in ascending order that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Values(Vec<(u32, u32)>);

impl Values {
    pub(crate) fn one(value: u32) -> Self {
        Self(vec![(value, value)])
    }

    pub(crate) fn range(range: RangeInclusive<u32>) -> Self {
        Self(vec![range.into_inner()])
    }

    pub(crate) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Every value that is not one of these.
    pub(crate) fn others(&self) -> Self {
        let mut others = Vec::new();
        let mut next = Some(0);
        for &(first, last) in &self.0 {
            if let Some(next) = next.filter(|next| *next < first) {
                others.push((next, first - 1));
            }
            next = last.checked_add(1);
        }
        others.extend(next.map(|next| (next, u32::MAX)));
        Self(others)
    }
}

impl FromIterator<u32> for Values {
    fn from_iter<I: IntoIterator<Item = u32>>(values: I) -> Self {
        let mut values: Vec<u32> = values.into_iter().collect();
        values.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for value in values {
            match ranges.last_mut() {
                Some((_, last)) if value <= last.saturating_add(1) => *last = value,
                _ => ranges.push((value, value)),
            }
        }
        Self(ranges)
    }
}

/// A look at an argument. Only its lower half: the kernel takes each argument that is looked at as an `int`, or
/// defines no flag in the upper half, so that nothing can be hidden there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Test {
    pub(crate) argument: u8,
    /// The bits that count.
    pub(crate) mask: u32,
    /// What they have to be.
    pub(crate) values: Values,
}

impl Test {
    pub(crate) fn is_in(argument: u8, values: Values) -> Self {
        Self {
            argument,
            mask: u32::MAX,
            values,
        }
    }

    /// All of these bits are set.
    pub(crate) fn has_all(argument: u8, bits: u32) -> Self {
        Self {
            argument,
            mask: bits,
            values: Values::one(bits),
        }
    }

    /// At least one of these bits is set.
    pub(crate) fn has_any(argument: u8, bits: u32) -> Self {
        Self {
            argument,
            mask: bits,
            values: Values::range(1..=u32::MAX),
        }
    }
}

/// What a call comes to if all tests hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    pub(crate) tests: Vec<Test>,
    pub(crate) action: Action,
}

impl Rule {
    /// Without a condition. To allow is to have no rule.
    pub(crate) fn always(action: Action) -> Vec<Self> {
        match action {
            Action::Allow => Vec::new(),
            action => vec![Self {
                tests: Vec::new(),
                action,
            }],
        }
    }
}

/// What one directive says about the calls of one table.
#[derive(Debug)]
pub(crate) struct Layer {
    abi: Abi,
    /// By number.
    listed: BTreeMap<u32, Vec<Rule>>,
    /// Of every other number, also of those that nobody has given a name yet.
    otherwise: Vec<Rule>,
}

impl Layer {
    pub(crate) fn new(abi: Abi, otherwise: Action) -> Self {
        Self {
            abi,
            listed: BTreeMap::new(),
            otherwise: Rule::always(otherwise),
        }
    }

    /// Says what a call comes to, if the table has it.
    pub(crate) fn set(&mut self, call: &str, rules: Vec<Rule>) {
        if let Some(number) = names::number(call, self.abi) {
            self.listed.insert(number, rules);
        }
    }

    /// Adds a rule about a call, if the table has it.
    pub(crate) fn add(&mut self, call: &str, tests: Vec<Test>, action: Action) {
        if let Some(number) = names::number(call, self.abi) {
            let rules = self.listed.entry(number).or_default();
            rules.push(Rule { tests, action });
        }
    }
}

/// What all directives together say about the calls of one table. The first rule that holds decides.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    pub(crate) listed: BTreeMap<u32, Vec<Rule>>,
    pub(crate) otherwise: Vec<Rule>,
}

impl Decisions {
    /// Of layers of which the first has the last word among equally strict ones.
    pub(crate) fn of(layers: &[Layer]) -> Self {
        let numbers = layers.iter().flat_map(|layer| layer.listed.keys());
        let listed = numbers.map(|number| {
            let rules = layers
                .iter()
                .map(|layer| layer.listed.get(number).unwrap_or(&layer.otherwise));
            (*number, decide(rules))
        });
        Self {
            listed: listed.collect(),
            otherwise: decide(layers.iter().map(|layer| &layer.otherwise)),
        }
    }

    pub(crate) fn always(action: Action) -> Self {
        Self {
            listed: BTreeMap::new(),
            otherwise: Rule::always(action),
        }
    }
}

/// The strictest first. What comes after a rule without a condition is never looked at.
fn decide<'a>(rules: impl Iterator<Item = &'a Vec<Rule>>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = rules.flatten().cloned().collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.action.strictness()));
    if let Some(end) = rules.iter().position(|rule| rule.tests.is_empty()) {
        rules.truncate(end + 1);
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contains(values: &Values, value: u32) -> bool {
        let mut ranges = values.ranges().iter();
        ranges.any(|(first, last)| (*first..=*last).contains(&value))
    }

    proptest! {
        #[test]
        fn a_value_is_either_in_a_set_or_among_the_others(
            listed in prop::collection::vec(prop_oneof![0u32..12, Just(u32::MAX), Just(u32::MAX - 1), any::<u32>()], 0..8),
            probe in prop_oneof![0u32..14, (u32::MAX - 3)..=u32::MAX, any::<u32>()],
        ) {
            let values: Values = listed.iter().copied().collect();
            prop_assert_eq!(contains(&values, probe), listed.contains(&probe));
            prop_assert_eq!(contains(&values.others(), probe), !listed.contains(&probe));
            let ranges = values.ranges();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }

    #[test]
    fn the_strictest_rule_comes_first_and_the_latest_directive_decides_between_errors() {
        let mut latest = Layer::new(Abi::X86_64, Action::Allow);
        latest.add("read", Vec::new(), Action::Errno(5));
        let mut logs = Layer::new(Abi::X86_64, Action::Log);
        logs.set("close", Vec::new());
        let mut first = Layer::new(Abi::X86_64, Action::Allow);
        first.add("read", Vec::new(), Action::Errno(1));
        first.add("write", vec![Test::has_any(0, 1)], Action::Errno(1));
        let all = Decisions::of(&[latest, logs, first]);
        let actions = |call: &str| -> Vec<Action> {
            let number = names::number(call, Abi::X86_64).expect("a known call");
            let rules = all.listed.get(&number).unwrap_or(&all.otherwise);
            rules.iter().map(|rule| rule.action).collect()
        };
        assert_eq!(actions("read"), [Action::Errno(5)]);
        assert_eq!(actions("write"), [Action::Errno(1), Action::Log]);
        assert_eq!(actions("close"), []);
        assert_eq!(actions("mount"), [Action::Log]);
    }
}
