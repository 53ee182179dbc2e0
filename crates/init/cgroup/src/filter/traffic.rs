//! Whom processes may talk to, and how much they do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::assembly::{Assembly, If, Label, RESULT, STACK};
use super::{Hook, Program};

/// Most networks of one filter. The kernel's check of a program follows so many branches and not many more.
const MAX_NETWORKS: usize = 2048;
/// Bytes of what is counted: packets, then bytes, 64 bits each.
pub const COUNTERS_SIZE: u32 = 16;

const PACKET: u8 = 6;
const PROTOCOL: u8 = 7;
const INTERFACE: u8 = 7;
/// Where on the stack an address is put.
const ADDRESS_AT: i16 = -16;
/// Where on the stack the key of the counters is put.
const KEY_AT: i16 = -20;
const LENGTH_OF_PACKET: i16 = 0;
const PROTOCOL_OF_PACKET: i16 = 16;
const INTERFACE_OF_PACKET: i16 = 40;
const ETHERTYPE_V4: u16 = 0x0800;
const ETHERTYPE_V6: u16 = 0x86dd;
/// The kernel's functions by their numbers.
const FIND_IN_MAP: i32 = 1;
const LOAD_BYTES: i32 = 26;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To a process.
    In,
    /// From a process.
    Out,
}

/// An address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address.
    pub address: IpAddr,
    /// How many bits count; more than there are is all.
    pub length: u8,
}

impl Network {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let length = u32::from(self.length);
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - length.min(32);
                (own.to_bits() ^ other.to_bits())
                    .checked_shr(shift)
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - length.min(128);
                (own.to_bits() ^ other.to_bits())
                    .checked_shr(shift)
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }

    /// What tells networks apart: those that one covers come right behind it.
    fn order(&self) -> (bool, u128, u8) {
        let (bits, most) = match self.address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let length = self.length.min(most);
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        (self.address.is_ipv6(), bits & mask, length)
    }

    fn covers(&self, other: &Self) -> bool {
        self.order().2 <= other.order().2 && self.contains(other.address)
    }

    /// Words of the address as they lie in a packet, with the bits of each that count.
    fn words(&self) -> Vec<(u32, u32)> {
        let octets = match self.address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let mut left = u32::from(self.length);
        let mut words = Vec::new();
        for part in octets.chunks_exact(4) {
            let counted = left.min(32);
            left -= counted;
            let mask = u32::MAX.checked_shl(32 - counted).unwrap_or(0);
            let mask = u32::from_ne_bytes(mask.to_be_bytes());
            let word = <[u8; 4]>::try_from(part).map_or(0, u32::from_ne_bytes);
            words.push((word & mask, mask));
        }
        words
    }
}

/// The same list without what another entry of it covers: slices often repeat what their units say.
fn without_covered(mut list: Vec<Network>) -> Vec<Network> {
    list.sort_by_key(Network::order);
    list.dedup_by(|next, kept| kept.covers(next));
    list
}

/// Network interfaces that packets may come or go by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interfaces {
    /// By any.
    #[default]
    Any,
    /// By those with these numbers.
    Only(Vec<u32>),
    /// By others than those with these numbers.
    Not(Vec<u32>),
}

impl Interfaces {
    /// By those that both allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let without = |mut list: Vec<u32>, others: &[u32]| {
            list.retain(|number| !others.contains(number));
            Self::Only(list)
        };
        match (self, other) {
            (Self::Any, one) | (one, Self::Any) => one,
            (Self::Only(mut list), Self::Only(others)) => {
                list.retain(|number| others.contains(number));
                Self::Only(list)
            }
            (Self::Only(list), Self::Not(others)) | (Self::Not(others), Self::Only(list)) => {
                without(list, &others)
            }
            (Self::Not(mut list), Self::Not(others)) => {
                list.extend(others);
                list.sort_unstable();
                list.dedup();
                Self::Not(list)
            }
        }
    }

    fn allows(&self, interface: u32) -> bool {
        match self {
            Self::Any => true,
            Self::Only(list) => list.contains(&interface),
            Self::Not(list) => !list.contains(&interface),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Any => 0,
            Self::Only(list) | Self::Not(list) => list.len(),
        }
    }
}

/// More networks and interfaces than a filter can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} networks and interfaces are more than the {MAX_NETWORKS} that a filter can have")]
pub struct TooManyNetworks(pub usize);

/// Peers that are allowed, those that are not, and everybody else is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficFilter {
    allow: Vec<Network>,
    deny: Vec<Network>,
    interfaces: Interfaces,
    counts: bool,
}

impl TrafficFilter {
    /// A filter that counts what it lets through if it is asked to.
    ///
    /// # Errors
    /// There are too many networks.
    pub fn new(
        allow: Vec<Network>,
        deny: Vec<Network>,
        interfaces: Interfaces,
        counts: bool,
    ) -> Result<Self, TooManyNetworks> {
        let (allow, deny) = (without_covered(allow), without_covered(deny));
        let count = allow.len() + deny.len() + interfaces.len();
        if count > MAX_NETWORKS {
            return Err(TooManyNetworks(count));
        }
        Ok(Self {
            allow,
            deny,
            interfaces,
            counts,
        })
    }

    /// One that lets nothing through.
    #[must_use]
    pub fn closed() -> Self {
        let everybody = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let deny = everybody.map(|address| Network { address, length: 0 });
        Self {
            deny: deny.into(),
            ..Self::default()
        }
    }

