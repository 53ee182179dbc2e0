//! Failures as peers report them: a listed code, or an errno.

use std::fmt;
use std::num::NonZeroI32;

use thiserror::Error;

use crate::common::v2 as common;

/// A failure that a peer reported, or that will be reported to one.
///
/// Success is the absence of one: messages carry `Option<AosError>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
#[error("{cause}: {message}")]
pub struct AosError {
    /// What programs decide on.
    pub cause: Cause,
    /// Text for people.
    pub message: String,
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A code of the peers' list.
    Code {
        /// The code.
        code: AosCode,
        /// Exit code of the process that failed; 0 when there was none.
        exit_code: i32,
    },
    /// An error number of the operating system.
    Errno(NonZeroI32),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code { code, exit_code: 0 } => write!(f, "{code}"),
            Self::Code { code, exit_code } => write!(f, "{code} (exit code {exit_code})"),
            Self::Errno(errno) => write!(f, "errno {errno}"),
        }
    }
}

macro_rules! aos_codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $text:literal,)+) => {
        /// The peers' list of failures.
        ///
        /// 0, "none", is not one of them: no failure is no [`AosError`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum AosCode {
            $($(#[$doc])* $variant,)+
            /// A code that a newer peer knows; kept as it came.
            Unlisted(UnlistedCode),
        }

        impl AosCode {
            /// The listed codes.
            pub const LISTED: &'static [Self] = &[$(Self::$variant),+];

            /// The code with this number; 0 is none.
            pub fn from_number(number: NonZeroI32) -> Self {
                match number.get() {
                    $($number => Self::$variant,)+
                    _ => Self::Unlisted(UnlistedCode(number)),
                }
            }

            /// The number on the wire.
            pub fn number(self) -> i32 {
                match self {
                    $(Self::$variant => $number,)+
                    Self::Unlisted(code) => code.0.get(),
                }
            }
        }

        impl fmt::Display for AosCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($text),)+
                    Self::Unlisted(code) => write!(f, "unlisted code {}", code.0),
                }
            }
        }
    };
}

aos_codes! {
    /// Failed without a better reason.
    Failed = 1 "failed",
    /// The program itself is broken.
    Runtime = 2 "runtime error",
    /// Out of memory.
    NoMemory = 3 "no memory",
    /// A number outside its range.
    OutOfRange = 4 "out of range",
    /// No such object.
    NotFound = 5 "not found",
    /// The request makes no sense.
    InvalidArgument = 6 "invalid argument",
    /// Took too long.
    Timeout = 7 "timeout",
    /// There is one already.
    AlreadyExists = 8 "already exists",
    /// Not possible now.
    WrongState = 9 "wrong state",
    /// Content is not what its checksum says.
    InvalidChecksum = 10 "invalid checksum",
    /// The key store is open already.
    AlreadyLoggedIn = 11 "already logged in",
    /// Not possible here.
    NotSupported = 12 "not supported",
    /// Ended early.
    EndOfFile = 13 "end of file",
    /// Given up on request.
    Cancelled = 14 "cancelled",
}

/// A code outside the list. Only [`AosCode::from_number`] makes one, so no listed code has two
/// forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnlistedCode(NonZeroI32);

impl AosError {
    /// A failure with a code of the list.
    pub fn new(code: AosCode, message: impl Into<String>) -> Self {
        Self {
            cause: Cause::Code { code, exit_code: 0 },
            message: message.into(),
        }
    }
}

impl From<AosError> for common::ErrorInfo {
    fn from(error: AosError) -> Self {
        let (aos_code, exit_code) = match error.cause {
            Cause::Code { code, exit_code } => (code.number(), exit_code),
            Cause::Errno(errno) => (0, errno.get()),
        };
        Self {
            aos_code,
            exit_code,
            message: error.message,
        }
    }
}

/// The failure in a field that is absent or all zeros on success.
///
/// Both codes 0 is success whatever the message says: that is how peers decide.
pub fn fault_from_wire(wire: Option<common::ErrorInfo>) -> Option<AosError> {
    let common::ErrorInfo {
        aos_code,
        exit_code,
        message,
    } = wire?;
    let cause = match (NonZeroI32::new(aos_code), NonZeroI32::new(exit_code)) {
        (Some(code), _) => Cause::Code {
            code: AosCode::from_number(code),
            exit_code,
        },
        (None, Some(errno)) => Cause::Errno(errno),
        (None, None) => return None,
    };
    Some(AosError { cause, message })
}

/// The content of a field that peers expect to be always set: zeros on success.
///
/// Where peers expect an absent field instead, write `fault.map(ErrorInfo::from)`.
pub fn fault_to_wire(fault: Option<AosError>) -> common::ErrorInfo {
    fault.map(common::ErrorInfo::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_list_is_one_to_fourteen() {
        let numbers: Vec<i32> = AosCode::LISTED.iter().map(|code| code.number()).collect();
        assert_eq!(numbers, (1..=14).collect::<Vec<_>>());
    }

    #[test]
    fn zeros_and_absence_are_success() {
        assert_eq!(fault_from_wire(None), None);
        assert_eq!(fault_from_wire(Some(common::ErrorInfo::default())), None);
        let chatty = common::ErrorInfo {
            message: "fine".into(),
            ..Default::default()
        };
        assert_eq!(fault_from_wire(Some(chatty)), None);
        assert_eq!(fault_to_wire(None), common::ErrorInfo::default());
    }

    #[test]
    fn the_text_names_code_exit_code_and_errno() {
        let wire = |aos_code, exit_code| {
            let info = common::ErrorInfo {
                aos_code,
                exit_code,
                message: "unpack".into(),
            };
            fault_from_wire(Some(info)).unwrap().to_string()
        };
        assert_eq!(wire(5, 0), "not found: unpack");
        assert_eq!(wire(1, 137), "failed (exit code 137): unpack");
        assert_eq!(wire(0, 28), "errno 28: unpack");
        assert_eq!(wire(99, 0), "unlisted code 99: unpack");
    }

    proptest! {
        #[test]
        fn no_code_is_lost(aos_code: i32, exit_code: i32, message: String) {
            prop_assume!(aos_code != 0 || exit_code != 0);
            let wire = common::ErrorInfo { aos_code, exit_code, message };
            let fault = fault_from_wire(Some(wire.clone()));
            prop_assert_eq!(fault_to_wire(fault), wire);
        }
    }
}
