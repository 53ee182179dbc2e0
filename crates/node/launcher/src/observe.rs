//! Those who watch instances: monitoring, alerts, logs.
//!
//! [`Observer`] is told when an instance comes and goes; [`Directory`] answers, without waiting, whose unit that is and where
//! an instance's logs are. Both learn of an instance that was found running as of one that was started.

mod directory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use muster_api::domain::{InstanceIdent, InstanceInfo};
use muster_runtime::{RunId, RunPlace};

pub use self::directory::{Directory, Resident};
use crate::seams::InstalledImage;

/// An instance that runs.
#[derive(Debug, Clone, Copy)]
pub struct RunningInstance<'a> {
    /// What the controller said.
    pub info: &'a InstanceInfo,
    /// Which start of it.
    pub run: RunId,
    /// Its image, with the item's quotas and alert rules. `None` if it was found running and its image is damaged.
    pub image: Option<&'a InstalledImage>,
    /// Where it runs. `None` if it ended in the very moment.
    pub place: Option<&'a RunPlace>,
}

/// Somebody who watches instances. Both calls are made by the launcher's own tasks: they must neither wait nor take long.
pub trait Observer: Send + Sync + fmt::Debug + 'static {
    /// It was started, or was found running after a restart. Restarts by the init system are the same run and are not told.
    fn started(&self, instance: RunningInstance<'_>);

    /// It is gone. Told exactly once for each [`started`](Self::started), before the next one of the same instance.
    fn ended(&self, instance: &InstanceIdent);
}

/// All observers, and the directory that is kept for everybody.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    observers: Vec<Arc<dyn Observer>>,
    directory: Directory,
}

impl Observed {
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self {
            observers,
            directory: Directory::default(),
        }
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn started(&self, instance: RunningInstance<'_>) {
        let resident = resident(instance);
        if !resident.lacks.is_empty() {
            tracing::warn!(instance = %resident.instance, lacks = ?resident.lacks, "an instance runs without all of its sandbox");
        }
        self.directory.enter(resident);
        for observer in &self.observers {
            observer.started(instance);
        }
    }

    /// It was found, but only its traces: its logs are asked for all the same.
    pub(crate) fn found_ended(&self, instance: RunningInstance<'_>) {
        self.directory.enter(resident(instance));
        self.directory.leave(&instance.info.instance);
    }

    /// Those who were never told of it are not told of its end either.
    pub(crate) fn ended(&self, instance: &InstanceIdent) {
        if self.directory.leave(instance) {
            for observer in &self.observers {
                observer.ended(instance);
            }
        }
    }
}

fn resident(instance: RunningInstance<'_>) -> Resident {
    Resident {
        instance: instance.info.instance.clone(),
        version: instance.info.version.clone(),
        run: instance.run,
        unit: instance.place.map(|place| place.unit.clone()),
        lacks: instance
            .place
            .map_or_else(Vec::new, |place| place.lacks.clone()),
    }
}
