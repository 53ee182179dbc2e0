//! The two managers, driven the same way: as process 1 of a machine, by their own command.

use std::error::Error;
use std::time::{Duration, Instant};

use muster_lab::machine::{Binaries, Machine, MachineProcess};
use muster_lab::{muster, peer};

use crate::workload::Workload;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

const BOOT_TIME: Duration = Duration::from_secs(60);
/// The longest of all measured commands takes seconds.
const COMMAND_TIME: Duration = Duration::from_secs(120);

/// Who is measured.
pub(crate) enum Manager {
    Systemd,
    Muster(Binaries),
}

impl Manager {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Systemd => "systemd 252",
            Self::Muster(_) => "Muster",
        }
    }

    /// Boots a machine that has the units of a workload, and has started none of them.
    pub(crate) fn boot(&self, workload: Option<&Workload>) -> Outcome<Machine> {
        let mut builder = match self {
            Self::Systemd => peer::systemd(),
            Self::Muster(programs) => muster::machine(programs),
        };
        for (name, text) in workload.iter().flat_map(|workload| &workload.units) {
            builder = builder.unit(name, text);
        }
        Ok(match self {
            Self::Systemd => peer::boot_systemd(&builder, BOOT_TIME)?,
            Self::Muster(_) => muster::boot(&builder, BOOT_TIME)?,
        })
    }

    /// Runs a command of the manager's tool, and says how long it took until that returned.
    pub(crate) fn timed(&self, machine: &Machine, words: &[&str]) -> Outcome<Duration> {
        let tool = match self {
            Self::Systemd => "systemctl",
            Self::Muster(_) => "sctl",
        };
        let argv: Vec<&str> = [tool].iter().chain(words).copied().collect();
        let started = Instant::now();
        let output = machine.run_within(COMMAND_TIME, &argv)?;
        let took = started.elapsed();
        if output.status.success() {
            return Ok(took);
        }
        Err(format!("{}: `{}`: {}", self.name(), argv.join(" "), output.stderr).into())
    }

    /// The manager's own processes, without the one that writes logs.
    pub(crate) fn processes(&self, machine: &Machine) -> Outcome<Vec<MachineProcess>> {
        let is_manager = |process: &MachineProcess| match self {
            Self::Systemd => process.pid == 1,
            Self::Muster(_) => matches!(process.name.as_str(), "muster-init" | "muster-core"),
        };
        let mut processes = machine.processes()?;
        processes.retain(is_manager);
        Ok(processes)
    }

    /// The processor time that the manager has used so far.
    pub(crate) fn cpu_time(&self, machine: &Machine) -> Outcome<Duration> {
        let mut sum = Duration::ZERO;
        for process in self.processes(machine)? {
            sum += process.cpu_time()?;
        }
        Ok(sum)
    }

    /// The manager's resident memory.
    pub(crate) fn resident_bytes(&self, machine: &Machine) -> Outcome<u64> {
        let mut sum = 0;
        for process in self.processes(machine)? {
            sum += process.resident_bytes()?;
        }
        Ok(sum)
    }
}
