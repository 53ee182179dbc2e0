//! muster-exec.
