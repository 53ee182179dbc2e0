//! Instances as containers of an OCI runtime.
