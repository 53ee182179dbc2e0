use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use jiff::SignedDuration;
use muster_tls::rustls::server::WebPkiClientVerifier;
use muster_tls::rustls::{CertificateError, RootCertStore, crypto};
use proptest::prelude::*;
use rcgen::CertificateParams;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};

use super::*;
use crate::describe::CertDetails;
use crate::ledger::Status;
use crate::profile::Profile;
use crate::request::CertificateRequest;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn start() -> Timestamp {
    at("2026-03-01T12:00:00Z")
}

fn system() -> SystemId {
    SystemId::new("plant-7").expect("an id")
}

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> (Self, Authority) {
        let folder = tempfile::tempdir().expect("a folder");
        let fixture = Self { folder };
        let made = Authority::init(&fixture.path(), &system(), start()).expect("made");
        assert_eq!(made.outcome, InitOutcome::Created);
        (fixture, made.authority)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("pki")
    }

    fn open(&self, now: Timestamp) -> Authority {
        Authority::open(&self.path(), now).expect("opened")
    }
}

fn profile(node: &str, role: &str) -> Profile {
    Profile::new(
        format!("spiffe://plant-7/node/{node}/{role}")
            .parse()
            .expect("an id"),
    )
}

fn request() -> CertificateRequest {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key");
    let mut asked = CertificateParams::new(vec!["evil.example".to_owned()]).expect("a name");
    asked.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    asked
        .distinguished_name
        .push(rcgen::DnType::CommonName, "root of all");
    let uri = "spiffe://plant-7/node/n1/operator"
        .try_into()
        .expect("text");
    asked.subject_alt_names.push(rcgen::SanType::URI(uri));
    let pem = asked
        .serialize_request(&key)
        .and_then(|request| request.pem())
        .expect("a request");
    CertificateRequest::from_pem(&pem).expect("acceptable")
}

fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .expect("certificates")
}

