//! Unit names: types, templates and instances, escaping, names made from paths.

mod escape;

use std::fmt;
use std::sync::Arc;

pub use escape::{EscapeError, escape, escape_path, unescape, unescape_path};
use thiserror::Error;

/// Names are shorter than this many bytes.
pub const MAX_NAME: usize = 256;

/// The kind of a unit, from the suffix of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum UnitType {
    /// `.service`
    Service,
    /// `.mount`
    Mount,
    /// `.swap`
    Swap,
    /// `.socket`
    Socket,
    /// `.target`
    Target,
    /// `.device`
    Device,
    /// `.automount`
    Automount,
    /// `.timer`
    Timer,
    /// `.path`
    Path,
    /// `.slice`
    Slice,
    /// `.scope`
    Scope,
}

impl UnitType {
    /// Every type.
    pub const ALL: [Self; 11] = [
        Self::Service,
        Self::Mount,
        Self::Swap,
        Self::Socket,
        Self::Target,
        Self::Device,
        Self::Automount,
        Self::Timer,
        Self::Path,
        Self::Slice,
        Self::Scope,
    ];

    /// The suffix without its dot, as in `service`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Mount => "mount",
            Self::Swap => "swap",
            Self::Socket => "socket",
            Self::Target => "target",
            Self::Device => "device",
            Self::Automount => "automount",
            Self::Timer => "timer",
            Self::Path => "path",
            Self::Slice => "slice",
            Self::Scope => "scope",
        }
    }

    /// The type that a suffix without its dot stands for.
    #[must_use]
    pub fn from_suffix(suffix: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == suffix)
    }

    /// The name of the section that is this type's own, as in `Service`.
    #[must_use]
    pub const fn section(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Mount => "Mount",
            Self::Swap => "Swap",
            Self::Socket => "Socket",
            Self::Target => "Target",
            Self::Device => "Device",
            Self::Automount => "Automount",
            Self::Timer => "Timer",
            Self::Path => "Path",
            Self::Slice => "Slice",
            Self::Scope => "Scope",
        }
    }
}

impl fmt::Display for UnitType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text is not a unit name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnitNameError {
    /// Empty, or 256 bytes and more.
    #[error("a unit name has 1 to 255 bytes, not {length}")]
    Length {
        /// How long it is.
        length: usize,
    },
    /// The suffix is missing or not a unit type.
    #[error("{name:?} does not end in a unit type such as .service")]
    Suffix {
        /// The text.
        name: Box<str>,
    },
    /// A character that names cannot have.
    #[error("{name:?} contains {character:?}, which unit names cannot have (escape it)")]
    Character {
        /// The text.
        name: Box<str>,
        /// The first offending character.
        character: char,
    },
    /// Nothing before the `@`.
    #[error("{name:?} has nothing before its '@'")]
    EmptyPrefix {
        /// The text.
        name: Box<str>,
    },
    /// A template was given where a unit is needed, or the other way round.
    #[error("{name:?} is not {expected}")]
    Kind {
        /// The text.
        name: Box<str>,
        /// What is needed.
        expected: &'static str,
    },
    /// A path cannot be made a name.
    #[error("cannot make a unit name of the path {path:?}")]
    Path {
        /// The path.
        path: Box<str>,
        /// Why not.
        #[source]
        source: EscapeError,
    },
}

/// A valid unit name. Cheap to copy; the loader shares equal ones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitName(Arc<str>);

impl UnitName {
    /// Checks a name.
    ///
    /// # Errors
    /// It is not the name of a unit or of a template.
    pub fn new(name: &str) -> Result<Self, UnitNameError> {
        Self::check(name)?;
        Ok(Self(name.into()))
    }

    /// Makes a name of a text that is already shared.
    ///
    /// # Errors
    /// It is not the name of a unit or of a template.
    pub fn from_shared(name: Arc<str>) -> Result<Self, UnitNameError> {
        Self::check(&name)?;
        Ok(Self(name))
    }

