//! Folders that are made for a unit: `RuntimeDirectory=` and its siblings.
//!
//! [`plan`] says which, [`ending`] which of them go; `muster_exec::folders` carries that out.

use muster_exec::Identity;
use muster_exec::folders::{Folder, Kind, PRIVATE, Private};
use muster_unit_file::config::{DirectoryPreserve, UnitConfig};
use muster_unit_file::specifier::HostFacts;
use muster_units::effective;

const KINDS: [Kind; 5] = [
    Kind::Runtime,
    Kind::State,
    Kind::Cache,
    Kind::Logs,
    Kind::Configuration,
];

/// The folders of a unit.
#[must_use]
pub fn plan(config: &UnitConfig, host: &HostFacts, identity: Option<&Identity>) -> Vec<Folder> {
    let owner = identity.map(|identity| (identity.uid, identity.gid));
    let mut folders = Vec::new();
    let directories = &config.exec.directories;
    let is_private = |kind| match kind {
        Kind::Configuration => false,
        // One that goes with the user need not be kept from the next.
        Kind::Runtime => directories.runtime_preserve != DirectoryPreserve::No,
        Kind::State | Kind::Cache | Kind::Logs => true,
    };
    let roots = effective::directories(directories, host);
    for ((root, directory), kind) in roots.zip(KINDS) {
        for entry in directory.names.0.iter() {
            let (name, link) = match entry.split_once(':') {
                Some((name, link)) => (name, Some(link)),
                None => (entry, None),
            };
            let below = |name: &str| format!("{}/{name}", root.trim_end_matches('/')).into();
            let private = (config.exec.dynamic_user && is_private(kind)).then(|| Private {
                root: below(PRIVATE),
                public: below(name),
            });
            folders.push(Folder {
                kind,
                root: root.into(),
                path: match private {
                    Some(_) => below(&format!("{PRIVATE}/{name}")),
                    None => below(name),
                },
                link: link.map(below),
                mode: directory.mode.0,
                owner,
                private,
            });
        }
    }
    folders
}

/// What goes when a run has ended: runtime folders, unless they are to outlive it. A restart counts as an end too, if the
/// unit does not say otherwise.
#[must_use]
pub fn ending(config: &UnitConfig, host: &HostFacts, another_run: bool) -> Vec<Folder> {
    let kept = match config.exec.directories.runtime_preserve {
        DirectoryPreserve::No => false,
        DirectoryPreserve::Restart => another_run,
        DirectoryPreserve::Yes => true,
    };
    if kept || config.exec.directories.runtime.names.0.is_empty() {
        return Vec::new();
    }
    let mut folders = plan(config, host, None);
    folders.retain(|folder| folder.kind == Kind::Runtime);
    folders
}
