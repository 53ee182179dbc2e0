#[path = "../../tests/items/signer.rs"]
mod signer;

use jiff::{Timestamp, ToSpan};
use sha2::{Digest as _, Sha256};

use self::signer::{EC_P256, RSA_2048, Signers};
use super::*;

const EC_P384: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"];
const CONTENT: &[u8] = b"what is signed";

fn digest() -> Digest {
    Digest::from_sha256(Sha256::digest(CONTENT).into())
}

fn now() -> Timestamp {
    // The certificates are younger than this second.
    Timestamp::now() + 2.seconds()
}

fn sign(signers: &Signers, name: &str, algorithm: SignatureAlgorithm) -> SignInfo {
    SignInfo {
        chain: name.to_owned(),
        algorithm,
        value: signers.sign(name, CONTENT),
        at: now(),
    }
}

fn policy(signers: &Signers) -> SignaturePolicy {
    SignaturePolicy {
        roots: vec![signers.root()],
        ..SignaturePolicy::default()
    }
}

#[test]
fn signatures_of_openssl_count_and_of_anything_else_do_not() {
    muster_lab::require!(Tool("openssl"));
    let mut signers = Signers::new();
    signers.add("rsa", RSA_2048);
    signers.add("p256", EC_P256);
    signers.add("p384", EC_P384);
    let policy = policy(&signers);
    let trust = signers.trust();
    let check = |sign: &SignInfo| verify(&digest(), Some(sign), &trust, &policy);
    for (name, algorithm) in [
        ("rsa", SignatureAlgorithm::RsaSha256),
        ("p256", SignatureAlgorithm::EcSha256),
        ("p384", SignatureAlgorithm::EcSha256),
    ] {
        let good = sign(&signers, name, algorithm);
        check(&good).unwrap();

        let other = Digest::from_sha256([1; 32]);
        let wrong = verify(&other, Some(&good), &trust, &policy).unwrap_err();
        assert!(matches!(wrong, VerifySignatureError::Signature { .. }));
        for at in [0, good.value.len() / 2, good.value.len() - 1] {
            let mut changed = good.clone();
            changed.value[at] ^= 1;
            check(&changed).unwrap_err();
        }
        for value in [Vec::new(), vec![0; 4096], good.value[1..].to_vec()] {
            let changed = SignInfo {
                value,
                ..good.clone()
            };
            let wrong = check(&changed).unwrap_err();
            assert!(matches!(wrong, VerifySignatureError::Signature { .. }));
        }
        let confused = match algorithm {
            SignatureAlgorithm::RsaSha256 => SignatureAlgorithm::EcSha256,
            SignatureAlgorithm::EcSha256 => SignatureAlgorithm::RsaSha256,
        };
        let confused = SignInfo {
            algorithm: confused,
            ..good.clone()
        };
        let wrong = check(&confused).unwrap_err();
        assert!(matches!(wrong, VerifySignatureError::Key { .. }));
    }
}

#[test]
fn a_chain_must_be_there_and_lead_to_an_authority_in_its_time() {
    muster_lab::require!(Tool("openssl"));
    let mut signers = Signers::new();
    signers.add("web", EC_P256);
    let (good, trust, policy) = (
        sign(&signers, "web", SignatureAlgorithm::EcSha256),
        signers.trust(),
        policy(&signers),
    );
    verify(&digest(), Some(&good), &trust, &policy).unwrap();
    let refused = |sign: &SignInfo, trust: &Trust, policy: &SignaturePolicy| {
        verify(&digest(), Some(sign), trust, policy).unwrap_err()
    };

    let unknown = SignInfo {
        chain: "other".to_owned(),
        ..good.clone()
    };
    let error = refused(&unknown, &trust, &policy);
    assert!(matches!(error, VerifySignatureError::NoChain { .. }));
    let error = refused(&good, &Trust::default(), &policy);
    assert!(matches!(error, VerifySignatureError::NoChain { .. }));
    for days in [-1, 31] {
        let late = SignInfo {
            at: now() + (24 * days).hours(),
            ..good.clone()
        };
        let error = refused(&late, &trust, &policy);
        assert!(
            matches!(error, VerifySignatureError::Chain { .. }),
            "{error:?}"
        );
    }
    let none = SignaturePolicy::default();
    assert!(matches!(
        refused(&good, &trust, &none),
        VerifySignatureError::NoRoots
    ));
    // Authorities of the same name, with other keys.
    let strangers = SignaturePolicy {
        roots: vec![Signers::new().root()],
        accept_unsigned: true,
        ..SignaturePolicy::default()
    };
    let error = refused(&good, &trust, &strangers);
    assert!(
        matches!(error, VerifySignatureError::Chain { .. }),
        "{error:?}"
    );
    let garbage = SignaturePolicy {
        roots: vec![b"no certificate".to_vec()],
        ..SignaturePolicy::default()
    };
    assert!(matches!(
        refused(&good, &trust, &garbage),
        VerifySignatureError::Root(_)
    ));

    // A chain with a hole, with garbage, without anything, with too much; and one that starts with the authority itself.
    let change = |edit: &dyn Fn(&mut Trust)| {
        let mut changed = trust.clone();
        edit(&mut changed);
        refused(&good, &changed, &policy)
    };
    let chain = |trust: &mut Trust, prints: &[&str]| {
        let prints = prints.iter().map(|print| format!("print of {print}"));
        trust.chains.insert("web".to_owned(), prints.collect());
    };
    let error = change(&|trust| chain(trust, &["web"]));
    assert!(
        matches!(error, VerifySignatureError::Chain { .. }),
        "{error:?}"
    );
    let error = change(&|trust| chain(trust, &["middle"]));
    assert!(
        matches!(error, VerifySignatureError::Chain { .. }),
        "{error:?}"
    );
    let error = change(&|trust| chain(trust, &["web", "nobody"]));
    assert!(matches!(error, VerifySignatureError::NoCertificate { .. }));
    for prints in [&[][..], &["web"; 11]] {
        let error = change(&|trust| chain(trust, prints));
        assert!(matches!(error, VerifySignatureError::ChainLength { .. }));
    }
    for text in ["", "AAAA", "not base 64", &"A".repeat(100_000)] {
        let error = change(&|trust| {
            let print = "print of web".to_owned();
            trust.certificates.insert(print, text.to_owned());
        });
        let is_refused = matches!(
            error,
            VerifySignatureError::NoCertificate { .. } | VerifySignatureError::Chain { .. }
        );
        assert!(is_refused, "{error:?}");
    }
}

