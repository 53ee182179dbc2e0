//! Which names are watched, and what has been reported about each.

use std::collections::BTreeMap;

use serde::Serialize;

/// The most names that are watched.
pub const MOST_NAMES: usize = 4096;

/// Who owns a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The unique name of its connection.
    pub connection: String,
    /// Its process, if the bus says so.
    pub pid: Option<u32>,
}

/// A line for core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Report {
    /// Who owns a name now.
    Owner {
        /// The name.
        name: String,
        /// The unique name of the owner's connection.
        owner: Option<String>,
        /// The owner's process.
        pid: Option<u32>,
    },
    /// Nothing is known about a name, or a command was refused.
    Error {
        /// The name, if it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Why.
        error: String,
    },
}

impl Report {
    fn owner(name: &str, owner: Option<&Owner>) -> Self {
        Self::Owner {
            name: name.to_owned(),
            owner: owner.map(|owner| owner.connection.clone()),
            pid: owner.and_then(|owner| owner.pid),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reported {
    Nothing,
    Owner(Option<Owner>),
    NoBus,
}

/// The names that are watched.
#[derive(Debug, Default)]
pub struct Watches {
    names: BTreeMap<String, Reported>,
}

impl Watches {
    /// Watches a name. One that is watched already will be reported again. False if there are too many.
    #[must_use]
    pub fn add(&mut self, name: String) -> bool {
        if self.names.len() >= MOST_NAMES && !self.names.contains_key(&name) {
            return false;
        }
        self.names.insert(name, Reported::Nothing);
        true
    }

    /// Watches a name no longer; whether it was watched.
    pub fn remove(&mut self, name: &str) -> bool {
        self.names.remove(name).is_some()
    }

    /// Whether a name is watched.
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Whether no name is watched.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// A name has this owner now; what to report, if that is news.
    pub fn owner_is(&mut self, name: &str, owner: Option<Owner>) -> Option<Report> {
        let reported = self.names.get_mut(name)?;
        let now = Reported::Owner(owner);
        if *reported == now {
            return None;
        }
        *reported = now;
        match reported {
            Reported::Owner(owner) => Some(Report::owner(name, owner.as_ref())),
            Reported::Nothing | Reported::NoBus => None,
        }
    }

    /// There is no bus; a report for each name that does not know yet.
    pub fn no_bus(&mut self, why: &str) -> Vec<Report> {
        let news = self
            .names
            .iter_mut()
            .filter(|(_, reported)| **reported != Reported::NoBus);
        news.map(|(name, reported)| {
            *reported = Reported::NoBus;
            Report::Error {
                name: Some(name.clone()),
                error: why.to_owned(),
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(connection: &str) -> Option<Owner> {
        Some(Owner {
            connection: connection.to_owned(),
            pid: Some(7),
        })
    }

    fn json(report: Option<Report>) -> String {
        report.map_or(String::new(), |report| {
            serde_json::to_string(&report).unwrap()
        })
    }

    #[test]
    fn only_news_is_reported() {
        let mut watches = Watches::default();
        assert!(watches.add("a.b".to_owned()));
        assert_eq!(
            json(watches.owner_is("a.b", None)),
            r#"{"name":"a.b","owner":null,"pid":null}"#
        );
        assert_eq!(watches.owner_is("a.b", None), None);
        assert_eq!(
            json(watches.owner_is("a.b", owner(":1.7"))),
            r#"{"name":"a.b","owner":":1.7","pid":7}"#
        );
        assert_eq!(watches.owner_is("a.b", owner(":1.7")), None);
        assert_eq!(watches.owner_is("c.d", owner(":1.7")), None);
    }

    #[test]
    fn name_that_is_watched_again_is_reported_again() {
        let mut watches = Watches::default();
        for _ in 0..2 {
            assert!(watches.add("a.b".to_owned()));
            assert!(watches.owner_is("a.b", owner(":1.7")).is_some());
        }
        assert!(watches.remove("a.b"));
        assert!(!watches.remove("a.b"));
        assert_eq!(watches.owner_is("a.b", None), None);
    }

    #[test]
    fn loss_of_the_bus_is_reported_once_for_each_name() {
        let mut watches = Watches::default();
        assert!(watches.add("a.b".to_owned()));
        watches.owner_is("a.b", owner(":1.7"));
        assert!(watches.add("c.d".to_owned()));
        let reports = watches.no_bus("gone");
        assert_eq!(reports.len(), 2);
        assert_eq!(
            json(reports.into_iter().next()),
            r#"{"name":"a.b","error":"gone"}"#
        );
        assert_eq!(watches.no_bus("still gone"), []);
        assert!(watches.add("e.f".to_owned()));
        assert_eq!(watches.no_bus("still gone").len(), 1);
        // The owner may be the same; whoever was told that nothing is known wants to hear it.
        assert!(watches.owner_is("a.b", owner(":1.7")).is_some());
    }

    #[test]
    fn number_of_names_is_bounded() {
        let mut watches = Watches::default();
        for number in 0..MOST_NAMES {
            assert!(watches.add(format!("a.b{number}")));
        }
        assert!(!watches.add("c.d".to_owned()));
        assert!(watches.add("a.b0".to_owned()));
    }
}
