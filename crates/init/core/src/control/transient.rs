//! Units that a request makes: `StartTransient`.
//!
//! They are files in a folder of their own, so that they survive a restart of the manager as any other unit does. The file
//! goes, and the unit is forgotten, when the unit is down and nobody has a job for it: after a failure only if its
//! `CollectMode=` says so, else when the failure is reset.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_control::manager::{StartTransientCall, error};
use muster_engine::dep::DepKind;
use muster_engine::event::{LoadState, What};
use muster_engine::ids::UnitId;
use muster_engine::job::JobVerb;
use muster_engine::protocol::ActiveState;
use muster_unit_file::name::{UnitName, UnitType};
use muster_varlink::IncomingCall;

use super::Control;
use super::dispatch::Handled;
use super::fault::Fault;
use super::jobs::{Told, Wanted, mode_of};
use super::settings::{unit_text, write_whole};
use crate::core::Core;
use crate::recover::Kept;

/// Most units that one request makes.
const MAX_UNITS: usize = 16;
/// Most processes that one request moves.
const MAX_PIDS: usize = 4096;
const STREAMS: usize = 3;
/// The setting that notes which processes are to be moved into a scope. Nobody but this module reads it.
pub(super) const PIDS: &str = "X-Pids";

/// What units made by requests have beside their files.
#[derive(Debug, Default)]
pub(crate) struct Transients {
    /// Their names.
    units: BTreeSet<Box<str>>,
    /// Units that may have to be forgotten.
    ended: BTreeSet<UnitId>,
    /// Processes that belong into a scope that was not started yet.
    scopes: HashMap<UnitId, Vec<u32>>,
    /// Standard streams that came with a request.
    stdio: HashMap<UnitId, [OwnedFd; STREAMS]>,
    /// Units whose streams are not needed any more.
    released: Vec<UnitId>,
}

impl Transients {
    pub(super) fn has(&self, unit: &str) -> bool {
        self.units.contains(unit)
    }
}

impl Control {
    /// Processes that a client wants in a scope.
    pub(crate) fn scope_processes(&self, unit: UnitId) -> Vec<u32> {
        self.transients
            .scopes
            .get(&unit)
            .cloned()
            .unwrap_or_default()
    }

    /// Standard streams that came with the request for a unit.
    pub(crate) fn stdio_of(&self, unit: UnitId) -> Option<[BorrowedFd<'_>; STREAMS]> {
        let streams = self.transients.stdio.get(&unit)?;
        Some(streams.each_ref().map(AsFd::as_fd))
    }

    /// The run that these streams were for is over.
    pub(crate) fn forget_stdio(&mut self, unit: UnitId) {
        if self.transients.stdio.remove(&unit).is_some() {
            self.transients.released.push(unit);
        }
    }
}

impl Core {
    pub(super) fn start_transient(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: StartTransientCall = call.parameters.read()?;
        let mode = mode_of(&wanted.mode)?;
        if wanted.auxiliary.len() >= MAX_UNITS || wanted.pids.len() > MAX_PIDS {
            return Err(Fault::invalid(
                &wanted.unit,
                "The request makes too much at once.",
            ));
        }
        let stdio = self.streams_of(call, &wanted)?;
        let mut properties = wanted.properties.clone();
        if wanted.collect {
            properties.push((
                "Unit.CollectMode".to_owned(),
                "inactive-or-failed".to_owned(),
            ));
        }
        let pids = self.pids_of(call, &wanted)?;
        let noted: Vec<String> = pids.iter().map(ToString::to_string).collect();
        if !noted.is_empty() {
            // For a core that has to go on in the middle.
            properties.push((format!("Scope.{PIDS}"), noted.join(" ")));
        }
        for other in &wanted.auxiliary {
            self.make_unit(&other.unit, &other.properties)?;
        }
        let name = self.make_unit(&wanted.unit, &properties)?;
        let unit = self.known_unit(name.as_str())?;
        if !pids.is_empty() {
            self.control.transients.scopes.insert(unit, pids);
        }
        if let Some(stdio) = stdio {
            self.keep_stdio(unit, &name, stdio);
        }
        self.request(
            call,
            &Wanted {
                unit: name.as_str(),
                verb: JobVerb::Start,
                mode,
                wait: wanted.wait,
                manual: true,
                told: Told::Job,
            },
        );
        Ok(None)
    }

