//! The sd_notify protocol and the watchdog.

use super::{Act, ServiceState, StoredName};
use crate::ids::Span;
use crate::protocol::{DeadlineKind, Notification, Outcome, Output, Process, Severity};

impl Act<'_> {
    pub(super) fn notified(&mut self, message: &Notification) {
        use ServiceState::*;
        if self.service.is_resting() {
            // The last words of a run that is over.
            return;
        }
        if let Some(pid) = message.main_pid {
            self.main_named(pid);
        }
        if let Some(text) = &message.status {
            self.service.status_text = Some(text.clone());
        }
        if let Some(errno) = message.errno {
            self.service.status_errno = errno;
        }
        if let Some(span) = message.watchdog_usec {
            self.service.watchdog_override = Some(span);
            self.feed_watchdog();
        }
        if message.watchdog {
            self.feed_watchdog();
        }
        if let Some(span) = message.extend_timeout {
            self.extend_timeout(span);
        }
        self.store(message);
        if message.reloading {
            self.says_it_reloads(message.monotonic);
        }
        if message.ready {
            match self.service.state {
                ReloadNotify if !message.reloading => self.finish_reload(true),
                _ => self.became_ready(),
            }
        }
        if message.stopping && matches!(self.service.state, Running | ReloadSignal | ReloadNotify) {
            // It goes down by itself; the usual patience applies, nothing is sent yet.
            self.end_supervision();
            self.enter(StopSigterm);
            self.arm(DeadlineKind::Step, self.spec.timeout_stop);
        }
        if message.watchdog_trigger && self.is_watched() {
            self.log(Severity::Error, "It asked for its watchdog action.");
            self.enter_signal(StopWatchdog, Outcome::Watchdog);
        }
    }

    /// The executor has checked that the process belongs to the unit; its pidfd follows with the next PidFile.
    fn main_named(&mut self, pid: u32) {
        use ServiceState::*;
        let up = matches!(
            self.service.state,
            Start | StartPost | Running | Reload | ReloadSignal | ReloadNotify
        );
        if !up
            || self
                .service
                .main
                .as_ref()
                .is_some_and(|main| main.pid == pid)
        {
            return;
        }
        let old = self.service.main.take().or(self.service.control.clone());
        self.service.main = Some(Process {
            pid,
            pidfd_inode: 0,
            cgroup: old.map(|old| old.cgroup).unwrap_or_default(),
            invocation: self.context.invocation,
        });
        self.service.main_exit = None;
        self.service.populated = true;
    }

    fn says_it_reloads(&mut self, at: Option<crate::ids::Time>) {
        match self.service.state {
            ServiceState::Running => {
                self.service.reload_failed = false;
                self.enter(ServiceState::ReloadNotify);
                self.arm(DeadlineKind::Step, self.spec.timeout_start);
            }
            // Word of an earlier reload may still be on its way when a new one is asked for.
            ServiceState::ReloadSignal if at.is_none_or(|at| at >= self.service.reload_since) => {
                self.enter(ServiceState::ReloadNotify);
            }
            _ => {}
        }
    }

    /// A service may ask for more time, never for less, and only where there is a limit.
    fn extend_timeout(&mut self, span: Span) {
        let Some(wanted) = self.context.now.monotonic.after(span) else {
            return;
        };
        for kind in [
            DeadlineKind::Step,
            DeadlineKind::RuntimeMax,
            DeadlineKind::Watchdog,
        ] {
            let until = self.until(kind).map(|until| *until).unwrap_or_default();
            if until.0 != 0 && until < wanted {
                self.set_deadline(kind, Some(wanted));
            }
        }
    }

    /// Whether the watchdog counts now.
    pub(super) fn is_watched(&self) -> bool {
        use ServiceState::*;
        matches!(
            self.service.state,
            StartPost | Running | Reload | ReloadSignal | ReloadNotify
        )
    }

    fn store(&mut self, message: &Notification) {
        if let Some(name) = &message.remove {
            self.service.stored.retain(|stored| stored.name != *name);
            self.out.push(Output::DropFds(Some(name.clone())));
        }
        let Some(fds) = &message.store else { return };
        let stored = self.service.stored_fds();
        let room = self.spec.fd_store_max.saturating_sub(stored);
        let count = u32::from(fds.count);
        if count > room {
            let message = format!("{count} descriptors were refused: {stored} are kept already.");
            return self.log(Severity::Warning, message);
        }
        if count == 0 {
            return;
        }
        match self
            .service
            .stored
            .iter_mut()
            .find(|stored| stored.name == fds.name)
        {
            Some(stored) => stored.count += count,
            None => self.service.stored.push(StoredName {
                name: fds.name.clone(),
                count,
            }),
        }
        self.out.push(Output::StoreFds(fds.clone()));
    }

    pub(super) fn stored_fd_closed(&mut self, name: &str) {
        for stored in &mut self.service.stored {
            if &*stored.name == name {
                stored.count = stored.count.saturating_sub(1);
            }
        }
        self.service.stored.retain(|stored| stored.count > 0);
    }

    pub(super) fn feed_watchdog(&mut self) {
        if !self.is_watched() {
            return;
        }
        let span = self.service.watchdog_override.unwrap_or(self.spec.watchdog);
        if span.0 == 0 || span == Span::INFINITY {
            self.disarm(DeadlineKind::Watchdog);
        } else {
            self.arm(DeadlineKind::Watchdog, span);
        }
    }
}
