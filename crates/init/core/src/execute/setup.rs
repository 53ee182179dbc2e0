//! Processes that a helper sets up: handing them over, and hearing what came of it.
//!
//! The helper is spawned in the place of the process, reads its job from a sealed memory file, and writes what could not be
//! had to a pipe that closes when it executes the program. The pipe is read when the kernel says so, and to its end before
//! the end of the process is told. A core that was started anew has no pipe: its processes count as executed, and one that
//! was not tells so by its exit code.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use muster_engine::ids::UnitId;
use muster_engine::protocol::{Input, Severity, SpawnError};
use muster_engine::types::Machine;
use muster_exec::{Delegated, ExecContext, Report, Step};
use rustix::fs::{MemfdFlags, OFlags, SealFlags, SeekFrom};
use rustix::pipe::PipeFlags;

use crate::core::Core;
use crate::platform::Token;

/// The program that sets processes up.
const HELPER: &str = "muster-exec";
const EIO: i32 = 5;
/// What nobody lived to hear of a process.
const UNKNOWN: &str = "unknown: the manager was replaced while it was set up";
/// What is read in one go.
const PIECE: usize = 4096;

/// A process that is handed over.
#[derive(Debug)]
pub(super) struct HandedOver {
    /// What is spawned in its place.
    pub(super) outer: ExecContext,
    /// What that is to do: goes to the end of the list of descriptors.
    pub(super) job: OwnedFd,
    /// Where it says what came of it: goes behind the job.
    pub(super) said: OwnedFd,
    /// Where that is read.
    pub(super) heard: OwnedFd,
}

/// Hands a process over. `descriptors` is how long the list is.
pub(super) fn hand_over(
    context: &ExecContext,
    helper: &str,
    descriptors: u16,
) -> Result<HandedOver, SpawnError> {
    let refused = |what: String, errno| SpawnError {
        step: what.into(),
        errno,
        exit_code: Step::Exec.exit_code(),
        early: false,
    };
    let Delegated { outer, job } = muster_exec::delegate(context, helper, descriptors)
        .map_err(|error| refused(error.to_string(), libc::E2BIG))?;
    let prepared = memory(&job).and_then(|job| {
        let (heard, said) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&heard, OFlags::NONBLOCK)?;
        Ok((job, heard, said))
    });
    let (job, heard, said) = prepared.map_err(|error| {
        let what = format!("cannot hand the process over to {helper}");
        refused(what, error.raw_os_error().unwrap_or(EIO))
    })?;
    Ok(HandedOver {
        outer,
        job,
        said,
        heard,
    })
}

/// A file in memory that nobody changes any more.
fn memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create(HELPER, flags)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&memory, rest)?;
        rest = &rest[written..];
    }
    rustix::fs::seek(&memory, SeekFrom::Start(0))?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memory, seals)?;
    Ok(memory)
}

/// Processes that are being set up.
#[derive(Debug, Default)]
pub(crate) struct SettingUp {
    by_pid: HashMap<u32, Underway>,
    /// Programs that are not the process that was spawned, and that process.
    programs: HashMap<u32, u32>,
}

#[derive(Debug)]
struct Underway {
    unit: UnitId,
    heard: OwnedFd,
    report: Report,
}

impl SettingUp {
    /// Whether a process does not run its program yet.
    pub(crate) fn has(&self, pid: u32) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// The process that stands for a program in a namespace of its own; otherwise the program itself.
    pub(crate) fn outer_of(&self, pid: u32) -> u32 {
        self.programs.get(&pid).copied().unwrap_or(pid)
    }
}

impl Core {
    /// The path of the helper, as text.
    pub(super) fn setup_helper(&self) -> String {
        self.options.helper(HELPER).to_string_lossy().into_owned()
    }

    /// Listens to what sets a process up. `dropped` was left out before it was asked.
    pub(super) fn follow_setup(
        &mut self,
        unit: UnitId,
        pid: u32,
        heard: OwnedFd,
        dropped: Vec<Box<str>>,
    ) {
        let token = Token::Report(pid);
        if let Err(error) = self.platform.watch(heard.as_fd(), token, false) {
            let message = format!("Cannot follow how process {pid} is set up: {error}");
            self.say(Severity::Warning, Some(unit), &message);
        }
        let mut report = Report::default();
        report.dropped = dropped;
        let underway = Underway {
            unit,
            heard,
            report,
        };
        self.setting_up.by_pid.insert(pid, underway);
    }

