//! States and kinds that travel as text or as a number. The unknown is refused, not guessed.

use std::fmt;
use std::str::FromStr;

use crate::common::v2 as common;
use crate::servicemanager::v5 as sm;

use super::error::{Excerpt, InvalidValue, Problem};

macro_rules! text_enum {
    (
        $(#[$doc:meta])*
        $name:ident, $what:literal, {
            $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl FromStr for $name {
            type Err = InvalidValue;

            fn from_str(text: &str) -> Result<Self, InvalidValue> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(InvalidValue::new($what, Problem::Unknown {
                        value: Excerpt::new(text),
                        expected: concat!($($text, " ",)+).trim_ascii_end(),
                    })),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

text_enum!(
    /// How an instance is.
    InstanceState, "instance state", {
        /// Being started.
        Activating = "activating",
        /// Running.
        Active = "active",
        /// Not running, and not meant to.
        Inactive = "inactive",
        /// Could not be started, or ended although it should run.
        Failed = "failed",
    }
);

text_enum!(
    /// How far an item is on its way to a device or away from it.
    ItemState, "item state", {
        /// Nobody has looked yet.
        Unknown = "unknown",
        /// Being fetched.
        Downloading = "downloading",
        /// Fetched; waits for its turn.
        Pending = "pending",
        /// Being installed.
        Installing = "installing",
        /// Usable.
        Installed = "installed",
        /// Being removed.
        Removing = "removing",
        /// Gone.
        Removed = "removed",
        /// The last step failed.
        Failed = "failed",
    }
);

text_enum!(
    /// Membership of a node.
    NodeState, "node state", {
        /// Has no certificates of the device yet.
        Unprovisioned = "unprovisioned",
        /// A member.
        Provisioned = "provisioned",
        /// A member that gets no instances.
        Paused = "paused",
        /// Provisioning or the node itself failed.
        Error = "error",
    }
);

text_enum!(
    /// State of a node's configuration.
    NodeConfigState, "node configuration state", {
        /// The node never got one.
        Absent = "absent",
        /// In force.
        Installed = "installed",
        /// Refused.
        Failed = "failed",
    }
);

text_enum!(
    /// Phase of a quota alert.
    AlertStatus, "alert status", {
        /// The upper threshold was passed.
        Raise = "raise",
        /// Still above the lower threshold.
        Continue = "continue",
        /// Below the lower threshold again.
        Fall = "fall",
    }
);

text_enum!(
    /// What a part of a log is.
    LogStatus, "log status", {
        /// Holds log entries.
        Ok = "ok",
        /// There were no entries in the wanted time.
        Empty = "empty",
        /// There is no such instance.
        Absent = "absent",
        /// The log could not be read.
        Error = "error",
    }
);

macro_rules! number_enum {
    (
        $(#[$doc:meta])*
        $name:ident, $what:literal, $wire:path, $expected:literal, {
            $($(#[$variant_doc:meta])* $variant:ident,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl TryFrom<i32> for $name {
            type Error = InvalidValue;

            fn try_from(number: i32) -> Result<Self, InvalidValue> {
                match <$wire>::try_from(number) {
                    $(Ok(<$wire>::$variant) => Ok(Self::$variant),)+
                    Err(_) => Err(InvalidValue::new($what, Problem::Unknown {
                        value: Excerpt::number(number),
                        expected: $expected,
                    })),
                }
            }
        }

        impl From<$name> for $wire {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => <$wire>::$variant,)+
                }
            }
        }

        impl From<$name> for i32 {
            fn from(value: $name) -> i32 {
                <$wire>::from(value).into()
            }
        }
    };
}

number_enum!(
    /// What kind of thing an item is.
    ItemType, "item type", common::ItemType, "0 (service) 1 (component)", {
        /// Runs for a subject, may be placed on any fitting node.
        Service,
        /// Part of a node's own system; stays on its node.
        Component,
    }
);

number_enum!(
    /// Whether the device can reach the cloud.
    ConnectionState, "connection state", sm::ConnectionEnum, "0 (disconnected) 1 (connected)", {
        /// It cannot.
        Disconnected,
        /// It can.
        Connected,
    }
);

number_enum!(
    /// How far a download is.
    DownloadState, "download state", sm::DownloadState,
    "0 (in progress) 1 (completed) 2 (canceled) 3 (failed)", {
        /// More content follows.
        InProgress,
        /// This was the last content.
        Completed,
        /// Ended by whoever asked for it.
        Canceled,
        /// Ended by an error.
        Failed,
    }
);

/// What a certificate is for.
///
/// The five that the managers themselves use are named. Devices configure others (`um`,
/// `diskencryption` ...), and the managers pass those through without knowing them: refusing them
/// would make such a device impossible to provision, so they are kept as [`CertType::Other`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertType {
    /// Proves the device's identity while it is provisioned; kept off line.
    Offline,
    /// Connects to the cloud.
    Online,
    /// Identity and Access Manager.
    Iam,
    /// Communication Manager.
    Cm,
    /// Service Manager.
    Sm,
    /// A type that only the device's configuration knows.
    Other(CertTypeName),
}

/// Name of a certificate type that is none of the named ones: 1 to 64 of `a-z 0-9 - _`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertTypeName(Box<str>);

impl CertType {
    const MAX_NAME_BYTES: usize = 64;

    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Offline => "offline",
            Self::Online => "online",
            Self::Iam => "iam",
            Self::Cm => "cm",
            Self::Sm => "sm",
            Self::Other(name) => &name.0,
        }
    }
}

impl FromStr for CertType {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let is_name_byte = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        };
        match text {
            "" => Err(InvalidValue::new("certificate type", Problem::Missing)),
            "offline" => Ok(Self::Offline),
            "online" => Ok(Self::Online),
            "iam" => Ok(Self::Iam),
            "cm" => Ok(Self::Cm),
            "sm" => Ok(Self::Sm),
            name if name.len() <= Self::MAX_NAME_BYTES && name.bytes().all(is_name_byte) => {
                Ok(Self::Other(CertTypeName(name.into())))
            }
            name => Err(InvalidValue::new(
                "certificate type",
                Problem::Malformed {
                    value: Excerpt::new(name),
                    expected: "1 to 64 of a-z 0-9 - _",
                },
            )),
        }
    }
}

