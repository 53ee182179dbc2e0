//! Which jobs a request pulls in, which of them can be planned, and what becomes of two jobs for one unit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Plan, Planned, Refusal, Wanted};
use crate::dep::{DepKind, Effect};
use crate::event::LoadState;
use crate::ids::UnitId;
use crate::job::{JobMode, JobType, JobVerb, Origin};
use crate::state::EngineState;

/// A job that may become part of the plan.
#[derive(Debug)]
struct Node {
    unit: UnitId,
    job_type: JobType,
    origin: Origin,
    wants: Vec<Link>,
    /// Why it cannot be planned.
    blocked: Option<Block>,
}

#[derive(Clone, Debug)]
enum Block {
    Load(LoadState),
    NotApplicable,
    /// Something that it wants strictly is blocked.
    Through(usize),
    /// Given up for the sake of the rest.
    Sacrificed,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    to: usize,
    strict: bool,
}

/// The jobs that a request pulls in, before anything was decided about them.
#[derive(Debug)]
pub(super) struct Draft {
    nodes: Vec<Node>,
    index: BTreeMap<(UnitId, JobType), usize>,
    /// `None` if the verb comes to nothing in the unit's present state.
    anchor: Option<usize>,
    remarks: Vec<(UnitId, String)>,
}

/// Collects everything that the request pulls in.
pub(super) fn draft(state: &EngineState, wanted: &Wanted) -> Draft {
    let mut draft = Draft {
        nodes: Vec::new(),
        index: BTreeMap::new(),
        anchor: None,
        remarks: Vec::new(),
    };
    let alone = matches!(
        wanted.mode,
        JobMode::IgnoreDependencies | JobMode::IgnoreRequirements
    );
    let Some(job_type) = wanted.verb.settle(state.unit(wanted.unit).active()) else {
        return draft;
    };
    let mut open = VecDeque::new();
    let anchor = draft.add(
        state,
        wanted.unit,
        job_type,
        wanted.origin.clone(),
        &mut open,
    );
    draft.anchor = Some(anchor);
    if alone {
        return draft;
    }
    draft.expand(state, &mut open);
    match wanted.mode {
        JobMode::Triggering => draft.add_triggers(state, anchor, &mut open),
        JobMode::RestartDependencies => draft.add_restarts(state, anchor, &mut open),
        JobMode::Isolate => draft.add_isolation(state, anchor, &mut open),
        _ => {}
    }
    draft.expand(state, &mut open);
    draft
}

impl Draft {
    fn add(
        &mut self,
        state: &EngineState,
        unit: UnitId,
        job_type: JobType,
        origin: Origin,
        open: &mut VecDeque<usize>,
    ) -> usize {
        if let Some(at) = self.index.get(&(unit, job_type)) {
            return *at;
        }
        let record = state.unit(unit);
        let blocked = if job_type != JobType::Stop && record.load != LoadState::Loaded {
            Some(Block::Load(record.load))
        } else if !applicable(state, unit, job_type) {
            Some(Block::NotApplicable)
        } else {
            None
        };
        let at = self.nodes.len();
        self.nodes.push(Node {
            unit,
            job_type,
            origin,
            wants: Vec::new(),
            blocked,
        });
        self.index.insert((unit, job_type), at);
        open.push_back(at);
        at
    }

    fn expand(&mut self, state: &EngineState, open: &mut VecDeque<usize>) {
        while let Some(at) = open.pop_front() {
            if self.nodes[at].blocked.is_some() {
                continue;
            }
            let (unit, job_type) = (self.nodes[at].unit, self.nodes[at].job_type);
            for (kind, to, wanted, strict) in pulled_in(state, unit, job_type) {
                let origin = Origin::Dependency { unit, kind };
                let target = self.add(state, to, wanted, origin, open);
                self.nodes[at].wants.push(Link { to: target, strict });
            }
        }
    }

    fn link_from(
        &mut self,
        state: &EngineState,
        from: usize,
        to: UnitId,
        job_type: JobType,
        origin: Origin,
        open: &mut VecDeque<usize>,
    ) {
        let target = self.add(state, to, job_type, origin, open);
        self.nodes[from].wants.push(Link {
            to: target,
            strict: false,
        });
    }

