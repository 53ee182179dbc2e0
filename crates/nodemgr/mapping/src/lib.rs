//! Mappings.
