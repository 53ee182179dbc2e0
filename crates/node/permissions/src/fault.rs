//! Where a test may kill a program that keeps permissions.

muster_fault::points! {
    /// A new node key is flushed under its temporary name.
    pub(crate) KEY_WRITTEN = "permissions.key-written",
    /// A new node key has its name, but the folder is not flushed.
    pub(crate) KEY_NAMED = "permissions.key-named",
    /// A new node key has its name for good; nothing is registered.
    pub(crate) KEY_DURABLE = "permissions.key-durable",
    /// A registration is durable; the caller has not got the secret.
    pub(crate) REGISTERED = "permissions.registered",
    /// A registration is durably gone; the caller has not been told.
    pub(crate) UNREGISTERED = "permissions.unregistered",
}