/// What a server of the product says about a client's chain, with the revocation lists as they are now.
fn verify(authority: &Authority, pem: &str, now: Timestamp) -> Result<(), CertificateError> {
    let lists = authority.lists_pem().expect("lists");
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(lists.as_bytes())
        .collect::<Result<_, _>>()
        .expect("lists");
    assert_eq!(lists.len(), 2, "one of the root, one of the intermediate");
    let mut roots = RootCertStore::empty();
    roots
        .add(chain(authority.root_pem()).remove(0))
        .expect("a root");
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .with_crls(lists)
        .build()
        .expect("a verifier");
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(
        u64::try_from(now.as_second()).expect("after 1970"),
    ));
    let chain = chain(pem);
    match verifier.verify_client_cert(&chain[0], &chain[1..], now) {
        Ok(_) => Ok(()),
        Err(muster_tls::rustls::Error::InvalidCertificate(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

fn details(pem: &str) -> CertDetails {
    CertDetails::from_der(&chain(pem)[0]).expect("a certificate")
}

#[test]
fn files_have_the_modes_that_they_should_have() {
    let (fixture, authority) = Fixture::new();
    drop(authority);
    let mut found: Vec<(String, u32)> = fs::read_dir(fixture.path())
        .expect("folder")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let mode = entry.metadata().expect("metadata").permissions().mode() & 0o777;
            (entry.file_name().into_string().expect("a name"), mode)
        })
        .collect();
    found.sort();
    let expected = [
        ("authority.json", 0o644),
        ("crl.pem", 0o644),
        ("intermediate-1.crl.pem", 0o644),
        ("intermediate-1.crt.pem", 0o644),
        ("intermediate-1.key.pem", 0o600),
        ("lock", 0o644),
        ("record.jsonl", 0o644),
        ("root.crl.pem", 0o644),
        ("root.crt.pem", 0o644),
        ("root.key.pem", 0o600),
    ];
    assert_eq!(found, expected.map(|(name, mode)| (name.to_owned(), mode)));
}

#[test]
fn the_authority_decides_what_a_certificate_says() {
    let (_fixture, mut authority) = Fixture::new();
    let wanted = profile("n1", "sm")
        .with_dns("n1.plant")
        .and_then(|it| it.with_ip([10, 0, 0, 7].into()))
        .expect("names");
    let issued = authority
        .issue_from_csr(&request(), &wanted, start())
        .expect("issued");
    let leaf = details(&issued.chain_pem);
    assert_eq!(leaf.facts.names.uris, ["spiffe://plant-7/node/n1/sm"]);
    assert_eq!(leaf.facts.names.dns, ["n1.plant"]);
    assert_eq!(leaf.facts.names.subject_cn, ["sm n1"]);
    assert_eq!(leaf.ips, [std::net::IpAddr::from([10, 0, 0, 7])]);
    assert_eq!(leaf.purposes, ["serverAuth", "clientAuth"]);
    assert_eq!((leaf.is_ca, leaf.serial), (false, Some(issued.serial)));
    assert_eq!(verify(&authority, &issued.chain_pem, start()), Ok(()));
}

#[test]
fn an_operator_is_a_client_with_a_key_of_its_own() {
    let (_fixture, mut authority) = Fixture::new();
    let issued = authority
        .issue_with_key(&profile("desk", "operator"), start())
        .expect("issued");
    assert_eq!(details(&issued.cert.chain_pem).purposes, ["clientAuth"]);
    let key = KeyPair::from_pem(&issued.key_pem).expect("a key");
    assert_eq!(
        hex::encode(details(&issued.cert.chain_pem).public_key),
        signer::public_key_hex(&key)
    );
    assert!(!format!("{issued:?}").contains("PRIVATE"));
    assert_eq!(verify(&authority, &issued.cert.chain_pem, start()), Ok(()));
}

#[test]
fn certificates_end_after_a_year_and_are_refused_then() {
    let (_fixture, mut authority) = Fixture::new();
    let issued = authority
        .issue_with_key(&profile("desk", "operator"), start())
        .expect("issued")
        .cert;
    assert_eq!(
        verify(&authority, &issued.chain_pem, start() + DAY * 364),
        Ok(())
    );
    let late = start() + DAY * 366;
    let refused = verify(&authority, &issued.chain_pem, late).expect_err("expired");
    assert!(
        matches!(
            refused,
            CertificateError::ExpiredContext { .. } | CertificateError::Expired
        ),
        "{refused:?}"
    );
    assert_eq!(
        authority
            .ledger()
            .get(issued.serial)
            .map(|cert| cert.status(late)),
        Some(Status::Expired)
    );
}

#[test]
fn a_revoked_certificate_is_refused_and_its_neighbours_are_not() {
    let (fixture, mut authority) = Fixture::new();
    let stolen = authority
        .issue_with_key(&profile("n1", "sm"), start())
        .expect("issued")
        .cert;
    let kept = authority
        .issue_with_key(&profile("n2", "sm"), start())
        .expect("issued")
        .cert;
    let revoke = |authority: &mut Authority| {
        authority.revoke(&[stolen.serial], Reason::KeyCompromise, start())
    };
    assert_eq!(
        revoke(&mut authority).expect("revoked"),
        [RevokeOutcome::Revoked]
    );
    assert_eq!(
        verify(&authority, &stolen.chain_pem, start()),
        Err(CertificateError::Revoked)
    );
    assert_eq!(verify(&authority, &kept.chain_pem, start()), Ok(()));
    assert_eq!(
        revoke(&mut authority).expect("again"),
        [RevokeOutcome::Already]
    );
    drop(authority);
    let authority = fixture.open(start());
    assert_eq!(
        verify(&authority, &stolen.chain_pem, start()),
        Err(CertificateError::Revoked)
    );
}

#[test]
fn nothing_is_revoked_if_one_number_is_unknown() {
    let (_fixture, mut authority) = Fixture::new();
    let good = authority
        .issue_with_key(&profile("n1", "sm"), start())
        .expect("issued")
        .cert;
    let unknown = Serial::random();
    let error = authority
        .revoke(&[good.serial, unknown], Reason::Unspecified, start())
        .expect_err("unknown");
    assert!(matches!(error, RevokeCertError::Unknown { serial } if serial == unknown));
    let intermediate = authority
        .ledger()
        .intermediate()
        .map(|(_, cert)| cert.issued.serial)
        .expect("one");
    assert!(matches!(
        authority.revoke(&[good.serial, intermediate], Reason::Unspecified, start()),
        Err(RevokeCertError::IsIntermediate { .. })
    ));
    assert_eq!(verify(&authority, &good.chain_pem, start()), Ok(()));
}

#[test]
fn renewal_keeps_names_and_key_or_makes_a_new_key() {
    let (_fixture, mut authority) = Fixture::new();
    let wanted = profile("n1", "cm").with_dns("main.plant").expect("a name");
    let first = authority
        .issue_from_csr(&request(), &wanted, start())
        .expect("issued");
    let later = start() + DAY * 340;
    assert_eq!(authority.ledger().due(DAY * 30, later).len(), 1);
    let second = authority.renew(first.serial, later).expect("renewed");
    let (old, new) = (details(&first.chain_pem), details(&second.chain_pem));
    assert_eq!(
        (old.public_key, old.facts.names),
        (new.public_key.clone(), new.facts.names)
    );
    assert_ne!(first.serial, second.serial);
    assert_eq!(verify(&authority, &second.chain_pem, later), Ok(()));
    assert_eq!(
        authority.ledger().due(DAY * 30, later),
        Vec::<&crate::TrackedCert>::new()
    );
    let third = authority
        .renew_with_key(second.serial, later)
        .expect("renewed");
    assert_ne!(details(&third.cert.chain_pem).public_key, new.public_key);
    assert_eq!(third.cert.profile, wanted);
}

#[test]
fn what_is_revoked_or_foreign_is_not_renewed() {
    let (_fixture, mut authority) = Fixture::new();
    let issued = authority
        .issue_with_key(&profile("n1", "sm"), start())
        .expect("issued")
        .cert;
    authority
        .revoke(&[issued.serial], Reason::Superseded, start())
        .expect("revoked");
    assert!(matches!(
        authority.renew(issued.serial, start()),
        Err(IssueCertError::Revoked { .. })
    ));
    assert!(matches!(
        authority.renew(Serial::random(), start()),
        Err(IssueCertError::Unknown { .. })
    ));
    let intermediate = authority
        .ledger()
        .intermediate()
        .map(|(_, cert)| cert.issued.serial)
        .expect("one");
    assert!(matches!(
        authority.renew(intermediate, start()),
        Err(IssueCertError::NotAPeer { .. })
    ));
}

#[test]
fn other_systems_are_not_certified() {
    let (_fixture, mut authority) = Fixture::new();
    let foreign = Profile::new("spiffe://plant-8/node/n1/sm".parse().expect("an id"));
    let error = authority
        .issue_with_key(&foreign, start())
        .expect_err("refused");
    assert_eq!(
        error.to_string(),
        "this is the authority of system plant-7, it certifies nothing of plant-8"
    );
}

#[test]
fn making_it_twice_changes_nothing_and_another_system_is_refused() {
    let (fixture, authority) = Fixture::new();
    let root = authority.root_pem().to_owned();
    drop(authority);
    let again = Authority::init(&fixture.path(), &system(), start()).expect("there");
    assert_eq!(
        (again.outcome, again.authority.root_pem()),
        (InitOutcome::Existing, root.as_str())
    );
    drop(again);
    let other = SystemId::new("plant-8").expect("an id");
    assert!(matches!(
        Authority::init(&fixture.path(), &other, start()),
        Err(InitAuthorityError::OtherSystem { .. })
    ));
}

#[test]
fn a_folder_with_other_things_in_it_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("thesis.tex"), "x").expect("a file");
    let error = Authority::init(folder.path(), &system(), start()).expect_err("refused");
    assert!(
        matches!(error, InitAuthorityError::NotEmpty { ref name, .. } if name == "thesis.tex"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 1);
    assert!(
        Authority::open(folder.path(), start())
            .expect_err("none")
            .is_not_found()
    );
    assert_eq!(
        fs::read_dir(folder.path()).expect("folder").count(),
        1,
        "no lock is left"
    );
}

