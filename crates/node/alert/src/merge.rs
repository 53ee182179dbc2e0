//! Floods: alerts that come again and again are told once, and then as a count.
//!
//! Pure: time is a number of milliseconds that the caller counts, and what has to be written is given back.
//!
//! Two alerts are alike when their kind, their source (component, instance, resource) and their text are the same, numbers
//! in the text not regarded: a line with a process id or a counter in it is the same complaint. The first of them is told
//! at once and opens a window. Those that follow within it are counted; when it ends, the last of them is told with the
//! count, and the next window begins. A window without one ends the flood. Quota alerts are never merged: each carries a
//! value, and their sequence of raise, continue and fall means something.
//!
//! Counts are written down in the transaction that moves the place in the journal on, so that a restart forgets none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::domain::{Alert, AlertKind};

use crate::text::without_numbers;

/// Different floods that are known at a time; with one more, the one whose window ends first is told.
pub(crate) const FLOODS_MAX: usize = 256;
/// So much of a text decides whether two alerts are alike.
const COMPARED_BYTES: usize = 256;

/// What makes two alerts alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(String);

impl Key {
    /// None for alerts that are never merged.
    fn of(kind: &AlertKind) -> Option<Self> {
        let (source, message) = match kind {
            AlertKind::SystemQuota { .. } | AlertKind::InstanceQuota { .. } => return None,
            AlertKind::ResourceAllocate {
                instance,
                resource,
                message,
            } => (format!("resource {instance} {resource}"), message),
            AlertKind::System { message } => ("system".to_owned(), message),
            AlertKind::Core { component, message } => (format!("core {component}"), message),
            AlertKind::Instance {
                instance,
                version,
                message,
            } => (format!("instance {instance} {version}"), message),
        };
        let text = without_numbers(message, COMPARED_BYTES);
        Some(Self(format!("{source}\0{text}")))
    }

    pub(crate) fn from_text(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Alerts that were counted and not told yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repeats {
    pub(crate) count: u64,
    pub(crate) last: Alert,
}

impl Repeats {
    /// One alert for all of them.
    fn told(self) -> Alert {
        let mut alert = self.last;
        if self.count > 1 {
            let message = match &mut alert.kind {
                AlertKind::ResourceAllocate { message, .. }
                | AlertKind::System { message }
                | AlertKind::Core { message, .. }
                | AlertKind::Instance { message, .. } => message,
                AlertKind::SystemQuota { .. } | AlertKind::InstanceQuota { .. } => return alert,
            };
            message.push_str(&format!(" (the last of {} alike)", self.count));
        }
        alert
    }
}

#[derive(Debug, Clone)]
struct Flood {
    /// When the window ends.
    ends: u64,
    repeats: Option<Repeats>,
}

/// What is to be done after alerts came or time went by.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// To be kept for the controller, in this order.
    pub(crate) told: Vec<Alert>,
    /// Floods whose counts have changed.
    pub(crate) counted: BTreeSet<Key>,
}

/// All floods.
#[derive(Debug)]
pub(crate) struct Merger {
    window: u64,
    floods: BTreeMap<Key, Flood>,
}

impl Merger {
    /// Goes on with counts that were written down; their windows begin now.
    pub(crate) fn new(window: Duration, now: u64, counted: BTreeMap<Key, Repeats>) -> Self {
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let ends = now.saturating_add(window);
        let flood = |repeats| Flood {
            ends,
            repeats: Some(repeats),
        };
        let floods = counted
            .into_iter()
            .map(|(key, repeats)| (key, flood(repeats)))
            .collect();
        Self { window, floods }
    }

    /// An alert came.
    pub(crate) fn offer(&mut self, now: u64, alert: Alert, outcome: &mut Outcome) {
        let Some(key) = Key::of(&alert.kind) else {
            outcome.told.push(alert);
            return;
        };
        self.end_windows(now, outcome);
        if let Some(flood) = self.floods.get_mut(&key) {
            let count = flood.repeats.as_ref().map_or(0, |repeats| repeats.count);
            flood.repeats = Some(Repeats {
                count: count + 1,
                last: alert,
            });
            outcome.counted.insert(key);
            return;
        }
        if self.floods.len() >= FLOODS_MAX {
            self.end_earliest(outcome);
        }
        let flood = Flood {
            ends: now.saturating_add(self.window),
            repeats: None,
        };
        self.floods.insert(key, flood);
        outcome.told.push(alert);
    }

    /// Tells what was counted in windows that are over.
    pub(crate) fn end_windows(&mut self, now: u64, outcome: &mut Outcome) {
        let over: Vec<Key> = self
            .floods
            .iter()
            .filter(|(_, flood)| flood.ends <= now)
            .map(|(key, _)| key.clone())
            .collect();
        for key in over {
            if self.tell(&key, outcome) {
                let ends = now.saturating_add(self.window);
                self.floods.insert(
                    key,
                    Flood {
                        ends,
                        repeats: None,
                    },
                );
            }
        }
    }

    /// When the next window ends.
    pub(crate) fn next_end(&self) -> Option<u64> {
        self.floods.values().map(|flood| flood.ends).min()
    }

    /// What was counted under a key and is not told yet.
    pub(crate) fn repeats(&self, key: &Key) -> Option<&Repeats> {
        self.floods.get(key)?.repeats.as_ref()
    }

    fn end_earliest(&mut self, outcome: &mut Outcome) {
        let earliest = self.floods.iter().min_by_key(|(_, flood)| flood.ends);
        if let Some(key) = earliest.map(|(key, _)| key.clone()) {
            self.tell(&key, outcome);
        }
    }

    /// Forgets a flood; whether it had anything to tell.
    fn tell(&mut self, key: &Key, outcome: &mut Outcome) -> bool {
        let repeats = self.floods.remove(key).and_then(|flood| flood.repeats);
        let Some(repeats) = repeats else {
            return false;
        };
        outcome.told.push(repeats.told());
        outcome.counted.insert(key.clone());
        true
    }
}

#[cfg(test)]
mod tests;
