//! PKCS#11 URIs (RFC 7512).

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::{ParseUrlError, percent};

/// Longest value of one attribute.
const MAX_VALUE: usize = 1024;
/// Longest `id`.
const MAX_ID: usize = 128;

/// Kinds of objects that a URI can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// `cert`.
    Certificate,
    /// `private`.
    PrivateKey,
    /// `public`.
    PublicKey,
}

impl ObjectKind {
    fn word(self) -> &'static str {
        match self {
            Self::Certificate => "cert",
            Self::PrivateKey => "private",
            Self::PublicKey => "public",
        }
    }
}

/// Where the PIN is.
#[derive(Clone, PartialEq, Eq)]
pub enum PinSource {
    /// In a file.
    File(PathBuf),
    /// In the URI itself. Read, since others write such URIs; never printed.
    Value(Zeroizing<String>),
}

impl fmt::Debug for PinSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Value(_) => f.write_str("Value(..)"),
        }
    }
}

/// A PKCS#11 URI: what an object must have to be the one that is meant.
///
/// Attributes of the path that Muster does not know are refused, since without them another object
/// could be taken; unknown ones of the query are ignored, as the RFC asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pkcs11Uri {
    /// Label of the token.
    pub token: Option<String>,
    /// Serial number of the token.
    pub serial: Option<String>,
    /// Who made the token.
    pub manufacturer: Option<String>,
    /// The token's model.
    pub model: Option<String>,
    /// Id of the slot.
    pub slot_id: Option<u64>,
    /// Label of the object.
    pub object: Option<String>,
    /// `CKA_ID` of the object.
    pub id: Option<Vec<u8>>,
    /// Kind of the object.
    pub kind: Option<ObjectKind>,
    /// The library that knows the token.
    pub module_path: Option<PathBuf>,
    /// Where the PIN is.
    pub pin: Option<PinSource>,
}

impl Pkcs11Uri {
    /// Parses what follows `pkcs11:`.
    pub(super) fn parse(rest: &str) -> Result<Self, ParseUrlError> {
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        let mut uri = Self::default();
        for part in path.split(';').filter(|part| !part.is_empty()) {
            uri.path_attribute(part)?;
        }
        for part in query.iter().flat_map(|query| query.split('&')) {
            if !part.is_empty() {
                uri.query_attribute(part)?;
            }
        }
        Ok(uri)
    }

    fn path_attribute(&mut self, part: &str) -> Result<(), ParseUrlError> {
        let (name, value) = part.split_once('=').ok_or(ParseUrlError::Shape)?;
        match name {
            "token" => set(&mut self.token, "token", text("token", value)?),
            "serial" => set(&mut self.serial, "serial", text("serial", value)?),
            "manufacturer" => {
                let value = text("manufacturer", value)?;
                set(&mut self.manufacturer, "manufacturer", value)
            }
            "model" => set(&mut self.model, "model", text("model", value)?),
            "object" => set(&mut self.object, "object", text("object", value)?),
            "id" => set(&mut self.id, "id", bytes("id", value, MAX_ID)?),
            "slot-id" => {
                let attribute = "slot-id";
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let number = digits.then(|| value.parse().ok()).flatten();
                let number = number.ok_or(ParseUrlError::Value { attribute })?;
                set(&mut self.slot_id, attribute, number)
            }
            "type" => {
                let attribute = "type";
                let kind = match value {
                    "cert" => ObjectKind::Certificate,
                    "private" => ObjectKind::PrivateKey,
                    "public" => ObjectKind::PublicKey,
                    _ => return Err(ParseUrlError::Value { attribute }),
                };
                set(&mut self.kind, attribute, kind)
            }
            _ => Err(ParseUrlError::UnknownAttribute),
        }
    }

    fn query_attribute(&mut self, part: &str) -> Result<(), ParseUrlError> {
        let (name, value) = part.split_once('=').ok_or(ParseUrlError::Shape)?;
        match name {
            "module-path" => {
                let path = absolute("module-path", value)?;
                set(&mut self.module_path, "module-path", path)
            }
            "pin-source" => {
                // A bare path, as most programs write it, or a file URL.
                let value = match value.strip_prefix("file:") {
                    Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
                    None => value,
                };
                let source = PinSource::File(absolute("pin-source", value)?);
                set(&mut self.pin, "pin-source", source)
            }
            "pin-value" => {
                let value = PinSource::Value(Zeroizing::new(text("pin-value", value)?));
                set(&mut self.pin, "pin-value", value)
            }
            _ => Ok(()),
        }
    }
}

fn set<T>(place: &mut Option<T>, attribute: &'static str, value: T) -> Result<(), ParseUrlError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(ParseUrlError::Twice { attribute }),
    }
}

fn bytes(attribute: &'static str, value: &str, max: usize) -> Result<Vec<u8>, ParseUrlError> {
    let bytes = percent::decode(value).ok_or(ParseUrlError::Coding { place: attribute })?;
    if bytes.is_empty() || bytes.len() > max {
        return Err(ParseUrlError::Value { attribute });
    }
    Ok(bytes)
}

fn text(attribute: &'static str, value: &str) -> Result<String, ParseUrlError> {
    match String::from_utf8(bytes(attribute, value, MAX_VALUE)?) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(ParseUrlError::Value { attribute }),
    }
}

fn absolute(attribute: &'static str, value: &str) -> Result<PathBuf, ParseUrlError> {
    let path = PathBuf::from(text(attribute, value)?);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(ParseUrlError::Value { attribute })
    }
}

/// The canonical form. A PIN is left out; a path that is not UTF-8 is written byte by byte.
impl fmt::Display for Pkcs11Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::from("pkcs11:");
        let mut separator = "";
        let mut open = |out: &mut String, name: &str| {
            out.push_str(separator);
            out.push_str(name);
            out.push('=');
            separator = ";";
        };
        let texts = [
            ("token", &self.token),
            ("serial", &self.serial),
            ("manufacturer", &self.manufacturer),
            ("model", &self.model),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                open(&mut out, name);
                percent::encode(&mut out, value.as_bytes(), b"");
            }
        }
        if let Some(slot_id) = self.slot_id {
            open(&mut out, "slot-id");
            out.push_str(&slot_id.to_string());
        }
        if let Some(object) = &self.object {
            open(&mut out, "object");
            percent::encode(&mut out, object.as_bytes(), b"");
        }
        if let Some(id) = &self.id {
            open(&mut out, "id");
            percent::encode_all(&mut out, id);
        }
        if let Some(kind) = self.kind {
            open(&mut out, "type");
            out.push_str(kind.word());
        }
        let mut separator = "?";
        if let Some(path) = &self.module_path {
            out.push_str("?module-path=");
            percent::encode(&mut out, path.as_os_str().as_bytes(), b"/");
            separator = "&";
        }
        if let Some(PinSource::File(path)) = &self.pin {
            out.push_str(separator);
            out.push_str("pin-source=");
            percent::encode(&mut out, path.as_os_str().as_bytes(), b"/");
        }
        f.write_str(&out)
    }
}
