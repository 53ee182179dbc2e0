//! Under Muster, in namespaces of the host. One test for each file of cases.

use muster_lab::machine::Build;
use muster_lab::muster;

use crate::case;
use crate::world::{SHARED_MOUNTS, TIME, World};

fn run(topic: &str) {
    let world = World::new(case::read(topic));
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
