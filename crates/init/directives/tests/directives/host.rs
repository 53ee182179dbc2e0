//! Under Muster, in namespaces of the host. One test for each file of cases.

use muster_lab::machine::Build;
use muster_lab::muster;

use crate::case;
use crate::world::{SHARED_MOUNTS, TIME, World};

/// What such a machine has whatever its host lacks, so that the cases that need it run here.
pub(crate) const FACTS: &[&str] = &["own-usr", "shared-mounts"];

fn run(topic: &str) {
    let world = World::new(case::read(topic)).on_a_machine_with(FACTS);
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let start = format!("{SHARED_MOUNTS} /usr/lib/muster/muster-init");
    let builder = muster::machine(&programs).init(["/bin/sh", "-c", &start]);
    // Where the host has controllers, they are of version 1 more often than not.
    let builder = match topic {
        "groups" => builder.hybrid_cgroups(),
        _ => builder,
    };
    let builder = world.furnish(builder);
    let machine = muster::boot(&builder, TIME).unwrap();
    world.run(&format!("host: {topic}"), &machine, "sctl");
}

crate::topics::every_topic!(run, Root, Cgroup2, File("/bin/busybox"));
