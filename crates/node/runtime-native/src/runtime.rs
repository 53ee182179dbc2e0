//! Native programs as a backend.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use muster_api::domain::RuntimeInfo;
use muster_bundle::{
    Backend, Place, PlaceError, RunRecord, Supervised, UnitCommands, etc, read_bounded,
};
use muster_exec::Report;
use muster_runtime::InstanceSpec;
use muster_unit_runner::{MainProcess, UnitRunner};

use crate::plan::{self, HostFacts, PlanError};
use crate::sandbox;

/// What units of native programs are called, before the instance's id and the start's number.
pub const UNIT_PREFIX: &str = "muster-native";
/// Programs and libraries of the host.
const BESIDE: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc"];

/// Runs instances as native programs.
pub type NativeRuntime = Supervised<Natives>;

/// How native programs are run on this node.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// What the controller is told about this runtime; its DMIPS are what CPU limits are shares of.
    pub info: RuntimeInfo,
    /// Where instances have their folders: on a file system that a reboot empties.
    pub folder: PathBuf,
    /// The program `muster-native-exec`.
    pub unit_program: PathBuf,
    /// Folders of the host that programs see beside their image; programs and libraries where absent.
    pub beside: Option<Vec<PathBuf>>,
    /// Programs for which no network was made are in the host's instead of an empty one. For nodes without networks whose
    /// programs are trusted with everything that listens on the node.
    pub host_network: bool,
    /// Rather fail than run with a part of the sandbox missing.
    pub strict: bool,
}

/// Why a native program could not be prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// It cannot be run as it is.
    #[error("it cannot be run natively here")]
    Plan(#[source] PlanError),
    /// A file of it.
    #[error(transparent)]
    Place(PlaceError),
    /// Its plan has no JSON form.
    #[error("its plan cannot be written")]
    Json(#[source] serde_json::Error),
}

/// Native programs, as [`Supervised`] runs them.
#[derive(Debug)]
pub struct Natives {
    config: NativeConfig,
    is_retired: bool,
}

impl Natives {
    /// A runtime for native programs on this init system.
    #[must_use]
    pub fn runtime(config: NativeConfig, runner: Arc<dyn UnitRunner>) -> NativeRuntime {
        Self::made(config, runner, false)
    }

    /// A runtime that only ends what it once started.
    #[must_use]
    pub fn retired(config: NativeConfig, runner: Arc<dyn UnitRunner>) -> NativeRuntime {
        Self::made(config, runner, true)
    }

    fn made(config: NativeConfig, runner: Arc<dyn UnitRunner>, is_retired: bool) -> NativeRuntime {
        let folder = config.folder.clone();
        Supervised::new(Self { config, is_retired }, folder, runner)
    }

    fn host_facts(&self) -> HostFacts {
        let beside = || BESIDE.map(PathBuf::from).to_vec();
        HostFacts {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            max_dmips: self.config.info.max_dmips.map(NonZeroU64::get),
            groups: host_groups(),
            beside: self.config.beside.clone().unwrap_or_else(beside),
            shares_network: self.config.host_network,
        }
    }
}

/// What was said while the sandbox was made.
fn report(place: &Place) -> Report {
    let mut report = Report::default();
    if let Ok(Some(said)) = read_bounded(&place.file(sandbox::REPORT_FILE)) {
        report.take(&said);
    }
    report
}

fn host_groups() -> HashMap<String, u32> {
    let group = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        Some((name.to_owned(), number.parse().ok()?))
    };
    let text = fs::read_to_string("/etc/group").unwrap_or_default();
    text.lines().filter_map(group).collect()
}

impl Backend for Natives {
    type Error = NativeError;

    const PREFIX: &'static str = UNIT_PREFIX;

    fn info(&self) -> RuntimeInfo {
        self.config.info.clone()
    }

    fn is_retired(&self) -> bool {
        self.is_retired
    }

    fn make(&self, place: &Place, instance: &InstanceSpec) -> Result<(), NativeError> {
        let plan =
            plan::plan(instance, &self.host_facts(), place.folder()).map_err(NativeError::Plan)?;
        let text = serde_json::to_vec(&plan).map_err(NativeError::Json)?;
        for (name, content) in etc::files(instance) {
            place
                .write(name, content.as_bytes())
                .map_err(NativeError::Place)?;
        }
        place.write_config(&text).map_err(NativeError::Place)
    }

    fn program(&self) -> PathBuf {
        self.config.unit_program.clone()
    }

    fn commands(&self, place: &Place) -> UnitCommands {
        let command = |verb: &str| {
            let program = self.config.unit_program.to_string_lossy().into_owned();
            let folder = place.folder().to_string_lossy().into_owned();
            vec![program, verb.to_owned(), folder]
        };
        UnitCommands {
            start: command(if self.config.strict {
                "start-strict"
            } else {
                "start"
            }),
            main: MainProcess::Notifies,
            end: command("end"),
        }
    }

    fn explain(&self, place: &Place) -> Option<String> {
        let said = read_bounded(&place.log())
            .ok()
            .flatten()
            .unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        if !said.is_empty() {
            return Some(said);
        }
        // Once calls are filtered, a process can say only this.
        let failed = report(place).failed?;
        let why = io::Error::from_raw_os_error(failed.errno);
        Some(format!("{}: {why}", failed.detail))
    }

    fn lacks(&self, place: &Place) -> Vec<String> {
        report(place).dropped.into_iter().map(Into::into).collect()
    }

    fn clear(&self, place: &Place, _run: Option<&RunRecord>) -> Result<(), NativeError> {
        sandbox::clear(place);
        Ok(())
    }
}
