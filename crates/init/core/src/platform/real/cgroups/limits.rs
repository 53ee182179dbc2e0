//! Limits and filters of cgroups.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use muster_cgroup::{CgroupPath, Hook, Occasion, PinnedProgram, Plan, Program, Unapplied};
use muster_exec::bpf::{self, PinnedError};

use super::{RealPlatform, path};

impl RealPlatform {
    pub(in crate::platform::real) fn limit_group(
        &mut self,
        text: &str,
        plan: &Plan,
        occasion: Occasion,
    ) -> Vec<Unapplied> {
        let Ok(path) = path(text) else {
            return Vec::new();
        };
        let written = self.tree.limit(&path, plan, occasion);
        let mut unapplied = written.unwrap_or_else(|error| {
            let reason = error.to_string();
            let own = plan.attributes.iter().map(|one| one.setting);
            let legacy = plan.legacy_attributes.iter();
            let legacy = legacy.filter(|one| !one.is_reset).map(|one| one.setting);
            let mut settings: Vec<&'static str> = own.chain(legacy).collect();
            settings.dedup();
            settings
                .into_iter()
                .map(|setting| Unapplied {
                    setting,
                    reason: reason.clone(),
                })
                .collect()
        });
        unapplied.extend(self.attach_programs(&path, plan, occasion));
        unapplied
    }

    fn attach_programs(
        &self,
        path: &CgroupPath,
        plan: &Plan,
        occasion: Occasion,
    ) -> Vec<Unapplied> {
        // A new group has no programs that could have to go.
        if plan.programs.is_empty() && occasion == Occasion::New {
            return Vec::new();
        }
        let mut unapplied: Vec<Unapplied> = Vec::new();
        let mut refuse = |program: &Program, error: &dyn std::error::Error| {
            let source = error.source().map(|source| format!(": {source}"));
            let reason = format!("{error}{}", source.unwrap_or_default());
            for setting in program.settings.iter().copied() {
                if !unapplied.iter().any(|one| one.setting == setting) {
                    let reason = reason.clone();
                    unapplied.push(Unapplied { setting, reason });
                }
            }
        };
        let group = match self.tree.open_group(path) {
            Ok(group) => group,
            Err(error) => {
                for program in &plan.programs {
                    refuse(program, &error);
                }
                return unapplied;
            }
        };
        for hook in Hook::ALL {
            let program = plan.programs.iter().find(|program| program.hook == hook);
            if program.is_none() && occasion == Occasion::New {
                continue;
            }
            let replaced = bpf::replace(group.as_fd(), hook, program);
            // One that cannot be taken away is stricter than what is asked for, and goes with the group.
            if let (Err(error), Some(program)) = (replaced, program) {
                refuse(program, &error);
            }
        }
        unapplied
    }

    pub(in crate::platform::real) fn keep_pinned(
        &self,
        text: &str,
        wanted: &[PinnedProgram],
    ) -> Vec<PinnedError> {
        let group = path(text).and_then(|path| {
            let group = self.tree.open_group(&path);
            group.map_err(io::Error::other)
        });
        match group {
            Ok(group) => bpf::keep_pinned(group.as_fd(), wanted),
            Err(error) => {
                let failed = wanted.iter().map(|one| PinnedError {
                    setting: one.setting,
                    path: one.path.clone(),
                    point: one.point,
                    source: io::Error::new(error.kind(), error.to_string()),
                });
                failed.collect()
            }
        }
    }

    pub(in crate::platform::real) fn exemptions_of(&self, text: &str) -> Option<OwnedFd> {
        let group = self.tree.open_group(&path(text).ok()?).ok()?;
        bpf::exemptions(group.as_fd())
    }

    /// Bytes and packets in, bytes and packets out.
    pub(in crate::platform::real) fn traffic_of(&self, path: &CgroupPath) -> [Option<u64>; 4] {
        let Ok(group) = self.tree.open_group(path) else {
            return [None; 4];
        };
        let count = |hook| {
            let traffic = bpf::traffic(group.as_fd(), hook);
            [
                traffic.map(|traffic| traffic.bytes),
                traffic.map(|traffic| traffic.packets),
            ]
        };
        let ([in_bytes, in_packets], [out_bytes, out_packets]) =
            (count(Hook::Ingress), count(Hook::Egress));
        [in_bytes, in_packets, out_bytes, out_packets]
    }
}
