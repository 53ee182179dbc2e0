//! Which instances are meant.

use crate::common::v2 as common;

use super::error::{ConvertError, Excerpt, InvalidValue, Problem, optional_text, optional_to_text};
use super::id::{ItemId, SubjectId};
use super::ident::InstanceIdent;

/// Selects instances; what is not given matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct InstanceFilter {
    item_id: Option<ItemId>,
    subject_id: Option<SubjectId>,
    /// Not negative; signed because the wire has no more room.
    instance: Option<i64>,
}

impl InstanceFilter {
    const ALL_INSTANCES: i64 = -1;

    /// A filter on what is given. An index above `i64::MAX` has no place on the wire.
    pub fn new(
        item_id: Option<ItemId>,
        subject_id: Option<SubjectId>,
        instance: Option<u64>,
    ) -> Result<Self, InvalidValue> {
        let to_wire = |index: u64| {
            i64::try_from(index).map_err(|_| {
                let problem = Problem::OutOfRange {
                    value: Excerpt::number(index),
                    expected: "at most 9223372036854775807",
                };
                InvalidValue::new("instance index", problem)
            })
        };
        Ok(Self {
            item_id,
            subject_id,
            instance: instance.map(to_wire).transpose()?,
        })
    }

    /// Whether `ident` is meant.
    pub fn matches(&self, ident: &InstanceIdent) -> bool {
        self.item_id
            .as_ref()
            .is_none_or(|item| *item == ident.item_id)
            && self
                .subject_id
                .as_ref()
                .is_none_or(|subject| *subject == ident.subject_id)
            && self
                .instance
                .is_none_or(|index| u64::try_from(index) == Ok(ident.instance))
    }
}

impl TryFrom<common::InstanceFilter> for InstanceFilter {
    type Error = ConvertError;

    fn try_from(wire: common::InstanceFilter) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "InstanceFilter";
        let instance = match wire.instance {
            Self::ALL_INSTANCES => None,
            index @ 0.. => Some(index),
            negative => {
                let problem = Problem::OutOfRange {
                    value: Excerpt::number(negative),
                    expected: "an index or -1 for all",
                };
                return Err(ConvertError::new(MESSAGE, "instance", problem));
            }
        };
        Ok(Self {
            item_id: optional_text(MESSAGE, "item_id", &wire.item_id)?,
            subject_id: optional_text(MESSAGE, "subject_id", &wire.subject_id)?,
            instance,
        })
    }
}

impl From<InstanceFilter> for common::InstanceFilter {
    fn from(filter: InstanceFilter) -> Self {
        Self {
            item_id: optional_to_text(filter.item_id),
            subject_id: optional_to_text(filter.subject_id),
            instance: filter.instance.unwrap_or(InstanceFilter::ALL_INSTANCES),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{instance_filter, instance_ident, round_trip};

    fn wire(item: &str, subject: &str, instance: i64) -> common::InstanceFilter {
        common::InstanceFilter {
            item_id: item.into(),
            subject_id: subject.into(),
            instance,
        }
    }

    #[test]
    fn minus_one_is_all_and_other_negatives_are_refused() {
        let all = InstanceFilter::try_from(wire("", "", -1)).unwrap();
        assert_eq!(all, InstanceFilter::default());
        for negative in [-2, i64::MIN] {
            assert!(InstanceFilter::try_from(wire("", "", negative)).is_err());
        }
        assert!(InstanceFilter::new(None, None, Some(u64::MAX)).is_err());
    }

    proptest! {
        #[test]
        fn survives_the_wire(filter in instance_filter()) {
            round_trip::<common::InstanceFilter, _>(&filter)?;
        }

        #[test]
        fn each_given_part_decides(ident in instance_ident(), by_item: bool, by_subject: bool,
                                   by_index: bool) {
            let mut ident = ident;
            ident.instance %= 1 << 63;
            let filter = InstanceFilter::new(
                by_item.then(|| ident.item_id.clone()),
                by_subject.then(|| ident.subject_id.clone()),
                by_index.then_some(ident.instance),
            ).unwrap();
            prop_assert!(filter.matches(&ident));

            let mut other_item = ident.clone();
            other_item.item_id = ItemId::new("another-item-entirely").unwrap();
            prop_assert_eq!(filter.matches(&other_item), !by_item);
            let mut other_subject = ident.clone();
            other_subject.subject_id = SubjectId::new("another-subject-entirely").unwrap();
            prop_assert_eq!(filter.matches(&other_subject), !by_subject);
            let mut other_index = ident.clone();
            other_index.instance = ident.instance.wrapping_add(1);
            prop_assert_eq!(filter.matches(&other_index), !by_index);
        }
    }
}
