//! Whether an extension fits a system: what both say about themselves in `os-release` and `extension-release`.

use std::collections::BTreeMap;

use crate::partitions::architecture;

/// Fits every system.
const ANY: &str = "_any";
/// What the files of an extension's description begin with.
pub const RELEASE_PREFIX: &str = "extension-release.";

/// What an extension extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionKind {
    /// `/usr` and `/opt`
    System,
    /// `/etc`
    Configuration,
}

impl ExtensionKind {
    /// Both, in the order in which they are looked for.
    pub const ALL: [Self; 2] = [Self::System, Self::Configuration];

    /// Where an extension of this kind describes itself.
    #[must_use]
    pub const fn release_folder(self) -> &'static str {
        match self {
            Self::System => "/usr/lib/extension-release.d",
            Self::Configuration => "/etc/extension-release.d",
        }
    }

    const fn level(self) -> &'static str {
        match self {
            Self::System => "SYSEXT_LEVEL",
            Self::Configuration => "CONFEXT_LEVEL",
        }
    }
}

/// What a file of assignments says; of those to one name the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release(BTreeMap<String, String>);

impl Release {
    /// Reads a text. Lines that are no assignments say nothing.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let assignments = text.lines().map(str::trim).filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            let is_name = !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            is_name.then(|| (name.to_owned(), unquoted(value.trim())))
        });
        Self(assignments.collect())
    }

    /// What it says about a name, unless that is nothing.
    fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }
}

/// A value as the shell would read it, as far as these files may use its quotes.
fn unquoted(value: &str) -> String {
    if let Some(inner) = value
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''))
    {
        return inner.to_owned();
    }
    let inner = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(value);
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            character => text.push(character),
        }
    }
    text
}

/// An extension is not for this system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The extension does not say something that it has to.
    #[error("it does not say its {name}=")]
    Silent {
        /// The name.
        name: &'static str,
    },
    /// The system does not say something that it has to.
    #[error("the system that it would extend does not say its {name}=")]
    SystemSilent {
        /// The name.
        name: &'static str,
    },
    /// Both say something else.
    #[error("it is for {name}={wanted}, but the system has {name}={found}")]
    Other {
        /// The name.
        name: &'static str,
        /// What the extension says.
        wanted: String,
        /// What the system says.
        found: String,
    },
}

/// Whether an extension may be laid over a system: it is for that distribution, and for its level where both have one, else
/// for its version. A system without either has no versions.
///
/// # Errors
/// It may not, and why.
pub fn check_extension(
    kind: ExtensionKind,
    system: &Release,
    extension: &Release,
) -> Result<(), Mismatch> {
    if let Some(wanted) = extension.get("ARCHITECTURE").filter(|name| *name != ANY) {
        let found = architecture().unwrap_or("");
        demand("ARCHITECTURE", wanted, found)?;
    }
    let name = "ID";
    let wanted = extension.get(name).ok_or(Mismatch::Silent { name })?;
    if wanted == ANY {
        return Ok(());
    }
    let found = system.get(name).ok_or(Mismatch::SystemSilent { name })?;
    demand(name, wanted, found)?;
    let (level, version) = (kind.level(), "VERSION_ID");
    if let (Some(wanted), Some(found)) = (extension.get(level), system.get(level)) {
        return demand(level, wanted, found);
    }
    if let Some(found) = system.get(version) {
        let silent = Mismatch::Silent { name: version };
        return demand(version, extension.get(version).ok_or(silent)?, found);
    }
    match system.get(level) {
        Some(_) => Err(Mismatch::Silent { name: level }),
        None => Ok(()),
    }
}

