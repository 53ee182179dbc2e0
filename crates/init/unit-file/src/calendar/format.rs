//! [`CalendarSpec`] to systemd's normal form.

use std::fmt;

use super::{CalendarSpec, Chain, Zone};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MICROS: i64 = 1_000_000;

impl fmt::Display for CalendarSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(days) = self.weekdays {
            format_weekdays(f, days)?;
            f.write_str(" ")?;
        }
        format_chain(f, &self.year, 4, 1)?;
        f.write_str("-")?;
        format_chain(f, &self.month, 2, 1)?;
        f.write_str(if self.end_of_month { "~" } else { "-" })?;
        format_chain(f, &self.day, 2, 1)?;
        f.write_str(" ")?;
        format_chain(f, &self.hour, 2, 1)?;
        f.write_str(":")?;
        format_chain(f, &self.minute, 2, 1)?;
        f.write_str(":")?;
        format_chain(f, &self.second, 2, MICROS)?;
        match &self.zone {
            Zone::Local => Ok(()),
            Zone::Utc => f.write_str(" UTC"),
            Zone::Named { name, .. } => write!(f, " {name}"),
        }
    }
}

/// Runs of three and more become ranges, runs of two a pair.
fn format_weekdays(f: &mut fmt::Formatter<'_>, days: u8) -> fmt::Result {
    let set = |day: usize| day < 7 && days & (1 << day) != 0;
    let mut separator = "";
    let mut day = 0;
    while day < 7 {
        if !set(day) {
            day += 1;
            continue;
        }
        let mut last = day;
        while set(last + 1) {
            last += 1;
        }
        write!(f, "{separator}{}", DAYS[day])?;
        match last - day {
            0 => {}
            1 => write!(f, ",{}", DAYS[last])?,
            _ => write!(f, "..{}", DAYS[last])?,
        }
        separator = ",";
        day = last + 1;
    }
    Ok(())
}

fn format_chain(
    f: &mut fmt::Formatter<'_>,
    chain: &Chain,
    width: usize,
    scale: i64,
) -> fmt::Result {
    let Some(components) = chain else {
        return f.write_str("*");
    };
    if let [only] = components.as_ref()
        && scale != 1
        && only.start == 0
        && only.stop.is_none()
        && only.repeat == MICROS
    {
        return f.write_str("*");
    }
    for (n, component) in components.iter().enumerate() {
        if n > 0 {
            f.write_str(",")?;
        }
        format_number(f, component.start, width, scale)?;
        if let Some(stop) = component.stop {
            f.write_str("..")?;
            format_number(f, stop, width, scale)?;
        }
        let plain_range = component.stop.is_some() && component.repeat == scale;
        if component.repeat > 0 && !plain_range {
            f.write_str("/")?;
            format_number(f, component.repeat, 0, scale)?;
        }
    }
    Ok(())
}

fn format_number(f: &mut fmt::Formatter<'_>, value: i64, width: usize, scale: i64) -> fmt::Result {
    write!(f, "{:0width$}", value / scale)?;
    if value % scale > 0 {
        write!(f, ".{:06}", value % scale)?;
    }
    Ok(())
}
