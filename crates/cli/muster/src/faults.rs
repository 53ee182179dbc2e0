//! The moments at which tests kill the program, beside those of the authority.

muster_fault::points! {
    /// A key is written beside where its certificate will be.
    pub KEY_FILE_WRITTEN = "muster.key-file-written",
    /// The node is ready to make keys; none is made.
    pub PROVISIONING_STARTED = "muster.provisioning-started",
    /// The node has made a key; it is not certified.
    pub KEY_CREATED = "muster.key-created",
    /// A key of the node is certified; the node does not have the certificate.
    pub CERTIFIED = "muster.certified",
    /// The node has one more certificate.
    pub CERT_APPLIED = "muster.cert-applied",
    /// The node has all certificates and has not been told that this is all.
    pub BEFORE_FINISH = "muster.before-finish",
}
