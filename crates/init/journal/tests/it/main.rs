//! Tests of the crate as its users see it, beside systemd's own tools.

mod follow;
mod hostile;
mod kill;
mod peer;
mod places;
mod power;
mod properties;
mod round_trip;
mod support;
mod verify;
mod writer;