    fn check(name: &str) -> Result<(), UnitNameError> {
        if name.is_empty() || name.len() >= MAX_NAME {
            return Err(UnitNameError::Length { length: name.len() });
        }
        let suffix_error = || UnitNameError::Suffix { name: name.into() };
        let (stem, suffix) = name.rsplit_once('.').ok_or_else(suffix_error)?;
        if stem.is_empty() || UnitType::from_suffix(suffix).is_none() {
            return Err(suffix_error());
        }
        let allowed = |c: char| c == '@' || escape::is_name_character(c);
        if let Some(character) = stem.chars().find(|c| !allowed(*c)) {
            return Err(UnitNameError::Character {
                name: name.into(),
                character,
            });
        }
        if stem.starts_with('@') {
            return Err(UnitNameError::EmptyPrefix { name: name.into() });
        }
        Ok(())
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shared text.
    #[must_use]
    pub fn as_shared(&self) -> &Arc<str> {
        &self.0
    }

    /// The type.
    #[must_use]
    pub fn unit_type(&self) -> UnitType {
        let suffix = self.0.rsplit_once('.').map_or("", |(_, suffix)| suffix);
        UnitType::from_suffix(suffix).expect("a UnitName was checked to end in a unit type")
    }

    /// The name without its type: `getty@tty1`.
    #[must_use]
    pub fn stem(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(stem, _)| stem)
    }

