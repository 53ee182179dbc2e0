//! Unit files: which are loaded, what they say, and what a reload changes.
//!
//! Settings are kept once, here; the engine has the few that it decides by. A core that was started anew keeps the engine's
//! part from the record and reads a unit's file again when it first needs the rest.

use std::collections::HashMap;
use std::sync::Arc;

use muster_engine::event::LoadedUnit;
use muster_unit_file::config::{LoadState, UnitConfig, UnitKind};
use muster_unit_file::diagnostic::Diagnostics;
use muster_unit_file::fs::{Fingerprint, UnitFs};
use muster_unit_file::load::{LoadedUnit as ReadUnit, Loader};
use muster_unit_file::name::{UnitName, UnitType};
use muster_units::convert::{self, Moments};
use muster_units::{Graph, Host, closure};

/// What is known of one unit.
#[derive(Debug)]
struct Known {
    config: Arc<UnitConfig>,
    fingerprint: Fingerprint,
    remarks: Box<[Box<str>]>,
}

/// All units whose files were read.
#[derive(Debug)]
pub struct UnitTable<F> {
    loader: Loader<F>,
    host: Host,
    moments: Moments,
    known: HashMap<UnitName, Known>,
}

/// What came of a reload.
#[derive(Debug, Default)]
pub struct Reloaded {
    /// Units that are different now, for the engine.
    pub loaded: Vec<LoadedUnit>,
    /// Units whose files are gone.
    pub gone: Vec<Box<str>>,
    /// Units that were looked at.
    pub looked: usize,
    /// Units whose files were read.
    pub read: usize,
    /// Remarks about files that were read.
    pub remarks: Vec<Box<str>>,
}

impl<F: UnitFs> UnitTable<F> {
    /// Nothing is loaded yet.
    pub fn new(loader: Loader<F>, host: Host, moments: Moments) -> Self {
        Self {
            loader,
            host,
            moments,
            known: HashMap::new(),
        }
    }

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The machine, to be brought up to date (mounts, facts).
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Which files there are.
    pub fn loader(&mut self) -> &mut Loader<F> {
        &mut self.loader
    }

    /// A unit's settings; its files are read if they were not yet.
    pub fn config(&mut self, name: &UnitName) -> Arc<UnitConfig> {
        if let Some(known) = self.known.get(name) {
            return Arc::clone(&known.config);
        }
        let host = &self.host;
        // Only this one: what it mentions is in the engine already.
        let mut read = closure::load_new(&mut self.loader, host, [name.clone()], |other| {
            other != name
        });
        match read.pop() {
            Some(unit) => self.keep(unit),
            None => {
                // It has become an alias of another unit since.
                let unit = self.loader.load(name);
                self.keep(unit)
            }
        }
    }

    /// Whether a unit's files changed since they were read.
    pub fn is_stale(&self, name: &UnitName) -> bool {
        self.known
            .get(name)
            .is_some_and(|known| self.loader.fingerprint(name) != known.fingerprint)
    }

    /// What was found wrong with a unit's files.
    pub fn remarks(&self, name: &UnitName) -> &[Box<str>] {
        self.known.get(name).map_or(&[], |known| &known.remarks)
    }

    fn keep(&mut self, unit: ReadUnit) -> Arc<UnitConfig> {
        let config = Arc::new(unit.config);
        let known = Known {
            config: Arc::clone(&config),
            fingerprint: unit.fingerprint,
            remarks: texts(&unit.diagnostics),
        };
        self.known.insert(config.name.clone(), known);
        config
    }

    /// Loads units and everything new that they mention. `has` tells what the engine knows already.
    pub fn load(
        &mut self,
        roots: impl IntoIterator<Item = UnitName>,
        has: impl Fn(&UnitName) -> bool,
    ) -> Vec<LoadedUnit> {
        let read = closure::load_new(&mut self.loader, &self.host, roots, has);
        let new: Vec<UnitName> = read
            .into_iter()
            .map(|unit| self.keep(unit).name.clone())
            .collect();
        self.known.shrink_to_fit();
        self.specs(new)
    }

