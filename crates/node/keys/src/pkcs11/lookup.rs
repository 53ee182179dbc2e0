//! Keys and certificates by URL.

use std::sync::Arc;

use cryptoki::error::Error;
use cryptoki::object::ObjectClass;
use cryptoki::session::Session;
use rustls_pki_types::CertificateDer;

use super::library::Library;
use super::objects::{self, ObjectName};
use super::token::{Token, TokenSpec};
use super::{TokenError, TokenSigningKey};
use crate::url::Pkcs11Uri;

/// The certificate that a URL names, with its issuers as far as the token has them.
pub(crate) fn load_chain(uri: &Pkcs11Uri) -> Result<Vec<CertificateDer<'static>>, TokenError> {
    let (token, name) = open(uri)?;
    chain(&token, &name)?.ok_or_else(|| TokenError::NoObject {
        token: token.name(),
        object: format!("certificate {name}"),
    })
}

/// The private key that a URL names.
pub(crate) fn load_key(uri: &Pkcs11Uri) -> Result<TokenSigningKey, TokenError> {
    let (token, name) = open(uri)?;
    key(&token, &name)?.ok_or_else(|| TokenError::NoObject {
        token: token.name(),
        object: format!("key pair {name}"),
    })
}

fn open(uri: &Pkcs11Uri) -> Result<(Arc<Token>, ObjectName), TokenError> {
    let Some(library) = &uri.module_path else {
        let url = uri.to_string();
        return Err(TokenError::NoLibrary { url });
    };
    if uri.id.is_none() && uri.object.is_none() {
        let url = uri.to_string();
        return Err(TokenError::NoObjectNamed { url });
    }
    let token = Library::load(library)?.token(TokenSpec::of_uri(uri));
    let name = ObjectName {
        label: uri.object.clone(),
        id: uri.id.clone(),
    };
    Ok((token, name))
}

/// The certificate of this name with its issuers, if there is one.
pub(super) fn chain(
    token: &Token,
    name: &ObjectName,
) -> Result<Option<Vec<CertificateDer<'static>>>, TokenError> {
    token.with("read the certificate", name, |session| {
        chain_in(session, name)
    })
}

pub(super) fn chain_in(
    session: &Session,
    name: &ObjectName,
) -> Result<Option<Vec<CertificateDer<'static>>>, Error> {
    let mut certs = Vec::new();
    for object in name.find(session, ObjectClass::CERTIFICATE)? {
        certs.extend(objects::cert_of(session, object)?);
    }
    match objects::newest(certs) {
        Some(leaf) => objects::with_issuers(session, name.label.as_deref(), leaf).map(Some),
        None => Ok(None),
    }
}

/// The key pair of this name, if both halves are there and of a kind that is used here.
pub(super) fn key(
    token: &Arc<Token>,
    name: &ObjectName,
) -> Result<Option<TokenSigningKey>, TokenError> {
    let found = token.with("read the public key", name, |session| {
        if name.find(session, ObjectClass::PRIVATE_KEY)?.is_empty() {
            return Ok(None);
        }
        match name.find(session, ObjectClass::PUBLIC_KEY)?.as_slice() {
            [] => Ok(None),
            [public, ..] => objects::public_of(session, *public),
        }
    })?;
    Ok(found.map(|(algorithm, spki)| {
        TokenSigningKey::new(Arc::clone(token), name.clone(), algorithm, spki)
    }))
}
