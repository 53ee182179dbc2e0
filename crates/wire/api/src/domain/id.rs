//! Names of things. All of them may become a file name, a cgroup or part of a unit name, so none
//! can leave the folder it is put in.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use super::error::{Excerpt, InvalidValue, Problem};

/// Longest id, in bytes. A file name may have 255: this leaves room for prefixes and suffixes.
pub const MAX_ID_BYTES: usize = 128;

/// The rules that hold for every id.
fn check_id(what: &'static str, value: &str) -> Result<(), InvalidValue> {
    let refuse = |problem| Err(InvalidValue::new(what, problem));
    if value.is_empty() {
        return refuse(Problem::Missing);
    }
    if value.len() > MAX_ID_BYTES {
        let (length, limit) = (value.len(), MAX_ID_BYTES);
        return refuse(Problem::TooLong {
            value: Excerpt::new(value),
            length,
            limit,
        });
    }
    if let Some(character) = value.chars().find(|c| *c == '/' || c.is_control()) {
        return refuse(Problem::ForbiddenCharacter {
            value: Excerpt::new(value),
            character,
        });
    }
    if value == "." || value == ".." {
        return refuse(Problem::Reserved {
            value: Excerpt::new(value),
        });
    }
    Ok(())
}

/// No rule beyond those of every id.
fn no_more_rules(_what: &'static str, _value: &str) -> Result<(), InvalidValue> {
    Ok(())
}

/// Instance ids are made over `item:subject:instance`. Without a colon in the item id, two
/// different idents can never have the same name there.
fn check_no_colon(what: &'static str, value: &str) -> Result<(), InvalidValue> {
    if value.contains(':') {
        let problem = Problem::ForbiddenCharacter {
            value: Excerpt::new(value),
            character: ':',
        };
        return Err(InvalidValue::new(what, problem));
    }
    Ok(())
}

/// A quota alert names a partition where it could also name one of these.
fn check_not_a_quota(what: &'static str, value: &str) -> Result<(), InvalidValue> {
    if ["cpu", "ram", "download", "upload"].contains(&value) {
        return Err(InvalidValue::new(
            what,
            Problem::Reserved {
                value: Excerpt::new(value),
            },
        ));
    }
    Ok(())
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $extra_rules:path) => {
        $(#[$doc])*
        ///
        /// Not empty, at most [`MAX_ID_BYTES`] bytes, no `/`, no control characters, neither `.`
        /// nor `..`. Cheap to clone.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes `value` if it keeps the rules.
            pub fn new(value: &str) -> Result<Self, InvalidValue> {
                check_id($what, value)?;
                $extra_rules($what, value)?;
                Ok(Self(value.into()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidValue;

            fn from_str(value: &str) -> Result<Self, InvalidValue> {
                Self::new(value)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }
    };
}

id_type!(
    /// A node of the device.
    NodeId, "node id", no_more_rules
);
id_type!(
    /// What a node is meant for; nodes of one type are configured alike.
    NodeType, "node type", no_more_rules
);
id_type!(
    /// Something that can be deployed. Holds no `:` either, because instance ids are made from
    /// `item:subject:instance`.
    ItemId, "item id", check_no_colon
);
id_type!(
    /// Who an item runs for.
    SubjectId, "subject id", no_more_rules
);
id_type!(
    /// Who provides an item.
    OwnerId, "owner id", no_more_rules
);
id_type!(
    /// A network between instances.
    NetworkId, "network id", no_more_rules
);
id_type!(
    /// A partition of a node. Not `cpu`, `ram`, `download` or `upload`: quota alerts name
    /// partitions and those in the same field.
    PartitionName, "partition name", check_not_a_quota
);
id_type!(
    /// A kind of runtime: `container`, `rootfs` ...
    RuntimeType, "runtime type", no_more_rules
);
id_type!(
    /// One runtime of one node.
    RuntimeId, "runtime id", no_more_rules
);

impl RuntimeId {
    /// The id that everyone gives to the runtime of this type on this node: a name-based UUID
    /// (version 3, namespace OID) over `type-nodeID`.
    ///
    /// The name is ambiguous when types hold hyphens (`a-b` on `c`, `a` on `b-c`); the field's
    /// peers compute it this way, so whoever names runtime types keeps hyphens out of them.
    pub fn derive(runtime_type: &RuntimeType, node: &NodeId) -> Self {
        let name = format!("{runtime_type}-{node}");
        let id = Uuid::new_v3(&Uuid::NAMESPACE_OID, name.as_bytes());
        Self(id.to_string().into())
    }
}

macro_rules! account_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        ///
        /// Never `u32::MAX`, which system calls take for "leave it as it is".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// Takes any number but `u32::MAX`.
            pub fn new(value: u32) -> Result<Self, InvalidValue> {
                if value == u32::MAX {
                    let problem = Problem::OutOfRange {
                        value: Excerpt::number(value),
                        expected: "below 4294967295",
                    };
                    return Err(InvalidValue::new($what, problem));
                }
                Ok(Self(value))
            }

            /// The number that system calls take.
            pub fn as_raw(self) -> u32 {
                self.0
            }
        }
    };
}

