//! Why a call was not carried out, as its client is told.

use muster_control::manager::{Failure, error};
use muster_unit_file::name::UnitNameError;
use muster_varlink::Reply;
use muster_varlink::service::ServiceError;

/// A call that was not carried out.
#[derive(Debug)]
pub(super) enum Fault {
    /// One of the errors that every varlink service has.
    Protocol(ServiceError),
    /// One of the manager's own.
    Manager(&'static str, Box<Failure>),
}

impl Fault {
    pub(super) fn new(error: &'static str, object: &str, message: impl Into<String>) -> Self {
        Self::Manager(
            error,
            Box::new(Failure {
                message: message.into(),
                object: object.to_owned(),
                errno: None,
            }),
        )
    }

    /// A value that cannot be used.
    pub(super) fn invalid(object: &str, message: impl Into<String>) -> Self {
        Self::new(error::INVALID, object, message)
    }

    /// The system said no.
    pub(super) fn system(object: &str, doing: &str, source: &std::io::Error) -> Self {
        Self::Manager(
            error::FAILED,
            Box::new(Failure {
                message: format!("Cannot {doing}: {source}"),
                object: object.to_owned(),
                errno: source.raw_os_error(),
            }),
        )
    }

    pub(super) fn no_such_unit(unit: &str) -> Self {
        Self::new(error::NO_SUCH_UNIT, unit, format!("Unit {unit} not found."))
    }

    pub(super) fn bad_name(unit: &str, source: &UnitNameError) -> Self {
        Self::invalid(unit, format!("'{unit}' is not a unit's name: {source}"))
    }

    pub(super) fn not_permitted(method: &str, uid: u32) -> Self {
        let message =
            format!("User {uid} may look, but not change anything: {method} is for root only.");
        Self::new(error::NOT_PERMITTED, method, message)
    }

    pub(super) fn reply(&self) -> Reply {
        match self {
            Self::Protocol(error) => error.reply(),
            Self::Manager(name, failure) => Reply::failure(*name, &**failure),
        }
    }
}

impl From<ServiceError> for Fault {
    fn from(error: ServiceError) -> Self {
        Self::Protocol(error)
    }
}
