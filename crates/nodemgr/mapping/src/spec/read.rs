//! Typing resolved fields. Those that every provider has were checked when they were read; the others are checked here, because
//! only together with a provider do they have a meaning.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use muster_config::{nearest, printable};
use muster_template::field::{
    AMI, AMI_LOOKUP, ARCH, CPUS, DIGEST, DISK_MB, ENV, IMAGE, IMAGE_TYPE, ISO, LABEL_PREFIX,
    MEMORY_MB, NAME, NETWORK, REGION, SSH_KEYS, USER, USER_DATA,
};
use muster_template::{ProviderId, Value, show};

use super::{AmiLookup, FieldProblem, ImageType, MachineSpec, SpecError};
use crate::own::{Fate, fate, no_variables};
use crate::resolve::{Assignment, Provenance, Resolved};

/// Environment variables at most.
const MOST_VARIABLES: usize = 1024;

pub(super) fn read(resolved: &Resolved) -> Result<MachineSpec, SpecError> {
    let mut spec = MachineSpec::default();
    let mut problems = Vec::new();
    for (field, assignment) in resolved.fields().filter(is_demand) {
        if let Err(message) = take(&mut spec, field, assignment, resolved.provider()) {
            problems.push(problem(field, assignment, message));
        }
    }
    if problems.is_empty() {
        return Ok(spec);
    }
    Err(SpecError {
        template: resolved.template().clone(),
        provider: resolved.provider(),
        problems,
    })
}

/// Whether a machine must be so. The architecture that a provider has anyway is nothing that anybody asked for: an image of another
/// one may run there too, emulated.
fn is_demand((field, assignment): &(&str, &Assignment)) -> bool {
    *field != ARCH || !matches!(assignment.provenance, Provenance::Default(_))
}

fn problem(field: &str, assignment: &Assignment, message: String) -> FieldProblem {
    FieldProblem {
        field: field.to_owned(),
        provenance: assignment.provenance.clone(),
        origin: assignment.origin.clone(),
        message,
    }
}

fn take(
    spec: &mut MachineSpec,
    field: &str,
    assignment: &Assignment,
    provider: ProviderId,
) -> Result<(), String> {
    let value = &assignment.value;
    match field {
        // The template's own name, which is no property of the machine.
        NAME => {}
        IMAGE => spec.image = Some(line(value)?),
        IMAGE_TYPE => spec.image_type = Some(image_type(value)?),
        DIGEST => spec.digest = Some(digest(&line(value)?)?),
        USER => spec.user = Some(line(value)?),
        CPUS => spec.cpus = Some(number(value, NonZeroU32::new)?),
        MEMORY_MB => spec.memory_mb = Some(number(value, NonZeroU64::new)?),
        DISK_MB => spec.disk_mb = Some(number(value, NonZeroU64::new)?),
        ARCH => spec.arch = Some(line(value)?.parse().map_err(|it| format!("{it}"))?),
        REGION => spec.region = Some(line(value)?),
        SSH_KEYS => spec.ssh_keys = list(value)?,
        USER_DATA => spec.user_data = Some(text(value)?),
        ENV => {
            spec.env = env(value)?;
            if let Some(message) = no_variables(provider) {
                return Err(message);
            }
        }
        NETWORK => spec.network = Some(line(value)?),
        ISO => spec.iso = Some(line(value)?),
        AMI => spec.ami = Some(ami(&line(value)?)?),
        AMI_LOOKUP => spec.ami_lookup = Some(ami_lookup(value)?),
        _ => match field.strip_prefix(LABEL_PREFIX) {
            Some(key) => {
                spec.labels.insert(key.to_owned(), text(value)?);
            }
            None => match fate(provider, field, &assignment.provenance) {
                Fate::Given => {
                    spec.extra.insert(field.to_owned(), value.clone());
                }
                Fate::ForOthers => {}
                Fate::Refused(message) => return Err(message),
            },
        },
    }
    Ok(())
}

fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str();
    text.map(str::to_owned)
        .ok_or_else(|| format!("is {}, not text", value.kind()))
}

/// Text that says something, on one line.
fn line(value: &Value) -> Result<String, String> {
    let text = text(value)?;
    match text.is_empty() || text.chars().any(char::is_control) {
        true => Err("is not text of one line".to_owned()),
        false => Ok(text),
    }
}

fn number<N: TryFrom<i64>, T>(value: &Value, wrap: fn(N) -> Option<T>) -> Result<T, String> {
    let Value::Integer(number) = value else {
        return Err(format!("is {}, not a whole number", value.kind()));
    };
    let wrapped = N::try_from(*number).ok().and_then(wrap);
    wrapped.ok_or_else(|| format!("{number} is out of range"))
}

