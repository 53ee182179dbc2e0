//! A simulated executor: it carries actions out against imaginary processes, in an order and with outcomes that a seed
//! decides, and checks named laws after every event.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::dep::{DepKind, Effect};
use muster_engine::event::{Answer, Do, Event, LoadState, LoadedUnit, Request, What};
use muster_engine::ids::{Clock, InvocationId, JobId, RequestId, Span, Time, UnitId};
use muster_engine::job::{JobMode, JobResult, JobType, JobVerb};
use muster_engine::protocol::{
    ActiveState, ExecKind, ExitStatus, Input, KillScope, Output, Process, Role, SpawnError,
};
use muster_engine::spec::{
    Check, CommandSpec, KindSpec, RateLimit, Restart, ServiceSpec, ServiceType, TargetSpec,
    UnitSettings, UnitSpec,
};
use muster_engine::{Action, EngineState};

/// A small generator of its own, so that a run is a function of one number.
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// How unkind the imaginary world is, in percent.
#[derive(Clone, Copy)]
pub(crate) struct Odds {
    pub(crate) spawn_fails: u64,
    pub(crate) exits_badly: u64,
    pub(crate) check_fails: u64,
    pub(crate) daemon_dies: u64,
}

impl Odds {
    pub(crate) const KIND: Self = Self {
        spawn_fails: 0,
        exits_badly: 0,
        check_fails: 0,
        daemon_dies: 0,
    };
    pub(crate) const HARSH: Self = Self {
        spawn_fails: 5,
        exits_badly: 15,
        check_fails: 10,
        daemon_dies: 5,
    };
}

#[derive(Clone, Debug)]
struct Running {
    unit: UnitId,
    pid: u32,
    /// Ends by itself: control processes and oneshots.
    short: bool,
}

pub(crate) struct Sim {
    pub(crate) state: EngineState,
    pub(crate) events: Vec<Event>,
    /// State before each event, encoded, for replays.
    pub(crate) history: Vec<Vec<u8>>,
    pub(crate) ended: Vec<(JobId, UnitId, JobType, JobResult)>,
    pub(crate) answers: BTreeMap<RequestId, Answer>,
    pub(crate) logs: Vec<String>,
    dice: Dice,
    odds: Odds,
    clock: u64,
    next_pid: u32,
    next_request: u64,
    processes: Vec<Running>,
    replies: Vec<What>,
    last_action: u64,
    keep_history: bool,
    check_codec: bool,
}

impl Sim {
    pub(crate) fn new(seed: u64, odds: Odds) -> Self {
        Self {
            state: EngineState::new(),
            events: Vec::new(),
            history: Vec::new(),
            ended: Vec::new(),
            answers: BTreeMap::new(),
            logs: Vec::new(),
            dice: Dice::new(seed),
            odds,
            clock: 1_000_000,
            next_pid: 100,
            next_request: 0,
            processes: Vec::new(),
            replies: Vec::new(),
            last_action: 0,
            keep_history: false,
            check_codec: true,
        }
    }

    pub(crate) fn keep_history(mut self) -> Self {
        self.keep_history = true;
        self
    }

    /// The codec dominates the cost of an event; without it many more worlds can be tried.
    pub(crate) fn without_codec(mut self) -> Self {
        self.check_codec = false;
        self
    }

    pub(crate) fn load(&mut self, units: Vec<LoadedUnit>) {
        self.event(What::Loaded(units));
        // Whatever was only mentioned has no file.
        let missing = self
            .state
            .units()
            .filter(|(_, unit)| unit.load == LoadState::Stub)
            .map(|(_, unit)| LoadedUnit {
                name: unit.name.clone(),
                aliases: Vec::new(),
                load: LoadState::NotFound,
                spec: None,
            })
            .collect::<Vec<_>>();
        if !missing.is_empty() {
            self.event(What::Loaded(missing));
        }
    }

    pub(crate) fn request(&mut self, unit: &str, verb: JobVerb, mode: JobMode) -> Answer {
        self.next_request += 1;
        let id = RequestId(self.next_request);
        self.event(What::Request(Request {
            id,
            unit: unit.into(),
            verb,
            mode,
            manual: true,
        }));
        self.answers[&id].clone()
    }

    pub(crate) fn start(&mut self, unit: &str) -> Answer {
        self.request(unit, JobVerb::Start, JobMode::Replace)
    }

