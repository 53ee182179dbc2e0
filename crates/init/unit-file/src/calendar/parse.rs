//! Text to [`CalendarSpec`].

use jiff::tz::TimeZone;

use super::{CalendarError, CalendarSpec, Chain, Component, Zone};

const MICROS: i64 = 1_000_000;
/// Alternatives per field; more than any calendar field has values.
const MAX_ALTERNATIVES: usize = 240;
const ALL_WEEKDAYS: u8 = 0x7f;
const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

impl CalendarSpec {
    /// Parses and normalises an expression.
    ///
    /// # Errors
    /// The text is not a calendar event expression of systemd 252.
    pub fn parse(text: &str) -> Result<Self, CalendarError> {
        let (text, zone) = split_zone(text);
        if text.is_empty() {
            return Err(CalendarError::Empty);
        }
        let mut spec = match shorthand(text) {
            Some(spec) => spec,
            None => parse_fields(text)?,
        };
        if zone != Zone::Local {
            spec.zone = zone;
        }
        spec.normalize();
        spec.validate()?;
        Ok(spec)
    }

    fn every() -> Self {
        Self {
            weekdays: None,
            end_of_month: false,
            zone: Zone::Local,
            year: None,
            month: None,
            day: None,
            hour: None,
            minute: None,
            second: None,
        }
    }

    fn normalize(&mut self) {
        if matches!(self.weekdays, Some(0 | ALL_WEEKDAYS)) {
            self.weekdays = None;
        }
        self.end_of_month &= self.day.is_some();
        for component in self.year.iter_mut().flatten() {
            component.start = full_year(component.start);
            component.stop = component.stop.map(full_year);
        }
        let fields = [
            &mut self.year,
            &mut self.month,
            &mut self.day,
            &mut self.hour,
            &mut self.minute,
            &mut self.second,
        ];
        for chain in fields {
            normalize_chain(chain);
        }
    }

    fn validate(&self) -> Result<(), CalendarError> {
        let fields = [
            ("year", &self.year, 1970, 2199),
            ("month", &self.month, 1, 12),
            ("day", &self.day, 1, 31),
            ("hour", &self.hour, 0, 23),
            ("minute", &self.minute, 0, 59),
            ("second", &self.second, 0, 60 * MICROS - 1),
        ];
        for (field, chain, from, to) in fields {
            let backwards = self.end_of_month && field == "day";
            if !chain.iter().flatten().all(|c| c.fits(from, to, backwards)) {
                return Err(CalendarError::OutOfRange { field });
            }
        }
        Ok(())
    }
}

impl Component {
    fn fits(self, from: i64, to: i64, backwards: bool) -> bool {
        if self.start < from || self.start > to || self.repeat > to - from {
            return false;
        }
        match self.stop {
            Some(stop) => stop >= from && stop <= to && self.start + self.repeat <= stop,
            None if backwards => self.start - self.repeat >= from,
            None => self.start + self.repeat <= to,
        }
    }
}

fn full_year(year: i64) -> i64 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        _ => year,
    }
}

fn normalize_chain(chain: &mut Chain) {
    let Some(components) = chain else { return };
    let mut list = std::mem::take(components).into_vec();
    for c in &mut list {
        if let Some(stop) = c.stop.as_mut()
            && *stop > c.start
            && c.repeat > 0
        {
            *stop -= (*stop - c.start) % c.repeat;
        }
        let never_repeats = c.repeat > 0 && c.stop.is_some_and(|stop| c.start + c.repeat > stop);
        if never_repeats || c.stop == Some(c.start) {
            c.repeat = 0;
            c.stop = None;
        }
    }
    // An absent stop sorts before every present one, as systemd's -1 does.
    list.sort_unstable();
    list.dedup();
    *components = list.into_boxed_slice();
}

/// Takes a trailing time zone off. Only names of the zone database count, in their own spelling.
fn split_zone(text: &str) -> (&str, Zone) {
    let Some((rest, name)) = text.rsplit_once(' ') else {
        return (text, Zone::Local);
    };
    if name.eq_ignore_ascii_case("UTC") {
        return (rest, Zone::Utc);
    }
    let plausible = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"/_+-".contains(&b));
    if !plausible {
        return (text, Zone::Local);
    }
    match TimeZone::get(name) {
        Ok(zone) if zone.iana_name() == Some(name) => (
            rest,
            Zone::Named {
                name: name.into(),
                zone,
            },
        ),
        _ => (text, Zone::Local),
    }
}

fn fixed(values: &[i64]) -> Chain {
    let components = values.iter().map(|&start| Component {
        start,
        stop: None,
        repeat: 0,
    });
    Some(components.collect())
}

