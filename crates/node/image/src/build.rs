//! Making images.
