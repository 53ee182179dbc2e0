//! The kernel's messages.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{InputError, TURN_MAX, Taken};
use crate::entry::Fields;
use crate::origin::device_fields;
use crate::parse::kmsg::{KernelRecord, parse_kmsg};
use crate::parse::priority::Level;
use crate::recorder::{Item, Recorder, Routing, Speaker};
use crate::state::{Mark, Progress};

/// The kernel gives no longer record.
const RECORD_MAX: usize = 16 << 10;
/// Kernel messages were overwritten before they were read.
const MESSAGE_MISSED: &str = "e9bf28e6e834481bb6f48f548ad13606";

/// `/dev/kmsg`.
#[derive(Debug)]
pub struct KernelSource {
    file: File,
    root: PathBuf,
    buffer: Vec<u8>,
    fields: Fields,
}

impl KernelSource {
    /// Opens the device. Records that are in the journal already are skipped.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, InputError> {
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = File::options()
            .read(true)
            .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
            .open(path)
            .map_err(|error| failed("open", error))?;
        Ok(Self {
            file,
            root: PathBuf::from("/"),
            buffer: vec![0; RECORD_MAX],
            fields: Fields::default(),
        })
    }

    /// Takes what is there, up to one turn's worth.
    ///
    /// # Errors
    /// If the device cannot be read.
    pub fn turn(&mut self, recorder: &mut Recorder) -> Result<Taken, InputError> {
        for _ in 0..TURN_MAX {
            let length = match rustix::io::read(&self.file, &mut self.buffer) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(Taken::All),
                Ok(length) => length,
                // Overwritten while it was read: the next one shows by its number how many are missing.
                Err(Errno::PIPE | Errno::INTR | Errno::INVAL) => continue,
                Err(error) => return Err(failed("read", error.into())),
            };
            match parse_kmsg(&self.buffer[..length]) {
                Some(record) => take(&record, &mut self.fields, &self.root, recorder),
                None => recorder.counters.refused += 1,
            }
        }
        Ok(Taken::Some)
    }
}

fn failed(operation: &'static str, source: std::io::Error) -> InputError {
    InputError {
        operation,
        source_name: "the kernel's messages",
        source,
    }
}

/// Records one record, if it is new.
fn take(record: &KernelRecord<'_>, fields: &mut Fields, root: &Path, recorder: &mut Recorder) {
    // The mark is the number of the next record; 0 before the first.
    let next = recorder.ledger.mark(Mark::Kernel);
    if record.sequence < next {
        return;
    }
    let missed = record.sequence - next;
    if next > 0 && missed > 0 {
        recorder.counters.lost_by_kernel += missed;
        let message = format!("Missed {missed} kernel messages");
        let count = missed.to_string();
        let more = [
            ("MESSAGE_ID", MESSAGE_MISSED),
            ("N_DROPPED", count.as_str()),
        ];
        recorder.say(Level::WARNING, &message, &more);
    }
    let progress = Some(Progress::Mark(Mark::Kernel, record.sequence + 1));
    let is_kernel = record.priority.facility == 0;
    let identifier = record.identifier.as_deref().unwrap_or_default();
    if !is_kernel
        && recorder
            .forwarder
            .is_own_record(identifier, record.pid, &record.message)
    {
        return recorder.skip(progress);
    }
    fields.clear();
    fields.push("MESSAGE", &record.message);
    fields.push("PRIORITY", record.priority.level.digit());
    fields.push_number("SYSLOG_FACILITY", u64::from(record.priority.facility));
    if is_kernel {
        fields.push("SYSLOG_IDENTIFIER", "kernel");
    } else {
        fields.push_some("SYSLOG_IDENTIFIER", record.identifier.as_deref());
        fields.push_some("SYSLOG_PID", record.pid);
    }
    fields.push("_TRANSPORT", "kernel");
    fields.push_number("_SOURCE_MONOTONIC_TIMESTAMP", record.monotonic_us);
    fields.push_some("_KERNEL_SUBSYSTEM", record.subsystem.as_deref());
    if let Some(device) = &record.device {
        fields.push("_KERNEL_DEVICE", device);
        device_fields(fields, root, device);
    }
    recorder.record(&Item {
        progress,
        level: record.priority.level,
        fields,
        sender: None,
        unit: None,
        routing: Routing::USUAL,
        speaker: Speaker::Kernel,
    });
}

impl AsFd for KernelSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
