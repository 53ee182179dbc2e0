//! What specifiers say about a machine.

use std::collections::HashMap;

use muster_unit_file::fs::{RealFs, UnitFs};
use muster_unit_file::specifier::HostFacts;

/// Reads the facts of a system. What only a running system knows is left out unless it is this one.
pub(crate) fn facts(fs: &RealFs, running: bool) -> HostFacts {
    let release = ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|path| text(fs, path))
        .map(|text| assignments(&text))
        .unwrap_or_default();
    let field = |key: &str| -> Box<str> { release.get(key).map_or("", String::as_str).into() };
    let names = rustix::system::uname();
    let word = |text: &std::ffi::CStr| -> Option<Box<str>> {
        running.then(|| text.to_string_lossy().into_owned().into_boxed_str())
    };
    let hostname =
        word(names.nodename()).or_else(|| text(fs, "/etc/hostname").map(|name| name.trim().into()));
    HostFacts {
        architecture: names.machine().to_str().ok().map(architecture),
        boot_id: running
            .then(|| text(fs, "/proc/sys/kernel/random/boot_id"))
            .flatten()
            .map(|id| id.trim().replace('-', "").into()),
        machine_id: text(fs, "/etc/machine-id")
            .map(|id| id.trim().to_owned())
            .filter(|id| !id.is_empty())
            .map(Into::into),
        hostname,
        pretty_hostname: text(fs, "/etc/machine-info")
            .and_then(|text| assignments(&text).remove("PRETTY_HOSTNAME"))
            .map(Into::into),
        kernel_release: word(names.release()),
        os_id: field("ID"),
        os_version_id: field("VERSION_ID"),
        os_build_id: field("BUILD_ID"),
        os_variant_id: field("VARIANT_ID"),
        os_image_id: field("IMAGE_ID"),
        os_image_version: field("IMAGE_VERSION"),
        ..HostFacts::default()
    }
}

/// Bytes of memory that this machine has.
pub(crate) fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    let (pages, unit): (u64, u64) = (info.totalram, info.mem_unit.into());
    pages.saturating_mul(unit)
}

/// Tasks that this machine's kernel allows: the lower of its two limits.
pub(crate) fn tasks() -> u64 {
    let read = |name: &str| -> Option<u64> {
        let path = format!("/proc/sys/kernel/{name}");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let limits = [
        read("pid_max").map(|max| max.saturating_sub(1)),
        read("threads-max"),
    ];
    limits.into_iter().flatten().min().unwrap_or(u64::MAX)
}

fn text(fs: &RealFs, path: &str) -> Option<String> {
    fs.read(path)
        .ok()
        .and_then(|content| String::from_utf8(content).ok())
}

/// `KEY=value` lines, with or without quotes.
fn assignments(text: &str) -> HashMap<String, String> {
    let unquote = |value: &str| value.trim().trim_matches(['"', '\'']).to_owned();
    text.lines()
        .filter_map(|line| line.trim().split_once('='))
        .map(|(key, value)| (key.to_owned(), unquote(value)))
        .collect()
}

/// systemd's word for what `uname -m` says.
fn architecture(machine: &str) -> Box<str> {
    match machine {
        "x86_64" => "x86-64",
        "aarch64" => "arm64",
        "i386" | "i486" | "i586" | "i686" => "x86",
        "armv6l" | "armv7l" | "armv8l" => "arm",
        "ppc64le" => "ppc64-le",
        other => other,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_system_below_a_folder() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(root.path().join("etc").join(name), text).unwrap();
        };
        write("os-release", "ID=demo\nVERSION_ID=\"12\"\n# x\nnonsense\n");
        write("hostname", "box\n");
        write("machine-id", "\n");
        write("machine-info", "PRETTY_HOSTNAME='The Box'\n");
        let facts = facts(&RealFs::with_root(root.path()), false);
        assert_eq!((&*facts.os_id, &*facts.os_version_id), ("demo", "12"));
        assert_eq!(facts.hostname.as_deref(), Some("box"));
        assert_eq!(facts.pretty_hostname.as_deref(), Some("The Box"));
        assert_eq!((facts.machine_id, facts.boot_id), (None, None));
        assert_eq!(facts.kernel_release, None);
    }
}
