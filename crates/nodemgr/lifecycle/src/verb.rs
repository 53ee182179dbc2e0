//! What can be asked of a machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Something that is asked of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Verb {
    /// Run again after a stop.
    Start,
    /// Shut the system down, as its power button would.
    Stop,
    /// Cut the power.
    ForceStop,
    /// Start the system anew without leaving the running state.
    Reboot,
    /// Keep the memory, and stop.
    Hibernate,
    /// Go on from a hibernation.
    Resume,
    /// End it for good.
    Terminate,
}

impl Verb {
    /// Every verb there is.
    pub const ALL: [Self; 7] = [
        Self::Start,
        Self::Stop,
        Self::ForceStop,
        Self::Reboot,
        Self::Hibernate,
        Self::Resume,
        Self::Terminate,
    ];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::ForceStop => "force-stop",
            Self::Reboot => "reboot",
            Self::Hibernate => "hibernate",
            Self::Resume => "resume",
            Self::Terminate => "terminate",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is no verb.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is nothing that can be asked of a machine")]
pub struct UnknownVerb(pub String);

impl FromStr for Verb {
    type Err = UnknownVerb;

    fn from_str(text: &str) -> Result<Self, UnknownVerb> {
        let mut all = Self::ALL.into_iter();
        all.find(|verb| verb.as_str() == text)
            .ok_or_else(|| UnknownVerb(text.to_owned()))
    }
}

/// The verbs that a provider can do, or that can be asked of one machine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Verb>", into = "Vec<Verb>")]
pub struct VerbSet(u8);

impl VerbSet {
    /// None.
    pub const NONE: Self = Self(0);

    /// All of them.
    pub const ALL: Self = Self::of(&Verb::ALL);

    /// These.
    #[must_use]
    pub const fn of(verbs: &[Verb]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < verbs.len() {
            bits |= 1 << verbs[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    /// These without one.
    #[must_use]
    pub const fn without(self, verb: Verb) -> Self {
        Self(self.0 & !(1 << verb as u8))
    }

    /// Those that are also in another set.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether they are all there are.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.0 == Self::ALL.0
    }

    /// All of them: for what says nothing about them.
    #[must_use]
    pub const fn all() -> Self {
        Self::ALL
    }

    /// Whether a verb is among them.
    #[must_use]
    pub const fn has(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u8) != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |&verb| self.has(verb))
    }
}

impl From<Vec<Verb>> for VerbSet {
    fn from(verbs: Vec<Verb>) -> Self {
        Self::of(&verbs)
    }
}

impl From<VerbSet> for Vec<Verb> {
    fn from(set: VerbSet) -> Self {
        set.iter().collect()
    }
}

impl fmt::Debug for VerbSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_it_was_made_of() {
        let set = VerbSet::of(&[Verb::Start, Verb::Terminate]);
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [Verb::Start, Verb::Terminate]
        );
        assert!(!set.without(Verb::Start).has(Verb::Start));
        assert_eq!(VerbSet::ALL.iter().count(), Verb::ALL.len());
        assert_eq!(VerbSet::NONE.iter().next(), None);
        assert_eq!(set.and(VerbSet::ALL.without(Verb::Start)).iter().count(), 1);
        assert!(VerbSet::ALL.is_all() && !set.is_all());
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(text, r#"["start","terminate"]"#);
        assert_eq!(serde_json::from_str::<VerbSet>(&text).unwrap(), set);
    }

    #[test]
    fn every_verb_reads_back() {
        for verb in Verb::ALL {
            assert_eq!(verb.as_str().parse(), Ok(verb));
        }
        assert!("pause".parse::<Verb>().is_err());
    }
}
