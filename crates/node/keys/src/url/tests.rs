use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use proptest::prelude::*;
use zeroize::Zeroizing;

use super::*;

fn pkcs11(text: &str) -> Result<Pkcs11Uri, ParseUrlError> {
    match CertUrl::parse(text)? {
        CertUrl::Pkcs11(uri) => Ok(*uri),
        CertUrl::File(path) => panic!("a file: {path:?}"),
    }
}

#[test]
fn a_full_pkcs11_uri_is_read() {
    let uri = pkcs11(
        "pkcs11:token=The%20Token;object=iam;id=%01%fF;type=private;slot-id=7;serial=9\
         ?module-path=/usr/lib/p11.so&pin-source=/var/pin%20file&x-vendor=1",
    )
    .unwrap();
    assert_eq!(uri.token.as_deref(), Some("The Token"));
    assert_eq!(uri.object.as_deref(), Some("iam"));
    assert_eq!(uri.id, Some(vec![1, 255]));
    assert_eq!(uri.kind, Some(ObjectKind::PrivateKey));
    assert_eq!(uri.slot_id, Some(7));
    assert_eq!(uri.module_path, Some("/usr/lib/p11.so".into()));
    assert_eq!(uri.pin, Some(PinSource::File("/var/pin file".into())));
    assert_eq!(
        uri.to_string(),
        "pkcs11:token=The%20Token;serial=9;slot-id=7;object=iam;id=%01%FF;type=private\
         ?module-path=/usr/lib/p11.so&pin-source=/var/pin%20file"
    );
}

#[test]
fn what_other_programs_write_is_read() {
    let all_coded = pkcs11("PKCS11:token=aos?module-path=%2Fusr%2Flib%2Fp11.so").unwrap();
    assert_eq!(all_coded.module_path, Some("/usr/lib/p11.so".into()));
    for source in ["file:/var/pin", "file:///var/pin", "/var/pin", "%2Fvar/pin"] {
        let uri = pkcs11(&format!("pkcs11:?pin-source={source}")).unwrap();
        assert_eq!(
            uri.pin,
            Some(PinSource::File("/var/pin".into())),
            "{source}"
        );
    }
    assert_eq!(pkcs11("pkcs11:").unwrap(), Pkcs11Uri::default());
    assert_eq!(
        pkcs11("pkcs11:;token=a;").unwrap().token.as_deref(),
        Some("a")
    );
}

#[test]
fn a_pin_is_read_and_never_shown() {
    let url = CertUrl::parse("pkcs11:token=t?pin-value=geheim").unwrap();
    let CertUrl::Pkcs11(uri) = &url else {
        panic!("a token")
    };
    assert_eq!(
        uri.pin,
        Some(PinSource::Value(Zeroizing::new("geheim".into())))
    );
    assert!(!format!("{url} {url:?}").contains("geheim"));
    let error = CertUrl::parse("pkcs11:pin-value=geheim").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("geheim"));
}

#[test]
fn hostile_pkcs11_uris_are_refused() {
    let long = format!("pkcs11:token={}", "a".repeat(1025));
    let longer = format!("pkcs11:token={}", "a".repeat(5000));
    let long_id = format!("pkcs11:id={}", "%00".repeat(129));
    for bad in [
        "pkcs11",
        "pkcs12:token=a",
        "pkcs11:token",
        "pkcs11:token=",
        "pkcs11:token=%",
        "pkcs11:token=%4",
        "pkcs11:token=%zz",
        "pkcs11:token=%00",
        "pkcs11:token=%ff",
        "pkcs11:token=a b",
        "pkcs11:token=a\nb",
        "pkcs11:token=ä",
        "pkcs11:token=a;token=b",
        "pkcs11:colour=red",
        "pkcs11:library-manufacturer=x",
        "pkcs11:slot-id=-1",
        "pkcs11:slot-id=+1",
        "pkcs11:slot-id=99999999999999999999",
        "pkcs11:type=data",
        "pkcs11:id=",
        "pkcs11:?module-path=lib.so",
        "pkcs11:?pin-source=pin",
        "pkcs11:?pin-source=http://pin",
        "pkcs11:?pin-source=/a&pin-value=b",
        "pkcs11:?module-path",
        &long,
        &longer,
        &long_id,
    ] {
        assert!(CertUrl::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn file_urls_have_absolute_paths() {
    for (text, path) in [
        ("file:///a/b.pem", "/a/b.pem"),
        ("file:/a%20b", "/a b"),
        ("FILE://localhost/a", "/a"),
        ("file:///a%3Fb%23c", "/a?b#c"),
    ] {
        assert_eq!(
            CertUrl::parse(text),
            Ok(CertUrl::File(path.into())),
            "{text}"
        );
    }
    for bad in [
        "file:",
        "file:a",
        "file://",
        "file://host/a",
        "file://localhosta",
        "file:///a?b",
        "file:///a#b",
        "file:///a%00",
        "file:///a%0",
        "/a",
        "",
        "f\u{fc}le:///a",
    ] {
        assert!(CertUrl::parse(bad).is_err(), "{bad}");
    }
}

fn uris() -> impl Strategy<Value = Pkcs11Uri> {
    let text = || proptest::option::of("[^\0]{1,20}");
    let kind = proptest::option::of(prop_oneof![
        Just(ObjectKind::Certificate),
        Just(ObjectKind::PrivateKey),
        Just(ObjectKind::PublicKey),
    ]);
    let path = || proptest::option::of("/[^\0]{0,20}".prop_map(PathBuf::from));
    let ids = proptest::option::of(proptest::collection::vec(any::<u8>(), 1..40));
    (
        (text(), text(), text(), text(), text()),
        (ids, kind, any::<Option<u64>>(), path(), path()),
    )
        .prop_map(
            |(
                (token, serial, manufacturer, model, object),
                (id, kind, slot_id, module_path, pin),
            )| {
                Pkcs11Uri {
                    token,
                    serial,
                    manufacturer,
                    model,
                    slot_id,
                    object,
                    id,
                    kind,
                    module_path,
                    pin: pin.map(PinSource::File),
                }
            },
        )
}

proptest! {
    #[test]
    fn every_pkcs11_uri_survives_printing(uri in uris()) {
        let printed = uri.to_string();
        prop_assert!(printed.is_ascii());
        prop_assert_eq!(CertUrl::parse(&printed), Ok(CertUrl::Pkcs11(Box::new(uri))));
    }

    #[test]
    fn every_path_survives_printing(name in proptest::collection::vec(1u8.., 0..60)) {
        let mut path = b"/".to_vec();
        path.extend(&name);
        let path = PathBuf::from(OsStr::from_bytes(&path));
        let printed = CertUrl::File(path.clone()).to_string();
        prop_assert!(printed.is_ascii());
        prop_assert_eq!(CertUrl::parse(&printed), Ok(CertUrl::File(path)));
    }

    #[test]
    fn no_text_panics_and_what_is_read_prints_to_itself(text in "(pkcs11:|file:)?[ -~]{0,80}|\\PC{0,40}") {
        if let Ok(url) = CertUrl::parse(&text) {
            let again = CertUrl::parse(&url.to_string());
            if let CertUrl::Pkcs11(uri) = &url
                && matches!(uri.pin, Some(PinSource::Value(_))) {
                prop_assert!(again.is_ok());
            } else {
                prop_assert_eq!(again, Ok(url));
            }
        }
    }
}
