//! All rules of a node or an instance.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use muster_api::domain::{AlertRules, AlertStatus, QuotaParameter};

use super::{Measured, Rule, Watchdog};

/// Something to be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) parameter: QuotaParameter,
    pub(crate) value: u64,
    pub(crate) status: AlertStatus,
}

/// All rules of a node or an instance, and where they stand.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleSet {
    rules: BTreeMap<QuotaParameter, Watchdog>,
}

/// One rule per parameter; of several for one partition the last counts.
fn by_parameter(rules: &AlertRules) -> BTreeMap<QuotaParameter, Rule> {
    let percents = [
        (QuotaParameter::Cpu, rules.cpu),
        (QuotaParameter::Ram, rules.ram),
    ];
    let points = [
        (QuotaParameter::Download, rules.download),
        (QuotaParameter::Upload, rules.upload),
    ];
    let percents = percents
        .into_iter()
        .filter_map(|(parameter, rule)| Some((parameter, Rule::Percent(rule?))));
    let points = points
        .into_iter()
        .filter_map(|(parameter, rule)| Some((parameter, Rule::Points(rule?))));
    let partitions = rules.partitions.iter().map(|(name, rule)| {
        let parameter = QuotaParameter::Partition(name.clone());
        (parameter, Rule::Percent(*rule))
    });
    percents.chain(points).chain(partitions).collect()
}

impl RuleSet {
    /// From now on these. A rule that is the same goes on as it stands; alerts of the others fall.
    #[must_use]
    pub(crate) fn replace(&mut self, rules: &AlertRules) -> Vec<Change> {
        let mut wanted = by_parameter(rules);
        let same = |parameter: &QuotaParameter, watchdog: &mut Watchdog| {
            wanted.get(parameter) == Some(&watchdog.rule)
        };
        let gone: BTreeMap<_, _> = self
            .rules
            .extract_if(.., |parameter, watchdog| !same(parameter, watchdog))
            .collect();
        for (parameter, rule) in std::mem::take(&mut wanted) {
            if let Entry::Vacant(vacant) = self.rules.entry(parameter) {
                vacant.insert(Watchdog::new(rule));
            }
        }
        Self { rules: gone }.end()
    }

    /// There is nothing to be checked any more: what is open falls.
    #[must_use]
    pub(crate) fn end(self) -> Vec<Change> {
        let open = self.rules.into_iter().filter(|(_, rule)| rule.is_open());
        let fall = |(parameter, watchdog): (QuotaParameter, Watchdog)| Change {
            parameter,
            value: watchdog.value,
            status: AlertStatus::Fall,
        };
        open.map(fall).collect()
    }

    /// Checks the values, so long after those before. A value that is absent changes nothing.
    #[must_use]
    pub(crate) fn step(
        &mut self,
        elapsed: Duration,
        value: impl Fn(&QuotaParameter) -> Option<Measured>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (parameter, watchdog) in &mut self.rules {
            let Some(measured) = value(parameter) else {
                continue;
            };
            if let Some(status) = watchdog.step(elapsed, measured) {
                changes.push(Change {
                    parameter: parameter.clone(),
                    value: measured.value,
                    status,
                });
            }
        }
        changes
    }
}
