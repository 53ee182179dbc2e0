//! Specifiers: `%i`, `%t`, `%H` and the others of systemd 252.
//!
//! What a unit's name cannot tell comes from a [`HostFacts`] value, so that expansion is the same on
//! every machine that is given the same facts.

use std::borrow::Cow;

use thiserror::Error;

use crate::name::{UnitName, unescape, unescape_path};

/// The longest expanded value.
pub const MAX_EXPANDED: usize = 1 << 20;

/// What specifiers say about the machine and the user that the manager runs as.
///
/// `None` means "not known": a unit that asks for it gets an error rather than an empty text. The
/// fields of os-release are different, an absent one is empty there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// `%a`, as in `x86-64`.
    pub architecture: Option<Box<str>>,
    /// `%b`, 32 hexadecimal digits.
    pub boot_id: Option<Box<str>>,
    /// `%m`, 32 hexadecimal digits.
    pub machine_id: Option<Box<str>>,
    /// `%H`, and up to the first dot `%l`.
    pub hostname: Option<Box<str>>,
    /// `%q`; the host name stands in if there is none.
    pub pretty_hostname: Option<Box<str>>,
    /// `%v`, as `uname -r` prints it.
    pub kernel_release: Option<Box<str>>,
    /// `%o`
    pub os_id: Box<str>,
    /// `%w`
    pub os_version_id: Box<str>,
    /// `%B`
    pub os_build_id: Box<str>,
    /// `%W`
    pub os_variant_id: Box<str>,
    /// `%M`
    pub os_image_id: Box<str>,
    /// `%A`
    pub os_image_version: Box<str>,
    /// `%u`
    pub user: Box<str>,
    /// `%U`
    pub uid: u32,
    /// `%g`
    pub group: Box<str>,
    /// `%G`
    pub gid: u32,
    /// `%h`
    pub home: Box<str>,
    /// `%s`
    pub shell: Box<str>,
    /// `%t`
    pub runtime_directory: Box<str>,
    /// `%S`
    pub state_directory: Box<str>,
    /// `%C`
    pub cache_directory: Box<str>,
    /// `%L`
    pub log_directory: Box<str>,
    /// `%E`
    pub configuration_directory: Box<str>,
    /// `%T`
    pub temporary_directory: Box<str>,
    /// `%V`
    pub large_temporary_directory: Box<str>,
}

impl Default for HostFacts {
    /// The directories and the user of a system manager; nothing about the machine.
    fn default() -> Self {
        Self {
            architecture: None,
            boot_id: None,
            machine_id: None,
            hostname: None,
            pretty_hostname: None,
            kernel_release: None,
            os_id: "".into(),
            os_version_id: "".into(),
            os_build_id: "".into(),
            os_variant_id: "".into(),
            os_image_id: "".into(),
            os_image_version: "".into(),
            user: "root".into(),
            uid: 0,
            group: "root".into(),
            gid: 0,
            home: "/root".into(),
            shell: "/bin/sh".into(),
            runtime_directory: "/run".into(),
            state_directory: "/var/lib".into(),
            cache_directory: "/var/cache".into(),
            log_directory: "/var/log".into(),
            configuration_directory: "/etc".into(),
            temporary_directory: "/tmp".into(),
            large_temporary_directory: "/var/tmp".into(),
        }
    }
}

/// Why a value cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecifierError {
    /// The machine's facts lack what the specifier stands for.
    #[error("%{specifier} stands for {what}, which is not known here")]
    Unknown {
        /// The letter.
        specifier: char,
        /// What it stands for.
        what: &'static str,
    },
    /// The name does not stand for a path or text.
    #[error("%{specifier} cannot be unescaped from {name}")]
    Unescape {
        /// The letter.
        specifier: char,
        /// The unit.
        name: Box<str>,
        /// What is wrong with it.
        #[source]
        source: crate::name::EscapeError,
    },
    /// The result is longer than [`MAX_EXPANDED`].
    #[error("the expanded value is longer than 1 MiB")]
    TooLong,
}