    /// What stands before the `@`, or the stem: `getty`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        let stem = self.stem();
        stem.split_once('@').map_or(stem, |(prefix, _)| prefix)
    }

    /// The instance, empty for a template, `None` for a plain unit.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.stem().split_once('@').map(|(_, instance)| instance)
    }

    /// Whether this is a template such as `getty@.service`.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.instance() == Some("")
    }

    /// Whether this is an instance of a template.
    #[must_use]
    pub fn is_instance(&self) -> bool {
        self.instance().is_some_and(|instance| !instance.is_empty())
    }

    /// The template that an instance is made from.
    #[must_use]
    pub fn template(&self) -> Option<Self> {
        let shorter = || format!("{}@.{}", self.prefix(), self.unit_type());
        self.is_instance().then(|| Self(shorter().into()))
    }

    /// The instance of a template (or a sibling of an instance) with this instance name.
    ///
    /// # Errors
    /// This is a plain unit, or the instance is empty or makes no valid name.
    pub fn with_instance(&self, instance: &str) -> Result<Self, UnitNameError> {
        if self.instance().is_none() || instance.is_empty() {
            let name = self.0.as_ref().into();
            return Err(UnitNameError::Kind {
                name,
                expected: "a template with an instance",
            });
        }
        Self::new(&format!(
            "{}@{instance}.{}",
            self.prefix(),
            self.unit_type()
        ))
    }

    /// The same name with another type: `a.socket` for `a.service`.
    ///
    /// # Errors
    /// The new name is too long.
    pub fn with_type(&self, kind: UnitType) -> Result<Self, UnitNameError> {
        Self::new(&format!("{}.{kind}", self.stem()))
    }

    /// The unit that stands for a path: mounts, automounts, swaps and devices.
    ///
    /// # Errors
    /// The path is not absolute, not normalised, or too long for a name.
    pub fn from_path(path: &str, kind: UnitType) -> Result<Self, UnitNameError> {
        let escaped = escape_path(path).map_err(|source| UnitNameError::Path {
            path: path.into(),
            source,
        })?;
        Self::new(&format!("{escaped}.{kind}"))
    }

    /// The path that a name made by [`UnitName::from_path`] stands for.
    ///
    /// # Errors
    /// The name does not stand for a path.
    pub fn to_path(&self) -> Result<String, EscapeError> {
        unescape_path(self.prefix())
    }

    /// The name that a user means on a command line: paths become devices and mounts, characters
    /// that names cannot have are escaped, and a missing type is filled in.
    ///
    /// # Errors
    /// Nothing sensible can be made of the text.
    pub fn mangle(text: &str, kind: UnitType) -> Result<Self, UnitNameError> {
        if let Ok(name) = Self::new(text) {
            return Ok(name);
        }
        if ["/dev/", "/sys/"]
            .iter()
            .any(|folder| text.starts_with(folder))
        {
            return Self::from_path(text, UnitType::Device);
        }
        if text.starts_with('/') {
            return Self::from_path(text, UnitType::Mount);
        }
        let escaped = escape::escape_unusable(text);
        Self::new(&escaped).or_else(|_| Self::new(&format!("{escaped}.{kind}")))
    }

    /// The slice that this slice is part of, `None` for `-.slice` and for what is not a slice.
    #[must_use]
    pub fn parent_slice(&self) -> Option<Self> {
        if self.unit_type() != UnitType::Slice || self.stem() == "-" {
            return None;
        }
        let parent = self
            .stem()
            .rsplit_once('-')
            .map_or("-", |(parent, _)| parent);
        Some(Self(format!("{parent}.slice").into()))
    }

    /// Whether a slice's name describes a path in the tree of slices.
    #[must_use]
    pub fn is_valid_slice(&self) -> bool {
        let stem = self.stem();
        self.unit_type() == UnitType::Slice
            && self.instance().is_none()
            && (stem == "-" || stem.split('-').all(|part| !part.is_empty()))
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl AsRef<str> for UnitName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for UnitName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> UnitName {
        UnitName::new(text).unwrap()
    }

    #[test]
    fn parts_of_names() {
        let plain = name("a.b.service");
        assert_eq!(
            (plain.stem(), plain.prefix(), plain.instance()),
            ("a.b", "a.b", None)
        );
        let instance = name("getty@tty@1.service");
        assert_eq!(
            (instance.prefix(), instance.instance()),
            ("getty", Some("tty@1"))
        );
        assert_eq!(instance.template(), Some(name("getty@.service")));
        assert!(instance.is_instance() && !instance.is_template());
        let template = name("getty@.service");
        assert!(template.is_template() && template.template().is_none());
        assert_eq!(
            template.with_instance("x").unwrap(),
            name("getty@x.service")
        );
        assert!(plain.with_instance("x").is_err());
        assert_eq!(
            plain.with_type(UnitType::Socket).unwrap(),
            name("a.b.socket")
        );
        assert_eq!(plain.unit_type(), UnitType::Service);
    }

    #[test]
    fn what_is_not_a_name_is_refused() {
        for text in [
            "",
            ".service",
            "a",
            "a.conf",
            "@.service",
            "@x.service",
            "a b.service",
            "a/b.service",
            "\u{e9}.service",
        ] {
            assert!(UnitName::new(text).is_err(), "{text:?}");
        }
        assert!(UnitName::new(&format!("{}.service", "x".repeat(247))).is_ok());
        assert!(UnitName::new(&format!("{}.service", "x".repeat(248))).is_err());
    }

    #[test]
    fn paths_have_names() {
        for (path, unit) in [
            ("/", "-.mount"),
            ("/home//a-b/", "home-a\\x2db.mount"),
            ("/.x", "\\x2ex.mount"),
            ("/a/./b", "a-b.mount"),
        ] {
            assert_eq!(
                UnitName::from_path(path, UnitType::Mount).unwrap(),
                name(unit),
                "{path}"
            );
        }
        assert!(UnitName::from_path("/a/../b", UnitType::Mount).is_err());
        assert!(UnitName::from_path("a", UnitType::Mount).is_err());
        assert_eq!(name("home-a\\x2db.mount").to_path().unwrap(), "/home/a-b");
        assert_eq!(name("-.mount").to_path().unwrap(), "/");
    }

    #[test]
    fn command_line_names_are_completed() {
        for (text, unit) in [
            ("sshd", "sshd.service"),
            ("sshd.socket", "sshd.socket"),
            ("/dev/sda1", "dev-sda1.device"),
            ("/home", "home.mount"),
            ("a b", "a\\x20b.service"),
            ("x@y", "x@y.service"),
        ] {
            assert_eq!(
                UnitName::mangle(text, UnitType::Service).unwrap(),
                name(unit),
                "{text}"
            );
        }
    }

    #[test]
    fn slices_form_a_tree() {
        assert_eq!(name("a-b-c.slice").parent_slice(), Some(name("a-b.slice")));
        assert_eq!(name("a.slice").parent_slice(), Some(name("-.slice")));
        assert_eq!(name("-.slice").parent_slice(), None);
        assert!(name("a-b.slice").is_valid_slice() && name("-.slice").is_valid_slice());
        assert!(!name("a--b.slice").is_valid_slice() && !name("-a.slice").is_valid_slice());
    }
}
