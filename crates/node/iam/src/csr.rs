//! Whom a signing request is for.

use muster_keys::CsrSubject;
use muster_tls::{NodeId, Role, SpiffeId, SystemId};

/// Why a signing request has no subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request names no subject, and the identifier has not told the system's id, which would be it"
)]
pub(crate) struct NoSubject;

/// The system id as it stands in identities: in lower case. An id with other characters than an
/// identity allows has none.
pub(crate) fn spiffe_system(system_id: &str) -> Option<SystemId> {
    SystemId::new(system_id.to_ascii_lowercase()).ok()
}

/// Subject and identity for a certificate: the common name that was asked for, or else the system's
/// id; and, where the certificate has a role, its identity as a URI.
///
/// # Errors
/// There is nothing to call the subject.
pub(crate) fn subject(
    asked: &str,
    system_id: Option<&str>,
    node: &NodeId,
    role: Option<&Role>,
) -> Result<CsrSubject, NoSubject> {
    // Some peers ask for a distinguished name with nothing but a common name.
    let asked = asked.strip_prefix("CN=").unwrap_or(asked);
    let common_name = match (asked, system_id) {
        ("", Some(system_id)) => system_id,
        ("", None) => return Err(NoSubject),
        (asked, _) => asked,
    };
    let subject = CsrSubject::new(common_name);
    let identity = system_id
        .and_then(spiffe_system)
        .zip(role)
        .map(|(system, role)| SpiffeId {
            system,
            node: node.clone(),
            role: role.clone(),
        });
    Ok(match identity {
        Some(identity) => subject.uri(identity),
        None => subject,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(asked: &str, system_id: Option<&str>, role: Option<Role>) -> Option<CsrSubject> {
        let node = NodeId::new("node-1").unwrap();
        subject(asked, system_id, &node, role.as_ref()).ok()
    }

    #[test]
    fn the_system_is_the_subject_unless_another_one_is_asked_for() {
        let found = made("", Some("Unit-7"), Some(Role::Sm)).unwrap();
        assert_eq!(found.common_name, "Unit-7");
        assert_eq!(found.uris, ["spiffe://unit-7/node/node-1/sm"]);
        for asked in ["somebody", "CN=somebody"] {
            let found = made(asked, Some("unit"), Some(Role::Iam)).unwrap();
            assert_eq!(found.common_name, "somebody");
            assert_eq!(found.uris, ["spiffe://unit/node/node-1/iam"]);
        }
    }

    #[test]
    fn without_a_role_or_a_system_that_can_stand_in_one_there_is_no_identity() {
        assert_eq!(made("", Some("unit"), None).unwrap().uris, [""; 0]);
        assert_eq!(
            made("", Some("unit 7/ä"), Some(Role::Cm)).unwrap().uris,
            [""; 0]
        );
        assert_eq!(made("x", None, Some(Role::Cm)).unwrap().uris, [""; 0]);
        assert_eq!(made("", None, Some(Role::Cm)), None);
    }
}
