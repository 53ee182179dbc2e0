//! Making and removing links, on the view and in the plan.

use std::collections::BTreeSet;

use super::{Change, InstallError, Installer, Note, Plan, links_equal};
use crate::fs::{FileKind, UnitFs, base_name, link_destination};
use crate::name::UnitName;

impl<F: UnitFs> Installer<'_, F> {
    /// Plans a link. One that leads to the same file already is left alone.
    pub(super) fn link(
        &mut self,
        path: &str,
        target: &str,
        force: bool,
        plan: &mut Plan,
    ) -> Result<(), InstallError> {
        match self.fs().read_link(path) {
            Ok(existing) => {
                if links_equal(self.fs(), &link_destination(path, &existing), target) {
                    return Ok(());
                }
                if !force {
                    return Err(InstallError::LinkExists {
                        path: path.into(),
                        target: existing.into(),
                    });
                }
                plan.changes.push(Change::Remove { path: path.into() });
            }
            Err(_) if self.fs().stat(path).is_ok() => {
                return Err(InstallError::FileExists { path: path.into() });
            }
            Err(_) => {}
        }
        plan.changes.push(Change::Link {
            path: path.into(),
            target: target.into(),
        });
        self.loader.fs_mut().set(path, Some(target));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &str, plan: &mut Plan) {
        plan.changes.push(Change::Remove { path: path.into() });
        self.loader.fs_mut().set(path, None);
    }

    pub(super) fn remove_folder(&mut self, path: &str, plan: &mut Plan) {
        plan.changes
            .push(Change::RemoveFolder { path: path.into() });
        self.loader.fs_mut().set(path, None);
    }

    /// Removes every link to units, their aliases and what they name in `Also=`.
    pub(super) fn remove_links(&mut self, units: &[UnitName], runtime: bool, plan: &mut Plan) {
        let mut doomed: BTreeSet<String> = BTreeSet::new();
        let mut todo: Vec<UnitName> = units.to_vec();
        while let Some(name) = todo.pop() {
            if doomed.contains(name.as_str()) {
                continue;
            }
            let file = self.loader.index().file(&name).map(str::to_owned);
            if let Some(mask) = file.filter(|file| self.fs().stat(file).is_ok_and(|s| s.is_mask()))
            {
                let note = Note::Masked { path: mask.into() };
                if !plan.notes.contains(&note) {
                    plan.notes.push(note);
                }
                continue;
            }
            doomed.insert(name.as_str().to_owned());
            let main = self.loader.index().main_name(&name).map(|(main, _)| main);
            if let Some(main) = main.filter(|main| *main != name) {
                // One instance of an alias is one instance of its template, not all of them.
                let instance = name.instance().filter(|_| main.is_template());
                let instance = instance.filter(|instance| !instance.is_empty());
                todo.push(match instance {
                    Some(instance) => main.with_instance(instance).unwrap_or(main),
                    None => main,
                });
            }
            let install = self.loader.install_section(&name);
            plan.carries_install_info |= !install.also.0.is_empty()
                || !install.alias.0.is_empty()
                || !install.wanted_by.0.is_empty()
                || !install.required_by.0.is_empty();
            todo.extend(
                install
                    .also
                    .0
                    .iter()
                    .filter_map(|other| UnitName::new(other).ok()),
            );
        }
        let folder = self.folder(runtime);
        // Removing a link may make further names meaningless, so look again until nothing changes.
        loop {
            let hits: Vec<String> = self
                .links_below(&folder)
                .into_iter()
                .filter(|path| self.is_doomed(path, &doomed))
                .collect();
            if hits.is_empty() {
                break;
            }
            for path in hits {
                doomed.insert(base_name(&path).to_owned());
                self.remove(&path, plan);
            }
        }
    }

    /// All links of a folder and of the folders in it, sorted.
    fn links_below(&self, folder: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (name, kind) in self.fs().list(folder).unwrap_or_default() {
            let path = format!("{folder}/{name}");
            match kind {
                FileKind::Link => found.push(path),
                FileKind::Folder => {
                    let inner = self.fs().list(&path).unwrap_or_default();
                    let links = inner
                        .into_iter()
                        .filter(|(_, kind)| *kind == FileKind::Link);
                    found.extend(links.map(|(name, _)| format!("{path}/{name}")));
                }
                FileKind::File | FileKind::Null | FileKind::Other => {}
            }
        }
        found.sort_unstable();
        found
    }

    /// Whether a link is named after, or leads to, one of the units. Masks stay.
    fn is_doomed(&self, path: &str, doomed: &BTreeSet<String>) -> bool {
        let Ok(name) = UnitName::new(base_name(path)) else {
            return false;
        };
        let Ok(target) = self.fs().read_link(path) else {
            return false;
        };
        let destination = link_destination(path, &target);
        if destination == "/dev/null" {
            return false;
        }
        let named = |name: &UnitName| {
            doomed.contains(name.as_str())
                || name.template().is_some_and(|t| doomed.contains(t.as_str()))
        };
        let destination_name = UnitName::new(base_name(&destination));
        // A link for one instance of a template is not a link for the others.
        let leads_to = match &destination_name {
            Ok(target) if target.is_template() && !name.is_template() => false,
            Ok(target) => named(target),
            Err(_) => false,
        };
        named(&name) || leads_to
    }
}
