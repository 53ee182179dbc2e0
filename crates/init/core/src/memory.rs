//! What core itself remembers, folded from the same events as the engine's state: so it survives with it.
//!
//! Nothing here decides anything; it is what users are shown: runs of commands, ended jobs, the environment.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use muster_engine::EngineState;
use muster_engine::event::{Action, Do, What};
use muster_engine::ids::{ActionId, Clock, JobId, UnitId};
use muster_engine::job::{JobResult, JobType};
use muster_engine::protocol::{CommandRef, ExecKind, ExitStatus, Input, Output, Role, SpawnError};
use serde::{Deserialize, Serialize};

/// Ended jobs that are remembered for those who ask later.
const ENDED_JOBS: usize = 512;

/// Core's own memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Every action up to this one was carried out when the snapshot was written.
    pub done: ActionId,
    /// When the first core of this machine started.
    pub started: Clock,
    /// When the jobs of the first transaction had ended.
    pub finished: Option<Clock>,
    /// When reading unit files began and ended, last time.
    pub loading: (Clock, Clock),
    /// The unit that was booted.
    pub booted: Box<str>,
    /// Whether the unit to boot was asked for, or need not be because the machine had been up before.
    pub boot_asked: bool,
    /// How often core was started anew.
    pub recoveries: u32,
    /// Why, last time.
    pub last_recovery: Box<str>,
    /// The number of the last change that subscribers were told.
    pub sequence: u64,
    /// What services get in their environment beside their own.
    pub environment: BTreeMap<Box<str>, Box<str>>,
    /// Commands that ran, by unit.
    pub runs: BTreeMap<UnitId, Vec<Run>>,
    /// Jobs that ended, the last ones only.
    pub ended: VecDeque<EndedJob>,
    /// Requests are numbered over the life of the machine.
    pub last_request: u64,
    /// Numbers of connections that were taken, by socket unit.
    pub connections: BTreeMap<UnitId, u64>,
    /// What units asked to be told of, beyond their deadlines.
    pub watches: BTreeMap<UnitId, Watches>,
    /// What came of setting processes up, by unit, where there is something to be said about it.
    pub setups: BTreeMap<UnitId, Setup>,
    /// What runs that are over have used up, by unit. No event tells of it: what ended since the last snapshot is lost with a
    /// core that dies.
    pub consumed: BTreeMap<UnitId, Consumed>,
    /// How many processes of a unit's group were ended for lack of memory, as far as this run of it was told or need not be.
    pub oom_kills: BTreeMap<UnitId, u64>,
    /// What was asked for with the end of the machine.
    pub farewell: Farewell,
}

/// What goes with the end of the machine, when that comes in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Farewell {
    /// The exit code.
    pub code: u8,
    /// What the firmware, or whoever starts the machine again, is told.
    pub argument: Box<str>,
}

/// What came of setting the processes of a run up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setup {
    /// What could not be had and was left out, as `Directive: why`.
    pub dropped: Vec<Box<str>>,
    /// Why a program was not executed, the last time.
    pub failure: Option<Box<str>>,
}

/// What a run has used up, as far as it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Consumed {
    /// Microseconds of processor time.
    pub cpu: Option<u64>,
    /// The most bytes of memory that there were.
    pub memory_peak: Option<u64>,
    /// Block devices: bytes and operations read, bytes and operations written.
    pub disks: [Option<u64>; 4],
    /// Network: bytes and packets in, bytes and packets out.
    pub network: [Option<u64>; 4],
}

/// Remarks that are kept of one run.
const MAX_DROPPED: usize = 256;

/// What a unit asked to be told of. A core that was started anew sets it up again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watches {
    /// Traffic at its listening sockets.
    pub sockets: bool,
    /// Its paths.
    pub paths: bool,
    /// Its PID file.
    pub pid_file: bool,
    /// Its bus name.
    pub bus_name: bool,
    /// Its automount point.
    pub automount: bool,
    /// A moment of real time, in microseconds since 1970, and whether the machine is woken for it.
    pub real_deadline: Option<(i64, bool)>,
}

/// What a main process runs whom a PID file or a notification named: none of the lines.
pub(crate) const NAMED: CommandRef = CommandRef {
    kind: ExecKind::Start,
    index: u16::MAX,
};

