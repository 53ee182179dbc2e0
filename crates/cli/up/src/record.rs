//! What a demo's folder says about itself: how the machine was before, and what was chosen for good.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::command;
use crate::error::FileError;
use crate::layout::{Layout, addresses};
use crate::settings::Shape;

const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// Of this process's own network namespace, which `/sys` need not be of.
const LINKS: &str = "/proc/self/net/dev";

/// Written before anything else of the demo is made; removed last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Record {
    /// `None` for one user's single node.
    pub(crate) subnet: Option<u8>,
    pub(crate) ports: Ports,
    pub(crate) before: Before,
}

/// Where the Main Node listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Ports {
    pub(crate) iam_public: u16,
    pub(crate) iam_protected: u16,
    pub(crate) cm: u16,
    pub(crate) files: u16,
    /// The demo's web service: of its instances' own addresses, or of this machine's.
    #[serde(default = "usual_web")]
    pub(crate) web: u16,
}

fn usual_web() -> u16 {
    USUAL_PORTS.web
}

/// The usual ones: on an address of the demo's own, nobody else has them.
pub(crate) const USUAL_PORTS: Ports = Ports {
    iam_public: 8090,
    iam_protected: 8089,
    cm: 8093,
    files: 8094,
    web: 8080,
};

/// How the machine was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Before {
    /// What the kernel's switch for forwarding said.
    pub(crate) forwarding: Option<String>,
    /// There were rules of Muster's.
    pub(crate) has_rules: bool,
    /// Files that Muster's parts share by a fixed path.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Links.
    pub(crate) links: BTreeSet<String>,
    /// Folders that were made to have somewhere to be, the innermost first.
    pub(crate) made_folders: Vec<PathBuf>,
}

impl Record {
    pub(crate) fn shape(&self) -> Shape {
        match self.subnet {
            Some(_) => Shape::TwoNodes,
            None => Shape::OneUser,
        }
    }

    /// The Main Node's address for everybody.
    pub(crate) fn main_address(&self) -> Ipv4Addr {
        self.subnet
            .map_or(Ipv4Addr::LOCALHOST, |it| addresses(it).0)
    }

    /// The record of a folder, if it is a demo's.
    pub(crate) fn load(layout: &Layout) -> Result<Option<Self>, FileError> {
        let path = layout.record();
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(FileError::of("read", &path))?,
        };
        let record = serde_json::from_slice(&text).map_err(io::Error::from);
        record.map(Some).map_err(FileError::of("understand", &path))
    }

    pub(crate) fn save(&self, layout: &Layout) -> Result<(), FileError> {
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::from);
        let path = layout.record();
        let text = text.map_err(FileError::of("write", &path))?;
        muster_durable::write(&path, &text, 0o644).map_err(FileError::of("write", &path))
    }
}

impl Before {
    /// Looks at the machine, before anything is made.
    pub(crate) fn look(layout: &Layout) -> Self {
        let shared = PathBuf::from(muster_firewall::LOCK_FILE);
        Self {
            forwarding: fs::read_to_string(FORWARDING).ok(),
            has_rules: has_rules(),
            files: [shared].into_iter().filter(|it| it.exists()).collect(),
            links: links(),
            made_folders: missing_folders(&layout.run, &layout.dir),
        }
    }

    /// Puts the switch for forwarding back.
    pub(crate) fn restore_forwarding(&self) -> Result<(), FileError> {
        let Some(before) = &self.forwarding else {
            return Ok(());
        };
        let path = Path::new(FORWARDING);
        if fs::read_to_string(path).is_ok_and(|now| now == *before) {
            return Ok(());
        }
        fs::write(path, before).map_err(FileError::of("write", path))
    }
}

/// Folders above the state's that are not there, and all on the way to the sockets', the innermost first.
fn missing_folders(run: &Path, dir: &Path) -> Vec<PathBuf> {
    let is_missing = |path: &&Path| !path.exists();
    let of_run = run.ancestors().take_while(is_missing);
    let of_dir = dir.ancestors().skip(1).take_while(is_missing);
    let mut missing: Vec<PathBuf> = of_run.chain(of_dir).map(Path::to_owned).collect();
    missing.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    missing.dedup();
    missing.retain(|path| path != dir);
    missing
}

/// Whether the packet filter has a table of Muster's.
fn has_rules() -> bool {
    let mut list = Command::new("nft");
    list.args(["list", "table", "inet", "muster"]);
    command::run(list).is_ok()
}

/// The links of this network namespace.
pub(crate) fn links() -> BTreeSet<String> {
    named(&fs::read_to_string(LINKS).unwrap_or_default())
}

