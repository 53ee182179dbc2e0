//! Blocks of IPv4 addresses, and the pool that subnets are cut from.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use muster_api::domain::Subnet;
use thiserror::Error;

/// Addresses that share a prefix: `172.17.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    first: u32,
    prefix_length: u8,
}

/// This is no block of IPv4 addresses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is no IPv4 subnet (address/prefix length, with nothing set behind the prefix)")]
pub struct InvalidBlock {
    /// As given.
    pub text: String,
}

impl Block {
    /// Refuses prefixes beyond 32 and addresses with bits set behind the prefix.
    pub fn new(address: Ipv4Addr, prefix_length: u8) -> Result<Self, InvalidBlock> {
        let block = Self::around(address, prefix_length);
        block
            .filter(|block| block.first == u32::from(address))
            .ok_or_else(|| InvalidBlock {
                text: format!("{address}/{prefix_length}"),
            })
    }

    /// The block that an address lies in.
    fn around(address: Ipv4Addr, prefix_length: u8) -> Option<Self> {
        let behind = 32_u32.checked_sub(u32::from(prefix_length))?;
        let first = u32::from(address) & u32::MAX.checked_shl(behind).unwrap_or(0);
        Some(Self {
            first,
            prefix_length,
        })
    }

    /// What a node says it uses; `None` for IPv6, which cannot be in the way.
    pub(crate) fn of_subnet(subnet: &Subnet) -> Option<Self> {
        match subnet.address() {
            IpAddr::V4(address) => Self::around(address, subnet.prefix_length()),
            IpAddr::V6(_) => None,
        }
    }

    /// Its lowest address.
    pub fn first(self) -> Ipv4Addr {
        self.first.into()
    }

    /// How many leading bits its addresses share.
    pub fn prefix_length(self) -> u8 {
        self.prefix_length
    }

    /// Number of the last address, counted from 0.
    pub(crate) fn last_offset(self) -> u32 {
        u32::MAX
            .checked_shr(u32::from(self.prefix_length))
            .unwrap_or(0)
    }

    pub(crate) fn address(self, offset: u32) -> Ipv4Addr {
        debug_assert!(
            offset <= self.last_offset(),
            "addresses are taken from their block"
        );
        Ipv4Addr::from(self.first.wrapping_add(offset))
    }

    /// The other way round; `None` for addresses outside.
    pub(crate) fn offset(self, address: Ipv4Addr) -> Option<u32> {
        let offset = u32::from(address).checked_sub(self.first)?;
        (offset <= self.last_offset()).then_some(offset)
    }

    /// Whether an address lies in both.
    pub fn overlaps(self, other: Self) -> bool {
        let last = |block: Self| block.first.wrapping_add(block.last_offset());
        self.first <= last(other) && other.first <= last(self)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.prefix_length)
    }
}

impl FromStr for Block {
    type Err = InvalidBlock;

    fn from_str(text: &str) -> Result<Self, InvalidBlock> {
        let invalid = || InvalidBlock {
            text: text.chars().take(64).collect(),
        };
        let subnet: Subnet = text.parse().map_err(|_| invalid())?;
        let block = Self::of_subnet(&subnet).ok_or_else(invalid)?;
        match subnet.address() == IpAddr::V4(block.first()) {
            true => Ok(block),
            false => Err(invalid()),
        }
    }
}

impl From<Block> for Subnet {
    fn from(block: Block) -> Self {
        Self::new(IpAddr::V4(block.first()), block.prefix_length)
            .expect("the prefix of a block fits an IPv4 address")
    }
}

/// What subnets are cut from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetPool {
    ranges: Vec<Block>,
    prefix_length: u8,
}

/// No subnets can be cut from this.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidPool {
    /// Subnets must be able to hold a few hosts, and be fewer than 65537 in a range.
    #[error("subnets of prefix length {prefix_length} cannot be cut from {range}")]
    PrefixLength {
        /// Of the subnets.
        prefix_length: u8,
        /// What they are cut from.
        range: Block,
    },
    /// Addresses stand in it twice.
    #[error("{first} and {second} overlap")]
    Overlap {
        /// One.
        first: Block,
        /// The other.
        second: Block,
    },
}

impl SubnetPool {
    /// The longest prefix with which a subnet still has room for a node and some instances.
    const LONGEST_PREFIX: u8 = 29;

