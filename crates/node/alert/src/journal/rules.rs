//! Which entries of the journal are alerts, and of what kind. Pure.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::{Alert, AlertKind, Timestamp};
use muster_journal::{Entry, Matches, ReadError};
use regex::{RegexSet, RegexSetBuilder};

use crate::instances::InstanceUnits;
use crate::settings::JournalSettings;
use crate::text::printable;

/// Filters at most.
pub const FILTERS_MAX: usize = 64;
/// Bytes of one filter at most.
pub const FILTER_BYTES_MAX: usize = 1024;
/// Bytes that all compiled filters may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Bytes that filters may take while they are matched.
const MATCHING_BYTES_MAX: usize = 256 << 10;
/// The lowest syslog priority.
const PRIORITY_MAX: u8 = 7;
/// Stands in every log line of this crate. An alert about them would bring forth the next line.
const OWN_LINES: &str = env!("CARGO_CRATE_NAME");
/// What the init system of this project calls itself in the log.
const CORE: &str = "muster-core";

/// Why settings of the journal make no sense.
#[derive(Debug, thiserror::Error)]
pub enum JournalSettingsError {
    /// A priority is none.
    #[error("{name} is {found}, where syslog knows 0 (emergency) to {PRIORITY_MAX} (debug)")]
    Priority {
        /// Which setting.
        name: &'static str,
        /// What it is.
        found: u8,
    },
    /// There are too many filters.
    #[error("there are {found} filters, and at most {FILTERS_MAX} are possible")]
    TooManyFilters {
        /// How many there are.
        found: usize,
    },
    /// A filter is too long.
    #[error(
        "filter number {number} has {found} bytes, and at most {FILTER_BYTES_MAX} are possible"
    )]
    LongFilter {
        /// Which, from 1.
        number: usize,
        /// How long it is.
        found: usize,
    },
    /// A filter is no regular expression, or all together are too complex.
    #[error("the filters cannot be used")]
    Filters(#[source] Box<regex::Error>),
}

/// The settings, ready to be applied.
#[derive(Debug)]
pub(crate) struct Rules {
    system_priority: u8,
    service_priority: u8,
    service_units: BTreeSet<String>,
    core_components: BTreeMap<String, String>,
    filters: Option<RegexSet>,
    message_bytes: usize,
}

/// What an entry says, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) message: Vec<u8>,
    pub(crate) priority: Option<u8>,
    /// The unit that it comes from, by the log daemon's word.
    pub(crate) unit: Option<String>,
    /// The unit that it is about, by the sender's word.
    pub(crate) about: Option<String>,
    pub(crate) identifier: Option<String>,
    pub(crate) pid: Option<String>,
    pub(crate) uid: Option<String>,
}

impl Record {
    /// Reads an entry, at most `max` bytes of each field.
    pub(crate) fn read(entry: &Entry, max: usize) -> Result<Self, ReadError> {
        let mut record = Self::default();
        entry.each_field_start(max, |field, _| {
            record.take(field);
            true
        })?;
        Ok(record)
    }

    fn take(&mut self, field: &[u8]) {
        let Some(equals) = field.iter().position(|byte| *byte == b'=') else {
            return;
        };
        let value = &field[equals + 1..];
        let text = || Some(String::from_utf8_lossy(value).into_owned());
        match &field[..equals] {
            b"MESSAGE" => self.message = value.to_vec(),
            b"PRIORITY" => self.priority = text().and_then(|text| text.parse().ok()),
            b"_SYSTEMD_UNIT" => self.unit = text(),
            b"UNIT" | b"OBJECT_SYSTEMD_UNIT" | b"COREDUMP_UNIT" => self.about = text(),
            b"SYSLOG_IDENTIFIER" => self.identifier = text(),
            b"_PID" => self.pid = text(),
            b"_UID" => self.uid = text(),
            _ => {}
        }
    }

    /// Whether the sender's word about other units counts: process 1, and what runs as root beside it.
    fn is_trusted(&self) -> bool {
        self.pid.as_deref() == Some("1") || self.uid.as_deref() == Some("0")
    }

    fn is_of_core(&self) -> bool {
        self.identifier.as_deref() == Some(CORE) && self.is_trusted()
    }
}

