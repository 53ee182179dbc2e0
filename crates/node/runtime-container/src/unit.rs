//! What runs inside an instance's unit: the program `muster-container`.
//!
//! `start` makes room in the unit's cgroup, clears what an earlier process of the same start left, and becomes the OCI
//! runtime, which starts the instance, writes its number and ends. The instance's first process is then the unit's: the
//! init system sees its end, restarts and signals it, and nothing of ours stays in memory beside it.
//!
//! `end` runs after each end: it records how that was (for a Service Manager that is not there at the moment) and lets the
//! OCI runtime clear away what it keeps.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use muster_bundle::{Place, PlaceError, RunRecord, ends};

use muster_telemetry::ErrorChain;

use crate::oci;
use muster_bundle::cgroup::UnitGroup;

/// Why a unit's command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitCommandError {
    /// A file of the instance.
    #[error(transparent)]
    Place(PlaceError),
    /// Nothing was started in this folder.
    #[error("{} holds no start", .0.display())]
    NoRun(PathBuf),
    /// The unit's cgroup.
    #[error("cannot make room in the unit's cgroup")]
    Cgroup(#[source] io::Error),
    /// The OCI runtime.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Becomes the OCI runtime. Returns only if that fails.
#[must_use]
pub fn start(folder: PathBuf) -> UnitCommandError {
    let place = Place::at(folder);
    let error = match prepare(&place) {
        Ok(mut command) => UnitCommandError::Run {
            program: PathBuf::from(command.get_program()),
            source: command.exec(),
        },
        Err(error) => error,
    };
    // Where whoever asked for the start looks for reasons; if that cannot be written either, the unit's log has it.
    let _ = std::fs::write(place.log(), ErrorChain(&error).to_string());
    error
}

fn prepare(place: &Place) -> Result<Command, UnitCommandError> {
    let run = place.read_run().map_err(UnitCommandError::Place)?;
    let run = run.ok_or_else(|| UnitCommandError::NoRun(place.folder().to_owned()))?;
    clear(place, &run);
    place.clear_traces().map_err(UnitCommandError::Place)?;
    let group = UnitGroup::own().map_err(UnitCommandError::Cgroup)?;
    let events = group.memory_events().map_err(UnitCommandError::Cgroup)?;
    if let Some(events) = events {
        place
            .note_memory_events(&events)
            .map_err(UnitCommandError::Place)?;
    }
    place.note_group(&group).map_err(UnitCommandError::Place)?;
    group.make_room().map_err(UnitCommandError::Cgroup)?;
    set_cgroup(place, &group.container()).map_err(UnitCommandError::Place)?;
    Ok(oci::run_command(place, &run))
}

/// The unit's cgroup is known for certain only in it.
fn set_cgroup(place: &Place, group: &str) -> Result<(), PlaceError> {
    let path = place.config();
    let edited = || -> io::Result<Option<Vec<u8>>> {
        let text = std::fs::read(&path)?;
        let mut config: serde_json::Value = serde_json::from_slice(&text)?;
        let Some(linux) = config
            .get_mut("linux")
            .and_then(serde_json::Value::as_object_mut)
        else {
            return Err(io::Error::other("the specification has no part `linux`"));
        };
        let before = linux.insert("cgroupsPath".to_owned(), group.into());
        if before.is_some_and(|before| before == group) {
            return Ok(None);
        }
        Ok(Some(serde_json::to_vec(&config)?))
    };
    let failed = |source| PlaceError {
        operation: "edit",
        path: path.clone(),
        source,
    };
    match edited().map_err(failed)? {
        Some(text) => place.write_config(&text),
        None => Ok(()),
    }
}

/// Records the end that the environment tells about, and clears away.
pub fn end(folder: PathBuf) -> Result<(), UnitCommandError> {
    let place = Place::at(folder);
    let Some(run) = place.read_run().map_err(UnitCommandError::Place)? else {
        return Ok(());
    };
    ends::record(&place, &run).map_err(UnitCommandError::Place)?;
    clear(&place, &run);
    Ok(())
}

/// Takes away what a start leaves that is no file of the instance.
pub(crate) fn clear(place: &Place, run: &RunRecord) {
    oci::delete(place, run);
    if let Some(group) = place.group() {
        group.remove_legacy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_start_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            start(folder.path().to_owned()),
            UnitCommandError::NoRun(_)
        ));
        let said = std::fs::read_to_string(folder.path().join("runtime.log")).unwrap();
        assert!(said.contains("holds no start"), "{said}");
        end(folder.path().to_owned()).unwrap();
    }
}
