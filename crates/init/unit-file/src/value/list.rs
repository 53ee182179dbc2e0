//! Compact lists of texts.

use std::fmt;

/// A list of texts in one allocation: units have many short lists, and most are empty.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct StrList {
    /// Every element is followed by NUL, which no element contains.
    joined: String,
}

impl StrList {
    /// Appends an element. NUL, which no file value can contain, ends it early.
    pub fn push(&mut self, element: &str) {
        self.joined
            .push_str(element.split('\0').next().unwrap_or(""));
        self.joined.push('\0');
    }

    /// The elements.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.joined.split_terminator('\0')
    }

    /// How many there are. Counts them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.joined.is_empty()
    }

    /// The first element.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.iter().next()
    }

    /// Whether a text is among the elements.
    #[must_use]
    pub fn contains(&self, element: &str) -> bool {
        self.iter().any(|known| known == element)
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.joined.clear();
    }

    /// Gives memory for further elements back.
    pub fn shrink(&mut self) {
        self.joined.shrink_to_fit();
    }
}

impl fmt::Debug for StrList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<S: AsRef<str>> FromIterator<S> for StrList {
    fn from_iter<I: IntoIterator<Item = S>>(elements: I) -> Self {
        let mut list = Self::default();
        for element in elements {
            list.push(element.as_ref());
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_vector(elements in prop::collection::vec("[^\0]{0,5}", 0..6)) {
            let list: StrList = elements.iter().collect();
            prop_assert_eq!(list.iter().map(str::to_owned).collect::<Vec<_>>(), elements.clone());
            prop_assert_eq!(list.len(), elements.len());
            prop_assert_eq!(list.is_empty(), elements.is_empty());
        }
    }
}