    fn streams_of(
        &self,
        call: &mut IncomingCall,
        wanted: &StartTransientCall,
    ) -> Result<Option<[OwnedFd; STREAMS]>, Fault> {
        if !wanted.stdio {
            return Ok(None);
        }
        let mut fds = std::mem::take(&mut call.call.fds);
        fds.truncate(STREAMS);
        let streams = <[OwnedFd; STREAMS]>::try_from(fds);
        streams.map(Some).map_err(|_| {
            Fault::invalid(
                "stdio",
                "Three descriptors are to come with a request with `stdio`.",
            )
        })
    }

    fn pids_of(&self, call: &IncomingCall, wanted: &StartTransientCall) -> Result<Vec<u32>, Fault> {
        if !wanted.unit.ends_with(".scope") {
            return Ok(Vec::new());
        }
        let pids = if wanted.pids.is_empty() {
            vec![call.peer.pid]
        } else {
            wanted.pids.clone()
        };
        match pids
            .iter()
            .find(|pid| self.platform.process(**pid).is_none())
        {
            Some(pid) => {
                let message =
                    format!("There is no process {pid} in the manager's view of the machine.");
                Err(Fault::invalid("pids", message))
            }
            None => Ok(pids),
        }
    }

    /// Writes a unit's file and loads it.
    pub(super) fn make_unit(
        &mut self,
        unit: &str,
        properties: &[(String, String)],
    ) -> Result<UnitName, Fault> {
        let name = UnitName::new(unit).map_err(|error| Fault::bad_name(unit, &error))?;
        let made = matches!(
            name.unit_type(),
            UnitType::Service
                | UnitType::Scope
                | UnitType::Timer
                | UnitType::Path
                | UnitType::Socket
                | UnitType::Slice
                | UnitType::Mount
                | UnitType::Target
        );
        if name.is_template() || !made {
            let message = format!("A request cannot make {unit}.");
            return Err(Fault::invalid(unit, message));
        }
        self.must_be_new(&name)?;
        let text = unit_text(&name, properties)?;
        self.check_settings(&name, &text)?;
        let path = self.options.transient_folder().join(unit);
        write_whole(&path, &text)
            .map_err(|source| Fault::system(unit, &format!("write {}", path.display()), &source))?;
        self.control.transients.units.insert(unit.into());
        let file = path.to_string_lossy();
        self.units.loader().file_made(&name, &file);
        self.units.forget(&name);
        self.load([name.clone()]);
        let loaded = self.engine.find(unit).map(|id| self.engine.unit(id).load);
        if loaded != Some(LoadState::Loaded) {
            let remarks = self.remarks_about(unit);
            self.remove_unit(&name);
            let why = remarks.last().map_or("It cannot be used.", |remark| remark);
            return Err(Fault::invalid(unit, why));
        }
        Ok(name)
    }

    fn must_be_new(&mut self, name: &UnitName) -> Result<(), Fault> {
        let unit = name.as_str();
        self.forget_ended_transients();
        self.apply_queued();
        let known = self.engine.find(unit).map(|id| self.engine.unit(id));
        let in_use = known.is_some_and(|record| {
            !matches!(record.load, LoadState::Stub | LoadState::NotFound) || record.job.is_some()
        });
        // Units without files of their own are loaded as soon as somebody mentions them.
        let free = matches!(name.unit_type(), UnitType::Scope | UnitType::Slice)
            && known.is_some_and(|record| record.active().is_down() && record.job.is_none());
        let has_file = self.units.loader().index().contains(name);
        if (in_use && !free) || (has_file && !self.control.transients.has(unit)) {
            let message = format!(
                "Unit {unit} exists already. If it has failed, `sctl reset-failed {unit}` lets its name be used again."
            );
            return Err(Fault::new(error::REFUSED, unit, message));
        }
        Ok(())
    }

    /// Streams are kept by `muster-init` too, until the service has them.
    fn keep_stdio(&mut self, unit: UnitId, name: &UnitName, stdio: [OwnedFd; STREAMS]) {
        for (index, stream) in stdio.iter().enumerate() {
            if let Ok(copy) = stream.try_clone() {
                self.platform.keep(format!("stdio:{name}:{index}"), copy);
            }
        }
        self.control.transients.stdio.insert(unit, stdio);
    }

    /// What nobody needs any more goes from `muster-init` too.
    pub(super) fn release_stdio(&mut self) {
        for unit in std::mem::take(&mut self.control.transients.released) {
            if let Some(record) = self.engine.get(unit) {
                let prefix = format!("stdio:{}:", record.name);
                self.platform.release(&prefix);
            }
        }
    }

