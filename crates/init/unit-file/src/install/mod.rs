//! Enabling, masking and presets, as plans.
//!
//! An [`Installer`] reads through a [`UnitFs`] and answers each request with a [`Plan`]: links to make
//! and to remove, with the messages that `systemctl` prints for them. Nothing is written here; the
//! caller carries the changes out in their order. Within one installer later requests see the
//! changes of earlier ones.

mod links;
mod note;
mod preset;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;

pub use note::Note;
pub use preset::{PresetAction, PresetMode, PresetRules, glob};
pub use state::UnitFileState;
use thiserror::Error;

use crate::config::InstallSection;
use crate::fs::{UnitFs, base_name, link_destination};
use crate::load::{Loader, SearchPath, check_alias};
use crate::name::{UnitName, UnitType};
use crate::specifier::{HostFacts, SpecifierContext, expand};
use table::KnownLink;
use view::View;

/// One change of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Make a symbolic link, and the folders above it.
    Link {
        /// Where.
        path: Box<str>,
        /// What it points to.
        target: Box<str>,
    },
    /// Remove a file or link, and folders above it that are empty then.
    Remove {
        /// Which.
        path: Box<str>,
    },
    /// Remove a folder with everything in it.
    RemoveFolder {
        /// Which.
        path: Box<str>,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { path, target } => write!(f, "Created symlink {path} \u{2192} {target}."),
            Self::Remove { path } | Self::RemoveFolder { path } => write!(f, "Removed \"{path}\"."),
        }
    }
}

/// What a request means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to change, in this order. Empty when all is as asked already.
    pub changes: Vec<Change>,
    /// What the user should know beside that.
    pub notes: Vec<Note>,
    /// Whether any of the units said what enabling it means; if not, it is not meant to be enabled.
    pub carries_install_info: bool,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InstallError {
    /// There is no such unit.
    #[error("unit {name} does not exist")]
    NotFound {
        /// Which.
        name: UnitName,
    },
    /// It is masked.
    #[error("unit {path} is masked")]
    Masked {
        /// By which file.
        path: Box<str>,
    },
    /// An alias or a linked file was named instead of the unit.
    #[error("refusing to operate on linked unit file {name} (it is another name of {target})")]
    Alias {
        /// The alias.
        name: UnitName,
        /// The unit.
        target: UnitName,
    },
    /// Something else is in the way.
    #[error("file \"{path}\" already exists and points to {target} (use --force to replace it)")]
    LinkExists {
        /// Where.
        path: Box<str>,
        /// What it points to now.
        target: Box<str>,
    },
    /// A file is in the way.
    #[error("file \"{path}\" already exists")]
    FileExists {
        /// Which.
        path: Box<str>,
    },
    /// A template without an instance was to be wanted by a plain unit.
    #[error("cannot enable {name}, destination unit {target} is a non-template unit")]
    TemplateNeedsInstance {
        /// The template.
        name: UnitName,
        /// Who was to want it.
        target: Box<str>,
    },
    /// `Alias=`, `WantedBy=` ... say something that is not a fitting unit name.
    #[error("the [Install] section of {name} has an unusable name {text:?}")]
    BadName {
        /// The unit.
        name: UnitName,
        /// What it says.
        text: Box<str>,
    },
    /// `Alias=` names something that cannot be an alias of the unit.
    #[error("cannot alias {name} as {alias}")]
    BadAlias {
        /// The unit.
        name: UnitName,
        /// The alias.
        alias: UnitName,
    },
    /// Not an absolute path of a unit file.
    #[error("{path} is not an absolute path of a unit file")]
    BadPath {
        /// The path.
        path: Box<str>,
    },
    /// Only targets can be the default.
    #[error("{name} is not a target")]
    NotATarget {
        /// Which.
        name: UnitName,
    },
    /// There is no default target.
    #[error("there is no default target")]
    NoDefault,
}

/// Where links are made and found.
#[derive(Clone, Debug)]
pub struct InstallPaths {
    /// Where units are looked for.
    pub search: SearchPath,
    /// Links that last.
    pub persistent: Box<str>,
    /// Links until the next start of the machine.
    pub runtime: Box<str>,
    /// Where presets are, in the order of their priority.
    pub presets: Vec<Box<str>>,
}

