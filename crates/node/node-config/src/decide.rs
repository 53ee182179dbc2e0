//! What becomes of an offered configuration. Pure.

use std::cmp::Ordering;
use std::sync::Arc;

use muster_api::domain::{AosCode, NodeId, NodeType};
use muster_config::Limits;
use semver::Version;

use crate::config::NodeConfig;
use crate::document::{Document, InvalidNodeConfig};

/// Who this node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its id, `node.codename` in a document.
    pub node_id: NodeId,
    /// Its kind, `nodeGroupSubject.codename` in a document.
    pub node_type: NodeType,
}

/// What is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Absent,
    /// This, and it is in force.
    Installed {
        version: Version,
        config: Arc<NodeConfig>,
    },
    /// Something that cannot be used any more; nothing is in force.
    Unreadable { version: String, reason: String },
}

/// A configuration that is valid and for this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) version: Version,
    pub(crate) config: NodeConfig,
    pub(crate) unknown: Vec<String>,
}

/// What to do with an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It replaces what is installed.
    Take,
    /// It is what is installed.
    Keep,
}

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefuseNodeConfig {
    /// It is not valid.
    #[error(transparent)]
    Invalid(InvalidNodeConfig),
    /// The request's version is not a semantic version.
    #[error("the version {text:?} of the node configuration is not a semantic version (as 1.0.0)")]
    BadVersion {
        /// What it says.
        text: String,
    },
    /// Neither the request nor the document has a version.
    #[error("version: the node configuration has none")]
    NoVersion,
    /// The request and the document have different versions.
    #[error("version: the node configuration says {document}, its request {request}")]
    TwoVersions {
        /// The document's.
        document: Version,
        /// The request's.
        request: Version,
    },
    /// It names another node, or another kind of nodes.
    #[error("{path}: the node configuration is for {found:?}, and this is {own:?}")]
    NotForThisNode {
        /// Where it says so.
        path: &'static str,
        /// Whom it is for.
        found: String,
        /// Who this node is.
        own: String,
    },
    /// The same version is installed with other content.
    #[error(
        "node configuration {version} is installed with other content; a change needs a higher version"
    )]
    OtherContent {
        /// The version.
        version: Version,
    },
    /// A higher version is installed.
    #[error(
        "node configuration {version} is older than the installed {installed}; a change needs a higher version"
    )]
    Older {
        /// What is offered.
        version: Version,
        /// What is installed.
        installed: Version,
    },
}

impl RefuseNodeConfig {
    /// What the controller is told.
    pub fn code(&self) -> AosCode {
        match self {
            Self::OtherContent { .. } => AosCode::AlreadyExists,
            Self::Older { .. } => AosCode::WrongState,
            _ => AosCode::InvalidArgument,
        }
    }
}

/// Reads an offer and checks whom it is for.
pub(crate) fn read_offer(
    version: &str,
    document: &str,
    identity: &Identity,
    limits: &Limits,
) -> Result<Offer, RefuseNodeConfig> {
    let document =
        Document::read(document.as_bytes(), limits).map_err(RefuseNodeConfig::Invalid)?;
    let version = offered_version(version, document.version)?;
    let meant = |path, found: Option<String>, own: &str| match found {
        Some(found) if found != own => Err(RefuseNodeConfig::NotForThisNode {
            path,
            found: found.chars().take(SHOWN).collect(),
            own: own.to_owned(),
        }),
        _ => Ok(()),
    };
    meant("node.codename", document.node, identity.node_id.as_str())?;
    let own_type = identity.node_type.as_str();
    meant("nodeGroupSubject.codename", document.node_type, own_type)?;
    Ok(Offer {
        version,
        config: document.config,
        unknown: document.unknown,
    })
}

/// Characters of foreign text that a refusal repeats.
const SHOWN: usize = 64;

fn offered_version(request: &str, document: Option<Version>) -> Result<Version, RefuseNodeConfig> {
    if request.is_empty() {
        return document.ok_or(RefuseNodeConfig::NoVersion);
    }
    let request = Version::parse(request).map_err(|_| RefuseNodeConfig::BadVersion {
        text: request.chars().take(SHOWN).collect(),
    })?;
    match document {
        Some(document) if document != request => {
            Err(RefuseNodeConfig::TwoVersions { document, request })
        }
        _ => Ok(request),
    }
}

impl State {
    /// What is in force.
    pub(crate) fn config(&self) -> Arc<NodeConfig> {
        match self {
            Self::Installed { config, .. } => Arc::clone(config),
            Self::Absent | Self::Unreadable { .. } => Arc::default(),
        }
    }

    /// Whether an offer replaces what is installed.
    pub(crate) fn decide(&self, offer: &Offer) -> Result<Decision, RefuseNodeConfig> {
        let Self::Installed { version, config } = self else {
            return Ok(Decision::Take);
        };
        match offer.version.cmp_precedence(version) {
            Ordering::Greater => Ok(Decision::Take),
            Ordering::Equal if **config == offer.config => Ok(Decision::Keep),
            Ordering::Equal => Err(RefuseNodeConfig::OtherContent {
                version: offer.version.clone(),
            }),
            Ordering::Less => Err(RefuseNodeConfig::Older {
                version: offer.version.clone(),
                installed: version.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