fn shorthand(text: &str) -> Option<CalendarSpec> {
    let every = CalendarSpec::every();
    let minutely = CalendarSpec {
        second: fixed(&[0]),
        ..every
    };
    let hourly = CalendarSpec {
        minute: fixed(&[0]),
        ..minutely.clone()
    };
    let daily = CalendarSpec {
        hour: fixed(&[0]),
        ..hourly.clone()
    };
    let monthly = CalendarSpec {
        day: fixed(&[1]),
        ..daily.clone()
    };
    let months = |list: &[i64]| CalendarSpec {
        month: fixed(list),
        ..monthly.clone()
    };
    Some(match text.to_ascii_lowercase().as_str() {
        "minutely" => minutely,
        "hourly" => hourly,
        "daily" => daily,
        "weekly" => CalendarSpec {
            weekdays: Some(1),
            ..daily
        },
        "monthly" => monthly,
        "annually" | "yearly" | "anually" => months(&[1]),
        "quarterly" => months(&[1, 4, 7, 10]),
        "biannually" | "bi-annually" | "semiannually" | "semi-annually" => months(&[1, 7]),
        _ => return None,
    })
}

fn parse_fields(text: &str) -> Result<CalendarSpec, CalendarError> {
    let mut spec = CalendarSpec::every();
    let rest = parse_weekdays(text, &mut spec)?;
    if let Some(seconds) = rest.strip_prefix('@') {
        set_epoch(seconds, &mut spec)?;
        return Ok(spec);
    }
    let rest = parse_date(rest, &mut spec)?;
    parse_time(rest, &mut spec)?;
    Ok(spec)
}

fn parse_weekdays<'t>(text: &'t str, spec: &mut CalendarSpec) -> Result<&'t str, CalendarError> {
    let mut rest = text;
    let mut days = 0u8;
    let mut range_from: Option<usize> = None;
    let mut first = true;
    let bad = |rest: &str| CalendarError::Weekday { rest: rest.into() };
    loop {
        let Some((day, length)) = weekday_prefix(rest) else {
            return if first { Ok(rest) } else { Err(bad(rest)) };
        };
        let after = &rest[length..];
        if !after.is_empty() && !after.starts_with(['-', '.', ',', ' ']) {
            return Err(bad(rest));
        }
        let from = range_from.unwrap_or(day);
        if from > day {
            return Err(bad(rest));
        }
        for bit in from..=day {
            days |= 1 << bit;
        }
        spec.weekdays = Some(days);
        rest = after;
        if rest.is_empty() || rest.starts_with(' ') {
            return Ok(rest.trim_start_matches(' '));
        }
        if let Some(after) = rest.strip_prefix(',') {
            range_from = None;
            rest = after;
        } else {
            // A dash is the older way to write a range.
            let after = rest.strip_prefix("..").or_else(|| rest.strip_prefix('-'));
            match after {
                Some(after) if range_from.is_none() => {
                    range_from = Some(day);
                    rest = after;
                }
                _ => return Err(bad(rest)),
            }
        }
        if rest.is_empty() || rest.starts_with(' ') {
            // A trailing comma is accepted, an open range is not.
            return match range_from {
                None => Ok(rest.trim_start_matches(' ')),
                Some(_) => Err(bad(rest)),
            };
        }
        first = false;
    }
}

fn weekday_prefix(text: &str) -> Option<(usize, usize)> {
    let matches = |name: &str| {
        text.get(..name.len())
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case(name))
    };
    WEEKDAYS.iter().enumerate().find_map(|(day, name)| {
        let length = if matches(name) { name.len() } else { 3 };
        matches(&name[..length]).then_some((day, length))
    })
}

/// `@1700000000`: one moment, in UTC.
fn set_epoch(seconds: &str, spec: &mut CalendarSpec) -> Result<(), CalendarError> {
    let bad = || CalendarError::Field {
        rest: seconds.into(),
    };
    if !seconds.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(bad());
    }
    let moment = seconds
        .parse::<i64>()
        .ok()
        .and_then(|secs| jiff::Timestamp::from_second(secs).ok())
        .ok_or_else(bad)?;
    let civil = TimeZone::UTC.to_datetime(moment);
    spec.zone = Zone::Utc;
    spec.year = fixed(&[i64::from(civil.year())]);
    spec.month = fixed(&[i64::from(civil.month())]);
    spec.day = fixed(&[i64::from(civil.day())]);
    spec.hour = fixed(&[i64::from(civil.hour())]);
    spec.minute = fixed(&[i64::from(civil.minute())]);
    spec.second = fixed(&[i64::from(civil.second()) * MICROS]);
    Ok(())
}

