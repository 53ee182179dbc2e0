//! Mounts and swaps: what the kernel's tables say, told to the units that stand for it.
//!
//! A mount that no unit knows gets a unit, unless a storm of them comes at once: then units are made only of those that
//! somebody asks for, and each of them is told what the table says when it is loaded. What is mounted below Muster's own
//! runtime folder gets none by itself either: roots of containers come and go by the hundred, and nothing depends on them.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use muster_activation::mounts::{MountChange, MountWatch, Pace, SwapWatch, make_mount_point};
use muster_engine::event::LoadState;
use muster_engine::ids::{Time, UnitId};
use muster_engine::protocol::{Input, Severity};
use muster_engine::types::Machine;
use muster_unit_file::config::{UnitConfig, UnitKind};
use muster_unit_file::name::{UnitName, UnitType};
use muster_units::host::KernelMount;

use super::chain;
use crate::core::Core;
use crate::platform::Token;

const MOUNTS: &str = "/proc/self/mountinfo";
const SWAPS: &str = "/proc/swaps";
/// New mounts in one look that all get units. Each costs as much as a unit with a file.
const NEW_UNITS_AT_ONCE: usize = 256;

/// The kernel's tables.
#[derive(Debug, Default)]
pub(super) struct KernelTables {
    mounts: Option<MountWatch>,
    swaps: Option<SwapWatch>,
    pace: Pace,
    /// The table of mounts changed, and is read at this moment.
    due: Option<Time>,
    /// Mounts have come that unit files cannot refer to yet.
    unlisted: bool,
}

impl KernelTables {
    pub(super) fn next_moment(&self) -> Option<Time> {
        self.due
    }
}

fn since_boot(time: Time) -> Duration {
    Duration::from_micros(time.0)
}

impl Core {
    /// Opens the tables and tells units what is there.
    pub(super) fn begin_tables(&mut self) {
        if !self.options.kernel_units {
            return;
        }
        match MountWatch::open(Path::new(MOUNTS)) {
            Ok(mounts) => {
                let watched = self.platform.watch(mounts.as_fd(), Token::Mounts, false);
                if let Err(error) = watched {
                    let message = format!("Changes of mounts cannot be waited for: {error}.");
                    self.say(Severity::Warning, None, &message);
                }
                self.activation.tables.mounts = Some(mounts);
                self.read_first_mounts();
            }
            Err(error) => self.say(Severity::Warning, None, &chain(&error)),
        }
        // A kernel without swap has no table.
        if let Ok(swaps) = SwapWatch::open(Path::new(SWAPS)) {
            let _ = self.platform.watch(swaps.as_fd(), Token::Swaps, false);
            self.activation.tables.swaps = Some(swaps);
            if let Some(Err(error)) = self
                .activation
                .tables
                .swaps
                .as_mut()
                .map(SwapWatch::refresh)
            {
                self.say(Severity::Error, None, &chain(&error));
            }
        }
    }

    /// Makes units of the mounts that are there. Units that are known already are not told what they know.
    fn read_first_mounts(&mut self) {
        let Some(mounts) = &mut self.activation.tables.mounts else {
            return;
        };
        match mounts.refresh() {
            Ok(changes) => {
                self.activation.tables.unlisted = true;
                let names = changes
                    .iter()
                    .filter(|change| !self.is_own(&change.place))
                    .filter_map(|change| UnitName::from_path(&change.place, UnitType::Mount).ok());
                let new = names.filter(|name| self.loaded_unit(name.as_str()).is_none());
                let new: Vec<UnitName> = new.collect();
                self.make_mount_units(new);
            }
            Err(error) => self.say(Severity::Error, None, &chain(&error)),
        }
    }

    /// The table of mounts changed: it is read now, or after a pause if it was read a moment ago.
    pub(super) fn mounts_ready(&mut self) {
        let now = self.now().monotonic;
        let wait = self.activation.tables.pace.wait(since_boot(now));
        if wait.is_zero() {
            return self.read_mounts();
        }
        // In a storm every mount would wake us up; meanwhile nobody listens.
        if let Some(mounts) = &self.activation.tables.mounts {
            self.platform.unwatch(mounts.as_fd());
        }
        let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.activation.tables.due = Some(Time(now.0.saturating_add(wait)));
    }

    /// Reads the table of mounts if its pause is over.
    pub(super) fn read_mounts_if_due(&mut self) {
        let now = self.now().monotonic;
        if self.activation.tables.due.is_some_and(|due| due <= now) {
            self.activation.tables.due = None;
            if let Some(mounts) = &self.activation.tables.mounts {
                let _ = self.platform.watch(mounts.as_fd(), Token::Mounts, false);
            }
            self.read_mounts();
        }
    }

    pub(super) fn read_mounts(&mut self) {
        let began = self.now().monotonic;
        let Some(mounts) = &mut self.activation.tables.mounts else {
            return;
        };
        match mounts.refresh() {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => self.mounts_changed(&changes),
            Err(error) => self.say(Severity::Error, None, &chain(&error)),
        }
        let ended = self.now().monotonic;
        let cost = Duration::from_micros(ended.since(began));
        self.activation.tables.pace.spent(cost, since_boot(ended));
    }

