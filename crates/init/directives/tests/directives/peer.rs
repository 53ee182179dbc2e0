//! Under systemd, which the expectations are taken from.

use muster_lab::peer;

use crate::case::{self, Case};
use crate::world::{SHARED_MOUNTS, TIME, World};

#[test]
fn systemd_agrees_with_what_is_expected() {
    muster_lab::require!(Root, Cgroup2, File("/lib/systemd/systemd"));
    let mut cases: Vec<Case> = case::topics()
        .iter()
        .flat_map(|topic| case::read(topic))
        .collect();
    cases.retain(|case| {
        if let Some(reason) = &case.unlike_systemd {
            println!("systemd: {}: not asked: {reason}", case.name);
        }
        case.unlike_systemd.is_none()
    });
    for case in &mut cases {
        case.pending = None;
    }
    let world = World::new(cases);
    let start = format!(
        "{SHARED_MOUNTS} {} --system --log-target=null",
        peer::SYSTEMD
    );
    let builder = peer::systemd().init(["/bin/sh", "-c", &start]);
    let machine = peer::boot_systemd(&world.furnish(builder), TIME).unwrap();
    world.run("systemd", &machine, "systemctl");
}
