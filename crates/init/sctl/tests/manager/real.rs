//! The real manager.
