//! What running needs of the machine, asked before anything is made.

use std::env;
use std::path::Path;

use crate::command;
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
const TOOLS: [(&str, &str); 3] = [
    ("setsid", "util-linux"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
];
const TOOLS_FOR_ROOT: [(&str, &str); 4] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("nsenter", "util-linux"),
    ("hostname", "hostname"),
];
const OCI_RUNTIMES: [&str; 3] = ["runc", "crun", "youki"];
const BRIDGE_PLUGINS: [&str; 2] = ["/usr/lib/cni/bridge", "/opt/cni/bin/bridge"];

fn is_tool(name: &str) -> bool {
    let path = command::search_path();
    env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Everything that is missing, in words.
pub(crate) fn missing(settings: &Settings) -> Vec<String> {
    let mut programs = vec![settings.sctl()];
    programs.extend(OWN.map(|it| settings.programs.join(it)));
    let mut tools = TOOLS.to_vec();
    let mut missing = Vec::new();
    if settings.shape == Shape::TwoNodes {
        programs.extend(OWN_FOR_ROOT.map(|it| settings.programs.join(it)));
        tools.extend(TOOLS_FOR_ROOT);
        if !OCI_RUNTIMES.into_iter().any(is_tool) {
            missing.push("an OCI runtime (package runc)".to_owned());
        }
        if !BRIDGE_PLUGINS.iter().any(|it| Path::new(it).is_file()) {
            missing.push("CNI plugins (package containernetworking-plugins)".to_owned());
        }
    }
    let programs = programs.iter().filter(|it| !it.is_file());
    missing.extend(programs.map(|it| it.display().to_string()));
    let tools = tools.into_iter().filter(|(tool, _)| !is_tool(tool));
    missing.extend(tools.map(|(tool, package)| format!("{tool} (package {package})")));
    missing
}
