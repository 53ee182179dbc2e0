//! The life of keys and certificates in a token.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use cryptoki::object::{Attribute, AttributeType, ObjectClass};
use muster_keys::{CertUrl, PinSource};
use muster_lab::pki::Pki;

use crate::fixture::{LIBRARY, cert_type, objects, renew, sign, stranger, subject, with_token};

#[test]
fn a_new_token_gets_random_pins_in_files_for_the_owner_alone() {
    with_token(
        "handler::a_new_token_gets_random_pins_in_files_for_the_owner_alone",
        |place| {
            let handler = place.owned(&["sm", "cm"], "ecc");
            assert_eq!(
                fs::read_dir(place.tokens()).unwrap().count(),
                1,
                "types share a token"
            );
            let administrator = place.folder.join("pin.so");
            let mut pins = Vec::new();
            for file in [place.pin_file(), administrator] {
                let mode = fs::metadata(&file).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600, "{file:?}");
                pins.push(fs::read_to_string(&file).unwrap());
            }
            assert!(pins.iter().all(|pin| pin.len() == 32) && pins[0] != pins[1]);
            let shown = format!("{handler:?}");
            assert!(pins.iter().all(|pin| !shown.contains(pin.as_str())));
            handler.set_owner(&cert_type("sm"), "").unwrap();
            assert_eq!(
                fs::read_to_string(place.pin_file()).unwrap(),
                pins[0],
                "nothing changed"
            );
        },
    );
}

#[test]
fn keys_of_both_kinds_are_made_certified_and_found() {
    with_token(
        "handler::keys_of_both_kinds_are_made_certified_and_found",
        |place| {
            let pki = Pki::new("system-1").unwrap().intermediate().unwrap();
            let handler = place.open(vec![
                place.config("sm", |raw| raw.max_items = 2),
                place.config("iam", |raw| {
                    raw.algorithm = "rsa".into();
                    raw.max_items = 2;
                }),
            ]);
            for role in ["sm", "iam"] {
                let cert_type = cert_type(role);
                handler.set_owner(&cert_type, "").unwrap();
                let csr = handler.create_key(&cert_type, &subject(role)).unwrap();
                assert_eq!(handler.create_key(&cert_type, &subject(role)).unwrap(), csr);
                let chain = sign(&pki, &csr, role);
                let info = handler.apply_cert(&cert_type, &chain).unwrap();
                assert_eq!(handler.apply_cert(&cert_type, &chain).unwrap(), info);
                assert_eq!(handler.cert(&cert_type, None, None).unwrap(), info);

                let CertUrl::Pkcs11(url) = info.key_url.parse().unwrap() else {
                    panic!("{}", info.key_url)
                };
                assert_eq!(url.token.as_deref(), Some("muster test"));
                assert_eq!(url.object.as_deref(), Some(role));
                assert_eq!(url.module_path.as_deref(), Some(LIBRARY.as_ref()));
                assert_eq!(url.pin, Some(PinSource::File(place.pin_file())));
            }
            // Leaf, intermediate, public and private key for each type.
            assert_eq!(objects(&place.tokens()), 8);
        },
    );
}

#[test]
fn private_keys_cannot_be_taken_out() {
    with_token("handler::private_keys_cannot_be_taken_out", |place| {
        let handler = place.owned(&["sm"], "ecc");
        handler
            .create_key(&cert_type("sm"), &subject("sm"))
            .unwrap();
        // Whoever shares the process is logged in with it.
        let session = stranger();
        let keys = session
            .find_objects(&[Attribute::Class(ObjectClass::PRIVATE_KEY)])
            .unwrap();
        let [key] = keys.as_slice() else {
            panic!("one private key: {keys:?}")
        };
        let attributes = session
            .get_attributes(
                *key,
                &[
                    AttributeType::Extractable,
                    AttributeType::Sensitive,
                    AttributeType::NeverExtractable,
                    AttributeType::AlwaysSensitive,
                    AttributeType::Private,
                    AttributeType::Value,
                ],
            )
            .unwrap();
        // The value itself is not among them: the token does not give it.
        assert_eq!(
            attributes,
            [
                Attribute::Extractable(false),
                Attribute::Sensitive(true),
                Attribute::NeverExtractable(true),
                Attribute::AlwaysSensitive(true),
                Attribute::Private(true),
            ]
        );
    });
}

