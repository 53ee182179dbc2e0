//! Who this manager is.
//!
//! Its id stands on everything that it makes, and its secret is what its machines' keys follow from. Both are files of their
//! own: whoever loses the database still finds his machines again, and can still log in to them.

use std::io;
use std::path::{Path, PathBuf};

use muster_provider::{InvalidName, ManagerId};

/// Long enough for every id.
const LONGEST: usize = 1024;

/// Why it is not known who this manager is.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read.
    #[error("cannot read the manager's id from {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the manager's id to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is in the file is no id.
    #[error(
        "{} holds no manager's id: put the one back that stands on the machines, or remove the file if there are none",
        path.display()
    )]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: InvalidName,
    },
}

/// Reads the manager's id, or draws one if there is none.
///
/// # Errors
/// The file cannot be used.
pub fn manager_id(path: &Path) -> Result<ManagerId, IdentityError> {
    match muster_durable::read(path, LONGEST) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            ManagerId::new(text.trim()).map_err(|source| IdentityError::Invalid {
                path: path.to_owned(),
                source,
            })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = ManagerId::random();
            let written = muster_durable::write(path, format!("{id}\n").as_bytes(), 0o600);
            written.map_err(|source| IdentityError::Write {
                path: path.to_owned(),
                source,
            })?;
            Ok(id)
        }
        Err(source) => Err(IdentityError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_drawn_once_and_nonsense_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manager-id");
        let id = manager_id(&path).unwrap();
        assert_eq!(manager_id(&path).unwrap(), id);
        std::fs::write(&path, "Not an id").unwrap();
        let refused = manager_id(&path).unwrap_err();
        assert!(matches!(refused, IdentityError::Invalid { .. }));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "Not an id");
    }
}
