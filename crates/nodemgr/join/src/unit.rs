//! What a Unit is to those who join it.

use std::fs;
use std::io;
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
    /// The folder of the authority that certifies nodes. It is where machines are made to join: keys of authorities do not travel.
    pub authority: PathBuf,
    /// Where the Main Node's identity manager answers on this machine: a socket. Without it `iam_protected_url` is called.
    pub iam_socket: PathBuf,
    /// Where its Communication Manager answers operators on this machine: a socket.
    pub control_socket: PathBuf,
    /// Where it answers operators of other machines: `https://HOST:PORT`. Not looked at if there is a socket.
    pub control_url: String,
    /// An operator's certificate, for whatever has no socket here.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What shows to a Unit on another machine who calls, and to the caller who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The root of all certificates.
    pub root: PathBuf,
    /// The operator's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Those that do not count any more.
    pub revocation_list: Option<PathBuf>,
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
    /// Something that it names is not there.
    #[error("{} names {what} {}, which cannot be used on this machine", unit.display(), path.display())]
    Missing {
        /// The description.
        unit: PathBuf,
        /// What.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
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

    /// Looks whether everything is there that joining needs, before a machine is made for it. `named` is what was read.
    ///
    /// # Errors
    /// With the first thing that is not.
    pub fn check(&self, named: &Path) -> Result<(), UnitFileError> {
        let file = |path: &Path| fs::File::open(path).map(drop);
        let folder = |path: &Path| fs::read_dir(path).map(drop);
        let there = |path: &Path| fs::metadata(path).map(drop);
        type Look<'a> = &'a dyn Fn(&Path) -> io::Result<()>;
        let mut needed: Vec<(&'static str, &Path, Look<'_>)> = vec![
            ("the root certificate", &self.root_certificate, &file),
            ("the authority's folder", &self.authority, &folder),
        ];
        let lists = self.revocation_lists.iter();
        needed.extend(lists.map(|it| ("the revocation list", it.as_path(), &file as Look<'_>)));
        for (what, path, look) in [
            (
                "the identity manager's socket",
                &self.iam_socket,
                &there as Look<'_>,
            ),
            (
                "the Communication Manager's socket",
                &self.control_socket,
                &there,
            ),
            ("the certificate", &self.certificate, &file),
            ("the key", &self.key, &file),
        ] {
            if is_given(path) {
                needed.push((what, path, look));
            }
        }
        for (what, path, look) in needed {
            look(path).map_err(|source| UnitFileError::Missing {
                unit: Self::path_of(named),
                what,
                path: path.to_owned(),
                source,
            })?;
        }
        Ok(())
    }

    /// Where the Main Node's identity manager is called to certify nodes: a socket, or `HOST:PORT`.
    #[must_use]
    pub fn iam(&self) -> String {
        match is_given(&self.iam_socket) {
            true => self.iam_socket.display().to_string(),
            false => self.iam_protected_url.clone(),
        }
    }

    /// Where its Communication Manager is asked who is connected: a socket, or `https://HOST:PORT`.
    #[must_use]
    pub fn control(&self) -> String {
        match is_given(&self.control_socket) {
            true => self.control_socket.display().to_string(),
            false => self.control_url.clone(),
        }
    }

    /// With what those are called that have no socket here.
    #[must_use]
    pub fn credentials(&self) -> Option<Credentials> {
        is_given(&self.certificate).then(|| Credentials {
            root: self.root_certificate.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            revocation_list: self.revocation_lists.first().cloned(),
        })
    }
}

fn is_given(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

impl Validate for UnitFile {
    type Valid = Self;

    fn validate(self, problems: &mut Problems<'_>) -> Option<Self> {
        let mut whole = true;
        let mut report = |key: &str, message: &str| {
            problems.report(key, message);
            whole = false;
        };
        let texts = [
            ("systemId", &self.system_id),
            ("model", &self.model),
            ("iamPublicUrl", &self.iam_public_url),
            ("iamProtectedUrl", &self.iam_protected_url),
            ("cmUrl", &self.cm_url),
        ];
        for (key, text) in texts {
            if text.is_empty() || text.chars().any(char::is_control) {
                report(key, "must be given");
            }
        }
        if !self.root_certificate.is_absolute() {
            report("rootCertificate", "must be an absolute path");
        }
        if !self.authority.is_absolute() {
            report(
                "authority",
                "must be the absolute path of the authority's folder on this machine: it certifies the node",
            );
        }
        let optional = [
            ("iamSocket", &self.iam_socket),
            ("controlSocket", &self.control_socket),
            ("certificate", &self.certificate),
            ("key", &self.key),
        ];
        for (key, path) in optional {
            if is_given(path) && !path.is_absolute() {
                report(key, "must be an absolute path");
            }
        }
        let is_certified = is_given(&self.certificate) && is_given(&self.key);
        if is_given(&self.certificate) != is_given(&self.key) {
            report("certificate", "must be given together with `key`");
        } else if is_certified && self.revocation_lists.len() > 1 {
            report(
                "revocationLists",
                "must be one file that has all lists, where there is a `certificate`",
            );
        }
        if !is_given(&self.iam_socket) && !is_certified {
            report(
                "iamSocket",
                "must be given, or else `certificate` and `key` of an operator, with which `iamProtectedUrl` is called",
            );
        }
        if !is_given(&self.control_socket) {
            let address = self.control_url.strip_prefix("https://");
            if address.is_none_or(str::is_empty) || !is_certified {
                report(
                    "controlSocket",
                    "must be given, or else `controlUrl` (https://HOST:PORT), and `certificate` and `key` of an operator",
                );
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
        let said = problems(&path);
        for key in [
            "cmUrl",
            "iamPublicUrl",
            "authority",
            "iamSocket",
            "controlSocket",
        ] {
            assert!(said.contains(key), "{said}");
        }
    }

    /// What is wrong with a file.
    fn problems(path: &Path) -> String {
        match UnitFile::read(path).unwrap_err() {
            UnitFileError::Read { source, .. } => source.to_string(),
            other => panic!("{other}"),
        }
    }

    /// A Unit on another machine.
    fn far() -> String {
        let socket = r#""iamSocket": "/run/iam.sock",
            "controlSocket": "/run/cm.sock""#;
        let certified = r#""certificate": "/desk.crt.pem", "key": "/desk.key.pem",
            "controlUrl": "https://10.0.0.1:8094""#;
        text().replace(socket, certified)
    }

    #[test]
    fn a_unit_on_another_machine_is_called_with_an_operators_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unit.json");
        std::fs::write(&path, text()).unwrap();
        let near = UnitFile::read(&path).unwrap();
        assert_eq!(
            (near.iam(), near.control()),
            ("/run/iam.sock".to_owned(), "/run/cm.sock".to_owned())
        );
        assert_eq!(near.credentials(), None);
        std::fs::write(&path, far()).unwrap();
        let far = UnitFile::read(&path).unwrap();
        assert_eq!(far.iam(), "10.0.0.1:8089");
        assert_eq!(far.control(), "https://10.0.0.1:8094");
        let credentials = far.credentials().unwrap();
        assert_eq!(credentials.key, Path::new("/desk.key.pem"));
        assert_eq!(credentials.revocation_list, Some("/pki/crl.pem".into()));
    }

    #[test]
    fn a_unit_without_sockets_and_without_a_certificate_is_refused_with_what_would_help() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unit.json");
        for (from, to, key) in [
            (r#""key": "/desk.key.pem","#, "", "certificate"),
            ("https://10.0.0.1:8094", "10.0.0.1:8094", "controlUrl"),
            (
                r#"["/pki/crl.pem"]"#,
                r#"["/a.pem", "/b.pem"]"#,
                "revocationLists",
            ),
        ] {
            std::fs::write(&path, far().replace(from, to)).unwrap();
            let said = problems(&path);
            assert!(said.contains(key), "{said}");
        }
    }

    #[test]
    fn what_is_named_and_not_there_is_found_before_anything_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["root", "lists", "desk", "key"] {
            std::fs::write(at(name), "").unwrap();
        }
        let mut unit = UnitFile {
            root_certificate: at("root"),
            revocation_lists: vec![at("lists")],
            authority: folder.path().to_owned(),
            certificate: at("desk"),
            key: at("key"),
            ..UnitFile::default()
        };
        unit.check(folder.path()).unwrap();
        unit.key = at("lost");
        let error = unit.check(folder.path()).unwrap_err();
        assert!(error.to_string().contains("names the key "), "{error}");
        unit.authority = at("root");
        let error = unit.check(folder.path()).unwrap_err();
        assert!(
            error.to_string().contains("the authority's folder"),
            "{error}"
        );
    }
}
