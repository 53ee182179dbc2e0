//! Units and jobs as rows: functions of the engine's state.

use muster_control::manager::{
    Job, ListUnitsCall, ListenView, Moment, PathView, TimerView, UnitRow,
};
use muster_engine::EngineState;
use muster_engine::dep::DepKind;
use muster_engine::ids::{Clock, JobId, UnitId};
use muster_engine::job::JobPhase;
use muster_engine::protocol::ActiveState;
use muster_engine::state::UnitRecord;
use muster_engine::types::{Machine, Timer};
use muster_unit_file::config::{UnitConfig, UnitKind};
use muster_unit_file::install::glob;

/// A moment as clients are told it.
pub(super) fn moment(clock: Clock) -> Moment {
    Moment {
        real: u64::try_from(clock.real).unwrap_or(0),
        monotonic: clock.monotonic.0,
    }
}

/// Whether a unit is among those that a list is to show.
pub(super) fn is_listed(record: &UnitRecord, wanted: &ListUnitsCall) -> bool {
    let (active, sub) = (record.active(), record.machine.sub_state());
    let named = || {
        let patterns = &wanted.patterns;
        patterns.is_empty() || patterns.iter().any(|pattern| glob(pattern, &record.name))
    };
    let of_type = || {
        let suffix = record
            .name
            .rsplit_once('.')
            .map_or("", |(_, suffix)| suffix);
        wanted.types.is_empty() || wanted.types.iter().any(|kind| kind == suffix)
    };
    let in_state = || {
        let states = [record.load.as_str(), active.as_str(), sub];
        wanted
            .states
            .iter()
            .any(|state| states.contains(&state.as_str()))
    };
    let shown = if wanted.states.is_empty() {
        wanted.all || active != ActiveState::Inactive || record.job.is_some()
    } else {
        in_state()
    };
    shown && of_type() && named()
}

/// A unit in a row. `config` is needed only of sockets and paths.
pub(super) fn row(
    engine: &EngineState,
    id: UnitId,
    now: Clock,
    config: Option<&UnitConfig>,
) -> UnitRow {
    let record = engine.unit(id);
    let spec = record.spec.as_deref();
    let description = spec
        .map(|spec| &*spec.description)
        .filter(|text| !text.is_empty());
    let job = engine.job_of(id);
    let times = &record.times;
    UnitRow {
        name: record.name.to_string(),
        description: description.unwrap_or(&record.name).to_owned(),
        load: record.load.as_str().to_owned(),
        active: record.active().as_str().to_owned(),
        sub: record.machine.sub_state().to_owned(),
        following: String::new(),
        job: job.map(|job| job.id.0),
        job_kind: job.map_or_else(String::new, |job| job.job_type.as_str().to_owned()),
        inactive_exit: moment(times.inactive_exit),
        active_enter: moment(times.active_enter),
        active_exit: moment(times.active_exit),
        inactive_enter: moment(times.inactive_enter),
        triggers: names(engine, record, DepKind::Triggers),
        listens: config.map_or_else(Vec::new, listens),
        timer: match &record.machine {
            Machine::Timer(timer) => Some(timer_view(timer, now)),
            _ => None,
        },
        paths: config.map_or_else(Vec::new, paths),
    }
}

/// Whether a row says more when the unit's settings are at hand.
pub(super) fn needs_config(record: &UnitRecord) -> bool {
    matches!(record.machine, Machine::Socket(_) | Machine::Path(_))
}

/// Names at the other ends of a unit's edges of one kind, sorted.
pub(super) fn names(engine: &EngineState, record: &UnitRecord, kind: DepKind) -> Vec<String> {
    let units = record.deps(kind).filter_map(|id| engine.get(id));
    let mut names: Vec<String> = units.map(|unit| unit.name.to_string()).collect();
    names.sort_unstable();
    names
}

fn listens(config: &UnitConfig) -> Vec<ListenView> {
    let UnitKind::Socket(socket) = &config.kind else {
        return Vec::new();
    };
    let view = |listen: &muster_unit_file::value::network::Listen| ListenView {
        kind: listen.kind.to_string(),
        address: listen.address.to_string(),
    };
    socket.listen.iter().map(view).collect()
}

fn paths(config: &UnitConfig) -> Vec<PathView> {
    let UnitKind::Path(path) = &config.kind else {
        return Vec::new();
    };
    let view = |spec: &muster_unit_file::config::PathSpec| PathView {
        kind: spec.kind.to_string(),
        path: spec.path.to_string(),
    };
    path.paths.iter().map(view).collect()
}

/// When a timer fires and fired, on both clocks, whichever of its lines comes first.
fn timer_view(timer: &Timer, now: Clock) -> TimerView {
    let by_monotonic = timer.next.map(|at| at.since(now.monotonic));
    let by_calendar = timer
        .next_real
        .map(|at| u64::try_from(at.saturating_sub(now.real)).unwrap_or(0));
    let wait = by_monotonic.into_iter().chain(by_calendar).min();
    let real_now = u64::try_from(now.real).unwrap_or(0);
    TimerView {
        next: wait.map_or_else(Moment::default, |wait| Moment {
            real: real_now.saturating_add(wait),
            monotonic: now.monotonic.0.saturating_add(wait),
        }),
        last: Moment {
            real: timer
                .fired_real
                .and_then(|at| u64::try_from(at).ok())
                .unwrap_or(0),
            monotonic: timer.fired.map_or(0, |at| at.0),
        },
    }
}

/// A queued job. Which jobs wait for it is filled in by [`jobs`].
fn job(engine: &EngineState, queued: &muster_engine::job::Job) -> Job {
    let after = engine.waits_of(queued.id);
    Job {
        id: queued.id.0,
        unit: engine.unit(queued.unit).name.to_string(),
        kind: queued.job_type.as_str().to_owned(),
        state: match queued.phase {
            JobPhase::Waiting => "waiting",
            JobPhase::Checking | JobPhase::Running { .. } => "running",
        }
        .to_owned(),
        queued: queued.queued.0,
        after: after.into_iter().map(|(_, JobId(other))| other).collect(),
        before: Vec::new(),
    }
}

/// All queued jobs.
pub(super) fn jobs(engine: &EngineState) -> Vec<Job> {
    let mut jobs: Vec<Job> = engine.jobs().map(|queued| job(engine, queued)).collect();
    let waits: Vec<(u32, u32)> = jobs
        .iter()
        .flat_map(|job| job.after.iter().map(|first| (*first, job.id)))
        .collect();
    for (first, then) in waits {
        if let Ok(at) = jobs.binary_search_by_key(&first, |job| job.id) {
            jobs[at].before.push(then);
        }
    }
    jobs
}

#[cfg(test)]
mod tests;