impl Default for InstallPaths {
    fn default() -> Self {
        let presets = [
            "/etc/muster/presets",
            "/run/muster/presets",
            "/usr/lib/muster/presets",
            "/etc/systemd/system-preset",
            "/run/systemd/system-preset",
            "/usr/local/lib/systemd/system-preset",
            "/usr/lib/systemd/system-preset",
            "/lib/systemd/system-preset",
        ];
        Self {
            search: SearchPath::system(),
            persistent: "/etc/systemd/system".into(),
            runtime: "/run/systemd/system".into(),
            presets: presets.into_iter().map(Into::into).collect(),
        }
    }
}

/// How a request is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstallOptions {
    /// Until the next start of the machine only.
    pub runtime: bool,
    /// Replace what is in the way.
    pub force: bool,
}

/// A unit file as the installer sees it.
#[derive(Clone, Debug)]
struct Found {
    name: UnitName,
    /// What links point to.
    path: String,
    install: InstallSection,
}

impl Found {
    fn has_rules(&self) -> bool {
        let lists = [
            &self.install.alias,
            &self.install.wanted_by,
            &self.install.required_by,
            &self.install.upheld_by,
        ];
        lists.iter().any(|list| !list.0.is_empty())
    }
}

/// Whether a link's destination is a unit's file, or the link that made the file known. Folders with
/// two names, as `/lib` on many machines, make two paths of one file.
fn links_equal(fs: &impl UnitFs, destination: &str, file: &str) -> bool {
    let same_file = || match (fs.stat(destination), fs.stat(file)) {
        (Ok(one), Ok(other)) => one.inode != 0 && one == other,
        _ => false,
    };
    destination == file
        || fs
            .read_link(file)
            .is_ok_and(|target| link_destination(file, &target) == destination)
        || same_file()
}

/// Plans changes of what is enabled.
#[derive(Debug)]
pub struct Installer<'a, F> {
    loader: Loader<View<'a, F>>,
    paths: InstallPaths,
    /// The links of the search path's folders, once someone asked.
    known_links: Option<Rc<[Vec<KnownLink>]>>,
}

impl<'a, F: UnitFs> Installer<'a, F> {
    /// An installer that has looked at the folders.
    pub fn new(fs: &'a F, paths: InstallPaths, host: HostFacts) -> Self {
        let loader = Loader::new(View::new(fs), paths.search.clone(), host);
        Self {
            loader,
            paths,
            known_links: None,
        }
    }

    /// Every unit file with its state, as `list-unit-files` shows them.
    pub fn list(&mut self) -> Vec<(UnitName, UnitFileState)> {
        let names: Vec<UnitName> = self.loader.index().names().cloned().collect();
        names
            .into_iter()
            .map(|name| {
                (
                    name.clone(),
                    self.state(&name).unwrap_or(UnitFileState::Bad),
                )
            })
            .collect()
    }

    /// Makes the links that `[Install]` sections ask for.
    ///
    /// # Errors
    /// A unit does not exist, is masked, or something is in the way. Nothing is to be changed then.
    pub fn enable(
        &mut self,
        units: &[UnitName],
        options: InstallOptions,
    ) -> Result<Plan, InstallError> {
        self.planned(|installer, plan| {
            let found = units
                .iter()
                .map(|name| installer.discover(name))
                .collect::<Result<Vec<_>, _>>()?;
            installer.apply(found, options, false, plan)
        })
    }

    /// Removes all links to units.
    ///
    /// # Errors
    /// None at present; units that do not exist may have links left.
    pub fn disable(
        &mut self,
        units: &[UnitName],
        options: InstallOptions,
    ) -> Result<Plan, InstallError> {
        self.planned(|installer, plan| {
            installer.remove_links(units, options.runtime, plan);
            Ok(())
        })
    }

    /// Removes all links to units and makes those that `[Install]` sections ask for now.
    ///
    /// # Errors
    /// As for [`Installer::enable`].
    pub fn reenable(
        &mut self,
        units: &[UnitName],
        options: InstallOptions,
    ) -> Result<Plan, InstallError> {
        self.planned(|installer, plan| {
            installer.remove_links(units, options.runtime, plan);
            let found = units
                .iter()
                .map(|name| installer.discover(name))
                .collect::<Result<Vec<_>, _>>()?;
            installer.apply(found, options, false, plan)
        })
    }

