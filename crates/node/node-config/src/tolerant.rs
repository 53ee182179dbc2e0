//! Tables of which only some keys matter.
//!
//! `muster-config` refuses unknown keys of structures, as a daemon's own configuration wants it. A document from a controller
//! of another make may hold more; these structures read themselves as maps, where any key may stand, and keep the names of
//! those that they do not know.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Unknown keys remembered per table; more would not be read by anybody.
pub(crate) const REMEMBERED: usize = 16;

/// Declares a structure of optional fields, each with its key.
macro_rules! tolerant {
    ($( $(#[$meta:meta])* struct $name:ident { $( $key:literal => $field:ident: $type:ty, )* } )+) => { $(
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $( pub(crate) $field: Option<$type>, )*
            /// Keys that are none of these.
            pub(crate) unknown: Vec<String>,
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Table;

                impl<'de> serde::de::Visitor<'de> for Table {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a table")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut read = $name::default();
                        while let Some(key) = map.next_key::<String>()? {
                            $( if key.eq_ignore_ascii_case($key) {
                                read.$field = Some(map.next_value()?);
                                continue;
                            } )*
                            map.next_value::<serde::de::IgnoredAny>()?;
                            if read.unknown.len() < crate::tolerant::REMEMBERED {
                                read.unknown.push(key);
                            }
                        }
                        Ok(read)
                    }
                }

                deserializer.deserialize_map(Table)
            }
        }
    )+ };
}

pub(crate) use tolerant;

/// A whole number from 0 on. `5.0` is one as well: some writers know only floating point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole(pub(crate) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0 on")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Whole, E> {
        Ok(Whole(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Whole, E> {
        /// Up to here every whole number has a floating point form of its own.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if value.fract() != 0.0 || !(0.0..=EXACT).contains(&value) {
            return Err(E::invalid_value(Unexpected::Float(value), &self));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be whole and in range"
        )]
        Ok(Whole(value as u64))
    }
}
