//! Notifications of services: who may say what.

use muster_engine::ids::UnitId;
use muster_engine::protocol::{Input, Notification, Process, Role, Severity};
use muster_unit_file::config::{NotifyAccess, UnitKind};

use crate::core::Core;
use crate::notify;

/// Datagrams that are taken in one go, so that a service that never stops talking does not stop the manager.
const BATCH: usize = 64;

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
    pub(crate) fn unit_of_process(&self, pid: u32) -> Option<(UnitId, Option<Role>)> {
        if let Some(unit) = self.processes.get(&pid) {
            let record = self.engine.get(*unit)?;
            let mut processes = record.machine.processes();
            let role = processes.find_map(|(role, process)| (process.pid == pid).then_some(role));
            return Some((*unit, role));
        }
        let cgroup = self.platform.process(pid)?.cgroup?;
        self.unit_of_cgroup(&cgroup).map(|unit| (unit, None))
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