    /// Makes units impossible to start.
    ///
    /// # Errors
    /// A file of the administrator is in the way.
    pub fn mask(
        &mut self,
        units: &[UnitName],
        options: InstallOptions,
    ) -> Result<Plan, InstallError> {
        self.planned(|installer, plan| {
            let folder = installer.folder(options.runtime);
            for name in units {
                installer.link(
                    &format!("{folder}/{name}"),
                    "/dev/null",
                    options.force,
                    plan,
                )?;
            }
            Ok(())
        })
    }

    /// Takes masks away.
    ///
    /// # Errors
    /// None at present; what is not masked stays as it is.
    pub fn unmask(
        &mut self,
        units: &[UnitName],
        options: InstallOptions,
    ) -> Result<Plan, InstallError> {
        self.planned(|installer, plan| {
            let folder = installer.folder(options.runtime);
            for name in units {
                let path = format!("{folder}/{name}");
                if installer.fs().stat(&path).is_ok_and(|stat| stat.is_mask()) {
                    installer.remove(&path, plan);
                }
            }
            Ok(())
        })
    }

    /// Makes unit files from elsewhere known.
    ///
    /// # Errors
    /// A path is not that of a unit file, or something is in the way.
    pub fn link_files(
        &mut self,
        files: &[&str],
        options: InstallOptions,
    ) -> Result<Plan, InstallError> {
        self.planned(|installer, plan| {
            let folder = installer.folder(options.runtime);
            for file in files {
                let bad = || InstallError::BadPath {
                    path: (*file).into(),
                };
                let name = UnitName::new(base_name(file)).map_err(|_| bad())?;
                if !file.starts_with('/') || installer.fs().stat(file).is_err() {
                    return Err(bad());
                }
                // What is in the search path is known already.
                if !installer.paths.search.contains(file) {
                    installer.link(&format!("{folder}/{name}"), file, options.force, plan)?;
                }
            }
            Ok(())
        })
    }

    /// Takes away what the administrator changed: drop-ins always, files and masks where the vendor
    /// ships the unit.
    ///
    /// # Errors
    /// None at present.
    pub fn revert(&mut self, units: &[UnitName]) -> Result<Plan, InstallError> {
        self.planned(|installer, plan| {
            let own = [
                installer.paths.persistent.clone(),
                installer.paths.runtime.clone(),
            ];
            for name in units {
                for folder in &own {
                    let dropins = format!("{folder}/{name}.d");
                    if installer.fs().list(&dropins).is_ok() {
                        installer.remove_folder(&dropins, plan);
                    }
                }
                let vendor: Vec<String> = installer
                    .paths
                    .search
                    .iter()
                    .map(|dir| format!("{dir}/{name}"))
                    .collect();
                let mut vendor = vendor
                    .iter()
                    .filter(|path| !own.iter().any(|dir| path.starts_with(&format!("{dir}/"))));
                if !vendor.any(|path| installer.fs().stat(path).is_ok()) {
                    continue;
                }
                for folder in &own {
                    let path = format!("{folder}/{name}");
                    if installer.fs().stat(&path).is_ok() || installer.fs().read_link(&path).is_ok()
                    {
                        installer.remove(&path, plan);
                    }
                }
            }
            Ok(())
        })
    }

    /// Links units into the `.wants/` or `.requires/` folder of a target.
    ///
    /// # Errors
    /// As for [`Installer::enable`].
    pub fn add_dependency(
        &mut self,
        target: &UnitName,
        units: &[UnitName],
        requires: bool,
        options: InstallOptions,
    ) -> Result<Plan, InstallError> {
        self.planned(|installer, plan| {
            installer.discover(target)?;
            let mut list = Vec::new();
            for name in units {
                // A link to an alias would be a link to its unit anyway.
                let main = installer.loader.index().main_name(name);
                let main = main.map_or_else(|| name.clone(), |(main, _)| main);
                let mut found = installer.discover(&main)?;
                found.install = InstallSection::default();
                let words = if requires {
                    &mut found.install.required_by
                } else {
                    &mut found.install.wanted_by
                };
                words.0.push(target.as_str());
                list.push(found);
            }
            installer.apply(list, options, false, plan)
        })
    }

    /// The unit that the machine starts into.
    ///
    /// # Errors
    /// There is none.
    pub fn default_target(&mut self) -> Result<UnitName, InstallError> {
        let name = UnitName::new("default.target").map_err(|_| InstallError::NoDefault)?;
        self.loader
            .index()
            .main_name(&name)
            .map(|(main, _)| main)
            .ok_or(InstallError::NoDefault)
    }

