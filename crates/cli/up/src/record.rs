//! What a demo's folder says about itself: how the machine was before, and what was chosen for good.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
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

/// Ports of the loopback address that are free now.
pub(crate) fn free_ports() -> io::Result<Ports> {
    // All are held until all are known, so that none is given twice.
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
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

/// Held while somebody works on a folder.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// `None` if somebody else has it. The lock is on the folder itself, so that nothing of it stays.
    pub(crate) fn take(dir: &Path) -> Result<Option<Self>, FileError> {
        let file = File::open(dir).map_err(FileError::of("open", dir))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(FileError::of("lock", dir)(error)),
        }
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
        let held = Lock::take(folder.path()).unwrap();
        assert!(held.is_some());
        assert!(Lock::take(folder.path()).unwrap().is_none());
        drop(held);
        assert!(Lock::take(folder.path()).unwrap().is_some());
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
