//! What a failure of the engine means for whoever ordered a machine.

use muster_lifecycle::State;
use muster_provider::{BoxError, FailureClass};

use crate::engine::EngineError;
use crate::options::InvalidOption;

/// Why the provider itself says no.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the container bears another mark, or none")]
    NotOurs,
    #[error("a container of the name {0} is somebody else's")]
    NameTaken(String),
    #[error("its machine was made and destroyed")]
    Spent,
    #[error("there is no such container")]
    Gone,
    #[error("its command ended at once: the image has no such program, or it does not wait{0}")]
    Ended(String),
    #[error(
        "Docker cannot keep a container's memory; pausing would neither free it nor outlast the power"
    )]
    Hibernate,
    #[error("it is {0}")]
    IllegalState(State),
    #[error("another order of the same name is still being carried out")]
    Race,
}

/// A failure that has not been told to which call it belongs.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: FailureClass,
    pub(crate) source: BoxError,
}

impl Failure {
    pub(crate) fn new(class: FailureClass, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        Self { class, source }
    }

    /// The engine would not carry out an order. What it does not find is something that the order names; a user that the
    /// image does not have it calls an error of its own.
    pub(crate) fn of_order(error: EngineError) -> Self {
        let class = match (class(&error), &error) {
            (FailureClass::NotFound, _) => FailureClass::Refused,
            (_, EngineError::Answered { message, .. })
                if message.contains("unable to find user") =>
            {
                FailureClass::Refused
            }
            (class, _) => class,
        };
        Self::new(class, error)
    }

    /// The engine's words, if all that it objects to is a limit of the disk: not every storage driver has one.
    pub(crate) fn without_disk_limit(&self) -> Option<String> {
        match self.source.downcast_ref() {
            Some(EngineError::Answered { message, .. }) if message.contains("storage-opt") => {
                Some(message.trim_end_matches('.').to_owned())
            }
            _ => None,
        }
    }
}

fn class(error: &EngineError) -> FailureClass {
    match error.status() {
        // The request is wrong, or not allowed.
        Some(400 | 401 | 403 | 405 | 406 | 416 | 422 | 501) => FailureClass::Refused,
        Some(404) => FailureClass::NotFound,
        // Everything else may be otherwise in a moment: a conflict with what is going on, a network, a disk.
        _ => FailureClass::Retryable,
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::new(class(&error), error)
    }
}

impl From<InvalidOption> for Failure {
    fn from(error: InvalidOption) -> Self {
        Self::new(FailureClass::Refused, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, message: &str) -> EngineError {
        EngineError::Answered {
            operation: "create the container",
            status,
            message: message.to_owned(),
        }
    }

    #[test]
    fn an_answer_says_whether_it_is_worth_asking_again() {
        let class = |status| Failure::from(answered(status, "")).class;
        assert_eq!(class(400), FailureClass::Refused);
        assert_eq!(class(404), FailureClass::NotFound);
        assert_eq!(class(409), FailureClass::Retryable);
        assert_eq!(class(500), FailureClass::Retryable);
        let class = |status| Failure::of_order(answered(status, "")).class;
        assert_eq!(class(404), FailureClass::Refused);
        assert_eq!(class(503), FailureClass::Retryable);
        let user = answered(
            500,
            "unable to find user x: no matching entries in passwd file",
        );
        assert_eq!(Failure::of_order(user).class, FailureClass::Refused);
    }

    #[test]
    fn only_a_storage_without_limits_is_done_without() {
        let words =
            "--storage-opt is supported only for overlay over xfs with 'pquota' mount option.";
        let failure = Failure::of_order(answered(500, words));
        assert_eq!(
            failure.without_disk_limit().unwrap(),
            words.trim_end_matches('.')
        );
        let failure = Failure::of_order(answered(500, "no space left on device"));
        assert_eq!(failure.without_disk_limit(), None);
    }
}
