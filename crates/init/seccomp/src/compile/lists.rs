//! Lists of calls: `SystemCallFilter=` and `SystemCallLog=`.

use std::collections::BTreeMap;

use super::rules::{Action, Layer, Rule, Test, Values};
use crate::arch::Abi;
use crate::names::{Listed, MULTIPLEXERS, Multiplexer};
use crate::policy::Refusal;

/// A list of calls, and what it means to be on it.
#[derive(Debug)]
pub(super) struct List {
    /// Each call that is listed, and what it comes to.
    calls: BTreeMap<&'static str, Action>,
    /// What every other call comes to.
    otherwise: Action,
}

impl List {
    /// `SystemCallFilter=`
    pub(super) fn of_refused(listed: &Listed, allow: bool, refusal: Refusal) -> Self {
        let calls = listed.calls.iter().map(|(call, own)| {
            let action = match own {
                Some(own) => (*own).into(),
                None if allow => Action::Allow,
                None => refusal.into(),
            };
            (*call, action)
        });
        Self {
            calls: calls.collect(),
            otherwise: if allow { refusal.into() } else { Action::Allow },
        }
    }

    /// `SystemCallLog=`: the listed ones are logged, or all but the listed ones.
    pub(super) fn of_logged(listed: &Listed, listed_are_logged: bool) -> Self {
        let (on_it, otherwise) = match listed_are_logged {
            true => (Action::Log, Action::Allow),
            false => (Action::Allow, Action::Log),
        };
        Self {
            calls: listed.calls.keys().map(|call| (*call, on_it)).collect(),
            otherwise,
        }
    }

    /// What it says about the calls of a table.
    pub(super) fn layer(&self, abi: Abi) -> Layer {
        let mut layer = Layer::new(abi, self.otherwise);
        if abi == Abi::X86 {
            for multiplexer in &MULTIPLEXERS {
                layer.set(multiplexer.name, self.choices(multiplexer));
            }
        }
        for (call, action) in &self.calls {
            layer.set(call, Rule::always(*action));
        }
        layer
    }

    /// What a call that stands for others comes to if it is not listed itself: what the chosen one comes to.
    fn choices(&self, multiplexer: &Multiplexer) -> Vec<Rule> {
        let mut chosen: BTreeMap<Action, Vec<u32>> = BTreeMap::new();
        for (number, call) in multiplexer.calls {
            if let Some(action) = self.calls.get(call) {
                chosen.entry(*action).or_default().push(*number);
            }
        }
        let rule = |values: Values, action: Action| Rule {
            tests: vec![Test {
                argument: 0,
                mask: multiplexer.mask,
                values,
            }],
            action,
        };
        let mut rules = Vec::new();
        if self.otherwise != Action::Allow {
            let listed: Values = chosen.values().flatten().copied().collect();
            rules.push(rule(listed.others(), self.otherwise));
        }
        for (action, numbers) in chosen {
            if action != Action::Allow {
                rules.push(rule(numbers.into_iter().collect(), action));
            }
        }
        rules
    }
}
