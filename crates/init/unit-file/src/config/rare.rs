//! Settings that few units have.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Defaults that can be borrowed for ever.
pub trait RareDefault: Default + PartialEq + 'static {
    /// The defaults.
    fn default_ref() -> &'static Self;
}

/// A group of settings out of line: a pointer while all of them are at their defaults. Reads as the
/// group itself; the first write allocates.
pub struct Rare<T>(Option<Box<T>>);

impl<T: RareDefault> Rare<T> {
    /// Whether every setting is at its default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        **self == *T::default_ref()
    }

    /// Gives the memory back if every setting is at its default.
    pub fn compact(&mut self) {
        if self.is_default() {
            self.0 = None;
        }
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: RareDefault> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::default_ref())
    }
}

impl<T: RareDefault> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Clone> Clone for Rare<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: RareDefault> PartialEq for Rare<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: RareDefault + fmt::Debug> fmt::Debug for Rare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(group) => group.fmt(f),
            None => f.write_str("(defaults)"),
        }
    }
}

/// Makes types usable in [`Rare`].
macro_rules! rare {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::config::RareDefault for $type {
            fn default_ref() -> &'static Self {
                static DEFAULTS: std::sync::LazyLock<$type> = std::sync::LazyLock::new(Default::default);
                &DEFAULTS
            }
        }
    )+};
}
pub(crate) use rare;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Group {
        value: u32,
    }
    rare!(Group);

    #[test]
    fn only_what_differs_takes_memory() {
        let mut group: Rare<Group> = Rare::default();
        assert_eq!(group.value, 0);
        assert!(group.0.is_none());
        group.value = 5;
        assert!(group.0.is_some() && !group.is_default());
        group.value = 0;
        assert_eq!(group, Rare::default());
        group.compact();
        assert!(group.0.is_none());
    }
}
