//! What is done to a unit's processes and to what it keeps: `Kill`, `Freeze`, `Clean`, `ResetFailed`.

use muster_control::manager::{
    CleanCall, Cleanable, FreezeCall, KillCall, UnitCall, WaitWhat, error,
};
use muster_engine::event::{LoadState, What};
use muster_engine::ids::UnitId;
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::{Input, Role};
use muster_engine::types::Machine;
use muster_unit_file::config::{Directory, UnitConfig};
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::HostFacts;
use muster_varlink::{IncomingCall, Reply};

use super::dispatch::Handled;
use super::fault::Fault;
use super::jobs::{Told, Wanted};
use crate::core::Core;

/// Highest number of a signal.
const MAX_SIGNAL: i32 = 64;

impl Core {
    /// A unit that is there, by any of its names.
    pub(super) fn known_unit(&self, unit: &str) -> Result<UnitId, Fault> {
        self.engine
            .find(unit)
            .ok_or_else(|| Fault::no_such_unit(unit))
    }

    /// A unit whose settings are known.
    pub(super) fn must_have_files(&self, unit: &UnitName) -> Result<UnitId, Fault> {
        let id = self.known_unit(unit.as_str())?;
        if self.engine.unit(id).load == LoadState::NotFound {
            return Err(Fault::no_such_unit(unit.as_str()));
        }
        Ok(id)
    }

    pub(super) fn kill_by_request(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: KillCall = call.parameters.read()?;
        let unit = self.known_unit(&wanted.unit)?;
        let signal = Some(wanted.signal)
            .filter(|signal| (1..=MAX_SIGNAL).contains(signal))
            .and_then(|signal| u8::try_from(signal).ok());
        let Some(signal) = signal else {
            let message = format!("{} is not the number of a signal.", wanted.signal);
            return Err(Fault::invalid("signal", message));
        };
        match wanted.whom.as_str() {
            "" | "all" => {
                let path = self.cgroup_of(unit);
                self.platform.kill_cgroup(&path, signal).map_err(|source| {
                    Fault::system(&wanted.unit, "signal its processes", &source)
                })?;
            }
            "main" => self.signal_role(unit, Role::Main, signal, &wanted.unit)?,
            "control" => self.signal_role(unit, Role::Control, signal, &wanted.unit)?,
            other => {
                let message = format!("'{other}' is none of all, main and control.");
                return Err(Fault::invalid("whom", message));
            }
        }
        Ok(Some(Reply::empty()))
    }

    fn signal_role(
        &mut self,
        unit: UnitId,
        role: Role,
        signal: u8,
        name: &str,
    ) -> Result<(), Fault> {
        let mut processes = self.engine.unit(unit).machine.processes();
        let pid = processes.find_map(|(of, process)| (of == role).then_some(process.pid));
        let Some(pid) = pid else {
            let what = if role == Role::Main {
                "main"
            } else {
                "control"
            };
            let message = format!("{name} has no {what} process.");
            return Err(Fault::new(error::FAILED, name, message));
        };
        self.platform
            .signal(pid, signal)
            .map_err(|source| Fault::system(name, "signal its process", &source))
    }

    pub(super) fn freeze(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: FreezeCall = call.parameters.read()?;
        let unit = self.known_unit(&wanted.unit)?;
        let record = self.engine.unit(unit);
        if !matches!(
            record.machine,
            Machine::Service(_) | Machine::Scope(_) | Machine::Slice(_)
        ) {
            let message = format!("{} has no processes of its own to freeze.", wanted.unit);
            return Err(Fault::invalid(&wanted.unit, message));
        }
        if !record.active().is_up() {
            let message = format!("{} is not up.", wanted.unit);
            return Err(Fault::new(error::REFUSED, &wanted.unit, message));
        }
        let path = self.cgroup_of(unit);
        let doing = if wanted.frozen {
            "freeze it"
        } else {
            "thaw it"
        };
        self.platform
            .freeze(&path, wanted.frozen)
            .map_err(|source| Fault::system(&wanted.unit, doing, &source))?;
        Ok(Some(Reply::empty()))
    }

