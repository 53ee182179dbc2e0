//! An alert.

use jiff::Timestamp;
use muster_control_api::v1;
use serde::Serialize;

use super::{Listed, clock, given, instance_name, or_dash, time, timestamp};
use crate::text::shown;

/// An alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AlertFacts {
    pub(crate) time: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) kind: String,
    pub(crate) instance: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) message: String,
    #[serde(skip)]
    pub(crate) at: Option<Timestamp>,
}

impl From<v1::Alert> for AlertFacts {
    fn from(alert: v1::Alert) -> Self {
        Self {
            time: alert.timestamp.and_then(time),
            at: alert.timestamp.and_then(timestamp),
            node: given(alert.node_id),
            kind: alert.kind,
            instance: alert.instance.as_ref().map(instance_name),
            subject: given(alert.subject),
            message: alert.message,
        }
    }
}

impl Listed for AlertFacts {
    const KIND: &'static str = "alert";
    const COLUMNS: &'static [&'static str] = &["TIME", "NODE", "KIND", "ABOUT", "MESSAGE"];
    const FURTHER: &'static [&'static str] = &[];
    const PASSES: bool = false;

    fn key(&self) -> String {
        let time = self.time.as_deref().unwrap_or_default();
        format!("{time} {} {}", self.kind, self.message)
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        let about = [&self.instance, &self.subject];
        let about: Vec<&str> = about.into_iter().flatten().map(String::as_str).collect();
        vec![
            clock(self.time.as_deref()),
            or_dash(self.node.as_deref()),
            shown(&self.kind),
            or_dash(given(about.join(" ")).as_deref()),
            shown(&self.message),
        ]
    }

    fn further(&self) -> Vec<String> {
        Vec::new()
    }
}