fn list(value: &Value) -> Result<Vec<String>, String> {
    let Value::List(items) = value else {
        return Err(format!("is {}, not a list", value.kind()));
    };
    items.iter().map(line).collect()
}

fn image_type(value: &Value) -> Result<ImageType, String> {
    match line(value)?.as_str() {
        "ami" => Ok(ImageType::Ami),
        "container" | "docker" | "oci" => Ok(ImageType::Container),
        "disk" | "qcow2" => Ok(ImageType::Disk),
        "iso" => Ok(ImageType::Iso),
        other => {
            let near = nearest(other, &["ami", "container", "disk", "iso"]);
            let near = near.map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
            let other = printable(other, 40);
            Err(format!(
                "`{other}` is not one of ami, container, disk, iso{near}"
            ))
        }
    }
}

/// An image's id, as EC2 gives them.
pub(crate) fn ami(text: &str) -> Result<String, String> {
    let id = text.strip_prefix("ami-").unwrap_or_default();
    let digits = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match digits && matches!(id.len(), 8 | 17) {
        true => Ok(text.to_owned()),
        false => Err("is not an image's id: `ami-` and 8 or 17 hexadecimal digits".to_owned()),
    }
}

/// `sha256:` and 64 digits.
pub(crate) fn digest(text: &str) -> Result<String, String> {
    let digits = |kind: &str, length: usize| {
        let digits = text.strip_prefix(kind).unwrap_or_default();
        digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match digits("sha256:", 64) || digits("sha512:", 128) {
        true => Ok(text.to_owned()),
        false => Err(
            "is not a checksum: `sha256:` and 64 hexadecimal digits, or `sha512:` and 128"
                .to_owned(),
        ),
    }
}

/// `NAME=value` in a list, or values by name. What is wrong is said of the name: the value may be secret.
fn env(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let mut out = BTreeMap::new();
    let mut add = |name: &str, value: String| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let digit = name.bytes().next().is_none_or(|byte| byte.is_ascii_digit());
        if digit || !name.bytes().all(letter) {
            let name = printable(name, 40);
            return Err(format!(
                "`{name}` is not the name of an environment variable"
            ));
        }
        if value.contains('\0') {
            return Err(format!("the value of `{name}` holds a zero byte"));
        }
        if out.insert(name.to_owned(), value).is_some() {
            return Err(format!("`{name}` is set twice"));
        }
        match out.len() > MOST_VARIABLES {
            true => Err(format!("has more than {MOST_VARIABLES} variables")),
            false => Ok(()),
        }
    };
    match value {
        Value::List(items) => {
            for (nth, item) in items.iter().enumerate() {
                let pair = item.as_str().and_then(|item| item.split_once('='));
                let pair = pair.ok_or_else(|| format!("entry {} is not `NAME=value`", nth + 1));
                let (name, value) = pair?;
                add(name, value.to_owned())?;
            }
        }
        Value::Map(entries) => {
            for (name, value) in entries {
                let text = value.as_text().ok_or_else(|| {
                    format!("the value of `{}` is {}", printable(name, 40), value.kind())
                });
                add(name, text?.into_owned())?;
            }
        }
        other => {
            return Err(format!(
                "is {}, not a list of `NAME=value` or a map",
                other.kind()
            ));
        }
    }
    Ok(out)
}

fn ami_lookup(value: &Value) -> Result<AmiLookup, String> {
    const EXPECTED: &str = "expected `owner` and `name`, or `ssm`";
    let Value::Map(entries) = value else {
        return Err(format!("is {}; {EXPECTED}", value.kind()));
    };
    for (key, it) in entries {
        if !["owner", "name", "ssm"].contains(&key.as_str()) {
            let near = nearest(key, &["owner", "name", "ssm"]);
            let near = near.map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
            let key = printable(key, 40);
            return Err(format!("has the unknown key `{key}`; {EXPECTED}{near}"));
        }
        line(it).map_err(|message| format!("`{key}` {message}: {}", show(key, it)))?;
    }
    let get = |key: &str| entries.get(key).and_then(Value::as_str).map(str::to_owned);
    match (get("owner"), get("name"), get("ssm")) {
        (Some(owner), Some(name), None) => Ok(AmiLookup::Newest { owner, name }),
        (None, None, Some(parameter)) => Ok(AmiLookup::Ssm { parameter }),
        _ => Err(EXPECTED.to_owned()),
    }
}
