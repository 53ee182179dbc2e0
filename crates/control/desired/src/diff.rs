//! What one desired status changes about another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use muster_api::domain::{ItemId, NodeId, SubjectId};

use crate::document::{DesiredStatus, InstancesKey};

/// What is changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangedObject {
    /// Whether a node is paused.
    Node(NodeId),
    /// The configuration of the Unit.
    UnitConfig,
    /// The version, source, kind or owner of an item.
    Item(ItemId),
    /// How an item runs for a subject.
    Instances(InstancesKey),
    /// What is known of a subject.
    Subject(SubjectId),
    /// A variable, for the instances that the text names.
    EnvVar {
        /// `all instances`, or `item web, subject local, number 0`.
        instances: String,
        /// Which variable.
        name: String,
    },
    /// Certificates and chains.
    Trust,
}

impl ChangedObject {
    /// `node`, `unitConfig`, `item`, `instance`, `subject`, `envVar` or `certificates`, as tools get it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Node(_) => "node",
            Self::UnitConfig => "unitConfig",
            Self::Item(_) => "item",
            Self::Instances(_) => "instance",
            Self::Subject(_) => "subject",
            Self::EnvVar { .. } => "envVar",
            Self::Trust => "certificates",
        }
    }

    /// Which one of its kind.
    pub fn name(&self) -> String {
        match self {
            Self::Node(node) => node.to_string(),
            Self::UnitConfig | Self::Trust => String::new(),
            Self::Item(item) => item.to_string(),
            Self::Instances(key) => format!("{} for {}", key.item, key.subject),
            Self::Subject(subject) => subject.to_string(),
            Self::EnvVar { instances, name } => format!("{name} of {instances}"),
        }
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Of what.
    pub object: ChangedObject,
    /// How it is, and how it will be.
    pub change: Change,
}

/// How something is, and how it will be, in words. Values of variables are not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It was not there.
    Added {
        /// How it will be.
        after: String,
    },
    /// It will not be there.
    Removed {
        /// How it is.
        before: String,
    },
    /// It becomes another.
    Changed {
        /// How it is.
        before: String,
        /// How it will be.
        after: String,
    },
}

impl Change {
    /// `add`, `remove` or `change`, as tools get it.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Added { .. } => "add",
            Self::Removed { .. } => "remove",
            Self::Changed { .. } => "change",
        }
    }

    /// How it is; empty for what is added.
    pub fn before(&self) -> &str {
        match self {
            Self::Added { .. } => "",
            Self::Removed { before } | Self::Changed { before, .. } => before,
        }
    }

    /// How it will be; empty for what is removed.
    pub fn after(&self) -> &str {
        match self {
            Self::Removed { .. } => "",
            Self::Added { after } | Self::Changed { after, .. } => after,
        }
    }
}

impl fmt::Display for Difference {
    /// One line, as in other tools: `+` comes, `-` goes, `~` changes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.change {
            Change::Added { .. } => '+',
            Change::Removed { .. } => '-',
            Change::Changed { .. } => '~',
        };
        write!(f, "{sign} {}", self.object.kind())?;
        let name = self.object.name();
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        match &self.change {
            Change::Added { after: text } | Change::Removed { before: text } => {
                write!(f, ": {text}")
            }
            Change::Changed { before, after } => write!(f, ": {before} -> {after}"),
        }
    }
}

/// Everything that `new` changes, by kind and name. Empty exactly if both are equal.
pub fn diff(old: &DesiredStatus, new: &DesiredStatus) -> Vec<Difference> {
    let mut found = Vec::new();
    let pause = |paused: &bool| if *paused { "paused" } else { "in use" }.to_owned();
    compare(&mut found, old.nodes(), new.nodes(), pause, |node| {
        ChangedObject::Node(node.clone())
    });
    let configs = |it: &DesiredStatus| -> BTreeMap<(), (String, String)> {
        let config = it.unit_config().into_iter();
        config
            .map(|it| ((), (it.version().to_owned(), it.json().to_owned())))
            .collect()
    };
    let version = |(version, _): &(String, String)| format!("version {version}");
    compare(&mut found, &configs(old), &configs(new), version, |()| {
        ChangedObject::UnitConfig
    });
    compare(&mut found, old.items(), new.items(), display, |item| {
        ChangedObject::Item(item.clone())
    });
    compare(
        &mut found,
        old.instances(),
        new.instances(),
        display,
        |key| ChangedObject::Instances(key.clone()),
    );
    compare(&mut found, old.subjects(), new.subjects(), display, |id| {
        ChangedObject::Subject(id.clone())
    });
    let set = |_: &String| "(set)".to_owned();
    compare(
        &mut found,
        &variables(old),
        &variables(new),
        set,
        |(instances, name)| ChangedObject::EnvVar {
            instances: instances.clone(),
            name: name.clone(),
        },
    );
    if found.is_empty() && old.env() != new.env() {
        // The same variables in another grouping or order, which may change which of two counts.
        let object = ChangedObject::EnvVar {
            instances: "all instances".to_owned(),
            name: "the order".to_owned(),
        };
        let (before, after) = ("as it was".to_owned(), "another".to_owned());
        let change = Change::Changed { before, after };
        found.push(Difference { object, change });
    }
    if old.trust() != new.trust() {
        let count = |it: &DesiredStatus| {
            let trust = it.trust();
            let (certificates, chains) = (trust.certificates.len(), trust.chains.len());
            format!("{certificates} in {chains} chains")
        };
        let (before, after) = (count(old), count(new));
        found.push(Difference {
            object: ChangedObject::Trust,
            change: Change::Changed { before, after },
        });
    }
    found
}

fn display(value: &impl fmt::Display) -> String {
    value.to_string()
}

/// By whom they are for and name. Two entries for the same instances are one here.
fn variables(desired: &DesiredStatus) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for (entry, shown) in desired.document().env.into_iter().zip(desired.env()) {
        let parts: Vec<String> = [
            entry.item.map(|it| format!("item {it}")),
            entry.subject.map(|it| format!("subject {it}")),
            entry.instance.map(|it| format!("number {it}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        let instances = match parts.is_empty() {
            true => "all instances".to_owned(),
            false => parts.join(", "),
        };
        for variable in &shown.variables {
            let key = (instances.clone(), variable.name().to_string());
            found.insert(key, variable.value().to_owned());
        }
    }
    found
}

fn compare<K: Ord + Clone, V: PartialEq>(
    found: &mut Vec<Difference>,
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
    show: impl Fn(&V) -> String,
    object: impl Fn(&K) -> ChangedObject,
) {
    let keys: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let change = match (old.get(key), new.get(key)) {
            (None, Some(after)) => Change::Added { after: show(after) },
            (Some(before), None) => Change::Removed {
                before: show(before),
            },
            (Some(before), Some(after)) if before != after => {
                let (before, mut after) = (show(before), show(after));
                if before == after {
                    // The words do not tell everything.
                    after.push_str(" with other settings");
                }
                Change::Changed { before, after }
            }
            _ => continue,
        };
        let object = object(key);
        found.push(Difference { object, change });
    }
}

#[cfg(test)]
mod tests;
