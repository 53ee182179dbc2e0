//! Whether a unit file is enabled.

use std::rc::Rc;

use super::Installer;
use super::table::{FileIdentity, KnownLink, read_folder};
use crate::fs::{UnitFs, base_name};
use crate::name::UnitName;
use crate::value::word_enum;

word_enum! {
    /// What `is-enabled` answers.
    UnitFileState, "state",
    Enabled = "enabled", EnabledRuntime = "enabled-runtime", Linked = "linked", LinkedRuntime = "linked-runtime",
    Alias = "alias", Masked = "masked", MaskedRuntime = "masked-runtime", Static = "static",
    Indirect = "indirect", Disabled = "disabled", Generated = "generated", Transient = "transient", Bad = "bad",
}

impl UnitFileState {
    /// Whether `is-enabled` exits with success.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(
            self,
            Self::Enabled
                | Self::EnabledRuntime
                | Self::Static
                | Self::Alias
                | Self::Indirect
                | Self::Generated
        )
    }
}

/// What was found in one folder of the search path.
#[derive(Default)]
struct Hits {
    /// A link that enables the unit under one of its own names.
    known: bool,
    /// A link that enables it under any name.
    any: bool,
    /// A link of the same name in the folder itself: a linked file.
    same_name: bool,
}

impl<F: UnitFs> Installer<'_, F> {
    /// The state of a unit file, `None` if there is none.
    pub fn state(&mut self, name: &UnitName) -> Option<UnitFileState> {
        let index = self.loader.index();
        // A link from an instance to a template of another name stands for that template's instance.
        if let (Some(target), Some(instance)) = (index.alias_of(name), name.instance())
            && target.is_template()
            && target.prefix() != name.prefix()
            && let Ok(instance) = target.with_instance(instance)
        {
            return self.state(&instance);
        }
        let alias = index
            .alias_of(name)
            .is_some_and(|target| !target.is_template() || name.is_template());
        let file = index.file(name)?.to_owned();
        let Ok(stat) = self.fs().stat(&file) else {
            return Some(UnitFileState::Bad);
        };
        if stat.is_mask() {
            let runtime = self.is_runtime(&file);
            return Some(if runtime {
                UnitFileState::MaskedRuntime
            } else {
                UnitFileState::Masked
            });
        }
        if alias {
            return Some(UnitFileState::Alias);
        }
        if file.starts_with("/run/systemd/generator") {
            return Some(UnitFileState::Generated);
        }
        if file.starts_with("/run/systemd/transient/") {
            return Some(UnitFileState::Transient);
        }
        if let Some(state) = self.linked_state(name, &file, true) {
            return Some(state);
        }
        let install = self.loader.install_section(name);
        let lists = [
            &install.alias,
            &install.wanted_by,
            &install.required_by,
            &install.upheld_by,
        ];
        let enabled_otherwise = self.linked_state(name, &file, false).is_some();
        Some(if enabled_otherwise {
            UnitFileState::Indirect
        } else if lists.iter().any(|list| !list.0.is_empty()) {
            UnitFileState::Disabled
        } else if !install.also.0.is_empty() {
            UnitFileState::Indirect
        } else {
            UnitFileState::Static
        })
    }

    fn is_runtime(&self, path: &str) -> bool {
        path.starts_with("/run/") || path.starts_with(&format!("{}/", self.paths.runtime))
    }

    fn linked_state(
        &mut self,
        name: &UnitName,
        file: &str,
        known_names: bool,
    ) -> Option<UnitFileState> {
        let names = self.own_names(name);
        let identity = FileIdentity::new(self.fs(), file);
        let links = self.known_links();
        let (mut runtime, mut elsewhere, mut linked, mut linked_runtime) =
            (false, false, false, false);
        let mut below_file = false;
        for (folder, links) in self.paths.search.iter().zip(links.iter()) {
            let hits = hits(links, name, &identity, &names, below_file);
            if if known_names { hits.known } else { hits.any } {
                if *folder == *self.paths.persistent {
                    return Some(UnitFileState::Enabled);
                }
                if self.is_runtime(&format!("{folder}/")) {
                    runtime = true;
                } else {
                    elsewhere = true;
                }
            } else if hits.same_name {
                linked |= *folder == *self.paths.persistent;
                linked_runtime |= self.is_runtime(&format!("{folder}/"));
            }
            below_file |= file.starts_with(&format!("{folder}/"));
        }
        if runtime {
            Some(UnitFileState::EnabledRuntime)
        } else if elsewhere && name.is_instance() {
            Some(UnitFileState::Static)
        } else if linked {
            Some(UnitFileState::Linked)
        } else if linked_runtime {
            Some(UnitFileState::LinkedRuntime)
        } else {
            None
        }
    }

    /// The names under which enabling a unit makes links.
    fn own_names(&mut self, name: &UnitName) -> Vec<String> {
        let install = self.loader.install_section(name);
        let mut names = vec![name.as_str().to_owned()];
        names.extend(install.alias.0.iter().map(str::to_owned));
        if let Some(instance) = install.default_instance.filter(|_| name.is_template())
            && let Ok(default) = name.with_instance(&instance.0)
        {
            names.push(default.as_str().to_owned());
        }
        names
    }

    /// The links of all folders of the search path, in its order. They are read when first asked for
    /// and again after changes.
    fn known_links(&mut self) -> Rc<[Vec<KnownLink>]> {
        if let Some(known) = &self.known_links {
            return known.clone();
        }
        let folders = self.paths.search.iter();
        let links: Rc<[_]> = folders.map(|dir| read_folder(self.fs(), dir)).collect();
        self.known_links = Some(links.clone());
        links
    }
}

/// What the links of one folder say about a unit.
fn hits(
    links: &[KnownLink],
    name: &UnitName,
    file: &FileIdentity,
    names: &[String],
    below_file: bool,
) -> Hits {
    let mut hits = Hits::default();
    for link in links {
        let same_name = link.entry == name.as_str();
        // The file of an instance is its template's, which the other instances share.
        let same_file = !name.is_instance() && link.leads_to(file);
        let leads_to = same_file || base_name(&link.destination) == name.as_str();
        if link.top && same_name {
            hits.same_name |= !below_file;
        } else if same_name || leads_to {
            hits.any = true;
            hits.known |= names.contains(&link.entry);
        }
    }
    hits
}