    pub(crate) fn active(&self, unit: &str) -> ActiveState {
        self.state.unit(self.state.find(unit).unwrap()).active()
    }

    pub(crate) fn result_of(&self, unit: &str) -> Option<JobResult> {
        let unit = self.state.find(unit).unwrap();
        self.ended
            .iter()
            .rev()
            .find(|(_, of, _, _)| *of == unit)
            .map(|(.., result)| *result)
    }

    /// Lets one thing happen: a reply, the end of a short process, a mishap, or time. False when nothing can.
    pub(crate) fn step(&mut self) -> bool {
        let short: Vec<usize> = (0..self.processes.len())
            .filter(|at| self.processes[*at].short)
            .collect();
        let choices = self.replies.len() + short.len();
        if choices > 0 {
            let choice = self.dice.below(choices);
            if choice < self.replies.len() {
                // Replies about one unit keep their order; across units any order may happen.
                let what = self.replies.remove(choice);
                let what = self.earliest_for_same_unit(choice, what);
                self.event(what);
            } else {
                let process = self.processes[short[choice - self.replies.len()]].clone();
                let bad = self.dice.percent(self.odds.exits_badly);
                self.end(process.pid, ExitStatus::Code(u8::from(bad)));
            }
            return true;
        }
        if !self.processes.is_empty() && self.dice.percent(self.odds.daemon_dies) {
            let victim = self.dice.below(self.processes.len());
            let pid = self.processes[victim].pid;
            self.end(pid, ExitStatus::Signal(11));
            return true;
        }
        match self.state.next_deadline() {
            Some(at) => {
                self.clock = self.clock.max(at.0);
                self.event(What::Tick);
                true
            }
            None => false,
        }
    }

    fn earliest_for_same_unit(&mut self, choice: usize, what: What) -> What {
        let unit = reply_unit(&what);
        let earlier = self.replies[..choice]
            .iter()
            .position(|other| reply_unit(other) == unit);
        match earlier {
            Some(at) => {
                let first = self.replies.remove(at);
                self.replies.insert(choice - 1, what);
                first
            }
            None => what,
        }
    }

