//! Why a unit is as it is, in sentences, and what can be done about it.

use muster_engine::dep::DepKind;
use muster_engine::event::LoadState;
use muster_engine::ids::UnitId;
use muster_engine::job::JobResult;
use muster_engine::protocol::{ActiveState, ExitStatus, Outcome};
use muster_engine::state::UnitRecord;
use muster_exec::Step;
use muster_unit_file::config::UnitConfig;
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::value::signal::Signal;

use crate::core::Core;
use crate::execute::process::{command_of, phase_name};
use crate::memory::{NAMED, Run};

/// What ends a process that made a call which a filter forbids.
const SIGSYS: u8 = 31;
/// What a unit cannot come up without.
const NEEDS: [DepKind; 3] = [DepKind::Requires, DepKind::BindsTo, DepKind::Requisite];

impl Core {
    /// Why a unit is as it is, or why its job ended as it did; nothing if all is well.
    pub(super) fn reasons(&mut self, unit: UnitId, result: Option<JobResult>) -> Vec<String> {
        let config = self.name_of(unit).map(|name| self.units.config(&name));
        let Some(record) = self.engine.get(unit) else {
            return Vec::new();
        };
        let mut reasons = Vec::new();
        match result {
            Some(JobResult::Dependency) => reasons.extend(self.failed_needs(record)),
            Some(JobResult::Canceled) => {
                reasons.push("The job was cancelled, or another request replaced it.".to_owned());
            }
            Some(JobResult::Invalid) => reasons.push("The unit is not up.".to_owned()),
            Some(JobResult::Unsupported) => {
                reasons.push("This machine cannot do what the unit needs.".to_owned());
            }
            Some(JobResult::Timeout) => {
                reasons
                    .push("The job took longer than the unit allows (JobTimeoutSec=).".to_owned());
            }
            Some(JobResult::Once) => {
                reasons.push("It may run once per boot, and has run.".to_owned());
            }
            Some(JobResult::Collected) => {
                reasons.push("A unit that it needs was removed meanwhile.".to_owned());
            }
            _ => {}
        }
        reasons.extend(self.load_reason(record));
        if record.active() != ActiveState::Active {
            reasons.extend(failed_check(record));
        }
        let fell =
            record.active() == ActiveState::Failed || record.machine.outcome() != Outcome::Success;
        if fell {
            reasons.extend(self.outcome_reason(unit, record, config.as_deref()));
        }
        if reasons.is_empty()
            && let Some(result) = result.filter(|result| !result.is_good())
        {
            reasons.push(format!("The job ended with '{}'.", result.as_str()));
        }
        reasons
    }

    fn failed_needs(&self, record: &UnitRecord) -> Vec<String> {
        let needs = NEEDS.into_iter().flat_map(|kind| {
            let units = record.deps(kind);
            units.map(move |other| (kind, other))
        });
        let down = needs.filter(|(_, other)| !self.engine.unit(*other).active().is_up());
        let mut told: Vec<String> = down
            .map(|(kind, other)| {
                let other = self.engine.unit(other);
                let (name, state) = (&other.name, other.active().as_str());
                format!("It needs {name} ({}=), which is {state}.", kind.as_str())
            })
            .collect();
        if told.is_empty() {
            told.push("Something that it needs could not be started.".to_owned());
        }
        told
    }

    fn load_reason(&self, record: &UnitRecord) -> Option<String> {
        let name = &record.name;
        Some(match record.load {
            LoadState::NotFound => format!("There is no unit file for {name}."),
            LoadState::Masked => format!("{name} is masked."),
            LoadState::BadSetting | LoadState::Error => {
                let remarks = self.remarks_about(name);
                let last = remarks.last().map_or("", |remark| remark);
                format!("The unit file of {name} cannot be used. {last}")
                    .trim_end()
                    .to_owned()
            }
            LoadState::Stub | LoadState::Loaded => return None,
        })
    }

    pub(super) fn remarks_about(&self, name: &str) -> Vec<String> {
        let name = muster_unit_file::name::UnitName::new(name).ok();
        let remarks = name.map_or(&[][..], |name| self.units.remarks(&name));
        remarks.iter().map(ToString::to_string).collect()
    }

    fn outcome_reason(
        &self,
        unit: UnitId,
        record: &UnitRecord,
        config: Option<&UnitConfig>,
    ) -> Option<String> {
        let outcome = record.machine.outcome();
        let ended = || {
            let runs = self.memory.runs.get(&unit)?;
            let bad = runs.iter().rev().find(|run| ended_badly(run))?;
            Some(run_in_words(bad, config))
        };
        Some(match outcome {
            Outcome::Success => return None,
            Outcome::ExitCode | Outcome::Signal | Outcome::CoreDump => {
                ended().unwrap_or_else(|| "A process ended badly.".to_owned())
            }
            Outcome::ExecCondition => {
                let condition = ended().unwrap_or_default();
                format!("An ExecCondition= said no. {condition}").trim_end().to_owned()
            }
            Outcome::Resources => {
                let setup = self.memory.setups.get(&unit);
                let missing = setup.and_then(|setup| setup.failure.as_ref());
                let what = missing.map(|what| format!("{what}.")).or_else(ended);
                format!("What it needs from the system could not be had. {}", what.unwrap_or_default())
                    .trim_end()
                    .to_owned()
            }
            Outcome::Protocol => "It did not do what its Type= promises: it ended before it was ready, or named no main \
                                  process."
                .to_owned(),
            Outcome::Timeout => "A step took longer than allowed (TimeoutStartSec=, TimeoutStopSec=, RuntimeMaxSec=)."
                .to_owned(),
            Outcome::Watchdog => {
                "It did not send WATCHDOG=1 within WatchdogSec=.".to_owned()
            }
            Outcome::StartLimitHit => {
                let limit = record.settings().start_limit;
                let span = TimeSpan::from_micros(limit.interval.0);
                format!("It was started more than {} times within {span}.", limit.burst)
            }
            Outcome::OomKill => "The kernel killed a process of it for memory.".to_owned(),
            Outcome::HealthCheck => "Its health check failed too often.".to_owned(),
            other => format!("Its last run ended with '{}'.", other.as_str()),
        })
    }

