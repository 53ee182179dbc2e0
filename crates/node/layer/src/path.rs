//! Names of entries, checked and normalised. Pure.

use crate::error::NameRule;
use crate::options::Limits;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// `NAME_MAX` of Linux.
const STEP_BYTES: usize = 255;

/// A name below the destination: steps joined by single slashes, none of them `.` or `..`, within the limits. Empty for
/// the destination itself. Slashes in front mean the destination, as they do to everybody else who unpacks layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayerPath {
    bytes: Vec<u8>,
    /// Where the last step starts.
    name: usize,
}

/// What an entry's name makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Itself.
    Plain,
    /// The name behind the prefix is deleted.
    Whiteout,
    /// The folder it is in hides what lower layers have there.
    Opaque,
}

impl LayerPath {
    pub(crate) fn parse(raw: &[u8], limits: &Limits) -> Result<Self, NameRule> {
        let limit = limits.path_bytes;
        match raw {
            b"" => return Err(NameRule::Empty),
            _ if raw.len() > limit => return Err(NameRule::TooLong { limit }),
            _ if raw.contains(&0) => return Err(NameRule::Nul),
            _ => {}
        }
        let mut path = Self {
            bytes: Vec::with_capacity(raw.len()),
            name: 0,
        };
        let mut depth = 0;
        for step in raw.split(|byte| *byte == b'/') {
            match step {
                b"" | b"." => continue,
                b".." => return Err(NameRule::Traversal),
                _ if step.len() > STEP_BYTES => return Err(NameRule::StepTooLong),
                _ => {}
            }
            depth += 1;
            if depth > limits.depth {
                return Err(NameRule::TooDeep {
                    limit: limits.depth,
                });
            }
            if !path.bytes.is_empty() {
                path.bytes.push(b'/');
            }
            path.name = path.bytes.len();
            path.bytes.extend_from_slice(step);
        }
        Ok(path)
    }

    /// A hard link's target: like a name, but nothing that stands for a deleted one.
    pub(crate) fn parse_target(raw: &[u8], limits: &Limits) -> Result<Self, NameRule> {
        let path = Self::parse(raw, limits)?;
        match path.role()? {
            Role::Plain => Ok(path),
            Role::Whiteout | Role::Opaque => Err(NameRule::Reserved),
        }
    }

    pub(crate) fn role(&self) -> Result<Role, NameRule> {
        let reserved = |step: &[u8]| step.starts_with(WHITEOUT);
        if self.parent().split(|byte| *byte == b'/').any(reserved) {
            return Err(NameRule::Reserved);
        }
        let Some(hidden) = self.name().strip_prefix(WHITEOUT) else {
            return Ok(Role::Plain);
        };
        match hidden {
            _ if self.name() == OPAQUE => Ok(Role::Opaque),
            b"" | b"." | b".." => Err(NameRule::Reserved),
            _ if reserved(hidden) => Err(NameRule::Reserved),
            _ => Ok(Role::Whiteout),
        }
    }

    /// The path that a whiteout deletes.
    pub(crate) fn hidden(&self) -> Self {
        let mut bytes = self.parent().to_vec();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        let name = bytes.len();
        bytes.extend_from_slice(&self.name()[WHITEOUT.len()..]);
        Self { bytes, name }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The folder that it is in; empty for the destination.
    pub(crate) fn parent(&self) -> &[u8] {
        &self.bytes[..self.name.saturating_sub(1)]
    }

    /// The last step.
    pub(crate) fn name(&self) -> &[u8] {
        &self.bytes[self.name..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(raw: &str) -> Result<LayerPath, NameRule> {
        LayerPath::parse(raw.as_bytes(), &Limits::default())
    }

    #[test]
    fn spellings_of_one_name_become_one() {
        for raw in [
            "a/b", "./a/b", "a//b/", "a/./b/.", ".//a/b//", "/a/b", "//a/b", "/./a/b/",
        ] {
            let path = parse(raw).unwrap();
            assert_eq!(
                (path.as_bytes(), path.parent(), path.name()),
                (&b"a/b"[..], &b"a"[..], &b"b"[..])
            );
        }
        for raw in [".", "./", ".//.", "/", "//", "/."] {
            assert!(parse(raw).unwrap().is_root());
        }
        let top = parse("a").unwrap();
        assert_eq!((top.parent(), top.name()), (&b""[..], &b"a"[..]));
    }

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        for raw in [
            "..",
            "../a",
            "a/..",
            "a/../b",
            "./..",
            "a/b/../../../c",
            "..//a",
            "/..",
            "/../a",
            "/a/../b",
        ] {
            assert_eq!(parse(raw), Err(NameRule::Traversal), "{raw}");
        }
        assert_eq!(parse(""), Err(NameRule::Empty));
        assert_eq!(parse("a\0b"), Err(NameRule::Nul));
        assert_eq!(parse(&"x".repeat(256)), Err(NameRule::StepTooLong));
        assert_eq!(
            parse(&"x/".repeat(129)),
            Err(NameRule::TooDeep { limit: 128 })
        );
        assert_eq!(
            parse(&"./".repeat(4096)),
            Err(NameRule::TooLong { limit: 4095 })
        );
        for raw in ["...", "a/..b", ".. ", "..\\a"] {
            assert!(parse(raw).is_ok(), "{raw} is a plain name");
        }
    }

    #[test]
    fn whiteouts_are_told_from_reserved_names() {
        let role = |raw: &str| parse(raw).unwrap().role();
        assert_eq!(role("a/b"), Ok(Role::Plain));
        assert_eq!(role("a/.wh"), Ok(Role::Plain));
        assert_eq!(role("a/.wh.b"), Ok(Role::Whiteout));
        assert_eq!(role("a/.wh....b"), Ok(Role::Whiteout));
        assert_eq!(role("a/.wh..wh..opq"), Ok(Role::Opaque));
        for raw in [
            ".wh.",
            "a/.wh..",
            "a/.wh...",
            ".wh..wh.plnk",
            ".wh..wh.",
            ".wh.a/b",
            ".wh.a/.wh.b",
        ] {
            assert_eq!(role(raw), Err(NameRule::Reserved), "{raw}");
        }
        assert_eq!(parse("a/.wh.b").unwrap().hidden(), parse("a/b").unwrap());
        assert_eq!(parse(".wh.b").unwrap().hidden(), parse("b").unwrap());
        let target = LayerPath::parse_target(b"a/.wh.b", &Limits::default());
        assert_eq!(target, Err(NameRule::Reserved));
        let target = LayerPath::parse_target(b"/a/b", &Limits::default());
        assert_eq!(target, parse("a/b"));
    }

    proptest! {
        #[test]
        fn an_accepted_name_has_only_plain_steps(raw in proptest::collection::vec(
            prop_oneof![Just(b'/'), Just(b'.'), Just(b'a'), any::<u8>()], 0..40))
        {
            if let Ok(path) = LayerPath::parse(&raw, &Limits::default()) {
                if !path.is_root() {
                    for step in path.as_bytes().split(|byte| *byte == b'/') {
                        prop_assert!(!matches!(step, b"" | b"." | b"..") && !step.contains(&0));
                    }
                }
                let again = LayerPath::parse(path.as_bytes(), &Limits::default());
                prop_assert_eq!(again.ok(), (!path.is_root()).then_some(path));
            }
        }
    }
}