account_type!(
    /// The user that an instance runs as.
    Uid, "user id"
);
account_type!(
    /// The group that an instance runs as.
    Gid, "group id"
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_that_could_leave_their_folder_are_refused() {
        for (value, message) in [
            ("", "node id: missing"),
            (".", "node id: \".\" is a reserved name"),
            ("..", "node id: \"..\" is a reserved name"),
            ("a/b", "node id: \"a/b\" holds the forbidden character '/'"),
            (
                "a\0b",
                "node id: \"a\\0b\" holds the forbidden character '\\0'",
            ),
            (
                "a\nb",
                "node id: \"a\\nb\" holds the forbidden character '\\n'",
            ),
            (
                "a\u{9b}b",
                "node id: \"a\\u{9b}b\" holds the forbidden character '\\u{9b}'",
            ),
        ] {
            assert_eq!(NodeId::new(value).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_length_limit_is_exact_and_the_refused_value_shortened() {
        assert!(NodeId::new(&"x".repeat(MAX_ID_BYTES)).is_ok());
        let error = NodeId::new(&"x".repeat(MAX_ID_BYTES + 1))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!(
                "node id: {:?}... has 129 bytes, the limit is 128",
                "x".repeat(48)
            )
        );
    }

    #[test]
    fn only_item_ids_refuse_colons_and_only_partitions_refuse_quota_names() {
        assert!(ItemId::new("a:b").is_err());
        assert!(SubjectId::new("a:b").is_ok());
        assert!(PartitionName::new("cpu").is_err());
        assert!(ItemId::new("cpu").is_ok());
    }

    #[test]
    fn a_runtime_id_is_the_uuid_that_peers_compute() {
        let id = RuntimeId::derive(
            &RuntimeType::new("container").unwrap(),
            &NodeId::new("node-1").unwrap(),
        );
        assert_eq!(id.as_str(), "ad7454f1-a799-325b-b00e-9714ed077d34");
    }

    #[test]
    fn an_account_is_never_the_no_change_value() {
        assert!(Uid::new(u32::MAX).is_err());
        assert_eq!(Gid::new(0).unwrap().as_raw(), 0);
    }

    proptest! {
        #[test]
        fn an_accepted_id_is_exactly_one_normal_path_component(value in any::<String>()) {
            if let Ok(id) = NodeId::new(&value) {
                let components: Vec<_> = std::path::Path::new(id.as_str()).components().collect();
                let expected = std::path::Component::Normal(value.as_ref());
                prop_assert_eq!(components, vec![expected]);
                prop_assert!(value.len() <= MAX_ID_BYTES);
                prop_assert_eq!(id.to_string(), value);
            }
        }
    }
}
