//! From a verified certificate to an identity. Pure: the certificate's names and the policy decide.

use crate::facts::{CertNames, shown};
use crate::mapping::{MapIdentityError, MappingRule};
use crate::spiffe::{ParseSpiffeError, SpiffeId, claims_to_be_spiffe};

/// Who a peer is, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    /// System, node and role.
    pub id: SpiffeId,
    /// What it was taken from.
    pub origin: IdentityOrigin,
}

/// What an identity was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityOrigin {
    /// The SPIFFE URI in the certificate.
    Spiffe,
    /// The mapping rule with this index.
    Rule(usize),
}

/// Why a peer with a good certificate chain has no acceptable identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentifyError {
    /// Several SPIFFE URIs: which one would the permissions go by?
    #[error("its certificate has {found} SPIFFE ids, exactly one is allowed")]
    SeveralSpiffeIds {
        /// How many.
        found: usize,
    },
    /// The SPIFFE URI is not an identity of Muster.
    #[error("its certificate's SPIFFE id \"{uri}\" is malformed")]
    Spiffe {
        /// The URI.
        uri: String,
        /// What is wrong with it.
        source: ParseSpiffeError,
    },
    /// A mapping rule matched, but gives no identity.
    #[error("mapping rule {rule} gives it no identity")]
    Mapping {
        /// Index of the rule.
        rule: usize,
        /// What is wrong.
        source: MapIdentityError,
    },
    /// Neither a SPIFFE URI nor a rule that matches.
    #[error("its certificate has no SPIFFE id and no mapping rule matches it")]
    Unidentified,
}

/// What a server demands of a client certificate beyond a good chain.
///
/// A SPIFFE URI always decides by itself, also when it is malformed. Rules are for certificates
/// without one, in order, first match wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentityPolicy {
    rules: Vec<MappingRule>,
    unidentified_allowed: bool,
}

impl IdentityPolicy {
    /// Only SPIFFE identities.
    pub fn spiffe_only() -> Self {
        Self::default()
    }

    /// Also maps certificates without a SPIFFE URI, for a foreign PKI.
    #[must_use]
    pub fn with_rules(mut self, rules: impl IntoIterator<Item = MappingRule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Also lets peers in whose certificate the CA signed but whom nothing identifies. They have no
    /// [`PeerIdentity`], so every authorised call still refuses them.
    #[must_use]
    pub fn allow_unidentified(mut self) -> Self {
        self.unidentified_allowed = true;
        self
    }

    /// The identity of a peer with these names. `Ok(None)` is a peer that the policy lets in without.
    pub fn identify(&self, names: &CertNames) -> Result<Option<PeerIdentity>, IdentifyError> {
        if let Some(id) = spiffe_id(names)? {
            return Ok(Some(PeerIdentity {
                id,
                origin: IdentityOrigin::Spiffe,
            }));
        }
        for (rule, mapping) in self.rules.iter().enumerate() {
            match mapping.apply(names) {
                None => {}
                Some(Ok(id)) => {
                    return Ok(Some(PeerIdentity {
                        id,
                        origin: IdentityOrigin::Rule(rule),
                    }));
                }
                Some(Err(source)) => return Err(IdentifyError::Mapping { rule, source }),
            }
        }
        if self.unidentified_allowed {
            Ok(None)
        } else {
            Err(IdentifyError::Unidentified)
        }
    }
}

/// The one SPIFFE id among a certificate's URIs, if there is any.
pub fn spiffe_id(names: &CertNames) -> Result<Option<SpiffeId>, IdentifyError> {
    let mut claims = names.uris.iter().filter(|uri| claims_to_be_spiffe(uri));
    let Some(uri) = claims.next() else {
        return Ok(None);
    };
    match claims.count() {
        0 => uri
            .parse()
            .map(Some)
            .map_err(|source| IdentifyError::Spiffe {
                uri: shown(uri),
                source,
            }),
        more => Err(IdentifyError::SeveralSpiffeIds { found: more + 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{CertField, Condition, MappedIdentity, Pattern, Take};
    use crate::spiffe::{NodeId, Role, SystemId};
    use proptest::prelude::*;

    fn rule(cn: &str, role: Role) -> MappingRule {
        MappingRule::new(
            Condition {
                field: CertField::SubjectCn,
                pattern: Pattern::Glob(cn.into()),
            },
            MappedIdentity {
                system: Take::Fixed(SystemId::new("system-1").unwrap()),
                node: Take::Fixed(NodeId::new("node-1").unwrap()),
                role,
            },
        )
    }

    fn names(cn: &str, uris: &[&str]) -> CertNames {
        CertNames {
            subject_cn: vec![cn.into()],
            uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
            ..CertNames::default()
        }
    }

    #[test]
    fn the_first_matching_rule_wins() {
        let policy = IdentityPolicy::spiffe_only().with_rules([
            rule("x*", Role::Mp),
            rule("*", Role::Sm),
            rule("a", Role::Cm),
        ]);
        let found = policy.identify(&names("a", &[])).unwrap().unwrap();
        assert_eq!(
            (found.id.role, found.origin),
            (Role::Sm, IdentityOrigin::Rule(1))
        );
    }

    #[test]
    fn a_spiffe_id_decides_even_when_it_is_bad() {
        let policy = IdentityPolicy::spiffe_only()
            .with_rules([rule("*", Role::Sm)])
            .allow_unidentified();
        let good = policy
            .identify(&names("a", &["https://x", "spiffe://s/node/n/cm"]))
            .unwrap();
        assert_eq!(good.unwrap().id.role, Role::Cm);
        for uris in [
            &["spiffe://s/other"][..],
            &["SPIFFE://s/node/n/cm"],
            &["spiffe:"],
        ] {
            assert!(matches!(
                policy.identify(&names("a", uris)),
                Err(IdentifyError::Spiffe { .. })
            ));
        }
        assert_eq!(
            policy.identify(&names(
                "a",
                &["spiffe://s/node/n/cm", "spiffe://s/node/n/cm"]
            )),
            Err(IdentifyError::SeveralSpiffeIds { found: 2 })
        );
    }

    #[test]
    fn nothing_matched_is_refused_unless_allowed() {
        let policy = IdentityPolicy::spiffe_only().with_rules([rule("b", Role::Sm)]);
        assert_eq!(
            policy.identify(&names("a", &[])),
            Err(IdentifyError::Unidentified)
        );
        assert_eq!(
            policy.allow_unidentified().identify(&names("a", &[])),
            Ok(None)
        );
    }

    proptest! {
        /// No certificate gets an identity under the default policy but by one well-formed SPIFFE URI.
        #[test]
        fn identities_come_from_exactly_one_uri(
            uris in prop::collection::vec(prop_oneof!["spiffe://s/node/[a-z]{0,2}/(sm|cm|)", any::<String>()], 0..3),
        ) {
            let names = CertNames { uris: uris.clone(), ..CertNames::default() };
            if let Ok(found) = IdentityPolicy::spiffe_only().identify(&names) {
                let claims: Vec<&String> =
                    uris.iter().filter(|uri| uri.to_ascii_lowercase().starts_with("spiffe:")).collect();
                prop_assert_eq!(claims.len(), 1);
                prop_assert_eq!(&found.unwrap().id.to_string(), claims[0]);
            }
        }
    }
}
