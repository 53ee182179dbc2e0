//! A machine that runs Muster, and short ways to ask it things.

use std::ops::Deref;
use std::time::Duration;

use muster_lab::machine::{Build, CommandOutput, Machine, MachineBuilder, MachineProcess};
use muster_lab::{muster, poll_until};
use rustix::process::{Pid, Signal, kill_process};

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(30);

pub(crate) struct Rig {
    machine: Machine,
}

impl Deref for Rig {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Rig {
    pub(crate) fn boot(with: impl FnOnce(MachineBuilder) -> MachineBuilder) -> Self {
        // The same features as the other tests: one build serves all.
        let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
        let builder = with(muster::machine(&programs));
        let machine = muster::boot(&builder, TIME).unwrap();
        Self { machine }
    }

    pub(crate) fn sctl(&self, words: &[&str]) -> CommandOutput {
        self.run(["sctl"].iter().chain(words)).unwrap()
    }

    /// Runs `sctl`, which must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let output = self.sctl(words);
        let (out, err) = (&output.stdout, &output.stderr);
        assert!(output.status.success(), "sctl {words:?}: {out}{err}");
        output.stdout
    }

    #[track_caller]
    pub(crate) fn property(&self, unit: &str, name: &str) -> String {
        let value = self.ok(&["show", "--value", "--property", name, unit]);
        value.trim_end().to_owned()
    }

    #[track_caller]
    pub(crate) fn wait_for_property(&self, unit: &str, name: &str, value: &str) {
        let what = format!("{name} of {unit} to be {value}");
        poll_until(TIME, &what, || self.property(unit, name) == value);
    }

    pub(crate) fn core(&self) -> Option<MachineProcess> {
        muster_lab::muster::manager(self).unwrap()
    }

    /// Kills the manager and waits until another one answers.
    pub(crate) fn kill_core(&self) {
        let core = self.core().expect("a manager");
        let pid = Pid::from_raw(core.host_pid).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        poll_until(TIME, "another manager to answer", || {
            let answers = self.sctl(&["is-system-running"]);
            !answers.stdout.trim().is_empty()
                && self.core().is_some_and(|new| new.host_pid != core.host_pid)
        });
    }

    /// Waits until the manager has said something, on its console or, once that runs, to the log daemon.
    #[track_caller]
    pub(crate) fn wait_for_message(&self, text: &str) {
        poll_until(TIME, &format!("the message {text:?}"), || {
            let log = self.sctl(&["logs", "--output", "cat"]).stdout;
            let console = self.console();
            log.contains(text) || console.iter().any(|line| line.text.contains(text))
        });
    }

    /// Lines of a file of the machine; none if it is not there.
    pub(crate) fn lines(&self, path: &str) -> Vec<String> {
        let text = self.read(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
