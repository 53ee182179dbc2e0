//! Contexts on a machine that is made up.
