//! muster-init.