#[test]
fn the_oldest_makes_room_and_clearing_spares_other_types() {
    with_token(
        "handler::the_oldest_makes_room_and_clearing_spares_other_types",
        |place| {
            let pki = Pki::new("system-1").unwrap().intermediate().unwrap();
            let handler = place.owned(&["sm", "cm"], "ecc");
            let other = renew(&handler, &pki, "cm");
            let first = renew(&handler, &pki, "sm");
            let second = renew(&handler, &pki, "sm");
            assert_eq!(objects(&place.tokens()), 8);
            let serial = first.serial_hex();
            assert!(handler.cert(&cert_type("sm"), None, Some(&serial)).is_err());
            assert_eq!(handler.cert(&cert_type("sm"), None, None).unwrap(), second);

            handler.clear(&cert_type("sm")).unwrap();
            handler.clear(&cert_type("sm")).unwrap();
            assert_eq!(objects(&place.tokens()), 4);
            assert_eq!(handler.cert(&cert_type("cm"), None, None).unwrap(), other);
        },
    );
}

#[test]
fn a_renewed_certificate_replaces_the_one_of_its_key() {
    with_token(
        "handler::a_renewed_certificate_replaces_the_one_of_its_key",
        |place| {
            let pki = Pki::new("system-1").unwrap().intermediate().unwrap();
            let handler = place.owned(&["sm"], "ecc");
            let csr = handler
                .create_key(&cert_type("sm"), &subject("sm"))
                .unwrap();
            let first = handler
                .apply_cert(&cert_type("sm"), &sign(&pki, &csr, "sm"))
                .unwrap();
            let other = Pki::new("system-1").unwrap();
            let second = handler
                .apply_cert(&cert_type("sm"), &sign(&other, &csr, "sm"))
                .unwrap();
            assert_eq!(first.key_url, second.key_url);
            assert_ne!(first.issuer, second.issuer);
            assert_eq!(
                objects(&place.tokens()),
                3,
                "the intermediate went with its leaf"
            );
            drop(handler);
            let handler = place.open(vec![place.config("sm", |_| {})]);
            assert_eq!(handler.cert(&cert_type("sm"), None, None).unwrap(), second);
        },
    );
}

#[test]
fn a_lost_index_costs_no_certificate() {
    with_token("handler::a_lost_index_costs_no_certificate", |place| {
        let pki = Pki::new("system-1").unwrap().intermediate().unwrap();
        let handler = place.owned(&["sm"], "ecc");
        let info = renew(&handler, &pki, "sm");
        handler
            .create_key(&cert_type("sm"), &subject("sm"))
            .unwrap();
        drop(handler);
        fs::remove_dir_all(place.folder.join("index")).unwrap();
        let before = objects(&place.tokens());
        let handler = place.open(vec![place.config("sm", |_| {})]);
        assert_eq!(handler.cert(&cert_type("sm"), None, None).unwrap(), info);
        renew(&handler, &pki, "sm");
        assert_eq!(
            objects(&place.tokens()),
            before - 2,
            "the waiting key was used"
        );
    });
}

#[test]
fn self_signed_certificates_are_made_in_the_token() {
    with_token(
        "handler::self_signed_certificates_are_made_in_the_token",
        |place| {
            let offline = cert_type("offline");
            let config = || {
                place.config("offline", |raw| {
                    raw.self_signed = true;
                    raw.algorithm = "rsa".into();
                })
            };
            let handler = place.open(vec![config()]);
            handler.set_owner(&offline, "password of mine").unwrap();
            assert!(
                !place.folder.join("pin.so").exists(),
                "the password is the caller's to keep"
            );
            let info = handler.create_self_signed(&offline).unwrap();
            drop(handler);
            assert_eq!(
                place
                    .open(vec![config()])
                    .create_self_signed(&offline)
                    .unwrap(),
                info
            );
        },
    );
}
