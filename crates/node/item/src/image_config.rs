//! What an image says about running it.

use muster_api::domain::{Digest, EnvVar, PortRange, TransportProtocol};

use crate::read::{self, At, DocumentKind, ReadDocumentError};
use crate::{Limits, Platform};

/// What an image says about running it.
///
/// The default is that of an image that says nothing: no program, no environment, starts in `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageConfig {
    /// What its programs are built for, if it says so.
    pub platform: Option<Platform>,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments; without an entry point, the program itself.
    pub cmd: Vec<String>,
    /// In the order of the document; of two with the same name the later one counts.
    pub env: Vec<EnvVar>,
    /// An absolute path without `..`.
    pub working_dir: String,
    /// What it listens on.
    pub exposed_ports: Vec<ExposedPort>,
    /// Digests of the layers without compression, the lowest first.
    pub diff_ids: Vec<Digest>,
}

/// Something that an image listens on: `8080`, `8000-8010/udp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExposedPort {
    /// One port or several.
    pub ports: PortRange,
    /// TCP unless it says otherwise.
    pub protocol: TransportProtocol,
}

impl Default for ImageConfig {
    fn default() -> Self {
        Self {
            platform: None,
            entrypoint: Vec::new(),
            cmd: Vec::new(),
            env: Vec::new(),
            working_dir: "/".to_owned(),
            exposed_ports: Vec::new(),
            diff_ids: Vec::new(),
        }
    }
}

impl ImageConfig {
    /// Reads an image configuration of OCI or Docker. `{}`, OCI's empty document, is the default.
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, ReadDocumentError> {
        let tree = read::parse(DocumentKind::ImageConfig, bytes, limits)?;
        let root = At::root(DocumentKind::ImageConfig, &tree);
        let mut image = match root.field("config")? {
            Some(config) => Self::read_config(&config)?,
            None => Self::default(),
        };
        image.platform = Some(Platform::read(&root)?).filter(Platform::is_stated);
        if let Some(rootfs) = root.field("rootfs")? {
            let diff_ids = rootfs.each("diff_ids", |at| at.parse())?;
            image.diff_ids = rootfs.at_most("diff_ids", limits.layers, diff_ids)?;
        }
        Ok(image)
    }

    fn read_config(config: &At<'_>) -> Result<Self, ReadDocumentError> {
        let words = |name| config.each(name, |at| at.word());
        Ok(Self {
            platform: None,
            entrypoint: words("entrypoint")?,
            cmd: words("cmd")?,
            env: config.each("env", |at| read_env(&at))?,
            working_dir: config
                .optional("workingDir", |at| read_working_dir(&at))?
                .unwrap_or_else(|| "/".to_owned()),
            exposed_ports: config.entries("exposedPorts", |key, at| read_port(key, &at))?,
            diff_ids: Vec::new(),
        })
    }

    /// The program with all of its arguments; empty if the image names none.
    pub fn command(&self) -> impl Iterator<Item = &str> {
        self.entrypoint.iter().chain(&self.cmd).map(String::as_str)
    }
}

/// `NAME=value`. Errors do not show it: the value may be a secret.
fn read_env(at: &At<'_>) -> Result<EnvVar, ReadDocumentError> {
    let refuse = |reason: &str| {
        at.error(read::FieldProblem::Invalid {
            value: "(redacted)".to_owned(),
            reason: reason.to_owned(),
        })
    };
    let (name, value) = at
        .text()?
        .split_once('=')
        .ok_or_else(|| refuse("is not of the form NAME=value"))?;
    let name = name.parse().map_err(|_| refuse("has no valid name"))?;
    EnvVar::new(name, value.to_owned()).map_err(|_| refuse("holds a NUL"))
}

fn read_working_dir(at: &At<'_>) -> Result<String, ReadDocumentError> {
    let path = at.word()?;
    if path.split('/').any(|part| part == "..") {
        return Err(at.invalid("leads upwards"));
    }
    // Builders write relative ones as well; they mean from the root.
    Ok(match path.strip_prefix('/') {
        Some(_) => path,
        None => format!("/{path}"),
    })
}

fn read_port(key: &str, at: &At<'_>) -> Result<ExposedPort, ReadDocumentError> {
    let (ports, protocol) = key.split_once('/').unwrap_or((key, ""));
    let refuse = |error| at.invalid(format_args!("stands at a key that is no port ({error})"));
    Ok(ExposedPort {
        ports: ports.parse().map_err(refuse)?,
        protocol: protocol.parse().map_err(refuse)?,
    })
}

#[cfg(test)]
mod tests;
