//! A bridge whose ports hear only the node.
//!
//! What a bridge forwards between its ports never reaches the IP hooks, and the bridge's own hooks know no connections on many
//! kernels. So the ports are isolated, as in a private VLAN, and the node answers for all addresses of the subnet (`proxy_arp_pvlan`):
//! traffic between two instances of one network passes through the node's IP layer like any other, and one set of rules
//! decides on everything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::names::LinkName;

mod netlink;

/// Why the ports of a bridge could not be kept apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeparatePortsError {
    /// There is no such link.
    #[error("the link does not exist, or cannot be looked up")]
    Find(#[source] io::Error),
    /// A setting of the bridge could not be made.
    #[error("cannot set {}", path.display())]
    Setting {
        /// The setting's file.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// The ports could not be listed.
    #[error("cannot list the ports")]
    List(#[source] io::Error),
    /// A port could not be isolated.
    #[error("cannot isolate the port with the index {index}")]
    Isolate {
        /// The port's index.
        index: u32,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
}

/// Isolates every port that the bridge has now, and makes the node answer for its addresses.
pub(crate) fn separate_ports(bridge: &LinkName) -> Result<(), SeparatePortsError> {
    let mut kernel = netlink::Route::open().map_err(SeparatePortsError::List)?;
    let index = netlink::index_of(bridge).map_err(SeparatePortsError::Find)?;
    let settings = [
        (format!("conf/{bridge}/forwarding"), "1"),
        (format!("conf/{bridge}/proxy_arp_pvlan"), "1"),
        // Answers for others are held back by up to 0.8 s, which makes sense on shared media only.
        (format!("neigh/{bridge}/proxy_delay"), "0"),
    ];
    for (setting, value) in settings {
        let path = Path::new("/proc/sys/net/ipv4").join(setting);
        set(&path, value).map_err(|source| SeparatePortsError::Setting { path, source })?;
    }
    // Instances have IPv4 addresses only; what has no address cannot be reached.
    let path = Path::new("/proc/sys/net/ipv6/conf")
        .join(bridge.as_str())
        .join("disable_ipv6");
    match set(&path, "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        outcome => outcome.map_err(|source| SeparatePortsError::Setting { path, source })?,
    }
    let ports = kernel.ports_of(index).map_err(SeparatePortsError::List)?;
    for index in ports {
        match kernel.isolate(index) {
            Ok(()) => {}
            // It left the bridge meanwhile.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
            }
            Err(source) => return Err(SeparatePortsError::Isolate { index, source }),
        }
    }
    Ok(())
}

/// Writes only what differs, since settings may be read-only and right.
fn set(path: &Path, value: &str) -> io::Result<()> {
    if fs::read_to_string(path)?.trim() == value {
        return Ok(());
    }
    fs::write(path, value)
}
