//! `list`, `crl` and `show`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use muster_pki::files::{self, Access};
use muster_pki::jiff::Timestamp;
use muster_pki::{
    CertDetails, Holder, ListDetails, PemItem, Serial, Snapshot, TrackedCert, describe_pem,
};
use serde::Serialize;

use super::PkiCommandError;
use crate::cli::pki as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    serial: String,
    identity: String,
    dns: Vec<String>,
    ips: Vec<String>,
    issuer: String,
    not_before: Timestamp,
    not_after: Timestamp,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl Listed {
    fn new(cert: &TrackedCert, now: Timestamp) -> Self {
        let profile = cert.profile();
        let identity = match &cert.issued.holder {
            Holder::Peer(profile) => profile.identity().to_string(),
            Holder::Intermediate(number) => format!("intermediate {number}"),
        };
        Self {
            serial: cert.issued.serial.to_string(),
            identity,
            dns: profile
                .map(|profile| profile.dns().to_vec())
                .unwrap_or_default(),
            ips: profile
                .map(|profile| profile.ips().iter().map(ToString::to_string).collect())
                .unwrap_or_default(),
            issuer: cert.issued.issuer.to_string(),
            not_before: cert.issued.window.not_before,
            not_after: cert.issued.window.not_after,
            status: cert.status(now).to_string(),
            revoked_at: cert.revocation.as_ref().map(|revocation| revocation.at),
            reason: cert
                .revocation
                .as_ref()
                .map(|revocation| revocation.reason.as_str()),
        }
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct List(Vec<Listed>);

impl Answer for List {
    fn table(&self) -> Table {
        let row = |cert: &Listed| {
            vec![
                cert.identity.clone(),
                cert.reason.map_or_else(
                    || cert.status.clone(),
                    |reason| format!("{} ({reason})", cert.status),
                ),
                cert.not_after.to_string(),
                cert.serial.clone(),
            ]
        };
        Table::list(
            &["IDENTITY", "STATUS", "VALID UNTIL", "SERIAL"],
            self.0.iter().map(row).collect(),
        )
    }
}

pub(super) fn list(
    command: &cli::List,
    now: Timestamp,
    console: &mut Console,
) -> Result<(), CommandError> {
    let snapshot = super::read(&super::folder(&command.authority))?;
    let ledger = snapshot.ledger();
    let mut certs: Vec<&TrackedCert> = match (command.all, command.due) {
        (true, _) => ledger.all(),
        (false, Some(due)) => ledger.due(super::signed(due), now),
        (false, None) => ledger.newest().collect(),
    };
    if let Some(node) = &command.node {
        certs.retain(|cert| {
            cert.profile()
                .is_some_and(|profile| profile.identity().node == *node)
        });
    }
    console.answer(&List(
        certs
            .into_iter()
            .map(|cert| Listed::new(cert, now))
            .collect(),
    ))?;
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListFacts {
    issuer: String,
    number: Option<u64>,
    this_update: Timestamp,
    next_update: Option<Timestamp>,
    revoked: Vec<String>,
}

impl From<ListDetails> for ListFacts {
    fn from(list: ListDetails) -> Self {
        Self {
            issuer: list.issuer,
            number: list.number,
            this_update: list.this_update,
            next_update: list.next_update,
            revoked: list.revoked,
        }
    }
}

#[derive(Serialize)]
struct Lists {
    file: PathBuf,
    lists: Vec<ListFacts>,
}

impl Answer for Lists {
    fn table(&self) -> Table {
        let row = |list: &ListFacts| {
            vec![
                list.issuer.clone(),
                list.number
                    .map(|number| number.to_string())
                    .unwrap_or_default(),
                list.revoked.len().to_string(),
                list.next_update
                    .map(|time| time.to_string())
                    .unwrap_or_default(),
            ]
        };
        Table::list(
            &["ISSUER", "NUMBER", "REVOKED", "NEXT UPDATE"],
            self.lists.iter().map(row).collect(),
        )
    }
}

pub(super) fn crl(
    command: &cli::Crl,
    now: Timestamp,
    console: &mut Console,
) -> Result<(), CommandError> {
    let folder = super::folder(&command.authority);
    let mut authority = super::open(&folder, now, console)?;
    if command.refresh {
        authority
            .refresh_lists(now)
            .map_err(PkiCommandError::Lists)?;
    }
    let text = authority.lists_pem().map_err(PkiCommandError::Lists)?;
    let file = command
        .out
        .clone()
        .unwrap_or_else(|| authority.lists_file());
    if let Some(out) = &command.out {
        files::write(out, text.as_bytes(), Access::Public).map_err(PkiCommandError::File)?;
    }
    let items = describe_pem(&text).map_err(|source| PkiCommandError::Describe {
        path: authority.lists_file(),
        source,
    })?;
    let lists = items.into_iter().filter_map(|item| match item {
        PemItem::List(list) => Some(list.into()),
        _ => None,
    });
    console.answer(&Lists {
        file,
        lists: lists.collect(),
    })?;
    Ok(())
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Shown {
    #[serde(rename_all = "camelCase")]
    Certificate {
        subject: String,
        issuer: String,
        serial: String,
        not_before: String,
        not_after: String,
        uris: Vec<String>,
        dns: Vec<String>,
        ips: Vec<String>,
        purposes: Vec<&'static str>,
        ca: bool,
        /// What the authority says about it, if it is one of its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<String>,
    },
    RevocationList(ListFacts),
    Request {
        uris: Vec<String>,
        dns: Vec<String>,
        ips: Vec<String>,
    },
    PrivateKey,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Content(Vec<Shown>);

impl Answer for Content {
    fn table(&self) -> Table {
        Table::things(self.0.iter().map(|shown| Table::facts(shown.facts())))
    }
}

impl Shown {
    fn facts(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Certificate {
                subject,
                issuer,
                serial,
                not_before,
                not_after,
                uris,
                dns,
                ips,
                purposes,
                ca,
                status,
            } => vec![
                ("Certificate", subject.clone()),
                ("Issuer", issuer.clone()),
                ("Serial", serial.clone()),
                ("Valid", format!("{not_before} to {not_after}")),
                ("Identity", uris.join(", ")),
                ("DNS", dns.join(", ")),
                ("IP", ips.join(", ")),
                (
                    "For",
                    if *ca {
                        "signing certificates".to_owned()
                    } else {
                        purposes.join(", ")
                    },
                ),
                ("Status", status.clone().unwrap_or_default()),
            ],
            Self::RevocationList(list) => vec![
                ("Revocation list", list.issuer.clone()),
                (
                    "Number",
                    list.number
                        .map(|number| number.to_string())
                        .unwrap_or_default(),
                ),
                (
                    "Next update",
                    list.next_update
                        .map(|time| time.to_string())
                        .unwrap_or_default(),
                ),
                ("Revoked", list.revoked.join(", ")),
            ],
            Self::Request { uris, dns, ips } => vec![
                ("Request", "its signature is good".to_owned()),
                ("Asks for", [uris.as_slice(), dns, ips].concat().join(", ")),
            ],
            Self::PrivateKey => vec![("Private key", "(not shown)".to_owned())],
        }
    }

    fn certificate(cert: &CertDetails, authority: Option<&Snapshot>, now: Timestamp) -> Self {
        let summary = &cert.facts.summary;
        let time = |seconds| {
            Timestamp::from_second(seconds)
                .map(|time| time.to_string())
                .unwrap_or_default()
        };
        let tracked =
            |serial: Serial| authority.and_then(|authority| authority.ledger().get(serial));
        let own = cert.serial.and_then(tracked).filter(|tracked| {
            tracked
                .issued
                .public_key()
                .is_some_and(|key| key == cert.public_key)
        });
        Self::Certificate {
            subject: summary.subject.clone(),
            issuer: summary.issuer.clone(),
            serial: summary.serial.clone(),
            not_before: time(summary.not_before),
            not_after: time(summary.not_after),
            uris: escaped(&cert.facts.names.uris),
            dns: escaped(&cert.facts.names.dns),
            ips: cert.ips.iter().map(ToString::to_string).collect(),
            purposes: cert.purposes.clone(),
            ca: cert.is_ca,
            status: own.map(|own| own.status(now).to_string()),
        }
    }
}

/// Names in a file may be anybody's text; a terminal shall not obey them.
fn escaped(names: &[String]) -> Vec<String> {
    let unique: BTreeSet<&String> = names.iter().collect();
    unique
        .into_iter()
        .map(|name| name.escape_debug().to_string())
        .collect()
}

pub(super) fn show(
    command: &cli::Show,
    now: Timestamp,
    console: &mut Console,
) -> Result<(), CommandError> {
    let text = files::read_text(&command.file).map_err(PkiCommandError::File)?;
    let items = describe_pem(&text).map_err(|source| PkiCommandError::Describe {
        path: command.file.clone(),
        source,
    })?;
    // Any file can be shown, whether there is an authority or not.
    let authority = super::read(&super::folder(&command.authority)).ok();
    let shown = items.into_iter().map(|item| match item {
        PemItem::Certificate(cert) => Shown::certificate(&cert, authority.as_ref(), now),
        PemItem::List(list) => Shown::RevocationList(list.into()),
        PemItem::Request(request) => Shown::Request {
            uris: escaped(request.asked_uris()),
            dns: escaped(request.asked_dns()),
            ips: request
                .asked_ips()
                .iter()
                .map(ToString::to_string)
                .collect(),
        },
        _ => Shown::PrivateKey,
    });
    console.answer(&Content(shown.collect()))?;
    Ok(())
}