/// Each link has a line that begins with its name and a colon; the two lines above them have none.
fn named(table: &str) -> BTreeSet<String> {
    let names = table.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

impl Ports {
    /// Those that the daemons of the Main Node listen on.
    fn of_daemons(self) -> [u16; 4] {
        [self.iam_public, self.iam_protected, self.cm, self.files]
    }

    /// Nobody listens on those of the daemons, at whatever address.
    pub(crate) fn are_free(self) -> bool {
        let is_free = |port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
        self.of_daemons().into_iter().all(is_free)
    }
}

/// Ports that nobody listens on now, at whatever address.
pub(crate) fn free_ports() -> io::Result<Ports> {
    // All are held until all are known, so that none is given twice.
    let listen = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0));
    let held = [listen()?, listen()?, listen()?, listen()?, listen()?];
    let [iam_public, iam_protected, cm, files, web] = held
        .each_ref()
        .map(|listener| listener.local_addr().map(|it| it.port()));
    Ok(Ports {
        iam_public: iam_public?,
        iam_protected: iam_protected?,
        cm: cm?,
        files: files?,
        web: web?,
    })
}

/// Whether there is nothing in a folder but what a record that was being written leaves.
pub(crate) fn is_unused(layout: &Layout) -> Result<bool, FileError> {
    let unfinished = muster_durable::temporary(&layout.record());
    let entries = fs::read_dir(&layout.dir).map_err(FileError::of("read", &layout.dir))?;
    for entry in entries {
        let entry = entry.map_err(FileError::of("read", &layout.dir))?;
        if entry.path() != unfinished {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Held while somebody works on a folder.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// What there is of a folder's lock.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It is ours.
    Ours(Lock),
    /// Somebody else has it.
    Taken,
    /// There is no such folder, or not any more.
    Gone,
}

impl Lock {
    /// The lock is on the folder itself, so that nothing of it stays.
    pub(crate) fn take(dir: &Path) -> Result<Claim, FileError> {
        let file = match File::open(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Claim::Gone),
            opened => opened.map_err(FileError::of("open", dir))?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Claim::Taken),
            Err(TryLockError::Error(error)) => return Err(FileError::of("lock", dir)(error)),
        }
        // Whoever had it may have removed the folder meanwhile, and another one may stand there.
        let identity = |it: fs::Metadata| (it.dev(), it.ino());
        let held = file.metadata().map_err(FileError::of("look at", dir))?;
        let is_there = fs::metadata(dir).is_ok_and(|now| identity(now) == identity(held));
        Ok(match is_there {
            true => Claim::Ours(Self { _file: file }),
            false => Claim::Gone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path(), &folder.path().join("run")).unwrap();
        assert_eq!(Record::load(&layout).unwrap(), None);
        let record = Record {
            subnet: Some(7),
            ports: USUAL_PORTS,
            before: Before::look(&layout),
        };
        record.save(&layout).unwrap();
        assert_eq!(Record::load(&layout).unwrap(), Some(record));
        fs::write(layout.record(), "{").unwrap();
        assert!(Record::load(&layout).is_err());
    }

    #[test]
    fn links_are_those_of_the_own_network() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n    lo: 1 2 3\nmu1b:4 5 6\n";
        assert_eq!(
            named(table),
            BTreeSet::from(["lo", "mu1b"].map(str::to_owned))
        );
        assert!(links().contains("lo"));
    }

    #[test]
    fn folders_that_are_made_are_remembered_the_innermost_first() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let missing = missing_folders(&at("a/b/demo/run"), &at("a/b/demo"));
        assert_eq!(missing, [at("a/b/demo/run"), at("a/b"), at("a")]);
        let missing = missing_folders(&at("r/s"), &at("d"));
        assert_eq!(missing, [at("r/s"), at("r")]);
    }

    #[test]
    fn one_at_a_time_works_on_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let take = || Lock::take(folder.path()).unwrap();
        let held = take();
        assert!(matches!(held, Claim::Ours(_)));
        assert!(matches!(take(), Claim::Taken));
        drop(held);
        assert!(matches!(take(), Claim::Ours(_)));
        let gone = Lock::take(&folder.path().join("nowhere")).unwrap();
        assert!(matches!(gone, Claim::Gone));
    }

    #[test]
    fn a_record_that_was_being_written_does_not_make_a_folder_somebody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path(), &folder.path().join("run")).unwrap();
        assert!(is_unused(&layout).unwrap());
        fs::write(muster_durable::temporary(&layout.record()), "{").unwrap();
        assert!(is_unused(&layout).unwrap());
        fs::write(folder.path().join("precious"), "").unwrap();
        assert!(!is_unused(&layout).unwrap());
    }

    #[test]
    fn a_port_that_somebody_has_is_not_free() {
        let ports = free_ports().unwrap();
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.cm)).unwrap();
        assert!(!ports.are_free());
        drop(held);
    }

    #[test]
    fn a_record_of_before_web_services_had_ports_is_understood() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path(), &folder.path().join("run")).unwrap();
        let record = Record {
            subnet: Some(7),
            ports: USUAL_PORTS,
            before: Before::default(),
        };
        let mut old = serde_json::to_value(&record).unwrap();
        old["ports"].as_object_mut().unwrap().remove("web");
        fs::write(layout.record(), old.to_string()).unwrap();
        assert_eq!(Record::load(&layout).unwrap(), Some(record));
    }

    #[test]
    fn no_port_is_chosen_twice() {
        let ports = free_ports().unwrap();
        let Ports {
            iam_public,
            iam_protected,
            cm,
            files,
            web,
        } = ports;
        let all = [iam_public, iam_protected, cm, files, web];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
