//! Domain values in serialised answers: as the text that people read.

use std::fmt::Display;

use serde::Serializer;
use serde::ser::SerializeSeq as _;

pub(crate) fn one<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

pub(crate) fn each<'v, T, L, S>(values: &'v L, to: S) -> Result<S::Ok, S::Error>
where
    T: Display + 'v,
    &'v L: IntoIterator<Item = &'v T>,
    S: Serializer,
{
    let mut sequence = to.serialize_seq(None)?;
    for value in values {
        sequence.serialize_element(&format_args!("{value}"))?;
    }
    sequence.end()
}