/// Whose specifiers are expanded.
#[derive(Clone, Copy, Debug)]
pub struct SpecifierContext<'a> {
    /// The machine.
    pub host: &'a HostFacts,
    /// The unit; for a template its instance.
    pub unit: &'a UnitName,
    /// The unit's main file (`%y`), if it has one.
    pub fragment: Option<&'a str>,
}

/// Replaces all specifiers. Unknown ones stay as they are, as with systemd.
///
/// # Errors
/// A fact is missing, or the result is too long.
pub fn expand<'t>(
    text: &'t str,
    context: SpecifierContext<'_>,
) -> Result<Cow<'t, str>, SpecifierError> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let mut letters = after.chars();
        match letters.next() {
            Some(letter) => match context.resolve(letter)? {
                Some(value) => out.push_str(&value),
                None => out.extend(['%', letter]),
            },
            None => out.push('%'),
        }
        rest = letters.as_str();
        if out.len() > MAX_EXPANDED {
            return Err(SpecifierError::TooLong);
        }
    }
    out.push_str(rest);
    if out.len() > MAX_EXPANDED {
        Err(SpecifierError::TooLong)
    } else {
        Ok(Cow::Owned(out))
    }
}

impl<'a> SpecifierContext<'a> {
    /// The value of one specifier, `None` for a letter that is none.
    fn resolve(&self, letter: char) -> Result<Option<Cow<'a, str>>, SpecifierError> {
        let host = self.host;
        let known = |fact: &'a Option<Box<str>>, what| {
            fact.as_deref().ok_or(SpecifierError::Unknown {
                specifier: letter,
                what,
            })
        };
        let unescaped = |result: Result<String, crate::name::EscapeError>| {
            let name = self.unit.as_str().into();
            result.map_err(|source| SpecifierError::Unescape {
                specifier: letter,
                name,
                source,
            })
        };
        let text: &'a str = match letter {
            '%' => "%",
            'n' => self.unit.as_str(),
            'N' => self.unit.stem(),
            'p' => self.unit.prefix(),
            'i' => self.unit.instance().unwrap_or(""),
            'j' => last_component(self.unit.prefix()),
            'I' => return unescaped(unescape(self.unit.instance().unwrap_or(""))).map(owned),
            'P' => return unescaped(unescape(self.unit.prefix())).map(owned),
            'J' => return unescaped(unescape(last_component(self.unit.prefix()))).map(owned),
            'f' => return unescaped(self.file_name()).map(owned),
            'y' => self.fragment.unwrap_or(""),
            'Y' => self
                .fragment
                .and_then(|path| path.rsplit_once('/'))
                .map_or("", |(dir, _)| dir),
            'd' => {
                let directory = format!("{}/credentials/{}", host.runtime_directory, self.unit);
                return Ok(owned(directory));
            }
            'U' => return Ok(owned(host.uid.to_string())),
            'G' => return Ok(owned(host.gid.to_string())),
            'u' => &host.user,
            'g' => &host.group,
            'h' => &host.home,
            's' => &host.shell,
            't' => &host.runtime_directory,
            'S' => &host.state_directory,
            'C' => &host.cache_directory,
            'L' => &host.log_directory,
            'E' => &host.configuration_directory,
            'T' => &host.temporary_directory,
            'V' => &host.large_temporary_directory,
            'o' => &host.os_id,
            'w' => &host.os_version_id,
            'B' => &host.os_build_id,
            'W' => &host.os_variant_id,
            'M' => &host.os_image_id,
            'A' => &host.os_image_version,
            'a' => known(&host.architecture, "the architecture")?,
            'b' => known(&host.boot_id, "the boot id")?,
            'm' => known(&host.machine_id, "the machine id")?,
            'v' => known(&host.kernel_release, "the kernel release")?,
            'H' => known(&host.hostname, "the host name")?,
            'l' => {
                let name = known(&host.hostname, "the host name")?;
                name.split_once('.').map_or(name, |(short, _)| short)
            }
            'q' => match &host.pretty_hostname {
                Some(name) => name,
                None => known(&host.hostname, "the host name")?,
            },
            _ => return Ok(None),
        };
        Ok(Some(Cow::Borrowed(text)))
    }

    fn file_name(&self) -> Result<String, crate::name::EscapeError> {
        match self.unit.instance() {
            Some(instance) => unescape_path(instance),
            None => unescape_path(self.unit.prefix()),
        }
    }
}

