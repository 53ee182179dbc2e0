//! Who is put into a network.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A container, its namespace, and its link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attachment {
    container: String,
    namespace: PathBuf,
    interface: String,
    #[serde(default)]
    args: Vec<(String, String)>,
    #[serde(default)]
    capabilities: Map<String, Value>,
}

/// What cannot be handed to a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} is not {expected}")]
pub struct InvalidAttachment {
    what: &'static str,
    value: String,
    expected: &'static str,
}

impl Attachment {
    /// Checks what the specification demands of a container's id and a link's name.
    pub fn new(
        container: &str,
        namespace: impl Into<PathBuf>,
        interface: &str,
    ) -> Result<Self, InvalidAttachment> {
        let refuse = |what, value: &str, expected| InvalidAttachment {
            what,
            value: value.chars().take(80).collect(),
            expected,
        };
        if !is_name(container) || container.len() > 128 {
            let expected = "letters, digits, '_', '.' and '-', the first one a letter or digit";
            return Err(refuse("container id", container, expected));
        }
        let plain = |b: u8| b.is_ascii_graphic() && b != b'/' && b != b':';
        let fits = (1..=15).contains(&interface.len()) && interface.bytes().all(plain);
        if !fits || interface == "." || interface == ".." {
            return Err(refuse("link name", interface, "the name of a link"));
        }
        let namespace = namespace.into();
        if !namespace.is_absolute() || namespace.to_str().is_none() {
            let text = namespace.to_string_lossy();
            return Err(refuse("namespace", &text, "an absolute path in UTF-8"));
        }
        Ok(Self {
            container: container.to_owned(),
            namespace,
            interface: interface.to_owned(),
            args: Vec::new(),
            capabilities: Map::new(),
        })
    }

    /// Adds a pair to `CNI_ARGS`. Neither part may hold what parts pairs.
    pub fn arg(mut self, name: &str, value: &str) -> Result<Self, InvalidAttachment> {
        let parts = |text: &str| text.contains(['=', ';']) || text.contains(char::is_control);
        if name.is_empty() || parts(name) || parts(value) {
            return Err(InvalidAttachment {
                what: "argument",
                value: format!("{name}={value}").chars().take(80).collect(),
                expected: "a name and a value without '=' and ';'",
            });
        }
        self.args.push((name.to_owned(), value.to_owned()));
        Ok(self)
    }

    /// Adds what plugins with this capability get in `runtimeConfig`.
    #[must_use]
    pub fn capability(mut self, name: &str, value: Value) -> Self {
        self.capabilities.insert(name.to_owned(), value);
        self
    }

    /// The container's id.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// The file of its network namespace.
    pub fn namespace(&self) -> &Path {
        &self.namespace
    }

    /// The link's name inside.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    pub(crate) fn args_text(&self) -> String {
        let pairs: Vec<String> = (self.args.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        pairs.join(";")
    }

    pub(crate) fn capabilities(&self) -> &Map<String, Value> {
        &self.capabilities
    }
}

/// The specification's rule for ids of containers and names of networks.
pub(crate) fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    text.bytes().all(inner)
        && text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plugin_could_misread_is_refused() {
        let make = |container: &str, namespace: &str, interface: &str| {
            Attachment::new(container, namespace, interface).map(drop)
        };
        make("a-1", "/run/ns", "eth0").unwrap();
        for (container, namespace, interface) in [
            ("", "/n", "eth0"),
            ("../a", "/n", "eth0"),
            ("-a", "/n", "eth0"),
            ("a", "n", "eth0"),
            ("a", "/n", ""),
            ("a", "/n", "sixteen-letters-"),
            ("a", "/n", "a/b"),
        ] {
            make(container, namespace, interface).unwrap_err();
        }
        let fine = Attachment::new("a", "/n", "eth0").unwrap();
        let fine = fine
            .arg("IgnoreUnknown", "1")
            .unwrap()
            .arg("K", "v")
            .unwrap();
        assert_eq!(fine.args_text(), "IgnoreUnknown=1;K=v");
        fine.clone().arg("a", "b;CNI=1").unwrap_err();
        fine.arg("", "b").unwrap_err();
    }
}
