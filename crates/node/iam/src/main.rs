//! The identity manager: who a node is, its keys and certificates, provisioning, permissions.

fn main() {}