#[test]
fn a_wrong_clock_makes_no_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Authority::init(folder.path(), &system(), Timestamp::UNIX_EPOCH).expect_err("1970");
    assert!(matches!(error, InitAuthorityError::Clock { .. }), "{error}");
}

#[test]
fn the_intermediate_is_certified_again_while_old_leaves_stay_valid() {
    let (fixture, mut authority) = Fixture::new();
    let later = start() + DAY * (365 * 4 - 10);
    let old = authority
        .issue_with_key(&profile("n1", "sm"), later)
        .expect("issued")
        .cert;
    drop(authority);
    let due = later + DAY * 20;
    let mut authority = fixture.open(due);
    let new = authority
        .issue_with_key(&profile("n2", "sm"), due)
        .expect("issued")
        .cert;
    assert_ne!(
        chain(&old.chain_pem)[1],
        chain(&new.chain_pem)[1],
        "another certificate of the intermediate"
    );
    assert_eq!(new.window.not_after, due + DAY * 365, "a whole year");
    for cert in [&old, &new] {
        assert_eq!(verify(&authority, &cert.chain_pem, due), Ok(()));
    }
    authority
        .revoke(&[old.serial], Reason::Superseded, due)
        .expect("revoked");
    assert_eq!(
        verify(&authority, &old.chain_pem, due),
        Err(CertificateError::Revoked)
    );
}

