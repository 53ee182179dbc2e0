//! What the provider and its helper say to each other: lines of JSON, each question answered before the next.
//!
//! The helper speaks first, with [`Hello`], so that one of another version is noticed before it is asked anything. Lines are
//! bounded in both directions; what is no line of this protocol ends the conversation.

use std::net::IpAddr;

use muster_provider::Mark;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::status::DomainStatus;

/// The version of this protocol.
pub const VERSION: u32 = 1;
/// The longest question, and the longest answer: some ten thousand domains.
pub const MAX_LINE: usize = 16 << 20;

/// The helper's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Its version of this protocol.
    pub version: u32,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Define a domain that its description marks as ours.
    Define {
        /// The identity that the description gives it.
        uuid: Uuid,
        /// Whose it is. A domain of that identity with another mark is left as it is.
        mark: Mark,
        /// The description.
        xml: String,
    },
    /// Change a domain, if it bears this mark.
    Change {
        /// Which.
        uuid: Uuid,
        /// What it must bear.
        mark: Mark,
        /// How.
        change: Change,
    },
    /// Describe a domain.
    Describe {
        /// Which.
        uuid: Uuid,
        /// Whether to ask for addresses: its network, the system inside, the host's neighbours.
        addresses: bool,
    },
    /// Every domain that bears a mark of ours, whoever's.
    List,
    /// Every network.
    Networks,
}

/// What can be done with a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Start it, from its saved memory where there is some.
    Start,
    /// Press its power button.
    Press,
    /// Cut its power.
    Cut,
    /// Save its memory and stop it.
    Save,
    /// Cut its power and forget it, its saved memory and its variables.
    Remove,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// It is done.
    Done,
    /// A domain as it is, or that there is none.
    Domain(Option<Box<DomainFacts>>),
    /// Domains.
    Domains(Vec<DomainFacts>),
    /// Networks.
    Networks(Vec<NetworkFacts>),
    /// It was not done.
    Failed(Failure),
}

/// A domain as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainFacts {
    /// Its identity.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// How it is.
    pub status: DomainStatus,
    /// Our element of its metadata, where it has one.
    pub metadata: Option<String>,
    /// Addresses of the machine, the likeliest first.
    pub addresses: Vec<IpAddr>,
}

/// A network as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkFacts {
    /// Its name.
    pub name: String,
    /// Whether machines can be connected to it.
    pub active: bool,
}

/// What a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// There is no such domain.
    NoDomain,
    /// The domain bears another mark, or none.
    Foreign,
    /// The domain's state does not allow it.
    State,
    /// The description is refused.
    Description,
    /// libvirt is not there.
    Unreachable,
    /// Anything else.
    Other,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("libvirt: {message}")]
pub struct Failure {
    /// What it means.
    pub kind: FailureKind,
    /// What libvirt said.
    pub message: String,
}

/// A line that is none of this protocol.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is too long.
    #[error("a line of {0} bytes is too long")]
    TooLong(usize),
    /// It is not JSON of the right form.
    #[error("a line is not of this protocol")]
    Malformed(#[source] serde_json::Error),
}

/// Reads a line, with or without its end.
///
/// # Errors
/// When it is too long, or not of this protocol.
pub fn read<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, LineError> {
    if line.len() > MAX_LINE {
        return Err(LineError::TooLong(line.len()));
    }
    serde_json::from_slice(line).map_err(LineError::Malformed)
}

/// Writes a line, with its end.
///
/// # Errors
/// When it is too long.
pub fn write<T: Serialize>(message: &T) -> Result<Vec<u8>, LineError> {
    let mut line = serde_json::to_vec(message).map_err(LineError::Malformed)?;
    line.push(b'\n');
    match line.len() > MAX_LINE {
        true => Err(LineError::TooLong(line.len())),
        false => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use muster_provider::{ClientToken, MachineId, ManagerId};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_message_is_one_line_that_reads_back() {
        let mark = Mark {
            manager: ManagerId::random(),
            machine: MachineId::random(),
            token: ClientToken::random(),
        };
        let uuid = Uuid::from_u128(7);
        let requests = [
            Request::List,
            Request::Networks,
            Request::Describe {
                uuid,
                addresses: true,
            },
            Request::Change {
                uuid,
                mark: mark.clone(),
                change: Change::Save,
            },
            Request::Define {
                uuid,
                mark,
                xml: "<a>\n\"'</a>\n".to_owned(),
            },
        ];
        for request in requests {
            let line = write(&request).unwrap();
            assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
            assert_eq!(read::<Request>(&line).unwrap(), request);
        }
    }

    #[test]
    fn what_is_too_long_is_not_said_and_not_read() {
        let long = Reply::Failed(Failure {
            kind: FailureKind::Other,
            message: "x".repeat(MAX_LINE),
        });
        assert!(matches!(write(&long), Err(LineError::TooLong(_))));
        assert!(matches!(
            read::<Reply>(&vec![b' '; MAX_LINE + 1]),
            Err(LineError::TooLong(_))
        ));
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line: Vec<u8>) {
            let _ = read::<Reply>(&line);
            let _ = read::<Request>(&line);
        }
    }
}
