//! Everything a runtime needs to know about an instance, resolved.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use muster_api::domain::{EnvVar, InstanceInfo};
use muster_item::{ImageConfig, ItemConfig};
use zeroize::Zeroizing;

/// One instance, with everything on this machine that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceSpec {
    /// What the controller said.
    pub info: InstanceInfo,
    /// The unpacked image.
    pub image: ImagePaths,
    /// What its image says about running it.
    pub image_config: ImageConfig,
    /// What its item says about running it.
    pub item_config: ItemConfig,
    /// Set last, over those of the image, item and controller.
    pub env_override: Vec<EnvVar>,
    /// Proves its permissions; given to it as `AOS_SECRET`.
    pub secret: Option<Secret>,
    /// Its network, if it has one.
    pub network: Option<NetworkAttachment>,
    /// The resources that it asked for and got.
    pub resources: Vec<ResourceGrant>,
    /// Where its state file is, if it keeps one.
    pub state_file: Option<PathBuf>,
    /// Where its storage is, if it has any.
    pub storage: Option<PathBuf>,
    /// How the init system restarts it.
    pub policy: RunPolicy,
}

/// Where the unpacked image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePaths {
    /// One folder per layer, the lowest first. Read-only for everybody.
    pub layers: Vec<PathBuf>,
}

/// A secret text. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Zeroizing<String>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A network made for an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAttachment {
    /// The network namespace, as a file that stays.
    pub namespace: PathBuf,
    /// Its address.
    pub address: IpAddr,
    /// Its host name.
    pub hostname: String,
    /// Lines for its `/etc/hosts`.
    pub hosts: Vec<HostEntry>,
    /// Name servers for its `/etc/resolv.conf`.
    pub name_servers: Vec<IpAddr>,
}

/// A name and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    /// The address.
    pub ip: IpAddr,
    /// The name.
    pub hostname: String,
}

/// What a resource of the node gives to an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceGrant {
    /// The resource's name.
    pub name: String,
    /// Devices as `(on the host, in the instance)`.
    pub devices: Vec<(PathBuf, PathBuf)>,
    /// Groups of the host that the instance joins.
    pub groups: Vec<String>,
    /// Folders as `(on the host, in the instance, read-only)`.
    pub mounts: Vec<(PathBuf, PathBuf, bool)>,
    /// Environment.
    pub env: Vec<EnvVar>,
    /// Host names.
    pub hosts: Vec<HostEntry>,
}

/// How the init system treats ends of the program, from the item's `runParameters`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPolicy {
    /// Before it is started again.
    pub restart_interval: Duration,
    /// So many starts within [`start_interval`](Self::start_interval) are too many.
    pub start_burst: u32,
    /// The time in which starts are counted.
    pub start_interval: Duration,
}