    /// A unit is down, or has no job any more: if a request made it, it may be forgotten.
    pub(super) fn consider_transient(&mut self, unit: UnitId) {
        let Some(record) = self.engine.get(unit) else {
            return;
        };
        if record.active().is_down() && self.control.transients.has(&record.name) {
            self.control.transients.ended.insert(unit);
        }
    }

    /// Forgets units that requests made, as far as they are done.
    pub(super) fn forget_ended_transients(&mut self) {
        for unit in std::mem::take(&mut self.control.transients.ended) {
            if !self.is_done(unit) {
                continue;
            }
            if let Some(name) = self.name_of(unit) {
                self.control.transients.scopes.remove(&unit);
                self.remove_unit(&name);
            }
        }
    }

    fn is_done(&self, unit: UnitId) -> bool {
        let Some(record) = self.engine.get(unit) else {
            return false;
        };
        let rests = match record.active() {
            ActiveState::Inactive => true,
            ActiveState::Failed => record.settings().collect_failed,
            _ => false,
        };
        // What a timer or socket will start again is not done.
        let mut triggers = record.deps(DepKind::TriggeredBy);
        let awaited = triggers.any(|other| !self.engine.unit(other).active().is_down());
        rests && record.job.is_none() && !awaited
    }

    /// Takes a unit's file away and forgets the unit, and what it triggered if a request made that too.
    fn remove_unit(&mut self, name: &UnitName) {
        let unit = name.as_str();
        let path = self.options.transient_folder().join(unit);
        // A file that is gone already is as good.
        let _ = std::fs::remove_file(&path);
        if let Some(id) = self.engine.find(unit) {
            let triggered: Vec<UnitId> = self.engine.unit(id).deps(DepKind::Triggers).collect();
            for other in triggered {
                self.consider_transient(other);
            }
        }
        self.control.transients.units.remove(unit);
        self.units.forget(name);
        let file = path.to_string_lossy();
        self.units.loader().file_removed(name, &file);
        self.push(What::Unloaded(vec![unit.into()]));
    }

    /// Finds what requests made while an earlier core ran.
    pub(super) fn restore_transients(&mut self, kept: &mut Kept) {
        let mut stale = false;
        let entries = std::fs::read_dir(self.options.transient_folder());
        for entry in entries.into_iter().flatten().flatten() {
            let file = entry.file_name();
            let Some(unit) = file.to_str().filter(|name| UnitName::new(name).is_ok()) else {
                continue;
            };
            // One that the engine does not know was made by a core that died before it was loaded.
            let Some(id) = self.engine.find(unit) else {
                stale |= std::fs::remove_file(entry.path()).is_ok();
                continue;
            };
            self.control.transients.units.insert(unit.into());
            self.consider_transient(id);
            if self.engine.unit(id).job.is_some() && unit.ends_with(".scope") {
                let pids = pids_in(&std::fs::read_to_string(entry.path()).unwrap_or_default());
                self.control.transients.scopes.insert(id, pids);
            }
        }
        if stale {
            self.units.loader().rescan();
        }
        let mut streams: BTreeMap<UnitId, Vec<OwnedFd>> = BTreeMap::new();
        for (key, fd) in kept.take_all("stdio:") {
            match self.unit_in_key(&key, "stdio:") {
                Some((unit, _)) => streams.entry(unit).or_default().push(fd),
                None => self.platform.release(&key),
            }
        }
        for (unit, fds) in streams {
            if let Ok(stdio) = <[OwnedFd; STREAMS]>::try_from(fds) {
                self.control.transients.stdio.insert(unit, stdio);
            }
        }
    }
}

/// The processes that a scope's file names.
fn pids_in(text: &str) -> Vec<u32> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(PIDS)?.strip_prefix('='));
    let numbers = lines.next().unwrap_or_default().split(' ');
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scopes_file_names_its_processes() {
        let settings = [
            ("Unit.Description".to_owned(), "x".to_owned()),
            (format!("Scope.{PIDS}"), "12 345".to_owned()),
        ];
        let name = UnitName::new("a.scope").expect("a name");
        let text = unit_text(&name, &settings).expect("it can be written");
        assert_eq!(pids_in(&text), [12, 345]);
        assert_eq!(pids_in("[Scope]\n"), Vec::<u32>::new());
    }
}