    /// `triggering`: whatever could start the unit again is stopped with it.
    fn add_triggers(&mut self, state: &EngineState, anchor: usize, open: &mut VecDeque<usize>) {
        let unit = self.nodes[anchor].unit;
        for trigger in state.unit(unit).deps(DepKind::TriggeredBy) {
            if !state.unit(trigger).active().is_down() || state.unit(trigger).job.is_some() {
                let origin = Origin::Dependency {
                    unit,
                    kind: DepKind::TriggeredBy,
                };
                self.link_from(state, anchor, trigger, JobType::Stop, origin, open);
            }
        }
    }

    /// `restart-dependencies`: what would follow a restart follows this start.
    fn add_restarts(&mut self, state: &EngineState, anchor: usize, open: &mut VecDeque<usize>) {
        let unit = self.nodes[anchor].unit;
        for (kind, to) in state.unit(unit).with_effect(Effect::PropagateRestart) {
            if let Some(job_type) = JobVerb::TryRestart.settle(state.unit(to).active()) {
                let origin = Origin::Dependency { unit, kind };
                self.link_from(state, anchor, to, job_type, origin, open);
            }
        }
    }

    /// `isolate`: everything that is up and that nobody here wants is stopped.
    fn add_isolation(&mut self, state: &EngineState, anchor: usize, open: &mut VecDeque<usize>) {
        let wanted: BTreeSet<UnitId> = self.nodes.iter().map(|node| node.unit).collect();
        for (id, unit) in state.units() {
            let settings = unit.settings();
            let idle = unit.active().is_down() && unit.job.is_none();
            let kept_by_trigger = unit
                .deps(DepKind::TriggeredBy)
                .any(|trigger| wanted.contains(&trigger));
            if !(wanted.contains(&id)
                || idle
                || settings.ignore_on_isolate
                || settings.perpetual
                || kept_by_trigger)
            {
                let origin = Origin::Rule("isolate".into());
                self.link_from(state, anchor, id, JobType::Stop, origin, open);
            }
        }
    }
}

/// What a job of this type for this unit pulls in: edge, unit, job, and whether it is strict.
fn pulled_in(
    state: &EngineState,
    unit: UnitId,
    job_type: JobType,
) -> Vec<(DepKind, UnitId, JobType, bool)> {
    let record = state.unit(unit);
    let mut pulled = Vec::new();
    for edge in record.edges() {
        for effect in edge.kind.effects() {
            let other = state.unit(edge.to).active();
            let job = match (job_type, effect) {
                (JobType::Start | JobType::Restart, Effect::PullInStart) => {
                    Some((JobType::Start, true))
                }
                (JobType::Start | JobType::Restart, Effect::PullInStartIfPossible) => {
                    Some((JobType::Start, false))
                }
                (JobType::Start | JobType::Restart, Effect::PullInVerify) => {
                    Some((JobType::VerifyActive, true))
                }
                (JobType::Start | JobType::Restart, Effect::PullInStop) => {
                    Some((JobType::Stop, true))
                }
                (JobType::Start | JobType::Restart, Effect::PullInStopIfPossible) => {
                    Some((JobType::Stop, false))
                }
                (JobType::Stop, Effect::PropagateStop) => Some((JobType::Stop, true)),
                (JobType::Restart, Effect::PropagateRestart) => {
                    JobVerb::TryRestart.settle(other).map(|job| (job, true))
                }
                (JobType::Reload, Effect::PropagateReload) => {
                    JobVerb::TryReload.settle(other).map(|job| (job, false))
                }
                _ => None,
            };
            if let Some((job, strict)) = job {
                pulled.push((edge.kind, edge.to, job, strict));
            }
        }
    }
    pulled
}