    /// Until nothing is left to do, or so many steps.
    pub(crate) fn run(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            if !self.step() {
                return true;
            }
        }
        false
    }

    /// Until no reply is open and no job is queued.
    pub(crate) fn settle(&mut self) {
        for _ in 0..200_000 {
            let quiet = self.replies.is_empty() && self.state.jobs().next().is_none();
            if quiet {
                return;
            }
            assert!(
                self.step(),
                "jobs wait for ever: {:#?}",
                self.state.jobs().collect::<Vec<_>>()
            );
        }
        panic!(
            "no end in sight: {:#?}",
            self.state.jobs().collect::<Vec<_>>()
        );
    }

    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    pub(crate) fn main_pid(&self, unit: UnitId) -> u32 {
        let process = self
            .processes
            .iter()
            .find(|process| process.unit == unit && !process.short);
        process.expect("the unit has a main process").pid
    }

    pub(crate) fn end(&mut self, pid: u32, status: ExitStatus) {
        let Some(at) = self.processes.iter().position(|process| process.pid == pid) else {
            return;
        };
        let process = self.processes.remove(at);
        self.replies.push(What::Unit {
            unit: process.unit,
            input: Input::Exited { pid, status },
        });
        if !self
            .processes
            .iter()
            .any(|other| other.unit == process.unit)
        {
            self.replies.push(What::Unit {
                unit: process.unit,
                input: Input::CgroupEmpty,
            });
        }
    }

    pub(crate) fn event(&mut self, what: What) {
        self.clock += 10;
        let event = Event {
            clock: Clock {
                monotonic: Time(self.clock),
                real: 0,
            },
            entropy: InvocationId(u128::from(self.dice.next())),
            what,
        };
        let before = self.state.clone();
        if self.keep_history {
            self.history.push(before.encode());
        }
        let actions = self.state.apply(&event);
        if self.check_codec {
            self.check_codec();
        }
        self.check_numbers(&actions);
        check_order(&before, &self.state, &event.what, &actions);
        check_refusal(&before, &self.state, &actions);
        check_failure_reach(&before, &self.state, &actions);
        self.events.push(event);
        for action in actions {
            self.carry_out(action.what);
        }
    }

    fn check_codec(&self) {
        let bytes = self.state.encode();
        let back = EngineState::decode(&bytes).expect("an encoded state decodes");
        assert_eq!(back, self.state, "law: encoding loses nothing");
    }

    fn check_numbers(&mut self, actions: &[Action]) {
        for action in actions {
            assert!(action.id.0 > self.last_action, "law: action numbers rise");
            self.last_action = action.id.0;
        }
    }

    fn carry_out(&mut self, what: Do) {
        match what {
            Do::Unit {
                unit,
                invocation,
                output,
            } => self.carry_out_unit(unit, invocation, &output),
            Do::Check { unit } => {
                let checks = self
                    .state
                    .unit(unit)
                    .spec
                    .as_ref()
                    .map_or(0, |spec| spec.checks.len());
                let held = (0..checks)
                    .map(|_| !self.dice.percent(self.odds.check_fails))
                    .collect();
                self.replies.push(What::Checked {
                    unit,
                    verdicts: held,
                });
            }
            Do::Answer { request, answer } => {
                self.answers.insert(request, answer);
            }
            Do::JobEnded {
                job,
                unit,
                job_type,
                result,
                ..
            } => {
                self.ended.push((job, unit, job_type, result));
            }
            Do::Log { message, .. } => self.logs.push(message.into()),
            Do::Load(_) | Do::JobAdded(_) | Do::StateChanged { .. } | Do::Emergency { .. } => {}
        }
    }

    fn carry_out_unit(&mut self, unit: UnitId, invocation: InvocationId, output: &Output) {
        match output {
            Output::Spawn { role, command } => {
                if self.dice.percent(self.odds.spawn_fails) {
                    let error = SpawnError {
                        step: "exec".into(),
                        errno: 2,
                        exit_code: 203,
                        early: false,
                    };
                    let input = Input::SpawnFailed { role: *role, error };
                    return self.replies.push(What::Unit { unit, input });
                }
                self.next_pid += 1;
                let pid = self.next_pid;
                let oneshot = command.kind != ExecKind::Start
                    || matches!(&self.state.unit(unit).spec.as_ref().unwrap().kind,
                        KindSpec::Service(spec) if spec.service_type == ServiceType::Oneshot);
                let short = *role != Role::Main || oneshot;
                self.processes.push(Running { unit, pid, short });
                let process = Process {
                    pid,
                    pidfd_inode: u64::from(pid),
                    cgroup: "/u".into(),
                    invocation,
                };
                let input = Input::Spawned {
                    role: *role,
                    process,
                };
                self.replies.push(What::Unit { unit, input });
            }
            Output::Kill { scope, signal, .. } => {
                let doomed: Vec<u32> = self
                    .processes
                    .iter()
                    .filter(|process| {
                        process.unit == unit
                            && match scope {
                                KillScope::All => true,
                                KillScope::Main => !process.short,
                                KillScope::Control | KillScope::Probe => process.short,
                            }
                    })
                    .map(|process| process.pid)
                    .collect();
                if doomed.is_empty() && *scope == KillScope::All {
                    self.replies.push(What::Unit {
                        unit,
                        input: Input::CgroupEmpty,
                    });
                }
                for pid in doomed {
                    self.end(pid, ExitStatus::Signal(*signal));
                }
            }
            _ => {}
        }
    }
}

fn reply_unit(what: &What) -> Option<UnitId> {
    match what {
        What::Unit { unit, .. } | What::Checked { unit, .. } => Some(*unit),
        _ => None,
    }
}

/// Law: a unit does not begin to start before what it is After has ended its own start, and not to stop before what is
/// After it has ended its stop. Jobs that were queued by the same event are not held against it.
fn check_order(before: &EngineState, after: &EngineState, what: &What, actions: &[Action]) {
    // A request that ignores dependencies frees the job it finds, too.
    let freed = match what {
        What::Request(request) if request.mode == JobMode::IgnoreDependencies => {
            before.find(&request.unit)
        }
        _ => None,
    };
    for action in actions {
        let Do::StateChanged { unit, old, new } = &action.what else {
            continue;
        };
        let Some(job) = before.get(*unit).and_then(|_| before.job_of(*unit)) else {
            continue;
        };
        if job.ignore_order || freed == Some(*unit) {
            continue;
        }
        let rising = old.is_down() && !new.is_down() && job.job_type == JobType::Start;
        // What dies of itself goes down without asking anybody.
        let by_itself = matches!(what, What::Unit { unit: of, .. } if of == unit);
        let falling =
            old.is_up() && new.is_down_or_falling() && job.job_type == JobType::Stop && !by_itself;
        let (kind, blocks): (_, fn(JobType) -> bool) = if rising {
            (DepKind::After, |other| other != JobType::VerifyActive)
        } else if falling {
            (DepKind::Before, |other| matches!(other, JobType::Stop))
        } else {
            continue;
        };
        for other in before.unit(*unit).deps(kind) {
            if freed == Some(other) {
                continue;
            }
            let (Some(was), Some(is)) = (before.job_of(other), after.job_of(other)) else {
                continue;
            };
            let same = was.id == is.id && was.job_type == is.job_type && !was.ignore_order;
            assert!(
                !(same && blocks(was.job_type)),
                "law: {} went {:?} while the {:?} job of {} was queued",
                before.unit(*unit).name,
                new,
                was.job_type,
                before.unit(other).name
            );
        }
    }
}

