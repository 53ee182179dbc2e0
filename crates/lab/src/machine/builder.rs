//! What to boot, and how the folder is laid out that it is booted from.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::group::Group;
use super::processes::only_child;
use super::running::Machine;
use super::{MachineError, SEARCH_PATH};
use crate::program::Program;
use crate::try_poll_for;

const START_SCRIPT: &str = include_str!("start.sh");
/// The line that the script prints when all is mounted.
const STARTS_LINE: &str = "lab: machine starts";
/// Mounting takes some milliseconds, on a machine that may be busy.
const START_TIME: Duration = Duration::from_secs(30);
const HOST_UNITS: &str = "/usr/lib/systemd/system";

/// What to boot, from [`Machine::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct MachineBuilder {
    init: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    files: Vec<(PathBuf, Vec<u8>, u32)>,
    units: Vec<(String, Vec<u8>)>,
    vendor_units: Vec<PathBuf>,
    binds: Vec<(PathBuf, PathBuf)>,
    kept: Vec<Arc<TempDir>>,
    cgroups: bool,
    controllers: bool,
    beside: bool,
    root: PathBuf,
}

impl MachineBuilder {
    pub(super) fn new() -> Self {
        Self {
            init: Vec::new(),
            env: Vec::new(),
            files: Vec::new(),
            units: Vec::new(),
            vendor_units: Vec::new(),
            binds: Vec::new(),
            kept: Vec::new(),
            cgroups: true,
            controllers: false,
            beside: false,
            root: PathBuf::from("/"),
        }
    }

    /// Takes another folder than the host's root for what is below the machine's own layer: an installed system, which keeps its
    /// own unit files, links to them, generators and logs; the test's units are added to them.
    pub fn root(mut self, folder: impl AsRef<Path>) -> Self {
        self.root = folder.as_ref().to_owned();
        self
    }

    /// The command that becomes process 1, by its path inside the machine.
    pub fn init(mut self, argv: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.init = argv
            .into_iter()
            .map(|word| word.as_ref().to_owned())
            .collect();
        self
    }

    /// Keeps process 1 for a shell that only reaps, so that the init under test is beside another.
    pub fn beside_an_init(mut self) -> Self {
        self.beside = true;
        self
    }

    /// Leaves the machine without a tree of control groups.
    pub fn without_cgroups(mut self) -> Self {
        self.cgroups = false;
        self
    }

    /// Shows the machine a hybrid tree as distributions had it for years: the controllers of version 1 that the host offers, each
    /// at `/sys/fs/cgroup/NAME`, and version 2 at `/sys/fs/cgroup/unified`. On a host without version 1 nothing changes.
    pub fn hybrid_cgroups(mut self) -> Self {
        self.controllers = true;
        self
    }

    /// Sets a variable in the init's environment, which otherwise holds `PATH` and `container`.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Adds a unit file to `/etc/systemd/system`. The name may have folders (`a.service.d/b.conf`).
    pub fn unit(mut self, name: impl Into<String>, text: impl AsRef<[u8]>) -> Self {
        self.units.push((name.into(), text.as_ref().to_owned()));
        self
    }

    /// Adds a unit file of the host's packages to `/usr/lib/systemd/system`, unchanged.
    pub fn vendor_unit(self, name: impl AsRef<Path>) -> Self {
        self.vendor_file(Path::new(HOST_UNITS).join(name))
    }

    /// Adds a unit file from any place of the host to `/usr/lib/systemd/system`, unchanged.
    pub fn vendor_file(mut self, host: impl AsRef<Path>) -> Self {
        self.vendor_units.push(host.as_ref().to_owned());
        self
    }

    /// Puts a file anywhere else, over the host's.
    pub fn file(mut self, path: impl AsRef<Path>, content: impl AsRef<[u8]>, mode: u32) -> Self {
        self.files
            .push((path.as_ref().to_owned(), content.as_ref().to_owned(), mode));
        self
    }

    /// Shows a file or folder of the host in the machine, writable, at another path.
    pub fn bind(mut self, host: impl AsRef<Path>, inside: impl AsRef<Path>) -> Self {
        self.binds
            .push((host.as_ref().to_owned(), inside.as_ref().to_owned()));
        self
    }

    /// Keeps a folder that the machine needs for as long as there is a machine.
    pub(super) fn keep(mut self, folder: &Arc<TempDir>) -> Self {
        self.kept.push(Arc::clone(folder));
        self
    }