/// Whether the unit can do such a job at all.
fn applicable(state: &EngineState, unit: UnitId, job_type: JobType) -> bool {
    let record = state.unit(unit);
    match job_type {
        JobType::Start | JobType::VerifyActive => true,
        JobType::Stop | JobType::Restart => !record.settings().perpetual,
        JobType::Reload => record
            .spec
            .as_ref()
            .is_some_and(|spec| spec.kind.can_reload()),
    }
}

/// Blocks what wants strictly what cannot be planned, and refuses if that reaches the request itself.
pub(super) fn drop_infeasible(state: &EngineState, draft: &mut Draft) -> Result<(), Refusal> {
    let Some(anchor) = draft.anchor else {
        return Ok(());
    };
    // A stop or reload that a unit cannot do is no obstacle for who propagates it: nothing is lost by leaving it out.
    let blocked = (0..draft.nodes.len())
        .filter(|at| match draft.nodes[*at].blocked {
            Some(Block::NotApplicable) => *at == anchor,
            Some(_) => true,
            None => false,
        })
        .collect();
    draft.block_wanters(blocked);
    if draft.nodes[anchor].blocked.is_some() {
        return Err(refusal(state, draft, anchor));
    }
    for at in 0..draft.nodes.len() {
        for link in draft.nodes[at].wants.clone() {
            let target = &draft.nodes[link.to];
            if target.blocked.is_some()
                && !link.strict
                && target.job_type != JobType::Stop
                && draft.nodes[at].blocked.is_none()
            {
                let why = refusal(state, draft, link.to);
                draft
                    .remarks
                    .push((draft.nodes[at].unit, format!("Left out: {why}")));
            }
        }
    }
    Ok(())
}

impl Draft {
    /// Whatever wants one of these strictly, round any number of corners, is blocked too.
    fn block_wanters(&mut self, mut blocked: VecDeque<usize>) {
        let mut wanted_by: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            for link in node.wants.iter().filter(|link| link.strict) {
                wanted_by[link.to].push(at);
            }
        }
        while let Some(at) = blocked.pop_front() {
            for by in std::mem::take(&mut wanted_by[at]) {
                if self.nodes[by].blocked.is_none() {
                    self.nodes[by].blocked = Some(Block::Through(at));
                    blocked.push_back(by);
                }
            }
        }
    }

    fn sacrifice(&mut self, victims: Vec<usize>, unit: UnitId, remark: String) {
        for at in &victims {
            self.nodes[*at].blocked = Some(Block::Sacrificed);
        }
        self.block_wanters(victims.into());
        self.remarks.push((unit, remark));
    }

    /// Does without the jobs of a unit, and without whatever wants them strictly.
    pub(super) fn give_up(&mut self, unit: UnitId, remark: String) {
        let victims = (0..self.nodes.len())
            .filter(|at| self.nodes[*at].unit == unit)
            .collect();
        self.sacrifice(victims, unit, remark);
    }
}

fn refusal(state: &EngineState, draft: &Draft, from: usize) -> Refusal {
    let mut at = from;
    let mut path = vec![state.name(draft.nodes[at].unit)];
    loop {
        let node = &draft.nodes[at];
        match &node.blocked {
            Some(Block::Through(next)) => {
                at = *next;
                path.push(state.name(draft.nodes[at].unit));
            }
            Some(Block::Load(load)) => {
                return Refusal::NotUsable {
                    unit: state.name(node.unit),
                    load: *load,
                    path,
                };
            }
            Some(Block::NotApplicable | Block::Sacrificed) | None => {
                return Refusal::NotApplicable {
                    unit: state.name(node.unit),
                    job: node.job_type,
                };
            }
        }
    }
}