/// Law: a refused request changes nothing but the clock and the count of actions.
fn check_refusal(before: &EngineState, after: &EngineState, actions: &[Action]) {
    let refused = actions.iter().any(|action| {
        matches!(
            &action.what,
            Do::Answer {
                answer: Answer::Refused(_),
                ..
            }
        )
    });
    if !refused {
        return;
    }
    let units = |state: &EngineState| {
        state
            .units()
            .map(|(id, u)| (id, u.clone()))
            .collect::<Vec<_>>()
    };
    // A deadline that fell due with the same event may have moved things on its own.
    if before
        .next_deadline()
        .is_none_or(|at| at > after.now().monotonic)
    {
        assert_eq!(
            units(before),
            units(after),
            "law: a refused request changes no unit"
        );
        let jobs = |state: &EngineState| state.jobs().cloned().collect::<Vec<_>>();
        assert_eq!(
            jobs(before),
            jobs(after),
            "law: a refused request changes no job"
        );
    }
}

/// Law: a start that fails takes exactly those start jobs along whose units need it strictly.
fn check_failure_reach(before: &EngineState, after: &EngineState, actions: &[Action]) {
    let mut failed: BTreeSet<UnitId> = BTreeSet::new();
    let mut by_dependency: Vec<UnitId> = Vec::new();
    for action in actions {
        let Do::JobEnded {
            unit,
            job_type,
            result,
            ..
        } = &action.what
        else {
            continue;
        };
        if matches!(
            job_type,
            JobType::Start | JobType::VerifyActive | JobType::Reload
        ) || (*job_type == JobType::Stop && !result.is_good())
        {
            if *result == JobResult::Dependency {
                by_dependency.push(*unit);
            }
            failed.insert(*unit);
        }
    }
    for unit in by_dependency {
        let Some(record) = before.get(unit) else {
            continue;
        };
        if before.job_of(unit).is_some_and(|job| job.doomed) {
            continue;
        }
        let culprit = record.edges().iter().any(|edge| {
            let back = edge.kind.inverse();
            let needs = back.has(Effect::PropagateStartFailure)
                || back.has(Effect::PropagateInactiveStartAsFailure)
                || back.has(Effect::PropagateStopFailure)
                || edge.kind.has(Effect::NeedsOtherActive);
            needs && (failed.contains(&edge.to) || edge.kind.has(Effect::NeedsOtherActive))
        });
        assert!(
            culprit,
            "law: {} failed by dependency without one",
            record.name
        );
    }
    for unit in failed.iter().copied() {
        let bad = actions.iter().any(|action| {
            matches!(&action.what, Do::JobEnded { unit: of, job_type: JobType::Start, result, .. }
                if *of == unit && !result.is_good())
        });
        if !bad {
            continue;
        }
        for edge in before.unit(unit).edges() {
            if !edge.kind.has(Effect::PropagateStartFailure) {
                continue;
            }
            let Some(job) = before.job_of(edge.to) else {
                continue;
            };
            // A restart goes on to be down, and ends there.
            let spared = job.job_type == JobType::Start
                && after
                    .job(job.id)
                    .is_some_and(|job| job.job_type == JobType::Start);
            assert!(
                !spared,
                "law: the start of {} failed, {} needs it and still waits",
                before.unit(unit).name,
                before.unit(edge.to).name
            );
        }
    }
}

