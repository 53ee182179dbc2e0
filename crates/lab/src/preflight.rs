//! What a test needs from the machine, checked before it begins.
//!
//! ```no_run
//! # fn hosts_hear_each_other() {
//! muster_lab::require!(Root, NetNs, Tool("runc"));
//! // ... only reached when all of that is there
//! # }
//! ```
//!
//! A test whose needs are not met prints one line, `skipped: <test>: <reason>`, and returns. Where all
//! needs are known to be met, `MUSTER_LAB_STRICT=1` makes that a failure, so nothing is skipped unseen.

use std::fs::OpenOptions;
use std::path::Path;

/// `MUSTER_LAB_STRICT=1`: a need that is not met fails the test.
pub const STRICT_VARIABLE: &str = "MUSTER_LAB_STRICT";

/// Something that a test cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// To be root.
    Root,
    /// Network namespaces, and the tools that [`net`](crate::net) uses.
    NetNs,
    /// File systems in user space.
    Fuse,
    /// Loop devices.
    LoopDevice,
    /// A mounted cgroup v2 tree, with or without controllers.
    Cgroup2,
    /// A program in the search path.
    Tool(&'static str),
    /// A file or directory.
    File(&'static str),
}

impl Need {
    /// Why the need is not met, if it is not.
    fn missing(self) -> Option<String> {
        match self {
            Need::Root => (!rustix::process::geteuid().is_root()).then(|| "not root".to_owned()),
            Need::NetNs => crate::net::preflight()
                .map_err(|error| format!("no network namespaces: {error}"))
                .err()
                .or_else(|| ["ip", "nft", "tc"].into_iter().find_map(missing_tool)),
            Need::Fuse => unusable("/dev/fuse"),
            Need::LoopDevice => unusable("/dev/loop-control"),
            Need::Cgroup2 => match std::fs::read_to_string("/proc/self/mounts") {
                Ok(mounts) if mounts.contains(" cgroup2 ") => None,
                Ok(_) => Some("no cgroup v2 tree is mounted".to_owned()),
                Err(error) => Some(format!("cannot read /proc/self/mounts: {error}")),
            },
            Need::Tool(name) => missing_tool(name),
            Need::File(path) => (!Path::new(path).exists()).then(|| format!("{path} is missing")),
        }
    }
}

fn unusable(device: &str) -> Option<String> {
    let opened = OpenOptions::new().read(true).write(true).open(device);
    opened
        .err()
        .map(|error| format!("cannot open {device}: {error}"))
}

fn missing_tool(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| is_executable(&dir.join(name)));
    (!found).then(|| format!("{name} is not installed"))
}

fn is_executable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Behind [`require!`](crate::require): whether the test can go on.
///
/// # Panics
/// Panics under `MUSTER_LAB_STRICT=1` when a need is not met.
#[track_caller]
pub fn ready(test: &str, needs: &[Need]) -> bool {
    let missing = needs.iter().find_map(|need| need.missing());
    if let Some(reason) = &missing {
        skip(test, reason);
    }
    missing.is_none()
}

/// Says that a test, or a part of one, is left out: for needs that are no [`Need`]. The caller returns.
///
/// # Panics
/// Panics under `MUSTER_LAB_STRICT=1`.
#[track_caller]
pub fn skip(test: &str, reason: &str) {
    let strict = std::env::var(STRICT_VARIABLE).is_ok_and(|value| value == "1");
    let line = skip_line(test, reason);
    assert!(!strict, "{line} (not allowed with {STRICT_VARIABLE}=1)");
    eprintln!("{line}");
}

/// `test` is the path of something inside the test function.
fn skip_line(test: &str, reason: &str) -> String {
    let test = test
        .trim_end_matches("::here")
        .trim_end_matches("::{{closure}}");
    format!("skipped: {test}: {}", reason.replace('\n', " "))
}

/// Returns from the test, saying why, unless the machine has what it needs: variants of
/// [`Need`](crate::preflight::Need), with commas between them.
#[macro_export]
macro_rules! require {
    ($($need:expr),+ $(,)?) => {
        {
            #[allow(unused_imports, clippy::allow_attributes, reason = "depends on the needs given")]
            use $crate::preflight::Need::*;
            fn here() {}
            if !$crate::preflight::ready(::std::any::type_name_of_val(&here), &[$($need),+]) {
                return;
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn needs_that_are_met_let_the_test_go_on() {
        assert_eq!(Need::Tool("sh").missing(), None);
        assert_eq!(Need::File("/proc/self").missing(), None);
    }

    #[test]
    fn needs_that_are_not_met_say_what_is_missing() {
        assert_eq!(
            Need::Tool("no-such").missing().unwrap(),
            "no-such is not installed"
        );
        assert_eq!(
            Need::File("/no/such").missing().unwrap(),
            "/no/such is missing"
        );
        assert!(
            unusable("/no/device")
                .unwrap()
                .starts_with("cannot open /no/device: ")
        );
    }

    /// Not a test of its own: run by the one below in a process with a known environment.
    #[test]
    #[ignore = "run by skipped_test_prints_one_line_and_strict_fails_it"]
    fn needy() {
        require!(Tool("sh"), Tool("no-such"));
        panic!("went on");
    }

    #[test]
    fn skipped_test_prints_one_line_and_strict_fails_it() {
        let needy = |strict: &str| {
            Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "--ignored",
                    "--nocapture",
                    "preflight::tests::needy",
                ])
                .env(STRICT_VARIABLE, strict)
                .output()
                .unwrap()
        };
        let line = "skipped: muster_lab::preflight::tests::needy: no-such is not installed";
        let skipped = needy("0");
        assert!(skipped.status.success());
        assert_eq!(
            String::from_utf8_lossy(&skipped.stderr),
            format!("{line}\n")
        );

        let failed = needy("1");
        assert!(!failed.status.success());
        assert!(String::from_utf8_lossy(&failed.stderr).contains(line));
    }

    #[test]
    fn line_names_the_test_even_from_asynchronous_ones() {
        assert_eq!(
            skip_line("a::b::{{closure}}::here", "x\ny"),
            "skipped: a::b: x y"
        );
    }
}
