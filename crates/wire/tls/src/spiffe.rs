//! The names Muster's processes have: `spiffe://<system id>/node/<node id>/<role>`.
//!
//! The parser is strict on purpose. Two spellings of one name would be two keys in somebody's
//! permission table, so there is exactly one spelling: no percent-encoding, no port, no user, no
//! query, no fragment, no empty or dot segments, and lower case for the scheme, system and role.

use std::fmt;
use std::str::FromStr;

/// The SPIFFE specification lets implementations refuse anything longer.
const MAX_URI_LEN: usize = 2048;
/// Longest system id: the SPIFFE specification's limit for a trust domain.
const MAX_SYSTEM_LEN: usize = 255;
/// Longest node id: a file name on every file system that Muster runs on.
const MAX_NODE_LEN: usize = 255;
/// Longest role name.
const MAX_ROLE_LEN: usize = 64;

const SCHEME: &str = "spiffe://";

/// Why a text is not an identity of Muster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseSpiffeError {
    /// The whole URI is longer than any identity may be.
    #[error("a SPIFFE id has at most {MAX_URI_LEN} bytes, this one has {len}")]
    TooLong {
        /// Length in bytes.
        len: usize,
    },
    /// The URI does not start with `spiffe://`, in exactly this spelling.
    #[error("a SPIFFE id starts with \"spiffe://\"")]
    Scheme,
    /// The path is not `/node/<node id>/<role>`.
    #[error("a SPIFFE id of Muster has the form spiffe://<system id>/node/<node id>/<role>")]
    Shape,
    /// One part is empty, too long, or has a character that is not allowed in it.
    #[error("the {part} has 1 to {max} characters out of {allowed} and is not \".\" or \"..\"")]
    Part {
        /// Which part.
        part: &'static str,
        /// Longest length.
        max: usize,
        /// Allowed characters, in words.
        allowed: &'static str,
    },
}

fn is_system_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_')
}

fn is_node_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

fn is_well_formed(text: &str, max: usize, allowed: fn(u8) -> bool) -> bool {
    (1..=max).contains(&text.len()) && text != "." && text != ".." && text.bytes().all(allowed)
}

macro_rules! part_type {
    ($(#[$doc:meta])* $name:ident, $part:literal, $max:ident, $allowed:ident, $words:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks `text` and takes it.
            pub fn new(text: impl Into<String>) -> Result<Self, ParseSpiffeError> {
                let text = text.into();
                if is_well_formed(&text, $max, $allowed) {
                    Ok(Self(text))
                } else {
                    Err(ParseSpiffeError::Part { part: $part, max: $max, allowed: $words })
                }
            }

            /// The text of it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = ParseSpiffeError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::new(text)
            }
        }
    };
}

part_type!(
    /// Which managed system (Unit) a process belongs to: the SPIFFE trust domain.
    SystemId, "system id", MAX_SYSTEM_LEN, is_system_byte, "a-z 0-9 . - _"
);
part_type!(
    /// Which node of the system a process runs on.
    NodeId, "node id", MAX_NODE_LEN, is_node_byte, "A-Z a-z 0-9 . - _"
);

/// Name of a role that Muster itself does not know, made by [`Role::new`] only, so that it is never
/// the name of a known role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleName(String);

impl RoleName {
    /// The text of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a process is for; permissions are given to roles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Identity and access manager, `iam`.
    Iam,
    /// Communication manager, `cm`.
    Cm,
    /// Service manager, `sm`.
    Sm,
    /// Message proxy, `mp`.
    Mp,
    /// Node manager, `nodemgr`.
    NodeMgr,
    /// A person's command line, `operator`.
    Operator,
    /// Any other role, for services beside Muster's own.
    Custom(RoleName),
}

impl Role {
    /// The role with this name; a name that Muster does not know is a custom role.
    pub fn new(name: &str) -> Result<Self, ParseSpiffeError> {
        Ok(match name {
            "iam" => Self::Iam,
            "cm" => Self::Cm,
            "sm" => Self::Sm,
            "mp" => Self::Mp,
            "nodemgr" => Self::NodeMgr,
            "operator" => Self::Operator,
            other if is_well_formed(other, MAX_ROLE_LEN, is_system_byte) => {
                Self::Custom(RoleName(other.to_owned()))
            }
            _ => {
                return Err(ParseSpiffeError::Part {
                    part: "role",
                    max: MAX_ROLE_LEN,
                    allowed: "a-z 0-9 . - _",
                });
            }
        })
    }

    /// The name as it stands in an identity.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Iam => "iam",
            Self::Cm => "cm",
            Self::Sm => "sm",
            Self::Mp => "mp",
            Self::NodeMgr => "nodemgr",
            Self::Operator => "operator",
            Self::Custom(name) => name.as_str(),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = ParseSpiffeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

/// Who a process is: its system, node and role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpiffeId {
    /// The system (Unit) it belongs to.
    pub system: SystemId,
    /// The node it runs on.
    pub node: NodeId,
    /// What it is for.
    pub role: Role,
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{SCHEME}{}/node/{}/{}",
            self.system, self.node, self.role
        )
    }
}

impl FromStr for SpiffeId {
    type Err = ParseSpiffeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_URI_LEN {
            return Err(ParseSpiffeError::TooLong { len: text.len() });
        }
        let rest = text.strip_prefix(SCHEME).ok_or(ParseSpiffeError::Scheme)?;
        let mut parts = rest.split('/');
        let (Some(system), Some("node"), Some(node), Some(role), None) = (
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
        ) else {
            return Err(ParseSpiffeError::Shape);
        };
        Ok(Self {
            system: SystemId::new(system)?,
            node: NodeId::new(node)?,
            role: Role::new(role)?,
        })
    }
}

/// Whether a URI claims to be a SPIFFE id, well-formed or not: schemes are case-insensitive (RFC 3986),
/// so that `SPIFFE://...` is an ill-formed identity and not merely some other URI.
pub(crate) fn claims_to_be_spiffe(uri: &str) -> bool {
    uri.get(..7)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("spiffe:"))
}

#[cfg(test)]
mod tests;