fn demand(name: &'static str, wanted: &str, found: &str) -> Result<(), Mismatch> {
    if wanted == found {
        return Ok(());
    }
    Err(Mismatch::Other {
        name,
        wanted: wanted.to_owned(),
        found: found.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::{ExtensionKind, Mismatch, Release, check_extension};
    use crate::partitions::architecture;
    use proptest::prelude::*;

    const DEBIAN: &str =
        "# A system\nPRETTY_NAME=\"Debian GNU/Linux\"\nID=debian\nVERSION_ID=\"12\"\n";

    fn check(system: &str, extension: &str) -> Result<(), Mismatch> {
        check_extension(
            ExtensionKind::System,
            &Release::parse(system),
            &Release::parse(extension),
        )
    }

    #[test]
    fn values_are_read_as_the_shell_does() {
        let release = Release::parse(
            " A=b\nB=\"c \\\"d\\\"\"\nC='e\\f'\nnonsense\n=x\nD E=f\nA=last\nEMPTY=\n#G=h\n",
        );
        for (name, value) in [
            ("A", Some("last")),
            ("B", Some("c \"d\"")),
            ("C", Some("e\\f")),
            ("EMPTY", None),
            ("#G", None),
            ("D E", None),
        ] {
            assert_eq!(release.get(name), value, "{name}");
        }
    }

    #[test]
    fn the_distribution_and_its_version_must_be_the_same() {
        for extension in [
            "ID=debian\nVERSION_ID=12",
            "ID='debian'\nVERSION_ID='12'\nSYSEXT_LEVEL=9",
            "ID=_any",
            "ID=_any\nVERSION_ID=99",
        ] {
            assert_eq!(check(DEBIAN, extension), Ok(()), "{extension}");
        }
        let error = |extension: &str| check(DEBIAN, extension).unwrap_err().to_string();
        assert_eq!(
            error("ID=fedora\nVERSION_ID=12"),
            "it is for ID=fedora, but the system has ID=debian"
        );
        assert_eq!(
            error("ID=debian\nVERSION_ID=13"),
            "it is for VERSION_ID=13, but the system has VERSION_ID=12"
        );
        assert_eq!(error("ID=debian"), "it does not say its VERSION_ID=");
        assert_eq!(error("VERSION_ID=12"), "it does not say its ID=");
        assert_eq!(
            check("VERSION_ID=12", "ID=debian").unwrap_err(),
            Mismatch::SystemSilent { name: "ID" }
        );
    }

    #[test]
    fn a_level_goes_before_a_version() {
        let system = "ID=a\nVERSION_ID=1\nSYSEXT_LEVEL=2";
        assert_eq!(check(system, "ID=a\nVERSION_ID=9\nSYSEXT_LEVEL=2"), Ok(()));
        assert_eq!(check(system, "ID=a\nVERSION_ID=1"), Ok(()));
        assert!(check(system, "ID=a\nVERSION_ID=1\nSYSEXT_LEVEL=3").is_err());
        // The level of configuration is another one.
        assert!(check(system, "ID=a\nCONFEXT_LEVEL=2").is_err());
        let configuration = check_extension(
            ExtensionKind::Configuration,
            &Release::parse("ID=a\nCONFEXT_LEVEL=2"),
            &Release::parse("ID=a\nCONFEXT_LEVEL=2\nSYSEXT_LEVEL=3"),
        );
        assert_eq!(configuration, Ok(()));
        let silent = check("ID=a\nSYSEXT_LEVEL=2", "ID=a\nVERSION_ID=1").unwrap_err();
        assert_eq!(
            silent,
            Mismatch::Silent {
                name: "SYSEXT_LEVEL"
            }
        );
    }

    #[test]
    fn a_system_without_versions_takes_all_of_its_own() {
        assert_eq!(check("ID=arch", "ID=arch\nVERSION_ID=1"), Ok(()));
        assert!(check("ID=arch", "ID=debian").is_err());
    }

    #[test]
    fn programs_of_another_machine_are_refused() {
        assert!(check(DEBIAN, "ID=_any\nARCHITECTURE=vax").is_err());
        assert_eq!(check(DEBIAN, "ID=_any\nARCHITECTURE=_any"), Ok(()));
        if let Some(own) = architecture() {
            assert_eq!(
                check(DEBIAN, &format!("ID=_any\nARCHITECTURE={own}")),
                Ok(())
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "\\PC*", lines in prop::collection::vec("[A-Z_]{0,6}=[\"'\\\\a-z ]{0,8}", 0..8)) {
            let (one, other) = (Release::parse(&text), Release::parse(&lines.join("\n")));
            for kind in ExtensionKind::ALL {
                let (there, back) = (check_extension(kind, &one, &other), check_extension(kind, &other, &one));
                // Whatever it is, it may extend only what is alike.
                if one.get("ID") != other.get("ID") {
                    prop_assert!(there.is_err() || other.get("ID") == Some("_any"));
                    prop_assert!(back.is_err() || one.get("ID") == Some("_any"));
                }
            }
        }
    }
}
