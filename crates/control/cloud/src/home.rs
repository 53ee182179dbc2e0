//! Where the Unit's own certificate says that its cloud is.
//!
//! Whoever certifies a Unit for its cloud names that cloud in the certificate, as a URI among the issuer's alternative names.
//! The organization of the subject, which some Units take for a host, is not looked at: authorities write the system's name
//! there.

use http::Uri;
use muster_tls::ClientTls;
use muster_tls::rustls::SignatureScheme;
use x509_parser::prelude::{FromDer as _, GeneralName, ParsedExtension, X509Certificate};

/// No address of a cloud is longer.
const LONGEST_ADDRESS: usize = 1024;

/// A certificate with any of these keys is one that could be shown.
const SCHEMES: [SignatureScheme; 5] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA256,
];

/// The cloud that is named by the certificate which a new connection would show now.
pub(crate) fn home(tls: &ClientTls) -> Option<Uri> {
    let configuration = tls.configuration()?;
    let resolver = &configuration.client_auth_cert_resolver;
    let shown = resolver.resolve(&[], &SCHEMES)?;
    named_by(shown.cert.first()?)
}

/// The first `https` address among the alternative names of the certificate's issuer.
fn named_by(certificate: &[u8]) -> Option<Uri> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let names = certificate.extensions().iter().filter_map(|extension| {
        match extension.parsed_extension() {
            ParsedExtension::IssuerAlternativeName(names) => Some(&names.general_names),
            _ => None,
        }
    });
    names.flatten().find_map(|name| match name {
        GeneralName::URI(text) if text.len() <= LONGEST_ADDRESS => {
            let address: Uri = text.parse().ok()?;
            let usable = address.scheme_str() == Some("https") && address.host().is_some();
            usable.then_some(address)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use muster_lab::pki::{CertSpec, Pki};
    use proptest::prelude::*;

    use super::*;

    fn named(spec: &CertSpec) -> Option<Uri> {
        let pki = Pki::new("unit-1").expect("an authority");
        named_by(&pki.issue(spec).expect("issued").der)
    }

    #[test]
    fn the_cloud_is_the_first_protected_address_of_the_issuer() {
        let spec = || CertSpec::node("main", "online");
        assert_eq!(named(&spec()), None);
        let cloud = named(&spec().issuer_uri("https://cloud.example:9000"));
        assert_eq!(cloud, Some(Uri::from_static("https://cloud.example:9000")));
        for other in [
            "http://cloud.example",
            "ldap://directory",
            "https:",
            "no address",
        ] {
            assert_eq!(named(&spec().issuer_uri(other)), None, "{other}");
            let second = spec().issuer_uri(other).issuer_uri("https://b");
            assert_eq!(
                named(&second),
                Some(Uri::from_static("https://b")),
                "{other}"
            );
        }
        let long = format!("https://{}", "a".repeat(LONGEST_ADDRESS));
        assert_eq!(named(&spec().issuer_uri(&long)), None);
        // The system's name, in certificates of this product.
        assert_eq!(named(&spec().organization("cloud.example")), None);
    }

    proptest! {
        #[test]
        fn a_damaged_certificate_names_nobody_or_somebody(at in any::<prop::sample::Index>(), with in any::<u8>()) {
            let pki = Pki::new("unit-1").expect("an authority");
            let spec = CertSpec::node("main", "online").issuer_uri("https://cloud.example");
            let mut der = pki.issue(&spec).expect("issued").der;
            let at = at.index(der.len());
            der[at] ^= with;
            let _named = named_by(&der);
            let _cut = named_by(&der[..at]);
        }
    }
}
