//! What calls take and answer, where the domain has no type for it.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::domain::{CertType, ConvertError, InstanceIdent, InvalidValue};
use muster_api::iamanager::v6 as wire;
use zeroize::Zeroizing;

/// What an instance may do: by functional server, by the server's name for a permission, how.
pub type Grants = BTreeMap<String, BTreeMap<String, String>>;

/// Where a certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertInfo {
    /// What it is for.
    pub cert_type: CertType,
    /// URL of the certificate with its chain: `file:` or `pkcs11:`.
    pub cert_url: String,
    /// URL of the key.
    pub key_url: String,
    /// Serial number, big-endian.
    pub serial: Vec<u8>,
    /// Name of the issuer, DER.
    pub issuer: Vec<u8>,
}

impl TryFrom<wire::CertInfo> for CertInfo {
    type Error = InvalidValue;

    fn try_from(wire: wire::CertInfo) -> Result<Self, InvalidValue> {
        Ok(Self {
            cert_type: wire.r#type.parse()?,
            cert_url: wire.cert_url,
            key_url: wire.key_url,
            serial: wire.serial,
            issuer: wire.issuer,
        })
    }
}

/// What an instance proves itself with. Shown only by [`expose`](Self::expose).
#[derive(Clone, PartialEq, Eq)]
pub struct InstanceSecret(Zeroizing<String>);

impl InstanceSecret {
    pub(crate) fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text, for the instance's environment.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for InstanceSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstanceSecret(redacted)")
    }
}

/// Whose secret was shown, and what its holder may do at the functional server that asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Whose secret it is.
    pub instance: InstanceIdent,
    /// By the server's name for a permission, how it is allowed.
    pub permissions: BTreeMap<String, String>,
}

impl TryFrom<wire::PermissionsResponse> for Granted {
    type Error = ConvertError;

    fn try_from(wire: wire::PermissionsResponse) -> Result<Self, ConvertError> {
        Ok(Self {
            instance: wire.instance.unwrap_or_default().try_into()?,
            permissions: wire.permissions.unwrap_or_default().permissions,
        })
    }
}