    fn mounts_changed(&mut self, changes: &[MountChange]) {
        let mut new = Vec::new();
        for change in changes {
            let Ok(name) = UnitName::from_path(&change.place, UnitType::Mount) else {
                continue;
            };
            match self.loaded_unit(name.as_str()) {
                Some(unit) => self.tell_table(unit, change.now.is_some()),
                None if change.now.is_some() && !self.is_own(&change.place) => new.push(name),
                None => {}
            }
            if let Some(what) = change.now.as_ref().map(|entry| &*entry.what) {
                self.mention_device(what);
            }
        }
        self.activation.tables.unlisted = true;
        self.make_mount_units(new);
    }

    fn is_own(&self, place: &str) -> bool {
        Path::new(place).starts_with(&self.options.runtime)
    }

    /// They are told what the table says as soon as they are loaded.
    fn make_mount_units(&mut self, new: Vec<UnitName>) {
        if new.len() > NEW_UNITS_AT_ONCE {
            let message = format!(
                "{} mounts came at once; units are made of those that are asked for.",
                new.len()
            );
            return self.say(Severity::Info, None, &message);
        }
        if !new.is_empty() {
            self.load(new);
        }
    }

    /// What unit files may refer to: the mounts that there are. Listed when files are read, not whenever they change.
    pub(crate) fn list_mounts(&mut self) {
        let Some(mounts) = &self.activation.tables.mounts else {
            return;
        };
        if !std::mem::take(&mut self.activation.tables.unlisted) {
            return;
        }
        let listed = mounts.table().iter().map(|(place, entry)| KernelMount {
            place: place.into(),
            what: entry.what.clone(),
            fs_type: entry.fs_type.clone(),
            options: entry.options.clone(),
        });
        self.units.host_mut().mounts = listed.collect();
    }

    /// A device that the tables mention is there, though nobody has announced it.
    fn mention_device(&mut self, what: &str) {
        if !what.starts_with("/dev/") {
            return;
        }
        if let Ok(device) = UnitName::from_path(what, UnitType::Device)
            && let Some(unit) = self.loaded_unit(device.as_str())
        {
            self.tell_table(unit, true);
        }
    }

    pub(super) fn read_swaps(&mut self) {
        let Some(swaps) = &mut self.activation.tables.swaps else {
            return;
        };
        let changes = match swaps.refresh() {
            Ok(changes) => changes,
            Err(error) => return self.say(Severity::Error, None, &chain(&error)),
        };
        for change in changes {
            if let Ok(name) = UnitName::from_path(&change.what, UnitType::Swap)
                && let Some(unit) = self.loaded_unit(name.as_str())
            {
                self.tell_table(unit, change.priority.is_some());
            }
            self.mention_device(&change.what);
        }
    }

    /// A command of a unit ended: what it did to the table is told first.
    pub(super) fn look_at_table_of(&mut self, unit: UnitId) {
        match self.engine.get(unit).map(|record| &record.machine) {
            Some(Machine::Mount(_)) => self.read_mounts(),
            Some(Machine::Swap(_)) => self.read_swaps(),
            _ => {}
        }
    }

    /// Tells a unit that was just loaded what the tables say about it.
    pub(super) fn tell_from_tables(&mut self, unit: UnitId) {
        let Some(record) = self.engine.get(unit) else {
            return;
        };
        let tables = &self.activation.tables;
        let Ok(path) = UnitName::new(&record.name).map_or(Ok(String::new()), |name| name.to_path())
        else {
            return;
        };
        let present = match &record.machine {
            Machine::Mount(_) => tables
                .mounts
                .as_ref()
                .is_some_and(|mounts| mounts.table().depth(&path) > 0),
            Machine::Swap(_) => tables
                .swaps
                .as_ref()
                .is_some_and(|swaps| swaps.table().priority(&path).is_some()),
            _ => return,
        };
        let known = !record.active().is_down();
        if present != known {
            self.tell_table(unit, present);
        }
    }

    fn tell_table(&mut self, unit: UnitId, present: bool) {
        self.tell(unit, Input::KernelTable { present });
    }

    /// Makes the place where something is about to be mounted. Where that fails, the mount command says why it cannot.
    pub(in crate::execute) fn make_mount_point(&mut self, unit: UnitId, config: &UnitConfig) {
        let UnitKind::Mount(mount) = &config.kind else {
            return;
        };
        if let Some(place) = &mount.r#where
            && let Err(error) = make_mount_point(&place.0, mount.directory_mode.0)
        {
            self.say(Severity::Warning, Some(unit), &chain(&error));
        }
    }

    /// A unit that has settings; nobody else can be told anything.
    pub(super) fn loaded_unit(&self, name: &str) -> Option<UnitId> {
        let unit = self.engine.find(name)?;
        (self.engine.unit(unit).load == LoadState::Loaded).then_some(unit)
    }
}
