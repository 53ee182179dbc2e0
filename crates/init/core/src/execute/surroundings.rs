//! What a run has beside its processes: a `/tmp` of its own, secrets, a user.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use muster_engine::dep::DepKind;
use muster_engine::ids::UnitId;
use muster_engine::protocol::{Role, Severity};
use muster_engine::types::Machine;
use muster_exec::folders::{PRIVATE, PUT_AWAY};
use muster_exec::{ExecContext, IpcRemains};
use muster_unit_file::config::UnitConfig;
use muster_units::effective;
use rustix::mount::UnmountFlags;

use crate::context::private_tmp;
use crate::core::Core;

/// What removes folders that may hold any number of files: that must not keep the manager from its work. Where there are two
/// folders of programs, either may be the one that has it.
const REMOVERS: [&str; 2] = ["/usr/bin/rm", "/bin/rm"];
/// Folders of other boots that are removed at once; the next boot finds the rest.
const MAX_LEFT_OVER: usize = 256;

impl Core {
    /// Units that a unit shares namespaces with and that are not down.
    fn partners(&self, unit: UnitId) -> Vec<UnitId> {
        let Some(record) = self.engine.get(unit) else {
            return Vec::new();
        };
        let joined = record.deps(DepKind::JoinsNamespaceOf);
        joined
            .filter(|other| !self.engine.unit(*other).active().is_down())
            .collect()
    }

    pub(super) fn config_of(&mut self, unit: UnitId) -> Option<Arc<UnitConfig>> {
        let name = self.name_of(unit)?;
        Some(self.units.config(&name))
    }

    /// The main process of a unit, once it is where it is going to be.
    pub(super) fn main_that_runs(&self, unit: UnitId) -> Option<u32> {
        let record = self.engine.get(unit)?;
        if matches!(&record.machine, Machine::Service(service) if service.setting_up) {
            return None;
        }
        let mut processes = record.machine.processes();
        let main =
            processes.find_map(|(role, process)| (role == Role::Main).then_some(process.pid));
        main.filter(|pid| !self.setting_up.has(*pid))
    }

    fn private_name(&self, unit: UnitId) -> String {
        let record = self.engine.unit(unit);
        private_tmp::name(
            &self.units.host().specifiers,
            &record.name,
            record.invocation,
        )
    }

    /// The name of the folders that stand for `/tmp` in a run, where it has such: its own, or those of a partner that came
    /// first.
    pub(super) fn private_tmp_of(&self, unit: UnitId, config: &UnitConfig) -> Option<String> {
        if !effective::private_tmp(&config.exec) {
            return None;
        }
        let host = &self.units.host().specifiers;
        let own = self.private_name(unit);
        if let Some(shared) = private_tmp::shared(host, &own) {
            return Some(shared);
        }
        if private_tmp::is_made(host, &own) {
            return Some(own);
        }
        let theirs = self.partners(unit).into_iter().find_map(|other| {
            let name = self.private_name(other);
            let used = private_tmp::shared(host, &name).unwrap_or(name);
            private_tmp::is_made(host, &used).then_some(used)
        });
        let theirs = theirs.filter(|theirs| private_tmp::share(host, &own, theirs).is_ok());
        Some(theirs.unwrap_or(own))
    }

    /// A run is over: what it had for itself goes. `another_run` follows at once, and keeps the user.
    pub(super) fn end_surroundings(
        &mut self,
        unit: UnitId,
        config: &UnitConfig,
        another_run: bool,
    ) {
        self.end_namespaces(unit, config);
        if effective::private_tmp(&config.exec) {
            self.remove_private_tmp(unit);
        }
        let host = &self.units.host().specifiers;
        if let Some(folder) = crate::context::credentials_folder(config, host) {
            remove_credentials(&folder);
        }
        if another_run {
            return;
        }
        self.restore_terminal(config);
        // Also from whoever has queues of his own: files in /dev/shm are in no namespace of those.
        let removes_ipc = effective::remove_ipc(&config.exec);
        if removes_ipc || config.exec.dynamic_user {
            let used = self.users_of_others(unit);
            if removes_ipc {
                self.remove_ipc(unit, config, &used);
            }
            if config.exec.dynamic_user {
                self.machine.keep_dynamic_users(&used.dynamic);
            }
        }
    }

    /// A terminal is left as it was found.
    fn restore_terminal(&mut self, config: &UnitConfig) {
        let helper = self.setup_helper();
        if let Some(context) = crate::context::terminal_restorer(config, &helper) {
            // One that is gone needs no care.
            let _ = self.platform.start_helper(&context, &[]);
        }
    }

    /// Queues and shared memory of a user go with the last unit that runs as this user.
    fn remove_ipc(&mut self, unit: UnitId, config: &UnitConfig, used: &Users) {
        let Some(user) = effective::user(config).filter(|user| !used.all.contains(user)) else {
            return;
        };
        let Some(uid) = self.machine.number_of(&user) else {
            // One that is lent has no number if it never ran.
            if !config.exec.dynamic_user {
                let message = format!(
                    "Cannot remove what its user left (RemoveIPC=): the user {user} is known to name services at most."
                );
                self.say(Severity::Warning, Some(unit), &message);
            }
            return;
        };
        if let Err(error) = self.begin_removal(unit, uid) {
            let message = format!("Cannot remove what its user left (RemoveIPC=): {error}");
            self.say(Severity::Warning, Some(unit), &message);
        }
    }

