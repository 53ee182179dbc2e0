//! What EC2 says when it does not do something, and what that means.

use muster_provider::FailureClass;

/// Text of a fault that is kept, in characters.
const LONGEST: usize = 400;

/// A request that EC2 refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("EC2 answered {status} {code}: {message}")]
pub struct Ec2Fault {
    /// The status of the HTTP answer.
    pub status: u16,
    /// EC2's word for what is wrong.
    pub code: String,
    /// Its sentence.
    pub message: String,
}

/// What a fault means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// We ask too often.
    Throttled,
    /// It may work later.
    Passing,
    /// There is none left of this kind.
    Capacity,
    /// Our account may have no more.
    Quota,
    /// There is no such thing, or EC2 does not see it yet.
    NotFound,
    /// The machine is not in a state for this.
    WrongState,
    /// The token was used for a request that was not the same.
    TokenUsed,
    /// Something of this name or token is there already.
    Exists,
    /// The credentials are not accepted.
    Credentials,
    /// Whoever the credentials are of may not do this.
    Forbidden,
    /// The request is wrong.
    Wrong,
}

impl Ec2Fault {
    pub(crate) fn new(status: u16, code: &str, message: &str) -> Self {
        let shown = |text: &str| muster_config::printable(text, LONGEST);
        Self {
            status,
            code: shown(code),
            message: shown(message),
        }
    }

    /// What it means.
    #[must_use]
    pub fn meaning(&self) -> Meaning {
        let code = self.code.as_str();
        match code {
            "RequestLimitExceeded" | "Throttling" | "ThrottlingException"
            | "RequestThrottled" | "RequestThrottledException" | "TooManyRequestsException"
            | "EC2ThrottledException" | "BandwidthLimitExceeded" => Meaning::Throttled,
            "InsufficientInstanceCapacity"
            | "InsufficientHostCapacity"
            | "InsufficientReservedInstanceCapacity"
            | "InsufficientCapacity"
            | "InsufficientCapacityOnHost"
            | "UnfulfillableCapacity"
            | "SpotMaxPriceTooLow"
            // A type that a zone does not have: as good as none left.
            | "Unsupported" => Meaning::Capacity,
            "InstanceLimitExceeded"
            | "VcpuLimitExceeded"
            | "MaxSpotInstanceCountExceeded"
            | "MaxSpotFleetRequestCountExceeded"
            | "VolumeLimitExceeded"
            | "MaxIOPSLimitExceeded"
            | "AddressLimitExceeded"
            | "InsufficientFreeAddressesInSubnet"
            | "InsufficientAddressCapacity"
            | "ResourceLimitExceeded" => Meaning::Quota,
            "IncorrectInstanceState" | "IncorrectState" | "IncorrectSpotRequestState" => {
                Meaning::WrongState
            }
            "IdempotentParameterMismatch" => Meaning::TokenUsed,
            "InvalidLaunchTemplateName.AlreadyExistsException" => Meaning::Exists,
            "AuthFailure"
            | "InvalidClientTokenId"
            | "UnrecognizedClientException"
            | "SignatureDoesNotMatch"
            | "InvalidAccessKeyId"
            | "MissingAuthenticationToken"
            | "IncompleteSignature"
            | "ExpiredToken"
            | "ExpiredTokenException"
            | "RequestExpired"
            | "InvalidSignatureException" => Meaning::Credentials,
            "UnauthorizedOperation"
            | "AccessDenied"
            | "AccessDeniedException"
            | "Blocked"
            | "OptInRequired"
            | "PendingVerification" => Meaning::Forbidden,
            "InternalError" | "InternalFailure" | "ServerInternal" | "Unavailable"
            | "ServiceUnavailable" | "RequestTimeout" | "RequestTimeoutException" => {
                Meaning::Passing
            }
            _ if code.ends_with(".NotFound") || code.ends_with(".Malformed") => Meaning::NotFound,
            "InvalidInstanceID"
            | "ParameterNotFound"
            | "ParameterVersionNotFound"
            | "InvalidLaunchTemplateName.NotFoundException"
            | "InvalidLaunchTemplateId.NotFound" => Meaning::NotFound,
            _ if self.status == 429 => Meaning::Throttled,
            _ if self.status >= 500 => Meaning::Passing,
            _ => Meaning::Wrong,
        }
    }
}

impl Meaning {
    /// What it means for whoever asked a provider.
    #[must_use]
    pub const fn class(self) -> FailureClass {
        match self {
            // A token that was used made a machine, which is only not seen yet.
            Self::Throttled | Self::Passing | Self::TokenUsed => FailureClass::Retryable,
            Self::Capacity => FailureClass::Capacity,
            Self::Quota => FailureClass::Quota,
            Self::NotFound => FailureClass::NotFound,
            Self::WrongState | Self::Exists | Self::Credentials | Self::Forbidden | Self::Wrong => {
                FailureClass::Refused
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(status: u16, code: &str) -> Meaning {
        Ec2Fault::new(status, code, "").meaning()
    }

    #[test]
    fn each_family_of_codes_means_what_it_says() {
        assert_eq!(meaning(503, "RequestLimitExceeded"), Meaning::Throttled);
        assert_eq!(
            meaning(500, "InsufficientInstanceCapacity"),
            Meaning::Capacity
        );
        assert_eq!(meaning(400, "VcpuLimitExceeded"), Meaning::Quota);
        assert_eq!(
            meaning(400, "InvalidInstanceID.NotFound"),
            Meaning::NotFound
        );
        assert_eq!(meaning(400, "IncorrectInstanceState"), Meaning::WrongState);
        assert_eq!(
            meaning(400, "IdempotentParameterMismatch"),
            Meaning::TokenUsed
        );
        assert_eq!(meaning(401, "AuthFailure"), Meaning::Credentials);
        assert_eq!(meaning(403, "UnauthorizedOperation"), Meaning::Forbidden);
        assert_eq!(meaning(400, "InvalidParameterValue"), Meaning::Wrong);
        // Its machine is gone for good: no waiting brings another.
        assert_eq!(meaning(400, "IdempotentInstanceTerminated"), Meaning::Wrong);
    }

    #[test]
    fn what_has_no_known_code_is_judged_by_its_status() {
        assert_eq!(meaning(429, ""), Meaning::Throttled);
        assert_eq!(meaning(502, "<html>"), Meaning::Passing);
        assert_eq!(meaning(400, ""), Meaning::Wrong);
    }
}
