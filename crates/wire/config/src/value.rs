//! Types that configuration values are written in.

mod byte_size;
mod duration;

pub use byte_size::{ByteSize, ParseByteSizeError};
pub use duration::{Duration, ParseDurationError};

use std::fmt;

use serde::de::Expected;

/// An error's own words, where serde wants to hear what was expected.
struct Wanted<'a>(&'a dyn fmt::Display);

impl Expected for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
