//! Certificates and lists as rcgen wants them. Pure.

use std::time::Duration;

use jiff::Timestamp;
use muster_tls::SystemId;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyUsagePurpose, RevocationReason,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};

use crate::ledger::{IssuerName, ListSigned, Reason, Revocation};
use crate::profile::{Profile, Purpose};
use crate::serial::Serial;
use crate::window::Window;

/// X.520's limit for common and organization names; the whole id stands in the URI.
const MAX_NAME_LEN: usize = 64;

/// The certificate of the root or of an intermediate.
pub(crate) fn authority(
    system: &SystemId,
    issuer: IssuerName,
    serial: Serial,
    window: Window,
) -> CertificateParams {
    let mut params = common(system, &format!("Muster {issuer}"), serial, window);
    params.is_ca = IsCa::Ca(match issuer {
        IssuerName::Root => BasicConstraints::Constrained(1),
        IssuerName::Intermediate(_) => BasicConstraints::Constrained(0),
    });
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// The certificate of a process or a person.
pub(crate) fn peer(
    profile: &Profile,
    serial: Serial,
    window: Window,
) -> Result<CertificateParams, rcgen::Error> {
    let identity = profile.identity();
    let mut params = common(
        &identity.system,
        &format!("{} {}", identity.role, identity.node),
        serial,
        window,
    );
    params
        .subject_alt_names
        .push(SanType::URI(identity.to_string().try_into()?));
    for name in profile.dns() {
        params
            .subject_alt_names
            .push(SanType::DnsName(name.as_str().try_into()?));
    }
    params
        .subject_alt_names
        .extend(profile.ips().iter().copied().map(SanType::IpAddress));
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = profile
        .purposes()
        .iter()
        .map(|purpose| match purpose {
            Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
        })
        .collect();
    Ok(params)
}

fn common(system: &SystemId, name: &str, serial: Serial, window: Window) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, cut(system.as_str()));
    params
        .distinguished_name
        .push(DnType::CommonName, cut(name));
    params.serial_number = Some(SerialNumber::from_slice(serial.as_bytes()));
    params.not_before = date_time_ymd(1970, 1, 1) + since_epoch(window.not_before);
    params.not_after = date_time_ymd(1970, 1, 1) + since_epoch(window.not_after);
    params.use_authority_key_identifier_extension = true;
    params
}

/// A revocation list.
pub(crate) fn list<'a>(
    signed: &ListSigned,
    revoked: impl Iterator<Item = &'a Revocation>,
) -> CertificateRevocationListParams {
    CertificateRevocationListParams {
        this_update: date_time_ymd(1970, 1, 1) + since_epoch(signed.window.not_before),
        next_update: date_time_ymd(1970, 1, 1) + since_epoch(signed.window.not_after),
        crl_number: SerialNumber::from(signed.number),
        issuing_distribution_point: None,
        revoked_certs: revoked
            .map(|revocation| RevokedCertParams {
                serial_number: SerialNumber::from_slice(revocation.serial.as_bytes()),
                revocation_time: date_time_ymd(1970, 1, 1) + since_epoch(revocation.at),
                reason_code: reason(revocation.reason),
                invalidity_date: None,
            })
            .collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    }
}

/// "Unspecified" is said by saying nothing (RFC 5280, 5.3.1).
fn reason(reason: Reason) -> Option<RevocationReason> {
    match reason {
        Reason::Unspecified => None,
        Reason::KeyCompromise => Some(RevocationReason::KeyCompromise),
        Reason::Superseded => Some(RevocationReason::Superseded),
        Reason::CessationOfOperation => Some(RevocationReason::CessationOfOperation),
        Reason::PrivilegeWithdrawn => Some(RevocationReason::PrivilegeWithdrawn),
    }
}

/// Ids are ASCII, so bytes are characters.
fn cut(name: &str) -> &str {
    name.get(..MAX_NAME_LEN).unwrap_or(name)
}

/// To be added to the epoch as rcgen has it, whose type belongs to a crate not depended on here. Windows never begin before 1970.
fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(at.as_second()).unwrap_or(0))
}
