//! What a Unit tells, as programs get it with `--output json` and people as tables.
//!
//! The JSON is a promise: keys are never renamed or removed, every key of an object is always there, what is not known is
//! `null`, sizes are bytes, times are RFC 3339 in UTC.

mod alert;
mod event;
mod instance;
mod item;
mod network;
mod node;

use std::time::Duration;

use jiff::Timestamp;
use muster_api::common::v2 as common;
use muster_control_api::v1;
use serde::Serialize;

pub(crate) use self::alert::AlertFacts;
pub(crate) use self::event::EventFacts;
pub(crate) use self::instance::InstanceFacts;
pub(crate) use self::item::{ItemFacts, item_key};
pub(crate) use self::network::NetworkFacts;
pub(crate) use self::node::NodeFacts;
use crate::console::{Answer, Table};
use crate::text::{length, shown, size};

/// Something that stands in a list of its kind.
pub(crate) trait Listed: Serialize {
    /// What it is, in one word.
    const KIND: &'static str;
    /// For everybody.
    const COLUMNS: &'static [&'static str];
    /// For those who want to know more.
    const FURTHER: &'static [&'static str];
    /// Whether things of this kind can be gone again.
    const PASSES: bool = true;

    /// What tells it from others of its kind.
    fn key(&self) -> String;

    /// What people call it.
    fn name(&self) -> String {
        self.key()
    }

    fn row(&self, now: Timestamp) -> Vec<String>;

    fn further(&self) -> Vec<String>;
}

/// Something that can be looked at closely.
pub(crate) trait Described: Listed {
    /// All that is known.
    fn facts(&self, now: Timestamp) -> Vec<(&'static str, String)>;
}

/// Things of one kind.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Listing<T>(pub(crate) Vec<T>);

impl<T: Listed> Listing<T> {
    /// As a table; `wide` with everything that has a column.
    pub(crate) fn render(&self, now: Timestamp, wide: bool) -> Table {
        let mut header = T::COLUMNS.to_vec();
        if wide {
            header.extend(T::FURTHER);
        }
        let rows = self.0.iter().map(|thing| row(thing, now, wide));
        Table::list(&header, rows.collect())
    }
}

/// One line of such a table.
pub(crate) fn row<T: Listed>(thing: &T, now: Timestamp, wide: bool) -> Vec<String> {
    let mut row = thing.row(now);
    if wide {
        row.extend(thing.further());
    }
    row
}

impl<T: Listed> Answer for Listing<T> {
    fn table(&self) -> Table {
        self.render(Timestamp::now(), false)
    }

    fn wide(&self) -> Table {
        self.render(Timestamp::now(), true)
    }
}

/// What is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageFacts {
    pub(crate) time: Option<String>,
    /// DMIPS.
    pub(crate) cpu: u64,
    pub(crate) ram: u64,
    pub(crate) download: u64,
    pub(crate) upload: u64,
    pub(crate) partitions: Vec<PartitionFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartitionFacts {
    pub(crate) name: String,
    pub(crate) used_size: u64,
}

impl From<v1::Usage> for UsageFacts {
    fn from(usage: v1::Usage) -> Self {
        let partition = |it: v1::PartitionUsage| PartitionFacts {
            name: it.name,
            used_size: it.used_size,
        };
        Self {
            time: usage.timestamp.and_then(time),
            cpu: usage.cpu,
            ram: usage.ram,
            download: usage.download,
            upload: usage.upload,
            partitions: usage.partitions.into_iter().map(partition).collect(),
        }
    }
}

impl UsageFacts {
    fn facts(usage: Option<&Self>) -> Vec<(&'static str, String)> {
        let Some(usage) = usage else {
            return Vec::new();
        };
        let mut facts = vec![
            ("CPU used", format!("{} DMIPS", usage.cpu)),
            ("RAM used", size(usage.ram)),
            (
                "Traffic",
                format!("{} in, {} out", size(usage.download), size(usage.upload)),
            ),
        ];
        for partition in &usage.partitions {
            let text = format!("{} {}", shown(&partition.name), size(partition.used_size));
            facts.push(("Disk used", text));
        }
        facts
    }
}

/// What is wrong with something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorFacts {
    /// The wire's error code, 0 for none.
    pub(crate) code: i32,
    /// Of a process, or an errno.
    pub(crate) exit_code: i32,
    pub(crate) message: String,
}

impl From<common::ErrorInfo> for ErrorFacts {
    fn from(error: common::ErrorInfo) -> Self {
        Self {
            code: error.aos_code,
            exit_code: error.exit_code,
            message: error.message,
        }
    }
}

/// Its words, or its codes if it has none.
fn error_words(error: Option<&ErrorFacts>) -> String {
    match error {
        None => String::new(),
        Some(error) if error.message.is_empty() => {
            format!("error {}, exit code {}", error.code, error.exit_code)
        }
        Some(error) => shown(&error.message),
    }
}

/// An instance as it is named everywhere.
pub(crate) fn instance_name(ident: &common::InstanceIdent) -> String {
    format!("{}/{}/{}", ident.item_id, ident.subject_id, ident.instance)
}

fn timestamp(stamp: prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(stamp.seconds, stamp.nanos).ok()
}

/// A time of the wire, for programs.
pub(super) fn time(stamp: prost_types::Timestamp) -> Option<String> {
    timestamp(stamp).map(|time| time.to_string())
}

/// A time on the wire.
pub(crate) fn to_wire(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: time.as_second(),
        nanos: time.subsec_nanosecond(),
    }
}

/// A time for people, in their own zone.
pub(super) fn clock(time: Option<&str>) -> String {
    let time = time.and_then(|time| time.parse::<Timestamp>().ok());
    time.map_or_else(String::new, |time| {
        let local = time.to_zoned(jiff::tz::TimeZone::system());
        local.strftime("%Y-%m-%d %H:%M:%S").to_string()
    })
}

/// How long ago a time is.
fn age(time: Option<&str>, now: Timestamp) -> String {
    let time = time.and_then(|time| time.parse::<Timestamp>().ok());
    time.map_or_else(String::new, |time| {
        // A clock that runs ahead of this one's makes something that has just happened.
        let ago = Duration::try_from(now.duration_since(time)).unwrap_or_default();
        length(ago)
    })
}

/// A text that is there.
fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn or_dash(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), shown)
}

/// Used of available, in percent of what is there.
fn share(used: Option<u64>, all: u64) -> String {
    match used {
        Some(used) if all > 0 => format!("{}%", used.saturating_mul(100) / all),
        _ => "-".to_owned(),
    }
}