    fn made_a_forbidden_call(&self, unit: UnitId) -> bool {
        let runs = self.memory.runs.get(&unit);
        let bad = runs.and_then(|runs| runs.iter().rev().find(|run| ended_badly(run)));
        let status = bad.and_then(|run| run.exit).map(|(_, status)| status);
        matches!(
            status,
            Some(ExitStatus::Signal(SIGSYS) | ExitStatus::Core(SIGSYS))
        )
    }

    /// What can be done about a unit that is not as it should be.
    pub(super) fn advice(&self, unit: UnitId) -> Vec<String> {
        let Some(record) = self.engine.get(unit) else {
            return Vec::new();
        };
        let name = &record.name;
        let mut advice = Vec::new();
        match record.load {
            LoadState::NotFound => {
                advice.push(format!(
                    "Put a unit file in place, then `sctl start {name}`."
                ));
            }
            LoadState::Masked => advice.push(format!("`sctl unmask {name}` lets it be started.")),
            LoadState::BadSetting | LoadState::Error => {
                advice.push(format!(
                    "Correct it (`sctl edit --full {name}`), then `sctl daemon-reload`."
                ));
            }
            LoadState::Stub | LoadState::Loaded => {}
        }
        if record.active() == ActiveState::Failed {
            match record.machine.outcome() {
                Outcome::StartLimitHit => advice.push(format!(
                    "`sctl reset-failed {name}` lifts the limit; StartLimitBurst= and StartLimitIntervalSec= set it."
                )),
                Outcome::Signal | Outcome::CoreDump if self.made_a_forbidden_call(unit) => advice.push(format!(
                    "It made a system call that its unit forbids; `sctl security {name}` lists what is forbidden, and \
                     SystemCallErrorNumber=EPERM would refuse the call instead of ending the process."
                )),
                Outcome::Timeout => {
                    advice.push("Give it more time with TimeoutStartSec= or TimeoutStopSec=.".to_owned());
                }
                _ => {}
            }
            advice.push(format!("`sctl logs -u {name}` shows what it said."));
        }
        advice
    }
}

/// The condition or assert that kept a unit from starting last time.
pub(super) fn failed_check(record: &UnitRecord) -> Option<String> {
    let checked = record.checked.as_ref()?;
    let index = checked.failed_assert.or(checked.failed_condition)?;
    let check = record.spec.as_ref()?.checks.get(usize::from(index))?;
    Some(format!(
        "{} did not hold when it was to be started.",
        check.text
    ))
}

fn ended_badly(run: &Run) -> bool {
    run.exit
        .is_some_and(|(_, status)| status != ExitStatus::Code(0))
}

/// A command line as a person would write it, cut where it gets long.
pub(super) fn command_text(run: &Run, config: Option<&UnitConfig>) -> String {
    const LONGEST: usize = 200;
    let command = config.and_then(|config| command_of(config, run.command));
    let Some(command) = command else {
        return String::new();
    };
    let words: Vec<&str> = command.argv.iter().collect();
    let mut text = words.join(" ");
    if text.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
        text.push_str("...");
    }
    text
}

fn run_in_words(run: &Run, config: Option<&UnitConfig>) -> String {
    let command = match run.command {
        NAMED => "The main process".to_owned(),
        line => format!("{}={}", phase_name(line.kind), command_text(run, config)),
    };
    let process = match run.pid {
        0 => String::new(),
        pid => format!(" (process {pid})"),
    };
    let ended = match run.exit.map(|(_, status)| status) {
        Some(ExitStatus::Code(code)) => match Step::from_exit_code(code) {
            Some(step) => not_set_up(step, code, run.failure.as_deref()),
            None => format!("exited with status {code}"),
        },
        Some(ExitStatus::Signal(signal)) => format!("was killed by {}", signal_text(signal)),
        Some(ExitStatus::Core(signal)) => {
            format!("was killed by {} and left a core", signal_text(signal))
        }
        None => "runs".to_owned(),
    };
    format!("{command}{process} {ended}.")
}

fn not_set_up(step: Step, code: u8, why: Option<&str>) -> String {
    let failed = format!("could not be set up: the step '{step}' failed (status {code})");
    let Some(why) = why else {
        return failed;
    };
    // Some reasons begin with the step.
    let named = why.strip_prefix(step.word());
    let why = named.and_then(|it| it.strip_prefix(": ")).unwrap_or(why);
    format!("{failed}: {why}")
}

fn signal_text(number: u8) -> String {
    Signal::from_number(number).map_or_else(
        || format!("signal {number}"),
        |signal| format!("signal {number} ({signal})"),
    )
}
