//! Moments between two lasting steps, at which tests kill the process.

muster_fault::points! {
    /// A file's new content is on disk under another name; the file itself is still the old one.
    pub FILE_WRITTEN = "keys.file-written",
    /// The index names a key that has yet to be made.
    pub PENDING_RECORDED = "keys.pending-recorded",
    /// The key exists, its signing request has not been recorded.
    pub KEY_MADE = "keys.key-made",
    /// The signing request is recorded, the caller has not been told.
    pub REQUEST_RECORDED = "keys.request-recorded",
    /// The token has the issuers of a certificate, but not yet the certificate.
    pub ISSUERS_STORED = "keys.issuers-stored",
    /// The certificate is stored; the index still says that its key waits for one.
    pub CERT_STORED = "keys.cert-stored",
    /// The index knows the certificate; what it displaces is still there.
    pub CERT_RECORDED = "keys.cert-recorded",
    /// A displaced certificate is gone, its key is not.
    pub CERT_REMOVED = "keys.cert-removed",
    /// A displaced key is gone, the index still lists it for removal.
    pub KEY_REMOVED = "keys.key-removed",
    /// Keys and certificates of a type are gone, its index is not.
    pub CLEARED = "keys.cleared",
    /// The PIN file of a new token is on disk, the token is not made.
    pub PIN_RECORDED = "keys.pin-recorded",
    /// The token is initialised and has no user PIN.
    pub TOKEN_MADE = "keys.token-made",
    /// The token has its user PIN, the caller has not been told.
    pub TOKEN_OWNED = "keys.token-owned",
}
