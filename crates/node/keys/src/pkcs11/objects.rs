//! Keys and certificates as objects of a token: templates, searches, attributes.

use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{
    Attribute, AttributeType, CertificateType, KeyType, ObjectClass, ObjectHandle,
};
use cryptoki::session::Session;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::chain::MAX_CERTS;
use crate::names::KeyAlgorithm;

/// Names the curve: DER of the object identifier of P-384.
const P384: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
/// The identifier of elliptic curve keys and the curve, as they stand in a public key of P-384.
const P384_KEY: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x22,
];
/// The identifier of RSA keys, as it stands in a public key.
const RSA_KEY: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
/// A point of P-384 that is not compressed.
const P384_POINT_LEN: usize = 97;

/// Which objects are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ObjectName {
    pub(super) label: Option<String>,
    pub(super) id: Option<Vec<u8>>,
}

impl ObjectName {
    fn template(&self, class: ObjectClass) -> Vec<Attribute> {
        let mut template = vec![Attribute::Class(class), Attribute::Token(true)];
        if let Some(label) = &self.label {
            template.push(Attribute::Label(label.clone().into_bytes()));
        }
        if let Some(id) = &self.id {
            template.push(Attribute::Id(id.clone()));
        }
        template
    }

    pub(super) fn find(
        &self,
        session: &Session,
        class: ObjectClass,
    ) -> Result<Vec<ObjectHandle>, Error> {
        session.find_objects(&self.template(class))
    }
}

/// The words for an object in errors.
impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.label, &self.id) {
            (Some(label), Some(id)) => write!(f, "{label:?} with id {}", hex::encode(id)),
            (Some(label), None) => write!(f, "{label:?}"),
            (None, Some(id)) => write!(f, "object with id {}", hex::encode(id)),
            (None, None) => f.write_str("object"),
        }
    }
}

/// Makes a key pair that never leaves the token.
pub(super) fn make_pair(
    session: &Session,
    label: &str,
    id: &[u8],
    algorithm: KeyAlgorithm,
) -> Result<(), Error> {
    let common = [
        Attribute::Token(true),
        Attribute::Label(label.as_bytes().to_vec()),
        Attribute::Id(id.to_vec()),
    ];
    let mut public = common.to_vec();
    public.extend([Attribute::Private(false), Attribute::Verify(true)]);
    let mut private = common.to_vec();
    private.extend([
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        Attribute::Sign(true),
    ]);
    let mechanism = match algorithm {
        KeyAlgorithm::EcP384 => {
            public.push(Attribute::EcParams(P384.to_vec()));
            Mechanism::EccKeyPairGen
        }
        KeyAlgorithm::Rsa2048 => {
            public.push(Attribute::ModulusBits(2048.into()));
            public.push(Attribute::PublicExponent(vec![1, 0, 1]));
            Mechanism::RsaPkcsKeyPairGen
        }
    };
    session
        .generate_key_pair(&mechanism, &public, &private)
        .map(drop)
}

/// Stores a certificate as an object.
pub(super) fn put_cert(
    session: &Session,
    label: &str,
    id: &[u8],
    der: &CertificateDer<'_>,
) -> Result<(), Error> {
    let Ok((_, cert)) = X509Certificate::from_der(der) else {
        return Err(Error::InvalidValue);
    };
    let mut serial = Vec::new();
    push_der(&mut serial, 0x02, cert.raw_serial());
    let template = [
        Attribute::Class(ObjectClass::CERTIFICATE),
        Attribute::CertificateType(CertificateType::X_509),
        Attribute::Token(true),
        Attribute::Private(false),
        Attribute::Label(label.as_bytes().to_vec()),
        Attribute::Id(id.to_vec()),
        Attribute::Subject(cert.subject().as_raw().to_vec()),
        Attribute::Issuer(cert.issuer().as_raw().to_vec()),
        Attribute::SerialNumber(serial),
        Attribute::Value(der.to_vec()),
    ];
    session.create_object(&template).map(drop)
}

