//! What is installed.

use std::path::Path;

use super::Finding;
use super::machine::{Machine, is_program, version_of};

/// In the order in which they are taken.
const RUNTIMES: [&str; 3] = ["crun", "runc", "youki"];
/// What networks of instances are made with; the firewall is Muster's own.
const PLUGINS: [&str; 4] = ["bandwidth", "bridge", "host-local", "loopback"];
const PLUGIN_FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];
/// What a Main Node runs.
pub(super) const OWN: [&str; 10] = [
    "muster-init",
    "muster-core",
    "muster-exec",
    "muster-logd",
    "muster-iam",
    "muster-sm",
    "muster-cm",
    "muster-container",
    "muster-native-exec",
    "muster-firewall",
];

pub(super) async fn oci_runtime(machine: &Machine) -> Finding {
    const CHECK: &str = "oci-runtime";
    let mut found = Vec::new();
    for name in RUNTIMES {
        if let Some(program) = machine.program(name) {
            match version_of(&program).await {
                Some(version) => found.push(version),
                None => found.push(format!("{name} (does not tell its version)")),
            }
        }
    }
    match found.is_empty() {
        false => Finding::ok(CHECK, found.join(", ")),
        true => Finding::error(
            CHECK,
            "there is no OCI runtime, so containers cannot run",
            "apt-get install runc, or use the runtime native",
        ),
    }
}

pub(super) fn cni_plugins(machine: &Machine) -> Finding {
    const CHECK: &str = "cni-plugins";
    let is_there = |plugin: &str| {
        let mut folders = PLUGIN_FOLDERS.into_iter();
        folders.any(|folder| is_program(&machine.file(&format!("{folder}/{plugin}"))))
    };
    let missing: Vec<&str> = PLUGINS.into_iter().filter(|it| !is_there(it)).collect();
    match missing.is_empty() {
        true => Finding::ok(CHECK, PLUGINS.join(", ")),
        false => Finding::warning(
            CHECK,
            format!(
                "{} missing, so instances get no network",
                missing.join(", ")
            ),
            "apt-get install containernetworking-plugins",
        ),
    }
}

pub(super) async fn nftables(machine: &Machine) -> Finding {
    const CHECK: &str = "nftables";
    let Some(program) = machine.program("nft") else {
        return Finding::warning(
            CHECK,
            "nft is missing, so networks have no firewall and traffic is not counted",
            "apt-get install nftables",
        );
    };
    match version_of(&program).await {
        Some(version) => Finding::ok(CHECK, version),
        None => Finding::warning(
            CHECK,
            format!("{} does not run", program.display()),
            "apt-get install --reinstall nftables",
        ),
    }
}

/// Muster's own programs, all of one version.
pub(super) async fn own(folder: &Path) -> Finding {
    const CHECK: &str = "programs";
    let wanted = env!("CARGO_PKG_VERSION");
    let mut missing = Vec::new();
    let mut others = Vec::new();
    for name in OWN {
        let program = folder.join(name);
        if !is_program(&program) {
            missing.push(name);
            continue;
        }
        // The last word; some do not tell, being called by other programs only.
        let version = version_of(&program).await;
        let version = version.as_deref().and_then(|line| line.rsplit(' ').next());
        if let Some(version) = version.filter(|it| *it != wanted) {
            others.push(format!("{name} {version}"));
        }
    }
    let folder = folder.display();
    if missing.len() == OWN.len() {
        return Finding::warning(
            CHECK,
            format!("none of Muster's programs is in {folder}"),
            "make install, or name their folder with --programs",
        );
    }
    if !missing.is_empty() {
        return Finding::warning(
            CHECK,
            format!("{} missing in {folder}", missing.join(", ")),
            "make install",
        );
    }
    match others.is_empty() {
        true => Finding::ok(CHECK, format!("all of version {wanted} in {folder}")),
        false => Finding::warning(
            CHECK,
            format!("{} beside muster {wanted} in {folder}", others.join(", ")),
            "install all of them in one version with make install",
        ),
    }
}