#[test]
fn near_the_end_of_the_root_certificates_are_shorter_and_then_there_are_none() {
    let (fixture, authority) = Fixture::new();
    let end = authority.root_not_after();
    drop(authority);
    let mut authority = fixture.open(end - DAY * 100);
    let issued = authority
        .issue_with_key(&profile("n1", "sm"), end - DAY * 100)
        .expect("issued")
        .cert;
    assert_eq!(issued.window.not_after, end);
    assert_eq!(verify(&authority, &issued.chain_pem, end - DAY), Ok(()));
    let error = authority
        .issue_with_key(&profile("n1", "sm"), end)
        .expect_err("over");
    assert!(matches!(error, IssueCertError::TooLate { .. }), "{error}");
}

#[test]
fn replacing_the_intermediate_ends_everything_it_has_signed() {
    let (fixture, mut authority) = Fixture::new();
    let old = authority
        .issue_with_key(&profile("n1", "sm"), start())
        .expect("issued")
        .cert;
    authority
        .replace_intermediate(Reason::KeyCompromise, start())
        .expect("replaced");
    let new = authority
        .issue_with_key(&profile("n1", "sm"), start())
        .expect("issued")
        .cert;
    let check = |authority: &Authority| {
        assert!(verify(authority, &old.chain_pem, start()).is_err());
        assert_eq!(verify(authority, &new.chain_pem, start()), Ok(()));
    };
    check(&authority);
    drop(authority);
    check(&fixture.open(start() + DAY));
}

#[test]
fn without_the_root_key_signing_goes_on_and_what_waits_is_named() {
    let (fixture, authority) = Fixture::new();
    drop(authority);
    let key = fixture.path().join("root.key.pem");
    let drawer = fixture.folder.path().join("drawer");
    fs::rename(&key, &drawer).expect("moved");
    let mut authority = fixture.open(start());
    assert_eq!(authority.neglected(), []);
    let issued = authority
        .issue_with_key(&profile("n1", "sm"), start())
        .expect("issued")
        .cert;
    authority
        .revoke(&[issued.serial], Reason::Superseded, start())
        .expect("revoked");
    assert_eq!(
        verify(&authority, &issued.chain_pem, start()),
        Err(CertificateError::Revoked)
    );
    assert!(matches!(
        authority.replace_intermediate(Reason::KeyCompromise, start()),
        Err(RevokeCertError::RootKey(_))
    ));
    drop(authority);

    let due = start() + DAY * (365 * 4 + 10);
    let authority = fixture.open(due);
    let not_after = start() + DAY * 365 * 5;
    assert_eq!(
        authority.neglected(),
        [Neglected::Intermediate { not_after }, Neglected::RootList]
    );
    drop(authority);
    fs::rename(&drawer, &key).expect("moved back");
    assert_eq!(fixture.open(due).neglected(), []);
}

#[test]
fn lists_are_renewed_at_half_time_and_their_numbers_grow() {
    let (fixture, authority) = Fixture::new();
    let number = |authority: &Authority| {
        [IssuerName::Root, IssuerName::Intermediate(1)]
            .map(|issuer| authority.ledger().last_list(issuer).map(|list| list.number))
    };
    assert_eq!(number(&authority), [Some(1), Some(1)]);
    drop(authority);
    assert_eq!(
        number(&fixture.open(start() + DAY * 10)),
        [Some(1), Some(1)]
    );
    let mut authority = fixture.open(start() + DAY * 16);
    assert_eq!(number(&authority), [Some(2), Some(2)]);
    authority.refresh_lists(start() + DAY * 16).expect("signed");
    assert_eq!(number(&authority), [Some(3), Some(3)]);
}

