//! muster-logd.
