//! What can go wrong with a token.

use std::io;
use std::path::PathBuf;

/// Why a token did not do as told. No variant holds a PIN.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The PKCS#11 library cannot be loaded or initialised.
    #[error("cannot load the PKCS#11 library {}", library.display())]
    Library {
        /// The library.
        library: PathBuf,
        /// What the loader or the library said.
        source: cryptoki::error::Error,
    },
    /// A URL does not say which library knows the token.
    #[error("the URL has no module-path: {url}")]
    NoLibrary {
        /// The URL.
        url: String,
    },
    /// A URL does not say which object is meant.
    #[error("the URL has neither id nor object: {url}")]
    NoObjectNamed {
        /// The URL.
        url: String,
    },
    /// The library cannot say which slots it has.
    #[error("cannot list the slots of {}", library.display())]
    Slots {
        /// The library.
        library: PathBuf,
        /// What the library said.
        source: cryptoki::error::Error,
    },
    /// The token is not there: removed, or not initialised yet.
    #[error("there is no {token}; it was removed, or has no owner yet")]
    NoToken {
        /// Which one was looked for.
        token: String,
    },
    /// Several tokens could be meant.
    #[error("{found} tokens are {token}; tell them apart by serial number or slot")]
    Ambiguous {
        /// Which one was looked for.
        token: String,
        /// How many there are.
        found: usize,
    },
    /// There is no slot for a new token.
    #[error("no slot is free for a new {token}")]
    NoFreeSlot {
        /// The token that was to be made.
        token: String,
    },
    /// Every session was in use for too long.
    #[error("all sessions of {token} are busy")]
    Busy {
        /// The token.
        token: String,
    },
    /// The PIN file cannot be used.
    #[error("cannot use the PIN file {}", path.display())]
    PinFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file has no PIN that a token could have.
    #[error("{} has no PIN of 4 to 255 characters on one line", path.display())]
    PinText {
        /// The file.
        path: PathBuf,
    },
    /// A URL says neither where the PIN is nor what it is.
    #[error("nothing says what the PIN of {token} is")]
    NoPin {
        /// The token.
        token: String,
    },
    /// This PIN was refused before, and another try could lock the token.
    #[error("the PIN was refused by {token} before and is not tried again until it changes")]
    PinRefusedBefore {
        /// The token.
        token: String,
    },
    /// The token refused the PIN, or the login failed in another way.
    #[error("cannot log in to {token}")]
    Login {
        /// The token.
        token: String,
        /// What the token said.
        source: cryptoki::error::Error,
    },
    /// The administrator's password was refused, so the token cannot be taken over.
    #[error("cannot administer {token}: the password is not the one it was made with")]
    Administer {
        /// The token.
        token: String,
        /// What the token said.
        source: cryptoki::error::Error,
    },
    /// The token failed at something.
    #[error("{token} cannot {doing} {object}")]
    Operation {
        /// The token.
        token: String,
        /// What it was to do.
        doing: &'static str,
        /// With which object.
        object: String,
        /// What the token said.
        source: cryptoki::error::Error,
    },
    /// An object is not there.
    #[error("{token} has no {object}")]
    NoObject {
        /// The token.
        token: String,
        /// The object.
        object: String,
    },
    /// An object is not what it should be.
    #[error("{object} in {token} is unusable: {problem}")]
    BadObject {
        /// The token.
        token: String,
        /// The object.
        object: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The kernel gave no random bytes.
    #[error("cannot make up a PIN")]
    Random(#[source] io::Error),
}
