//! The search for the next moment an expression names.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::{CalendarSpec, Chain, Zone};

const MICROS: i64 = 1_000_000;
const LAST_YEAR: i64 = 2199;
/// Field changes tried before an expression counts as one that never elapses.
const MAX_STEPS: usize = 1000;

/// A civil moment whose fields may be out of their ranges until [`Civil::normalized`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    micros: i64,
}

/// How a civil moment relates to what the clock on the wall really shows.
enum Bounds {
    Exact,
    /// It does not exist; the wall clock shows a later one.
    Later,
    /// Past the last year, or the wall clock would go backwards.
    Outside,
}

impl CalendarSpec {
    /// The first moment strictly after `after`, or `None` if there is none before the year 2200.
    /// `local` is the zone of expressions that name none.
    #[must_use]
    pub fn next_elapse(&self, after: Timestamp, local: &TimeZone) -> Option<Timestamp> {
        let zone = match &self.zone {
            Zone::Local => local,
            Zone::Utc => &TimeZone::UTC,
            Zone::Named { zone, .. } => zone,
        };
        let floor = Timestamp::from_microsecond(after.as_microsecond().checked_add(1)?).ok()?;
        let start = Civil::from_datetime(zone.to_datetime(floor));
        let civil = self.find(start, zone)?;
        let found = zone.to_ambiguous_timestamp(civil.to_datetime()?);
        let early = found.compatible().ok()?;
        // In the hour that a clock shows twice, the first reading may already be over.
        if early > after {
            Some(early)
        } else {
            found.later().ok().filter(|late| *late > after)
        }
    }

    fn find(&self, start: Civil, zone: &TimeZone) -> Option<Civil> {
        let mut c = start;
        for _ in 0..MAX_STEPS {
            c = c.normalized(zone)?;

            let changed = matching(&self.year, c.year)?;
            if changed != c.year {
                c = Civil {
                    year: changed,
                    month: 1,
                    day: 1,
                    hour: 0,
                    minute: 0,
                    micros: 0,
                };
            }
            if !matches!(c.bounds(zone), Bounds::Exact) {
                return None;
            }

            let month = matching(&self.month, c.month);
            if let Some(month) = month.filter(|month| *month != c.month) {
                c = Civil {
                    month,
                    day: 1,
                    hour: 0,
                    minute: 0,
                    micros: 0,
                    ..c
                };
            }
            match month.map_or(Bounds::Outside, |_| c.bounds(zone)) {
                Bounds::Exact => {}
                Bounds::Later => continue,
                Bounds::Outside => {
                    c = Civil {
                        year: c.year + 1,
                        month: 1,
                        day: 1,
                        hour: 0,
                        minute: 0,
                        micros: 0,
                    };
                    continue;
                }
            }

            let day = self.matching_day(c);
            if let Some(day) = day.filter(|day| *day != c.day) {
                c = Civil {
                    day,
                    hour: 0,
                    minute: 0,
                    micros: 0,
                    ..c
                };
            }
            match day.map_or(Bounds::Outside, |_| c.bounds(zone)) {
                Bounds::Exact => {}
                Bounds::Later => continue,
                Bounds::Outside => {
                    c = Civil {
                        month: c.month + 1,
                        day: 1,
                        hour: 0,
                        minute: 0,
                        micros: 0,
                        ..c
                    };
                    continue;
                }
            }

            if !self.matches_weekday(c) {
                c = Civil {
                    day: c.day + 1,
                    hour: 0,
                    minute: 0,
                    micros: 0,
                    ..c
                };
                continue;
            }

            let hour = matching(&self.hour, c.hour);
            if let Some(hour) = hour.filter(|hour| *hour != c.hour) {
                c = Civil {
                    hour,
                    minute: 0,
                    micros: 0,
                    ..c
                };
            }
            match hour.map_or(Bounds::Outside, |_| c.bounds(zone)) {
                Bounds::Exact => {}
                Bounds::Later => continue,
                Bounds::Outside => {
                    c = Civil {
                        day: c.day + 1,
                        hour: 0,
                        minute: 0,
                        micros: 0,
                        ..c
                    };
                    continue;
                }
            }

            let minute = matching(&self.minute, c.minute);
            if let Some(minute) = minute.filter(|minute| *minute != c.minute) {
                c = Civil {
                    minute,
                    micros: 0,
                    ..c
                };
            }
            match minute.map_or(Bounds::Outside, |_| c.bounds(zone)) {
                Bounds::Exact => {}
                Bounds::Later => continue,
                Bounds::Outside => {
                    c = Civil {
                        hour: c.hour + 1,
                        minute: 0,
                        micros: 0,
                        ..c
                    };
                    continue;
                }
            }

            let micros = matching(&self.second, c.micros);
            if let Some(micros) = micros {
                c.micros = micros;
            }
            match micros.map_or(Bounds::Outside, |_| c.bounds(zone)) {
                Bounds::Exact => return Some(c),
                Bounds::Later => {}
                Bounds::Outside => {
                    c = Civil {
                        minute: c.minute + 1,
                        micros: 0,
                        ..c
                    }
                }
            }
        }
        None
    }

