//! A booted Muster, and short ways to ask it things.

use std::ops::Deref;
use std::time::{Duration, Instant};

use muster_lab::machine::{
    Binaries, Build, CommandOutput, Machine, MachineBuilder, MachineProcess,
};
use muster_lab::{muster, poll_until};
use rustix::process::{Pid, Signal, kill_process};

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(30);

/// What names a process for good: its number and when it started.
pub(crate) type ProcessKey = (i32, u64);

/// The programs, with their fault points compiled in.
pub(crate) fn programs() -> Binaries {
    muster::programs(Build::Test, &["muster-core/fault-points"])
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

/// A machine that runs Muster as its init.
pub(crate) struct Rig {
    machine: Machine,
    // The machine's view of them ends with it.
    programs: Binaries,
}

impl Deref for Rig {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Rig {
    /// Boots Muster as process 1 and waits until it has started everything.
    pub(crate) fn boot(with: impl FnOnce(MachineBuilder) -> MachineBuilder) -> Self {
        Self::boot_with(programs(), with)
    }

    /// As [`boot`](Self::boot), with these programs.
    pub(crate) fn boot_with(
        programs: Binaries,
        with: impl FnOnce(MachineBuilder) -> MachineBuilder,
    ) -> Self {
        let machine = muster::boot(&with(muster::machine(&programs)), TIME).unwrap();
        Self { machine, programs }
    }

    pub(crate) fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    pub(crate) fn programs(&self) -> &Binaries {
        &self.programs
    }

    /// Runs `sctl`, however it ends.
    pub(crate) fn sctl(&self, words: &[&str]) -> CommandOutput {
        self.run(["sctl"].iter().chain(words)).unwrap()
    }

    /// Runs `sctl`, which must succeed, and returns what it printed.
    #[track_caller]
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let output = self.sctl(words);
        let (stdout, stderr) = (&output.stdout, &output.stderr);
        assert!(
            output.status.success(),
            "sctl {words:?}: {}\n{stdout}{stderr}",
            output.status
        );
        output.stdout
    }

    /// One property of a unit.
    #[track_caller]
    pub(crate) fn property(&self, unit: &str, name: &str) -> String {
        self.ok(&["show", "--value", "--property", name, unit])
            .trim_end()
            .to_owned()
    }

    /// The processes of that name.
    pub(crate) fn named(&self, name: &str) -> Vec<MachineProcess> {
        let mut processes = self.processes().unwrap();
        processes.retain(|process| process.name == name && !process.zombie);
        processes
    }

    /// The one process of that name.
    #[track_caller]
    pub(crate) fn only(&self, name: &str) -> MachineProcess {
        let mut processes = self.named(name);
        assert_eq!(processes.len(), 1, "{name}: {processes:?}");
        processes.remove(0)
    }

    /// The core that runs, if one does.
    pub(crate) fn core(&self) -> Option<MachineProcess> {
        muster_lab::muster::manager(self).unwrap()
    }

    /// Waits until a core runs that is not `old`, and answers. Says how long that took.
    #[track_caller]
    pub(crate) fn wait_for_another_core(&self, old: &MachineProcess, after: &str) -> Duration {
        let since = Instant::now();
        poll_until(TIME, &format!("another core runs after {after}"), || {
            self.core()
                .is_some_and(|core| core.host_pid != old.host_pid)
        });
        self.ok(&["is-active", "basic.target"]);
        since.elapsed()
    }

    /// Kills one process of the machine.
    pub(crate) fn kill(&self, process: &MachineProcess, signal: Signal) {
        kill_process(Pid::from_raw(process.host_pid).unwrap(), signal).unwrap();
    }

    /// Switches the machine off the way an administrator does.
    pub(crate) fn power_off(&self) {
        self.ok(&["poweroff"]);
    }
}
