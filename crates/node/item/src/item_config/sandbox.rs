//! What an item asks for beyond the closed default.

use crate::read::{At, ReadDocumentError};

/// What an item asks for beyond the closed default: a root file system that it cannot write to, no capabilities, no user
/// namespace of its own. Whether it gets it is the node's decision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sandbox {
    /// It wants to write to its root file system; what it writes is lost when it ends.
    pub writable_rootfs: bool,
    /// It can live in a user namespace, and wants one.
    pub user_namespace: bool,
    /// Capabilities that it wants to keep, as `CAP_NET_BIND_SERVICE`.
    pub capabilities: Vec<String>,
}

impl Sandbox {
    pub(super) fn read(at: &At<'_>) -> Result<Self, ReadDocumentError> {
        let truth = |name| at.optional(name, |at| at.truth());
        Ok(Self {
            writable_rootfs: truth("writableRootfs")?.unwrap_or_default(),
            user_namespace: truth("userNamespace")?.unwrap_or_default(),
            capabilities: at.each("capabilities", |at| read_capability(&at))?,
        })
    }
}

fn read_capability(at: &At<'_>) -> Result<String, ReadDocumentError> {
    let name = at.text()?;
    let is_name = name.strip_prefix("CAP_").is_some_and(|rest| {
        (1..=32).contains(&rest.len())
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    });
    if !is_name {
        return Err(at.invalid("is no capability; expected e.g. CAP_NET_BIND_SERVICE"));
    }
    Ok(name.to_owned())
}
