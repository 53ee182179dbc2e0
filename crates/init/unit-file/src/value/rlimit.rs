//! Resource limits of processes.

use super::number::{parse_integer, parse_size};
use super::{ValueError, word_enum};
use crate::timespan::TimeSpan;

word_enum! {
    /// Which resource.
    Resource, "resource",
    Cpu = "CPU", Fsize = "FSIZE", Data = "DATA", Stack = "STACK", Core = "CORE", Rss = "RSS",
    Nofile = "NOFILE", As = "AS", Nproc = "NPROC", Memlock = "MEMLOCK", Locks = "LOCKS",
    Sigpending = "SIGPENDING", Msgqueue = "MSGQUEUE", Nice = "NICE", Rtprio = "RTPRIO", Rttime = "RTTIME",
}

/// A soft and a hard limit; `u64::MAX` is infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// Which resource.
    pub resource: Resource,
    /// What the process gets.
    pub soft: u64,
    /// How far it may raise it.
    pub hard: u64,
}

impl ResourceLimit {
    /// Reads `both` or `soft:hard`.
    ///
    /// # Errors
    /// A limit does not parse, or the soft one is above the hard one.
    pub fn parse(resource: Resource, text: &str) -> Result<Self, ValueError> {
        let (soft, hard) = text.split_once(':').unwrap_or((text, text));
        let (soft, hard) = (
            parse_one(resource, soft.trim())?,
            parse_one(resource, hard.trim())?,
        );
        if soft > hard {
            return Err(ValueError::range(
                text,
                "the soft limit is above the hard one",
            ));
        }
        Ok(Self {
            resource,
            soft,
            hard,
        })
    }
}

fn parse_one(resource: Resource, text: &str) -> Result<u64, ValueError> {
    if text == "infinity" {
        return Ok(u64::MAX);
    }
    let span = |unit| {
        TimeSpan::parse_with_unit(text, TimeSpan::from_micros(unit))
            .map(TimeSpan::as_micros)
            .map_err(|error| ValueError::invalid(text, format!("a time span: {error}")))
    };
    match resource {
        Resource::Cpu => Ok(span(1_000_000)?.div_ceil(1_000_000)),
        Resource::Rttime => span(1),
        Resource::Fsize
        | Resource::Data
        | Resource::Stack
        | Resource::Core
        | Resource::Rss
        | Resource::As
        | Resource::Memlock
        | Resource::Msgqueue => parse_size(text, 1024),
        Resource::Nice => parse_nice(text),
        Resource::Nofile
        | Resource::Nproc
        | Resource::Locks
        | Resource::Sigpending
        | Resource::Rtprio => {
            u64::try_from(parse_integer(text)?).map_err(|_| ValueError::range(text, "not negative"))
        }
    }
}

/// With a sign a nice level from -20 to 19, without one the raw limit from 1 to 40.
fn parse_nice(text: &str) -> Result<u64, ValueError> {
    let number = parse_integer(text)?;
    let raw = if text.starts_with(['+', '-']) {
        if !(-20..=19).contains(&number) {
            return Err(ValueError::range(text, "-20 to +19"));
        }
        20 - number
    } else {
        number
    };
    u64::try_from(raw)
        .ok()
        .filter(|raw| *raw <= 40)
        .ok_or_else(|| ValueError::range(text, "0 to 40"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_has_its_unit() {
        let limit = |resource, text| ResourceLimit::parse(resource, text).map(|l| (l.soft, l.hard));
        assert_eq!(limit(Resource::Nofile, "1024:4096"), Ok((1024, 4096)));
        assert_eq!(limit(Resource::Memlock, "64M"), Ok((64 << 20, 64 << 20)));
        assert_eq!(limit(Resource::Cpu, "1min"), Ok((60, 60)));
        assert_eq!(limit(Resource::Cpu, "1500ms"), Ok((2, 2)));
        assert_eq!(limit(Resource::Rttime, "5"), Ok((5, 5)));
        assert_eq!(limit(Resource::Core, "infinity"), Ok((u64::MAX, u64::MAX)));
        assert_eq!(limit(Resource::Nice, "-5"), Ok((25, 25)));
        assert_eq!(limit(Resource::Nice, "10"), Ok((10, 10)));
        for text in ["", "x", "2:1", "1:2:3", "-1"] {
            assert!(limit(Resource::Nofile, text).is_err(), "{text}");
        }
        assert!(limit(Resource::Nice, "+20").is_err());
    }
}