    fn matching_day(&self, c: Civil) -> Option<i64> {
        if !self.end_of_month {
            return matching(&self.day, c.day);
        }
        let length = days_in_month(c)?;
        let from_end = |n: i64| Some(length + 1 - n).filter(|day| (1..=length).contains(day));
        let alternatives = self.day.iter().flatten().filter_map(|component| {
            let start = from_end(component.start)?;
            // Counted backwards the two ends of a range change places.
            let (start, stop) = match component.stop.map(from_end) {
                Some(Some(stop)) => (stop.min(start), Some(start.max(stop))),
                _ => (start, None),
            };
            first_at_or_after(c.day, start, stop, component.repeat)
        });
        alternatives.min()
    }

    fn matches_weekday(&self, c: Civil) -> bool {
        let Some(days) = self.weekdays else {
            return true;
        };
        c.to_datetime().is_some_and(|civil| {
            let day = civil.weekday().to_monday_zero_offset();
            days & (1u8 << day) != 0
        })
    }
}

fn matching(chain: &Chain, value: i64) -> Option<i64> {
    let Some(components) = chain else {
        return Some(value);
    };
    components
        .iter()
        .filter_map(|c| first_at_or_after(value, c.start, c.stop, c.repeat))
        .min()
}

fn first_at_or_after(value: i64, start: i64, stop: Option<i64>, repeat: i64) -> Option<i64> {
    if start >= value {
        return Some(start);
    }
    if repeat == 0 {
        return None;
    }
    let steps = (value - start + repeat - 1) / repeat;
    let candidate = start + steps * repeat;
    stop.is_none_or(|stop| candidate <= stop)
        .then_some(candidate)
}

fn days_in_month(c: Civil) -> Option<i64> {
    let date = Date::new(i16::try_from(c.year).ok()?, i8::try_from(c.month).ok()?, 1).ok()?;
    Some(i64::from(date.days_in_month()))
}

impl Civil {
    fn from_datetime(civil: DateTime) -> Self {
        Self {
            year: civil.year().into(),
            month: civil.month().into(),
            day: civil.day().into(),
            hour: civil.hour().into(),
            minute: civil.minute().into(),
            micros: i64::from(civil.second()) * MICROS
                + i64::from(civil.subsec_nanosecond()) / 1000,
        }
    }

    /// The same moment with overflowing fields carried upwards, without a zone.
    fn to_datetime(self) -> Option<DateTime> {
        let months = self.year.checked_mul(12)?.checked_add(self.month - 1)?;
        let year = i16::try_from(months.div_euclid(12)).ok()?;
        let month = i8::try_from(months.rem_euclid(12) + 1).ok()?;
        let first = Date::new(year, month, 1)
            .ok()?
            .to_datetime(jiff::civil::Time::midnight());
        let days = jiff::Span::new().try_days(self.day - 1).ok()?;
        let seconds = self.hour * 3600 + self.minute * 60;
        let time = jiff::SignedDuration::from_secs(seconds)
            .checked_add(jiff::SignedDuration::from_micros(self.micros))?;
        first.checked_add(days).ok()?.checked_add(time).ok()
    }

    /// What a clock in `zone` shows at this moment: an hour that the zone skips is carried over.
    fn normalized(self, zone: &TimeZone) -> Option<Self> {
        let moment = zone
            .to_ambiguous_timestamp(self.to_datetime()?)
            .compatible()
            .ok()?;
        Some(Self::from_datetime(zone.to_datetime(moment)))
    }

    fn bounds(self, zone: &TimeZone) -> Bounds {
        if self.year > LAST_YEAR {
            return Bounds::Outside;
        }
        match self.normalized(zone) {
            Some(shown) if shown == self => Bounds::Exact,
            Some(shown) if shown > self => Bounds::Later,
            _ => Bounds::Outside,
        }
    }
}
