//! A lock file as text.
//!
//! ```yaml
//! version: 1
//! pins:
//! - template: "ubuntu-worker-small"
//!   provider: "aws"
//!   arch: "amd64"
//!   region: "eu-central-1"
//!   inputs: "sha256:..."
//!   ami: "ami-0a116fa7c861dd5f9"
//! ```

use std::path::Path;

use muster_config::{Content, Format, Located, Problem, read_documents};
use muster_template::{Findings, Limits, join};

use super::{Entry, LockFile, LockKey, Pin, Pins};

const VERSION: i128 = 1;
const KEYS: [&str; 10] = [
    "template",
    "provider",
    "arch",
    "region",
    "inputs",
    "ami",
    "digest",
    "image",
    "local_digest",
    "local_image",
];

pub(super) fn write(lock: &LockFile) -> String {
    let mut out = String::from(
        "# What names of images meant when they were looked up. Written by Muster; belongs under version control.\n",
    );
    out.push_str(&format!("version: {VERSION}\n"));
    out.push_str(if lock.entries.is_empty() {
        "pins: []\n"
    } else {
        "pins:\n"
    });
    for (key, entry) in &lock.entries {
        let mut indent = "- ";
        let mut line = |name: &str, value: &str| {
            // A text in JSON's quotes is one in YAML too.
            let quoted = serde_json::Value::from(value);
            out.push_str(&format!("{indent}{name}: {quoted}\n"));
            indent = "  ";
        };
        line("template", key.template.as_str());
        line("provider", key.provider.as_str());
        if let Some(arch) = key.arch {
            line("arch", arch.as_str());
        }
        if let Some(region) = &key.region {
            line("region", region);
        }
        line("inputs", &entry.inputs.to_string());
        for (pin, value) in entry.pins.iter() {
            line(pin.as_str(), value);
        }
    }
    out
}

pub(super) fn read(
    name: &Path,
    format: Format,
    bytes: &[u8],
    limits: &Limits,
) -> Result<LockFile, Vec<Problem>> {
    let mut findings = Findings::default();
    let mut lock = LockFile::default();
    match read_documents(name, format, bytes, &limits.document()) {
        Ok(documents) => match documents.as_slice() {
            [] => {}
            [document] => read_document(&mut lock, document, &mut findings),
            [_, second, ..] => findings.report(&second.origin, "", "a second document"),
        },
        Err(problem) => findings.add(problem),
    }
    match findings.is_empty() {
        true => Ok(lock),
        false => Err(findings.into_problems()),
    }
}

fn read_document(lock: &mut LockFile, document: &Located, findings: &mut Findings) {
    let Content::Table(entries) = &document.content else {
        return findings.wrong_kind(document, "", "a table");
    };
    let find = |name: &str| entries.iter().find(|(key, _)| key.text == name);
    match find("version").map(|(_, value)| &value.content) {
        Some(Content::Integer(VERSION)) => {}
        _ => {
            let message = format!("this is not a lock file of version {VERSION}");
            return findings.report(&document.origin, "version", message);
        }
    }
    for (key, value) in entries {
        match (key.text.as_str(), &value.content) {
            ("version", _) => {}
            ("pins", Content::List(items)) => {
                for (nth, item) in items.iter().enumerate() {
                    let path = format!("pins[{nth}]");
                    let Some((key, entry)) = read_entry(item, &path, findings) else {
                        continue;
                    };
                    if lock.entries.insert(key, entry).is_some() {
                        findings.report(&item.origin, path, "is there twice");
                    }
                }
            }
            ("pins", _) => findings.wrong_kind(value, "pins", "a list"),
            _ => findings.unknown_key(key, "", &["version", "pins"]),
        }
    }
}

fn read_entry(item: &Located, path: &str, findings: &mut Findings) -> Option<(LockKey, Entry)> {
    let Content::Table(entries) = &item.content else {
        findings.wrong_kind(item, path, "a table");
        return None;
    };
    for (key, value) in entries {
        if !KEYS.contains(&key.text.as_str()) {
            findings.unknown_key(key, path, &KEYS);
        } else if !matches!(value.content, Content::String(_)) {
            findings.wrong_kind(value, &join(path, &key.text), "text");
        }
    }
    let text = |name: &str| {
        entries
            .iter()
            .find_map(|(key, value)| match &value.content {
                Content::String(text) if key.text == name => Some((text.as_str(), value)),
                _ => None,
            })
    };
    // Something that must be there and must be what it is called.
    let mut parse = |name: &str, read: &mut dyn FnMut(&str) -> Result<(), String>| match text(name)
    {
        Some((text, value)) => {
            if let Err(message) = read(text) {
                findings.report(&value.origin, join(path, name), message);
            }
        }
        None => {
            let message = format!("the required key `{name}` is missing");
            findings.report(&item.origin, path, message);
        }
    };
    let (mut template, mut provider, mut inputs, mut arch) = (None, None, None, None);
    parse("template", &mut |text| {
        template = Some(text.parse().map_err(|error| format!("{error}"))?);
        Ok(())
    });
    parse("provider", &mut |text| {
        provider = Some(text.parse().map_err(|error| format!("{error}"))?);
        Ok(())
    });
    parse("inputs", &mut |text| {
        inputs = Some(text.parse()?);
        Ok(())
    });
    if text("arch").is_some() {
        parse("arch", &mut |text| {
            arch = Some(text.parse().map_err(|error| format!("{error}"))?);
            Ok(())
        });
    }
    let found = Pin::ALL
        .into_iter()
        .filter_map(|pin| Some((pin, text(pin.as_str())?.0.to_owned())));
    let pins = match Pins::new(found) {
        Ok(pins) => pins,
        Err(error) => {
            findings.report(&item.origin, path, error);
            return None;
        }
    };
    let key = LockKey {
        template: template?,
        provider: provider?,
        arch,
        region: text("region").map(|(region, _)| region.to_owned()),
    };
    let inputs = inputs?;
    Some((key, Entry { inputs, pins }))
}