/// Removes an object; one that is gone already is as good.
pub(super) fn remove(session: &Session, object: ObjectHandle) -> Result<(), Error> {
    match session.destroy_object(object) {
        Err(Error::Pkcs11(RvError::ObjectHandleInvalid, _)) => Ok(()),
        other => other,
    }
}

/// The object's `CKA_ID`; empty when it has none.
pub(super) fn id_of(session: &Session, object: ObjectHandle) -> Result<Vec<u8>, Error> {
    let found = session.get_attributes(object, &[AttributeType::Id])?;
    Ok(found
        .into_iter()
        .find_map(|attribute| match attribute {
            Attribute::Id(id) => Some(id),
            _ => None,
        })
        .unwrap_or_default())
}

/// The certificate in an object.
pub(super) fn cert_of(
    session: &Session,
    object: ObjectHandle,
) -> Result<Option<CertificateDer<'static>>, Error> {
    let found = session.get_attributes(object, &[AttributeType::Value])?;
    Ok(found.into_iter().find_map(|attribute| match attribute {
        Attribute::Value(der) => Some(CertificateDer::from(der)),
        _ => None,
    }))
}

/// The newest of several certificates, such as a renewed one and the one that it replaces while the
/// latter is still there. Authorities' certificates come last: they have the same label.
pub(super) fn newest(certs: Vec<CertificateDer<'static>>) -> Option<CertificateDer<'static>> {
    let rank = |der: &CertificateDer<'_>| {
        let cert = X509Certificate::from_der(der).ok();
        cert.map(|(_, cert)| (!cert.is_ca(), cert.validity().not_before.timestamp()))
    };
    certs.into_iter().max_by_key(rank)
}

/// Follows the issuers of a certificate through the token, as far as they are there.
pub(super) fn with_issuers(
    session: &Session,
    label: Option<&str>,
    leaf: CertificateDer<'static>,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let mut chain = vec![leaf];
    while chain.len() < MAX_CERTS {
        let next = {
            let last = chain.last().expect("a chain starts with its leaf");
            let Ok((_, cert)) = X509Certificate::from_der(last) else {
                break;
            };
            if cert.subject().as_raw() == cert.issuer().as_raw()
                && cert.verify_signature(None).is_ok()
            {
                break;
            }
            find_issuer(session, label, &cert)?
        };
        match next {
            Some(issuer) => chain.push(issuer),
            None => break,
        }
    }
    Ok(chain)
}

fn find_issuer(
    session: &Session,
    label: Option<&str>,
    of: &X509Certificate<'_>,
) -> Result<Option<CertificateDer<'static>>, Error> {
    let mut template = vec![
        Attribute::Class(ObjectClass::CERTIFICATE),
        Attribute::Token(true),
        Attribute::Subject(of.issuer().as_raw().to_vec()),
    ];
    template.extend(label.map(|label| Attribute::Label(label.as_bytes().to_vec())));
    for object in session.find_objects(&template)? {
        let Some(der) = cert_of(session, object)? else {
            continue;
        };
        // An authority may have had several keys under one name.
        let signed = X509Certificate::from_der(&der)
            .is_ok_and(|(_, issuer)| of.verify_signature(Some(issuer.public_key())).is_ok());
        if signed {
            return Ok(Some(der));
        }
    }
    Ok(None)
}

/// Kind and SubjectPublicKeyInfo of a public key; none when it is of a kind that is not used here.
pub(super) fn public_of(
    session: &Session,
    object: ObjectHandle,
) -> Result<Option<(KeyAlgorithm, Vec<u8>)>, Error> {
    let kind = session.get_attributes(object, &[AttributeType::KeyType])?;
    let wanted: &[AttributeType] = match kind.as_slice() {
        [Attribute::KeyType(KeyType::EC)] => &[AttributeType::EcParams, AttributeType::EcPoint],
        [Attribute::KeyType(KeyType::RSA)] => {
            &[AttributeType::Modulus, AttributeType::PublicExponent]
        }
        _ => return Ok(None),
    };
    let found = session.get_attributes(object, wanted)?;
    Ok(match found.as_slice() {
        [Attribute::EcParams(curve), Attribute::EcPoint(point)] if curve == P384 => {
            ec_spki(point).map(|spki| (KeyAlgorithm::EcP384, spki))
        }
        [
            Attribute::Modulus(modulus),
            Attribute::PublicExponent(exponent),
        ] => Some((KeyAlgorithm::Rsa2048, rsa_spki(modulus, exponent))),
        _ => None,
    })
}

