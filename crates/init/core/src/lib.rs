//! muster-core.