    /// Changes the unit that the machine starts into.
    ///
    /// # Errors
    /// It is not a target, does not exist or is masked.
    pub fn set_default(&mut self, target: &UnitName) -> Result<Plan, InstallError> {
        if target.unit_type() != UnitType::Target || target.as_str() == "default.target" {
            return Err(InstallError::NotATarget {
                name: target.clone(),
            });
        }
        self.planned(|installer, plan| {
            let found = installer.discover(target)?;
            let path = format!("{}/default.target", installer.paths.persistent);
            installer.link(&path, &found.path, true, plan)
        })
    }

    fn fs(&self) -> &View<'a, F> {
        self.loader.fs()
    }

    fn folder(&self, runtime: bool) -> Box<str> {
        if runtime {
            self.paths.runtime.clone()
        } else {
            self.paths.persistent.clone()
        }
    }

    /// Runs a request; a failed one leaves the view as it was.
    fn planned(
        &mut self,
        request: impl FnOnce(&mut Self, &mut Plan) -> Result<(), InstallError>,
    ) -> Result<Plan, InstallError> {
        let saved = self.loader.fs().overlay();
        let mut plan = Plan::default();
        let result = request(self, &mut plan);
        if result.is_err() {
            self.loader.fs_mut().restore(saved);
        }
        self.loader.rescan();
        self.known_links = None;
        result.map(|()| plan)
    }

    /// Finds the file of a unit for changes: not of an alias, not masked.
    fn discover(&mut self, name: &UnitName) -> Result<Found, InstallError> {
        if let Some(target) = self.loader.index().alias_of(name).cloned()
            && (!target.is_template() || name.is_template())
        {
            // The administrator's own alias may stand for several units; a vendor's is just a name.
            let own = [&self.paths.persistent, &self.paths.runtime]
                .map(|folder| format!("{folder}/{name}"));
            return if own.iter().any(|path| self.fs().read_link(path).is_ok()) {
                Err(InstallError::Alias {
                    name: name.clone(),
                    target,
                })
            } else {
                let main = self.loader.index().main_name(name).map(|(main, _)| main);
                match main.filter(|main| main != name) {
                    Some(main) => self.discover(&main),
                    None => Err(InstallError::NotFound { name: name.clone() }),
                }
            };
        }
        // The same goes for instances of the administrator's alias of a template.
        if let Some(template) = name.template()
            && let Some(target) = self.loader.index().alias_of(&template)
            && [&self.paths.persistent, &self.paths.runtime]
                .iter()
                .any(|folder| self.fs().read_link(&format!("{folder}/{template}")).is_ok())
        {
            return Err(InstallError::Alias {
                name: name.clone(),
                target: target.clone(),
            });
        }
        let not_found = || InstallError::NotFound { name: name.clone() };
        let file = self
            .loader
            .index()
            .file(name)
            .ok_or_else(not_found)?
            .to_owned();
        match self.fs().stat(&file) {
            Ok(stat) if stat.is_mask() => return Err(InstallError::Masked { path: file.into() }),
            Ok(_) => {}
            Err(_) => return Err(not_found()),
        }
        // Links point to the file itself, not to the link that made it known.
        let path = match self.fs().read_link(&file) {
            Ok(target) => link_destination(&file, &target),
            Err(_) => file,
        };
        let install = self.loader.install_section(name);
        Ok(Found {
            name: name.clone(),
            path,
            install,
        })
    }

    /// Makes the links of units and of what they name in `Also=`.
    fn apply(
        &mut self,
        units: Vec<Found>,
        options: InstallOptions,
        lenient: bool,
        plan: &mut Plan,
    ) -> Result<(), InstallError> {
        let requested = units.len();
        let mut queue: VecDeque<Found> = units.into();
        let mut seen = BTreeSet::new();
        for turn in 0.. {
            let Some(unit) = queue.pop_front() else {
                break;
            };
            if !seen.insert(unit.name.clone()) {
                continue;
            }
            let (overlay, before) = (self.loader.fs().overlay(), plan.clone());
            plan.carries_install_info |= unit.has_rules() || !unit.install.also.0.is_empty();
            match self.apply_one(&unit, options, lenient, plan) {
                Ok(()) => {}
                // What only goes along does not keep the requested units from being enabled.
                Err(error) if turn >= requested => {
                    self.loader.fs_mut().restore(overlay);
                    *plan = before;
                    plan.notes.push(Note::Refused { error });
                }
                Err(error) => return Err(error),
            }
            for other in unit.install.also.0.iter() {
                let other = self.expand(&unit, other)?;
                match UnitName::new(&other)
                    .map_err(|_| ())
                    .and_then(|name| self.discover(&name).map_err(|_| ()))
                {
                    Ok(found) => queue.push_back(found),
                    Err(()) => plan.notes.push(Note::AlsoFailed { name: other.into() }),
                }
            }
        }
        Ok(())
    }

    fn apply_one(
        &mut self,
        unit: &Found,
        options: InstallOptions,
        lenient: bool,
        plan: &mut Plan,
    ) -> Result<(), InstallError> {
        let folder = self.folder(options.runtime);
        for alias in unit.install.alias.0.iter() {
            let text = self.expand(unit, alias)?;
            let bad = || InstallError::BadName {
                name: unit.name.clone(),
                text: text.as_str().into(),
            };
            let mut alias = UnitName::new(&text).map_err(|_| bad())?;
            if let Some(instance) = unit
                .name
                .instance()
                .filter(|instance| !instance.is_empty() && alias.is_template())
            {
                alias = alias.with_instance(instance).map_err(|_| bad())?;
            }
            // Its own name needs no link.
            if alias == unit.name {
                continue;
            }
            if check_alias(&alias, &unit.name).is_err() {
                return Err(InstallError::BadAlias {
                    name: unit.name.clone(),
                    alias,
                });
            }
            self.link(
                &format!("{folder}/{alias}"),
                &unit.path,
                options.force,
                plan,
            )?;
        }
        let lists = [
            (&unit.install.wanted_by, "wants"),
            (&unit.install.required_by, "requires"),
            (&unit.install.upheld_by, "upholds"),
        ];
        for (list, suffix) in lists {
            for target in list.0.iter() {
                let target = self.expand(unit, target)?;
                self.want(unit, &target, suffix, &folder, lenient, plan)?;
            }
        }
        // A file from elsewhere is made known.
        if !self.paths.search.contains(&unit.path) && !self.loader.index().contains(&unit.name) {
            self.link(
                &format!("{folder}/{}", unit.name),
                &unit.path,
                options.force,
                plan,
            )?;
        }
        Ok(())
    }

    fn want(
        &mut self,
        unit: &Found,
        target: &str,
        suffix: &str,
        folder: &str,
        lenient: bool,
        plan: &mut Plan,
    ) -> Result<(), InstallError> {
        let bad = || InstallError::BadName {
            name: unit.name.clone(),
            text: target.into(),
        };
        let destination = match UnitName::new(target) {
            Ok(destination) => destination,
            Err(_) if lenient => return Ok(()),
            Err(_) => return Err(bad()),
        };
        let mut entry = unit.name.clone();
        if entry.is_template() {
            if let Some(instance) = &unit.install.default_instance {
                let instance = self.expand(unit, &instance.0)?;
                entry = entry.with_instance(&instance).map_err(|_| bad())?;
                if let Some(file) = self.loader.index().file(&entry).map(str::to_owned)
                    && self.fs().stat(&file).is_ok_and(|stat| stat.is_mask())
                {
                    return Err(InstallError::Masked { path: file.into() });
                }
            } else if destination.instance().is_none() {
                if lenient {
                    return Ok(());
                }
                return Err(InstallError::TemplateNeedsInstance {
                    name: entry,
                    target: target.into(),
                });
            }
        }
        let path = format!("{folder}/{destination}.{suffix}/{entry}");
        self.link(&path, &unit.path, true, plan)?;
        if !self.loader.index().contains(&destination) {
            plan.notes.push(Note::DestinationMissing {
                file: unit.path.as_str().into(),
                destination,
            });
        }
        Ok(())
    }

    fn expand(&self, unit: &Found, text: &str) -> Result<String, InstallError> {
        let context = SpecifierContext {
            host: self.loader.host(),
            unit: &unit.name,
            fragment: Some(&unit.path),
        };
        expand(text, context)
            .map(std::borrow::Cow::into_owned)
            .map_err(|_| InstallError::BadName {
                name: unit.name.clone(),
                text: text.into(),
            })
    }
}
