//! `MUSTER_FAULT`'s text, read into what it asks for. Pure: no environment, no process.

use std::num::NonZeroU64;

use crate::Point;

/// What happens when an armed point is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `SIGKILL` to the own process.
    Kill,
    /// `SIGSTOP` to the own process.
    Stop,
    /// The thread never continues.
    Hang,
}

impl Action {
    /// The word used in `MUSTER_FAULT`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Hang => "hang",
        }
    }
}

/// Why a fault cannot be armed. It ends the program: a test that asked for it must not pass.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArmFault {
    /// The variable is set to something that is not text.
    #[error("MUSTER_FAULT is not UTF-8")]
    NotText,
    /// `=` is followed by an unknown word.
    #[error("MUSTER_FAULT: unknown action {0:?}; there are kill, stop and hang")]
    UnknownAction(String),
    /// `@` is not followed by a number from 1.
    #[error("MUSTER_FAULT: {0:?} is not a count; write NAME@3 for the third time")]
    BadCount(String),
    /// No list given to [`init`](crate::init) has the name.
    #[error("MUSTER_FAULT: this program has no fault point {name:?}; it has {known}")]
    UnknownPoint {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A point was reached before [`init`](crate::init) could check the name.
    #[error("MUSTER_FAULT is set, but fault point {0:?} was reached before muster_fault::init")]
    NotInitialised(&'static str),
    /// Two of the lists contain the same name.
    #[error("fault point {0:?} is declared twice")]
    Ambiguous(&'static str),
}

/// A fault as asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) point: Point,
    pub(crate) nth: NonZeroU64,
    pub(crate) action: Action,
}

impl Request {
    /// Reads `NAME[@COUNT][=ACTION]` and finds the point.
    pub(crate) fn parse(text: &str, known: &[&[Point]]) -> Result<Self, ArmFault> {
        let (target, action) = match text.split_once('=') {
            None | Some((_, "kill")) => (text.split('=').next().unwrap_or(text), Action::Kill),
            Some((target, "stop")) => (target, Action::Stop),
            Some((target, "hang")) => (target, Action::Hang),
            Some((_, other)) => return Err(ArmFault::UnknownAction(other.to_owned())),
        };
        let (name, nth) = match target.split_once('@') {
            None => (target, NonZeroU64::MIN),
            Some((name, count)) => (
                name,
                count
                    .parse()
                    .map_err(|_| ArmFault::BadCount(count.to_owned()))?,
            ),
        };
        let point = find(name, known)?;
        Ok(Self { point, nth, action })
    }
}

fn find(name: &str, known: &[&[Point]]) -> Result<Point, ArmFault> {
    let all = || known.iter().copied().flatten().copied();
    let mut matches = all().filter(|point| point.name() == name);
    let point = matches.next().ok_or_else(|| ArmFault::UnknownPoint {
        name: name.to_owned(),
        known: all().map(Point::name).collect::<Vec<_>>().join(", "),
    })?;
    if matches.next().is_some() {
        return Err(ArmFault::Ambiguous(point.name()));
    }
    Ok(point)
}

#[cfg(test)]
#[expect(
    unreachable_pub,
    reason = "the macro's list is public wherever it stands"
)]
mod tests {
    use super::*;

    crate::points! {
        /// One.
        ONE = "t.one",
        /// Two,
        /// in two lines.
        TWO = "t.two-2",
    }

    fn parse(text: &str) -> Result<(Point, u64, Action), ArmFault> {
        Request::parse(text, &[FAULT_POINTS]).map(|r| (r.point, r.nth.get(), r.action))
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(parse("t.one"), Ok((ONE, 1, Action::Kill)));
        assert_eq!(parse("t.one=kill"), Ok((ONE, 1, Action::Kill)));
        assert_eq!(parse("t.two-2@3"), Ok((TWO, 3, Action::Kill)));
        assert_eq!(parse("t.two-2@3=stop"), Ok((TWO, 3, Action::Stop)));
        assert_eq!(parse("t.one=hang"), Ok((ONE, 1, Action::Hang)));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert_eq!(
            parse("t.one=quit"),
            Err(ArmFault::UnknownAction("quit".into()))
        );
        assert_eq!(parse("t.one="), Err(ArmFault::UnknownAction(String::new())));
        assert_eq!(
            parse("t.one=kill=kill"),
            Err(ArmFault::UnknownAction("kill=kill".into()))
        );
        assert_eq!(parse("t.one@0"), Err(ArmFault::BadCount("0".into())));
        assert_eq!(parse("t.one@"), Err(ArmFault::BadCount(String::new())));
        assert_eq!(parse("t.one@-1"), Err(ArmFault::BadCount("-1".into())));
        for name in ["", "t.on", "t.one ", "T.ONE", " t.one"] {
            assert_eq!(
                parse(name),
                Err(ArmFault::UnknownPoint {
                    name: name.to_owned(),
                    known: "t.one, t.two-2".into()
                })
            );
        }
    }

    #[test]
    fn a_name_in_two_lists_is_refused() {
        assert_eq!(
            Request::parse("t.one", &[FAULT_POINTS, FAULT_POINTS]),
            Err(ArmFault::Ambiguous("t.one"))
        );
    }

    #[test]
    fn points_carry_their_documentation() {
        assert_eq!(ONE.doc(), "One.");
        assert_eq!(TWO.doc(), "Two, in two lines.");
        assert_eq!(format!("{TWO:?}"), "t.two-2");
    }
}
