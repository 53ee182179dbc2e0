//! The kernel's links, addresses and routes: read, and changed step by step.
//!
//! Everything here blocks for the fraction of a millisecond that the kernel takes, on a socket that is made anew each time:
//! networks change rarely.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkBuffer,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily as SocketFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use sha2::{Digest as _, Sha256};

use crate::links::{Destination, Link, LinkKind, LinkStep, Links};
use crate::settings::LinkName;

/// A dump comes in parts of at most this size.
const PART: usize = 64 * 1024;
/// Marks routes as Muster's: the number of the letter M, which the kernel's list leaves free.
const OWN_ROUTES: RouteProtocol = RouteProtocol::Other(77);

/// Why the kernel's links could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// They could not be read.
    #[error("cannot read this node's links")]
    Read(#[source] io::Error),
    /// One could not be changed.
    #[error("cannot {operation} link {link}")]
    Change {
        /// What was to be done.
        operation: &'static str,
        /// To which link.
        link: LinkName,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel has no VLANs.
    #[error("cannot make link {link} with tag {tag}: this kernel has no VLANs (module 8021q)")]
    NoVlans {
        /// Its name.
        link: LinkName,
        /// Its tag.
        tag: u16,
    },
}

struct Socket(OwnedFd);

impl Socket {
    fn open() -> io::Result<Self> {
        // Routes are netlink's protocol 0, which is that of no name.
        let (family, kind) = (SocketFamily::NETLINK, SocketType::RAW);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self(socket))
    }

    fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut packet = NetlinkMessage::from(message);
        packet.header.flags = NLM_F_REQUEST | flags;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        rustix::net::send(&self.0, &bytes, SendFlags::empty())?;
        Ok(())
    }

    /// Hands every answer to `take`, until the kernel says that it was the last one.
    fn receive(&self, mut take: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
        let mut part = vec![0; PART];
        loop {
            let (_, count) = rustix::net::recv(&self.0, &mut part[..], RecvFlags::TRUNC)?;
            let mut rest = part.get(..count).ok_or(io::ErrorKind::FileTooLarge)?;
            while !rest.is_empty() {
                let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                let packet =
                    NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(invalid)?;
                let length =
                    usize::try_from(NetlinkBuffer::new(rest).length()).unwrap_or(rest.len());
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                match packet.payload {
                    NetlinkPayload::InnerMessage(message) => take(message),
                    NetlinkPayload::Error(error) => {
                        return error.code.map_or(Ok(()), |_| Err(error.to_io()));
                    }
                    NetlinkPayload::Done(_) => return Ok(()),
                    _ => {}
                }
            }
        }
    }

    fn change(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(message, NLM_F_ACK | flags)?;
        self.receive(drop)
    }
}

/// All links of this network namespace.
pub(crate) fn read() -> Result<Links, LinkError> {
    look().map_err(LinkError::Read)
}

fn look() -> io::Result<Links> {
    let socket = Socket::open()?;
    let mut links = BTreeMap::new();
    socket.send(
        RouteNetlinkMessage::GetLink(LinkMessage::default()),
        NLM_F_DUMP,
    )?;
    socket.receive(|message| {
        if let RouteNetlinkMessage::NewLink(message) = message
            && let Some((name, link)) = link_of(&message)
        {
            links.insert(name, link);
        }
    })?;
    socket.send(
        RouteNetlinkMessage::GetAddress(AddressMessage::default()),
        NLM_F_DUMP,
    )?;
    socket.receive(|message| {
        let RouteNetlinkMessage::NewAddress(message) = message else {
            return;
        };
        let index = message.header.index;
        let link = links.values_mut().find(|it: &&mut Link| it.index == index);
        if let (Some(link), Some(address)) = (link, address_of(&message)) {
            link.addresses.push((address, message.header.prefix_len));
        }
    })?;
    socket.send(
        RouteNetlinkMessage::GetRoute(RouteMessage::default()),
        NLM_F_DUMP,
    )?;
    socket.receive(|message| {
        let RouteNetlinkMessage::NewRoute(message) = message else {
            return;
        };
        if let Some((index, to)) = own_route_of(&message)
            && let Some(link) = links.values_mut().find(|it: &&mut Link| it.index == index)
        {
            link.routes.insert(to);
        }
    })?;
    Ok(links)
}

