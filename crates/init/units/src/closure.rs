//! Units together with everything that they mention.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use muster_unit_file::config::{ExecOutput, LoadState, MountConfig, UnitConfig, UnitKind};
use muster_unit_file::fs::UnitFs;
use muster_unit_file::load::{LoadedUnit, Loader};
use muster_unit_file::name::{UnitName, UnitType};
use muster_unit_file::value::path::AbsolutePath;

use crate::host::{Host, KernelMount};
use crate::implicit;

/// Most units that one closure loads; instances could otherwise name each other without end.
pub const MAX_UNITS: usize = 100_000;

/// Loads units and, as long as they mention further ones, those too. What was loaded once is kept.
#[derive(Debug)]
pub struct Closure<'l, F> {
    loader: &'l mut Loader<F>,
    host: &'l Host,
    loaded: HashMap<UnitName, (Arc<UnitConfig>, Arc<[UnitName]>)>,
}

impl<'l, F: UnitFs> Closure<'l, F> {
    /// Nothing is loaded yet.
    pub fn new(loader: &'l mut Loader<F>, host: &'l Host) -> Self {
        Self {
            loader,
            host,
            loaded: HashMap::new(),
        }
    }

    /// These units and what they mention, each once, by their main names.
    pub fn of(&mut self, roots: impl IntoIterator<Item = UnitName>) -> Vec<Arc<UnitConfig>> {
        let mut seen: HashSet<UnitName> = HashSet::new();
        let mut found = Vec::new();
        let mut waiting: Vec<UnitName> = roots.into_iter().collect();
        let kernel = self.host.mounts.iter();
        let kernel = kernel.filter_map(|m| UnitName::from_path(&m.place, UnitType::Mount).ok());
        waiting.extend(kernel);
        waiting.extend(
            ["-.mount", "-.slice"]
                .map(UnitName::new)
                .into_iter()
                .flatten(),
        );
        while let Some(name) = waiting.pop() {
            if found.len() >= MAX_UNITS || !seen.insert(name.clone()) {
                continue;
            }
            let (config, mentions) = self.load(&name);
            // An alias leads to a unit that may be there already.
            if config.name != name && !seen.insert(config.name.clone()) {
                continue;
            }
            found.push(config);
            let new = mentions.iter().filter(|name| !seen.contains(*name));
            waiting.extend(new.cloned());
        }
        found
    }

    fn load(&mut self, name: &UnitName) -> (Arc<UnitConfig>, Arc<[UnitName]>) {
        if let Some(known) = self.loaded.get(name) {
            return known.clone();
        }
        let (unit, mentions) = load_one(self.loader, self.host, name);
        let config = unit.config;
        let entry = (Arc::new(config), Arc::from(mentions));
        self.loaded.insert(entry.0.name.clone(), entry.clone());
        self.loaded.insert(name.clone(), entry.clone());
        entry
    }
}

/// Loads units that `known` does not have and, as long as they mention further such units, those too.
///
/// What is known was loaded with everything that it mentions, so this stops there: loading one more unit into a running
/// manager looks at few files. Kernel mounts are loaded only where they are among `roots`.
pub fn load_new<F: UnitFs>(
    loader: &mut Loader<F>,
    host: &Host,
    roots: impl IntoIterator<Item = UnitName>,
    known: impl Fn(&UnitName) -> bool,
) -> Vec<LoadedUnit> {
    let mut seen: HashSet<UnitName> = HashSet::new();
    let mut found = Vec::new();
    let mut waiting: Vec<UnitName> = roots.into_iter().collect();
    while let Some(name) = waiting.pop() {
        if found.len() >= MAX_UNITS || known(&name) || !seen.insert(name.clone()) {
            continue;
        }
        let (unit, mentions) = load_one(loader, host, &name);
        let main = &unit.config.name;
        if *main != name && (known(main) || !seen.insert(main.clone())) {
            // An alias of a unit that is there: the unit has learnt a name, which its aliases tell.
            continue;
        }
        waiting.extend(mentions);
        found.push(unit);
    }
    found
}

fn load_one<F: UnitFs>(
    loader: &mut Loader<F>,
    host: &Host,
    name: &UnitName,
) -> (LoadedUnit, Vec<UnitName>) {
    let mut unit = loader.load(name);
    if unit.config.load_state == LoadState::NotFound {
        take_from_kernel(host, &mut unit.config);
    }
    let own = implicit::own(&unit.config, host);
    let mut mentions: Vec<UnitName> = own.edges.into_iter().map(|(_, unit)| unit).collect();
    mentions.extend(own.slice);
    // Mounts above a path matter only if there are any.
    let mounts = own.mounts_for.iter().flat_map(|p| implicit::mount_names(p));
    mentions.extend(mounts.filter(|mount| loader.index().contains(mount)));
    (unit, mentions)
}

/// Units that exist without files: the root, and whatever else is mounted.
fn take_from_kernel(host: &Host, config: &mut UnitConfig) {
    if config.name.unit_type() != UnitType::Mount {
        return;
    }
    let Ok(place) = config.name.to_path() else {
        return;
    };
    let known = host.mounts.iter().find(|m| *m.place == *place);
    if known.is_none() && place != "/" {
        return;
    }
    config.load_state = LoadState::Loaded;
    config.description = Some(if place == "/" {
        "Root Mount".into()
    } else {
        place.as_str().into()
    });
    let mut mount = MountConfig {
        r#where: Some(AbsolutePath(place.into())),
        ..MountConfig::default()
    };
    if let Some(KernelMount {
        what,
        fs_type,
        options,
        ..
    }) = known
    {
        mount.what = Some(what.clone());
        mount.fs_type = Some(fs_type.clone());
        mount.options = Some(options.clone());
    }
    config.kind = UnitKind::Mount(Box::new(mount));
    if config.name.as_str() == "-.mount" {
        // It never runs a command, so it does not wait for the log either.
        config.exec.stdout = Some(ExecOutput::Null);
    }
}