    /// Boots it, and waits until its init has been started.
    pub fn boot(&self) -> Result<Machine, MachineError> {
        let Some(init) = self.init.first() else {
            return Err(MachineError::NoInit);
        };
        let folder = tempfile::Builder::new()
            .prefix("muster-machine-")
            .tempdir()
            .map_err(|source| MachineError::Prepare {
                path: std::env::temp_dir(),
                source,
            })?;
        self.fill(folder.path())?;
        let make_group = match self.controllers {
            true => Group::with_controllers,
            false => Group::new,
        };
        let group = self.cgroups.then(make_group).transpose();
        let group = group.map_err(MachineError::Group)?;
        let controllers = group.as_ref().map_or(&[][..], Group::controllers);
        write_table(&folder.path().join("controllers"), controllers)?;
        let group_path = group.as_ref().map_or(Path::new("-"), Group::path);
        let place = if self.beside { "beside" } else { "first" };
        let mut program = Program::new("unshare")
            .args([
                "--mount",
                "--pid",
                "--uts",
                "--ipc",
                "--net",
                "--fork",
                "--kill-child",
            ])
            .args([
                "--propagation",
                "private",
                "/bin/sh",
                "-c",
                START_SCRIPT,
                "lab-machine",
            ])
            .arg(folder.path())
            .arg(group_path)
            .arg(place)
            .arg(&self.root)
            .arg(init)
            .args(&self.init[1..])
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("container", "other")
            .cwd("/");
        for (name, value) in &self.env {
            program = program.env(name, value);
        }
        let mut process = program.start().map_err(MachineError::Init)?;
        // Looked for before the init runs: one that ends at once leaves nobody to find.
        let first = try_poll_for(START_TIME, || only_child(process.pid()).transpose());
        process
            .wait_for_line(STARTS_LINE, START_TIME)
            .map_err(MachineError::Init)?;
        let first = first
            .unwrap_or_else(|| Err(io::Error::other("process 1 was never seen")))
            .map_err(MachineError::Processes)?;
        Ok(Machine::new(
            process,
            first,
            group,
            folder,
            self.kept.clone(),
        ))
    }

    /// Lays out the folder that the script makes the machine from.
    fn fill(&self, folder: &Path) -> Result<(), MachineError> {
        // Others may not look into a machine's files; what is inside is seen by the machine's users.
        for part in ["files", "units", "vendor"] {
            make_folder(&folder.join(part))?;
        }
        let files = folder.join("files");
        write(
            &files.join("etc/machine-id"),
            machine_id().as_bytes(),
            0o444,
        )?;
        // The host's disks are not the machine's.
        write(&files.join("etc/fstab"), b"", 0o644)?;
        write(&files.join("etc/hostname"), b"machine\n", 0o644)?;
        for (path, content, mode) in &self.files {
            write(
                &files.join(path.strip_prefix("/").unwrap_or(path)),
                content,
                *mode,
            )?;
        }
        for (name, text) in &self.units {
            write(&folder.join("units").join(name), text, 0o644)?;
        }
        for source in &self.vendor_units {
            let prepare = |error| MachineError::Prepare {
                path: source.clone(),
                source: error,
            };
            let text = fs::read(source).map_err(prepare)?;
            let name = source.file_name().unwrap_or_default();
            write(&folder.join("vendor").join(name), &text, 0o644)?;
        }
        write_table(&folder.join("binds"), &self.binds)
    }
}

/// Pairs for the script, with a tabulator between them.
fn write_table<A, B>(path: &Path, rows: &[(A, B)]) -> Result<(), MachineError>
where
    A: AsRef<OsStr>,
    B: AsRef<OsStr>,
{
    let mut table = Vec::new();
    for (one, other) in rows {
        table.extend_from_slice(one.as_ref().as_encoded_bytes());
        table.push(b'\t');
        table.extend_from_slice(other.as_ref().as_encoded_bytes());
        table.push(b'\n');
    }
    write(path, &table, 0o644)
}

fn machine_id() -> String {
    format!("{:032x}\n", rand::random::<u128>())
}

fn make_folder(path: &Path) -> Result<(), MachineError> {
    fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .map_err(|source| MachineError::Prepare {
            path: path.to_owned(),
            source,
        })
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), MachineError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    fs::write(path, content)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
        .map_err(|source| MachineError::Prepare {
            path: path.to_owned(),
            source,
        })
}