/// One job per unit, out of what is left and still wanted.
pub(super) fn merge(
    state: &EngineState,
    draft: &mut Draft,
    wanted: &Wanted,
) -> Result<Plan, Refusal> {
    let mut plan = Plan {
        anchor: wanted.unit,
        jobs: BTreeMap::new(),
        drop_others: matches!(wanted.mode, JobMode::Isolate | JobMode::Flush),
        remarks: Vec::new(),
    };
    let Some(anchor) = draft.anchor else {
        return Ok(plan);
    };
    let needed = reachable(draft, anchor, |link| link.strict);
    loop {
        let alive = reachable(draft, anchor, |_| true);
        let mut by_unit: BTreeMap<UnitId, Vec<usize>> = BTreeMap::new();
        for (at, _) in alive.iter().enumerate().filter(|(_, alive)| **alive) {
            by_unit.entry(draft.nodes[at].unit).or_default().push(at);
        }
        match settle_units(state, draft, &by_unit, &needed)? {
            Settled::Jobs(jobs) => {
                plan.jobs = jobs
                    .into_iter()
                    .map(|(unit, (job_type, first))| {
                        let planned = Planned {
                            job_type,
                            origin: draft.nodes[first].origin.clone(),
                            needed: by_unit[&unit].iter().any(|at| needed[*at]),
                            irreversible: wanted.mode == JobMode::ReplaceIrreversibly,
                            ignore_order: wanted.mode == JobMode::IgnoreDependencies,
                        };
                        (unit, planned)
                    })
                    .collect();
                plan.remarks.clone_from(&draft.remarks);
                return Ok(plan);
            }
            Settled::Drop(at) => {
                let node = &draft.nodes[at];
                let remark = format!(
                    "Left out: the {} job of {} contradicts what else is wanted.",
                    node.job_type.as_str(),
                    state.unit(node.unit).name
                );
                let unit = node.unit;
                draft.sacrifice(vec![at], unit, remark);
            }
        }
    }
}

enum Settled {
    Jobs(BTreeMap<UnitId, (JobType, usize)>),
    /// Do without this one and look again.
    Drop(usize),
}

fn settle_units(
    state: &EngineState,
    draft: &Draft,
    by_unit: &BTreeMap<UnitId, Vec<usize>>,
    needed: &[bool],
) -> Result<Settled, Refusal> {
    let mut jobs = BTreeMap::new();
    for (unit, nodes) in by_unit {
        let active = state.unit(*unit).active();
        let stop = nodes
            .iter()
            .copied()
            .find(|at| draft.nodes[*at].job_type == JobType::Stop);
        let rest: Vec<usize> = nodes
            .iter()
            .copied()
            .filter(|at| draft.nodes[*at].job_type != JobType::Stop)
            .collect();
        if let (Some(stop), Some(first)) = (stop, rest.first().copied()) {
            let stop_needed = needed[stop];
            let up_needed = rest.iter().find(|at| needed[**at]).copied();
            return match (stop_needed, up_needed) {
                (true, Some(up)) => Err(contradiction(state, draft, up, stop)),
                (true, None) => Ok(Settled::Drop(first)),
                (false, _) => Ok(Settled::Drop(stop)),
            };
        }
        let mut merged: Option<JobType> = None;
        for at in nodes {
            let next = draft.nodes[*at].job_type;
            merged = match merged {
                None => Some(next),
                Some(so_far) => so_far.merge(next).and_then(|verb| verb.settle(active)),
            };
        }
        if let Some(job_type) = merged {
            jobs.insert(*unit, (job_type, nodes[0]));
        }
    }
    Ok(Settled::Jobs(jobs))
}

fn contradiction(state: &EngineState, draft: &Draft, up: usize, down: usize) -> Refusal {
    let who = |at: usize| match &draft.nodes[at].origin {
        Origin::Dependency { unit, .. } => state.name(*unit),
        _ => "the request".into(),
    };
    Refusal::Contradiction {
        unit: state.name(draft.nodes[up].unit),
        up: who(up),
        down: who(down),
    }
}

/// Which nodes are reached from the anchor by links that `follow` accepts.
fn reachable(draft: &Draft, anchor: usize, follow: impl Fn(&Link) -> bool) -> Vec<bool> {
    let mut seen = vec![false; draft.nodes.len()];
    let mut open = vec![anchor];
    while let Some(at) = open.pop() {
        if draft.nodes[at].blocked.is_some() || std::mem::replace(&mut seen[at], true) {
            continue;
        }
        open.extend(
            draft.nodes[at]
                .wants
                .iter()
                .filter(|link| follow(link))
                .map(|link| link.to),
        );
    }
    seen
}
