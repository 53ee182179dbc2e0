use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _, SignatureAlgorithm};

use super::*;

fn pem(algorithm: &'static SignatureAlgorithm) -> String {
    let key = KeyPair::generate_for(algorithm).expect("a key");
    let mut params = CertificateParams::new(vec!["node.example".to_owned(), "10.0.0.1".to_owned()])
        .expect("names");
    let uri = "spiffe://plant-7/node/n1/operator"
        .try_into()
        .expect("text");
    params.subject_alt_names.push(rcgen::SanType::URI(uri));
    params
        .serialize_request(&key)
        .expect("a request")
        .pem()
        .expect("PEM")
}

/// Made with `openssl req -new -newkey rsa:N -nodes -subj /CN=x`, which rcgen cannot do with ring.
const RSA_2048: &str = include_str!("testdata/rsa2048.csr.pem");
const RSA_1024: &str = include_str!("testdata/rsa1024.csr.pem");
/// The same with `-sha1`.
const RSA_2048_SHA1: &str = include_str!("testdata/rsa2048-sha1.csr.pem");
/// `-newkey ec -pkeyopt ec_paramgen_curve:secp521r1`.
const EC_P521: &str = include_str!("testdata/p521.csr.pem");
/// `-newkey ec -pkeyopt ec_paramgen_curve:secp384r1 -sha256`: the digest does not have to go with the curve.
const EC_P384_SHA256: &str = include_str!("testdata/p384-sha256.csr.pem");

#[test]
fn requests_with_good_keys_are_read_and_say_what_they_ask_for() {
    for algorithm in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ] {
        let request = CertificateRequest::from_pem(&pem(algorithm)).expect("a good request");
        assert_eq!(request.asked_dns(), ["node.example"]);
        assert_eq!(request.asked_ips(), [IpAddr::from([10, 0, 0, 1])]);
        assert_eq!(request.asked_uris(), ["spiffe://plant-7/node/n1/operator"]);
    }
    for pem in [RSA_2048, EC_P384_SHA256] {
        let request = CertificateRequest::from_pem(pem).expect("a good request");
        assert_eq!(
            request.key().subject_public_key_info(),
            request.key_der(),
            "the key is kept as it is"
        );
    }
}

#[test]
fn weak_and_exotic_keys_and_digests_are_refused() {
    assert_eq!(
        CertificateRequest::from_pem(RSA_1024),
        Err(ReadRequestError::Key)
    );
    assert_eq!(
        CertificateRequest::from_pem(EC_P521),
        Err(ReadRequestError::Key)
    );
    assert_eq!(
        CertificateRequest::from_pem(RSA_2048_SHA1),
        Err(ReadRequestError::Signature)
    );
}

#[test]
fn a_request_signed_by_another_key_is_refused() {
    let der = CertificateSigningRequestDer::from_pem_slice(
        pem(&rcgen::PKCS_ECDSA_P256_SHA256).as_bytes(),
    )
    .expect("DER");
    let (_, parsed) = X509CertificationRequest::from_der(&der).expect("a request");
    let own = parsed.certification_request_info.subject_pki.raw.to_vec();
    let stranger = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
        .expect("a key")
        .subject_public_key_info();
    let at = der
        .windows(own.len())
        .position(|window| window == own)
        .expect("the key is in it");
    let mut forged = der.to_vec();
    forged[at..at + own.len()].copy_from_slice(&stranger);
    assert_eq!(
        CertificateRequest::from_der(&forged),
        Err(ReadRequestError::Signature)
    );
}

#[test]
fn other_files_are_refused_by_name() {
    let cert = rcgen::generate_simple_self_signed(["x".to_owned()])
        .expect("a certificate")
        .cert
        .pem();
    for text in ["", "hello", &cert] {
        assert_eq!(
            CertificateRequest::from_pem(text),
            Err(ReadRequestError::NotPem),
            "{text:.20}"
        );
    }
    let long = "x".repeat(MAX_LEN + 1);
    assert_eq!(
        CertificateRequest::from_pem(&long),
        Err(ReadRequestError::TooLong { len: MAX_LEN + 1 })
    );
}

proptest! {
    /// A damaged request is refused, or the damage is where the signature's own kind is written, and changes nothing.
    #[test]
    fn a_changed_byte_changes_nothing_that_is_certified(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let der = CertificateSigningRequestDer::from_pem_slice(RSA_2048.as_bytes()).expect("DER");
        let mut damaged = der.to_vec();
        let at = at.index(damaged.len());
        damaged[at] ^= flip;
        if let Ok(read) = CertificateRequest::from_der(&damaged) {
            let whole = CertificateRequest::from_pem(RSA_2048).expect("a good request");
            prop_assert_eq!(read, whole);
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(CertificateRequest::from_der(&bytes).is_err());
        prop_assert!(CertificateRequest::from_pem(&String::from_utf8_lossy(&bytes)).is_err());
    }
}
