//! muster-varlink.