/// A command's last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which.
    pub command: CommandRef,
    /// What it was to the unit.
    pub role: Role,
    /// Its process; 0 until it started.
    pub pid: u32,
    /// When it began.
    pub start: Clock,
    /// When and how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<(Clock, ExitStatus)>,
    /// Why its program was not executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<str>>,
    /// The process stands for its program, which is a child of it in a namespace of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<bool>,
}

/// A job that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedJob {
    /// Its number.
    pub job: JobId,
    /// Its unit.
    pub unit: UnitId,
    /// What it did.
    pub kind: JobType,
    /// How it ended.
    pub result: JobResult,
}

impl Memory {
    /// Takes note of an event, before the engine does.
    pub fn observe(&mut self, clock: Clock, what: &What) {
        let (unit, input) = match what {
            What::Unit { unit, input } => (unit, input),
            What::Request(request) => {
                self.last_request = self.last_request.max(request.id.0);
                self.boot_asked = true;
                return;
            }
            _ => return,
        };
        match input {
            Input::Accepted { number } => {
                let last = self.connections.entry(*unit).or_default();
                *last = (*last).max(*number);
            }
            Input::Start { .. } => {
                self.runs.remove(unit);
                self.setups.remove(unit);
                self.consumed.remove(unit);
                self.oom_kills.remove(unit);
            }
            Input::OomKills { total } => {
                self.oom_kills.insert(*unit, *total);
            }
            Input::Executed { pid, dropped } if !dropped.is_empty() => {
                let is_alone = dropped.iter().any(|one| one.starts_with("PrivatePIDs:"));
                if let Some(run) = self.open_run(*unit, |run| run.pid == *pid && is_alone) {
                    run.stands_for = Some(false);
                }
                let known = &mut self.setups.entry(*unit).or_default().dropped;
                let new: Vec<Box<str>> = dropped
                    .iter()
                    .filter(|one| !known.contains(one))
                    .cloned()
                    .collect();
                known.extend(new);
                known.truncate(MAX_DROPPED);
            }
            Input::NotExecuted { pid, why } => {
                // The end of the process may have been told first.
                let runs = self.runs.get_mut(unit).into_iter().flatten();
                if let Some(run) = runs.rev().find(|run| run.pid == *pid) {
                    run.failure = Some(why.clone());
                }
                self.setups.entry(*unit).or_default().failure = Some(why.clone());
            }
            Input::Spawned { role, process } => {
                self.begin_run(*unit, clock, *role, process.pid, None);
            }
            Input::Delegated {
                role,
                process,
                stands_for,
            } => self.begin_run(*unit, clock, *role, process.pid, Some(*stands_for)),
            // Nothing ran, not even for a moment.
            Input::SpawnFailed { role, error } if error.early => {
                if let Some(runs) = self.runs.get_mut(unit) {
                    runs.retain(|run| run.role != *role || run.pid != 0 || run.exit.is_some());
                }
                self.setups.entry(*unit).or_default().failure = Some(error.step.clone());
            }
            Input::SpawnFailed { role, error } => {
                if let Some(run) = self.open_run(*unit, |run| run.role == *role && run.pid == 0) {
                    run.start = clock;
                    run.exit = Some((clock, ExitStatus::Code(error.exit_code)));
                    let why: Box<str> = in_words(error).into();
                    run.failure = Some(why.clone());
                    self.setups.entry(*unit).or_default().failure = Some(why);
                }
            }
            Input::PidFile {
                process: Some(process),
            } => self.name_main(*unit, clock, process.pid),
            Input::Exited { pid, status } => {
                if let Some(run) = self.open_run(*unit, |run| run.pid == *pid) {
                    run.exit = Some((clock, *status));
                }
            }
            _ => {}
        }
    }

    fn begin_run(
        &mut self,
        unit: UnitId,
        clock: Clock,
        role: Role,
        pid: u32,
        stands_for: Option<bool>,
    ) {
        if let Some(run) = self.open_run(unit, |run| run.role == role && run.pid == 0) {
            run.pid = pid;
            run.start = clock;
            run.stands_for = stands_for;
        }
    }

