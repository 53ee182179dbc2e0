//! The Service Manager of a node: carries out what the controller says, and goes on without one.
//!
//! # Entry points
//! * [`program::run`] is the daemon `muster-sm`.
//! * [`ControllerLink`] is the stream to the Communication Manager; [`Services`] are the parts that carry its commands out.
//! * [`NodeImages`] are the images of the node as the launcher sees them.
//! * `standalone` (feature of that name) is one node without a controller, from a file: `muster sm run`.
//! * [`seams`] are the parts that commands are for: node configuration, monitoring, logs, networks. `equipment` opens them.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | launcher ([`muster_launcher`]) | commands, ends of instances | reports |
//! | board | reports | statuses on the stream, the picture that each new stream begins with |
//! | commands | the controller's commands, in order | orders, the launcher, the seams, answers on the stream that asked |
//! | orders | networks and sets of instances; of those that wait the newest | the networks and the launcher, one after the other |
//! | log collectors, at most 4 at a time, 64 waiting | one request each | parts on the stream that asked |
//! | identity | the identity manager | who this node is, the certificate, and with it the ways to the controller |
//! | identity news | the first way to the identity manager | to the launcher, that it need not wait for it any more |
//! | needed images | what the launcher needs, a timer | notes in the image store, removal of what nobody has needed for long |
//! | image check | a timer | quarantine and repair of damaged images |
//! | announcements | resources that come and go | the node's description on the stream |
//! | memory ([`muster_program::footprint`]) | a timer | memory that only the work just done has needed |
//! | networks, traffic, resources, node configuration, monitoring, alerts, journal | see their crates | alerts on the stream's spool, measurements on the stream |
//!
//! # Configuration
//! `/etc/muster/sm.json` (also TOML or YAML), drop-ins beside it, `MUSTER_SM__...` variables and `--set`. Keys:
//! [`config::RawConfig`].
//!
//! # Invariants
//! * A command is carried out or answered with why not; an instance that makes no sense is refused by itself.
//! * No question waits for an order: networks may take as long as their plugins do.
//! * Nothing that runs is stopped because this daemon starts, ends or loses its controller, nor because another init system is
//!   there than the one that has it (`init_system`).
//! * Nothing waits for the identity manager but what needs it: after a reboot, instances run as the node was remembered; only
//!   those with permissions, downloads and the controller wait. A node that was never known waits, and says so.
//! * An answer goes to the stream that asked, or nowhere.
//!
//! # What this crate does not do
//! It decides nothing about instances (the launcher does), and knows nothing of containers. Networks, measurements, alerts, logs
//! and resources are crates of their own. A node without CNI plugins or a packet filter has no networks, and refuses instances that
//! want one with the reason; a node whose instances use the machine's own network (`network.mode: host`) takes them as they are.

mod blobs;
pub mod config;
mod controller;
mod daemon;
mod equipment;
mod identity;
mod images;
mod init_system;
mod late;
mod node;
mod permissions;
pub mod program;
mod runtimes;
pub mod seams;
#[cfg(feature = "standalone")]
pub mod standalone;

use muster_fault::Point;

pub use self::controller::{ControllerLink, Services, SmProtocol};
pub use self::images::{ControllerUrls, NodeImages};
pub use self::runtimes::MakeRuntimeError;

/// Every moment at which a test can kill the daemon, by the part that changes something lasting.
pub fn fault_points() -> Vec<&'static [Point]> {
    vec![
        muster_launcher::FAULT_POINTS,
        muster_image::FAULT_POINTS,
        muster_layer::FAULT_POINTS,
        muster_bundle::FAULT_POINTS,
        muster_alert::FAULT_POINTS,
        muster_network::FAULT_POINTS,
        muster_network::PLUGIN_FAULT_POINTS,
        muster_node_config::FAULT_POINTS,
        muster_resource::FAULT_POINTS,
        muster_traffic::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]
}
