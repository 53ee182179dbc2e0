//! What timers need from the machine: stamps on disk, the calendar, and word that a clock or the time zone changed.
//!
//! The engine decides when a timer fires; here is what it asks for. [`next_elapses`] answers with the moments of a unit's
//! calendar lines, [`StampFolder`] keeps when persistent timers last fired, [`ClockWatch`] is a descriptor that tells when
//! somebody sets the clock. The time zone is a file, [`ZONE_FILE`], which
//! [`PathWatches::watch_changes`](crate::paths::PathWatches::watch_changes) watches and [`local_zone`] reads.

mod clock;
mod stamp;
#[cfg(test)]
mod tests;

use std::path::Path;

use jiff::Timestamp;
use muster_unit_file::config::{TimerConfig, TimerSpec};

// Zones are part of this module's interface.
pub use jiff::tz::TimeZone;

pub use clock::{ClockWatch, WatchClockError};
pub use stamp::{StampError, StampFolder};

/// Where the local time zone is told.
pub const ZONE_FILE: &str = "/etc/localtime";

/// Zone files have a few kilobytes.
const MAX_ZONE_FILE: u64 = 1 << 20;

/// The next moment of each calendar line of a timer strictly after `after`, in the order of the lines and in microseconds
/// since 1970; `None` for never.
#[must_use]
pub fn next_elapses(config: &TimerConfig, after: i64, zone: &TimeZone) -> Vec<Option<i64>> {
    let after = Timestamp::from_microsecond(after).ok();
    let calendars = config.timers.iter().filter_map(|timer| match timer {
        TimerSpec::Calendar(calendar) => Some(calendar),
        TimerSpec::Monotonic { .. } => None,
    });
    calendars
        .map(|calendar| {
            let next = calendar.next_elapse(after?, zone)?;
            Some(next.as_microsecond())
        })
        .collect()
}

/// The local time zone as its file has it now; UTC if there is none.
#[must_use]
pub fn local_zone(file: &Path) -> TimeZone {
    // The name is told by where the link points, below a folder named after the database.
    let target = std::fs::read_link(file).ok();
    let name = target.as_deref().and_then(Path::to_str).and_then(|target| {
        let (_, name) = target.split_once("zoneinfo/")?;
        Some(name.to_owned())
    });
    crate::files::read_bytes(file, MAX_ZONE_FILE)
        .ok()
        .and_then(|bytes| TimeZone::tzif(name.as_deref().unwrap_or("Local"), &bytes).ok())
        .unwrap_or(TimeZone::UTC)
}
