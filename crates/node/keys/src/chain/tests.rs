use muster_lab::pki::{CertSpec, ExtendedKeyUsagePurpose, Pki};
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};

use super::*;
use crate::clock::now;

const BOTH: &[KeyPurpose] = &[KeyPurpose::ClientAuth, KeyPurpose::ServerAuth];

fn id(number: u8) -> KeyId {
    KeyId::from_bytes([number; KeyId::LEN])
}

/// A key of ours, with a way to have it certified.
struct Ours {
    key: KeyPair,
    csr: String,
}

impl Ours {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let csr = CertificateParams::default().serialize_request(&key);
        let csr = csr.unwrap().pem().unwrap();
        Self { key, csr }
    }

    fn keys(&self) -> Vec<(KeyId, Vec<u8>)> {
        let other = KeyPair::generate().unwrap().subject_public_key_info();
        vec![(id(1), other), (id(2), self.key.subject_public_key_info())]
    }

    fn certify(&self, pki: &Pki, spec: &CertSpec) -> String {
        pki.sign_request(&self.csr, spec).unwrap()
    }

    fn check(&self, pem: &str) -> Result<CheckedChain, CheckChainError> {
        check(pem, &self.keys(), BOTH, now())
    }
}

fn sm() -> CertSpec {
    CertSpec::node("n", "sm")
}

/// The certificates of a text, in reverse.
fn reversed(pem: &str) -> String {
    const END: &str = "-----END CERTIFICATE-----";
    let mut parts: Vec<&str> = pem.split_inclusive(END).collect();
    parts.retain(|part| part.contains("BEGIN"));
    parts.reverse();
    parts.join("\n")
}

#[test]
fn a_chain_is_taken_in_any_order_with_and_without_its_root() {
    let ours = Ours::new();
    let root = Pki::new("s").unwrap();
    let lower = root.intermediate().unwrap().intermediate().unwrap();
    let chain = ours.certify(&lower, &sm());
    let checked = ours.check(&chain).unwrap();
    assert_eq!(checked.id, id(2));
    assert_eq!(checked.chain.len(), 3);
    assert_eq!(ours.check(&reversed(&chain)).unwrap(), checked);
    let with_root = format!("some words\n{}{chain}", root.ca_pem());
    let whole = ours.check(&with_root).unwrap();
    assert_eq!(whole.chain[..3], checked.chain);
    assert_eq!(whole.chain.len(), 4);
    // What is written is what was read.
    assert_eq!(ours.check(&to_pem(&whole.chain)).unwrap(), whole);
    let leaf_only = ours.certify(&root, &sm());
    assert_eq!(ours.check(&leaf_only).unwrap().chain.len(), 1);
}

#[test]
fn a_certificate_for_another_key_is_refused() {
    let pki = Pki::new("s").unwrap();
    let (ours, others) = (Ours::new(), Ours::new());
    let refused = ours.check(&others.certify(&pki, &sm())).unwrap_err();
    assert!(
        matches!(refused, CheckChainError::ForeignKey),
        "{refused:?}"
    );
    let refused = check(&ours.certify(&pki, &sm()), &[], BOTH, now()).unwrap_err();
    assert!(
        matches!(refused, CheckChainError::ForeignKey),
        "{refused:?}"
    );
}

#[test]
fn certificates_outside_their_validity_are_refused() {
    let pki = Pki::new("s").unwrap();
    let ours = Ours::new();
    for spec in [sm().expired(), sm().not_yet_valid()] {
        let refused = ours.check(&ours.certify(&pki, &spec)).unwrap_err();
        assert!(
            matches!(
                refused,
                CheckChainError::OutsideValidity { position: 1, .. }
            ),
            "{refused:?}"
        );
    }
    // The authority's own years end before the clock of a node that was asleep.
    let chain = ours.certify(&pki.intermediate().unwrap(), &sm());
    let later = now() + 3 * 365 * 24 * 3600;
    let refused = check(&chain, &ours.keys(), BOTH, later).unwrap_err();
    assert!(matches!(refused, CheckChainError::OutsideValidity { .. }));
}

#[test]
fn purposes_must_be_allowed() {
    let pki = Pki::new("s").unwrap();
    let ours = Ours::new();
    let client_only = sm().extended_key_usage([ExtendedKeyUsagePurpose::ClientAuth]);
    let chain = ours.certify(&pki, &client_only);
    let refused = ours.check(&chain).unwrap_err();
    assert!(
        matches!(
            refused,
            CheckChainError::Purpose {
                purpose: KeyPurpose::ServerAuth,
                ..
            }
        ),
        "{refused:?}"
    );
    let client = [KeyPurpose::ClientAuth];
    check(&chain, &ours.keys(), &client, now()).unwrap();
    for good in [
        sm().extended_key_usage([]),
        sm().extended_key_usage([ExtendedKeyUsagePurpose::Any]),
    ] {
        ours.check(&ours.certify(&pki, &good)).unwrap();
    }
}

