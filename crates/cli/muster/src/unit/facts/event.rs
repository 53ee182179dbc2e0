//! Something that happened.

use jiff::Timestamp;
use muster_control_api::v1;
use serde::Serialize;

use super::{Listed, clock, time};
use crate::text::shown;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventFacts {
    pub(crate) time: Option<String>,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) warning: bool,
}

impl From<v1::Event> for EventFacts {
    fn from(event: v1::Event) -> Self {
        // The wire writes instances with colons; here they have one name everywhere.
        let is_instance = event.kind == "instance" && event.name.matches(':').count() == 2;
        let name = match is_instance {
            true => event.name.replace(':', "/"),
            false => event.name,
        };
        Self {
            time: event.timestamp.and_then(time),
            kind: event.kind,
            name,
            message: event.message,
            warning: event.warning,
        }
    }
}

impl Listed for EventFacts {
    const KIND: &'static str = "event";
    const COLUMNS: &'static [&'static str] = &["TIME", "STATE", "KIND", "NAME", "MESSAGE"];
    const FURTHER: &'static [&'static str] = &[];

    fn key(&self) -> String {
        self.name.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        let state = match self.warning {
            true => "warning",
            false => "ok",
        };
        vec![
            clock(self.time.as_deref()),
            state.to_owned(),
            shown(&self.kind),
            shown(&self.name),
            shown(&self.message),
        ]
    }

    fn further(&self) -> Vec<String> {
        Vec::new()
    }
}
