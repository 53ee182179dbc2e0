use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;

use x509_parser::prelude::*;

use super::*;

fn parse(der: &[u8]) -> X509Certificate<'_> {
    let (rest, cert) = X509Certificate::from_der(der).unwrap();
    assert!(rest.is_empty());
    cert
}

fn pem_blocks(text: &str) -> Vec<Pem> {
    Pem::iter_from_buffer(text.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap()
}

fn names(cert: &X509Certificate<'_>) -> Vec<String> {
    cert.subject_alternative_name()
        .unwrap()
        .map(|names| {
            names
                .value
                .general_names
                .iter()
                .map(ToString::to_string)
                .collect()
        })
        .unwrap_or_default()
}

#[test]
fn node_certificate_names_the_node_and_verifies_against_the_root() {
    let pki = Pki::new("unit-7").unwrap();
    let issued = pki
        .issue(
            &CertSpec::node("main", "sm")
                .localhost()
                .organization("Acme")
                .common_name("cn"),
        )
        .unwrap();
    let cert = parse(&issued.der);

    assert_eq!(
        names(&cert),
        [
            "URI(spiffe://unit-7/node/main/sm)",
            "DNSName(localhost)",
            "IPAddress(7f:00:00:01)"
        ]
    );
    assert_eq!(cert.subject().to_string(), "CN=cn, O=Acme");
    assert_eq!(cert.raw_serial(), hex::decode(&issued.serial).unwrap());
    assert!(cert.validity().is_valid());
    assert!(!cert.is_ca());
    let purposes = cert.extended_key_usage().unwrap().unwrap().value;
    assert!(purposes.server_auth && purposes.client_auth && !purposes.any);

    let root_pem = pem_blocks(pki.ca_pem());
    let root = root_pem[0].parse_x509().unwrap();
    assert!(root.is_ca());
    root.verify_signature(None).unwrap();
    cert.verify_signature(Some(root.public_key())).unwrap();
    assert_eq!(
        pem_blocks(&issued.cert_pem).len(),
        1,
        "the root is not part of the chain"
    );
}

#[test]
fn key_belongs_to_the_certificate() {
    let issued = Pki::new("s")
        .unwrap()
        .issue(&CertSpec::node("n", "r"))
        .unwrap();
    let key = KeyPair::from_pem(&issued.key_pem).unwrap();
    assert_eq!(
        parse(&issued.der).public_key().raw,
        key.subject_public_key_info()
    );
}

#[test]
fn intermediates_chain_up_to_the_same_root() {
    let pki = Pki::new("s").unwrap();
    let lower = pki.intermediate().unwrap().intermediate().unwrap();
    let issued = lower.issue(&CertSpec::node("n", "iam")).unwrap();
    assert_eq!(lower.ca_pem(), pki.ca_pem());

    let bundle = issued.cert_pem.clone() + lower.ca_pem();
    let blocks = pem_blocks(&bundle);
    assert_eq!(blocks.len(), 4);
    let certs: Vec<_> = blocks
        .iter()
        .map(|block| block.parse_x509().unwrap())
        .collect();
    for pair in certs.windows(2) {
        assert_eq!(pair[0].issuer(), pair[1].subject());
        pair[0]
            .verify_signature(Some(pair[1].public_key()))
            .unwrap();
    }
    let mut serials: Vec<_> = certs
        .iter()
        .map(|cert| cert.raw_serial().to_vec())
        .collect();
    serials.sort();
    serials.dedup();
    assert_eq!(serials.len(), 4, "a serial names one certificate");
}

#[test]
fn wrong_certificates_are_wrong_in_the_way_asked_for() {
    let pki = Pki::new("s").unwrap();
    let spec = || CertSpec::node("n", "sm");

    let expired = pki.issue(&spec().expired()).unwrap();
    let validity = parse(&expired.der).validity().clone();
    assert!(validity.not_before < validity.not_after && validity.not_after < ASN1Time::now());

    let early = pki.issue(&spec().not_yet_valid()).unwrap();
    let validity = parse(&early.der).validity().clone();
    assert!(ASN1Time::now() < validity.not_before && validity.not_before < validity.not_after);

    let nameless = pki.issue(&spec().without_spiffe()).unwrap();
    assert_eq!(names(&parse(&nameless.der)), [""; 0]);

    let twofold = pki
        .issue(&spec().extra_uri("spiffe://s/node/n/cm"))
        .unwrap();
    assert_eq!(
        names(&parse(&twofold.der)),
        ["URI(spiffe://s/node/n/sm)", "URI(spiffe://s/node/n/cm)"]
    );

    let client_only = pki
        .issue(&spec().extended_key_usage([ExtendedKeyUsagePurpose::ClientAuth]))
        .unwrap();
    let cert = parse(&client_only.der);
    let purposes = cert.extended_key_usage().unwrap().unwrap().value;
    assert!(purposes.client_auth && !purposes.server_auth);

    let purposeless = pki.issue(&spec().extended_key_usage([])).unwrap();
    assert!(
        parse(&purposeless.der)
            .extended_key_usage()
            .unwrap()
            .is_none()
    );
}

#[test]
fn names_that_do_not_fit_are_refused_by_name() {
    let error = Pki::new("s")
        .unwrap()
        .issue(&CertSpec::node("n", "r").dns("müster"))
        .unwrap_err();
    assert!(matches!(&error, PkiError::Name { kind: "DNS", value, .. } if value == "müster"));
}

#[test]
fn revocation_list_holds_what_was_revoked_and_its_number_grows() {
    let pki = Pki::new("s").unwrap();
    let [kept, gone] = ["kept", "gone"].map(|id| pki.issue(&CertSpec::node(id, "sm")).unwrap());
    let read = |text: &str| {
        let block = &pem_blocks(text)[0];
        assert_eq!(block.label, "X509 CRL");
        let (_, list) = CertificateRevocationList::from_der(&block.contents).unwrap();
        let root_pem = pem_blocks(pki.ca_pem());
        let root = root_pem[0].parse_x509().unwrap();
        list.verify_signature(root.public_key()).unwrap();
        let serials: Vec<_> = list
            .iter_revoked_certificates()
            .map(|entry| hex::encode(entry.raw_serial()))
            .collect();
        (list.crl_number().unwrap().to_u64_digits(), serials)
    };

    let (first_number, revoked) = read(&pki.crl_pem().unwrap());
    assert_eq!(revoked, [""; 0]);
    pki.revoke(&gone).unwrap();
    pki.revoke(&gone).unwrap();
    let (second_number, revoked) = read(&pki.crl_pem().unwrap());
    assert_eq!(revoked, std::slice::from_ref(&gone.serial));
    assert!(!revoked.contains(&kept.serial));
    assert!(first_number < second_number);

    let other = Pki::new("s").unwrap();
    let error = other.revoke(&kept).unwrap_err();
    assert!(matches!(&error, PkiError::ForeignCertificate { serial } if *serial == kept.serial));
}

#[test]
fn files_are_written_whole_and_keys_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new("s").unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;

    let mut newest = None;
    for _ in 0..2 {
        let issued = pki
            .issue(&CertSpec::node("n", "sm").ip(Ipv4Addr::LOCALHOST))
            .unwrap();
        newest = Some((issued.write_to(dir.path(), "sm").unwrap(), issued));
    }
    let (files, issued) = newest.unwrap();
    assert_eq!(files.cert, dir.path().join("sm.crt.pem"));
    assert_eq!(
        std::fs::read_to_string(&files.cert).unwrap(),
        issued.cert_pem
    );
    assert_eq!(std::fs::read_to_string(&files.key).unwrap(), issued.key_pem);
    assert_eq!((mode(&files.cert), mode(&files.key)), (0o644, 0o600));

    let ca = pki.write_ca(dir.path(), "ca").unwrap();
    assert_eq!(std::fs::read_to_string(ca).unwrap(), pki.ca_pem());
    pki.write_crl(dir.path(), "ca").unwrap();
    let mut left: Vec<_> = dir
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["ca.crl.pem", "ca.pem", "sm.crt.pem", "sm.key.pem"]);

    let missing = dir.path().join("missing");
    let error = issued.write_to(&missing, "sm").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot write {}", missing.join("sm.key.pem").display())
    );
}