impl Rules {
    pub(crate) fn new(
        settings: &JournalSettings,
        message_bytes: usize,
    ) -> Result<Self, JournalSettingsError> {
        for (name, found) in [
            ("the priority of system alerts", settings.system_priority),
            ("the priority of service alerts", settings.service_priority),
        ] {
            if found > PRIORITY_MAX {
                return Err(JournalSettingsError::Priority { name, found });
            }
        }
        Ok(Self {
            system_priority: settings.system_priority,
            service_priority: settings.service_priority,
            service_units: settings.service_units.clone(),
            core_components: settings.core_components.clone(),
            filters: filters(&settings.filters)?,
            message_bytes,
        })
    }

    pub(crate) fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// The entries that may be alerts; the journal finds them without looking at the others.
    pub(crate) fn matches(&self) -> Matches {
        let mut matches = Matches::new();
        let priorities = |matches: &mut Matches, below: u8| {
            for priority in 0..=below {
                matches.add(format!("PRIORITY={priority}").as_bytes());
            }
        };
        priorities(&mut matches, self.system_priority);
        if self.service_priority > self.system_priority {
            matches.or();
            priorities(&mut matches, self.service_priority);
            matches.add(format!("SYSLOG_IDENTIFIER={CORE}").as_bytes());
            if !self.service_units.is_empty() {
                matches.or();
                priorities(&mut matches, self.service_priority);
                for unit in &self.service_units {
                    matches.add(format!("_SYSTEMD_UNIT={unit}").as_bytes());
                }
            }
        }
        matches
    }

    /// The alert that an entry is.
    pub(crate) fn classify(
        &self,
        record: &Record,
        realtime: u64,
        units: &dyn InstanceUnits,
    ) -> Option<Alert> {
        let is_service = record.is_of_core()
            || record
                .unit
                .as_ref()
                .is_some_and(|unit| self.service_units.contains(unit));
        let limit = match is_service {
            true => self.service_priority.max(self.system_priority),
            false => self.system_priority,
        };
        if record.priority? > limit {
            return None;
        }
        let text = printable(&record.message);
        let about = record.about.as_ref().filter(|_| record.is_trusted());
        let unit = about.or(record.unit.as_ref());
        let component = unit.and_then(|unit| self.core_components.get(unit));
        if component.is_some() && text.contains(OWN_LINES) {
            return None;
        }
        if self.filters.as_ref().is_some_and(|set| set.is_match(&text)) {
            return None;
        }
        let kind = if let Some(instance) = unit.and_then(|unit| units.by_unit(unit)) {
            AlertKind::Instance {
                instance: instance.ident,
                version: instance.version,
                message: text,
            }
        } else if let Some(component) = component {
            AlertKind::Core {
                component: component.clone(),
                message: text,
            }
        } else {
            let source = unit.or(record.identifier.as_ref());
            AlertKind::System {
                message: match source {
                    Some(source) => format!("{source}: {text}"),
                    None => text,
                },
            }
        };
        Some(Alert {
            timestamp: timestamp(realtime)?,
            kind,
        })
    }
}

fn filters(filters: &[String]) -> Result<Option<RegexSet>, JournalSettingsError> {
    if filters.len() > FILTERS_MAX {
        let found = filters.len();
        return Err(JournalSettingsError::TooManyFilters { found });
    }
    for (index, filter) in filters.iter().enumerate() {
        if filter.len() > FILTER_BYTES_MAX {
            return Err(JournalSettingsError::LongFilter {
                number: index + 1,
                found: filter.len(),
            });
        }
    }
    if filters.is_empty() {
        return Ok(None);
    }
    let set = RegexSetBuilder::new(filters)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(MATCHING_BYTES_MAX)
        .build();
    set.map(Some)
        .map_err(|error| JournalSettingsError::Filters(Box::new(error)))
}

/// None for a time that no entry has unless its file is damaged.
fn timestamp(realtime: u64) -> Option<Timestamp> {
    let time = std::time::UNIX_EPOCH.checked_add(std::time::Duration::from_micros(realtime))?;
    Timestamp::try_from(time).ok()
}

#[cfg(test)]
mod tests;
