//! Use of disks: which place is measured when ([`Disks`], pure), and the measuring itself ([`Job`]).

mod measure;
mod walk;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{InstanceIdent, PartitionName};

pub(crate) use self::measure::{DiskUse, Job, MeasureError, Measurement, Report};
use crate::settings::DiskSettings;
use crate::watch::WatchedFolder;

/// What walks may take before there has been time to earn it, and the least that may be saved up: enough for many small folders,
/// and far too little to be noticed.
const BURST: Duration = Duration::from_millis(250);

/// A place that is measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlaceKey {
    /// Whose; the node's if `None`.
    pub(crate) owner: Option<InstanceIdent>,
    pub(crate) name: PartitionName,
}

#[derive(Debug)]
struct Place {
    path: Arc<Path>,
    /// The round it was measured in; 0 is never.
    round: u64,
    /// What was found then.
    found: Option<DiskUse>,
    /// What was last said about it in the log.
    said: Option<Remark>,
}

/// Something about a place for the log, said when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remark {
    /// It cannot be measured.
    Failed(MeasureError),
    /// It has more files, or is deeper, than is looked at.
    TooLarge,
}

/// Time that walks may take, in nanoseconds; below zero after a walk that took more than there was.
#[derive(Debug)]
struct Credit {
    balance: i128,
    most: i128,
    rest: u32,
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

impl Credit {
    fn new(rest: u32, period: Duration) -> Self {
        let earned = nanos(period) / (i128::from(rest) + 1);
        let most = earned.max(nanos(BURST));
        Self {
            balance: most,
            most,
            rest,
        }
    }

    fn earn(&mut self, elapsed: Duration) {
        let earned = nanos(elapsed) / (i128::from(self.rest) + 1);
        self.balance = self.balance.saturating_add(earned).min(self.most);
    }

    fn spend(&mut self, time: Duration) {
        self.balance = self.balance.saturating_sub(nanos(time));
    }

    fn allowance(&self) -> Duration {
        if self.rest == 0 {
            return Duration::MAX;
        }
        u64::try_from(self.balance).map_or(Duration::ZERO, Duration::from_nanos)
    }
}

/// All places, and what is known of them.
#[derive(Debug)]
pub(crate) struct Disks {
    places: BTreeMap<PlaceKey, Place>,
    credit: Credit,
    max_entries: u64,
    round: u64,
    /// A job was handed out and is not back.
    busy: bool,
}

impl Disks {
    pub(crate) fn new(settings: DiskSettings, period: Duration) -> Self {
        Self {
            places: BTreeMap::new(),
            credit: Credit::new(settings.rest, period),
            max_entries: settings.max_entries,
            round: 0,
            busy: false,
        }
    }

    /// From now on this place is measured too.
    fn add(&mut self, key: PlaceKey, path: &Path) {
        let known = self.places.get(&key);
        if known.is_some_and(|place| *place.path == *path) {
            return;
        }
        let place = Place {
            path: path.into(),
            round: 0,
            found: None,
            said: None,
        };
        self.places.insert(key, place);
    }

    /// A partition of the node.
    pub(crate) fn add_partition(&mut self, name: &PartitionName, path: &Path) {
        let key = PlaceKey {
            owner: None,
            name: name.clone(),
        };
        self.add(key, path);
    }

    /// From now on these are the instance's folders, and no others.
    pub(crate) fn set_folders(&mut self, instance: &InstanceIdent, folders: &[WatchedFolder]) {
        self.places.retain(|key, _| {
            key.owner.as_ref() != Some(instance)
                || folders.iter().any(|folder| folder.name == key.name)
        });
        for folder in folders {
            let key = PlaceKey {
                owner: Some(instance.clone()),
                name: folder.name.clone(),
            };
            self.add(key, &folder.path);
        }
    }

    /// What was last found at a place.
    pub(crate) fn found(&self, key: &PlaceKey) -> Option<DiskUse> {
        self.places.get(key)?.found
    }

    /// What to measure, so long after the last time: all partitions, and folders for as long as walks may take, those first
    /// that have waited longest. `None` while a job is out.
    pub(crate) fn plan(&mut self, elapsed: Duration) -> Option<Job> {
        self.credit.earn(elapsed);
        if self.busy || self.places.is_empty() {
            return None;
        }
        self.busy = true;
        self.round += 1;
        let item = |(key, place): (&PlaceKey, &Place)| (key.clone(), place.path.clone());
        let allowance = self.credit.allowance();
        let (mut partitions, mut folders) = (Vec::new(), Vec::new());
        for (key, place) in &self.places {
            match key.owner {
                None => partitions.push(item((key, place))),
                Some(_) if allowance.is_zero() => {}
                Some(_) => folders.push((place.round, item((key, place)))),
            }
        }
        folders.sort_by_key(|(round, _)| *round);
        Some(Job {
            partitions,
            folders: folders.into_iter().map(|(_, item)| item).collect(),
            allowance,
            max_entries: self.max_entries,
        })
    }

    /// What a job has found; what is new to be said about places.
    #[must_use]
    pub(crate) fn settle(&mut self, report: Report) -> Vec<(PlaceKey, Arc<Path>, Remark)> {
        self.busy = false;
        self.credit.spend(report.walked);
        let mut remarks = Vec::new();
        for Measurement { key, path, found } in report.found {
            // It may be gone by now, or another folder may have its name.
            let Some(place) = self.places.get_mut(&key) else {
                continue;
            };
            if place.path != path {
                continue;
            }
            place.round = self.round;
            let remark = match found {
                Err(error) => Some(Remark::Failed(error)),
                Ok(found) => (!found.complete).then_some(Remark::TooLarge),
            };
            place.found = found.ok();
            if place.said != remark {
                place.said = remark;
                remarks.extend(remark.map(|remark| (key, path, remark)));
            }
        }
        remarks
    }

    /// A job will never come back.
    pub(crate) fn lose(&mut self) {
        self.busy = false;
    }
}

#[cfg(test)]
mod tests;
