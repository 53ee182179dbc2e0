//! The connection to libvirt, made when it is needed and made again when it is lost.

use muster_libvirt::protocol::{Failure, FailureKind};
use virt::connect::Connect;
use virt::enumutil::Enum;
use virt::error::{ErrorDomain, ErrorNumber};

/// How much of libvirt's words is passed on.
const MOST_SAID: usize = 2000;

/// A connection, or none yet.
pub(crate) struct Connection {
    uri: String,
    made: Option<Connect>,
}

impl Connection {
    pub(crate) fn new(uri: String) -> Self {
        Self { uri, made: None }
    }

    /// A connection that was alive a moment ago.
    pub(crate) fn get(&mut self) -> Result<&Connect, Failure> {
        let alive = |it: &Connect| matches!(it.is_alive(), Ok(true));
        let connect = match self.made.take().filter(alive) {
            Some(connect) => connect,
            None => Connect::open(Some(&self.uri)).map_err(|error| Failure {
                kind: FailureKind::Unreachable,
                message: said(&error),
            })?,
        };
        Ok(self.made.insert(connect))
    }
}

fn said(error: &virt::error::Error) -> String {
    let message = error.message().chars();
    message
        .filter(|letter| !letter.is_control())
        .take(MOST_SAID)
        .collect()
}

/// What libvirt's error means.
pub(crate) fn failure(error: &virt::error::Error) -> Failure {
    let kind = match (error.code(), error.domain()) {
        (Enum::Known(ErrorNumber::NoDomain), _) => FailureKind::NoDomain,
        (Enum::Known(ErrorNumber::OperationInvalid), _) => FailureKind::State,
        (
            Enum::Known(
                ErrorNumber::XmlError
                | ErrorNumber::XmlDetail
                | ErrorNumber::XmlInvalidSchema
                | ErrorNumber::ConfigUnsupported
                | ErrorNumber::NoNetwork,
            ),
            _,
        ) => FailureKind::Description,
        (Enum::Known(ErrorNumber::NoConnect | ErrorNumber::AuthFailed | ErrorNumber::Rpc), _)
        | (_, Enum::Known(ErrorDomain::Rpc | ErrorDomain::Remote)) => FailureKind::Unreachable,
        _ => FailureKind::Other,
    };
    Failure {
        kind,
        message: said(error),
    }
}
