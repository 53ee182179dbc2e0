//! The configuration that the controller gives a node: checked, kept, applied without a restart.