/// The point is wrapped in an OCTET STRING; some tokens give it bare.
fn ec_spki(point: &[u8]) -> Option<Vec<u8>> {
    let bare = match point {
        [0x04, 0x61, rest @ ..] if rest.len() == P384_POINT_LEN => rest,
        bare => bare,
    };
    (bare.len() == P384_POINT_LEN && bare[0] == 0x04).then(|| spki(P384_KEY, bare))
}

fn rsa_spki(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    push_unsigned(&mut numbers, modulus);
    push_unsigned(&mut numbers, exponent);
    let mut key = Vec::new();
    push_der(&mut key, 0x30, &numbers);
    spki(RSA_KEY, &key)
}

fn spki(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let mut bits = vec![0];
    bits.extend_from_slice(key);
    let mut content = algorithm.to_vec();
    push_der(&mut content, 0x03, &bits);
    let mut spki = Vec::new();
    push_der(&mut spki, 0x30, &content);
    spki
}

/// Appends a positive INTEGER.
pub(super) fn push_unsigned(out: &mut Vec<u8>, big_endian: &[u8]) {
    let zeros = big_endian.iter().take_while(|byte| **byte == 0).count();
    let digits = &big_endian[zeros..];
    let mut content = Vec::with_capacity(digits.len() + 1);
    if digits.first().is_none_or(|first| first & 0x80 != 0) {
        content.push(0);
    }
    content.extend_from_slice(digits);
    push_der(out, 0x02, &content);
}

/// Appends one DER element.
pub(super) fn push_der(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let len = content.len().to_be_bytes();
    let zeros = len.iter().take_while(|byte| **byte == 0).count();
    let digits = &len[zeros..];
    match digits {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            // At most the eight bytes of a length.
            out.push(0x80 | u8::try_from(long.len()).unwrap_or(0x7f));
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use x509_parser::prelude::SubjectPublicKeyInfo;

    #[test]
    fn public_keys_are_written_as_in_certificates() {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        let expected = rcgen::PublicKeyData::subject_public_key_info(&pair);
        let mut wrapped = Vec::new();
        push_der(&mut wrapped, 0x04, pair.public_key_raw());
        assert_eq!(ec_spki(&wrapped), Some(expected.clone()));
        assert_eq!(ec_spki(pair.public_key_raw()), Some(expected));
        for bad in [&b""[..], &[4; 96], &[2; 97], &wrapped[1..]] {
            assert_eq!(ec_spki(bad), None);
        }
    }

    #[test]
    fn rsa_keys_are_written_as_in_certificates() {
        let der = rsa_spki(&[0xff; 256], &[1, 0, 1]);
        let (rest, spki) = SubjectPublicKeyInfo::from_der(&der).unwrap();
        assert!(rest.is_empty());
        let Ok(x509_parser::public_key::PublicKey::RSA(key)) = spki.parsed() else {
            panic!("an RSA key")
        };
        assert_eq!(key.key_size(), 2048);
        assert_eq!(key.try_exponent(), Ok(65537));
    }

    proptest! {
        #[test]
        fn integers_are_minimal(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut der = Vec::new();
            push_unsigned(&mut der, &bytes);
            let (rest, number) = x509_parser::der_parser::der::parse_der_integer(&der).unwrap();
            prop_assert!(rest.is_empty());
            let value = number.as_slice().unwrap();
            prop_assert!(value.len() == 1 || value[0] != 0 || value[1] & 0x80 != 0);
            let significant = |bytes: &[u8]| {
                bytes.iter().skip_while(|byte| **byte == 0).copied().collect::<Vec<_>>()
            };
            prop_assert_eq!(significant(value), significant(&bytes));
        }
    }
}
