//! What identifiers find out.

use muster_api::domain::SubjectId;
use muster_api::iamanager::v6 as wire;

/// Bytes of a system id or a model.
const LONGEST: usize = 128;
/// A device does not work for more; the rest would be a mistake or an attack.
pub(crate) const MOST_SUBJECTS: usize = 4096;

/// The device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemInfo {
    /// Which one.
    pub system_id: String,
    /// What kind; empty when it does not tell.
    pub unit_model: String,
    /// Which version of that kind; empty when it does not tell.
    pub version: String,
}

impl From<SystemInfo> for wire::SystemInfo {
    fn from(system: SystemInfo) -> Self {
        Self {
            system_id: system.system_id,
            unit_model: system.unit_model,
            version: system.version,
        }
    }
}

/// What is known at present.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The device, once it is known.
    pub system: Option<SystemInfo>,
    /// For whom it works, sorted.
    pub subjects: Vec<SubjectId>,
    /// What is wrong with the source, if something is: the rest is then missing, or as it was last
    /// known.
    pub problem: Option<String>,
}

/// Why a text names nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidText {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    #[error("it holds {0:?}")]
    Character(char),
}

/// A system id or model: one word or several, without control characters.
pub(crate) fn name(text: &str) -> Result<String, InvalidText> {
    let text = text.trim();
    if text.is_empty() {
        return Err(InvalidText::Empty);
    }
    if text.len() > LONGEST {
        return Err(InvalidText::TooLong);
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(InvalidText::Character(c)),
        None => Ok(text.to_owned()),
    }
}

/// `model;version`. Either may be missing.
pub(crate) fn model(text: &str) -> Result<(String, String), InvalidText> {
    let (model, version) = text.split_once(';').unwrap_or((text, ""));
    let part = |text| match name(text) {
        Err(InvalidText::Empty) => Ok(String::new()),
        other => other,
    };
    Ok((part(model)?, part(version)?))
}

/// Subjects, sorted, each once; and how many texts could not be one.
pub(crate) fn subjects<'a>(texts: impl IntoIterator<Item = &'a str>) -> (Vec<SubjectId>, usize) {
    let mut left_out = 0;
    let mut subjects = Vec::new();
    for text in texts {
        match SubjectId::new(text) {
            Ok(subject) if subjects.len() < MOST_SUBJECTS => subjects.push(subject),
            _ => left_out += 1,
        }
    }
    subjects.sort_unstable();
    subjects.dedup();
    (subjects, left_out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_models() {
        assert_eq!(name(" unit-7\n"), Ok("unit-7".to_owned()));
        assert_eq!(name("\n"), Err(InvalidText::Empty));
        assert_eq!(name("a\nb"), Err(InvalidText::Character('\n')));
        assert_eq!(name(&"x".repeat(129)), Err(InvalidText::TooLong));
        for (text, expected) in [
            ("gateway;2.1\n", ("gateway", "2.1")),
            ("gateway", ("gateway", "")),
            (";1", ("", "1")),
            ("", ("", "")),
            ("a ; b;c", ("a", "b;c")),
        ] {
            let (name, version) = model(text).unwrap();
            assert_eq!((name.as_str(), version.as_str()), expected, "{text:?}");
        }
    }

    #[test]
    fn subjects_are_sorted_and_single_and_bad_ones_left_out() {
        let (found, left_out) = subjects(["b", "a", "b", "", "x/y", "a"]);
        let found: Vec<_> = found.iter().map(SubjectId::as_str).collect();
        assert_eq!((found.as_slice(), left_out), (&["a", "b"][..], 2));
        let many: Vec<String> = (0..MOST_SUBJECTS + 3).map(|n| n.to_string()).collect();
        let (found, left_out) = subjects(many.iter().map(String::as_str));
        assert_eq!((found.len(), left_out), (MOST_SUBJECTS, 3));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>(), list in any::<Vec<String>>()) {
            if let Ok(name) = name(&text) {
                prop_assert!(!name.is_empty() && name.len() <= LONGEST);
            }
            let _ = model(&text);
            let (found, left_out) = subjects(list.iter().map(String::as_str));
            prop_assert!(found.len() + left_out <= list.len());
            prop_assert!(found.is_sorted());
        }
    }
}
