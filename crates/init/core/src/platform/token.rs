//! What a ready descriptor is to core.

use muster_engine::ids::UnitId;

/// What became ready. Fits into the 64 bits that the kernel gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token {
    /// The link to `muster-init`.
    Init,
    /// The socket for sd_notify.
    Notify,
    /// The control socket or one of its clients.
    Control,
    /// One cgroup or more may be empty.
    Cgroups,
    /// The feed to `muster-logd` has room.
    Feed,
    /// The shared inotify descriptor of path units and watched files.
    Paths,
    /// The table of mounts.
    Mounts,
    /// The table of swaps.
    Swaps,
    /// Device events.
    Devices,
    /// The real-time clock was set.
    ClockChange,
    /// The watcher of bus names said something.
    BusWatch,
    /// The socket for those who ask for dynamic users, or one of its clients.
    Users,
    /// A generator ended.
    Generator(u32),
    /// The helper that sets this process up said something, or became it.
    Report(u32),
    /// A listening socket of a unit, by its place among the unit's.
    Listen(UnitId, u8),
}

impl Token {
    /// As 64 bits.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        let of = |kind: u64, high: u32, low: u32| {
            kind << 56 | u64::from(low & 0x00ff_ffff) << 32 | u64::from(high)
        };
        match self {
            Self::Init => of(1, 0, 0),
            Self::Notify => of(2, 0, 0),
            Self::Control => of(3, 0, 0),
            Self::Cgroups => of(5, 0, 0),
            Self::Feed => of(6, 0, 0),
            Self::Paths => of(7, 0, 0),
            Self::Mounts => of(8, 0, 0),
            Self::Swaps => of(9, 0, 0),
            Self::Devices => of(10, 0, 0),
            Self::ClockChange => of(11, 0, 0),
            Self::BusWatch => of(12, 0, 0),
            Self::Generator(number) => of(13, number, 0),
            Self::Listen(unit, index) => of(14, unit.0, index.into()),
            Self::Report(pid) => of(15, pid, 0),
            Self::Users => of(16, 0, 0),
        }
    }

    /// From what [`Token::to_bits`] gave.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        let [high0, high1, high2, high3, low, _, _, kind] = bits.to_le_bytes();
        let high = u32::from_le_bytes([high0, high1, high2, high3]);
        Some(match kind {
            1 => Self::Init,
            2 => Self::Notify,
            3 => Self::Control,
            5 => Self::Cgroups,
            6 => Self::Feed,
            7 => Self::Paths,
            8 => Self::Mounts,
            9 => Self::Swaps,
            10 => Self::Devices,
            11 => Self::ClockChange,
            12 => Self::BusWatch,
            13 => Self::Generator(high),
            14 => Self::Listen(UnitId(high), low),
            15 => Self::Report(high),
            16 => Self::Users,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_give_the_token_back() {
        let unit = UnitId(0xfedc_ba98);
        let all = [
            Token::Init,
            Token::Notify,
            Token::Control,
            Token::Cgroups,
            Token::Feed,
            Token::Paths,
            Token::Mounts,
            Token::Swaps,
            Token::Devices,
            Token::ClockChange,
            Token::BusWatch,
            Token::Users,
            Token::Generator(7),
            Token::Listen(unit, 255),
            Token::Report(4_194_304),
        ];
        for token in all {
            assert_eq!(Token::from_bits(token.to_bits()), Some(token));
        }
        assert_eq!(Token::from_bits(0), None);
    }
}