fn own_route_of(message: &RouteMessage) -> Option<(u32, Destination)> {
    if message.header.protocol != OWN_ROUTES {
        return None;
    }
    let index = message.attributes.iter().find_map(|it| match it {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    });
    let address = message.attributes.iter().find_map(|it| match it {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    });
    Some((index?, (address?, message.header.destination_prefix_length)))
}

fn link_of(message: &LinkMessage) -> Option<(String, Link)> {
    let (mut name, mut parent) = (None, 0);
    let (mut kind, mut tag) = (None, 0);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text.clone()),
            LinkAttribute::Link(index) => parent = *index,
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(found) => kind = Some(found.clone()),
                        LinkInfo::Data(InfoData::Vlan(data)) => {
                            let id = data.iter().find_map(|it| match it {
                                InfoVlan::Id(id) => Some(*id),
                                _ => None,
                            });
                            tag = id.unwrap_or(0);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let kind = match kind {
        Some(InfoKind::Bridge) => LinkKind::Bridge,
        Some(InfoKind::Vlan) => LinkKind::Vlan { parent, tag },
        _ => LinkKind::Other,
    };
    let link = Link {
        index: message.header.index,
        kind,
        up: message.header.flags.contains(LinkFlags::Up),
        addresses: Vec::new(),
        routes: BTreeSet::new(),
    };
    Some((name?, link))
}