    /// A process that the manager did not start, or not as the main one, is the main process.
    fn name_main(&mut self, unit: UnitId, clock: Clock, pid: u32) {
        let runs = self.runs.entry(unit).or_default();
        let is_open = |run: &Run| run.exit.is_none() && run.role == Role::Main;
        if runs.iter().any(|run| is_open(run) && run.pid == pid) {
            return;
        }
        runs.retain(|run| run.command != NAMED);
        runs.push(Run {
            command: NAMED,
            role: Role::Main,
            pid,
            start: clock,
            exit: None,
            failure: None,
            stands_for: None,
        });
    }

    /// Whether a process of a unit stands for its program, which is a child of it; `None` where nobody noted that.
    #[must_use]
    pub fn stands_for(&self, unit: UnitId, pid: u32) -> Option<bool> {
        let mut runs = self.runs.get(&unit)?.iter();
        let run = runs.find(|run| run.pid == pid && run.exit.is_none())?;
        run.stands_for
    }

    /// How many processes of a unit need not be told to it as ended for lack of memory.
    #[must_use]
    pub fn told_oom_kills(&self, unit: UnitId) -> u64 {
        self.oom_kills.get(&unit).copied().unwrap_or_default()
    }

    fn open_run(&mut self, unit: UnitId, fits: impl Fn(&Run) -> bool) -> Option<&mut Run> {
        let runs = self.runs.get_mut(&unit)?;
        runs.iter_mut()
            .rev()
            .find(|run| run.exit.is_none() && fits(run))
    }

    /// Takes note of an action that the engine asks for.
    pub fn follow(&mut self, clock: Clock, action: &Action, engine: &EngineState) {
        match &action.what {
            Do::Unit {
                unit,
                output: Output::Spawn { role, command },
                ..
            } => {
                let runs = self.runs.entry(*unit).or_default();
                runs.retain(|run| run.command != *command);
                runs.push(Run {
                    command: *command,
                    role: *role,
                    pid: 0,
                    start: clock,
                    exit: None,
                    failure: None,
                    stands_for: None,
                });
            }
            Do::Unit { unit, output, .. } => self.watch(*unit, output),
            Do::JobEnded {
                job,
                unit,
                job_type,
                result,
                ..
            } => {
                self.sequence += 1;
                if self.ended.len() >= ENDED_JOBS {
                    self.ended.pop_front();
                }
                self.ended.push_back(EndedJob {
                    job: *job,
                    unit: *unit,
                    kind: *job_type,
                    result: *result,
                });
                // What the kernel shows has jobs, too, before anything was asked for.
                let asked_for = self.boot_asked && self.finished.is_none();
                if asked_for && engine.jobs().next().is_none() {
                    self.finished = Some(clock);
                }
            }
            Do::JobAdded(_) | Do::StateChanged { .. } => self.sequence += 1,
            _ => {}
        }
    }

    fn watch(&mut self, unit: UnitId, output: &Output) {
        let mut watches = self.watches.get(&unit).copied().unwrap_or_default();
        match output {
            Output::WatchSockets(on) => watches.sockets = *on,
            Output::WatchPaths(on) => watches.paths = *on,
            Output::WatchPidFile(on) => watches.pid_file = *on,
            Output::WatchBusName(on) => watches.bus_name = *on,
            Output::Automount(on) => watches.automount = *on,
            Output::RealDeadline { at, wake } => {
                watches.real_deadline = at.map(|at| (at, *wake));
            }
            Output::CloseSockets => watches.sockets = false,
            _ => return,
        }
        if watches == Watches::default() {
            self.watches.remove(&unit);
        } else {
            self.watches.insert(unit, watches);
        }
    }

    /// Forgets a unit that is not known any more.
    pub fn forget(&mut self, unit: UnitId) {
        self.runs.remove(&unit);
        self.watches.remove(&unit);
        self.setups.remove(&unit);
        self.consumed.remove(&unit);
        self.oom_kills.remove(&unit);
        self.connections.remove(&unit);
    }

    /// A job that ended lately.
    #[must_use]
    pub fn ended(&self, job: JobId) -> Option<&EndedJob> {
        self.ended.iter().rev().find(|ended| ended.job == job)
    }
}

