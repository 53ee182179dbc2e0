//! Something that happened.

use jiff::Timestamp;
use muster_machine_api::v1;
use serde::Serialize;

use super::{some, text};
use crate::text::shown;
use crate::unit::facts::Listed;

/// Something that happened, to a machine or in a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::machine) struct EventFacts {
    number: u64,
    time: Option<String>,
    /// The machine, or the place of one in a run.
    machine: String,
    /// The step of a run.
    step: Option<String>,
    kind: String,
    message: String,
    warning: bool,
}

impl From<v1::Event> for EventFacts {
    fn from(event: v1::Event) -> Self {
        Self {
            number: event.number,
            time: text(event.at.as_ref()),
            machine: event.machine,
            step: None,
            kind: event.kind,
            message: event.message,
            warning: event.warning,
        }
    }
}

impl From<v1::RunEvent> for EventFacts {
    fn from(event: v1::RunEvent) -> Self {
        Self {
            number: event.number,
            time: text(event.at.as_ref()),
            machine: event.machine,
            step: some(event.step),
            kind: event.kind,
            message: event.message,
            warning: event.warning,
        }
    }
}

impl Listed for EventFacts {
    const KIND: &'static str = "event";
    const COLUMNS: &'static [&'static str] = &["NUMBER", "TIME", "MACHINE", "WHAT", "MESSAGE"];
    const FURTHER: &'static [&'static str] = &[];

    fn key(&self) -> String {
        self.number.to_string()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        let time = self.time.as_deref().unwrap_or("-");
        vec![
            self.number.to_string(),
            time.get(..19).unwrap_or(time).to_owned(),
            match self.machine.is_empty() {
                true => "-".to_owned(),
                false => shown(&self.machine),
            },
            self.kind.clone(),
            shown(&self.message),
        ]
    }

    fn further(&self) -> Vec<String> {
        Vec::new()
    }
}