    /// Subnets of `prefix_length` from `ranges`, in their order.
    pub fn new(ranges: Vec<Block>, prefix_length: u8) -> Result<Self, InvalidPool> {
        for (index, range) in ranges.iter().enumerate() {
            let cuts = prefix_length.checked_sub(range.prefix_length);
            if prefix_length > Self::LONGEST_PREFIX || cuts.is_none_or(|cuts| cuts > 16) {
                let range = *range;
                return Err(InvalidPool::PrefixLength {
                    prefix_length,
                    range,
                });
            }
            if let Some(other) = ranges[..index].iter().find(|other| other.overlaps(*range)) {
                let (first, second) = (*other, *range);
                return Err(InvalidPool::Overlap { first, second });
            }
        }
        Ok(Self {
            ranges,
            prefix_length,
        })
    }

    /// All subnets, in order.
    pub(crate) fn subnets(&self) -> impl Iterator<Item = Block> {
        let prefix_length = self.prefix_length;
        self.ranges.iter().flat_map(move |range| {
            let count = 1_u32 << (prefix_length - range.prefix_length);
            let step = 1_u32 << (32 - prefix_length);
            (0..count).map(move |index| Block {
                first: range.first + index * step,
                prefix_length,
            })
        })
    }

    /// How many there are.
    pub(crate) fn size(&self) -> usize {
        self.subnets().count()
    }
}

impl Default for SubnetPool {
    fn default() -> Self {
        let range = |second: u8| Block {
            first: u32::from(Ipv4Addr::new(172, second, 0, 0)),
            prefix_length: 16,
        };
        Self {
            ranges: (17..=31).map(range).collect(),
            prefix_length: 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_have_one_form() {
        for text in ["172.17.0.0/16", "0.0.0.0/0", "10.0.0.1/32", "10.0.0.8/29"] {
            assert_eq!(block(text).to_string(), text);
            assert_eq!(Subnet::from(block(text)).to_string(), text);
        }
        for text in ["", "172.17.0.1/16", "10.0.0.0/33", "fd00::/64", "10.0.0.0"] {
            assert!(text.parse::<Block>().is_err(), "accepted {text:?}");
        }
    }

    #[test]
    fn overlap_is_seen_at_every_size() {
        let cases = [
            ("172.17.0.0/16", "172.17.3.0/24", true),
            ("172.17.0.0/16", "172.18.0.0/16", false),
            ("0.0.0.0/0", "255.255.255.255/32", true),
            ("10.0.0.0/31", "10.0.0.2/31", false),
        ];
        for (one, other, expected) in cases {
            assert_eq!(block(one).overlaps(block(other)), expected, "{one} {other}");
            assert_eq!(block(other).overlaps(block(one)), expected, "{other} {one}");
        }
    }

    #[test]
    fn the_pool_of_the_field_has_fifteen_subnets() {
        let pool = SubnetPool::default();
        let subnets: Vec<String> = pool.subnets().map(|subnet| subnet.to_string()).collect();
        assert_eq!(subnets.len(), 15);
        assert_eq!(subnets[0], "172.17.0.0/16");
        assert_eq!(subnets[14], "172.31.0.0/16");
        let checked = SubnetPool::new(pool.ranges.clone(), pool.prefix_length);
        assert_eq!(checked.unwrap(), pool);
    }

    #[test]
    fn pools_are_checked() {
        let cut = SubnetPool::new(vec![block("10.0.0.0/24")], 26).unwrap();
        let subnets: Vec<_> = cut.subnets().map(|subnet| subnet.to_string()).collect();
        let expected = [
            "10.0.0.0/26",
            "10.0.0.64/26",
            "10.0.0.128/26",
            "10.0.0.192/26",
        ];
        assert_eq!(subnets, expected);
        assert!(SubnetPool::new(vec![block("10.0.0.0/24")], 30).is_err());
        assert!(SubnetPool::new(vec![block("10.0.0.0/24")], 20).is_err());
        assert!(SubnetPool::new(vec![block("10.0.0.0/8")], 29).is_err());
        let twice = vec![block("10.0.0.0/24"), block("10.0.0.0/16")];
        assert!(matches!(
            SubnetPool::new(twice, 26),
            Err(InvalidPool::Overlap { .. })
        ));
    }
}
