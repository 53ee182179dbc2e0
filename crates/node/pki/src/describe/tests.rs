use super::*;
use crate::{Authority, Profile, Reason};

#[test]
fn everything_in_a_file_is_described_in_order_and_keys_are_only_mentioned() {
    let folder = tempfile::tempdir().expect("a folder");
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().expect("a time");
    let system = "plant-7".parse().expect("an id");
    let mut authority = Authority::init(folder.path(), &system, now)
        .expect("made")
        .authority;
    let identity = "spiffe://plant-7/node/desk/operator"
        .parse()
        .expect("an id");
    let issued = authority
        .issue_with_key(&Profile::new(identity), now)
        .expect("issued");
    authority
        .revoke(&[issued.cert.serial], Reason::Superseded, now)
        .expect("revoked");
    let text = format!(
        "{}{}{}",
        issued.cert.chain_pem,
        issued.key_pem.as_str(),
        authority.lists_pem().expect("lists")
    );
    let items = describe_pem(&text).expect("described");
    let [
        PemItem::Certificate(leaf),
        PemItem::Certificate(intermediate),
        PemItem::PrivateKey,
        PemItem::List(root_list),
        PemItem::List(list),
    ] = items.as_slice()
    else {
        panic!("{items:?}");
    };
    assert_eq!(
        public_key_of(&issued.key_pem).as_ref(),
        Some(&leaf.public_key)
    );
    assert_eq!(public_key_of("hello"), None);
    assert_eq!((leaf.is_ca, intermediate.is_ca), (false, true));
    assert_eq!(
        intermediate.facts.names.subject_cn,
        ["Muster intermediate 1"]
    );
    assert_eq!(root_list.revoked, Vec::<String>::new());
    assert_eq!(
        (list.number, list.revoked.as_slice()),
        (Some(2), [issued.cert.serial.to_string()].as_slice())
    );
}

#[test]
fn other_files_are_refused() {
    assert_eq!(describe_pem("hello"), Err(DescribeError::Nothing));
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(
        describe_pem(bad),
        Err(DescribeError::Certificate { number: 1, .. })
    ));
    let bad = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    assert_eq!(describe_pem(bad), Err(DescribeError::List { number: 1 }));
}