    /// A helper said something, or closed its pipe.
    pub(crate) fn hear_setup(&mut self, pid: u32) {
        let Some(underway) = self.setting_up.by_pid.get_mut(&pid) else {
            return;
        };
        if underway.hear() {
            self.setup_ended(pid);
        }
    }

    /// A process ended: whatever was said about it comes first.
    pub(crate) fn end_setup(&mut self, pid: u32) {
        self.setting_up.programs.retain(|_, outer| *outer != pid);
        if let Some(underway) = self.setting_up.by_pid.get_mut(&pid) {
            underway.hear();
            self.setup_ended(pid);
            self.setting_up.programs.retain(|_, outer| *outer != pid);
        }
    }

    fn setup_ended(&mut self, pid: u32) {
        let Some(underway) = self.setting_up.by_pid.remove(&pid) else {
            return;
        };
        let Underway {
            unit,
            heard,
            report,
        } = underway;
        self.platform.unwatch(heard.as_fd());
        if let Some(program) = report.program {
            self.setting_up.programs.insert(program, pid);
        }
        for dropped in &report.dropped {
            let message = format!("Runs without what cannot be had here. Dropped {dropped}.");
            self.say(Severity::Warning, Some(unit), &message);
        }
        if let Some(failed) = report.failed {
            let step = failed.step().map_or("setup", Step::word);
            let mut why = format!("{}: {}", step, failed.detail);
            if failed.errno != 0 {
                let error = io::Error::from_raw_os_error(failed.errno);
                why = format!("{why}: {error}");
            }
            let message = format!("Process {pid} could not be set up: {why}.");
            self.say(Severity::Error, Some(unit), &message);
            let why = why.into();
            return self.tell(unit, Input::NotExecuted { pid, why });
        }
        let dropped = report.dropped;
        if !dropped.is_empty() || self.awaits_execution(unit, pid) {
            self.tell(unit, Input::Executed { pid, dropped });
        }
    }

    /// Whether a unit's state depends on a process running its program.
    fn awaits_execution(&self, unit: UnitId, pid: u32) -> bool {
        match self.engine.get(unit).map(|record| &record.machine) {
            Some(Machine::Service(service)) => {
                let is_main = service.main.as_ref().is_some_and(|main| main.pid == pid);
                is_main && service.setting_up
            }
            _ => false,
        }
    }

    /// Processes whose pipes ended with the last core count as executed. What they had to be set up without went with the pipe,
    /// so that is what is said of them.
    pub(crate) fn give_up_setups(&mut self) {
        let waiting: Vec<(UnitId, u32)> = self
            .engine
            .units()
            .filter_map(|(unit, record)| match &record.machine {
                Machine::Service(service) if service.setting_up => {
                    Some((unit, service.main.as_ref()?.pid))
                }
                _ => None,
            })
            .collect();
        for (unit, pid) in waiting {
            let dropped = vec![UNKNOWN.into()];
            self.tell(unit, Input::Executed { pid, dropped });
        }
    }
}

impl Underway {
    /// Takes what there is. True at the end.
    fn hear(&mut self) -> bool {
        let mut piece = [0u8; PIECE];
        loop {
            match rustix::io::read(&self.heard, &mut piece) {
                Ok(0) => return true,
                Ok(count) => self.report.take(&piece[..count]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_handed_over_can_be_read_and_not_be_changed() {
        let context = ExecContext {
            program: "/bin/x".into(),
            ..ExecContext::default()
        };
        let handed = hand_over(&context, "/lib/helper", 2).unwrap();
        assert_eq!(&*handed.outer.program, "/lib/helper");
        assert!(rustix::io::write(&handed.job, b"more").is_err());
        let mut job = String::new();
        let mut file = std::fs::File::from(handed.job);
        file.read_to_string(&mut job).unwrap();
        assert!(job.contains("/bin/x"), "{job}");
    }

    #[test]
    fn a_report_is_read_to_its_end_in_any_pieces() {
        let (heard, said) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        rustix::fs::fcntl_setfl(&heard, OFlags::NONBLOCK).unwrap();
        let mut underway = Underway {
            unit: UnitId(1),
            heard,
            report: Report::default(),
        };
        assert!(!underway.hear());
        let line = br#"{"dropped":["A: why"]}"#;
        rustix::io::write(&said, &line[..9]).unwrap();
        assert!(!underway.hear() && underway.report.dropped.is_empty());
        rustix::io::write(&said, &line[9..]).unwrap();
        rustix::io::write(&said, b"\n").unwrap();
        drop(said);
        assert!(underway.hear());
        assert_eq!(underway.report.dropped, [Box::from("A: why")]);
    }
}
