//! What is wanted: which time, which units.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use muster_alert::{InstanceUnits, instance_of_unit};
use muster_api::common::v2 as common;
use muster_api::domain::{
    ConvertError, InstanceFilter, InstanceIdent, ItemId, ItemType, SubjectId, Timestamp, Uuid,
};
use muster_journal::{FileSummary, Journal, Matches, ReadError};

use crate::error::CollectError;

/// Units that one answer is about, at most: each start of an instance is one.
const UNITS_MAX: usize = 4096;
/// Clocks are set. A file that ends or begins so many microseconds outside of the wanted time is looked at nevertheless.
const CLOCK_SLACK: u64 = 3600 * 1_000_000;

/// A time, in microseconds since 1970; both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: u64,
    pub(crate) till: u64,
}

impl Range {
    /// From and till a point in time; a bound that is not given is none.
    pub(crate) fn new(
        from: Option<prost_types::Timestamp>,
        till: Option<prost_types::Timestamp>,
    ) -> Result<Self, CollectError> {
        let micros = |bound: Option<prost_types::Timestamp>, default| match bound {
            None => Ok::<_, ConvertError>(default),
            Some(bound) => {
                let time = SystemTime::from(Timestamp::try_from(bound)?);
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
            }
        };
        let from = micros(from, 0).map_err(CollectError::Request)?;
        let till = micros(till, u64::MAX).map_err(CollectError::Request)?;
        match from <= till {
            true => Ok(Self { from, till }),
            false => Err(CollectError::Range),
        }
    }

    pub(crate) fn contains(self, realtime: u64) -> bool {
        (self.from..=self.till).contains(&realtime)
    }

    /// Whether a file can have entries of this time.
    pub(crate) fn touches(self, file: &FileSummary) -> bool {
        let (first, last) = file.realtime;
        file.n_entries > 0
            && first <= self.till.saturating_add(CLOCK_SLACK)
            // A file that is being written to has newer entries than its header said.
            && (last.saturating_add(CLOCK_SLACK) >= self.from
                || file.state != muster_journal::FileState::Archived)
    }
}

/// Instances that a filter means.
#[derive(Debug, Default)]
pub(crate) struct Meant {
    ids: BTreeSet<Uuid>,
    /// The node has one of them.
    pub(crate) is_known: bool,
}

impl Meant {
    pub(crate) fn new(
        filter: Option<common::InstanceFilter>,
        units: &dyn InstanceUnits,
    ) -> Result<Self, CollectError> {
        let named = filter.as_ref().and_then(named);
        let filter = filter.map(InstanceFilter::try_from).transpose();
        let filter = filter.map_err(CollectError::Request)?.unwrap_or_default();
        let found = units.find(&filter);
        let is_known = !found.is_empty();
        let ids = found.iter().map(|unit| unit.ident.instance_id());
        Ok(Self {
            ids: ids.chain(named).collect(),
            is_known,
        })
    }

    /// The units that ran one of them and left something in the journal.
    pub(crate) fn units(&self, journal: &Journal) -> Result<BTreeSet<String>, ReadError> {
        let mut units = BTreeSet::new();
        for field in ["_SYSTEMD_UNIT", "UNIT"] {
            journal.each_value(field.as_bytes(), |value| {
                let unit = std::str::from_utf8(value).unwrap_or_default();
                if instance_of_unit(unit).is_some_and(|id| self.ids.contains(&id)) {
                    units.insert(unit.to_owned());
                }
                units.len() < UNITS_MAX
            })?;
        }
        Ok(units)
    }
}

/// A filter that names one instance does so also when the node has it no more: the journal may still.
fn named(filter: &common::InstanceFilter) -> Option<Uuid> {
    let ident = InstanceIdent {
        item_id: ItemId::new(filter.item_id.as_str()).ok()?,
        subject_id: SubjectId::new(filter.subject_id.as_str()).ok()?,
        instance: u64::try_from(filter.instance).ok()?,
        // Neither is part of the id.
        item_type: ItemType::Service,
        preinstalled: false,
    };
    Some(ident.instance_id())
}

/// What units say, and what those that are trusted say about them.
pub(crate) fn lines_of(units: &BTreeSet<String>) -> Matches {
    let mut matches = Matches::new();
    add_each(&mut matches, "_SYSTEMD_UNIT", units);
    matches.or();
    add_words_about(&mut matches, units);
    matches
}

/// What the init system and whoever takes cores say about units.
pub(crate) fn words_about(units: &BTreeSet<String>) -> Matches {
    let mut matches = Matches::new();
    add_words_about(&mut matches, units);
    matches
}

/// What one run of a unit says, and what the init system says about it.
pub(crate) fn lines_of_run(unit: &str, invocation: Option<&str>) -> Matches {
    let Some(invocation) = invocation else {
        return lines_of(&BTreeSet::from([unit.to_owned()]));
    };
    let mut matches = Matches::new();
    matches.add(format!("_SYSTEMD_INVOCATION_ID={invocation}").as_bytes());
    matches.add(format!("_SYSTEMD_UNIT={unit}").as_bytes());
    matches.or();
    matches.add(format!("INVOCATION_ID={invocation}").as_bytes());
    matches.add(format!("UNIT={unit}").as_bytes());
    add_trust(&mut matches);
    matches
}

fn add_words_about(matches: &mut Matches, units: &BTreeSet<String>) {
    for field in ["UNIT", "COREDUMP_UNIT"] {
        matches.or();
        add_each(matches, field, units);
        add_trust(matches);
    }
}

/// Anybody can write `UNIT=`; the init system and what runs beside it as root are believed.
fn add_trust(matches: &mut Matches) {
    matches.add(b"_UID=0");
}

fn add_each(matches: &mut Matches, field: &str, units: &BTreeSet<String>) {
    for unit in units {
        matches.add(format!("{field}={unit}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_ends_before_it_begins_is_refused() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let range = Range::new(at(1), at(2)).expect("a range");
        assert_eq!((range.from, range.till), (1_000_000, 2_000_000));
        assert!(range.contains(1_000_000) && range.contains(2_000_000) && !range.contains(999_999));
        assert!(matches!(Range::new(at(2), at(1)), Err(CollectError::Range)));
        let all = Range::new(None, None).expect("everything");
        assert!(all.contains(0) && all.contains(u64::MAX));
    }
}
