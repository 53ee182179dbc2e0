//! What goes wrong with tokens, and what is said about it.

use std::error::Error;
use std::fs;

use muster_keys::{
    CertHandler, CreateKeyError, FindCertError, KeyModuleError, KeyStoreError, OwnerError,
    TokenError, UrlCertSource,
};
use muster_lab::pki::Pki;
use muster_tls::CertSource as _;

use crate::fixture::{
    LIBRARY, Place, cert_type, log_out_everybody, objects, renew, subject, with_token,
};

/// An error with everything behind it.
fn words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words = format!("{words}: {cause}");
        next = cause.source();
    }
    words
}

fn token_error(error: KeyStoreError) -> TokenError {
    let KeyStoreError::Module(error) = error else {
        panic!("{error:?}")
    };
    match *error {
        KeyModuleError::Token(error) => error,
        other => panic!("{other:?}"),
    }
}

fn create_error(handler: &CertHandler) -> TokenError {
    match handler
        .create_key(&cert_type("sm"), &subject("sm"))
        .unwrap_err()
    {
        CreateKeyError::Store { source, .. } => token_error(source),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_library_that_is_missing_or_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place {
        folder: folder.path().to_owned(),
    };
    let text = folder.path().join("text.so");
    fs::write(&text, "not a library").unwrap();
    for library in [folder.path().join("missing.so"), text] {
        let config = place.config("sm", |raw| raw.params.library = Some(library.clone()));
        let handler = place.open(vec![config]);
        let OwnerError::Own { source, .. } = handler.set_owner(&cert_type("sm"), "").unwrap_err()
        else {
            panic!("no owner")
        };
        let error = token_error(source);
        assert!(matches!(error, TokenError::Library { .. }), "{error:?}");
        assert!(words(&error).contains(&library.display().to_string()));
    }
}

#[test]
fn a_token_without_an_owner_is_said_to_have_none() {
    with_token(
        "negative::a_token_without_an_owner_is_said_to_have_none",
        |place| {
            let handler = place.open(vec![place.config("sm", |_| {})]);
            let error = create_error(&handler);
            assert!(matches!(error, TokenError::NoToken { .. }), "{error:?}");
            assert!(error.to_string().contains("\"muster test\""), "{error}");
            let found = handler.cert(&cert_type("sm"), None, None).unwrap_err();
            assert!(matches!(found, FindCertError::Store { .. }), "{found:?}");
            handler.clear(&cert_type("sm")).unwrap();
            // From here on it works, without starting anew.
            handler.set_owner(&cert_type("sm"), "").unwrap();
            renew(&handler, &Pki::new("system-1").unwrap(), "sm");
        },
    );
}

#[test]
fn a_refused_pin_is_not_tried_again_until_it_changes() {
    with_token(
        "negative::a_refused_pin_is_not_tried_again_until_it_changes",
        |place| {
            drop(place.owned(&["sm"], "ecc"));
            let good = fs::read_to_string(place.pin_file()).unwrap();
            fs::write(place.pin_file(), "wrong pin").unwrap();
            log_out_everybody();
            let handler = place.open(vec![place.config("sm", |_| {})]);
            let error = create_error(&handler);
            assert!(
                matches!(error, TokenError::PinRefusedBefore { .. }),
                "{error:?}"
            );
            let shown = format!("{error:?} {} {handler:?}", words(&error));
            assert!(!shown.contains("wrong pin"), "{shown}");

            fs::write(place.pin_file(), "").unwrap();
            assert!(matches!(create_error(&handler), TokenError::PinText { .. }));
            fs::remove_file(place.pin_file()).unwrap();
            assert!(matches!(create_error(&handler), TokenError::PinFile { .. }));
            // An editor may have left a line end.
            fs::write(place.pin_file(), format!("{good}\n")).unwrap();
            renew(&handler, &Pki::new("system-1").unwrap(), "sm");
        },
    );
}

#[test]
fn a_token_whose_pin_was_lost_is_taken_over_with_what_it_keeps() {
    with_token(
        "negative::a_token_whose_pin_was_lost_is_taken_over_with_what_it_keeps",
        |place| {
            let open = || place.open(vec![place.config("sm", |_| {})]);
            let handler = open();
            handler
                .set_owner(&cert_type("sm"), "administrator")
                .unwrap();
            let info = renew(&handler, &Pki::new("system-1").unwrap(), "sm");
            drop(handler);
            fs::remove_file(place.pin_file()).unwrap();

            let handler = open();
            let refused = handler
                .set_owner(&cert_type("sm"), "somebody else")
                .unwrap_err();
            let OwnerError::Own { source, .. } = refused else {
                panic!("{refused:?}")
            };
            let error = token_error(source);
            assert!(matches!(error, TokenError::Administer { .. }), "{error:?}");
            assert!(!format!("{error:?} {}", words(&error)).contains("somebody else"));

            handler
                .set_owner(&cert_type("sm"), "administrator")
                .unwrap();
            assert_eq!(handler.cert(&cert_type("sm"), None, None).unwrap(), info);
            renew(&handler, &Pki::new("system-1").unwrap(), "sm");
            assert_eq!(objects(&place.tokens()), 3);
        },
    );
}

#[test]
fn two_tokens_of_one_name_are_told_apart_or_refused() {
    with_token(
        "negative::two_tokens_of_one_name_are_told_apart_or_refused",
        |place| {
            let pin = "a pin of the operator";
            fs::write(place.pin_file(), pin).unwrap();
            let made = [(); 2].map(|()| {
                let made = std::process::Command::new("softhsm2-util")
                    .args(["--init-token", "--free", "--label", "muster test"])
                    .args(["--so-pin", "12345678", "--pin", pin])
                    .output()
                    .unwrap();
                assert!(made.status.success(), "{made:?}");
                String::from_utf8(made.stdout).unwrap()
            });
            let handler = place.open(vec![place.config("sm", |_| {})]);
            let error = create_error(&handler);
            assert!(
                matches!(error, TokenError::Ambiguous { found: 2, .. }),
                "{error:?}"
            );

            let slot = made[1].split_whitespace().last().unwrap();
            let slot = slot.parse().unwrap();
            let handler = place.open(vec![place.config("sm", |raw| {
                raw.params.slot_id = Some(slot);
            })]);
            renew(&handler, &Pki::new("system-1").unwrap(), "sm");
        },
    );
}

#[test]
fn a_full_token_refuses_and_recovers() {
    muster_lab::require!(Root);
    with_token("negative::a_full_token_refuses_and_recovers", |place| {
        let handler = place.owned(&["sm"], "ecc");
        let pki = Pki::new("system-1").unwrap();
        let info = renew(&handler, &pki, "sm");
        // Files cannot be made in the token's folder any more, as on a full disk.
        let token = fs::read_dir(place.tokens())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let immutable = |on: &str| {
            let done = std::process::Command::new("chattr")
                .arg(on)
                .arg(&token)
                .status();
            done.is_ok_and(|status| status.success())
        };
        assert!(immutable("+i"), "the file system has no such flag");
        let error = create_error(&handler);
        assert!(immutable("-i"));
        assert!(matches!(error, TokenError::Operation { .. }), "{error:?}");
        assert!(error.to_string().contains("make the key"), "{error}");
        assert_eq!(handler.cert(&cert_type("sm"), None, None).unwrap(), info);
        renew(&handler, &pki, "sm");
        assert_eq!(objects(&place.tokens()), 3);
    });
}

#[test]
fn urls_that_lead_nowhere_are_named_without_their_pin() {
    with_token(
        "negative::urls_that_lead_nowhere_are_named_without_their_pin",
        |place| {
            let handler = place.owned(&["sm"], "ecc");
            let info = renew(&handler, &Pki::new("system-1").unwrap(), "sm");
            let pin = fs::read_to_string(place.pin_file()).unwrap();
            let given = info.key_url.split("&pin-source").next().unwrap().to_owned();
            let given = format!("{given}&pin-value={pin}");
            let load = |url: &str| {
                let source = UrlCertSource::new(url, url, Vec::new(), Vec::new()).unwrap();
                assert!(!format!("{source:?}").contains(&pin));
                source.load()
            };
            load(&given).unwrap();
            let other_id = given.replacen("id=%", "id=%00%", 1);
            let other_token = given.replacen("muster%20test", "other", 1);
            let no_library = format!("pkcs11:token=muster%20test;object=sm?pin-value={pin}");
            let no_object =
                format!("pkcs11:token=muster%20test?module-path={LIBRARY}&pin-value={pin}");
            for url in [other_id, other_token, no_library, no_object] {
                let error = load(&url).unwrap_err();
                let shown = format!("{} {error:?}", words(&error));
                assert!(shown.contains("pkcs11:token="), "{shown}");
                assert!(!shown.contains(&pin), "{shown}");
            }
            let missing =
                UrlCertSource::new("file:///nowhere/c", "file:///nowhere/k", vec![], vec![]);
            assert!(words(&missing.unwrap().load().unwrap_err()).contains("/nowhere/c"));
            assert!(UrlCertSource::new("file:///c", &info.key_url, vec![], vec![]).is_err());
        },
    );
}