/// Of a link with a peer, the local one is the own.
fn address_of(message: &AddressMessage) -> Option<IpAddr> {
    let local = message.attributes.iter().find_map(|it| match it {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        message.attributes.iter().find_map(|it| match it {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

/// Carries one step out. What is there already or gone already is as it should be.
pub(crate) fn carry_out(step: &LinkStep) -> Result<(), LinkError> {
    let (operation, link) = match step {
        LinkStep::MakeBridge(link) => ("make the bridge", link),
        LinkStep::MakeVlan { name, .. } => ("make the tagged", name),
        LinkStep::AddAddress(link, ..) => ("give an address to", link),
        LinkStep::RemoveAddress(link, ..) => ("take an address from", link),
        LinkStep::SetUp(link) => ("set up the", link),
        LinkStep::AddRoute { link, .. } => ("make a route by", link),
        LinkStep::RemoveRoute { link, .. } => ("remove a route by", link),
        LinkStep::Remove(link) => ("remove the", link),
    };
    match (change(step), step) {
        (Ok(()), _) => Ok(()),
        (Err(error), LinkStep::MakeVlan { name, tag, .. })
            if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) =>
        {
            Err(LinkError::NoVlans {
                link: name.clone(),
                tag: *tag,
            })
        }
        (Err(source), _) => Err(LinkError::Change {
            operation,
            link: link.clone(),
            source,
        }),
    }
}

fn change(step: &LinkStep) -> io::Result<()> {
    let socket = Socket::open()?;
    let new = NLM_F_CREATE | NLM_F_EXCL;
    match step {
        LinkStep::MakeBridge(name) => {
            let data = InfoData::Bridge(vec![
                InfoBridge::ForwardDelay(0),
                InfoBridge::StpState(0.into()),
            ]);
            let info = vec![LinkInfo::Kind(InfoKind::Bridge), LinkInfo::Data(data)];
            let mut message = new_link(name, info);
            let address = LinkAttribute::Address(hardware_address(name).to_vec());
            message.attributes.push(address);
            socket.change(RouteNetlinkMessage::NewLink(message), new)
        }
        LinkStep::MakeVlan { name, parent, tag } => {
            let data = InfoData::Vlan(vec![InfoVlan::Id(*tag)]);
            let mut message = new_link(
                name,
                vec![LinkInfo::Kind(InfoKind::Vlan), LinkInfo::Data(data)],
            );
            message
                .attributes
                .push(LinkAttribute::Link(index_of(parent)?));
            socket.change(RouteNetlinkMessage::NewLink(message), new)
        }
        LinkStep::AddAddress(name, address, length) => {
            let message = address_message(name, *address, *length)?;
            socket.change(RouteNetlinkMessage::NewAddress(message), new)
        }
        LinkStep::RemoveAddress(name, address, length) => {
            let message = address_message(name, *address, *length)?;
            socket.change(RouteNetlinkMessage::DelAddress(message), 0)
        }
        LinkStep::SetUp(link) => {
            let mut message = of_link(link)?;
            message.header.flags = LinkFlags::Up;
            message.header.change_mask = LinkFlags::Up;
            socket.change(RouteNetlinkMessage::SetLink(message), 0)
        }
        LinkStep::AddRoute { link, to, from } => {
            let mut message = route_message(link, *to)?;
            message
                .attributes
                .push(RouteAttribute::PrefSource(route_address(*from)));
            let replace = NLM_F_CREATE | NLM_F_REPLACE;
            socket.change(RouteNetlinkMessage::NewRoute(message), replace)
        }
        LinkStep::RemoveRoute { link, to } => {
            let message = route_message(link, *to)?;
            socket.change(RouteNetlinkMessage::DelRoute(message), 0)
        }
        LinkStep::Remove(link) => socket.change(RouteNetlinkMessage::DelLink(of_link(link)?), 0),
    }
}

fn new_link(name: &LinkName, info: Vec<LinkInfo>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message
        .attributes
        .push(LinkAttribute::IfName(name.to_string()));
    message.attributes.push(LinkAttribute::LinkInfo(info));
    message
}

/// Without one of its own a bridge has that of some port, and with that port it goes: instances would then talk to nobody
/// until they notice.
fn hardware_address(name: &LinkName) -> [u8; 6] {
    let digest = Sha256::digest(name.as_str());
    let mut address = [0; 6];
    address.copy_from_slice(&digest[..6]);
    // Given by an administrator, and of one link.
    address[0] = address[0] & 0xfc | 0x02;
    address
}

fn of_link(name: &LinkName) -> io::Result<LinkMessage> {
    let mut message = LinkMessage::default();
    message.header.index = index_of(name)?;
    Ok(message)
}

fn index_of(name: &LinkName) -> io::Result<u32> {
    let socket = rustix::net::socket(SocketFamily::INET, SocketType::DGRAM, None)?;
    Ok(rustix::net::netdevice::name_to_index(
        &socket,
        name.as_str(),
    )?)
}

fn address_message(name: &LinkName, address: IpAddr, length: u8) -> io::Result<AddressMessage> {
    let mut message = AddressMessage::default();
    message.header.index = index_of(name)?;
    message.header.prefix_len = length;
    message.header.family = family_of(address);
    message.attributes.push(AddressAttribute::Local(address));
    message.attributes.push(AddressAttribute::Address(address));
    Ok(message)
}

fn route_message(link: &LinkName, (address, length): Destination) -> io::Result<RouteMessage> {
    let mut message = RouteMessage::default();
    message.header.address_family = family_of(address);
    message.header.destination_prefix_length = length;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = OWN_ROUTES;
    message.header.scope = RouteScope::Link;
    message.header.kind = RouteType::Unicast;
    message
        .attributes
        .push(RouteAttribute::Destination(route_address(address)));
    message
        .attributes
        .push(RouteAttribute::Oif(index_of(link)?));
    Ok(message)
}

fn route_address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}

fn family_of(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
