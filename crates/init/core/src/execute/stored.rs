//! Descriptors that services ask to be kept: here for the next start, in `muster-init` for the next core.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use muster_engine::ids::UnitId;
use muster_engine::protocol::StoredFds;

use crate::core::Core;

/// A kept descriptor.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) name: Box<str>,
    pub(crate) fd: OwnedFd,
    /// Its name in `muster-init`.
    pub(crate) key: String,
}

/// All kept descriptors.
#[derive(Debug, Default)]
pub(crate) struct StoredTable {
    by_unit: HashMap<UnitId, Vec<Stored>>,
    /// Came with the notification that is being handled.
    arrived: Vec<OwnedFd>,
    last: u64,
}

impl StoredTable {
    /// Descriptors that came with a notification; the engine says whether they are kept.
    pub(crate) fn arrive(&mut self, fds: Vec<OwnedFd>) {
        self.arrived = fds;
    }

    /// Those of a unit, in the order in which they came.
    pub(crate) fn of(&self, unit: UnitId) -> &[Stored] {
        self.by_unit.get(&unit).map_or(&[], Vec::as_slice)
    }

    /// Takes one back that `muster-init` kept.
    pub(crate) fn restore(
        &mut self,
        unit: UnitId,
        name: &str,
        key: String,
        number: u64,
        fd: OwnedFd,
    ) {
        self.last = self.last.max(number);
        self.by_unit.entry(unit).or_default().push(Stored {
            name: name.into(),
            fd,
            key,
        });
    }
}

/// `fds:UNIT:NAME:NUMBER`; names of units and descriptors have no colon.
pub(crate) fn key(unit: &str, name: &str, number: u64) -> String {
    format!("fds:{unit}:{name}:{number}")
}

impl Core {
    pub(super) fn store_descriptors(&mut self, unit: UnitId, stored: &StoredFds) {
        let Some(record) = self.engine.get(unit) else {
            return;
        };
        let unit_name = record.name.clone();
        let arrived = std::mem::take(&mut self.activation.stored.arrived);
        for fd in arrived.into_iter().take(stored.count.into()) {
            let Ok(copy) = fd.try_clone() else { continue };
            self.activation.stored.last += 1;
            let number = self.activation.stored.last;
            let key = key(&unit_name, &stored.name, number);
            self.platform.keep(key.clone(), copy);
            self.activation
                .stored
                .restore(unit, &stored.name, key, number, fd);
        }
    }

    pub(crate) fn drop_descriptors(&mut self, unit: UnitId, name: Option<&str>) {
        let Some(kept) = self.activation.stored.by_unit.get_mut(&unit) else {
            return;
        };
        let (gone, stay): (Vec<Stored>, Vec<Stored>) = std::mem::take(kept)
            .into_iter()
            .partition(|one| name.is_none_or(|name| *one.name == *name));
        *kept = stay;
        if kept.is_empty() {
            self.activation.stored.by_unit.remove(&unit);
        }
        for one in gone {
            self.platform.release(&one.key);
        }
    }
}
