//! The order of jobs: who waits for whom, and what happens when the answer is a circle.

use super::{Plan, Refusal};
use crate::dep::DepKind;
use crate::ids::UnitId;
use crate::job::JobType;
use crate::state::EngineState;

/// What of a job's kind matters to its order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered {
    pub(crate) job_type: JobType,
    pub(crate) ignore_order: bool,
}

/// Whether `other`, a job of a unit to which this job's unit has an edge of `kind`, must end before this one begins.
///
/// Stopping goes before starting, and stops run in the reverse order of starts. A restart counts as a stop until its unit
/// is down; from then on it is a start.
pub(crate) fn waits_for(this: Ordered, kind: DepKind, other: Ordered) -> bool {
    if this.ignore_order || other.ignore_order {
        return false;
    }
    match kind {
        DepKind::After => !this.job_type.stops(),
        DepKind::Before => other.job_type.stops(),
        _ => false,
    }
}

/// The half of a job that an ordering cycle can lie in. Stops never wait for starts, so a cycle is all of one half; a
/// restart has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Stop,
    Start,
}

impl Half {
    fn has(self, job_type: JobType) -> bool {
        match self {
            Self::Stop => job_type.stops(),
            Self::Start => job_type != JobType::Stop,
        }
    }

    /// The edge along which jobs of this half wait.
    fn waits_along(self) -> DepKind {
        match self {
            Self::Stop => DepKind::Before,
            Self::Start => DepKind::After,
        }
    }
}

/// The unit whose job is to be given up because jobs wait for each other in a circle, and what to tell the user.
pub(super) fn find_victim(
    state: &EngineState,
    plan: &Plan,
) -> Result<Option<(UnitId, String)>, Refusal> {
    let Some(cycle) =
        find_cycle(state, plan, Half::Start).or_else(|| find_cycle(state, plan, Half::Stop))
    else {
        return Ok(None);
    };
    let mut names: Vec<Box<str>> = cycle.iter().map(|unit| state.name(*unit)).collect();
    names.push(names[0].clone());
    let weakest = cycle
        .iter()
        .filter_map(|unit| plan.jobs.get(unit).map(|job| (job, *unit)))
        .filter(|(job, unit)| !job.needed && *unit != plan.anchor)
        .min_by_key(|(job, unit)| (job.rank(), state.name(*unit)));
    let Some((job, victim)) = weakest else {
        return Err(Refusal::Cycle(names));
    };
    let remark = format!(
        "Ordering cycle: {}. The {} job of {} is dropped to break it.",
        names.join(" -> "),
        job.job_type.as_str(),
        state.unit(victim).name
    );
    Ok(Some((victim, remark)))
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    OnPath,
    Done,
}

/// Depth-first, without recursion: a chain may be as long as there are units.
fn find_cycle(state: &EngineState, plan: &Plan, half: Half) -> Option<Vec<UnitId>> {
    let mut marks = vec![Mark::New; state.units.len()];
    for root in plan.jobs.keys() {
        if marks[root.index()] != Mark::New || !in_half(state, plan, half, *root) {
            continue;
        }
        let mut path = vec![(*root, waits(state, plan, half, *root))];
        marks[root.index()] = Mark::OnPath;
        while let Some((unit, open)) = path.last_mut() {
            let Some(next) = open.pop() else {
                marks[unit.index()] = Mark::Done;
                path.pop();
                continue;
            };
            match marks[next.index()] {
                Mark::Done => {}
                Mark::OnPath => {
                    let from = path.iter().position(|(unit, _)| *unit == next).unwrap_or(0);
                    return Some(path[from..].iter().map(|(unit, _)| *unit).collect());
                }
                Mark::New => {
                    marks[next.index()] = Mark::OnPath;
                    path.push((next, waits(state, plan, half, next)));
                }
            }
        }
    }
    None
}

/// The units whose jobs, planned or queued, the job of `unit` waits for in this half.
fn waits(state: &EngineState, plan: &Plan, half: Half, unit: UnitId) -> Vec<UnitId> {
    let along = state.unit(unit).deps(half.waits_along());
    along.filter(|to| in_half(state, plan, half, *to)).collect()
}

fn in_half(state: &EngineState, plan: &Plan, half: Half, unit: UnitId) -> bool {
    let (job_type, ignore_order) = match (plan.jobs.get(&unit), state.job_of(unit)) {
        (Some(planned), _) => (planned.job_type, planned.ignore_order),
        (None, Some(queued)) if !plan.drop_others || queued.irreversible => {
            (queued.job_type, queued.ignore_order)
        }
        _ => return false,
    };
    !ignore_order && half.has(job_type)
}