    /// Units as the engine takes them in.
    fn specs(&mut self, names: Vec<UnitName>) -> Vec<LoadedUnit> {
        // A mount changes what units above its place depend on, and that may be any unit.
        if names.iter().any(|name| name.unit_type() == UnitType::Mount) {
            let all = self.known.values().map(|known| Arc::clone(&known.config));
            let graph = Graph::new(all, &self.host);
            return convert::loaded_units(&graph, self.moments);
        }
        let mut near: HashMap<UnitName, Arc<UnitConfig>> = HashMap::new();
        for name in &names {
            let config = self.config(name);
            for dependency in &config.dependencies {
                if let Some(other) = self.known.get(&dependency.unit) {
                    near.insert(other.config.name.clone(), Arc::clone(&other.config));
                }
            }
            near.insert(config.name.clone(), config);
        }
        let mounts = self.known.values().map(|known| &known.config);
        let mounts = mounts.filter(|config| matches!(config.kind, UnitKind::Mount(_)));
        near.extend(mounts.map(|config| (config.name.clone(), Arc::clone(config))));
        let graph = Graph::new(near.into_values(), &self.host);
        names
            .iter()
            .filter_map(|name| graph.unit(name))
            .map(|unit| convert::loaded_unit(unit, self.moments))
            .collect()
    }

    /// Looks at all files again and reads those that changed. `units` are those that the engine knows.
    pub fn reload(&mut self, units: impl IntoIterator<Item = UnitName>) -> Reloaded {
        self.loader.rescan();
        let mut done = Reloaded::default();
        let mut changed: Vec<UnitName> = Vec::new();
        let mut names: Vec<UnitName> = units.into_iter().collect();
        names.sort_unstable();
        for name in &names {
            done.looked += 1;
            let unit = match self.known.get(name) {
                Some(known) => self.loader.load_if_changed(name, known.fingerprint),
                None => Some(self.loader.load(name)),
            };
            let Some(unit) = unit else { continue };
            done.read += 1;
            done.remarks.extend(texts(&unit.diagnostics));
            let vanished = unit.config.load_state == LoadState::NotFound
                && self
                    .known
                    .get(name)
                    .is_some_and(|known| known.config.load_state != LoadState::NotFound);
            if vanished && !self.is_from_kernel(name) {
                self.known.remove(name);
                done.gone.push(name.as_str().into());
                continue;
            }
            if !self.is_from_kernel(name) || unit.config.load_state != LoadState::NotFound {
                self.keep(unit);
                changed.push(name.clone());
            }
        }
        // What changed may mention units that nobody mentioned so far.
        let known: std::collections::HashSet<&UnitName> = names.iter().collect();
        let mentioned: Vec<UnitName> = changed
            .iter()
            .filter_map(|name| self.known.get(name))
            .flat_map(|known| known.config.dependencies.iter().map(|d| d.unit.clone()))
            .filter(|name| !known.contains(name))
            .collect();
        let new = closure::load_new(&mut self.loader, &self.host, mentioned, |name| {
            known.contains(name)
        });
        for unit in new {
            done.read += 1;
            changed.push(self.keep(unit).name.clone());
        }
        // A target's order follows from the settings of what it wants.
        let touched: std::collections::HashSet<&UnitName> = changed.iter().collect();
        let targets: Vec<UnitName> = self
            .known
            .values()
            .filter(|known| matches!(known.config.kind, UnitKind::Target))
            .filter(|known| !touched.contains(&known.config.name))
            .filter(|known| {
                known
                    .config
                    .dependencies
                    .iter()
                    .any(|d| touched.contains(&d.unit))
            })
            .map(|known| known.config.name.clone())
            .collect();
        changed.extend(targets);
        if !changed.is_empty() {
            done.loaded = self.specs(changed);
        }
        done
    }

    /// Reads one unit's files again and gives it as the engine takes it in; nothing if it has not changed.
    pub fn reload_one(&mut self, name: &UnitName) -> Vec<LoadedUnit> {
        self.loader.rescan();
        let fingerprint = self.known.get(name).map(|known| known.fingerprint);
        let unit = match fingerprint {
            Some(fingerprint) => self.loader.load_if_changed(name, fingerprint),
            None => Some(self.loader.load(name)),
        };
        match unit {
            Some(unit) => {
                let name = self.keep(unit).name.clone();
                self.specs(vec![name])
            }
            None => Vec::new(),
        }
    }

