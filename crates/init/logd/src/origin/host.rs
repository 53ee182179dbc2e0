//! The fields that every entry of this machine has.

use std::io;
use std::path::Path;

use muster_journal::Id128;
use thiserror::Error;

use crate::entry::Fields;

/// Why the machine cannot be named.
#[derive(Debug, Error)]
pub enum ReadHostError {
    /// A file with an id cannot be read.
    #[error("cannot read {what} from {path}")]
    Read {
        /// What it is.
        what: &'static str,
        /// The file.
        path: Box<str>,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// It is not an id.
    #[error("{path} does not hold {what}: 32 hexadecimal digits are expected")]
    Parse {
        /// What it is.
        what: &'static str,
        /// The file.
        path: Box<str>,
    },
}

/// The machine and its boot.
#[derive(Clone, Debug)]
pub struct Host {
    /// Which machine this is.
    pub machine_id: Id128,
    /// Which of its boots.
    pub boot_id: Id128,
    fields: Fields,
}

impl Host {
    /// Reads the ids. A machine without an id yet (first boot, a container) gets that of its boot.
    ///
    /// # Errors
    /// If the boot id cannot be read, or the machine id is not one.
    pub fn read(machine_id_file: &Path) -> Result<Self, ReadHostError> {
        const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
        let boot_id = read_id("the boot id", Path::new(BOOT_ID))?;
        let machine_id = match read_id("the machine id", machine_id_file) {
            Ok(id) => id,
            Err(ReadHostError::Read { .. }) => boot_id,
            Err(error) => return Err(error),
        };
        let mut host = Self {
            machine_id,
            boot_id,
            fields: Fields::default(),
        };
        host.refresh();
        Ok(host)
    }

    /// Takes a new host name over.
    pub fn refresh(&mut self) {
        let name = rustix::system::uname();
        let name = name.nodename().to_bytes();
        if self.fields.get("_HOSTNAME") == Some(name) {
            return;
        }
        self.fields.clear();
        self.fields.push("_BOOT_ID", self.boot_id.to_string());
        self.fields.push("_MACHINE_ID", self.machine_id.to_string());
        self.fields.push("_HOSTNAME", name);
        self.fields.push("_RUNTIME_SCOPE", "system");
    }

    /// The fields.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }
}

fn read_id(what: &'static str, path: &Path) -> Result<Id128, ReadHostError> {
    let name: Box<str> = path.to_string_lossy().into();
    let text = std::fs::read_to_string(path).map_err(|source| ReadHostError::Read {
        what,
        path: name.clone(),
        source,
    })?;
    let digits: String = text.trim().chars().filter(|digit| *digit != '-').collect();
    digits
        .parse()
        .map_err(|_| ReadHostError::Parse { what, path: name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("machine-id");
        let host = Host::read(&file).expect("a host");
        assert_eq!(host.machine_id, host.boot_id);
        std::fs::write(&file, "00112233445566778899aabbccddeeff\n").expect("written");
        let host = Host::read(&file).expect("a host");
        let id = host.fields().get("_MACHINE_ID").expect("a field");
        assert_eq!(id, b"00112233445566778899aabbccddeeff");
        assert!(host.fields().get("_HOSTNAME").is_some());
        std::fs::write(&file, "uninitialized\n").expect("written");
        assert!(matches!(
            Host::read(&file),
            Err(ReadHostError::Parse { .. })
        ));
    }
}
