//! Use of disks: which place is measured when ([`Disks`], pure), and the measuring itself ([`Job`]).

mod measure;
mod walk;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{InstanceIdent, PartitionName};

pub(crate) use self::measure::{DiskUse, Job, MeasureError, Measurement, Progress};
use self::walk::Bounds;
use crate::settings::DiskSettings;
use crate::watch::WatchedFolder;

/// What walks may take before there has been time to earn it, and the least that may be saved up: enough for many small folders,
/// and far too little to be noticed.
const BURST: Duration = Duration::from_millis(250);

/// How many jobs may hang before no more are started.
const MAX_HUNG: usize = 8;

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
    /// The job that hangs in it.
    hangs: Option<u64>,
}

/// Something about a place for the log, said when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remark {
    /// It cannot be measured.
    Failed(MeasureError),
    /// It has more files, or is deeper, than is looked at.
    TooLarge,
    /// Its file system does not answer.
    Hangs,
}

/// A remark, and the place it is about.
pub(crate) type PlaceRemark = (PlaceKey, Arc<Path>, Remark);

/// The job that is out.
#[derive(Debug)]
struct Running {
    number: u64,
    /// What it has not told about yet, in its order: it is at the first of them.
    ahead: VecDeque<(PlaceKey, Arc<Path>)>,
    /// For how long it has told nothing, counted from the first poll after it told something: never too long.
    silent: Option<Duration>,
}

/// What is to be done at a poll.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The job before hangs: nobody waits for it any longer.
    pub(crate) gives_up: bool,
    /// What is new to be said about it.
    pub(crate) remark: Option<PlaceRemark>,
    /// A job to start.
    pub(crate) job: Option<Job>,
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
    patience: Duration,
    /// Counts the jobs.
    round: u64,
    running: Option<Running>,
    /// Jobs that nobody waits for any longer, and that have not ended.
    hung: BTreeSet<u64>,
}

impl Disks {
    pub(crate) fn new(settings: DiskSettings, period: Duration) -> Self {
        Self {
            places: BTreeMap::new(),
            credit: Credit::new(settings.rest, period),
            max_entries: settings.max_entries,
            patience: settings.patience,
            round: 0,
            running: None,
            hung: BTreeSet::new(),
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
            hangs: None,
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

    /// What to do, so long after the last time. Unless a job is at work: measure all partitions, and folders for as long as
    /// walks may take, those first that have waited longest. Places that a job hangs in wait for it.
    pub(crate) fn plan(&mut self, elapsed: Duration) -> Plan {
        self.credit.earn(elapsed);
        let hangs = self.hangs(elapsed);
        let remark = hangs.then(|| self.give_up()).flatten();
        let job = match self.running {
            None if self.hung.len() < MAX_HUNG => self.next_job(),
            _ => None,
        };
        Plan {
            gives_up: hangs,
            remark,
            job,
        }
    }

    /// Whether the job that is out has told nothing for too long.
    fn hangs(&mut self, elapsed: Duration) -> bool {
        self.running.as_mut().is_some_and(|running| {
            let silent = running
                .silent
                .map_or(Duration::ZERO, |silent| silent.saturating_add(elapsed));
            running.silent = Some(silent);
            // A walk ends by itself after once this time.
            silent >= self.patience.saturating_mul(2)
        })
    }

    /// Does not wait any longer for the job that is out; what is new to be said about where it hangs.
    fn give_up(&mut self) -> Option<PlaceRemark> {
        let running = self.running.take()?;
        self.hung.insert(running.number);
        let (key, path) = running.ahead.into_iter().next()?;
        let place = self.places.get_mut(&key)?;
        if place.path != path {
            return None;
        }
        place.hangs = Some(running.number);
        let is_news = place.said.replace(Remark::Hangs) != Some(Remark::Hangs);
        is_news.then_some((key, path, Remark::Hangs))
    }

    fn next_job(&mut self) -> Option<Job> {
        let allowance = self.credit.allowance();
        let (mut partitions, mut folders) = (Vec::new(), Vec::new());
        for (key, place) in &self.places {
            if place.hangs.is_some_and(|job| self.hung.contains(&job)) {
                continue;
            }
            let item = (key.clone(), place.path.clone());
            match key.owner {
                None => partitions.push(item),
                Some(_) if allowance.is_zero() => {}
                Some(_) => folders.push((place.round, item)),
            }
        }
        if partitions.is_empty() && folders.is_empty() {
            return None;
        }
        folders.sort_by_key(|(round, _)| *round);
        let folders: Vec<_> = folders.into_iter().map(|(_, item)| item).collect();
        self.round += 1;
        self.running = Some(Running {
            number: self.round,
            ahead: partitions.iter().chain(&folders).cloned().collect(),
            silent: None,
        });
        Some(Job {
            number: self.round,
            partitions,
            folders,
            allowance,
            bounds: Bounds {
                entries: self.max_entries,
                time: self.patience,
            },
        })
    }

    /// Whether the job that was started last is at work.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// What a job tells; what is new to be said about it.
    #[must_use]
    pub(crate) fn settle(&mut self, job: u64, progress: Progress) -> Option<PlaceRemark> {
        let running = self.running.take_if(|running| running.number == job);
        match progress {
            Progress::Done(walked) => {
                self.hung.remove(&job);
                if running.is_some() {
                    self.credit.spend(walked);
                }
                None
            }
            Progress::Found(measurement) => {
                self.running = running.map_or(self.running.take(), |mut running| {
                    running.ahead.pop_front();
                    running.silent = None;
                    Some(running)
                });
                self.take(measurement)
            }
        }
    }

    fn take(&mut self, measurement: Measurement) -> Option<PlaceRemark> {
        let Measurement { key, path, found } = measurement;
        // It may be gone by now, or another folder may have its name.
        let place = self.places.get_mut(&key)?;
        if place.path != path {
            return None;
        }
        place.round = self.round;
        place.hangs = None;
        let remark = match found {
            Err(error) => Some(Remark::Failed(error)),
            Ok(found) => (!found.complete).then_some(Remark::TooLarge),
        };
        place.found = found.ok();
        let is_news = place.said != remark;
        place.said = remark;
        remark.filter(|_| is_news).map(|remark| (key, path, remark))
    }

    /// The job could not be started.
    pub(crate) fn lose(&mut self) {
        self.running = None;
    }
}

#[cfg(test)]
mod tests;
