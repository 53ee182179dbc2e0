//! Values that are at rest in most units: a service that never ran, settings that nobody changed.
//!
//! [`AtRest`] reads like the value and takes no memory until it is written to. A machine may know thousands of units of which
//! a few hundred ever run; this is most of what keeps the others small.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A type whose default is shared by everybody who has not changed it.
pub trait Rest: Default + PartialEq + 'static {
    /// The shared default.
    fn at_rest() -> &'static Self;
}

macro_rules! rest {
    ($($type:ty),* $(,)?) => {$(
        impl Rest for $type {
            fn at_rest() -> &'static Self {
                static REST: std::sync::LazyLock<$type> = std::sync::LazyLock::new(Default::default);
                &REST
            }
        }
    )*};
}

rest!(
    crate::spec::ExitStatusSet,
    crate::spec::UnitSettings,
    crate::state::Times,
    crate::types::Service,
);

/// A value that is stored only once it differs from its default.
#[derive(Clone)]
pub struct AtRest<T: Rest>(Option<Box<T>>);

impl<T: Rest> AtRest<T> {
    /// Gives the memory back if the value is its default again.
    pub(crate) fn release(&mut self) {
        if self.0.as_deref() == Some(T::at_rest()) {
            self.0 = None;
        }
    }
}

impl<T: Rest> Default for AtRest<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Rest> From<T> for AtRest<T> {
    fn from(value: T) -> Self {
        let mut stored = Self(Some(Box::new(value)));
        stored.release();
        stored
    }
}

impl<T: Rest> Deref for AtRest<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::at_rest())
    }
}

impl<T: Rest> DerefMut for AtRest<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Rest> PartialEq for AtRest<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Rest + Eq> Eq for AtRest<T> {}

impl<T: Rest + fmt::Debug> fmt::Debug for AtRest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: Rest + Serialize> Serialize for AtRest<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Rest + Deserialize<'de>> Deserialize<'de> for AtRest<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::AtRest;
    use crate::spec::ExitStatusSet;

    #[test]
    fn memory_is_taken_on_write_and_given_back() {
        let mut set: AtRest<ExitStatusSet> = AtRest::default();
        assert!(set.0.is_none() && !set.has_code(3));
        set.add_code(3);
        assert!(set.0.is_some() && set.has_code(3));
        *set = ExitStatusSet::default();
        set.release();
        assert!(set.0.is_none());
        assert_eq!(set, AtRest::from(ExitStatusSet::default()));
    }

    #[test]
    fn it_is_written_as_the_value_itself() {
        let mut set: AtRest<ExitStatusSet> = AtRest::default();
        set.add_signal(9);
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(text, serde_json::to_string(&*set).unwrap());
        assert_eq!(
            serde_json::from_str::<AtRest<ExitStatusSet>>(&text).unwrap(),
            set
        );
    }
}
