//! A journal that the test writes, a node with instances, and somebody who asks.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::read::GzDecoder;
use muster_alert::{InstanceUnit, InstanceUnits};
use muster_api::common::v2 as common;
use muster_api::domain::{InstanceFilter, InstanceIdent, ItemId, ItemType, SubjectId};
use muster_api::servicemanager::v5 as wire;
use muster_journal::{EntryTime, Id128, JournalWriter, SeqnumSource, WriterOptions};
use muster_logs::{LogCollector, LogRequest, LogSettings};
use tokio::sync::mpsc;

/// For everything that is expected to happen.
pub(crate) const TIME: Duration = Duration::from_secs(60);
/// When the tests' journals begin, in seconds.
pub(crate) const EPOCH: i64 = 1_700_000_000;

pub(crate) fn ident(number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").expect("an id"),
        subject_id: SubjectId::new("subject").expect("an id"),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

/// The unit of a start of an instance.
pub(crate) fn unit(number: u64, run: u64) -> String {
    format!(
        "muster-native-{}-{run}.service",
        ident(number).instance_id()
    )
}

/// A node with so many instances.
#[derive(Debug)]
pub(crate) struct Instances(pub(crate) u64);

impl InstanceUnits for Instances {
    fn by_unit(&self, unit: &str) -> Option<InstanceUnit> {
        let all = InstanceFilter::default();
        self.find(&all).into_iter().find(|one| one.unit == unit)
    }

    fn find(&self, filter: &InstanceFilter) -> Vec<InstanceUnit> {
        (0..self.0)
            .map(ident)
            .filter(|ident| filter.matches(ident))
            .map(|ident| InstanceUnit {
                unit: unit(ident.instance, 1),
                ident,
                version: "1".to_owned(),
            })
            .collect()
    }
}

pub(crate) fn settings(dir: &Path) -> LogSettings {
    LogSettings {
        dirs: vec![dir.to_owned()],
        ..LogSettings::default()
    }
}

pub(crate) fn collector(settings: LogSettings) -> LogCollector {
    LogCollector::new(settings, Arc::new(Instances(100)))
}

type Bounds = (Option<i64>, Option<i64>);

fn time(seconds: Option<i64>) -> Option<prost_types::Timestamp> {
    seconds.map(|seconds| prost_types::Timestamp {
        seconds: EPOCH + seconds,
        nanos: 0,
    })
}

/// The node's own log, by seconds since the tests' epoch.
pub(crate) fn system((from, till): Bounds) -> LogRequest {
    LogRequest::System(wire::SystemLogRequest {
        correlation_id: "system".to_owned(),
        from: time(from),
        till: time(till),
    })
}

fn filter(number: i64) -> Option<common::InstanceFilter> {
    Some(common::InstanceFilter {
        item_id: "item".to_owned(),
        subject_id: "subject".to_owned(),
        instance: number,
    })
}

pub(crate) fn instance(number: i64, (from, till): Bounds) -> LogRequest {
    LogRequest::Instance(wire::InstanceLogRequest {
        correlation_id: "instance".to_owned(),
        filter: filter(number),
        from: time(from),
        till: time(till),
    })
}

pub(crate) fn crash(number: i64) -> LogRequest {
    LogRequest::Crash(wire::InstanceCrashLogRequest {
        correlation_id: "crash".to_owned(),
        filter: filter(number),
        from: None,
        till: None,
    })
}

/// All parts of an answer.
pub(crate) async fn ask(collector: &LogCollector, request: LogRequest) -> Vec<wire::LogData> {
    let id = request.correlation_id().to_owned();
    let (sender, mut receiver) = mpsc::channel(2);
    let taking = async {
        let mut parts = Vec::new();
        while let Some(part) = receiver.recv().await {
            parts.push(part);
        }
        parts
    };
    let both = async { tokio::join!(collector.collect(request, sender), taking).1 };
    let parts = tokio::time::timeout(TIME * 4, both)
        .await
        .expect("an answer");
    for (number, part) in (1..).zip(&parts) {
        assert_eq!((part.part, &part.correlation_id), (number, &id));
        assert_eq!(part.part_count, parts.len() as u64);
    }
    assert!(!parts.is_empty());
    parts
}

pub(crate) fn unpack(part: &wire::LogData) -> String {
    assert_eq!(part.status, "ok", "{part:?}");
    let mut text = String::new();
    let unpacked = GzDecoder::new(&part.data[..]).read_to_string(&mut text);
    unpacked.expect("gzip of text");
    text
}

/// The whole text of an answer.
pub(crate) async fn text(collector: &LogCollector, request: LogRequest) -> String {
    ask(collector, request).await.iter().map(unpack).collect()
}

/// The messages of a text, one per line.
pub(crate) fn messages(text: &str) -> Vec<&str> {
    let message = |line| str::split_once(line, ": ").map_or("", |(_, message)| message);
    text.lines().map(message).collect()
}

/// The log daemon's part.
pub(crate) struct Log {
    dir: PathBuf,
    options: WriterOptions,
    writer: Option<JournalWriter>,
}

impl Log {
    pub(crate) fn new(dir: &Path) -> Self {
        let boot = Id128::from_bytes([2; 16]);
        let mut options = WriterOptions::new(Id128::from_bytes([1; 16]), boot);
        options.max_size = 128 << 20;
        let numbers = SeqnumSource {
            id: Id128::from_bytes([3; 16]),
            next: 1,
        };
        let writer = JournalWriter::create(&dir.join("system.journal"), &options, numbers);
        Self {
            dir: dir.to_owned(),
            options,
            writer: Some(writer.expect("a journal")),
        }
    }

    /// An entry, so many microseconds after the tests' epoch.
    pub(crate) fn append<T: AsRef<[u8]>>(&mut self, micros: u64, fields: &[T]) {
        let boot_id = Id128::from_bytes([2; 16]);
        let boot = format!("_BOOT_ID={boot_id}");
        let mut all: Vec<&[u8]> = fields.iter().map(AsRef::as_ref).collect();
        all.push(boot.as_bytes());
        let when = EntryTime {
            realtime: EPOCH.unsigned_abs() * 1_000_000 + micros,
            monotonic: micros + 1,
            boot_id,
        };
        let writer = self.writer.as_mut().expect("open");
        if writer.rotation_due().is_some() || writer.append(when, &all).is_err() {
            self.rotate();
            let writer = self.writer.as_mut().expect("open");
            writer.append(when, &all).expect("appended");
        }
    }

    pub(crate) fn say(&mut self, seconds: u64, unit: &str, message: &str) {
        self.append(
            seconds * 1_000_000,
            &[
                format!("MESSAGE={message}"),
                "PRIORITY=6".to_owned(),
                format!("_SYSTEMD_UNIT={unit}"),
            ],
        );
    }

    pub(crate) fn rotate(&mut self) {
        let writer = self.writer.take().expect("open");
        let numbers = writer.seqnums();
        let done = writer.archive().expect("done");
        let name = format!(
            "system@{}-{:016x}-{:016x}.journal",
            done.seqnum_id, done.head_seqnum, done.head_realtime
        );
        let active = self.dir.join("system.journal");
        std::fs::rename(&active, self.dir.join(name)).expect("renamed");
        let writer = JournalWriter::create(&active, &self.options, numbers);
        self.writer = Some(writer.expect("a journal"));
    }
}
