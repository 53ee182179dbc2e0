//! Moments and durations on the wire.

use std::time::Duration;

use prost_types::Timestamp;

/// A moment, given in milliseconds since 1970.
#[must_use]
pub fn timestamp(millis: u64) -> Timestamp {
    let nanos = u32::try_from(millis % 1000).unwrap_or(0) * 1_000_000;
    Timestamp {
        seconds: i64::try_from(millis / 1000).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos).unwrap_or(0),
    }
}

/// Milliseconds since 1970; what was before that is 1970.
#[must_use]
pub fn millis(at: &Timestamp) -> u64 {
    let seconds = u64::try_from(at.seconds).unwrap_or(0);
    let nanos = u64::try_from(at.nanos).unwrap_or(0);
    seconds
        .saturating_mul(1000)
        .saturating_add(nanos / 1_000_000)
}

/// A duration.
#[must_use]
pub fn duration(time: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(time.subsec_nanos()).unwrap_or(0),
    }
}

/// A duration that is not negative.
///
/// # Errors
/// It is negative.
pub fn length(time: &prost_types::Duration) -> Result<Duration, NegativeDuration> {
    let seconds = u64::try_from(time.seconds).map_err(|_| NegativeDuration)?;
    let nanos = u32::try_from(time.nanos).map_err(|_| NegativeDuration)?;
    Ok(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into())))
}

/// A duration that ends before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a duration must not be negative")]
pub struct NegativeDuration;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_durations_read_back() {
        for at in [0, 999, 1_000, 1_700_000_000_123] {
            assert_eq!(millis(&timestamp(at)), at);
        }
        let before = Timestamp {
            seconds: -5,
            nanos: 0,
        };
        assert_eq!(millis(&before), 0);
        for time in [Duration::ZERO, Duration::from_millis(1500)] {
            assert_eq!(length(&duration(time)), Ok(time));
        }
        let negative = prost_types::Duration {
            seconds: -1,
            nanos: 0,
        };
        assert_eq!(length(&negative), Err(NegativeDuration));
    }
}