#[test]
fn a_lost_list_is_signed_again() {
    let (fixture, mut authority) = Fixture::new();
    let issued = authority
        .issue_with_key(&profile("n1", "sm"), start())
        .expect("issued")
        .cert;
    authority
        .revoke(&[issued.serial], Reason::Superseded, start())
        .expect("revoked");
    drop(authority);
    for name in ["crl.pem", "root.crl.pem", "intermediate-1.crl.pem"] {
        fs::remove_file(fixture.path().join(name)).expect("lost");
        assert_eq!(
            verify(&fixture.open(start()), &issued.chain_pem, start()),
            Err(CertificateError::Revoked),
            "{name}"
        );
    }
}

#[test]
fn keys_that_others_can_read_or_that_do_not_fit_are_refused() {
    let (fixture, authority) = Fixture::new();
    drop(authority);
    let key = fixture.path().join("intermediate-1.key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).expect("chmod");
    let error = Authority::open(&fixture.path(), start()).expect_err("exposed");
    assert!(
        matches!(error, OpenAuthorityError::Sign(SignError::KeyFile { .. })),
        "{error}"
    );
    fs::remove_file(&key).expect("removed");
    fs::copy(fixture.path().join("root.key.pem"), &key).expect("another key");
    let error = Authority::open(&fixture.path(), start()).expect_err("another key");
    assert!(
        matches!(error, OpenAuthorityError::Sign(SignError::Mismatch { .. })),
        "{error}"
    );
}

#[test]
fn an_unfinished_intermediate_is_finished() {
    let (fixture, authority) = Fixture::new();
    drop(authority);
    fs::remove_file(fixture.path().join("intermediate-1.crt.pem")).expect("removed");
    let mut authority = fixture.open(start());
    let issued = authority
        .issue_with_key(&profile("n1", "sm"), start())
        .expect("issued")
        .cert;
    assert_eq!(verify(&authority, &issued.chain_pem, start()), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is issued, renewed and revoked in whatever order over the years, a verifier agrees with the record about
    /// every certificate, and each says exactly what its profile says.
    #[test]
    fn verifiers_agree_with_the_record(steps in proptest::collection::vec((0..6_u8, 0..4_u8, 0..120_i32), 1..24)) {
        let (fixture, mut authority) = Fixture::new();
        let mut now = start();
        let mut handed_out: Vec<IssuedCert> = Vec::new();
        for (what, which, days) in steps {
            now += DAY * days;
            let target = handed_out.get(usize::from(which)).map(|cert| cert.serial);
            match (what, target) {
                (0, Some(serial)) => {
                    authority.revoke(&[serial], Reason::Superseded, now).expect("revoked");
                }
                (1, Some(serial)) => match authority.renew(serial, now) {
                    Ok(cert) => handed_out.push(cert),
                    Err(error) => prop_assert!(matches!(error, IssueCertError::Revoked { .. }), "{}", error),
                },
                (2, _) => {
                    drop(authority);
                    authority = fixture.open(now);
                }
                _ => {
                    let wanted = profile(&format!("n{which}"), if what == 3 { "operator" } else { "iam" })
                        .with_dns(&format!("h{which}.plant"))
                        .expect("a name");
                    handed_out.push(authority.issue_with_key(&wanted, now).expect("issued").cert);
                }
            }
        }
        drop(authority);
        let authority = fixture.open(now);
        for cert in &handed_out {
            let tracked = authority.ledger().get(cert.serial).expect("recorded");
            let said = details(&cert.chain_pem);
            prop_assert_eq!(&said.facts.names.uris, &[cert.profile.identity().to_string()]);
            prop_assert_eq!(said.facts.names.dns.as_slice(), cert.profile.dns());
            prop_assert_eq!(said.purposes.len(), cert.profile.purposes().len());
            let verdict = verify(&authority, &cert.chain_pem, now);
            match tracked.status(now) {
                Status::Valid => prop_assert_eq!(verdict, Ok(())),
                Status::Expired => prop_assert!(verdict.is_err()),
                Status::Revoked => prop_assert!(verdict.is_err()),
            }
        }
    }
}
