//! What of a node's request is certified.

use std::path::Path;

use muster_pki::jiff::Timestamp;
use muster_pki::{
    CertificateRequest, IssueCertError, IssuedCert, NodeId, Profile, ProfileError,
    ReadRequestError, Role, SpiffeId, SystemId,
};

use crate::cli::node::Signing;
use crate::console::{Console, Exit};
use crate::pki::{self, PkiCommandError};

/// Why a request of a node is not certified.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignRequestError {
    #[error("its request for certificate type {cert_type:?} cannot be certified")]
    Request {
        cert_type: String,
        #[source]
        source: ReadRequestError,
    },
    #[error(
        "certificate type {cert_type:?} asks to be {asked}, and a node is never certified as that"
    )]
    Role { cert_type: String, asked: String },
    #[error("certificate type {cert_type:?} asks to be {asked}, and the node is {expected}")]
    OtherIdentity {
        cert_type: String,
        asked: String,
        expected: String,
    },
    #[error("certificate type {cert_type:?} cannot be a role")]
    NotARole {
        cert_type: String,
        #[source]
        source: muster_tls::ParseSpiffeError,
    },
    #[error("a name for certificate type {cert_type:?} cannot be certified")]
    Names {
        cert_type: String,
        #[source]
        source: ProfileError,
    },
    #[error(transparent)]
    Authority(PkiCommandError),
    #[error(transparent)]
    Issue(IssueCertError),
}

impl SignRequestError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Role { .. } | Self::OtherIdentity { .. } | Self::Request { .. } => Exit::Refused,
            Self::Authority(error) => error.exit(),
            Self::NotARole { .. } | Self::Names { .. } | Self::Issue(_) => Exit::Failed,
        }
    }
}

/// Who signs, and for whom.
pub(super) struct Signer<'a> {
    pub(super) folder: &'a Path,
    pub(super) system: &'a SystemId,
    pub(super) node: &'a NodeId,
    pub(super) signing: &'a Signing,
}

impl Signer<'_> {
    /// Certifies a request. The authority is opened for each one, so that a slow node keeps nobody else from signing.
    pub(super) fn certify(
        &self,
        cert_type: &str,
        csr: &str,
        now: Timestamp,
        console: &mut Console,
    ) -> Result<IssuedCert, SignRequestError> {
        let request =
            CertificateRequest::from_pem(csr).map_err(|source| SignRequestError::Request {
                cert_type: cert_type.to_owned(),
                source,
            })?;
        let identity = identity(self.system, self.node, cert_type, request.asked_uris())?;
        let names = |source| SignRequestError::Names {
            cert_type: cert_type.to_owned(),
            source,
        };
        let profile = Profile::new(identity)
            .with_cert_type(cert_type)
            .map_err(names)?;
        let mut profile = pki::with_names(profile, &self.signing.names).map_err(names)?;
        if self.signing.asked_names {
            for name in request.asked_dns() {
                profile = profile.with_dns(name).map_err(names)?;
            }
            for &address in request.asked_ips() {
                profile = profile.with_ip(address).map_err(names)?;
            }
        } else {
            report_ignored(cert_type, &request, &profile, console);
        }
        let mut authority =
            pki::open(self.folder, now, console).map_err(SignRequestError::Authority)?;
        authority
            .issue_from_csr(&request, &profile, now)
            .map_err(SignRequestError::Issue)
    }
}

/// Who the certificate will be for: a process of this node, in the role that the request names or, if it names none, the one
/// that its type is called after. Roles that may command other nodes are never a node's.
fn identity(
    system: &SystemId,
    node: &NodeId,
    cert_type: &str,
    asked_uris: &[String],
) -> Result<SpiffeId, SignRequestError> {
    let cert_type_owned = || cert_type.to_owned();
    let asked = asked_uris
        .iter()
        .find_map(|uri| uri.parse::<SpiffeId>().ok());
    let role = match &asked {
        Some(asked) => asked.role.clone(),
        None => Role::new(cert_type).map_err(|source| SignRequestError::NotARole {
            cert_type: cert_type_owned(),
            source,
        })?,
    };
    let expected = SpiffeId {
        system: system.clone(),
        node: node.clone(),
        role,
    };
    if let Some(asked) = asked.filter(|asked| *asked != expected) {
        return Err(SignRequestError::OtherIdentity {
            cert_type: cert_type_owned(),
            asked: asked.to_string(),
            expected: expected.to_string(),
        });
    }
    match expected.role {
        Role::Operator | Role::NodeMgr => Err(SignRequestError::Role {
            cert_type: cert_type_owned(),
            asked: expected.to_string(),
        }),
        _ => Ok(expected),
    }
}

/// Names that were asked for and not given are not kept quiet about: somebody may wonder why a client refuses the server.
fn report_ignored(
    cert_type: &str,
    request: &CertificateRequest,
    profile: &Profile,
    console: &mut Console,
) {
    let dns = request
        .asked_dns()
        .iter()
        .filter(|name| !profile.dns().contains(&name.to_ascii_lowercase()));
    let ips = request
        .asked_ips()
        .iter()
        .filter(|address| !profile.ips().contains(address));
    let ignored: Vec<String> = dns
        .map(|name| name.escape_debug().to_string())
        .chain(ips.map(ToString::to_string))
        .collect();
    if !ignored.is_empty() {
        console.note(format_args!(
            "  {cert_type}: not certified, though asked for: {} (--asked-names would)",
            ignored.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(cert_type: &str, asked: &[&str]) -> Result<String, SignRequestError> {
        let system = SystemId::new("plant-7").expect("an id");
        let node = NodeId::new("n1").expect("an id");
        let asked: Vec<String> = asked.iter().map(|&uri| uri.to_owned()).collect();
        identity(&system, &node, cert_type, &asked).map(|identity| identity.to_string())
    }

    #[test]
    fn a_type_without_a_wish_has_the_role_of_its_name() {
        for cert_type in ["iam", "cm", "sm", "online", "offline"] {
            let expected = format!("spiffe://plant-7/node/n1/{cert_type}");
            assert_eq!(decide(cert_type, &[]).expect("certified"), expected);
            assert_eq!(
                decide(cert_type, &["https://example"]).expect("certified"),
                expected
            );
        }
        assert!(matches!(
            decide("disk encryption", &[]),
            Err(SignRequestError::NotARole { .. })
        ));
    }

    #[test]
    fn a_wish_for_a_role_of_this_node_is_granted() {
        assert_eq!(
            decide("online", &["spiffe://plant-7/node/n1/cm"]).expect("certified"),
            "spiffe://plant-7/node/n1/cm"
        );
    }

    #[test]
    fn no_node_becomes_another_one_or_an_operator() {
        for asked in ["spiffe://plant-7/node/n2/sm", "spiffe://plant-8/node/n1/sm"] {
            assert!(
                matches!(
                    decide("sm", &[asked]),
                    Err(SignRequestError::OtherIdentity { .. })
                ),
                "{asked}"
            );
        }
        for asked in [
            "spiffe://plant-7/node/n1/operator",
            "spiffe://plant-7/node/n1/nodemgr",
        ] {
            assert!(
                matches!(decide("sm", &[asked]), Err(SignRequestError::Role { .. })),
                "{asked}"
            );
        }
        for cert_type in ["operator", "nodemgr"] {
            assert!(
                matches!(decide(cert_type, &[]), Err(SignRequestError::Role { .. })),
                "{cert_type}"
            );
        }
    }
}
