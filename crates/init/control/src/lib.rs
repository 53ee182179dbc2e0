//! muster-control.
