//! Distributions that machines can be made of by name. Which ones there are is said by whoever runs the provider.

use std::collections::BTreeMap;

use muster_template::Arch;

/// What stands for the architecture as Debian and OCI write it: `amd64`, `arm64`.
const ARCH: &str = "{arch}";
/// What stands for it as the kernel writes it: `x86_64`, `aarch64`.
const MACHINE: &str = "{machine}";
/// A name becomes a part of file names.
const LONGEST_NAME: usize = 64;
const LONGEST_LOCATION: usize = 2048;

/// Why a distribution cannot be known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDistribution {
    /// Its name cannot be told from a path or a URL, or makes no name of a file.
    #[error(
        "{0:?} is no name of a distribution: it has letters, digits, `.`, `_` and `-`, and begins with a letter or digit"
    )]
    Name(String),
    /// A location that is not trusted, or names no file.
    #[error(
        "must be `https://HOST/PATH/FILE` or `file:///PATH/FILE`, where `{ARCH}` (amd64) or `{MACHINE}` (x86_64) stands for the architecture"
    )]
    Location,
}

/// A file whose place depends on the architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location(String);

impl Location {
    /// Checks a location: encrypted or on this host, of a file, and with no other word in braces than those for the architecture.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(text: &str) -> Result<Self, InvalidDistribution> {
        let refused = || InvalidDistribution::Location;
        let strange = |letter: char| letter.is_whitespace() || letter.is_control();
        if text.len() > LONGEST_LOCATION || text.contains(strange) || text.contains('#') {
            return Err(refused());
        }
        let filled = text.replace(ARCH, "").replace(MACHINE, "");
        if filled.contains(['{', '}']) {
            return Err(refused());
        }
        let host = match (text.strip_prefix("https://"), text.strip_prefix("file://")) {
            (Some(rest), _) => rest.split_once('/').map(|(host, _)| !host.is_empty()),
            (None, Some(path)) => Some(path.starts_with('/') && !path.contains('?')),
            (None, None) => None,
        };
        let location = Self(text.to_owned());
        match host == Some(true) && !location.file_name(Arch::Amd64).is_empty() {
            true => Ok(location),
            false => Err(refused()),
        }
    }

    /// One that is neither encrypted nor on this host.
    #[cfg(test)]
    pub(crate) fn unchecked(text: String) -> Self {
        Self(text)
    }

    /// For an architecture.
    pub(crate) fn url(&self, arch: Arch) -> String {
        let text = self.0.replace(ARCH, arch.as_str());
        text.replace(MACHINE, arch.kernel_name())
    }

    /// The file alone, as a list of checksums names it.
    pub(crate) fn file_name(&self, arch: Arch) -> String {
        let url = self.url(arch);
        let path = url.split('?').next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

/// Where a distribution's image is, and the file that its checksum stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// The image: a disk that boots and reads cloud-init's documents.
    pub image: Location,
    /// A list of checksums, SHA-256 or SHA-512, that has one of the image's file.
    pub checksums: Location,
}

/// Distributions by name, such as `debian-12`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog(BTreeMap<String, Distribution>);

impl Catalog {
    /// Adds one, in place of another of this name.
    ///
    /// # Errors
    /// When that can be no name.
    pub fn add(
        &mut self,
        name: &str,
        distribution: Distribution,
    ) -> Result<(), InvalidDistribution> {
        let plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
        let begins = name.starts_with(|it: char| it.is_ascii_alphanumeric());
        if !begins || name.len() > LONGEST_NAME || !name.chars().all(plain) {
            return Err(InvalidDistribution::Name(name.chars().take(80).collect()));
        }
        self.0.insert(name.to_owned(), distribution);
        Ok(())
    }

    /// The one of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Distribution> {
        self.0.get(name)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn distribution() -> Distribution {
        Distribution {
            image: Location::new("https://images.example.org/12/system-{arch}.qcow2").unwrap(),
            checksums: Location::new("https://images.example.org/12/SHA512SUMS").unwrap(),
        }
    }

    #[test]
    fn the_architecture_is_written_as_the_location_wants_it() {
        let image = distribution().image;
        assert_eq!(
            image.url(Arch::Arm64),
            "https://images.example.org/12/system-arm64.qcow2"
        );
        assert_eq!(image.file_name(Arch::Amd64), "system-amd64.qcow2");
        let image = Location::new("file:///srv/{machine}/disk-{machine}.img").unwrap();
        assert_eq!(image.url(Arch::Amd64), "file:///srv/x86_64/disk-x86_64.img");
        let asked = Location::new("https://h/a/disk.img?v=1/2").unwrap();
        assert_eq!(asked.file_name(Arch::Amd64), "disk.img");
    }

    #[test]
    fn only_what_is_encrypted_or_on_this_host_is_a_location() {
        for wrong in [
            "",
            "http://images.example.org/a.img",
            "ftp://images.example.org/a.img",
            "https://",
            "https:///a.img",
            "https://images.example.org",
            "https://images.example.org/folder/",
            "https://images.example.org/{version}.img",
            "https://images.example.org/a b.img",
            "file://srv/a.img",
            "file:///",
            "/srv/a.img",
        ] {
            assert_eq!(
                Location::new(wrong),
                Err(InvalidDistribution::Location),
                "{wrong}"
            );
        }
    }

    #[test]
    fn nothing_is_known_that_nobody_named() {
        let mut catalog = Catalog::default();
        assert_eq!(catalog.names().count(), 0);
        catalog.add("debian-12", distribution()).unwrap();
        assert_eq!(catalog.get("debian-12"), Some(&distribution()));
        assert_eq!(catalog.get("debian-13"), None);
        for wrong in ["", "../x", "a/b", "-a", "https://x", &"a".repeat(65)] {
            let refused = catalog.add(wrong, distribution());
            assert!(
                matches!(refused, Err(InvalidDistribution::Name(_))),
                "{wrong}"
            );
        }
    }

    proptest! {
        /// Whatever is taken for a location is one, for every architecture.
        #[test]
        fn a_location_always_names_a_file_safely(text in "(https://|file://|http://)?\\PC{0,24}(\\{arch\\})?(/[a-z]{0,4})?") {
            if let Ok(location) = Location::new(&text) {
                for arch in [Arch::Amd64, Arch::Arm64, Arch::Arm, Arch::Riscv64] {
                    let url = location.url(arch);
                    prop_assert!(url.starts_with("https://") || url.starts_with("file:///"));
                    let (is_filled, name) = (!url.contains(['{', '}']), location.file_name(arch));
                    prop_assert!(is_filled && !name.is_empty());
                    prop_assert!(!name.contains('/'));
                }
            }
        }
    }
}
