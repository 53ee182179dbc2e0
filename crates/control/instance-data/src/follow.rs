//! Where a state stands between the instance and the cloud, decided without touching anything.

use std::fmt;
use std::str::FromStr;

use sha3::{Digest, Sha3_224};

/// SHA3-224 of a state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum([u8; 28]);

impl Checksum {
    /// The checksum of a content.
    pub fn of(content: &[u8]) -> Self {
        Self(Sha3_224::digest(content).into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The checksum with these bytes; `None` if it cannot be one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checksum({self})")
    }
}

/// A text is no checksum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a state's checksum has 56 hexadecimal digits")]
pub struct ParseChecksumError;

impl FromStr for Checksum {
    type Err = ParseChecksumError;

    fn from_str(text: &str) -> Result<Self, ParseChecksumError> {
        let mut value = [0; 28];
        hex::decode_to_slice(text, &mut value).map_err(|_| ParseChecksumError)?;
        Ok(Self(value))
    }
}

/// The state of one instance's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Follow {
    /// The one that the cloud has.
    pub(crate) accepted: Option<Checksum>,
    /// The one that the cloud was offered and has not answered.
    pub(crate) offered: Option<Checksum>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The file holds this.
    Found(Checksum),
    /// The cloud took a state.
    Accepted(Checksum),
    /// The cloud does not want a state.
    Rejected(Checksum),
    /// The file holds what the cloud sent.
    Replaced(Checksum),
    /// The cloud may have missed what it was told last.
    Reconnected,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Show the cloud the state.
    Offer(Checksum),
    /// Ask the cloud for the last state that it has.
    Request,
    /// Remember that the cloud has this.
    Keep(Checksum),
}

impl Follow {
    pub(crate) fn apply(&mut self, event: Event, with_cloud: bool) -> Option<Action> {
        match event {
            Event::Found(found) if self.accepted == Some(found) => {
                // It went back to what the cloud has: an answer about anything in between is late.
                self.offered = None;
                None
            }
            Event::Found(found) if !with_cloud => self.accept(found),
            Event::Found(found) if self.offered == Some(found) => None,
            Event::Found(found) => {
                self.offered = Some(found);
                Some(Action::Offer(found))
            }
            Event::Accepted(checksum) if self.offered == Some(checksum) => self.accept(checksum),
            Event::Rejected(checksum) if self.offered == Some(checksum) => {
                self.offered = None;
                Some(Action::Request)
            }
            Event::Accepted(_) | Event::Rejected(_) => None,
            Event::Replaced(checksum) => self.accept(checksum),
            Event::Reconnected => self.offered.map(Action::Offer),
        }
    }

    fn accept(&mut self, checksum: Checksum) -> Option<Action> {
        self.accepted = Some(checksum);
        self.offered = None;
        Some(Action::Keep(checksum))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(number: u8) -> Checksum {
        Checksum::of(&[number])
    }

    #[test]
    fn checksums_are_those_of_the_cloud() {
        // From the standard's own examples.
        let empty = "6b4e03423667dbb73b6e15454f0eb1abd4597f9a1b078e3f5b5a6bc7";
        assert_eq!(Checksum::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Checksum::of(b"")));
        assert!("6b4e".parse::<Checksum>().is_err());
    }

    #[test]
    fn late_answers_change_nothing() {
        let mut follow = Follow::default();
        assert_eq!(
            follow.apply(Event::Found(sum(1)), true),
            Some(Action::Offer(sum(1)))
        );
        assert_eq!(
            follow.apply(Event::Found(sum(2)), true),
            Some(Action::Offer(sum(2)))
        );
        assert_eq!(follow.apply(Event::Accepted(sum(1)), true), None);
        assert_eq!(follow.apply(Event::Rejected(sum(1)), true), None);
        assert_eq!(
            follow.apply(Event::Accepted(sum(2)), true),
            Some(Action::Keep(sum(2)))
        );
        assert_eq!(follow.apply(Event::Found(sum(2)), true), None);
    }

    #[test]
    fn a_rejected_state_is_asked_for_again_and_replaced() {
        let mut follow = Follow::default();
        follow.apply(Event::Found(sum(1)), true);
        assert_eq!(
            follow.apply(Event::Rejected(sum(1)), true),
            Some(Action::Request)
        );
        assert_eq!(
            follow.apply(Event::Replaced(sum(9)), true),
            Some(Action::Keep(sum(9)))
        );
        assert_eq!(follow.accepted, Some(sum(9)));
    }

    #[test]
    fn without_a_cloud_what_is_found_is_accepted() {
        let mut follow = Follow::default();
        assert_eq!(
            follow.apply(Event::Found(sum(1)), false),
            Some(Action::Keep(sum(1)))
        );
    }

    fn event() -> impl Strategy<Value = Event> {
        (0_u8..4, 0_u8..5).prop_map(|(number, kind)| match kind {
            0 => Event::Found(sum(number)),
            1 => Event::Accepted(sum(number)),
            2 => Event::Rejected(sum(number)),
            3 => Event::Replaced(sum(number)),
            _ => Event::Reconnected,
        })
    }

    proptest! {
        #[test]
        fn only_what_the_cloud_has_seen_is_accepted(events in prop::collection::vec(event(), 0..60)) {
            let mut follow = Follow::default();
            let mut shown = Vec::new();
            for event in events {
                let before = follow;
                let action = follow.apply(event, true);
                match action {
                    Some(Action::Offer(checksum)) => shown.push(checksum),
                    Some(Action::Keep(checksum)) => {
                        let from_cloud = event == Event::Replaced(checksum);
                        prop_assert!(from_cloud || shown.contains(&checksum));
                        prop_assert_eq!(follow.accepted, Some(checksum));
                    }
                    _ => prop_assert_eq!(follow.accepted, before.accepted),
                }
                // Nothing is both open and settled.
                prop_assert!(follow.offered.is_none() || follow.offered != follow.accepted);
            }
        }
    }
}
