//! The operating system, from `os-release` and `uname`.

use muster_api::domain::OsInfo;

use crate::tree::tidy;

/// `sysname` and `release` are uname's. The version is the distribution's: `VERSION_ID`, for rolling
/// ones `BUILD_ID`, and the kernel's release where neither is said.
pub(crate) fn describe(os_release: &str, sysname: &str, release: &str) -> OsInfo {
    let os = match tidy(sysname).to_ascii_lowercase() {
        name if name.is_empty() => "linux".to_owned(),
        name => name,
    };
    let version = ["VERSION_ID", "BUILD_ID"]
        .into_iter()
        .filter_map(|key| value_of(os_release, key))
        .find(|value| !value.is_empty())
        .unwrap_or_else(|| tidy(release));
    OsInfo::new(os, version, Vec::new()).expect("the name is not empty")
}

/// The last assignment of a key wins, as in the shell that the format is taken from.
fn value_of(os_release: &str, key: &str) -> Option<String> {
    os_release
        .lines()
        .filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))
        .next_back()
        .map(|value| tidy(&unquote(value)))
}

/// Takes the quotes of a shell off, and the backslashes that they allow.
fn unquote(value: &str) -> String {
    let mut quote = None;
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => text.extend(characters.next()),
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, _) => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_of_distributions() {
        for (os_release, version) in [
            ("ID=debian\nVERSION_ID=\"12\"\n", "12"),
            ("VERSION_ID='23.10'\nID=nixos\n", "23.10"),
            ("# VERSION_ID=1\nVERSION_ID=3.19\\ rc\n", "3.19 rc"),
            ("ID=arch\nBUILD_ID=rolling\n", "rolling"),
            ("VERSION_ID=\nBUILD_ID=20240101\n", "20240101"),
            ("VERSION_ID_LIKE=7\n", "6.1.0-rpi"),
            ("", "6.1.0-rpi"),
        ] {
            let info = describe(os_release, "Linux", "6.1.0-rpi");
            assert_eq!(
                (info.os(), info.version()),
                ("linux", Some(version)),
                "{os_release:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>(), sysname in any::<String>(), release in any::<String>()) {
            let info = describe(&text, &sysname, &release);
            prop_assert!(!info.os().is_empty());
        }

        #[test]
        fn a_quoted_value_is_what_was_quoted(value in "[a-z0-9 .\"\\\\]{0,40}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            prop_assert_eq!(unquote(&format!("\"{quoted}\"")), value);
        }
    }
}
