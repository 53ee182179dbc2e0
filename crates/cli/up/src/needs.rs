//! What running needs of the machine, asked before anything is made.

use std::env;
use std::path::{Path, PathBuf};

use crate::images::{WEB, WORKER};
use crate::settings::{Settings, Shape};

/// Muster's own programs.
const OWN: [&str; 9] = [
    "muster-init",
    "muster-core",
    "muster-logd",
    "muster-iam",
    "muster-sm",
    "muster-cm",
    "muster-native-exec",
    WEB,
    WORKER,
];
/// For containers and networks.
const OWN_FOR_ROOT: [&str; 2] = ["muster-container", "muster-firewall"];
/// Programs of the machine, each with its package.
const TOOLS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("hostname", "hostname"),
];
const OCI_RUNTIMES: [&str; 3] = ["runc", "crun", "youki"];
const BRIDGE_PLUGINS: [&str; 2] = ["/usr/lib/cni/bridge", "/opt/cni/bin/bridge"];
/// Where a user's path may not lead.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

fn is_tool(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    let mut found = folders.map(|folder| folder.join(name));
    found.any(|program| program.is_file())
}

/// Everything that is missing, in words.
pub(crate) fn missing(settings: &Settings) -> Vec<String> {
    let mut missing = Vec::new();
    let mut own = |name: &str| {
        let path = settings.programs.join(name);
        if !path.is_file() {
            missing.push(path.display().to_string());
        }
    };
    OWN.into_iter().for_each(&mut own);
    if settings.shape == Shape::TwoNodes {
        OWN_FOR_ROOT.into_iter().for_each(own);
        for (tool, package) in TOOLS {
            if !is_tool(tool) {
                missing.push(format!("{tool} (package {package})"));
            }
        }
        if !OCI_RUNTIMES.into_iter().any(is_tool) {
            missing.push("an OCI runtime (package runc)".to_owned());
        }
        if !BRIDGE_PLUGINS.iter().any(|it| Path::new(it).is_file()) {
            missing.push("CNI plugins (package containernetworking-plugins)".to_owned());
        }
    }
    missing
}
