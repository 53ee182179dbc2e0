//! `muster machine` with the real node manager: the simulated cloud, likenesses of EC2, containers, virtual
//! machines, and this machine.

mod cloud;
mod containers;
mod copying;
#[path = "../../../../nodemgr/libvirt-helper/tests/machines/daemons.rs"]
mod daemons;
#[path = "../../../../nodemgr/aws/tests/ec2/server.rs"]
mod ec2;
mod ending;
mod guests;
mod held;
mod jump;
mod lasting;
mod looking;
mod moto;
mod orphans;
mod pinned;
mod rig;
mod runs;
mod templates;
mod terminal;
mod using;
mod watching;