    fn is_from_kernel(&self, name: &UnitName) -> bool {
        name.unit_type() == UnitType::Mount
            && name.to_path().is_ok_and(|place| {
                place == "/" || self.host.mounts.iter().any(|mount| *mount.place == *place)
            })
    }

    /// Forgets a unit that the engine has forgotten.
    pub fn forget(&mut self, name: &UnitName) {
        self.known.remove(name);
    }
}

/// What is known of the machine that unit files are for.
#[must_use]
pub fn host(options: &crate::options::Options) -> Host {
    let names = rustix::system::uname();
    let word = |text: &std::ffi::CStr| -> Box<str> { text.to_string_lossy().into() };
    let names = muster_units::facts::KernelNames {
        machine: word(names.machine()),
        release: Some(word(names.release())),
        hostname: Some(word(names.nodename())),
    };
    let fs = muster_unit_file::fs::RealFs::with_root(&options.root);
    let info = rustix::system::sysinfo();
    Host {
        specifiers: muster_units::facts::read(&fs, &names),
        memory: info.totalram.saturating_mul(info.mem_unit.into()),
        // The kernel's, whatever the root of the unit files.
        tasks: muster_units::facts::tasks(&muster_unit_file::fs::RealFs::host()),
        ..Host::default()
    }
}

fn texts(diagnostics: &Diagnostics) -> Box<[Box<str>]> {
    diagnostics
        .iter()
        .map(|one| one.to_string().into())
        .collect()
}

#[cfg(test)]
mod tests {
    use muster_unit_file::fs::MemoryFs;
    use muster_unit_file::load::SearchPath;
    use muster_unit_file::specifier::HostFacts;

    use super::*;

    fn name(text: &str) -> UnitName {
        UnitName::new(text).expect("a name")
    }

    fn table() -> UnitTable<MemoryFs> {
        let mut fs = MemoryFs::new();
        fs.write("/u/a.target", "[Unit]\nWants=b.service\n")
            .write("/u/b.service", "[Service]\nExecStart=/bin/b\n");
        let loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
        UnitTable::new(loader, Host::default(), Moments::default())
    }

    fn names(units: &[LoadedUnit]) -> Vec<&str> {
        let mut names: Vec<&str> = units.iter().map(|unit| &*unit.name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_unit_comes_with_what_it_mentions() {
        let mut table = table();
        let loaded = table.load([name("a.target")], |_| false);
        let names = names(&loaded);
        assert!(
            names.contains(&"a.target") && names.contains(&"b.service"),
            "{names:?}"
        );
        assert!(names.contains(&"system.slice"), "{names:?}");
    }

    #[test]
    fn a_reload_reads_only_what_changed() {
        let mut table = table();
        let loaded = table.load([name("a.target")], |_| false);
        let units: Vec<UnitName> = loaded.iter().map(|unit| name(&unit.name)).collect();
        let idle = table.reload(units.clone());
        assert_eq!((idle.read, idle.loaded.len(), idle.gone.len()), (0, 0, 0));
        table
            .loader()
            .fs_mut()
            .write("/u/b.service", "[Service]\nExecStart=/bin/other\n");
        let changed = table.reload(units.clone());
        assert_eq!(changed.read, 1);
        assert!(names(&changed.loaded).contains(&"b.service"));
        table.loader().fs_mut().remove("/u/b.service");
        let gone = table.reload(units);
        assert_eq!(gone.gone, [Box::from("b.service")]);
    }

    #[test]
    fn a_reload_brings_units_that_were_not_mentioned_before() {
        let mut table = table();
        let loaded = table.load([name("a.target")], |_| false);
        let units: Vec<UnitName> = loaded.iter().map(|unit| name(&unit.name)).collect();
        table
            .loader()
            .fs_mut()
            .write("/u/a.target", "[Unit]\nWants=b.service c.service\n")
            .write("/u/c.service", "[Service]\nExecStart=/bin/c\n");
        let reloaded = table.reload(units);
        assert!(names(&reloaded.loaded).contains(&"c.service"));
    }
}
