//! Logs of the node and its instances, found and packed on request.
//!
//! ```no_run
//! use std::sync::Arc;
//! use muster_alert::InstanceUnits;
//! use muster_logs::{LogCollector, LogRequest, LogSettings};
//! # async fn example(units: Arc<dyn InstanceUnits>, request: LogRequest) {
//! let collector = LogCollector::new(LogSettings::default(), units);
//! let (sender, mut parts) = tokio::sync::mpsc::channel(4);
//! tokio::spawn(async move { collector.collect(request, sender).await });
//! while let Some(part) = parts.recv().await {
//!     // part.part of part.part_count
//! }
//! # }
//! ```
//!
//! # Answers
//! | status | when |
//! |---|---|
//! | `ok` | parts 1 to `part_count`, each by itself gzip of whole lines of text, at most 256 KiB before it is compressed |
//! | `empty` | nothing was logged in the wanted time |
//! | `absent` | the node has no such instance, and its journal no word of it |
//! | `error` | with the reason |
//!
//! A line is `TIME PRIORITY UNIT NAME[PID]: MESSAGE`; further lines of a message are indented, so that no message can look
//! like another entry, and what would act on a terminal is escaped.
//!
//! - **System log**: every entry of the journal in the wanted time.
//! - **Instance log**: what the units of an instance said, all its starts, and what the init system said about them. An
//!   instance that the node has no more can be named by item, subject and number.
//! - **Crash log**: a section for each failed end, the oldest first: unit, time, exit status or signal, whether for memory,
//!   the init system's result, the core's facts if one was taken; then the last lines of that run. Runs are told apart by
//!   their invocation ids, so that a line that the log daemon took in after the end is not lost.
//!
//! When there is more than 80 parts hold, the newest are sent, and the first line says so.
//!
//! # How
//! A search runs on a thread that may block; at most [`LogSettings::parallel`] at a time, others wait. Files whose headers
//! show another time are left out; in the others the journal's own indexes lead to the wanted time and units. The entries
//! are walked through twice: backward, to learn how many lines each part has, and forward, to make the parts. So the
//! number of parts is known before the first is sent, nothing is copied to a disk, and memory is needed for one part.
//! The receiver's pace is the search's; when the receiver is dropped, it ends.
//!
//! # Invariants
//! - Parts are complete, in order and numbered from 1, and every part says how many there are.
//! - Memory does not depend on the size of the journal or of an entry: well under 16 MiB for each search.
//! - Every request is answered, unless nobody takes the answer.
//!
//! # What this crate does not do
//! It decides neither which instances there are ([`InstanceUnits`](muster_alert::InstanceUnits) does) nor who may ask.

mod answer;
mod collector;
mod crash;
mod error;
mod fields;
mod line;
mod parts;
mod request;
mod scan;
mod settings;
mod wanted;

pub use self::collector::LogCollector;
pub use self::request::LogRequest;
pub use self::settings::LogSettings;
