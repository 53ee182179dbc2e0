//! What a new machine is given, so that it can be reached by ssh and by nobody else, and so that whoever answers in its place is
//! noticed.

use std::fmt;

use zeroize::Zeroizing;

/// A text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Keeps a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text, for whoever it is meant for.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The keys of a machine that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshSeed {
    /// The user that commands are run as.
    pub user: String,
    /// Who may log in as that user, one line of OpenSSH's each.
    pub authorized_keys: Vec<String>,
    /// What the machine proves with that it is the one that was ordered: OpenSSH's PEM.
    pub host_private: Secret,
    /// What it is known by: a line of OpenSSH's.
    pub host_public: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let seed = SshSeed {
            user: "root".to_owned(),
            authorized_keys: Vec::new(),
            host_private: Secret::new("very private".to_owned()),
            host_public: "ssh-ed25519 AAAA".to_owned(),
        };
        assert!(!format!("{seed:?}").contains("very private"));
        assert_eq!(seed.host_private.reveal(), "very private");
    }
}
