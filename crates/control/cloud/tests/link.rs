//! The link and a cloud, over loopback.

#[path = "link/cuts.rs"]
mod cuts;
#[path = "link/messages.rs"]
mod messages;
#[path = "link/misbehaviour.rs"]
mod misbehaviour;
#[path = "link/rig.rs"]
mod rig;
#[path = "link/tls.rs"]
mod tls;
