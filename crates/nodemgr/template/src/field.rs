//! The fields that a machine is described by: their names, and the values that common ones take.
//!
//! A field is written in several ways and kept in one: `cpu` as `cpus`, `diskGB` as `diskMB`, `x86_64` as `amd64`. Who reads
//! resolved fields, and whoever matches them, meets only the names below.

mod rules;

use muster_config::{Content, Located};

use crate::value::{Finite, Value};

/// The template's name: set by the template, never overridden.
pub const NAME: &str = "name";
/// The image, by whatever name the provider or a mapping knows it.
pub const IMAGE: &str = "image";
/// The user that commands are run as.
pub const USER: &str = "user";
/// Number of virtual processors, at least 1. Also read as `cpu`.
pub const CPUS: &str = "cpus";
/// Memory in MiB, at least 1.
pub const MEMORY_MB: &str = "memoryMB";
/// Disk in MiB, at least 1. Also read as `diskGB`, which is 1024 of them.
pub const DISK_MB: &str = "diskMB";
/// The [architecture](crate::Arch).
pub const ARCH: &str = "arch";
/// The region, in the provider's words.
pub const REGION: &str = "region";
/// Public keys that may log in, as they stand in `authorized_keys`. Also read as `ssh_keys`.
pub const SSH_KEYS: &str = "sshKeys";
/// What cloud-init is given. Also read as `user_data` and `user-data`.
pub const USER_DATA: &str = "userData";
/// What the fields of labels begin with: the label `tier` is the field `labels.tier`.
pub const LABEL_PREFIX: &str = "labels.";

/// What `image` is: see the mapping's machine.
pub const IMAGE_TYPE: &str = "image_type";
/// An image of EC2.
pub const AMI: &str = "ami";
/// How an image of EC2 is found.
pub const AMI_LOOKUP: &str = "ami_lookup";
/// An image to install from.
pub const ISO: &str = "iso";
/// A network that the provider knows.
pub const NETWORK: &str = "network";
/// Environment variables.
pub const ENV: &str = "env";
/// The checksum that a downloaded image must have.
pub const DIGEST: &str = "digest";

/// Fields that every provider respects, in the order in which a template sets them.
pub(crate) const COMMON: [&str; 9] = [
    IMAGE, USER, CPUS, MEMORY_MB, DISK_MB, ARCH, REGION, SSH_KEYS, USER_DATA,
];

/// Other spellings of common fields.
const SPELLINGS: [(&str, &str); 5] = [
    ("cpu", CPUS),
    ("diskGB", DISK_MB),
    ("ssh_keys", SSH_KEYS),
    ("user_data", USER_DATA),
    ("user-data", USER_DATA),
];

/// Fields that have a meaning for some provider. All others are kept for whoever knows them.
const PROVIDERS: [&str; 7] = [IMAGE_TYPE, AMI, AMI_LOOKUP, ISO, NETWORK, ENV, DIGEST];

/// Longest name of a field.
const LONGEST_NAME: usize = 64;

/// The name under which a field is kept, where it is one that every provider respects.
#[must_use]
pub fn common(written: &str) -> Option<&'static str> {
    let spelling = SPELLINGS.iter().find(|(name, _)| *name == written);
    let own = || COMMON.iter().find(|name| **name == written);
    spelling.map(|(_, name)| *name).or_else(|| own().copied())
}

/// All spellings of common fields.
pub(crate) fn spellings() -> impl Iterator<Item = &'static str> {
    COMMON
        .into_iter()
        .chain(SPELLINGS.into_iter().map(|(name, _)| name))
}

/// The value of a common field in the one form in which it is kept, or what is wrong with it.
///
/// # Errors
/// What is wrong, in words that go on from the field's name and the value's place.
pub fn check_common(written: &str, value: Value) -> Result<Value, String> {
    // Taken back, whatever it is.
    if value == Value::Null {
        return Ok(value);
    }
    match common(written) {
        Some(IMAGE) => rules::word(value, "an image's name", 512),
        Some(USER) => rules::user(value),
        Some(CPUS) => rules::amount(value, "processors", 4096, 1),
        Some(MEMORY_MB) => rules::amount(value, "MiB of memory", 1 << 30, 1),
        Some(DISK_MB) if written == "diskGB" => rules::amount(value, "GiB of disk", 1 << 20, 1024),
        Some(DISK_MB) => rules::amount(value, "MiB of disk", 1 << 30, 1),
        Some(ARCH) => rules::arch(value),
        Some(REGION) => rules::word(value, "a region", 64),
        Some(SSH_KEYS) => rules::ssh_keys(value),
        Some(USER_DATA) => rules::text(value, "user data", 1 << 18),
        _ => Ok(value),
    }
}

/// The value of a label, or what is wrong with it or its key.
pub(crate) fn check_label(key: &str, value: Value) -> Result<Value, String> {
    rules::label_key(key)?;
    match value {
        Value::Null => Ok(value),
        Value::String(_) => rules::text(value, "a label", 255),
        other => Err(format!(
            "is {}; a label is text: put it in quotes",
            other.kind()
        )),
    }
}

/// Checks the name of a field that not every provider has.
///
/// # Errors
/// What such a name must be.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    if !first || name.len() > LONGEST_NAME || !name.bytes().all(plain) {
        return Err(format!(
            "a field's name begins with a letter, consists of ASCII letters, digits, `-` and `_`, and has at most \
             {LONGEST_NAME} characters"
        ));
    }
    Ok(())
}

/// The known field that `name` is a misspelling of: one that differs only in case, `-` and `_`, or, where it has at least five
/// letters, in one letter that is wrong, missing, too much, or exchanged with its neighbour.
#[must_use]
pub fn misspelt(name: &str) -> Option<&'static str> {
    let squeeze = |text: &str| text.replace(['-', '_'], "").to_ascii_lowercase();
    let known = || spellings().chain(PROVIDERS).chain(["labels"]);
    if name.len() > LONGEST_NAME || known().any(|known| known == name) {
        return None;
    }
    known().find(|known| {
        squeeze(known) == squeeze(name)
            || (name.len() >= 5 && strsim::damerau_levenshtein(known, name) == 1)
    })
}

/// A value without its place.
///
/// # Errors
/// A number that no field can hold.
pub fn plain(located: &Located) -> Result<Value, (&Located, &'static str)> {
    Ok(match &located.content {
        Content::Null => Value::Null,
        Content::Bool(value) => Value::Bool(*value),
        Content::Integer(value) => Value::Integer(
            i64::try_from(*value).map_err(|_| (located, "the number is out of range"))?,
        ),
        Content::Float(value) => {
            Value::Float(Finite::new(*value).ok_or((located, "the number is not finite"))?)
        }
        Content::String(text) => Value::String(text.clone()),
        Content::List(items) => Value::List(items.iter().map(plain).collect::<Result<_, _>>()?),
        Content::Table(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| Ok((key.text.clone(), plain(value)?)));
            Value::Map(entries.collect::<Result<_, _>>()?)
        }
    })
}

#[cfg(test)]
mod tests;
