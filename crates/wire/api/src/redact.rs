//! `Debug` for the wire messages that carry secrets, so that logging a message never leaks one.
//!
//! The list of messages stands in `build.rs`; a message on it without an implementation here does
//! not compile.

use std::fmt;

use crate::iamanager::v6::{
    CreateKeyRequest, DeprovisionRequest, FinishProvisioningRequest, PermissionsRequest,
    RegisterInstanceResponse, StartProvisioningRequest,
};
use crate::servicemanager::v5::EnvVarInfo;

/// Stands in for a secret in `Debug` output; tells an empty one from one that is there.
pub(crate) struct Redacted<'a>(pub(crate) &'a str);

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "(empty)"
        } else {
            "(redacted)"
        })
    }
}

macro_rules! redacted_debug {
    ($message:ident { $($plain:ident),* } hides $secret:ident) => {
        impl fmt::Debug for $message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($message))
                    $(.field(stringify!($plain), &self.$plain))*
                    .field(stringify!($secret), &Redacted(&self.$secret))
                    .finish()
            }
        }
    };
}

redacted_debug!(EnvVarInfo { name } hides value);
redacted_debug!(PermissionsRequest { functional_server_id } hides secret);
redacted_debug!(RegisterInstanceResponse {} hides secret);
redacted_debug!(StartProvisioningRequest { node_id } hides password);
redacted_debug!(FinishProvisioningRequest { node_id } hides password);
redacted_debug!(DeprovisionRequest { node_id } hides password);

impl fmt::Debug for CreateKeyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateKeyRequest")
            .field("node_id", &self.node_id)
            .field("subject", &self.subject)
            .field("type", &self.r#type)
            .field("password", &Redacted(&self.password))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iamanager::v6::IamIncomingMessages;
    use crate::iamanager::v6::iam_incoming_messages::IamIncomingMessage;

    const SECRET: &str = "hunter2";

    #[test]
    fn no_secret_reaches_debug_output() {
        let printed = [
            format!(
                "{:?}",
                EnvVarInfo {
                    name: "TOKEN".into(),
                    value: SECRET.into()
                }
            ),
            format!(
                "{:?}",
                PermissionsRequest {
                    secret: SECRET.into(),
                    functional_server_id: "vis".into()
                }
            ),
            format!(
                "{:?}",
                RegisterInstanceResponse {
                    secret: SECRET.into()
                }
            ),
            format!(
                "{:?}",
                StartProvisioningRequest {
                    node_id: "n1".into(),
                    password: SECRET.into()
                }
            ),
            format!(
                "{:?}",
                FinishProvisioningRequest {
                    node_id: "n1".into(),
                    password: SECRET.into()
                }
            ),
            format!(
                "{:?}",
                DeprovisionRequest {
                    node_id: "n1".into(),
                    password: SECRET.into()
                }
            ),
            format!(
                "{:?}",
                CreateKeyRequest {
                    password: SECRET.into(),
                    ..CreateKeyRequest::default()
                }
            ),
        ];
        for text in printed {
            assert!(!text.contains(SECRET), "leaks: {text}");
            assert!(
                text.contains("(redacted)"),
                "hides without saying so: {text}"
            );
        }
    }

    #[test]
    fn a_secret_inside_an_envelope_stays_hidden() {
        let request = StartProvisioningRequest {
            node_id: "n1".into(),
            password: SECRET.into(),
        };
        let envelope = IamIncomingMessages {
            iam_incoming_message: Some(IamIncomingMessage::StartProvisioningRequest(request)),
        };
        let text = format!("{envelope:#?}");
        assert!(text.contains("n1") && !text.contains(SECRET), "{text}");
    }
}
