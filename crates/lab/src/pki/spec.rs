//! What a certificate is to say, right or deliberately wrong.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    KeyUsagePurpose, SanType, date_time_ymd,
};

use super::{PkiError, since_epoch};

/// Description of a certificate: [`CertSpec::node`] is a good one, the builders bend it.
#[derive(Debug, Clone)]
pub struct CertSpec {
    node_id: String,
    role: String,
    with_spiffe: bool,
    common_name: String,
    organization: Option<String>,
    dns: Vec<String>,
    ips: Vec<IpAddr>,
    extra_uris: Vec<String>,
    issuer_uris: Vec<String>,
    purposes: Vec<ExtendedKeyUsagePurpose>,
    validity: Validity,
}

#[derive(Debug, Clone, Copy)]
enum Validity {
    Current,
    Expired,
    NotYetValid,
}

/// The issuer's alternative names, RFC 5280 section 4.2.1.7.
const ISSUER_ALT_NAME: &[u64] = &[2, 5, 29, 18];

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

impl CertSpec {
    /// A node's certificate for `role`: SPIFFE name `spiffe://<system id>/node/<node id>/<role>`, for
    /// servers and clients, valid from an hour ago until tomorrow, without DNS or IP names.
    pub fn node(node_id: &str, role: &str) -> Self {
        Self {
            node_id: node_id.to_owned(),
            role: role.to_owned(),
            with_spiffe: true,
            common_name: node_id.to_owned(),
            organization: None,
            dns: Vec::new(),
            ips: Vec::new(),
            extra_uris: Vec::new(),
            issuer_uris: Vec::new(),
            purposes: vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ],
            validity: Validity::Current,
        }
    }

    /// Valid until an hour ago.
    #[must_use]
    pub fn expired(mut self) -> Self {
        self.validity = Validity::Expired;
        self
    }

    /// Valid from an hour ahead.
    #[must_use]
    pub fn not_yet_valid(mut self) -> Self {
        self.validity = Validity::NotYetValid;
        self
    }

    /// Adds a DNS name.
    #[must_use]
    pub fn dns(mut self, name: &str) -> Self {
        self.dns.push(name.to_owned());
        self
    }

    /// Adds an IP address.
    #[must_use]
    pub fn ip(mut self, address: impl Into<IpAddr>) -> Self {
        self.ips.push(address.into());
        self
    }

    /// Adds `localhost` and 127.0.0.1, for servers on the test's own machine.
    #[must_use]
    pub fn localhost(self) -> Self {
        self.dns("localhost").ip(Ipv4Addr::LOCALHOST)
    }

    /// Leaves the SPIFFE name out.
    #[must_use]
    pub fn without_spiffe(mut self) -> Self {
        self.with_spiffe = false;
        self
    }

    /// Replaces the common name, which is otherwise the node id.
    #[must_use]
    pub fn common_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.common_name);
        self
    }

    /// Sets the organization, which is otherwise absent.
    #[must_use]
    pub fn organization(mut self, name: &str) -> Self {
        self.organization = Some(name.to_owned());
        self
    }

    /// Replaces the purposes; none at all leaves the extension out.
    #[must_use]
    pub fn extended_key_usage(
        mut self,
        purposes: impl IntoIterator<Item = ExtendedKeyUsagePurpose>,
    ) -> Self {
        self.purposes = purposes.into_iter().collect();
        self
    }

    /// Adds a URI name after the SPIFFE one, for instance a second identity.
    #[must_use]
    pub fn extra_uri(mut self, uri: &str) -> Self {
        self.extra_uris.push(uri.to_owned());
        self
    }

    /// Adds a URI to the issuer's alternative names, which are otherwise absent.
    #[must_use]
    pub fn issuer_uri(mut self, uri: &str) -> Self {
        self.issuer_uris.push(uri.to_owned());
        self
    }

    pub(super) fn subject(&self) -> &str {
        &self.common_name
    }

    pub(super) fn params(&self, system_id: &str) -> Result<CertificateParams, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, self.common_name.as_str());
        if let Some(organization) = &self.organization {
            params
                .distinguished_name
                .push(DnType::OrganizationName, organization.as_str());
        }

        let spiffe = self
            .with_spiffe
            .then(|| format!("spiffe://{system_id}/node/{}/{}", self.node_id, self.role));
        for uri in spiffe.iter().chain(&self.extra_uris) {
            params
                .subject_alt_names
                .push(SanType::URI(ia5("URI", uri)?));
        }
        for name in &self.dns {
            params
                .subject_alt_names
                .push(SanType::DnsName(ia5("DNS", name)?));
        }
        params
            .subject_alt_names
            .extend(self.ips.iter().copied().map(SanType::IpAddress));

        if !self.issuer_uris.is_empty() {
            let content = issuer_names(&self.issuer_uris);
            let extension = CustomExtension::from_oid_content(ISSUER_ALT_NAME, content);
            params.custom_extensions.push(extension);
        }

        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages.clone_from(&self.purposes);
        params.use_authority_key_identifier_extension = true;

        let now = SystemTime::now();
        let (from, until) = match self.validity {
            Validity::Current => (now - HOUR, now + DAY),
            Validity::Expired => (now - DAY, now - HOUR),
            Validity::NotYetValid => (now + HOUR, now + DAY),
        };
        params.not_before = date_time_ymd(1970, 1, 1) + since_epoch(from);
        params.not_after = date_time_ymd(1970, 1, 1) + since_epoch(until);
        Ok(params)
    }
}

fn ia5(kind: &'static str, value: &str) -> Result<rcgen::string::Ia5String, PkiError> {
    value.try_into().map_err(|source| PkiError::Name {
        kind,
        value: value.to_owned(),
        source,
    })
}

/// A sequence of names, each a URI, in DER.
fn issuer_names(uris: &[String]) -> Vec<u8> {
    const SEQUENCE: u8 = 0x30;
    const URI: u8 = 0x86;
    let names = uris.iter().flat_map(|uri| tagged(URI, uri.as_bytes()));
    tagged(SEQUENCE, &names.collect::<Vec<u8>>())
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = length.iter().skip_while(|byte| **byte == 0);
    let significant: Vec<u8> = significant.copied().collect();
    let mut bytes = vec![tag];
    match significant.as_slice() {
        [] => bytes.push(0),
        [short @ ..=0x7f] => bytes.push(*short),
        long => {
            bytes.push(0x80 | u8::try_from(long.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(long);
        }
    }
    bytes.extend_from_slice(content);
    bytes
}