#[test]
fn links_that_do_not_hold_are_refused() {
    let ours = Ours::new();
    let root = Pki::new("s").unwrap();
    let chain = ours.certify(&root.intermediate().unwrap(), &sm());

    let stranger = Pki::new("other").unwrap();
    let refused = ours
        .check(&format!("{chain}{}", stranger.ca_pem()))
        .unwrap_err();
    assert!(
        matches!(refused, CheckChainError::Unrelated { position: 3 }),
        "{refused:?}"
    );
    let refused = ours.check(&format!("{chain}{chain}")).unwrap_err();
    assert!(
        matches!(refused, CheckChainError::Unrelated { .. }),
        "{refused:?}"
    );

    // A root of the same name with another key.
    let namesake = Pki::new("s").unwrap();
    let refused = ours
        .check(&format!("{chain}{}", namesake.ca_pem()))
        .unwrap_err();
    assert!(
        matches!(refused, CheckChainError::Signature { position: 2 }),
        "{refused:?}"
    );
}

/// An authority as `change` makes it, its certificate, and a certificate of it for `ours`.
fn odd_authority(ours: &Ours, change: impl Fn(&mut CertificateParams)) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    change(&mut params);
    let authority = params.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(params, key);
    let request = rcgen::CertificateSigningRequestParams::from_pem(&ours.csr).unwrap();
    let mut leaf = CertificateParams::default();
    leaf.distinguished_name = rcgen::DistinguishedName::new();
    let leaf = leaf.signed_by(&request.public_key, &issuer).unwrap();
    leaf.pem() + &authority.pem()
}

#[test]
fn issuers_must_be_allowed_to_issue() {
    let ours = Ours::new();
    ours.check(&odd_authority(&ours, |_| {})).unwrap();
    let not_allowed: [fn(&mut CertificateParams); 3] = [
        |params| params.is_ca = rcgen::IsCa::NoCa,
        |params| params.is_ca = rcgen::IsCa::ExplicitNoCa,
        |params| params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature],
    ];
    for change in not_allowed {
        let refused = ours.check(&odd_authority(&ours, change)).unwrap_err();
        assert!(
            matches!(refused, CheckChainError::NotAuthority { position: 2 }),
            "{refused:?}"
        );
    }
}

#[test]
fn a_path_length_counts_the_authorities_below() {
    let ours = Ours::new();
    let authority = |name: &str, len| {
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(len));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        (params, KeyPair::generate().unwrap())
    };
    for (len, accepted) in [(1, true), (0, false)] {
        let (root_params, root_key) = authority("root", len);
        let root = root_params.self_signed(&root_key).unwrap();
        let root_issuer = rcgen::Issuer::new(root_params, root_key);
        let (lower_params, lower_key) = authority("lower", 0);
        let lower = lower_params.signed_by(&lower_key, &root_issuer).unwrap();
        let issuer = rcgen::Issuer::new(lower_params, lower_key);
        let request = rcgen::CertificateSigningRequestParams::from_pem(&ours.csr).unwrap();
        let leaf = CertificateParams::default();
        let leaf = leaf.signed_by(&request.public_key, &issuer).unwrap();
        let chain = leaf.pem() + &lower.pem() + &root.pem();
        assert_eq!(ours.check(&chain).is_ok(), accepted, "path length {len}");
    }
}

#[test]
fn a_node_is_no_authority_and_does_not_certify_itself() {
    let ours = Ours::new();
    let mut params = CertificateParams::default();
    let refused = ours
        .check(&params.self_signed(&ours.key).unwrap().pem())
        .unwrap_err();
    assert!(
        matches!(refused, CheckChainError::SelfSigned { position: 1 }),
        "{refused:?}"
    );
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let refused = ours
        .check(&params.self_signed(&ours.key).unwrap().pem())
        .unwrap_err();
    assert!(
        matches!(refused, CheckChainError::LeafIsAuthority { position: 1 }),
        "{refused:?}"
    );
}

#[test]
fn junk_is_refused_for_what_it_is() {
    let pki = Pki::new("s").unwrap();
    let ours = Ours::new();
    let good = ours.certify(&pki, &sm());
    let mega = "A".repeat(1024 * 1024);
    assert!(matches!(
        ours.check(&mega),
        Err(CheckChainError::TooLarge { .. })
    ));
    for junk in [
        "",
        "junk",
        "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----",
    ] {
        assert!(
            matches!(ours.check(junk), Err(CheckChainError::Count { found: 0 })),
            "{junk}"
        );
    }
    let cut = &good[..good.len() / 2];
    assert!(matches!(ours.check(cut), Err(CheckChainError::Pem(_))));
    let empty = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let refused = ours.check(&format!("{good}{empty}")).unwrap_err();
    assert!(
        matches!(refused, CheckChainError::Certificate { position: 2 }),
        "{refused:?}"
    );
    let many = pki.ca_pem().repeat(200);
    assert!(matches!(
        ours.check(&many),
        Err(CheckChainError::Count { found: 11 })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_damaged_chain_never_panics_and_is_never_taken_for_another(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let pki = Pki::new("s").unwrap().intermediate().unwrap();
        let ours = Ours::new();
        let good = ours.certify(&pki, &sm());
        let whole = ours.check(&good).unwrap();
        let mut damaged = good.into_bytes();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        if let Ok(text) = String::from_utf8(damaged)
            && let Ok(checked) = ours.check(&text) {
            // Nothing above vouches for the last authority here; it vouches for the leaf.
            prop_assert_eq!(checked.id, whole.id);
            prop_assert_eq!(&checked.chain[0], &whole.chain[0]);
        }
    }
}