    pub(super) fn reset_failed(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: UnitCall = call.parameters.read()?;
        let unit = if wanted.unit.is_empty() {
            None
        } else {
            self.known_unit(&wanted.unit)?;
            Some(wanted.unit.into())
        };
        self.push(What::ResetFailed(unit));
        Ok(Some(Reply::empty()))
    }

    /// Removes what a unit keeps on disk. That may take long, so it is the work of a service that is made for it.
    pub(super) fn clean(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: CleanCall = call.parameters.read()?;
        let name = self.load_for_change(&wanted.unit)?;
        let unit = self.must_have_files(&name)?;
        if !self.engine.unit(unit).active().is_down() || self.engine.unit(unit).job.is_some() {
            let message = format!("{name} is not down: stop it before it is cleaned.");
            return Err(Fault::new(error::REFUSED, name.as_str(), message));
        }
        let what = if wanted.what.is_empty() {
            &[Cleanable::Cache, Cleanable::Runtime][..]
        } else {
            &wanted.what
        };
        let config = self.units.config(&name);
        let has = |kind| what.contains(&kind) || what.contains(&Cleanable::All);
        if has(Cleanable::Fdstore) {
            self.drop_kept_descriptors(unit);
        }
        let folders = folders(&config, &self.units.host().specifiers, has);
        if folders.is_empty() {
            return Ok(Some(Reply::empty()));
        }
        let helper = self.make_cleaner(&name, &folders)?;
        self.request(
            call,
            &Wanted {
                unit: helper.as_str(),
                verb: JobVerb::Start,
                mode: JobMode::Replace,
                wait: WaitWhat::Job,
                manual: false,
                told: Told::Done,
            },
        );
        Ok(None)
    }

    fn drop_kept_descriptors(&mut self, unit: UnitId) {
        let Machine::Service(service) = &self.engine.unit(unit).machine else {
            return;
        };
        let stored = service.stored.clone();
        for name in stored {
            for _ in 0..name.count {
                let name = name.name.clone();
                self.tell(unit, Input::StoredFdClosed { name });
            }
        }
        self.drop_descriptors(unit, None);
    }

    fn make_cleaner(&mut self, unit: &UnitName, folders: &[String]) -> Result<UnitName, Fault> {
        let helper = format!(
            "muster-clean-{}.service",
            unit.as_str().replace(['@', '\\'], "-")
        );
        let command = folders.iter().fold(
            "/bin/rm -rf --one-file-system --".to_owned(),
            |line, folder| {
                // A word of a command line: quoted, and with `$` and `%` taken as they are.
                let folder = folder.replace('\\', "\\\\").replace('"', "\\\"");
                let folder = folder.replace('$', "$$").replace('%', "%%");
                format!("{line} \"{folder}\"")
            },
        );
        let properties = [
            ("Unit.Description", format!("Remove what {unit} keeps")),
            ("Unit.DefaultDependencies", "no".to_owned()),
            ("Unit.CollectMode", "inactive-or-failed".to_owned()),
            ("Service.Type", "oneshot".to_owned()),
            ("Service.ExecStart", command),
        ];
        let properties: Vec<(String, String)> = properties
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        self.make_unit(&helper, &properties)
    }
}

/// The folders of a unit, of the kinds that are wanted.
fn folders(config: &UnitConfig, host: &HostFacts, has: impl Fn(Cleanable) -> bool) -> Vec<String> {
    let directories = &config.exec.directories;
    let kinds: [(Cleanable, &Directory, &str); 5] = [
        (
            Cleanable::Runtime,
            &directories.runtime,
            &host.runtime_directory,
        ),
        (Cleanable::State, &directories.state, &host.state_directory),
        (Cleanable::Cache, &directories.cache, &host.cache_directory),
        (Cleanable::Logs, &directories.logs, &host.log_directory),
        (
            Cleanable::Configuration,
            &directories.configuration,
            &host.configuration_directory,
        ),
    ];
    kinds
        .into_iter()
        .filter(|(kind, ..)| has(*kind))
        .flat_map(|(_, directory, root)| {
            let names = directory.names.0.iter();
            names.map(move |name| {
                let name = name.split_once(':').map_or(name, |(name, _link)| name);
                format!("{root}/{name}")
            })
        })
        .collect()
}