#[test]
fn a_revoked_signer_does_not_count_and_neither_does_one_whose_authority_has_no_list() {
    muster_lab::require!(Tool("openssl"));
    let mut signers = Signers::new();
    signers.add("web", EC_P256);
    signers.add("thief", EC_P256);
    let check = |name: &str, lists: Vec<Vec<u8>>| {
        let policy = SignaturePolicy {
            revocation_lists: lists,
            ..policy(&signers)
        };
        let sign = sign(&signers, name, SignatureAlgorithm::EcSha256);
        verify(&digest(), Some(&sign), &signers.trust(), &policy)
    };
    let revoked = |result| {
        let Err(VerifySignatureError::Chain { source, .. }) = result else {
            panic!("{result:?}");
        };
        source
    };
    let root = || signers.list("root", &[]);
    let lists = || vec![root(), signers.list("middle", &["thief"])];
    check("web", lists()).unwrap();
    assert_eq!(revoked(check("thief", lists())), webpki::Error::CertRevoked);
    // The one in the middle is revoked, and with it whom it certified.
    let fallen = vec![
        signers.list("root", &["middle"]),
        signers.list("middle", &[]),
    ];
    assert_eq!(revoked(check("web", fallen)), webpki::Error::CertRevoked);
    // Where lists are in use, everybody needs one.
    let silent = revoked(check("web", vec![root()]));
    assert_eq!(silent, webpki::Error::UnknownRevocationStatus);
    let garbage = check("web", vec![b"no list".to_vec()]);
    assert!(
        matches!(garbage, Err(VerifySignatureError::RevocationList(_))),
        "{garbage:?}"
    );
}

#[test]
fn weak_keys_do_not_count() {
    muster_lab::require!(Tool("openssl"));
    let weak = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"];
    let mut signers = Signers::new();
    signers.add("weak", &weak);
    let sign = sign(&signers, "weak", SignatureAlgorithm::RsaSha256);
    let error = verify(&digest(), Some(&sign), &signers.trust(), &policy(&signers));
    assert!(
        matches!(error, Err(VerifySignatureError::Key { .. })),
        "{error:?}"
    );
}

#[test]
fn what_nobody_signed_needs_a_word_that_this_is_fine() {
    let mut policy = SignaturePolicy::default();
    let check = |policy: &_| verify(&digest(), None, &Trust::default(), policy);
    assert!(matches!(
        check(&policy),
        Err(VerifySignatureError::Unsigned)
    ));
    policy.accept_unsigned = true;
    check(&policy).unwrap();
}

#[test]
fn a_digest_of_another_algorithm_is_not_what_is_signed() {
    let sign = SignInfo {
        chain: "web".to_owned(),
        algorithm: SignatureAlgorithm::EcSha256,
        value: Vec::new(),
        at: now(),
    };
    let digest = Digest::from_sha512([1; 64]);
    let refused = verify(
        &digest,
        Some(&sign),
        &Trust::default(),
        &SignaturePolicy::default(),
    );
    assert!(matches!(refused, Err(VerifySignatureError::Digest { .. })));
}
