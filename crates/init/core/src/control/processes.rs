//! What is done to a unit's processes and to what it keeps: `Kill`, `Freeze`, `Clean`, `ResetFailed`.

use muster_control::manager::{
    CleanCall, Cleanable, FreezeCall, KillCall, UnitCall, WaitWhat, error,
};
use muster_engine::event::{LoadState, What};
use muster_engine::ids::UnitId;
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::{Input, Role};
use muster_engine::types::Machine;
use muster_exec::folders::{Folder, FolderError, Kind};
use muster_unit_file::config::UnitConfig;
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::HostFacts;
use muster_unit_file::timespan::TimeSpan;
use muster_varlink::{IncomingCall, Reply};

use super::dispatch::Handled;
use super::fault::Fault;
use super::jobs::{Told, Wanted};
use crate::context::folders::plan;
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
                let spared = self.stand_ins(unit);
                let sent = self.platform.kill_cgroup(&path, signal, &spared);
                sent.map_err(|source| {
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
        let folders = self.put_kept_folders_away(&name, &config, has)?;
        if folders.is_empty() {
            return Ok(Some(Reply::empty()));
        }
        let timeout = config.exec.directories.timeout_clean;
        let (helper, settings) = cleaner(&name, &folders, timeout);
        let helper = self.make_unit(&helper, &settings)?;
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

    /// Takes the folders of a unit from their places; gives those that are still to be emptied.
    fn put_kept_folders_away(
        &mut self,
        unit: &UnitName,
        config: &UnitConfig,
        has: impl Fn(Cleanable) -> bool,
    ) -> Result<Vec<String>, Fault> {
        let mut left = Vec::new();
        for folder in folders(config, &self.units.host().specifiers, has) {
            match self.machine.put_away(&folder, unit.as_str()) {
                Ok(path) => left.extend(path),
                // A file system that is mounted there stays, and is emptied where nobody but root is on the way to it.
                Err(error) if is_mounted(&error) && lies_in_its_root(&folder) => {
                    left.push(folder.path.into());
                }
                Err(error) => {
                    let source = error.errno.into();
                    return Err(Fault::system(
                        unit.as_str(),
                        &format!("clean: {error}"),
                        &source,
                    ));
                }
            }
        }
        Ok(left)
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
}

/// A service that removes folders of a unit: its name, and its settings.
fn cleaner(
    unit: &UnitName,
    folders: &[String],
    timeout: Option<TimeSpan>,
) -> (String, Vec<(String, String)>) {
    let name = format!(
        "muster-clean-{}.service",
        unit.as_str().replace(['@', '\\'], "-")
    );
    let command = folders.iter().fold(
        // Wherever it is: some machines have two folders of programs.
        "rm -rf --one-file-system --".to_owned(),
        |line, folder| {
            // A word of a command line: quoted, and with `$` and `%` taken as they are.
            let folder = folder.replace('\\', "\\\\").replace('"', "\\\"");
            let folder = folder.replace('$', "$$").replace('%', "%%");
            format!("{line} \"{folder}\"")
        },
    );
    let timeout = timeout.map_or_else(|| "infinity".to_owned(), |time| time.to_string());
    let settings = [
        ("Unit.Description", format!("Remove what {unit} keeps")),
        ("Unit.DefaultDependencies", "no".to_owned()),
        ("Unit.CollectMode", "inactive-or-failed".to_owned()),
        ("Service.Type", "oneshot".to_owned()),
        ("Service.TimeoutStartSec", timeout),
        ("Service.ExecStart", command),
    ];
    let settings = settings.into_iter();
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    (name, settings.collect())
}

/// The folders of a unit, of the kinds that are wanted.
fn folders(config: &UnitConfig, host: &HostFacts, has: impl Fn(Cleanable) -> bool) -> Vec<Folder> {
    let mut folders = plan(config, host, None);
    folders.retain(|folder| {
        has(match folder.kind {
            Kind::Runtime => Cleanable::Runtime,
            Kind::State => Cleanable::State,
            Kind::Cache => Cleanable::Cache,
            Kind::Logs => Cleanable::Logs,
            Kind::Configuration => Cleanable::Configuration,
        })
    });
    folders
}

fn is_mounted(error: &FolderError) -> bool {
    matches!(error.errno.raw_os_error(), libc::EBUSY | libc::EXDEV)
}

/// Whether nothing is between a folder and the machine's folder that it is in.
fn lies_in_its_root(folder: &Folder) -> bool {
    let name = folder.path.strip_prefix(folder.root.trim_end_matches('/'));
    name.is_some_and(|name| !name.trim_start_matches('/').contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_cleaned_are_where_the_unit_has_them() {
        let lines =
            "[Service]\nExecStart=/bin/x\nDynamicUser=yes\nStateDirectory=a b/c\nCacheDirectory=d";
        let mut fs = muster_unit_file::fs::MemoryFs::new();
        fs.write("/u/x.service", lines);
        let path = muster_unit_file::load::SearchPath::new(["/u"]);
        let mut loader = muster_unit_file::load::Loader::new(fs, path, HostFacts::default());
        let config = loader.load(&UnitName::new("x.service").unwrap()).config;
        let found = folders(&config, &HostFacts::default(), |kind| {
            kind == Cleanable::State
        });
        let paths: Vec<&str> = found.iter().map(|folder| &*folder.path).collect();
        assert_eq!(paths, ["/var/lib/private/a", "/var/lib/private/b/c"]);
        let plain = |path: &str| Folder {
            path: path.into(),
            ..found[0].clone()
        };
        assert!(lies_in_its_root(&plain("/var/lib/a")));
        assert!(!lies_in_its_root(&plain("/var/lib/a/b")));
    }

    #[test]
    fn folders_are_removed_within_the_time_that_the_unit_states() {
        let unit = UnitName::new("a@b.service").unwrap();
        let folders = ["/var/cache/a \"$b\"".to_owned(), "/run/%i".to_owned()];
        let stated = Some(TimeSpan::from_micros(90_000_000));
        for (timeout, expected) in [(stated, "1min 30s"), (None, "infinity")] {
            let (name, settings) = cleaner(&unit, &folders, timeout);
            assert_eq!(name, "muster-clean-a-b.service.service");
            let value = |key: &str| {
                let found = settings.iter().find(|(name, _)| name == key);
                found.map(|(_, value)| value.as_str())
            };
            assert_eq!(value("Service.TimeoutStartSec"), Some(expected));
            let command = r#"rm -rf --one-file-system -- "/var/cache/a \"$$b\"" "/run/%%i""#;
            assert_eq!(value("Service.ExecStart"), Some(command));
        }
    }
}
