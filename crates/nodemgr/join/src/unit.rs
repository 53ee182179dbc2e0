//! What a Unit is to those who join it.

use std::path::{Path, PathBuf};

use muster_config::{ConfigError, Load, Problems, Validate};
use serde::{Deserialize, Serialize};

/// The file that `muster up` writes into a Unit's folder.
const IN_FOLDER: &str = "join.json";

/// A Unit, as those who join it see it. Addresses are those under which machines reach the Main Node; files are on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnitFile {
    /// The system's id.
    pub system_id: String,
    /// Model and version, as `model;version`.
    pub model: String,
    /// Whom instances run for.
    pub subjects: Vec<String>,
    /// The Main Node's identity manager, for everybody: `HOST:PORT`.
    pub iam_public_url: String,
    /// The same, for members.
    pub iam_protected_url: String,
    /// The Communication Manager: `HOST:PORT`.
    pub cm_url: String,
    /// The root of all certificates.
    pub root_certificate: PathBuf,
    /// Lists of those that do not count any more.
    pub revocation_lists: Vec<PathBuf>,
    /// The folder of the authority that certifies nodes.
    pub authority: PathBuf,
    /// Where the Main Node's identity manager answers here: a socket.
    pub iam_socket: PathBuf,
    /// Where its Communication Manager answers here: a socket.
    pub control_socket: PathBuf,
}

/// Why there is no such Unit.
#[derive(Debug, thiserror::Error)]
pub enum UnitFileError {
    /// The file cannot be used.
    #[error("{} does not describe a Unit that can be joined", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Box<ConfigError>,
    },
}

impl UnitFile {
    /// Where the description of a Unit is: the file itself, or in the folder of `muster up`.
    #[must_use]
    pub fn path_of(named: &Path) -> PathBuf {
        match named.is_dir() {
            true => named.join(IN_FOLDER),
            false => named.to_owned(),
        }
    }

    /// Reads a description: a file, or a folder of `muster up`.
    ///
    /// # Errors
    /// With everything that is wrong with it, each with its line.
    pub fn read(named: &Path) -> Result<Self, UnitFileError> {
        let path = Self::path_of(named);
        let read = || Load::<Self>::new("unit").file(&path).load()?.validate();
        read().map_err(|source| UnitFileError::Read {
            source: Box::new(source),
            path: path.clone(),
        })
    }
}

impl Validate for UnitFile {
    type Valid = Self;

    fn validate(self, problems: &mut Problems<'_>) -> Option<Self> {
        let texts = [
            ("systemId", &self.system_id),
            ("model", &self.model),
            ("iamPublicUrl", &self.iam_public_url),
            ("iamProtectedUrl", &self.iam_protected_url),
            ("cmUrl", &self.cm_url),
        ];
        let paths = [
            ("rootCertificate", &self.root_certificate),
            ("authority", &self.authority),
            ("iamSocket", &self.iam_socket),
            ("controlSocket", &self.control_socket),
        ];
        let mut whole = true;
        for (key, text) in texts {
            if text.is_empty() || text.chars().any(char::is_control) {
                problems.report(key, "must be given");
                whole = false;
            }
        }
        for (key, path) in paths {
            if !path.is_absolute() {
                problems.report(key, "must be an absolute path");
                whole = false;
            }
        }
        whole.then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn text() -> &'static str {
        r#"{"systemId": "demo-1", "model": "demo;1.0", "subjects": ["demo"], "iamPublicUrl": "10.0.0.1:8090",
            "iamProtectedUrl": "10.0.0.1:8089", "cmUrl": "10.0.0.1:8093", "rootCertificate": "/pki/root.crt.pem",
            "revocationLists": ["/pki/crl.pem"], "authority": "/pki", "iamSocket": "/run/iam.sock",
            "controlSocket": "/run/cm.sock"}"#
    }

    #[test]
    fn a_unit_is_found_by_its_file_or_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(IN_FOLDER);
        std::fs::write(&path, text()).unwrap();
        let unit = UnitFile::read(folder.path()).unwrap();
        assert_eq!(unit, UnitFile::read(&path).unwrap());
        assert_eq!(unit.cm_url, "10.0.0.1:8093");
        assert_eq!(unit.revocation_lists, [Path::new("/pki/crl.pem")]);
    }

    #[test]
    fn whatever_is_missing_is_said_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unit.json");
        std::fs::write(&path, r#"{"systemId": "x", "authority": "pki"}"#).unwrap();
        let UnitFileError::Read { source, .. } = UnitFile::read(&path).unwrap_err();
        let said = source.to_string();
        for key in ["cmUrl", "iamPublicUrl", "authority", "iamSocket"] {
            assert!(said.contains(key), "{said}");
        }
    }
}
