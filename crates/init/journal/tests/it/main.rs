//! Tests of the crate as its users see it, beside systemd's own tools.

mod kill;
mod round_trip;
mod support;