fn parse_date<'t>(text: &'t str, spec: &mut CalendarSpec) -> Result<&'t str, CalendarError> {
    if text.is_empty() {
        return Ok(text);
    }
    let (first, rest) = parse_chain(text, 1)?;
    // The end or a colon: this was a time, not a date.
    if rest.is_empty() || rest.starts_with(':') {
        return Ok(text);
    }
    let (second, rest) = parse_after_dash(rest, spec)?;
    if rest.is_empty() || rest.starts_with(' ') {
        spec.month = first;
        spec.day = second;
        return Ok(rest.trim_start_matches(' '));
    }
    if spec.end_of_month {
        return Err(CalendarError::Field { rest: rest.into() });
    }
    let (third, rest) = parse_after_dash(rest, spec)?;
    if !rest.is_empty() && !rest.starts_with(' ') {
        return Err(CalendarError::Field { rest: rest.into() });
    }
    spec.year = first;
    spec.month = second;
    spec.day = third;
    Ok(rest.trim_start_matches(' '))
}

fn parse_after_dash<'t>(
    text: &'t str,
    spec: &mut CalendarSpec,
) -> Result<(Chain, &'t str), CalendarError> {
    if let Some(rest) = text.strip_prefix('~') {
        spec.end_of_month = true;
        parse_chain(rest, 1)
    } else if let Some(rest) = text.strip_prefix('-') {
        parse_chain(rest, 1)
    } else {
        Err(CalendarError::Field { rest: text.into() })
    }
}

fn parse_time(text: &str, spec: &mut CalendarSpec) -> Result<(), CalendarError> {
    if text.is_empty() {
        spec.hour = fixed(&[0]);
        spec.minute = fixed(&[0]);
        spec.second = fixed(&[0]);
        return Ok(());
    }
    let bad = |rest: &str| CalendarError::Field { rest: rest.into() };
    let (hour, rest) = parse_chain(text, 1)?;
    let (minute, rest) = parse_chain(rest.strip_prefix(':').ok_or_else(|| bad(rest))?, 1)?;
    spec.hour = hour;
    spec.minute = minute;
    if rest.is_empty() {
        spec.second = fixed(&[0]);
        return Ok(());
    }
    let (second, rest) = parse_chain(rest.strip_prefix(':').ok_or_else(|| bad(rest))?, MICROS)?;
    spec.second = second;
    if rest.is_empty() {
        Ok(())
    } else {
        Err(bad(rest))
    }
}

/// Comma-separated components; `scale` is a million for seconds, which may have fractions.
fn parse_chain(text: &str, scale: i64) -> Result<(Chain, &str), CalendarError> {
    if let Some(rest) = text.strip_prefix('*') {
        let every_second = Component {
            start: 0,
            stop: None,
            repeat: MICROS,
        };
        let chain = (scale != 1).then(|| vec![every_second].into_boxed_slice());
        return Ok((chain, rest));
    }
    let mut components = Vec::new();
    let mut rest = text;
    loop {
        let (component, after) = parse_component(rest, scale)?;
        components.push(component);
        if components.len() > MAX_ALTERNATIVES {
            return Err(CalendarError::TooManyAlternatives);
        }
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Ok((Some(components.into_boxed_slice()), after)),
        }
    }
}

fn parse_component(text: &str, scale: i64) -> Result<(Component, &str), CalendarError> {
    let (start, mut rest) = parse_number(text, scale)?;
    let mut component = Component {
        start,
        stop: None,
        repeat: 0,
    };
    if let Some(after) = rest.strip_prefix("..") {
        let (stop, after) = parse_number(after, scale)?;
        if stop < start {
            return Err(CalendarError::Field { rest: rest.into() });
        }
        component.stop = Some(stop);
        component.repeat = scale;
        rest = after;
    }
    if let Some(after) = rest.strip_prefix('/') {
        let (repeat, after) = parse_number(after, scale)?;
        if repeat == 0 {
            return Err(CalendarError::Field { rest: rest.into() });
        }
        component.repeat = repeat;
        rest = after;
    }
    if rest.is_empty() || rest.starts_with([' ', ',', '-', '~', ':']) {
        Ok((component, rest))
    } else {
        Err(CalendarError::Field { rest: rest.into() })
    }
}

fn parse_number(text: &str, scale: i64) -> Result<(i64, &str), CalendarError> {
    let bad = || CalendarError::Field { rest: text.into() };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = i64::from(text[..digits].parse::<i32>().map_err(|_| bad())?);
    let mut value = whole * scale;
    let mut rest = &text[digits..];
    // One dot is a decimal point, two are a range.
    if scale != 1 && rest.starts_with('.') && !rest.starts_with("..") {
        let fraction = &rest[1..];
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return Err(bad());
        }
        value += round_micros(fraction.as_bytes(), length);
        rest = &fraction[length..];
    }
    Ok((value, rest))
}

/// Six digits of a fraction, rounded by the seventh.
fn round_micros(digits: &[u8], length: usize) -> i64 {
    let digit = |n: usize| {
        if n < length {
            i64::from(digits[n] - b'0')
        } else {
            0
        }
    };
    let micros = (0..6).fold(0, |value, n| value * 10 + digit(n));
    micros + i64::from(digit(6) >= 5)
}