    /// Whether this peer may be talked to by way of this interface.
    #[must_use]
    pub fn allows(&self, peer: IpAddr, interface: u32) -> bool {
        let lists = |list: &[Network]| list.iter().any(|network| network.contains(peer));
        self.interfaces.allows(interface) && (lists(&self.allow) || !lists(&self.deny))
    }

    /// All settings that are without effect where the kernel does not take the programs, the most important one first.
    fn settings(&self) -> Vec<&'static str> {
        let interfaces = self.interfaces != Interfaces::Any;
        [
            ("IPAddressDeny", !self.deny.is_empty()),
            ("RestrictNetworkInterfaces", interfaces),
            ("IPAccounting", self.counts),
        ]
        .into_iter()
        .filter_map(|(setting, is_used)| is_used.then_some(setting))
        .collect()
    }

    /// The same for the kernel, for both ways.
    pub(crate) fn programs(&self) -> [Program; 2] {
        [
            (Hook::Ingress, Direction::In),
            (Hook::Egress, Direction::Out),
        ]
        .map(|(hook, direction)| Program {
            settings: self.settings(),
            hook,
            counts: self.counts,
            function: None,
            instructions: self.instructions(direction),
        })
    }

    fn instructions(&self, direction: Direction) -> Vec<super::Instruction> {
        let mut code = Assembly::default();
        let (mut pass, mut drop) = (Label::default(), Label::default());
        code.copy(PACKET, 1);
        if !self.judge_interface(&mut code, &mut drop) {
            // The kernel takes no program with a part that is never reached.
            code.place(drop);
            code.end(false);
            return code.finish();
        }
        // Without anybody who is refused, nobody has to be looked at.
        if !self.deny.is_empty() {
            code.load(PROTOCOL, PACKET, PROTOCOL_OF_PACKET);
            let families = [(ETHERTYPE_V4, 4, [12, 16]), (ETHERTYPE_V6, 16, [8, 24])];
            for (ethertype, size, places) in families {
                let mut other = Label::default();
                let number = u32::from(ethertype.to_be());
                code.jump_if(PROTOCOL, If::Differs, number, &mut other);
                let place = match direction {
                    Direction::In => places[0],
                    Direction::Out => places[1],
                };
                load_address(&mut code, place, size, &mut drop);
                if self.judge(&mut code, size, &mut pass, &mut drop) {
                    code.jump(&mut pass);
                }
                code.place(other);
            }
        }
        code.place(pass);
        if self.counts {
            count(&mut code);
        }
        code.end(true);
        if drop.is_used() {
            code.place(drop);
            code.end(false);
        }
        code.finish()
    }

    /// Drops what comes or goes by another interface; whether anything is left.
    fn judge_interface(&self, code: &mut Assembly, drop: &mut Label) -> bool {
        let (list, is_allowed) = match &self.interfaces {
            Interfaces::Any => return true,
            Interfaces::Only(list) => (list, true),
            Interfaces::Not(list) => (list, false),
        };
        code.load(INTERFACE, PACKET, INTERFACE_OF_PACKET);
        let mut listed = Label::default();
        for number in list {
            let label = if is_allowed { &mut listed } else { &mut *drop };
            code.jump_if(INTERFACE, If::Equal, *number, label);
        }
        if is_allowed {
            code.jump(drop);
        }
        let is_left = !is_allowed || listed.is_used();
        code.place(listed);
        is_left
    }

    /// Goes through both lists; whether an address may be in neither.
    fn judge(&self, code: &mut Assembly, size: i32, pass: &mut Label, drop: &mut Label) -> bool {
        let is_of_family = |network: &&Network| network.address.is_ipv4() == (size == 4);
        let allow = self.allow.iter().map(|network| (network, true));
        let deny = self.deny.iter().map(|network| (network, false));
        for (network, allowed) in allow
            .chain(deny)
            .filter(|(network, _)| is_of_family(network))
        {
            let verdict = if allowed { &mut *pass } else { &mut *drop };
            let mut next = Label::default();
            for (register, (word, mask)) in (1..).zip(network.words()) {
                if mask == 0 {
                    continue;
                }
                // Always on a copy: the kernel's check would carry what it learns of the address itself through all rules that
                // follow, once for every rule that came before.
                code.copy(5, register);
                code.mask(5, mask);
                code.jump_if(5, If::Differs, word, &mut next);
            }
            code.jump(verdict);
            if !next.is_used() {
                return false;
            }
            code.place(next);
        }
        true
    }
}

/// Puts the peer's address into registers from 1 on. A packet that is too short for one does not pass.
fn load_address(code: &mut Assembly, place: i32, size: i32, drop: &mut Label) {
    code.copy(1, PACKET);
    code.set(2, place);
    code.copy(3, STACK);
    code.add_number(3, ADDRESS_AT.into());
    code.set(4, size);
    code.call(LOAD_BYTES);
    code.jump_if(RESULT, If::Differs, 0, drop);
    let mut at = ADDRESS_AT;
    for register in 1..=u8::try_from(size / 4).unwrap_or(1) {
        code.load(register, STACK, at);
        at += 4;
    }
}

/// Counts the packet in the one place of the array.
fn count(code: &mut Assembly) {
    let mut missing = Label::default();
    code.store(STACK, KEY_AT, 0);
    code.load_map(1);
    code.copy(2, STACK);
    code.add_number(2, KEY_AT.into());
    code.call(FIND_IN_MAP);
    // The kernel wants it looked at, though an array has all of its places.
    code.jump_if_null(RESULT, &mut missing);
    code.set(1, 1);
    code.add_in_memory(RESULT, 0, 1);
    code.load(1, PACKET, LENGTH_OF_PACKET);
    code.add_in_memory(RESULT, 8, 1);
    code.place(missing);
}
