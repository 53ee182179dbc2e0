//! Whether units could be started together with what they need: the engine is asked to, and nobody
//! carries out what it says.

use muster_engine::event::{Answer, Do, Event, Request, What};
use muster_engine::ids::{Clock, InvocationId, RequestId};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::Severity;
use muster_engine::{Action, EngineState};
use muster_unit_file::config::LoadState;
use muster_unit_file::name::UnitName;
use muster_units::Graph;
use muster_units::convert::{Moments, loaded_units};

/// What is said of a unit that cannot be used.
pub(super) fn unusable(name: &UnitName, state: LoadState) -> String {
    match state {
        LoadState::NotFound => format!("Unit {name} not found."),
        LoadState::Masked => format!("Unit {name} is masked."),
        LoadState::BadSetting => format!("Unit {name} has a bad unit file setting."),
        LoadState::Loaded | LoadState::Error => format!("Unit {name} failed to load properly."),
    }
}

/// Remarks of the engine that say nothing about a start: an optional dependency that cannot be used,
/// and the stop of a unit that does not run anyway.
const HARMLESS: [&str; 2] = ["Left out: ", "The stop job of "];

/// An engine that knows all units and runs none.
#[derive(Debug)]
pub(super) struct Rehearsal {
    engine: EngineState,
}

impl Rehearsal {
    pub(super) fn new(graph: &Graph) -> Self {
        let mut engine = EngineState::new();
        let units = loaded_units(graph, Moments::default());
        engine.apply(&event(What::Loaded(units)));
        Self { engine }
    }

    /// What keeps a unit from being started, or makes the engine leave something out.
    pub(super) fn problems(&self, name: &UnitName) -> Vec<String> {
        let mut engine = self.engine.clone();
        let request = Request {
            id: RequestId(1),
            unit: name.as_str().into(),
            verb: JobVerb::Start,
            mode: JobMode::Replace,
            manual: false,
        };
        let actions = engine.apply(&event(What::Request(request)));
        actions
            .into_iter()
            .filter_map(|action| Self::problem(name, action))
            .collect()
    }

    fn problem(name: &UnitName, action: Action) -> Option<String> {
        match action.what {
            Do::Answer {
                answer: Answer::Refused(refusal),
                ..
            } => Some(format!("Failed to create {name}/start: {refusal}")),
            // What is only wanted may be missing. A usable unit that is dropped is a mistake.
            Do::Log {
                severity: Severity::Error | Severity::Warning,
                message,
                ..
            } => {
                let harmless = HARMLESS.iter().any(|text| message.contains(text));
                (!harmless).then(|| message.into())
            }
            _ => None,
        }
    }
}

fn event(what: What) -> Event {
    Event {
        clock: Clock::default(),
        entropy: InvocationId(0),
        what,
    }
}
