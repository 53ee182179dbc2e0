//! The files of machines: what is kept about them, and what they boot from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use muster_provider::{ClientToken, Mark};
use uuid::Uuid;

use crate::error::Trouble;
use crate::fault::EMPTIED;
use crate::plan::MachinePlan;
use crate::power::PowerChange;

const MACHINES: &str = "machines";
const GONE: &str = "gone";
/// What tells this folder from every other.
const NAME: &str = "name";
const ORDER: &str = "order.json";
const MADE: &str = "made";
const POWER: &str = "power.json";
/// The largest record; those of machines are a kilobyte.
const LARGEST: usize = 64 * 1024;
/// How long a machine that was destroyed is remembered, so that a late order does not make it again.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// libvirt's QEMU may be another user: it passes through, and sees what it is given.
const FOLDER_MODE: u32 = 0o711;
const RECORD_MODE: u32 = 0o600;

/// All machines' files.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    root: PathBuf,
}

/// One machine's files.
#[derive(Debug, Clone)]
pub(crate) struct MachineFolder {
    path: PathBuf,
    uuid: Uuid,
}

fn trouble(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Trouble {
    let path = path.to_owned();
    move |source| Trouble::File {
        action,
        path,
        source,
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    muster_durable::make_folder(path)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(FOLDER_MODE);
    fs::set_permissions(path, mode)
}

fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Folders {
    /// Makes what is missing.
    pub(crate) fn open(root: &Path) -> Result<Self, (PathBuf, io::Error)> {
        for path in [root.to_owned(), root.join(MACHINES), root.join(GONE)] {
            make_folder(&path).map_err(|error| (path, error))?;
        }
        let folders = Self {
            root: root.to_owned(),
        };
        let name = root.join(NAME);
        folders.draw_name(&name).map_err(|error| (name, error))?;
        folders.sweep();
        Ok(folders)
    }

    fn draw_name(&self, path: &Path) -> io::Result<()> {
        // Also one that is empty: nobody can tell by it.
        if if_there(muster_durable::read(path, LARGEST))?.is_none_or(|text| text.is_empty()) {
            let name = ClientToken::random();
            muster_durable::write(path, name.as_str().as_bytes(), RECORD_MODE)?;
        }
        Ok(())
    }

    /// The folder's own name, which it was given when it was made. Where another disk is mounted in its place, or none, it is another.
    pub(crate) fn name(&self) -> Result<String, Trouble> {
        let path = self.root.join(NAME);
        let text = muster_durable::read(&path, LARGEST).map_err(trouble("read", &path))?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// Removes folders without an order. The order is written first and removed last, so nothing of worth is in them.
    fn sweep(&self) {
        for folder in self.machines().unwrap_or_default() {
            if matches!(folder.path.join(ORDER).try_exists(), Ok(false)) {
                // The next start tries again.
                let _ = folder.remove();
            }
        }
    }

    pub(crate) fn machine(&self, uuid: Uuid) -> MachineFolder {
        MachineFolder {
            path: self.root.join(MACHINES).join(uuid.to_string()),
            uuid,
        }
    }

    /// Every machine that has files.
    pub(crate) fn machines(&self) -> Result<Vec<MachineFolder>, Trouble> {
        let path = self.root.join(MACHINES);
        let entries = fs::read_dir(&path).map_err(trouble("read", &path))?;
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(trouble("read", &path))?.file_name();
            // What is not called like a machine is not ours.
            if let Some(uuid) = name.to_str().and_then(|name| name.parse().ok()) {
                found.push(self.machine(uuid));
            }
        }
        found.sort_by_key(|folder| folder.uuid);
        Ok(found)
    }

    fn gone_path(&self, uuid: Uuid) -> PathBuf {
        self.root.join(GONE).join(uuid.to_string())
    }

    /// Remembers that a machine is to end, and forgets those of long ago.
    pub(crate) fn bury(&self, uuid: Uuid, mark: &Mark, now: SystemTime) -> Result<(), Trouble> {
        let path = self.gone_path(uuid);
        let text = serde_json::to_vec(mark).expect("marks are text");
        muster_durable::write(&path, &text, RECORD_MODE).map_err(trouble("write", &path))?;
        self.forget(now);
        Ok(())
    }

    fn forget(&self, now: SystemTime) {
        let Ok(entries) = fs::read_dir(self.root.join(GONE)) else {
            return;
        };
        for entry in entries.flatten() {
            let changed = entry.metadata().and_then(|found| found.modified());
            let age = changed.ok().and_then(|then| now.duration_since(then).ok());
            if age.is_some_and(|age| age > REMEMBERED) {
                // What cannot be removed now is removed by the next machine's end.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Whether a machine was to end.
    pub(crate) fn is_buried(&self, uuid: Uuid) -> Result<bool, Trouble> {
        let path = self.gone_path(uuid);
        path.try_exists().map_err(trouble("look for", &path))
    }
}

impl MachineFolder {
    pub(crate) fn uuid(&self) -> Uuid {
        self.uuid
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn disk(&self) -> PathBuf {
        self.path.join("disk.qcow2")
    }

    pub(crate) fn seed(&self) -> PathBuf {
        self.path.join("seed.iso")
    }

    pub(crate) fn console(&self) -> PathBuf {
        self.path.join("console.log")
    }

    /// The plan, if the machine has one.
    pub(crate) fn plan(&self) -> Result<Option<MachinePlan>, Trouble> {
        let path = self.path.join(ORDER);
        let read = muster_durable::read(&path, LARGEST);
        let Some(text) = if_there(read).map_err(trouble("read", &path))? else {
            return Ok(None);
        };
        let record = |reason: String| Trouble::Record {
            path: path.clone(),
            reason,
        };
        let plan: MachinePlan =
            serde_json::from_slice(&text).map_err(|error| record(error.to_string()))?;
        match plan.is_of_this_form() && plan.uuid == self.uuid {
            true => Ok(Some(plan)),
            false => Err(record("it is of another version or machine".to_owned())),
        }
    }

    pub(crate) fn keep_plan(&self, plan: &MachinePlan) -> Result<(), Trouble> {
        make_folder(&self.path).map_err(trouble("make", &self.path))?;
        let path = self.path.join(ORDER);
        let text = serde_json::to_vec_pretty(plan).expect("plans are text and numbers");
        muster_durable::write(&path, &text, RECORD_MODE).map_err(trouble("write", &path))
    }

    pub(crate) fn is_made(&self) -> Result<bool, Trouble> {
        let path = self.path.join(MADE);
        path.try_exists().map_err(trouble("look for", &path))
    }

    pub(crate) fn keep_made(&self) -> Result<(), Trouble> {
        let path = self.path.join(MADE);
        muster_durable::write(&path, b"", RECORD_MODE).map_err(trouble("write", &path))
    }

    /// The stop or reboot that is under way. A record that cannot be read is none: it is asked for again.
    pub(crate) fn power(&self) -> Result<Option<PowerChange>, Trouble> {
        let path = self.path.join(POWER);
        let read = muster_durable::read(&path, LARGEST);
        let text = if_there(read).map_err(trouble("read", &path))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    pub(crate) fn keep_power(&self, change: Option<PowerChange>) -> Result<(), Trouble> {
        let path = self.path.join(POWER);
        match change {
            Some(change) => {
                let text = serde_json::to_vec(&change).expect("it is a word and a number");
                muster_durable::write(&path, &text, RECORD_MODE).map_err(trouble("write", &path))
            }
            None => muster_durable::remove(&path).map_err(trouble("remove", &path)),
        }
    }

    pub(crate) fn keep_seed(&self, disc: &[u8]) -> Result<(), Trouble> {
        let path = self.seed();
        muster_durable::write(&path, disc, RECORD_MODE).map_err(trouble("write", &path))
    }

    /// Removes everything of the machine, the order last, so that what is left by a crash still says whose it is.
    pub(crate) fn remove(&self) -> Result<(), Trouble> {
        let listed = fs::read_dir(&self.path);
        let Some(entries) = if_there(listed).map_err(trouble("read", &self.path))? else {
            return Ok(());
        };
        for entry in entries {
            let entry = entry.map_err(trouble("read", &self.path))?;
            if entry.file_name() != ORDER {
                let path = entry.path();
                if_there(fs::remove_file(&path)).map_err(trouble("remove", &path))?;
            }
        }
        muster_fault::hit(EMPTIED);
        let order = self.path.join(ORDER);
        muster_durable::remove(&order).map_err(trouble("remove", &order))?;
        if_there(fs::remove_dir(&self.path)).map_err(trouble("remove", &self.path))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{findings, order};
    use crate::settings::Defaults;
    use crate::status::Wanted;

    fn plan() -> MachinePlan {
        let order = order(muster_provider::MachineSpec::default());
        MachinePlan::new(&order, &Defaults::default(), findings()).unwrap()
    }

    #[test]
    fn a_machine_is_found_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::open(root.path()).unwrap();
        let plan = plan();
        let folder = folders.machine(plan.uuid);
        assert_eq!(folder.plan().unwrap(), None);
        folder.keep_plan(&plan).unwrap();
        fs::create_dir(root.path().join("machines/not-ours")).unwrap();
        let found = folders.machines().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].plan().unwrap(), Some(plan));
        assert!(!folder.is_made().unwrap());
        folder.keep_made().unwrap();
        assert!(folder.is_made().unwrap());
        fs::write(folder.disk(), "disk").unwrap();
        folder.remove().unwrap();
        folder.remove().unwrap();
        assert_eq!(folders.machines().unwrap().len(), 0);
        assert!(root.path().join("machines/not-ours").exists());
    }

    #[test]
    fn what_a_crash_left_without_an_order_is_swept_away() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::open(root.path()).unwrap();
        let (with, without) = (plan().uuid, Uuid::from_u128(1));
        folders.machine(with).keep_plan(&plan()).unwrap();
        let path = folders.machine(without).path;
        fs::create_dir(&path).unwrap();
        fs::write(path.join("order.json.new"), "{").unwrap();
        let folders = Folders::open(root.path()).unwrap();
        let left: Vec<Uuid> = folders
            .machines()
            .unwrap()
            .iter()
            .map(MachineFolder::uuid)
            .collect();
        assert_eq!(left, [with]);
    }

    #[test]
    fn what_is_under_way_is_kept_until_it_is_done() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::open(root.path()).unwrap();
        let folder = folders.machine(plan().uuid);
        folder.keep_plan(&plan()).unwrap();
        assert_eq!(folder.power().unwrap(), None);
        let change = PowerChange {
            wanted: Wanted::Reboot,
            cut_at: 7,
        };
        folder.keep_power(Some(change)).unwrap();
        assert_eq!(folder.power().unwrap(), Some(change));
        folder.keep_power(None).unwrap();
        folder.keep_power(None).unwrap();
        assert_eq!(folder.power().unwrap(), None);
    }

    #[test]
    fn an_order_of_another_machine_or_no_order_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::open(root.path()).unwrap();
        let other = folders.machine(Uuid::from_u128(1));
        other.keep_plan(&plan()).unwrap();
        assert!(matches!(other.plan(), Err(Trouble::Record { .. })));
        fs::write(other.path().join(ORDER), "{}").unwrap();
        assert!(matches!(other.plan(), Err(Trouble::Record { .. })));
    }

    #[test]
    fn the_dead_are_remembered_for_a_day() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::open(root.path()).unwrap();
        let mark = plan().mark;
        let now = SystemTime::now();
        folders.bury(Uuid::from_u128(1), &mark, now).unwrap();
        assert!(folders.is_buried(Uuid::from_u128(1)).unwrap());
        let later = now + REMEMBERED + Duration::from_secs(60);
        folders.bury(Uuid::from_u128(2), &mark, later).unwrap();
        assert!(!folders.is_buried(Uuid::from_u128(1)).unwrap());
        // The newest is as old by its file's time; it goes with the next.
        assert_eq!(fs::read_dir(root.path().join(GONE)).unwrap().count(), 0);
    }
}
