//! A bridge whose ports hear only the node.
//!
//! What a bridge forwards between its ports never reaches the IP hooks, and the bridge's own hooks know no connections on many
//! kernels. So the ports are isolated, as in a private VLAN, and the node answers for all addresses of the subnet (`proxy_arp_pvlan`):
//! traffic between two instances of one network passes through the node's IP layer like any other, and one set of rules
//! decides on everything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::names::LinkName;
use crate::netlink::{self, Connection};

const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const LINK_HEADER: usize = 16;
const FAMILY_ANY: u8 = 0;
const FAMILY_BRIDGE: u8 = 7;
const MASTER: u16 = 10;
const PROTOCOL_INFO: u16 = 12;
const WANTED: u16 = 29;
/// Leaves the counters out of answers.
const WITHOUT_STATISTICS: u32 = 8;
const PORT_ISOLATED: u16 = 33;

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
    let index = index_of(bridge).map_err(SeparatePortsError::Find)?;
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
    let mut kernel = Connection::open(None).map_err(SeparatePortsError::List)?;
    let ports = ports_of(&mut kernel, index).map_err(SeparatePortsError::List)?;
    for index in ports {
        match isolate(&mut kernel, index) {
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

/// The index of a link in the caller's network namespace.
fn index_of(link: &LinkName) -> io::Result<u32> {
    // Any socket will do to ask.
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(netdevice::name_to_index(socket, link.as_str())?)
}

/// The indices of a bridge's ports. The files under `/sys` would show the network namespace in which they were mounted.
fn ports_of(kernel: &mut Connection, bridge: u32) -> io::Result<Vec<u32>> {
    let mut body = link_header(FAMILY_ANY, 0);
    netlink::push_attribute(&mut body, MASTER, &bridge.to_ne_bytes());
    netlink::push_attribute(&mut body, WANTED, &WITHOUT_STATISTICS.to_ne_bytes());
    // On a node that starts many instances, links come and go while they are listed.
    kernel.list(GET_LINK, &body, |ports: &mut Vec<u32>, link| {
        // Kernels that do not know the filter send all links.
        let master = link
            .get(LINK_HEADER..)
            .and_then(|rest| netlink::attribute(rest, MASTER));
        if master == Some(&bridge.to_ne_bytes()) {
            let index = link.get(4..8).and_then(|bytes| bytes.try_into().ok());
            ports.extend(index.map(u32::from_ne_bytes));
        }
    })
}

/// Lets a port of a bridge hear only what the node itself sends, and ports that are not isolated.
fn isolate(kernel: &mut Connection, port: u32) -> io::Result<()> {
    let mut isolated = Vec::new();
    netlink::push_attribute(&mut isolated, PORT_ISOLATED, &[1]);
    let mut body = link_header(FAMILY_BRIDGE, port);
    netlink::push_nested(&mut body, PROTOCOL_INFO, &isolated);
    kernel.exchange(SET_LINK, netlink::ACKNOWLEDGE, &body, |_| {})
}

fn link_header(family: u8, index: u32) -> Vec<u8> {
    let mut header = vec![0; LINK_HEADER];
    header[0] = family;
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}
