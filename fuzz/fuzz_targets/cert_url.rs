#![no_main]
//! URLs of certificates and keys, as configuration, the wire and other programs give them: nothing
//! panics, what was read prints to something that reads the same, and a PIN is never printed.

use libfuzzer_sys::fuzz_target;
use muster_keys::{CertUrl, PinSource, Pkcs11Uri};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(mut url) = CertUrl::parse(text) else {
        return;
    };
    let printed = url.to_string();
    assert!(printed.bytes().all(|byte| byte.is_ascii_graphic()));
    if let CertUrl::Pkcs11(uri) = &mut url
        && matches!(uri.pin, Some(PinSource::Value(_)))
    {
        assert!(!printed.contains("pin-value="));
        **uri = Pkcs11Uri { pin: None, ..(**uri).clone() };
    }
    assert_eq!(CertUrl::parse(&printed), Ok(url));
});
