//! Points and spans of time that fit on the wire.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::error::{ConvertError, Excerpt, InvalidValue, Problem};

/// A point in time, to the nanosecond, from year 1 to year 9999.
///
/// Displays as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    nanos: i32,
}

impl Timestamp {
    /// 0001-01-01T00:00:00Z.
    const MIN_SECONDS: i64 = -62_135_596_800;
    /// 9999-12-31T23:59:59Z.
    const MAX_SECONDS: i64 = 253_402_300_799;

    fn new(seconds: i64, nanos: i32) -> Result<Self, InvalidValue> {
        let in_range = (Self::MIN_SECONDS..=Self::MAX_SECONDS).contains(&seconds)
            && (0..1_000_000_000).contains(&nanos);
        if in_range {
            return Ok(Self { seconds, nanos });
        }
        let problem = Problem::OutOfRange {
            value: Excerpt::number(format_args!("{seconds} s {nanos} ns")),
            expected: "in the years 1 to 9999 with 0 to 999999999 ns",
        };
        Err(InvalidValue::new("timestamp", problem))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prost_types::Timestamp::from(*self).fmt(f)
    }
}

impl TryFrom<SystemTime> for Timestamp {
    type Error = InvalidValue;

    fn try_from(time: SystemTime) -> Result<Self, InvalidValue> {
        let out_of_range = || Self::new(i64::MAX, 0);
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => match i64::try_from(after.as_secs()) {
                Ok(seconds) => Self::new(seconds, after.subsec_nanos().cast_signed()),
                Err(_) => out_of_range(),
            },
            // Nanoseconds always count forward, so a time before the epoch borrows a second.
            Err(error) => match (i64::try_from(error.duration().as_secs()), error.duration()) {
                (Ok(seconds), before) if before.subsec_nanos() == 0 => Self::new(-seconds, 0),
                (Ok(seconds), before) => Self::new(
                    -seconds - 1,
                    1_000_000_000 - before.subsec_nanos().cast_signed(),
                ),
                (Err(_), _) => out_of_range(),
            },
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> SystemTime {
        let seconds = Duration::from_secs(timestamp.seconds.unsigned_abs());
        let nanos = Duration::from_nanos(u64::from(timestamp.nanos.unsigned_abs()));
        if timestamp.seconds < 0 {
            SystemTime::UNIX_EPOCH - seconds + nanos
        } else {
            SystemTime::UNIX_EPOCH + seconds + nanos
        }
    }
}

impl TryFrom<prost_types::Timestamp> for Timestamp {
    type Error = ConvertError;

    fn try_from(wire: prost_types::Timestamp) -> Result<Self, ConvertError> {
        Self::new(wire.seconds, wire.nanos).map_err(|error| error.at("Timestamp", "seconds"))
    }
}

impl From<Timestamp> for prost_types::Timestamp {
    fn from(timestamp: Timestamp) -> Self {
        Self {
            seconds: timestamp.seconds,
            nanos: timestamp.nanos,
        }
    }
}

/// A span of time: not negative, to the nanosecond, at most 315 576 000 000 s (10 000 years).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Interval {
    seconds: i64,
    nanos: i32,
}

impl Interval {
    const MAX_SECONDS: i64 = 315_576_000_000;

    fn new(seconds: i64, nanos: i32) -> Result<Self, InvalidValue> {
        let in_range =
            (0..=Self::MAX_SECONDS).contains(&seconds) && (0..1_000_000_000).contains(&nanos);
        if in_range {
            return Ok(Self { seconds, nanos });
        }
        let problem = Problem::OutOfRange {
            value: Excerpt::number(format_args!("{seconds} s {nanos} ns")),
            expected: "between 0 and 315576000000 s with 0 to 999999999 ns",
        };
        Err(InvalidValue::new("interval", problem))
    }
}

impl TryFrom<Duration> for Interval {
    type Error = InvalidValue;

    fn try_from(duration: Duration) -> Result<Self, InvalidValue> {
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        Self::new(seconds, duration.subsec_nanos().cast_signed())
    }
}

impl From<Interval> for Duration {
    fn from(interval: Interval) -> Duration {
        Duration::new(
            interval.seconds.unsigned_abs(),
            interval.nanos.unsigned_abs(),
        )
    }
}

impl TryFrom<prost_types::Duration> for Interval {
    type Error = ConvertError;

    fn try_from(wire: prost_types::Duration) -> Result<Self, ConvertError> {
        Self::new(wire.seconds, wire.nanos).map_err(|error| error.at("Duration", "seconds"))
    }
}

impl From<Interval> for prost_types::Duration {
    fn from(interval: Interval) -> Self {
        Self {
            seconds: interval.seconds,
            nanos: interval.nanos,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{interval, round_trip, timestamp};

    #[test]
    fn the_wire_range_is_exact() {
        let accepts =
            |seconds, nanos| Timestamp::try_from(prost_types::Timestamp { seconds, nanos }).is_ok();
        assert!(accepts(-62_135_596_800, 0) && accepts(253_402_300_799, 999_999_999));
        assert!(!accepts(-62_135_596_801, 999_999_999) && !accepts(253_402_300_800, 0));
        assert!(!accepts(0, -1) && !accepts(0, 1_000_000_000));
        assert!(!accepts(i64::MIN, i32::MIN) && !accepts(i64::MAX, i32::MAX));
        let accepts =
            |seconds, nanos| Interval::try_from(prost_types::Duration { seconds, nanos }).is_ok();
        assert!(accepts(0, 0) && accepts(315_576_000_000, 999_999_999));
        assert!(!accepts(-1, 0) && !accepts(0, -1) && !accepts(315_576_000_001, 0));
        assert!(Interval::try_from(Duration::MAX).is_err());
    }

    #[test]
    fn displays_as_utc() {
        let wire = prost_types::Timestamp {
            seconds: 86_400,
            nanos: 5_000_000,
        };
        let timestamp = Timestamp::try_from(wire).unwrap();
        assert_eq!(timestamp.to_string(), "1970-01-02T00:00:00.005Z");
    }

    proptest! {
        #[test]
        fn timestamps_survive_the_wire_and_the_system_clock(timestamp in timestamp()) {
            round_trip::<prost_types::Timestamp, _>(&timestamp)?;
            prop_assert_eq!(Timestamp::try_from(SystemTime::from(timestamp)), Ok(timestamp));
        }

        #[test]
        fn intervals_survive_the_wire_and_duration(interval in interval()) {
            round_trip::<prost_types::Duration, _>(&interval)?;
            prop_assert_eq!(Interval::try_from(Duration::from(interval)), Ok(interval));
        }
    }
}