/// What could not be done, and what the system said.
fn in_words(error: &SpawnError) -> String {
    let said = io::Error::from_raw_os_error(error.errno).to_string();
    if error.step.ends_with(&said) {
        return error.step.to_string();
    }
    format!("{}: {said}", error.step)
}

#[cfg(test)]
mod tests {
    use muster_engine::protocol::{ExecKind, Process};

    use super::*;

    #[test]
    fn what_came_of_setting_up_is_remembered_until_the_next_run() {
        let mut memory = Memory::default();
        let unit = UnitId(3);
        let mut tell = |input| {
            let clock = Clock::default();
            memory.observe(clock, &What::Unit { unit, input });
            memory.setups.get(&unit).cloned()
        };
        let executed = |dropped: &[&str]| Input::Executed {
            pid: 7,
            dropped: dropped.iter().map(|text| Box::from(*text)).collect(),
        };
        assert_eq!(tell(executed(&[])), None);
        tell(executed(&["A: a", "B: b"]));
        let known = tell(executed(&["B: b", "C: c"])).unwrap();
        assert_eq!(known.dropped.len(), 3, "each is said once");
        let why = "namespace: /x".into();
        let known = tell(Input::NotExecuted { pid: 7, why }).unwrap();
        assert_eq!(known.failure.as_deref(), Some("namespace: /x"));
        let invocation = muster_engine::ids::InvocationId(1);
        assert_eq!(tell(Input::Start { invocation }), None);
    }

    #[test]
    fn kills_for_memory_are_counted_over_managers_and_not_over_runs() {
        let unit = UnitId(3);
        let after = |inputs: &[Input]| {
            let mut memory = Memory::default();
            for input in inputs {
                let input = input.clone();
                memory.observe(Clock::default(), &What::Unit { unit, input });
            }
            let text = serde_json::to_string(&memory).unwrap();
            let memory: Memory = serde_json::from_str(&text).unwrap();
            memory.told_oom_kills(unit)
        };
        let invocation = muster_engine::ids::InvocationId(1);
        let (start, killed) = (Input::Start { invocation }, |total| Input::OomKills {
            total,
        });
        assert_eq!(after(&[]), 0);
        assert_eq!(after(&[start.clone(), killed(1), killed(4)]), 4);
        assert_eq!(after(&[start.clone(), killed(4), start]), 0);
    }

    #[test]
    fn a_process_that_stands_for_its_program_is_known_by_the_next_manager() {
        let (unit, role) = (UnitId(3), Role::Main);
        let process = |pid| Process {
            pid,
            pidfd_inode: 0,
            cgroup: "x".into(),
            invocation: muster_engine::ids::InvocationId(1),
        };
        let run = |inputs: Vec<Input>| {
            let mut memory = Memory::default();
            let command = CommandRef {
                kind: ExecKind::Start,
                index: 0,
            };
            let run = Run {
                command,
                role,
                pid: 0,
                start: Clock::default(),
                exit: None,
                failure: None,
                stands_for: None,
            };
            memory.runs.insert(unit, vec![run]);
            for input in inputs {
                memory.observe(Clock::default(), &What::Unit { unit, input });
            }
            let text = serde_json::to_string(&memory).unwrap();
            let memory: Memory = serde_json::from_str(&text).unwrap();
            memory.stands_for(unit, 7)
        };
        let delegated = |stands_for| Input::Delegated {
            role,
            process: process(7),
            stands_for,
        };
        let dropped = |what: &str| Input::Executed {
            pid: 7,
            dropped: vec![what.into()],
        };
        assert_eq!(run(vec![delegated(true)]), Some(true));
        assert_eq!(run(vec![delegated(false)]), Some(false));
        assert_eq!(run(vec![delegated(true), dropped("A: a")]), Some(true));
        // Where no namespace could be had, the process is the program, and its children are anybody.
        let refused = dropped("PrivatePIDs: refused");
        assert_eq!(run(vec![delegated(true), refused]), Some(false));
        let status = ExitStatus::Code(0);
        let ended = Input::Exited { pid: 7, status };
        assert_eq!(run(vec![delegated(true), ended]), None);
        let process = process(7);
        assert_eq!(run(vec![Input::Spawned { role, process }]), None);
    }
}
