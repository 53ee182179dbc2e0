//! A loopback OCI registry: the real one, with storage that goes with the test.
//!
//! [`Registry::start`] runs the distribution's `docker-registry` on a port that the kernel chooses, so
//! registries of parallel tests never compete for one. [`Registry::push`] uploads an image of a
//! [`Layout`] with everything that its manifest refers to, the item configuration included, which
//! other clients would leave out. [`Registry::pull`] downloads a blob or manifest and checks its
//! digest.
//!
//! It speaks plain HTTP, which clients accept for loopback addresses. It has no redirects, mirrors or
//! tokens: who needs those tests against a fake of their own.

mod http;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use self::http::{Request, Response};
use crate::command::{ToolError, run_tool};
use crate::oci::{Blob, BlobDigest, Layout, LayoutError, media_type};
use crate::program::{Process, Program, ProgramError};

const PROGRAM: &str = "docker-registry";
const START_TIME: Duration = Duration::from_secs(30);
/// How its log says where it listens.
const LISTENING: &str = "listening on ";

/// What went wrong with a registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Its files could not be made.
    #[error("cannot prepare {} for a registry", path.display())]
    Prepare {
        /// The file or folder.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// The password file could not be made.
    #[error("cannot make the registry's password file")]
    Passwords(#[source] ToolError),
    /// Its program failed.
    #[error("the registry's program failed")]
    Program(#[source] ProgramError),
    /// It does not say where it listens.
    #[error("the registry does not say where it listens: {0}")]
    NoAddress(String),
    /// The image is not in the layout.
    #[error("cannot find the image to push")]
    Layout(#[source] LayoutError),
    /// It could not be asked.
    #[error("cannot {method} {path} of the registry")]
    Transport {
        /// The method of the request.
        method: &'static str,
        /// The path of the request.
        path: String,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// It refused.
    #[error("the registry answers {status} to {method} {path}: {body}")]
    Refused {
        /// The method of the request.
        method: &'static str,
        /// The path of the request.
        path: String,
        /// The status.
        status: u16,
        /// What it says about it.
        body: String,
    },
    /// It returned other bytes than were asked for.
    #[error("the registry returned {found} for {wanted}")]
    WrongDigest {
        /// What was asked for.
        wanted: BlobDigest,
        /// What came.
        found: BlobDigest,
    },
}

/// A user and password.
#[derive(Clone)]
pub struct Login {
    user: String,
    password: String,
}

impl Login {
    /// Names a user.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            password: password.into(),
        }
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A running registry. Dropping it ends it and removes what it stored.
#[derive(Debug)]
pub struct Registry {
    address: SocketAddr,
    login: Option<Login>,
    // Ended before its folder goes.
    process: Process,
    folder: TempDir,
}

impl Registry {
    /// Starts a registry for everybody.
    pub fn start() -> Result<Self, RegistryError> {
        Self::start_with(None)
    }

    /// Starts a registry for one user only. Needs `htpasswd` of the package apache2-utils.
    pub fn start_for(login: Login) -> Result<Self, RegistryError> {
        Self::start_with(Some(login))
    }

    fn start_with(login: Option<Login>) -> Result<Self, RegistryError> {
        let folder = tempfile::Builder::new()
            .prefix("muster-registry-")
            .tempdir()
            .map_err(|source| RegistryError::Prepare {
                path: std::env::temp_dir(),
                source,
            })?;
        let config = write_config(folder.path(), login.as_ref())?;
        let mut process = Program::new(PROGRAM)
            .arg("serve")
            .arg(config)
            .start()
            .map_err(RegistryError::Program)?;
        let line = process
            .wait_for_line(LISTENING, START_TIME)
            .map_err(RegistryError::Program)?;
        let address =
            address_in(&line.text).ok_or_else(|| RegistryError::NoAddress(line.text.clone()))?;
        Ok(Self {
            address,
            login,
            process,
            folder,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it keeps blobs and manifests, to look at or to damage.
    pub fn storage(&self) -> PathBuf {
        self.folder.path().join("storage")
    }

    /// The program, to hurt it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Uploads an image of a layout as `name:tag`, and returns its manifest's digest. What is there
    /// already is not uploaded again.
    pub fn push(
        &self,
        layout: &Layout,
        tag: &str,
        name: &str,
    ) -> Result<BlobDigest, RegistryError> {
        let image = layout.image(tag).map_err(RegistryError::Layout)?;
        for blob in image.blobs() {
            if blob != &image.manifest {
                self.push_blob(name, blob)?;
            }
        }
        let manifest = &image.manifest;
        let path = format!("/v2/{name}/manifests/{tag}");
        let content = Some((media_type::MANIFEST, &*manifest.bytes));
        self.expect(201, "PUT", &path, content)?;
        Ok(manifest.descriptor.digest.clone())
    }

    /// Uploads one blob.
    pub fn push_blob(&self, name: &str, blob: &Blob) -> Result<(), RegistryError> {
        let digest = &blob.descriptor.digest;
        let known = self.request("HEAD", &format!("/v2/{name}/blobs/{digest}"), None)?;
        if known.status == 200 {
            return Ok(());
        }
        let begun = self.expect(202, "POST", &format!("/v2/{name}/blobs/uploads/"), None)?;
        let location = begun.header("location").unwrap_or_default();
        // An absolute address, of which only the path matters here, with a query.
        let path = location
            .split_once("://")
            .and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]))
            .unwrap_or(location);
        let join = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{join}digest={digest}");
        let content = Some(("application/octet-stream", &*blob.bytes));
        self.expect(201, "PUT", &path, content).map(drop)
    }

    /// Downloads the manifest of `name:tag`.
    pub fn manifest(&self, name: &str, tag: &str) -> Result<Vec<u8>, RegistryError> {
        let path = format!("/v2/{name}/manifests/{tag}");
        Ok(self.expect(200, "GET", &path, None)?.body)
    }

    /// Downloads a blob, and checks it.
    pub fn pull(&self, name: &str, digest: &BlobDigest) -> Result<Vec<u8>, RegistryError> {
        let path = format!("/v2/{name}/blobs/{digest}");
        let body = self.expect(200, "GET", &path, None)?.body;
        let found = BlobDigest::of(&body);
        if &found != digest {
            let wanted = digest.clone();
            return Err(RegistryError::WrongDigest { wanted, found });
        }
        Ok(body)
    }

    fn expect(
        &self,
        status: u16,
        method: &'static str,
        path: &str,
        content: Option<(&str, &[u8])>,
    ) -> Result<Response, RegistryError> {
        let response = self.request(method, path, content)?;
        if response.status == status {
            return Ok(response);
        }
        Err(RegistryError::Refused {
            method,
            path: path.to_owned(),
            status: response.status,
            body: String::from_utf8_lossy(&response.body).trim().to_owned(),
        })
    }

    fn request(
        &self,
        method: &'static str,
        path: &str,
        content: Option<(&str, &[u8])>,
    ) -> Result<Response, RegistryError> {
        let login = self.login.as_ref();
        let request = Request {
            method,
            path,
            accept: media_type::MANIFEST,
            login: login.map(|login| (&*login.user, &*login.password)),
            content,
        };
        request
            .send(self.address)
            .map_err(|source| RegistryError::Transport {
                method,
                path: path.to_owned(),
                source,
            })
    }
}

/// The registry reads YAML, of which JSON is a part.
fn write_config(folder: &Path, login: Option<&Login>) -> Result<PathBuf, RegistryError> {
    let mut config = json!({
        "version": "0.1",
        "log": { "level": "info", "accesslog": { "disabled": true } },
        "storage": {
            "filesystem": { "rootdirectory": folder.join("storage") },
            "delete": { "enabled": true },
        },
        // Port 0: the kernel chooses, and the log says which.
        "http": { "addr": "127.0.0.1:0", "secret": "lab" },
    });
    let write = |name: &str, content: &str| {
        let path = folder.join(name);
        match fs::write(&path, content) {
            Ok(()) => Ok(path),
            Err(source) => Err(RegistryError::Prepare { path, source }),
        }
    };
    if let Some(login) = login {
        // The password comes on standard input: arguments can be read by everybody.
        let mut htpasswd = Command::new("htpasswd");
        htpasswd.args(["-B", "-i", "-n", &login.user]);
        let line = run_tool(&mut htpasswd, &login.password).map_err(RegistryError::Passwords)?;
        let path = write("htpasswd", &line)?;
        config["auth"] = json!({ "htpasswd": { "realm": "lab", "path": path } });
    }
    write("config.yml", &config.to_string())
}

/// Finds `listening on ADDRESS` in a line of the log.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(LISTENING)?;
    let end = rest.find(|c: char| c != '.' && c != ':' && !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}
