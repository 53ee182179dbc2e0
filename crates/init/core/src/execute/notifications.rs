//! Notifications of services: who may say what.

use muster_engine::ids::UnitId;
use muster_engine::protocol::{Input, Notification, Process, Role, Severity};
use muster_unit_file::config::{NotifyAccess, UnitKind};

use crate::core::Core;
use crate::notify;

/// Datagrams that are taken in one go, so that a service that never stops talking does not stop the manager.
const BATCH: usize = 64;
/// Children of a process that stands for a program, once that is there: the first of the namespace, and the program.
const INSIDE: usize = 2;

impl Core {
    /// Takes what services said. A datagram is recorded before it is taken off the socket.
    pub(crate) fn hear_notifications(&mut self) {
        let mut bytes = Vec::new();
        for _ in 0..BATCH {
            let Some((sender, descriptors)) = self.platform.peek_notification(&mut bytes) else {
                return;
            };
            let count = u16::try_from(descriptors.len()).unwrap_or(u16::MAX);
            let message = notify::parse(&bytes, sender, count);
            if !message.barrier {
                self.activation.stored.arrive(descriptors);
                self.hear(sender, message.notification);
                // What the engine makes of it uses the descriptors that came along.
                self.apply_queued();
                self.activation.stored.arrive(Vec::new());
            }
            self.platform.take_notification();
        }
    }

    fn hear(&mut self, sender: u32, mut notification: Notification) {
        let Some((unit, role)) = self.unit_of_process(sender) else {
            return;
        };
        if !self.may_notify(unit, role) {
            let message =
                format!("Process {sender} may not notify: NotifyAccess= does not let it.");
            return self.say(Severity::Debug, Some(unit), &message);
        }
        if let Some(pid) = notification.main_pid
            && self.main_process(unit, pid).is_none()
        {
            let message =
                format!("Process {pid} is not of this unit and does not become its main process.");
            self.say(Severity::Warning, Some(unit), &message);
            notification.main_pid = None;
        }
        self.tell(unit, Input::Notified(Box::new(notification)));
    }

    /// Which unit a process is of, and what it is to it; `None` as role for any other process of the unit.
    pub(crate) fn unit_of_process(&mut self, pid: u32) -> Option<(UnitId, Option<Role>)> {
        let pid = self.stand_in_of(pid);
        if let Some(unit) = self.processes.get(&pid) {
            let record = self.engine.get(*unit)?;
            let mut processes = record.machine.processes();
            let role = processes.find_map(|(role, process)| (process.pid == pid).then_some(role));
            return Some((*unit, role));
        }
        let cgroup = self.platform.process(pid)?.cgroup?;
        self.unit_of_cgroup(&cgroup).map(|unit| (unit, None))
    }

    /// The process that stands for a program in a namespace of its own, which is its parent; otherwise the program itself.
    fn stand_in_of(&mut self, pid: u32) -> u32 {
        let known = self.setting_up.outer_of(pid);
        if known != pid || self.processes.contains_key(&pid) {
            return known;
        }
        // Only the manager that started it was told its number.
        let parent = self.platform.process(pid).map(|facts| facts.parent);
        match parent {
            Some(parent) if self.stands_for_program(parent) => parent,
            _ => pid,
        }
    }

    /// Whether a process is of a unit and stands for the program of its command.
    fn stands_for_program(&mut self, pid: u32) -> bool {
        let Some(unit) = self.processes.get(&pid).copied() else {
            return false;
        };
        let noted = self.memory.stands_for(unit, pid);
        noted.unwrap_or_else(|| {
            // A manager that lost its state, or whose predecessor died right after the start, has the settings only.
            let config = self.config_of(unit);
            config.is_some_and(|config| config.exec.sandbox.private_pids)
        })
    }

    /// Processes of a unit that a signal to all of them must leave out, since it reaches their programs without them and would
    /// be passed on. One whose program is not there yet gets it, and passes it on.
    pub(crate) fn stand_ins(&mut self, unit: UnitId) -> Vec<u32> {
        let Some(record) = self.engine.get(unit) else {
            return Vec::new();
        };
        let processes = record.machine.processes();
        let mut stand_ins: Vec<u32> = processes.map(|(_, process)| process.pid).collect();
        stand_ins.retain(|pid| self.stands_for_program(*pid));
        if stand_ins.is_empty() {
            return stand_ins;
        }
        let parents: Vec<u32> = self
            .platform
            .processes(&self.cgroup_of(unit))
            .into_iter()
            .filter_map(|(pid, _)| Some(self.platform.process(pid)?.parent))
            .collect();
        stand_ins.retain(|pid| parents.iter().filter(|parent| *parent == pid).count() >= INSIDE);
        stand_ins
    }

    /// Which unit a cgroup, or one above it, is of.
    pub(crate) fn unit_of_cgroup(&self, path: &str) -> Option<UnitId> {
        let mut parts = path.split('/').rev();
        parts.find_map(|part| {
            let name = part.strip_prefix('_').unwrap_or(part);
            let unit = self.engine.find(name)?;
            (!name.ends_with(".slice") && path.starts_with(&*self.cgroup_of(unit))).then_some(unit)
        })
    }

    fn may_notify(&mut self, unit: UnitId, role: Option<Role>) -> bool {
        let Some(name) = self.name_of(unit) else {
            return false;
        };
        let config = self.units.config(&name);
        let UnitKind::Service(service) = &config.kind else {
            return false;
        };
        match service.notify_access() {
            NotifyAccess::None => false,
            NotifyAccess::All => true,
            NotifyAccess::Exec => matches!(role, Some(Role::Main | Role::Control)),
            NotifyAccess::Main => role == Some(Role::Main),
        }
    }

    /// A process that a unit calls its main process, as the engine wants to know it. It must be of the unit; from now on its
    /// end counts.
    pub(crate) fn main_process(&mut self, unit: UnitId, pid: u32) -> Option<Process> {
        let facts = self.platform.process(pid)?;
        let own = self.cgroup_of(unit);
        let cgroup = facts.cgroup.filter(|path| {
            path.strip_prefix(&*own)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })?;
        let process = Process {
            pid,
            pidfd_inode: facts.pidfd_inode,
            cgroup,
            invocation: self.engine.get(unit)?.invocation,
        };
        if !self.platform.adopt(&process) {
            return None;
        }
        self.own_process(unit, pid);
        Some(process)
    }
}
