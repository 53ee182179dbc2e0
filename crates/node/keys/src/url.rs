//! URLs that say where a certificate or key is: `file:` (RFC 8089) and `pkcs11:` (RFC 7512).
//!
//! They come from configuration, from the wire and from other programs, so they are bounded, parsed
//! without panics, and a PIN in one never gets into what is printed.

mod percent;
mod pkcs11;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use self::pkcs11::{ObjectKind, PinSource, Pkcs11Uri};

/// Longest URL that is looked at.
const MAX_LEN: usize = 4096;

/// Why a text says nowhere. The text itself is left out: it may hold a PIN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseUrlError {
    /// Longer than any that Muster reads.
    #[error("the URL has {len} bytes, more than {MAX_LEN}")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// Neither `file:` nor `pkcs11:`.
    #[error("the URL starts neither with \"file:\" nor with \"pkcs11:\"")]
    Scheme,
    /// `file:` with another host, without an absolute path, or with a query.
    #[error("a file URL has the form file:///absolute/path")]
    FilePath,
    /// A certificate in one kind of place with a key in another.
    #[error("certificate and key are either both in files or both in a token")]
    Mixed,
    /// `%` without two hexadecimal digits, or a character that has to be written with `%`.
    #[error("{place} has a character that must be written as % and two hexadecimal digits")]
    Coding {
        /// The attribute, or "the path".
        place: &'static str,
    },
    /// An attribute without `=`.
    #[error("a pkcs11 URL is a list of attribute=value")]
    Shape,
    /// An attribute that narrows down what is meant in a way that Muster does not know.
    #[error("the pkcs11 attribute is not supported")]
    UnknownAttribute,
    /// Two values for one attribute.
    #[error("the pkcs11 attribute {attribute} stands twice")]
    Twice {
        /// The attribute.
        attribute: &'static str,
    },
    /// A value that the attribute cannot have.
    #[error("the value of the pkcs11 attribute {attribute} is unusable")]
    Value {
        /// The attribute.
        attribute: &'static str,
    },
}

/// Where a certificate or key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertUrl {
    /// In a file, at this absolute path.
    File(PathBuf),
    /// In a token.
    Pkcs11(Box<Pkcs11Uri>),
}

impl CertUrl {
    /// Parses a URL; the same as `text.parse()`.
    pub fn parse(text: &str) -> Result<Self, ParseUrlError> {
        if text.len() > MAX_LEN {
            return Err(ParseUrlError::TooLong { len: text.len() });
        }
        if let Some(rest) = strip_scheme(text, "file:") {
            return file_path(rest).map(Self::File);
        }
        match strip_scheme(text, "pkcs11:") {
            Some(rest) => Ok(Self::Pkcs11(Box::new(Pkcs11Uri::parse(rest)?))),
            None => Err(ParseUrlError::Scheme),
        }
    }
}

/// Schemes are the one part of a URL where case does not matter.
fn strip_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn file_path(rest: &str) -> Result<PathBuf, ParseUrlError> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return Err(ParseUrlError::FilePath);
    }
    let coding = ParseUrlError::Coding { place: "the path" };
    let bytes = percent::decode(path).ok_or(coding)?;
    if bytes.contains(&0) {
        return Err(ParseUrlError::FilePath);
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// The URL of a file, which must have an absolute path.
pub(crate) fn of_file(path: &Path) -> String {
    let mut url = String::from("file://");
    percent::encode(&mut url, path.as_os_str().as_bytes(), b"/");
    url
}

impl FromStr for CertUrl {
    type Err = ParseUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Prints a PIN's source, but never a PIN.
impl fmt::Display for CertUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(&of_file(path)),
            Self::Pkcs11(uri) => fmt::Display::fmt(uri, f),
        }
    }
}
