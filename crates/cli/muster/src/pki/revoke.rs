//! `revoke`.

use std::path::Path;

use muster_pki::jiff::Timestamp;
use muster_pki::{Authority, RevokeOutcome, Serial};
use serde::Serialize;

use super::PkiCommandError;
use super::renew::{first_certificate, own_serial};
use crate::cli::pki as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Revoked {
    serial: String,
    identity: String,
    already: bool,
}

#[derive(Serialize)]
#[serde(transparent)]
struct AllRevoked(Vec<Revoked>);

impl Answer for AllRevoked {
    fn table(&self) -> Table {
        let row = |revoked: &Revoked| {
            let how = if revoked.already {
                "was revoked before"
            } else {
                "revoked"
            };
            vec![
                revoked.serial.clone(),
                how.to_owned(),
                revoked.identity.clone(),
            ]
        };
        Table::list(
            &["SERIAL", "", "IDENTITY"],
            self.0.iter().map(row).collect(),
        )
    }
}

pub(super) fn revoke(
    command: &cli::Revoke,
    now: Timestamp,
    console: &mut Console,
) -> Result<(), CommandError> {
    let folder = super::folder(&command.authority);
    let mut authority = super::open(&folder, now, console)?;
    if command.intermediate {
        authority
            .replace_intermediate(command.reason.0, now)
            .map_err(PkiCommandError::Revoke)?;
        console.note("The intermediate is replaced; everything it had signed has to be issued or renewed again.");
        let none = AllRevoked(Vec::new());
        say_where(&authority, console);
        console.answer(&none)?;
        return Ok(());
    }
    let mut serials = Vec::new();
    for text in &command.certs {
        serials.push(serial(&authority, text)?);
    }
    if let Some(node) = &command.node {
        let of_node = authority.ledger().valid_of_node(node, now);
        if of_node.is_empty() {
            let node = node.to_string();
            return Err(PkiCommandError::NothingOfNode { node }.into());
        }
        serials.extend(of_node.iter().map(|cert| cert.issued.serial));
    }
    let outcomes = authority
        .revoke(&serials, command.reason.0, now)
        .map_err(PkiCommandError::Revoke)?;
    let revoked = serials
        .iter()
        .zip(outcomes)
        .map(|(&serial, outcome)| Revoked {
            serial: serial.to_string(),
            identity: identity(&authority, serial),
            already: outcome == RevokeOutcome::Already,
        });
    let answer = AllRevoked(revoked.collect());
    say_where(&authority, console);
    console.answer(&answer)?;
    Ok(())
}

fn say_where(authority: &Authority, console: &mut Console) {
    console.note(format_args!(
        "Servers and clients have to be given {} now.",
        authority.lists_file().display()
    ));
}

fn identity(authority: &Authority, serial: Serial) -> String {
    let cert = authority.ledger().get(serial);
    let profile = cert.and_then(|cert| cert.profile());
    profile
        .map(|profile| profile.identity().to_string())
        .unwrap_or_default()
}

/// A serial number, or the one of the certificate in a file.
fn serial(authority: &Authority, text: &str) -> Result<Serial, PkiCommandError> {
    match text.parse() {
        Ok(serial) => Ok(serial),
        Err(source) if !Path::new(text).exists() => Err(PkiCommandError::NeitherSerialNorFile {
            text: text.to_owned(),
            source,
        }),
        Err(_) => {
            let path = Path::new(text);
            own_serial(authority, path, &first_certificate(path)?)
        }
    }
}
