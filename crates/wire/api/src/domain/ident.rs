//! Which instance is meant.

use std::fmt;

use uuid::Uuid;

use crate::common::v2 as common;

use super::enums::ItemType;
use super::error::{ConvertError, text};
use super::id::{ItemId, SubjectId};

/// The n-th run of an item for a subject.
///
/// Displays as `item:subject:instance`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceIdent {
    /// What runs.
    pub item_id: ItemId,
    /// Who it runs for.
    pub subject_id: SubjectId,
    /// Counts from 0 within one (item, subject).
    pub instance: u64,
    /// What kind of thing the item is.
    pub item_type: ItemType,
    /// Whether it came with the node's image and was never deployed.
    pub preinstalled: bool,
}

impl InstanceIdent {
    /// The id under which everyone knows this instance: a name-based UUID (version 3, namespace
    /// OID) over `item:subject:instance`.
    ///
    /// Neither the item type nor `preinstalled` is part of it.
    pub fn instance_id(&self) -> Uuid {
        Uuid::new_v3(&Uuid::NAMESPACE_OID, self.to_string().as_bytes())
    }
}

impl fmt::Display for InstanceIdent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.item_id, self.subject_id, self.instance)
    }
}

impl TryFrom<common::InstanceIdent> for InstanceIdent {
    type Error = ConvertError;

    fn try_from(wire: common::InstanceIdent) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "InstanceIdent";
        Ok(Self {
            item_id: text(MESSAGE, "item_id", &wire.item_id)?,
            subject_id: text(MESSAGE, "subject_id", &wire.subject_id)?,
            instance: wire.instance,
            item_type: ItemType::try_from(wire.r#type)
                .map_err(|error| error.at(MESSAGE, "type"))?,
            preinstalled: wire.preinstalled,
        })
    }
}

impl From<InstanceIdent> for common::InstanceIdent {
    fn from(ident: InstanceIdent) -> Self {
        Self {
            item_id: ident.item_id.into(),
            subject_id: ident.subject_id.into(),
            instance: ident.instance,
            r#type: ident.item_type.into(),
            preinstalled: ident.preinstalled,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{instance_ident, round_trip};

    #[test]
    fn the_instance_id_is_the_uuid_that_peers_compute() {
        let ident = InstanceIdent {
            item_id: ItemId::new("item0").unwrap(),
            subject_id: SubjectId::new("subject0").unwrap(),
            instance: 0,
            item_type: ItemType::Service,
            preinstalled: false,
        };
        assert_eq!(
            ident.instance_id().to_string(),
            "33299ef5-ca7c-369d-aa0f-ddf797046b3b"
        );
    }

    #[test]
    fn an_unknown_type_is_refused_by_name() {
        let wire = common::InstanceIdent {
            item_id: "i".into(),
            subject_id: "s".into(),
            r#type: 7,
            ..Default::default()
        };
        assert_eq!(
            InstanceIdent::try_from(wire).unwrap_err().to_string(),
            "InstanceIdent.type: \"7\" is none of 0 (service) 1 (component)"
        );
    }

    proptest! {
        #[test]
        fn survives_the_wire(ident in instance_ident()) {
            round_trip::<common::InstanceIdent, _>(&ident)?;
        }

        /// Two instances with the same id would share their folders and their firewall rules.
        #[test]
        fn different_instances_never_share_a_name(
            (item, subject) in (":?[a-c:]{0,4}", "[a-c:0-9]{1,6}"),
            (other_item, other_subject) in (":?[a-c:]{0,4}", "[a-c:0-9]{1,6}"),
            index in 0_u64..3,
            other_index in 0_u64..3,
        ) {
            let make = |item: &str, subject: &str, instance| Some(InstanceIdent {
                item_id: ItemId::new(item).ok()?,
                subject_id: SubjectId::new(subject).ok()?,
                instance,
                item_type: ItemType::Service,
                preinstalled: false,
            });
            let one = make(&item, &subject, index);
            let other = make(&other_item, &other_subject, other_index);
            if let (Some(one), Some(other)) = (one, other) {
                prop_assert_eq!(one == other, one.to_string() == other.to_string());
            }
        }
    }
}
