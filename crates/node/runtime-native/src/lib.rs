//! Instances as sandboxed programs of the host, without an OCI runtime.
