//! Failures, as the contract says them.

use std::error::Error;

use muster_machines::{AskError, ClaimError, CollectError, OrderError};
use muster_telemetry::ErrorChain;
use tonic::{Code, Status};

use crate::catalog::ChangeTemplatesError;
use crate::choice::ChooseError;
use crate::desk::{ChoiceFailed, ProvisionFailed};

fn status(code: Code, error: &(dyn Error + 'static)) -> Status {
    Status::new(code, ErrorChain(error).to_string())
}

/// There is no such thing.
pub(super) fn not_found(error: impl Error + 'static) -> Status {
    status(Code::NotFound, &error)
}

/// The request makes no sense.
pub(super) fn invalid(error: impl Error + 'static) -> Status {
    status(Code::InvalidArgument, &error)
}

/// Not in this state.
pub(super) fn refused(error: impl Error + 'static) -> Status {
    status(Code::FailedPrecondition, &error)
}

/// Something here failed.
pub(super) fn internal(error: impl Error + 'static) -> Status {
    status(Code::Internal, &error)
}

pub(super) fn ask(error: AskError) -> Status {
    let code = match &error {
        AskError::Unknown(_) => Code::NotFound,
        AskError::Ended => Code::Unavailable,
        _ => Code::FailedPrecondition,
    };
    status(code, &error)
}

pub(super) fn claim(error: ClaimError) -> Status {
    let code = match &error {
        ClaimError::Unknown(_) => Code::NotFound,
        ClaimError::Ended => Code::Unavailable,
        _ => Code::FailedPrecondition,
    };
    status(code, &error)
}

pub(super) fn collect(error: CollectError) -> Status {
    status(Code::Unavailable, &error)
}

pub(super) fn choice(error: ChoiceFailed) -> Status {
    let code = match &error {
        ChoiceFailed::Choose(ChooseError::Template(_)) => Code::NotFound,
        ChoiceFailed::Interrupted => Code::Unavailable,
        ChoiceFailed::Catalog(_) | ChoiceFailed::Choose(_) | ChoiceFailed::Unusable(..) => {
            Code::FailedPrecondition
        }
    };
    status(code, &error)
}

pub(super) fn templates(error: ChangeTemplatesError) -> Status {
    let code = match &error {
        ChangeTemplatesError::Invalid(_)
        | ChangeTemplatesError::Nothing(_)
        | ChangeTemplatesError::TooMuch(_) => Code::InvalidArgument,
        ChangeTemplatesError::Unknown(_) => Code::NotFound,
        ChangeTemplatesError::OfFile { .. }
        | ChangeTemplatesError::BuiltIn(_)
        | ChangeTemplatesError::InUse { .. }
        | ChangeTemplatesError::Unreadable(_) => Code::FailedPrecondition,
        ChangeTemplatesError::Write { .. } => Code::Internal,
    };
    status(code, &error)
}

pub(super) fn provision(error: ProvisionFailed) -> Status {
    match error {
        ProvisionFailed::Choice(error) => choice(error),
        ProvisionFailed::Pool(error) => claim(error),
        ProvisionFailed::Order(OrderError::Ended) => status(Code::Unavailable, &OrderError::Ended),
        ProvisionFailed::Existing(_, AskError::Unknown(_)) => status(Code::Aborted, &error),
        ProvisionFailed::BadKey(_) => status(Code::InvalidArgument, &error),
        ProvisionFailed::NothingFits(_)
        | ProvisionFailed::Order(_)
        | ProvisionFailed::Existing(..) => status(Code::FailedPrecondition, &error),
        ProvisionFailed::Gone(_) | ProvisionFailed::NotUp { .. } => status(Code::Aborted, &error),
    }
}
