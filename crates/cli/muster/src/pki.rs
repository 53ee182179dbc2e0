//! `muster pki`: the authority in a folder.

mod issue;
mod look;
mod renew;
mod revoke;

use std::path::{Path, PathBuf};

use muster_config::Duration;
use muster_pki::files::FileError;
use muster_pki::jiff::{SignedDuration, Timestamp};
use muster_pki::{
    Authority, DescribeError, InitAuthorityError, IssueCertError, Neglected, OpenAuthorityError,
    ParseSerialError, ProfileError, ReadRequestError, ReadSnapshotError, RevokeCertError,
    SignListsError, Snapshot,
};

pub(crate) use self::issue::with_names;
use crate::cli::pki::{self as cli, Pki};
use crate::console::{Console, Exit};
use crate::error::CommandError;

/// Why a command about the authority was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiCommandError {
    #[error(transparent)]
    Init(InitAuthorityError),
    #[error(transparent)]
    Open(OpenAuthorityError),
    #[error(transparent)]
    Read(ReadSnapshotError),
    #[error(transparent)]
    Issue(IssueCertError),
    #[error(transparent)]
    Revoke(RevokeCertError),
    #[error(transparent)]
    Lists(SignListsError),
    #[error(transparent)]
    Profile(ProfileError),
    #[error(transparent)]
    File(FileError),
    #[error("cannot read standard input")]
    Stdin(#[source] std::io::Error),
    #[error("cannot make the folder {}", folder.display())]
    OutFolder {
        folder: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot certify the request {}", path.display())]
    Request {
        path: PathBuf,
        #[source]
        source: ReadRequestError,
    },
    #[error("{} is there already; renew it with `muster pki renew`, choose another --out, or overwrite it with --force", path.display())]
    Exists { path: PathBuf },
    #[error("cannot use {}", path.display())]
    Describe {
        path: PathBuf,
        #[source]
        source: DescribeError,
    },
    #[error("{} does not begin with a certificate", path.display())]
    NotACertificate { path: PathBuf },
    #[error("the certificate in {} was not issued by this authority", path.display())]
    Foreign { path: PathBuf },
    #[error(
        "there is no key {} to replace; certify the same key again with --same-key, or, for a node, run `muster node renew`",
        path.display()
    )]
    NoKey { path: PathBuf },
    #[error("{text:?} is neither a serial number nor a file")]
    NeitherSerialNorFile {
        text: String,
        #[source]
        source: ParseSerialError,
    },
    #[error("node {node} has no valid certificate of this authority")]
    NothingOfNode { node: String },
}

impl PkiCommandError {
    pub(crate) fn exit(&self) -> Exit {
        let found = match self {
            Self::Init(
                InitAuthorityError::OtherSystem { .. } | InitAuthorityError::NotEmpty { .. },
            )
            | Self::Exists { .. }
            | Self::Foreign { .. }
            | Self::Revoke(RevokeCertError::IsIntermediate { .. })
            | Self::Issue(
                IssueCertError::OtherSystem { .. }
                | IssueCertError::Revoked { .. }
                | IssueCertError::NotAPeer { .. },
            )
            | Self::Request {
                source: ReadRequestError::Key | ReadRequestError::Signature,
                ..
            } => return Exit::Refused,
            Self::Profile(_) => return Exit::Usage,
            Self::Open(error) => !error.is_not_found(),
            Self::Read(error) => !error.is_not_found(),
            Self::File(error) => !error.is_not_found(),
            Self::Issue(IssueCertError::Unknown { .. })
            | Self::Revoke(RevokeCertError::Unknown { .. })
            | Self::NoKey { .. }
            | Self::NothingOfNode { .. }
            | Self::NeitherSerialNorFile { .. } => false,
            _ => true,
        };
        if found { Exit::Failed } else { Exit::NotFound }
    }
}

/// Carries out one command.
pub(crate) fn run(command: Pki, console: &mut Console) -> Result<(), CommandError> {
    let now = Timestamp::now();
    match command {
        Pki::Init(init) => issue::init(&init, now, console),
        Pki::Issue(issue) => issue::issue(&issue, now, console),
        Pki::Renew(renew) => renew::renew(&renew, now, console),
        Pki::Revoke(revoke) => revoke::revoke(&revoke, now, console),
        Pki::List(list) => look::list(&list, now, console),
        Pki::Crl(crl) => look::crl(&crl, now, console),
        Pki::Show(show) => look::show(&show, now, console),
    }
}

/// The authority's folder: as given, or where it is by custom.
pub(crate) fn folder(given: &cli::Authority) -> PathBuf {
    if let Some(folder) = &given.folder {
        return folder.clone();
    }
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/muster/pki");
    }
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let data = std::env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    data.unwrap_or_else(|| home().join(".local/share"))
        .join("muster/pki")
}

/// Opens the authority for signing and says what it could not do by itself.
pub(crate) fn open(
    folder: &Path,
    now: Timestamp,
    console: &mut Console,
) -> Result<Authority, PkiCommandError> {
    let authority = Authority::open(folder, now).map_err(PkiCommandError::Open)?;
    for neglected in authority.neglected() {
        let waits = match neglected {
            Neglected::Intermediate { not_after } => {
                format!("the intermediate, which ends at {not_after}, should be renewed")
            }
            Neglected::RootList => "the root's revocation list should be signed anew".to_owned(),
        };
        console.note(format_args!(
            "muster: {waits}: put root.key.pem back into {} and run `muster pki crl`",
            folder.display()
        ));
    }
    Ok(authority)
}

fn read(folder: &Path) -> Result<Snapshot, PkiCommandError> {
    Snapshot::read(folder).map_err(PkiCommandError::Read)
}

/// At most a hundred years, so it fits.
pub(crate) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration.get()).unwrap_or(SignedDuration::MAX)
}
