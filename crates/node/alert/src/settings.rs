//! How much is kept, and what becomes an alert.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

pub use muster_store::spool::Limits;

/// How alerts are taken and kept.
#[derive(Debug, Clone)]
pub struct AlertSettings {
    /// How much is kept while the controller is away.
    pub keep: Limits,
    /// Alerts that differ from an earlier one in numbers only are counted for so long, and then told as one.
    pub merge_window: Duration,
    /// Alerts that wait to be written before raising one loses it.
    pub queue: usize,
    /// A longer text is cut.
    pub message_bytes: usize,
}

impl Default for AlertSettings {
    fn default() -> Self {
        Self {
            keep: Limits {
                entries: 10_000,
                bytes: 4 << 20,
            },
            merge_window: Duration::from_secs(10),
            queue: 256,
            message_bytes: 8 << 10,
        }
    }
}

/// Where the journal is, and which of its entries are alerts.
#[derive(Debug, Clone)]
pub struct JournalSettings {
    /// Folders of journal files, journald's or the log daemon's; those that do not exist yet are looked for.
    pub dirs: Vec<PathBuf>,
    /// Entries of this syslog priority or a lower number are alerts.
    pub system_priority: u8,
    /// The same for `service_units` and for what the init system says about units.
    pub service_priority: u8,
    /// Units whose entries are alerts by `service_priority`.
    pub service_units: BTreeSet<String>,
    /// Units that are managers of the node, with the names that the controller knows them by.
    pub core_components: BTreeMap<String, String>,
    /// Regular expressions; entries whose text matches one are no alerts.
    pub filters: Vec<String>,
}

impl Default for JournalSettings {
    fn default() -> Self {
        let components = [
            ("muster-cm.service", "CM"),
            ("muster-iam.service", "IAM"),
            ("muster-mp.service", "MP"),
            ("muster-sm.service", "SM"),
        ];
        let core_components: BTreeMap<String, String> = components
            .map(|(unit, component)| (unit.to_owned(), component.to_owned()))
            .into();
        let managers = ["init.scope".to_owned()].into_iter();
        Self {
            dirs: vec!["/run/log/journal".into(), "/var/log/journal".into()],
            system_priority: 3,
            service_priority: 4,
            service_units: core_components.keys().cloned().chain(managers).collect(),
            core_components,
            filters: Vec::new(),
        }
    }
}
