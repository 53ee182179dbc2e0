//! PINs: where they are, how they are read, and how new ones are made.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cryptoki::types::AuthPin;
use zeroize::Zeroizing;

use super::TokenError;
use crate::durable;
use crate::names::random_bytes;
use crate::url::PinSource;

/// What PKCS#11 libraries accept; most take no shorter and none a longer one.
const PIN_LEN: std::ops::RangeInclusive<usize> = 4..=255;
/// Random bytes in a PIN that is made up; two characters each.
const NEW_PIN_BYTES: usize = 16;

/// A PIN, which is not printed and is wiped when it is no longer needed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pin(Zeroizing<String>);

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pin(..)")
    }
}

impl Pin {
    pub(super) fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }

    /// A new one of at most `max` characters.
    pub(super) fn random(max: usize) -> Result<Self, TokenError> {
        let mut bytes = Zeroizing::new([0; NEW_PIN_BYTES]);
        random_bytes(bytes.as_mut_slice()).map_err(TokenError::Random)?;
        let mut text = Zeroizing::new(hex::encode(bytes.as_slice()));
        text.truncate(max);
        Ok(Self(text))
    }

    /// The PIN in a file; none when there is no file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, TokenError> {
        let content = match durable::read(path, *PIN_LEN.end() + 2) {
            Ok(content) => Zeroizing::new(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(unusable(path, source)),
        };
        let text = std::str::from_utf8(&content).map(|text| text.trim_end_matches(['\r', '\n']));
        match text {
            Ok(text) if PIN_LEN.contains(&text.len()) && !text.contains(['\n', '\0']) => {
                Ok(Some(Self::new(text)))
            }
            _ => Err(TokenError::PinText {
                path: path.to_owned(),
            }),
        }
    }

    /// Writes the PIN to a file that only its owner can read.
    pub(super) fn write(
        &self,
        path: &Path,
        (uid, gid): (Option<u32>, Option<u32>),
    ) -> Result<(), TokenError> {
        let write = || {
            if let Some(folder) = path.parent() {
                durable::make_folder(folder)?;
            }
            durable::write(path, self.0.as_bytes(), 0o600)?;
            if uid.is_some() || gid.is_some() {
                std::os::unix::fs::chown(path, uid, gid)?;
            }
            Ok(())
        };
        write().map_err(|source| unusable(path, source))
    }

    /// The form in which the library takes it.
    pub(super) fn to_auth(&self) -> AuthPin {
        AuthPin::new(self.0.as_str().into())
    }
}

fn unusable(path: &Path, source: io::Error) -> TokenError {
    TokenError::PinFile {
        path: path.to_owned(),
        source,
    }
}

/// Where the PIN of a token comes from each time somebody logs in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum PinOrigin {
    File(PathBuf),
    Given(Pin),
    /// Nobody said.
    #[default]
    Unknown,
}

impl PinOrigin {
    pub(super) fn new(source: Option<&PinSource>) -> Self {
        match source {
            Some(PinSource::File(path)) => Self::File(path.clone()),
            Some(PinSource::Value(value)) => Self::Given(Pin::new(value)),
            None => Self::Unknown,
        }
    }

    pub(super) fn pin(&self, token: &str) -> Result<Pin, TokenError> {
        match self {
            Self::File(path) => {
                Pin::read(path)?.ok_or_else(|| unusable(path, io::ErrorKind::NotFound.into()))
            }
            Self::Given(pin) => Ok(pin.clone()),
            Self::Unknown => Err(TokenError::NoPin {
                token: token.to_owned(),
            }),
        }
    }
}
