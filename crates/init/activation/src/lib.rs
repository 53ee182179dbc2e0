//! muster-activation.
