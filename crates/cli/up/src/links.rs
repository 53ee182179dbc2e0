//! The links between the nodes.
//!
//! ```text
//!   main:  muTAGb (bridge, 10.213.N.1) --- muTAGl ======= eth0 (10.213.N.2)  :second     daemons
//!          muTAGu ======================================= eth1                           the instances' network
//! ```

use std::ffi::OsString;
use std::process::Command;

use crate::command::{self, CommandError, ip_batch};
use crate::layout::{Layout, SECOND_LINK, SECOND_UPLINK, addresses};
use crate::record::links;

/// Links that Service Managers make have names with these beginnings.
const MADE_BY_MANAGERS: [&str; 2] = ["mbr", "mvl"];

/// What makes the switch with the Main Node's address.
fn switch(layout: &Layout, subnet: u8) -> Vec<String> {
    let (bridge, (main, _)) = (layout.bridge(), addresses(subnet));
    vec![
        format!("link add {bridge} type bridge"),
        format!("addr add {main}/24 dev {bridge}"),
        format!("link set {bridge} up"),
    ]
}

/// What makes both pairs, their other ends in the network namespace of a process.
fn pairs(layout: &Layout, process: u32) -> Vec<String> {
    let (bridge, link, uplink) = (layout.bridge(), layout.link(), layout.uplink());
    vec![
        format!("link add {link} type veth peer name {SECOND_LINK} netns {process}"),
        format!("link set {link} master {bridge} up"),
        format!("link add {uplink} type veth peer name {SECOND_UPLINK} netns {process}"),
        format!("link set {uplink} up"),
    ]
}

/// What is done inside of the second node.
fn far_ends(subnet: u8) -> Vec<String> {
    let (_, second) = addresses(subnet);
    vec![
        "link set lo up".to_owned(),
        format!("addr add {second}/24 dev {SECOND_LINK}"),
        format!("link set {SECOND_LINK} up"),
        format!("link set {SECOND_UPLINK} up"),
    ]
}

/// Makes the switch if it is missing.
pub(crate) fn make_switch(layout: &Layout, subnet: u8) -> Result<(), CommandError> {
    if links().contains(&layout.bridge()) {
        return Ok(());
    }
    ip_batch(&[], &switch(layout, subnet))
}

/// Joins a second node that is about to start, by the process that will become its init.
pub(crate) fn join(layout: &Layout, subnet: u8, process: u32) -> Result<(), CommandError> {
    // Those of a node that has died a moment ago.
    remove(&[layout.link(), layout.uplink()])?;
    ip_batch(&[], &pairs(layout, process))?;
    let target = format!("--target={process}");
    let enter = ["nsenter", &target, "--net", "--"].map(OsString::from);
    ip_batch(&enter, &far_ends(subnet))
}

/// Removes those of these links that are there.
pub(crate) fn remove(names: &[String]) -> Result<(), CommandError> {
    let there = links();
    for name in names.iter().filter(|it| there.contains(*it)) {
        let mut delete = Command::new("ip");
        delete.args(["link", "delete", name.as_str()]);
        match command::run(delete) {
            // The other end of a pair may have taken it along.
            Err(error) if links().contains(name) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The demo's own links and those that its Service Manager has made since.
pub(crate) fn of_demo(layout: &Layout, before: &std::collections::BTreeSet<String>) -> Vec<String> {
    let is_new = |name: &String| {
        let is_managers = MADE_BY_MANAGERS.iter().any(|it| name.starts_with(it));
        is_managers && !before.contains(name)
    };
    let made = links().into_iter().filter(is_new);
    [layout.uplink(), layout.link(), layout.bridge()]
        .into_iter()
        .chain(made)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_commands_name_both_ends() {
        let layout = Layout::new(Path::new("/var/lib/demo"), Path::new("/run/demo")).unwrap();
        assert!(switch(&layout, 9)[1].starts_with("addr add 10.213.9.1/24 dev mu"));
        let pairs = pairs(&layout, 4711);
        assert!(pairs[0].ends_with("peer name eth0 netns 4711"), "{pairs:?}");
        assert!(pairs[1].contains(&layout.bridge()));
        assert_eq!(far_ends(9)[1], "addr add 10.213.9.2/24 dev eth0");
    }
}