/// A unit of its own.
pub(crate) fn unit(name: &str, deps: &[(DepKind, &str)]) -> LoadedUnit {
    let kind = if name.ends_with(".target") {
        KindSpec::Target(TargetSpec {})
    } else {
        KindSpec::Service(Box::new(ServiceSpec {
            commands: [CommandSpec {
                kind: ExecKind::Start,
                ignore_failure: false,
            }]
            .into(),
            ..ServiceSpec::default()
        }))
    };
    LoadedUnit {
        name: name.into(),
        aliases: Vec::new(),
        load: LoadState::Loaded,
        spec: Some(Box::new(UnitSpec {
            deps: deps
                .iter()
                .map(|(kind, to)| (*kind, (*to).into()))
                .collect(),
            kind,
            ..UnitSpec::default()
        })),
    }
}

pub(crate) fn service_of(unit: &mut LoadedUnit) -> &mut ServiceSpec {
    match &mut unit.spec.as_mut().unwrap().kind {
        KindSpec::Service(spec) => spec,
        _ => panic!("not a service"),
    }
}

pub(crate) fn settings_of(unit: &mut LoadedUnit) -> &mut UnitSettings {
    &mut unit.spec.as_mut().unwrap().unit
}

/// A random graph of units, with every kind of edge and setting that decides about jobs.
pub(crate) fn random_units(dice: &mut Dice, count: usize) -> Vec<LoadedUnit> {
    let name = |at: usize| match at % 5 {
        0 => format!("u{at}.target"),
        _ => format!("u{at}.service"),
    };
    let kinds = [
        DepKind::Requires,
        DepKind::Wants,
        DepKind::Wants,
        DepKind::After,
        DepKind::After,
        DepKind::After,
        DepKind::Before,
        DepKind::BindsTo,
        DepKind::PartOf,
        DepKind::Requisite,
        DepKind::Upholds,
        DepKind::Conflicts,
        DepKind::OnFailure,
        DepKind::OnSuccess,
        DepKind::PropagatesReloadTo,
        DepKind::PropagatesStopTo,
    ];
    let mut units = Vec::new();
    for at in 0..count {
        let mut deps: Vec<(DepKind, String)> = Vec::new();
        for _ in 0..dice.below(4) {
            let kind = dice.pick(&kinds);
            // Mostly towards earlier units, so that most graphs have few cycles and some have many.
            let to = if dice.percent(85) {
                dice.below(at.max(1))
            } else {
                dice.below(count)
            };
            deps.push((kind, name(to)));
            if dice.percent(60) {
                deps.push((DepKind::After, name(to)));
            }
        }
        let borrowed: Vec<(DepKind, &str)> =
            deps.iter().map(|(kind, to)| (*kind, to.as_str())).collect();
        let mut new = unit(&name(at), &borrowed);
        let settings = settings_of(&mut new);
        settings.stop_when_unneeded = dice.percent(5);
        settings.allow_isolate = dice.percent(20);
        settings.ignore_on_isolate = dice.percent(10);
        settings.start_limit = RateLimit {
            interval: Span::secs(10),
            burst: 5,
        };
        if dice.percent(3) {
            settings.job_timeout = Span::secs(30);
        }
        let spec = new.spec.as_mut().unwrap();
        if dice.percent(15) {
            spec.checks = [Check {
                text: "ConditionPathExists=/x".into(),
                assert: dice.percent(30),
                trigger: false,
            }]
            .into();
        }
        if let KindSpec::Service(service) = &mut spec.kind {
            service.service_type = dice.pick(&[
                ServiceType::Simple,
                ServiceType::Exec,
                ServiceType::Oneshot,
                ServiceType::Idle,
            ]);
            service.remain_after_exit = dice.percent(40);
            service.restart = dice.pick(&[
                Restart::No,
                Restart::No,
                Restart::OnFailure,
                Restart::Always,
            ]);
            if service.service_type == ServiceType::Oneshot && service.restart == Restart::Always {
                service.restart = Restart::No;
            }
            let mut commands = vec![CommandSpec {
                kind: ExecKind::Start,
                ignore_failure: false,
            }];
            for kind in [
                ExecKind::StartPre,
                ExecKind::Reload,
                ExecKind::Stop,
                ExecKind::StopPost,
            ] {
                if dice.percent(20) {
                    commands.push(CommandSpec {
                        kind,
                        ignore_failure: dice.percent(50),
                    });
                }
            }
            service.commands = commands.into();
        }
        units.push(new);
    }
    units
}