impl fmt::Display for CertType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_and_nothing_else_does() {
        fn check<T>(all: &[T], word: fn(T) -> &'static str)
        where
            T: Copy + fmt::Debug + PartialEq + FromStr<Err = InvalidValue>,
        {
            for value in all {
                assert_eq!(word(*value).parse::<T>(), Ok(*value));
                assert!(word(*value).to_uppercase().parse::<T>().is_err());
                assert!(format!("{} ", word(*value)).parse::<T>().is_err());
            }
            assert!("".parse::<T>().is_err());
            assert!("stopped".parse::<T>().is_err());
        }
        check(InstanceState::ALL, InstanceState::as_str);
        check(ItemState::ALL, ItemState::as_str);
        check(NodeState::ALL, NodeState::as_str);
        check(NodeConfigState::ALL, NodeConfigState::as_str);
        check(AlertStatus::ALL, AlertStatus::as_str);
        check(LogStatus::ALL, LogStatus::as_str);
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        assert_eq!(
            "stopped".parse::<InstanceState>().unwrap_err().to_string(),
            "instance state: \"stopped\" is none of activating active inactive failed"
        );
    }

    #[test]
    fn numbers_map_both_ways_and_unknown_ones_are_refused() {
        for number in -1..8 {
            let known = DownloadState::try_from(number).map(i32::from);
            assert_eq!(known.ok(), (0..4).contains(&number).then_some(number));
            let known = ItemType::try_from(number).map(i32::from);
            assert_eq!(known.ok(), (0..2).contains(&number).then_some(number));
            let known = ConnectionState::try_from(number).map(i32::from);
            assert_eq!(known.ok(), (0..2).contains(&number).then_some(number));
        }
    }

    #[test]
    fn certificate_types_beyond_the_named_ones_are_kept() {
        for name in [
            "offline",
            "online",
            "iam",
            "cm",
            "sm",
            "um",
            "host-device",
            "azure_iot",
        ] {
            assert_eq!(name.parse::<CertType>().unwrap().to_string(), name);
        }
        assert!(matches!("sm".parse(), Ok(CertType::Sm)));
        for name in ["", "SM", "a b", "../key", "a/b", "a\0", &"x".repeat(65)] {
            assert!(name.parse::<CertType>().is_err(), "accepted {name:?}");
        }
    }
}