    /// Has a process remove what a user has in the kernel at this moment.
    fn begin_removal(&mut self, unit: UnitId, uid: u32) -> io::Result<()> {
        let Some(remains) = IpcRemains::of(uid)? else {
            return Ok(());
        };
        let helper = self.setup_helper();
        let log = self.logs.writer(unit);
        let (context, list) = remains.remover(&helper, log.is_some())?;
        let descriptors: Vec<BorrowedFd<'_>> = std::iter::once(list.as_fd()).chain(log).collect();
        self.platform.start_helper(&context, &descriptors)
    }

    /// Units that may use the same folders, though perhaps only because both join a third one.
    fn all_partners(&self, unit: UnitId) -> Vec<UnitId> {
        let mut found = vec![unit];
        let mut at = 0;
        while let Some(next) = found.get(at) {
            let joined = self.engine.unit(*next).deps(DepKind::JoinsNamespaceOf);
            let new: Vec<UnitId> = joined.filter(|other| !found.contains(other)).collect();
            found.extend(new);
            at += 1;
        }
        found.retain(|other| *other != unit && !self.engine.unit(*other).active().is_down());
        found
    }

    fn remove_private_tmp(&mut self, unit: UnitId) {
        let partners = self.all_partners(unit);
        let host = &self.units.host().specifiers;
        let own = self.private_name(unit);
        let shared = private_tmp::shared(host, &own);
        if shared.is_some() {
            let [link, _] = private_tmp::outer(host, &own);
            // A link that stays is swept away with the boot.
            let _ = std::fs::remove_file(link);
        }
        let used = shared.unwrap_or(own);
        let still_used = partners.iter().any(|other| {
            let name = self.private_name(*other);
            name == used || private_tmp::shared(host, &name).as_ref() == Some(&used)
        });
        if !still_used {
            let folders = private_tmp::outer(host, &used).into_iter();
            // What somebody else has put there is not the manager's.
            self.remove_at_leisure(folders.filter(|path| private_tmp::is_own(path)));
        }
    }

    /// Removes folders of private `/tmp`s that earlier boots left behind, and folders that nobody came to remove.
    pub(crate) fn sweep_private_tmp(&mut self) {
        let host = &self.units.host().specifiers;
        let Some(boot) = host.boot_id.as_deref() else {
            return;
        };
        let mut left_over = Vec::new();
        for root in private_tmp::roots(host) {
            let names = std::fs::read_dir(root).into_iter().flatten();
            let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let names = names.filter(|name| private_tmp::is_left_over(name, boot));
            let paths = names.map(|name| format!("{root}/{name}"));
            left_over.extend(paths.filter(|path| private_tmp::is_own(path)));
        }
        // What was put away and not removed is of no use, in whichever boot.
        let roots = [
            &host.runtime_directory,
            &host.state_directory,
            &host.cache_directory,
            &host.log_directory,
            &host.configuration_directory,
        ];
        let roots = roots.map(|root| root.trim_end_matches('/'));
        // Those of dynamic users are put away where nobody else gets at them.
        let places = roots.map(|root| [root.to_owned(), format!("{root}/{PRIVATE}")]);
        for root in places.as_flattened() {
            let names = std::fs::read_dir(root).into_iter().flatten();
            let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let names = names.filter(|name| name.starts_with(PUT_AWAY));
            left_over.extend(names.map(|name| format!("{root}/{name}")));
        }
        left_over.truncate(MAX_LEFT_OVER);
        self.remove_at_leisure(left_over.into_iter());
    }

    pub(super) fn remove_at_leisure(&mut self, paths: impl Iterator<Item = String>) {
        let paths: Vec<Box<str>> = paths
            .filter(|path| std::fs::symlink_metadata(path).is_ok())
            .map(Into::into)
            .collect();
        if paths.is_empty() {
            return;
        }
        let mut argv: Vec<Box<str>> = vec!["rm".into(), "-rf".into(), "--".into()];
        argv.extend(paths.iter().cloned());
        let found = REMOVERS.iter().find(|path| self.machine.is_program(path));
        let context = ExecContext {
            program: (*found.unwrap_or(&REMOVERS[0])).into(),
            argv,
            ..ExecContext::default()
        };
        if let Err(error) = self.platform.start_helper(&context, &[]) {
            let message = format!("Cannot remove {}: {error}", paths.join(" and "));
            self.say(Severity::Warning, None, &message);
        }
    }

    /// Users of the other units that run: what is theirs stays.
    fn users_of_others(&mut self, ended: UnitId) -> Users {
        let running: Vec<UnitId> = self
            .engine
            .units()
            .filter(|(unit, record)| *unit != ended && !record.active().is_down())
            .map(|(unit, _)| unit)
            .collect();
        let mut used = Users::default();
        for unit in running {
            let Some(config) = self.config_of(unit) else {
                continue;
            };
            used.all.extend(effective::user(&config));
            if config.exec.dynamic_user {
                used.dynamic.extend(effective::user(&config));
                used.dynamic.extend(effective::group(&config));
                let further = config.exec.supplementary_groups.0.iter();
                used.dynamic.extend(further.map(str::to_owned));
            }
        }
        used
    }
}

/// Names of users that units run as.
#[derive(Debug, Default)]
struct Users {
    all: BTreeSet<String>,
    /// Those that exist only for that, and their groups.
    dynamic: BTreeSet<String>,
}

/// Secrets are gone when nobody is left to read them.
fn remove_credentials(folder: &str) {
    // What is not mounted, or not there, is as good as unmounted.
    let _ = rustix::mount::unmount(folder, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    let _ = crate::context::remove_tree(folder);
}