#[test]
fn debug_output_holds_no_key() {
    let pki = Pki::new("s").unwrap();
    let issued = pki.issue(&CertSpec::node("n", "sm")).unwrap();
    let body = issued.key_pem.lines().nth(1).unwrap();
    assert!(!format!("{issued:?}").contains(body));
    assert!(format!("{pki:?}").contains("elided"));
}

#[test]
fn a_signing_request_gets_a_certificate_for_its_key() {
    let pki = Pki::new("s").unwrap();
    let key = generate_key("n").unwrap();
    let request = CertificateParams::default()
        .serialize_request(&key)
        .unwrap();
    let spec = CertSpec::node("n", "sm");
    let chain = pki
        .intermediate()
        .unwrap()
        .sign_request(&request.pem().unwrap(), &spec)
        .unwrap();
    let blocks = pem_blocks(&chain);
    assert_eq!(blocks.len(), 2);
    let leaf = parse(&blocks[0].contents);
    assert_eq!(leaf.public_key().raw, key.subject_public_key_info());
    assert_eq!(names(&leaf), ["URI(spiffe://s/node/n/sm)"]);
    let refused = pki.sign_request("junk", &spec).unwrap_err();
    assert!(matches!(refused, PkiError::Request { .. }), "{refused:?}");
}
