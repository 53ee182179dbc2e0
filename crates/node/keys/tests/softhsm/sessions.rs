//! Signing, tokens that go away and come back, and many who use one at a time.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_keys::{CertHandler, CertInfo, CertUrl, KeyId, KeyModule, Pkcs11Module, Storage};
use muster_lab::pki::Pki;
use muster_tls::rustls::SignatureScheme;
use muster_tls::rustls::crypto::ring::default_provider;
use muster_tls::rustls::sign::SigningKey;
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo};

use crate::fixture::{Place, cert_type, log_out_everybody, renew, subject, with_token};

/// The key behind a certificate, found again as another process would.
fn key(place: &Place, info: &CertInfo) -> Arc<dyn SigningKey> {
    let Storage::Token(token) = place.config("sm", |_| {}).storage else {
        panic!("a token")
    };
    let module = Pkcs11Module::new(token, &info.cert_type);
    let CertUrl::Pkcs11(url) = info.key_url.parse().unwrap() else {
        panic!("{}", info.key_url)
    };
    let id: [u8; KeyId::LEN] = url.id.unwrap().try_into().unwrap();
    module.key(KeyId::from_bytes(id)).unwrap().unwrap()
}

fn signs(key: &Arc<dyn SigningKey>, scheme: SignatureScheme) -> Vec<u8> {
    let signer = key.choose_scheme(&[scheme]).expect("the scheme");
    assert_eq!(signer.scheme(), scheme);
    signer.sign(b"message").expect("a signature")
}

#[track_caller]
fn assert_verifies(key: &Arc<dyn SigningKey>, scheme: SignatureScheme) {
    let signature = signs(key, scheme);
    let spki = key.public_key().unwrap();
    let (_, spki) = SubjectPublicKeyInfo::from_der(&spki).unwrap();
    let algorithms = default_provider().signature_verification_algorithms.mapping;
    let (_, algorithms) = algorithms
        .iter()
        .find(|(known, _)| *known == scheme)
        .unwrap();
    let verified = algorithms.iter().any(|algorithm| {
        let public = &spki.subject_public_key.data;
        algorithm
            .verify_signature(public, b"message", &signature)
            .is_ok()
    });
    assert!(verified, "{scheme:?}");
}

const RSA_SCHEMES: [SignatureScheme; 6] = [
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
];
const EC_SCHEME: SignatureScheme = SignatureScheme::ECDSA_NISTP384_SHA384;

fn one_key(place: &Place, algorithm: &str) -> (CertHandler, CertInfo) {
    let handler = place.owned(&["sm"], algorithm);
    let info = renew(&handler, &Pki::new("system-1").unwrap(), "sm");
    (handler, info)
}

#[test]
fn an_ec_key_signs_as_tls_wants_it() {
    with_token("sessions::an_ec_key_signs_as_tls_wants_it", |place| {
        let (_handler, info) = one_key(place, "ecc");
        let key = key(place, &info);
        // The numbers of a signature have leading zeros now and then.
        for _ in 0..100 {
            assert_verifies(&key, EC_SCHEME);
        }
        assert!(key.choose_scheme(&RSA_SCHEMES).is_none());
    });
}

#[test]
fn an_rsa_key_signs_with_every_scheme() {
    with_token("sessions::an_rsa_key_signs_with_every_scheme", |place| {
        let (_handler, info) = one_key(place, "rsa");
        let key = key(place, &info);
        for scheme in RSA_SCHEMES {
            assert_verifies(&key, scheme);
        }
        let best = key
            .choose_scheme(&[RSA_SCHEMES[5], RSA_SCHEMES[2]])
            .unwrap();
        assert_eq!(best.scheme(), SignatureScheme::RSA_PSS_SHA256);
        assert!(key.choose_scheme(&[EC_SCHEME]).is_none());
    });
}

