//! What an instance may do.

use std::collections::BTreeMap;

use muster_api::iamanager::v6 as wire;

/// Bounds on what is kept. They protect the disk of a node from a caller that errs, and can be set
/// as high as a device needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Instances registered at a time.
    pub instances: u64,
    /// Functional servers of one instance.
    pub servers: usize,
    /// Bytes of one instance's registration, all names and modes included.
    pub registration_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            instances: 65_536,
            servers: 1024,
            registration_bytes: 256 * 1024,
        }
    }
}

/// More than the limits allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    /// Too many instances.
    #[error("{limit} instances are registered, which is the limit; unregister some or raise it")]
    Instances {
        /// The limit.
        limit: u64,
    },
    /// Too many functional servers.
    #[error("permissions for {servers} functional servers; the limit is {limit}")]
    Servers {
        /// How many were given.
        servers: usize,
        /// The limit.
        limit: usize,
    },
    /// Too much altogether.
    #[error("the permissions take {bytes} bytes; the limit is {limit}")]
    Bytes {
        /// How many they take.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// A permission that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGrant {
    /// A functional server without a name.
    #[error("a functional server has an empty name")]
    NamelessServer,
    /// A permission without a name.
    #[error("a permission of the functional server {server:?} has an empty name")]
    NamelessPermission {
        /// The server.
        server: String,
    },
}

/// What an instance may do: by functional server, by the server's own name for a permission, how
/// (`r`, `rw` or whatever the server knows).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(BTreeMap<String, BTreeMap<String, String>>);

impl Grants {
    /// Allows one more thing.
    ///
    /// # Errors
    /// When a name is empty.
    pub fn allow(
        &mut self,
        server: &str,
        permission: &str,
        mode: &str,
    ) -> Result<(), InvalidGrant> {
        if server.is_empty() {
            return Err(InvalidGrant::NamelessServer);
        }
        if permission.is_empty() {
            return Err(InvalidGrant::NamelessPermission {
                server: server.to_owned(),
            });
        }
        let permissions = self.0.entry(server.to_owned()).or_default();
        permissions.insert(permission.to_owned(), mode.to_owned());
        Ok(())
    }

    /// The functional servers, with what is allowed at each.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = (&str, &BTreeMap<String, String>)> {
        self.0
            .iter()
            .map(|(server, permissions)| (server.as_str(), permissions))
    }

    pub(crate) fn to_wire(&self) -> BTreeMap<String, wire::Permissions> {
        let permissions = |(server, permissions): (&String, &BTreeMap<String, String>)| {
            let permissions = permissions.clone();
            (server.clone(), wire::Permissions { permissions })
        };
        self.0.iter().map(permissions).collect()
    }
}

impl TryFrom<BTreeMap<String, wire::Permissions>> for Grants {
    type Error = InvalidGrant;

    /// A functional server without permissions is kept: its instance is known to it and may do
    /// nothing more.
    fn try_from(wire: BTreeMap<String, wire::Permissions>) -> Result<Self, InvalidGrant> {
        let mut grants = Self::default();
        for (server, permissions) in wire {
            for (permission, mode) in &permissions.permissions {
                grants.allow(&server, permission, mode)?;
            }
            if server.is_empty() {
                return Err(InvalidGrant::NamelessServer);
            }
            grants.0.entry(server).or_default();
        }
        Ok(grants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_refused_wherever_they_come_from() {
        let mut grants = Grants::default();
        assert_eq!(
            grants.allow("", "p", "r"),
            Err(InvalidGrant::NamelessServer)
        );
        let nameless = InvalidGrant::NamelessPermission {
            server: "vis".into(),
        };
        assert_eq!(grants.allow("vis", "", "r"), Err(nameless.clone()));
        assert_eq!(grants, Grants::default());

        let wire = |server: &str, permission: Option<&str>| {
            let permissions = permission.map(|name| (name.to_owned(), "r".to_owned()));
            let permissions = wire::Permissions {
                permissions: permissions.into_iter().collect(),
            };
            Grants::try_from(BTreeMap::from([(server.to_owned(), permissions)]))
        };
        assert_eq!(wire("", Some("p")), Err(InvalidGrant::NamelessServer));
        assert_eq!(wire("", None), Err(InvalidGrant::NamelessServer));
        assert_eq!(wire("vis", Some("")), Err(nameless));
    }

    #[test]
    fn the_wire_and_back_is_the_same() {
        let mut grants = Grants::default();
        grants.allow("vis", "Signal.*", "r").unwrap();
        grants.allow("vis", "Signal.Doors", "rw").unwrap();
        grants.0.insert("empty".into(), BTreeMap::new());
        assert_eq!(Grants::try_from(grants.to_wire()), Ok(grants));
    }
}
