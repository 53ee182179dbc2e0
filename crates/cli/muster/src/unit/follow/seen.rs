//! What is known of an update that is under way.

use std::collections::BTreeMap;

use muster_control_api::v1;

use super::super::UnitCommandError;
use super::super::facts::{InstanceFacts, ItemFacts, Listed as _};
use crate::text::shown;

/// An update, put together from what has changed about it.
#[derive(Debug)]
pub(super) struct Seen {
    id: u64,
    step: String,
    items: BTreeMap<String, ItemFacts>,
    instances: BTreeMap<String, InstanceFacts>,
    failures: Vec<String>,
    done: bool,
    superseded: bool,
}

impl Seen {
    /// 0 for the current one, whose number is not known yet.
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            step: String::new(),
            items: BTreeMap::new(),
            instances: BTreeMap::new(),
            failures: Vec::new(),
            done: false,
            superseded: false,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn step(&self) -> &str {
        &self.step
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &ItemFacts> {
        self.items.values()
    }

    pub(super) fn instances(&self) -> impl Iterator<Item = &InstanceFacts> {
        self.instances.values()
    }

    pub(super) fn is_over(&self) -> bool {
        self.done || self.superseded
    }

    /// Takes what has changed, and says what of it is news.
    pub(super) fn take(&mut self, progress: v1::UpdateProgress) -> Vec<String> {
        let mut news = Vec::new();
        if self.id == 0 {
            self.id = progress.update_id;
        }
        if self.step != progress.step && !progress.done {
            news.push(shown(&progress.step));
        }
        self.step = progress.step;
        for item in progress.items.into_iter().map(ItemFacts::from) {
            let known = self.items.get(&item.key());
            if known.is_none_or(|known| known.state != item.state) {
                let (id, version) = (&item.id, &item.version);
                news.push(shown(&format!("item {id} {version}: {}", item.state)));
            }
            self.items.insert(item.key(), item);
        }
        for instance in progress.instances.into_iter().map(InstanceFacts::from) {
            let known = self.instances.get(&instance.name);
            let same = |it: &InstanceFacts| {
                (&it.state, &it.node, &it.version)
                    == (&instance.state, &instance.node, &instance.version)
            };
            if !known.is_some_and(same) {
                news.push(line(&instance));
            }
            self.instances.insert(instance.name.clone(), instance);
        }
        self.failures = progress.failures;
        self.done = progress.done;
        self.superseded = progress.superseded;
        news
    }

    pub(super) fn active(&self) -> usize {
        let active = |it: &&InstanceFacts| it.state == "active";
        self.instances.values().filter(active).count()
    }

    /// Whether it ended as it was meant to.
    pub(super) fn judge(&self) -> Result<(), UnitCommandError> {
        let id = self.id;
        if self.superseded {
            return Err(UnitCommandError::Superseded { id });
        }
        if !self.failures.is_empty() {
            let failures = self.failures.iter().map(|it| shown(it)).collect();
            return Err(UnitCommandError::UpdateFailed { id, failures });
        }
        Ok(())
    }

    pub(super) fn summary(&self) -> String {
        match self.id {
            0 => "Nothing is wanted.".to_owned(),
            id => format!(
                "Update {id} is done: {} of {} instances active.",
                self.active(),
                self.instances.len()
            ),
        }
    }
}

fn line(instance: &InstanceFacts) -> String {
    let place = match &instance.node {
        Some(node) => format!(" on {node}"),
        None => String::new(),
    };
    let why = match &instance.error {
        Some(error) => format!(": {}", error.message),
        None => String::new(),
    };
    let (name, state) = (&instance.name, &instance.state);
    shown(&format!("instance {name}: {state}{place}{why}"))
}

#[cfg(test)]
mod tests {
    use muster_api::common::v2::InstanceIdent;

    use super::*;

    fn progress(step: &str, states: &[&str]) -> v1::UpdateProgress {
        let instance = |(nth, state): (usize, &&str)| v1::Instance {
            ident: Some(InstanceIdent {
                item_id: "web".into(),
                subject_id: "local".into(),
                instance: u64::try_from(nth).unwrap(),
                ..InstanceIdent::default()
            }),
            node_id: "n1".into(),
            state: (*state).into(),
            ..v1::Instance::default()
        };
        v1::UpdateProgress {
            update_id: 7,
            step: step.into(),
            instances: states.iter().enumerate().map(instance).collect(),
            ..v1::UpdateProgress::default()
        }
    }

    #[test]
    fn only_what_has_changed_is_news() {
        let mut seen = Seen::new(0);
        let first = seen.take(progress("launching", &["activating", "active"]));
        assert_eq!(
            first,
            [
                "launching",
                "instance web/local/0: activating on n1",
                "instance web/local/1: active on n1"
            ]
        );
        assert_eq!(
            seen.take(progress("launching", &["activating", "active"])),
            [""; 0]
        );
        let then = seen.take(progress("launching", &["active"]));
        assert_eq!(then, ["instance web/local/0: active on n1"]);
        assert_eq!((seen.id(), seen.active()), (7, 2));
    }

    #[test]
    fn an_end_is_judged_by_what_failed_and_what_came_instead() {
        let mut seen = Seen::new(7);
        let mut end = progress("none", &[]);
        end.done = true;
        seen.take(end.clone());
        assert!(seen.is_over());
        seen.judge().unwrap();
        end.failures = vec!["web: no node has enough RAM".into()];
        seen.take(end.clone());
        let failed = seen.judge().unwrap_err().to_string();
        assert!(failed.contains("web: no node has enough RAM"), "{failed}");
        end.superseded = true;
        seen.take(end);
        let replaced = seen.judge().unwrap_err().to_string();
        assert!(replaced.contains("newer"), "{replaced}");
    }
}
