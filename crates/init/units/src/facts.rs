//! What specifiers say about a machine, read from its files.

use std::collections::HashMap;

use muster_unit_file::fs::UnitFs;
use muster_unit_file::specifier::HostFacts;

/// What `uname` says; a system that does not run has only the architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelNames {
    /// The machine, as in `x86_64`.
    pub machine: Box<str>,
    /// The release of the running kernel.
    pub release: Option<Box<str>>,
    /// The host name that the running kernel has.
    pub hostname: Option<Box<str>>,
}

/// Reads the facts of a system. What only a running system knows is left out unless `names` tells of one.
pub fn read(fs: &impl UnitFs, names: &KernelNames) -> HostFacts {
    let running = names.release.is_some();
    let release = ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|path| text(fs, path))
        .map(|text| assignments(&text))
        .unwrap_or_default();
    let field = |key: &str| -> Box<str> { release.get(key).map_or("", String::as_str).into() };
    let from_file = || text(fs, "/etc/hostname").map(|name| name.trim().into());
    HostFacts {
        architecture: Some(architecture(&names.machine)),
        boot_id: running
            .then(|| text(fs, "/proc/sys/kernel/random/boot_id"))
            .flatten()
            .map(|id| id.trim().replace('-', "").into()),
        machine_id: text(fs, "/etc/machine-id")
            .map(|id| id.trim().to_owned())
            .filter(|id| !id.is_empty())
            .map(Into::into),
        hostname: names.hostname.clone().or_else(from_file),
        pretty_hostname: text(fs, "/etc/machine-info")
            .and_then(|text| assignments(&text).remove("PRETTY_HOSTNAME"))
            .map(Into::into),
        kernel_release: names.release.clone(),
        os_id: field("ID"),
        os_version_id: field("VERSION_ID"),
        os_build_id: field("BUILD_ID"),
        os_variant_id: field("VARIANT_ID"),
        os_image_id: field("IMAGE_ID"),
        os_image_version: field("IMAGE_VERSION"),
        ..HostFacts::default()
    }
}

/// Tasks that the running kernel allows: the lower of its two limits.
pub fn tasks(fs: &impl UnitFs) -> u64 {
    let number = |name: &str| -> Option<u64> {
        let text = text(fs, &format!("/proc/sys/kernel/{name}"))?;
        text.trim().parse().ok()
    };
    let limits = [
        // The number of a process is below it.
        number("pid_max").map(|max| max.saturating_sub(1)),
        number("threads-max"),
    ];
    limits.into_iter().flatten().min().unwrap_or(u64::MAX)
}

fn text(fs: &impl UnitFs, path: &str) -> Option<String> {
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
    use muster_unit_file::fs::MemoryFs;

    use super::*;

    #[test]
    fn facts_of_a_system_that_does_not_run() {
        let mut fs = MemoryFs::new();
        let mut write = |name: &str, text: &str| {
            fs.write(&format!("/etc/{name}"), text);
        };
        write("os-release", "ID=demo\nVERSION_ID=\"12\"\n# x\nnonsense\n");
        write("hostname", "box\n");
        write("machine-id", "\n");
        write("machine-info", "PRETTY_HOSTNAME='The Box'\n");
        let facts = read(&fs, &KernelNames::default());
        assert_eq!((&*facts.os_id, &*facts.os_version_id), ("demo", "12"));
        assert_eq!(facts.hostname.as_deref(), Some("box"));
        assert_eq!(facts.pretty_hostname.as_deref(), Some("The Box"));
        assert_eq!((facts.machine_id, facts.boot_id), (None, None));
        assert_eq!(facts.kernel_release, None);
    }

    #[test]
    fn the_lower_limit_of_tasks_counts() {
        let mut fs = MemoryFs::new();
        assert_eq!(tasks(&fs), u64::MAX);
        fs.write("/proc/sys/kernel/pid_max", "32768\n");
        assert_eq!(tasks(&fs), 32_767);
        fs.write("/proc/sys/kernel/threads-max", "900\n");
        assert_eq!(tasks(&fs), 900);
    }
}
