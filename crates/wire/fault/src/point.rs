//! What a fault point is, and the macro that lists them.

use std::fmt;

/// A named moment between two lasting steps. Made by [`points!`](crate::points).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Point {
    name: &'static str,
    doc: &'static str,
}

impl Point {
    /// Used by [`points!`](crate::points). A bad name does not compile.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(name: &'static str, doc: &'static str) -> Self {
        assert!(
            is_name(name),
            "a fault point's name is lower case letters, digits, '.' and '-'"
        );
        Self { name, doc }
    }

    /// The name as it is written in `MUSTER_FAULT`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// What has happened, and what has not, when the point is reached.
    #[must_use]
    pub fn doc(self) -> &'static str {
        self.doc.trim()
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !matches!(bytes[at], b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-') {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty()
}

/// Used by [`points!`](crate::points): a name that stands twice does not compile.
#[doc(hidden)]
#[must_use]
pub const fn are_unique(points: &[Point]) -> bool {
    let mut left = 0;
    while left < points.len() {
        let mut right = left + 1;
        while right < points.len() {
            if same(points[left].name.as_bytes(), points[right].name.as_bytes()) {
                return false;
            }
            right += 1;
        }
        left += 1;
    }
    true
}

const fn same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Declares fault points as constants, and `FAULT_POINTS`, the list of all of them.
///
/// Each point needs a doc comment that says what has happened and what has not. Names are lower
/// case letters, digits, `.` and `-`; by custom `crate.moment`.
///
/// ```compile_fail
/// muster_fault::points! {
///     /// One.
///     pub ONE = "doc.same",
///     /// Two: the name is taken.
///     pub TWO = "doc.same",
/// }
/// ```
#[macro_export]
macro_rules! points {
    ($( $(#[doc = $doc:literal])+ $vis:vis $ident:ident = $name:literal ),+ $(,)?) => {
        $(
            $(#[doc = $doc])+
            $vis const $ident: $crate::Point = $crate::Point::new($name, concat!($($doc),+));
        )+

        /// Every fault point declared here, in the order of declaration.
        pub const FAULT_POINTS: &[$crate::Point] = &[$($ident),+];

        const _: () = assert!(
            $crate::__private::are_unique(FAULT_POINTS),
            "two fault points have the same name",
        );
    };
}