#[test]
fn a_signature_takes_milliseconds() {
    with_token("sessions::a_signature_takes_milliseconds", |place| {
        let pki = Pki::new("system-1").unwrap();
        let ec = place.config("sm", |_| {});
        let rsa = place.config("iam", |raw| raw.algorithm = "rsa".into());
        let handler = place.open(vec![ec, rsa]);
        for (role, scheme) in [("sm", EC_SCHEME), ("iam", SignatureScheme::RSA_PSS_SHA256)] {
            handler.set_owner(&cert_type(role), "").unwrap();
            let key = key(place, &renew(&handler, &pki, role));
            let mut times: Vec<Duration> = (0..50)
                .map(|_| {
                    let start = Instant::now();
                    signs(&key, scheme);
                    start.elapsed()
                })
                .collect();
            times.sort();
            println!("{scheme:?}: median {:?}, worst {:?}", times[25], times[49]);
            // Ten times what it takes on a quiet machine.
            assert!(times[25] < Duration::from_millis(20), "{times:?}");
        }
    });
}

#[test]
fn many_threads_share_the_sessions_of_a_token() {
    with_token(
        "sessions::many_threads_share_the_sessions_of_a_token",
        |place| {
            let (_handler, info) = one_key(place, "ecc");
            let key = key(place, &info);
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| (0..10).for_each(|_| assert_verifies(&key, EC_SCHEME)));
                }
            });
        },
    );
}

#[test]
fn a_key_signs_after_somebody_else_logged_out() {
    with_token(
        "sessions::a_key_signs_after_somebody_else_logged_out",
        |place| {
            let (handler, info) = one_key(place, "ecc");
            let key = key(place, &info);
            assert_verifies(&key, EC_SCHEME);
            log_out_everybody();
            assert_verifies(&key, EC_SCHEME);
            log_out_everybody();
            renew(&handler, &Pki::new("system-1").unwrap(), "sm");
        },
    );
}

#[test]
fn a_token_that_was_away_is_used_again() {
    with_token("sessions::a_token_that_was_away_is_used_again", |place| {
        let (handler, info) = one_key(place, "ecc");
        let key = key(place, &info);
        let token = fs::read_dir(place.tokens())
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let away = place.folder.join("away");
        fs::rename(token.path(), &away).unwrap();
        let signer = key.choose_scheme(&[EC_SCHEME]).unwrap();
        let refused = signer.sign(b"message").unwrap_err().to_string();
        assert!(refused.contains("muster test"), "{refused}");
        handler
            .create_key(&cert_type("sm"), &subject("other"))
            .unwrap_err();

        fs::rename(&away, token.path()).unwrap();
        // It is looked for once a second.
        let deadline = Instant::now() + Duration::from_secs(20);
        while let Err(error) = signer.sign(b"message") {
            assert!(Instant::now() < deadline, "{error}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_verifies(&key, EC_SCHEME);
        assert_eq!(handler.cert(&cert_type("sm"), None, None).unwrap(), info);
        renew(&handler, &Pki::new("system-1").unwrap(), "sm");
    });
}

#[test]
fn a_forked_process_has_sessions_of_its_own() {
    with_token(
        "sessions::a_forked_process_has_sessions_of_its_own",
        |place| {
            let (_handler, info) = one_key(place, "ecc");
            let key = key(place, &info);
            assert_verifies(&key, EC_SCHEME);
            // SAFETY: the child signs, which allocates and locks; no other thread of this process holds a
            // lock meanwhile, since this is the only test in it. It ends without running destructors.
            #[expect(unsafe_code, reason = "there is no safe fork")]
            let child = unsafe { libc::fork() };
            if child == 0 {
                let signer = key.choose_scheme(&[EC_SCHEME]);
                let signed = signer.is_some_and(|signer| signer.sign(b"message").is_ok());
                #[expect(
                    unsafe_code,
                    reason = "a forked test must not run the harness to its end"
                )]
                // SAFETY: ends the process; nothing is read or written.
                unsafe {
                    libc::_exit(i32::from(!signed))
                }
            }
            let child = rustix::process::Pid::from_raw(child).expect("a child");
            let status =
                rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
            let (_, status) = status.unwrap().unwrap();
            assert_eq!(status.exit_status(), Some(0));
            assert_verifies(&key, EC_SCHEME);
        },
    );
}
