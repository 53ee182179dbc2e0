//! `io.muster.Log`: the varlink interface by which `sctl logs` asks for synchronisation, rotation, vacuum
//! and status, and the few methods of `io.systemd.Journal` that `journalctl --sync`, `--rotate` and
//! `--flush` call.

use muster_varlink::service::{Offered, ServiceError, ServiceInfo};
use muster_varlink::{Call, Peer, Reply};
use serde::{Deserialize, Serialize};

use crate::policy::retention::Retention;

/// The description of `io.muster.Log`.
pub const INTERFACE_TEXT: &str = include_str!("io.muster.Log.varlink");
const JOURNAL_TEXT: &str = include_str!("io.systemd.Journal.varlink");

/// The name of the interface.
pub const INTERFACE: &str = "io.muster.Log";
const JOURNAL_INTERFACE: &str = "io.systemd.Journal";

const INFO: ServiceInfo = ServiceInfo {
    vendor: "Muster",
    product: "muster-logd",
    version: env!("CARGO_PKG_VERSION"),
    url: "https://varlink.org",
    interfaces: &[
        Offered {
            name: INTERFACE,
            text: INTERFACE_TEXT,
        },
        Offered {
            name: JOURNAL_INTERFACE,
            text: JOURNAL_TEXT,
        },
    ],
};

/// What `Vacuum` takes. What is not given does not limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VacuumCall {
    /// All files together, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// How many archived files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_files: Option<u64>,
    /// Files whose newest entry is older than so many microseconds go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_us: Option<u64>,
}

impl VacuumCall {
    /// The limits that it asks for.
    #[must_use]
    pub fn retention(&self, now_us: u64) -> Retention {
        Retention {
            max_bytes: self.max_bytes.unwrap_or(u64::MAX),
            max_files: self.max_files.unwrap_or(u64::MAX),
            oldest_us: self.max_age_us.map_or(0, |age| now_us.saturating_sub(age)),
        }
    }
}

/// What `Vacuum` gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacuumReply {
    /// How many files were removed.
    pub removed: u64,
}

/// What `Flush` gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushReply {
    /// Entries go to the disk now.
    pub persistent: bool,
}

/// A file of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalFile {
    /// Its name within the folder.
    pub name: Box<str>,
    /// What it takes on disk.
    pub bytes: u64,
    /// It is the one that is written to.
    pub active: bool,
}

/// What `Status` gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusReply {
    /// `persistent`, `volatile`, or `none`.
    pub storage: Box<str>,
    /// Where the files are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<Box<str>>,
    /// The files.
    pub files: Vec<JournalFile>,
    /// Services whose output is read.
    pub streams: u64,
    /// Entries in the journal since the daemon started.
    pub stored: u64,
    /// Entries that could not be stored.
    pub lost: u64,
    /// Entries that were dropped by rate limits.
    pub suppressed: u64,
    /// Entries that were dropped by `MaxLevelStore=`.
    pub below_level: u64,
    /// Messages or fields that were not acceptable.
    pub refused: u64,
    /// Messages that the manager could not hand over.
    pub lost_by_manager: u64,
    /// Kernel messages that were overwritten before they were read.
    pub lost_by_kernel: u64,
    /// Lines that a console or the kernel did not take.
    pub lost_forwarding: u64,
    /// Files that were ended.
    pub rotations: u64,
    /// Files that were removed.
    pub removed_files: u64,
    /// Times that everything was put on disk.
    pub syncs: u64,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Everything that was sent before is to be in the journal and on disk.
    Synchronize,
    /// A new file is to be begun.
    Rotate,
    /// Entries are to go from memory to disk.
    Flush {
        /// The caller wants no parameters in the reply.
        bare: bool,
    },
    /// Old files are to go.
    Vacuum(VacuumCall),
    /// How the daemon is.
    Status,
}

/// What a call asks for, or the reply that it gets at once.
///
/// # Errors
/// The reply, if nothing is to be done about it.
pub fn request_of(call: &Call, peer: &Peer, owner: u32) -> Result<Request, Reply> {
    if let Some(reply) = INFO.answer(call) {
        return Err(reply);
    }
    let request = match call.split_method() {
        (INTERFACE | JOURNAL_INTERFACE, "Synchronize") => Request::Synchronize,
        (INTERFACE | JOURNAL_INTERFACE, "Rotate") => Request::Rotate,
        (INTERFACE, "Flush") => Request::Flush { bare: false },
        (JOURNAL_INTERFACE, "FlushToVar") => Request::Flush { bare: true },
        (INTERFACE, "Status") => Request::Status,
        (INTERFACE, "Vacuum") => {
            Request::Vacuum(call.parameters.read().map_err(|error| error.reply())?)
        }
        _ => return Err(ServiceError::MethodNotFound(call.method.clone()).reply()),
    };
    // Anybody may know how it is; only the owner makes it work.
    if request != Request::Status && !peer.is_privileged(owner) {
        return Err(ServiceError::PermissionDenied.reply());
    }
    Ok(request)
}

/// The reply to a request that failed.
#[must_use]
pub fn failure(reason: &str) -> Reply {
    #[derive(Serialize)]
    struct Failed<'a> {
        reason: &'a str,
    }
    Reply::failure("io.muster.Log.Failed", &Failed { reason })
}

#[cfg(test)]
mod tests {
    use muster_varlink::idl::Interface;

    use super::*;

    #[test]
    fn the_interfaces_are_described() {
        let own = Interface::parse(INTERFACE_TEXT).expect("a description");
        let methods: Vec<&str> = own.methods().map(|(name, _, _)| name).collect();
        assert_eq!(
            methods,
            ["Synchronize", "Rotate", "Flush", "Vacuum", "Status"]
        );
        assert!(Interface::parse(JOURNAL_TEXT).is_ok());
        for method in methods {
            let call = format!(r#"{{"method":"io.muster.Log.{method}"}}"#);
            let call = Call::decode(call.as_bytes(), 8).expect("a call");
            let peer = Peer::of(pair()).expect("a peer");
            assert!(
                request_of(&call, &peer, rustix::process::getuid().as_raw()).is_ok(),
                "{method}"
            );
        }
    }

    fn pair() -> std::os::unix::net::UnixStream {
        std::os::unix::net::UnixStream::pair().expect("a pair").0
    }

    #[test]
    fn what_is_not_offered_is_refused() {
        let peer = Peer::of(pair()).expect("a peer");
        for method in [
            "io.muster.Log.Erase",
            "io.other.Status",
            "io.systemd.Journal.Vacuum",
        ] {
            let call = format!(r#"{{"method":"{method}"}}"#);
            let call = Call::decode(call.as_bytes(), 8).expect("a call");
            assert!(request_of(&call, &peer, 0).is_err(), "{method}");
        }
    }

    #[test]
    fn an_age_is_a_point_in_time() {
        let call = VacuumCall {
            max_age_us: Some(10),
            ..VacuumCall::default()
        };
        assert_eq!(call.retention(100).oldest_us, 90);
        assert_eq!(call.retention(5).oldest_us, 0);
        assert_eq!(call.retention(100).max_bytes, u64::MAX);
    }
}