fn owned<'a>(text: String) -> Option<Cow<'a, str>> {
    Some(Cow::Owned(text))
}

fn last_component(prefix: &str) -> &str {
    prefix.rsplit_once('-').map_or(prefix, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host() -> HostFacts {
        HostFacts {
            hostname: Some("box.example.org".into()),
            machine_id: Some("0123456789abcdef0123456789abcdef".into()),
            architecture: Some("x86-64".into()),
            os_id: "debian".into(),
            ..HostFacts::default()
        }
    }

    fn expand_for(text: &str, unit: &str) -> Result<String, SpecifierError> {
        let unit = UnitName::new(unit).unwrap();
        let fragment = Some("/etc/systemd/system/x.service");
        let context = SpecifierContext {
            host: &host(),
            unit: &unit,
            fragment,
        };
        expand(text, context).map(Cow::into_owned)
    }

    #[test]
    fn every_specifier_of_systemd_252() {
        let unit = "a-b\\x2dc@d-e\\x20f.service";
        for (text, value) in [
            ("%n|%N", "a-b\\x2dc@d-e\\x20f.service|a-b\\x2dc@d-e\\x20f"),
            ("%p|%P", "a-b\\x2dc|a/b-c"),
            ("%i|%I", "d-e\\x20f|d/e f"),
            ("%j|%J", "b\\x2dc|b-c"),
            ("%f", "/d/e f"),
            ("%y|%Y", "/etc/systemd/system/x.service|/etc/systemd/system"),
            ("%d", "/run/credentials/a-b\\x2dc@d-e\\x20f.service"),
            ("%u %U %g %G %h %s", "root 0 root 0 /root /bin/sh"),
            (
                "%t %S %C %L %E %T %V",
                "/run /var/lib /var/cache /var/log /etc /tmp /var/tmp",
            ),
            ("%H %l %q", "box.example.org box box.example.org"),
            ("%m", "0123456789abcdef0123456789abcdef"),
            ("%a", "x86-64"),
            ("%o[%w%B%W%M%A]", "debian[]"),
            ("100%%", "100%"),
            ("%z %", "%z %"),
            ("%\u{e9}", "%\u{e9}"),
            ("%%i", "%i"),
        ] {
            assert_eq!(expand_for(text, unit).as_deref(), Ok(value), "{text}");
        }
        assert_eq!(
            expand_for("%i|%I|%f", "a-b.service").as_deref(),
            Ok("||/a/b")
        );
    }

    #[test]
    fn a_missing_fact_is_an_error() {
        for text in ["%b", "%v"] {
            assert!(matches!(
                expand_for(text, "a.service"),
                Err(SpecifierError::Unknown { .. })
            ));
        }
        assert!(matches!(
            expand_for("%I", "a@\\q.service"),
            Err(SpecifierError::Unescape { .. })
        ));
    }

    #[test]
    fn the_result_is_bounded() {
        let text = "%d".repeat(MAX_EXPANDED / 16);
        assert_eq!(expand_for(&text, "a.service"), Err(SpecifierError::TooLong));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_without_panic(text in "[%a-zA-Z\u{e9}]{0,30}") {
            let _ = expand_for(&text, "x@y.service");
        }

        #[test]
        fn doubled_percent_signs_protect(text in ".{0,30}") {
            prop_assert_eq!(expand_for(&text.replace('%', "%%"), "a.service"), Ok(text));
        }
    }
}
