//! What only Docker understands of a machine's description: the keys of [`MachineSpec::extra`](muster_mapping::MachineSpec).

mod rights;

use std::collections::BTreeMap;

use muster_config::{nearest, printable};
use muster_mapping::refusal;
use muster_template::{ProviderId, Value};

pub(crate) use self::rights::Rights;
use self::rights::RightsFields;

const APPARMOR: &str = "apparmor";
const CAPABILITIES: &str = "capabilities";
const COMMAND: &str = "command";
const DROP_CAPABILITIES: &str = "dropCapabilities";
const INIT: &str = "init";
const MOUNTS: &str = "mounts";
const PRIVILEGED: &str = "privileged";
const SECCOMP: &str = "seccomp";
/// The keys of one mount.
const MOUNT_KEYS: &[&str] = &["type", "source", "target", "readOnly"];
/// Mounts of one machine, at most.
const MOST_MOUNTS: usize = 128;
/// Words of a command, at most.
const MOST_WORDS: usize = 1024;

/// Why a container cannot be made of a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InvalidOption {
    /// Which field is wrong.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl InvalidOption {
    pub(crate) fn new(field: &str, message: impl Into<String>) -> Self {
        Self {
            field: printable(field, 80),
            message: message.into(),
        }
    }
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MountSource {
    /// A folder or file of the engine's machine.
    Bind(String),
    /// A volume with a name, which outlives the machine.
    Volume(String),
    /// A volume of the machine's own, which goes with it.
    Anonymous,
    /// Memory.
    Tmpfs,
}

/// Something that is mounted in a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountOption {
    pub(crate) source: MountSource,
    /// Where, in the machine.
    pub(crate) target: String,
    pub(crate) read_only: bool,
}

/// The options, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// What the machine runs; none is what waits.
    pub(crate) command: Option<Vec<String>>,
    /// Whether a small init reaps what that leaves behind.
    pub(crate) init: bool,
    pub(crate) mounts: Vec<MountOption>,
    pub(crate) rights: Rights,
}

impl Options {
    /// Reads all keys; one that is not known is an error.
    pub(crate) fn read(extra: &BTreeMap<String, Value>) -> Result<Self, InvalidOption> {
        let mut options = Self {
            command: None,
            init: true,
            mounts: Vec::new(),
            rights: Rights::default(),
        };
        let mut rights = RightsFields::default();
        for (key, value) in extra {
            let wrong = |message: String| InvalidOption::new(key, message);
            match key.as_str() {
                APPARMOR => rights.apparmor = Some(rights::profile(value).map_err(wrong)?),
                CAPABILITIES => {
                    rights.added = Some(rights::capabilities(value).map_err(wrong)?);
                }
                COMMAND => options.command = Some(command(value).map_err(wrong)?),
                DROP_CAPABILITIES => {
                    rights.dropped = Some(rights::dropped(value).map_err(wrong)?);
                }
                INIT => options.init = truth(value).map_err(wrong)?,
                MOUNTS => options.mounts = mounts(value).map_err(wrong)?,
                PRIVILEGED => rights.privileged = truth(value).map_err(wrong)?,
                SECCOMP => rights.seccomp = Some(rights::profile(value).map_err(wrong)?),
                _ => return Err(wrong(refusal(ProviderId::Docker, key))),
            }
        }
        let together = rights.together();
        options.rights = together.map_err(|(field, message)| InvalidOption::new(field, message))?;
        Ok(options)
    }
}

fn truth(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(value) => Ok(*value),
        other => Err(format!("is {}, not true or false", other.kind())),
    }
}

/// Text without a zero byte, which no argument can hold.
fn word(value: &Value) -> Result<&str, String> {
    match value.as_str() {
        Some(text) if text.contains('\0') => Err("holds a zero byte".to_owned()),
        Some(text) => Ok(text),
        None => Err(format!("is {}, not text", value.kind())),
    }
}

/// A list of words, or one text for a shell.
fn command(value: &Value) -> Result<Vec<String>, String> {
    let words = match value {
        Value::String(_) => vec!["sh".to_owned(), "-c".to_owned(), word(value)?.to_owned()],
        Value::List(items) => {
            let words: Result<_, String> = items
                .iter()
                .enumerate()
                .map(|(nth, item)| match word(item) {
                    Ok(text) => Ok(text.to_owned()),
                    Err(message) => Err(format!("word {} {message}", nth + 1)),
                })
                .collect();
            words?
        }
        other => return Err(format!("is {}, not text or a list of words", other.kind())),
    };
    match words.len() {
        0 => Err("is empty".to_owned()),
        1..=MOST_WORDS if words[0].is_empty() => Err("names no program".to_owned()),
        1..=MOST_WORDS => Ok(words),
        _ => Err(format!("has more than {MOST_WORDS} words")),
    }
}

fn mounts(value: &Value) -> Result<Vec<MountOption>, String> {
    let Value::List(items) = value else {
        return Err(format!("is {}, not a list", value.kind()));
    };
    if items.len() > MOST_MOUNTS {
        return Err(format!("has more than {MOST_MOUNTS} entries"));
    }
    let entries = items.iter().enumerate();
    entries
        .map(|(nth, item)| {
            let mount = match item {
                Value::String(text) => short_mount(text),
                Value::Map(entries) => long_mount(entries),
                other => Err(format!("is {}, not `source:target` or a map", other.kind())),
            };
            mount.map_err(|message| format!("entry {} {message}", nth + 1))
        })
        .collect()
}

/// `source:target`, `source:target:ro`, or `target` alone for a volume of the machine's own.
fn short_mount(text: &str) -> Result<MountOption, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, read_only) = match parts.as_slice() {
        [target] => (None, *target, false),
        [source, target] => (Some(*source), *target, false),
        [source, target, "ro"] => (Some(*source), *target, true),
        [source, target, "rw"] => (Some(*source), *target, false),
        _ => return Err("is not `source:target[:ro]`".to_owned()),
    };
    let source = match source {
        None => MountSource::Anonymous,
        Some(path) if path.starts_with('/') => bind(path)?,
        Some(name) => volume(name)?,
    };
    Ok(MountOption {
        source,
        target: target_of(target)?,
        read_only,
    })
}

fn long_mount(entries: &BTreeMap<String, Value>) -> Result<MountOption, String> {
    for key in entries.keys() {
        if !MOUNT_KEYS.contains(&key.as_str()) {
            let near = nearest(key, MOUNT_KEYS);
            let near = near.map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
            let key = printable(key, 40);
            return Err(format!("has the unknown key `{key}`{near}"));
        }
    }
    let text = |key: &str| match entries.get(key) {
        Some(value) => word(value)
            .map(Some)
            .map_err(|message| format!("has a `{key}` that {message}")),
        None => Ok(None),
    };
    let source = text("source")?;
    let source = match (text("type")?, source) {
        (Some("bind"), Some(path)) => bind(path)?,
        (Some("bind"), None) => return Err("has no `source`".to_owned()),
        (Some("volume"), Some(name)) => volume(name)?,
        (Some("volume"), None) => MountSource::Anonymous,
        (Some("tmpfs"), None) => MountSource::Tmpfs,
        (Some("tmpfs"), Some(_)) => return Err("is a tmpfs and has a `source`".to_owned()),
        (Some(other), _) => {
            let other = printable(other, 40);
            return Err(format!(
                "has the type `{other}`, which is not one of bind, volume, tmpfs"
            ));
        }
        (None, _) => return Err("has no `type`".to_owned()),
    };
    let target = text("target")?.ok_or("has no `target`")?;
    let read_only = match entries.get("readOnly") {
        Some(value) => {
            truth(value).map_err(|message| format!("has a `readOnly` that {message}"))?
        }
        None => false,
    };
    Ok(MountOption {
        source,
        target: target_of(target)?,
        read_only,
    })
}

fn bind(path: &str) -> Result<MountSource, String> {
    match path.starts_with('/') {
        true => Ok(MountSource::Bind(path.to_owned())),
        false => Err("has a source that is no absolute path".to_owned()),
    }
}

/// As Docker names volumes.
fn volume(name: &str) -> Result<MountSource, String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let begins = name
        .bytes()
        .next()
        .is_some_and(|it| it.is_ascii_alphanumeric());
    match begins && name.len() > 1 && name.bytes().all(letter) {
        true => Ok(MountSource::Volume(name.to_owned())),
        false => {
            let name = printable(name, 40);
            Err(format!(
                "has a source `{name}` that is neither an absolute path nor a volume's name"
            ))
        }
    }
}

fn target_of(path: &str) -> Result<String, String> {
    match path.starts_with('/') && path != "/" {
        true => Ok(path.to_owned()),
        false => Err("has a target that is no absolute path below `/`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    fn map(entries: &[(&str, Value)]) -> Value {
        let entries = entries.iter();
        Value::Map(
            entries
                .map(|(key, it)| ((*key).to_owned(), it.clone()))
                .collect(),
        )
    }

    fn read(entries: &[(&str, Value)]) -> Result<Options, String> {
        let entries = entries.iter();
        let extra = entries
            .map(|(key, it)| ((*key).to_owned(), it.clone()))
            .collect();
        Options::read(&extra).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_said_is_the_safe_default() {
        let options = read(&[]).unwrap();
        assert!(options.init);
        assert_eq!(options.rights, Rights::default());
        assert_eq!((options.command, options.mounts), (None, Vec::new()));
    }

    /// What this file reads is what templates are told that can be said.
    #[test]
    fn every_field_that_is_promised_is_known() {
        for &field in muster_mapping::own_fields(ProviderId::Docker) {
            let value = match field {
                INIT | PRIVILEGED => Value::Bool(true),
                CAPABILITIES | DROP_CAPABILITIES => Value::List(vec![text("NET_ADMIN")]),
                MOUNTS => Value::List(vec![text("/scratch")]),
                SECCOMP | APPARMOR => text("unconfined"),
                _ => text("true"),
            };
            read(&[(field, value)]).expect(field);
        }
        read(&[("hibernation", Value::Bool(true))]).expect_err("it is another provider's");
    }

    #[test]
    fn a_command_is_a_list_of_words_or_a_line_for_a_shell() {
        let words = Value::List(vec![text("sleep"), text("5")]);
        let options = read(&[("command", words)]).unwrap();
        assert_eq!(options.command.unwrap(), ["sleep", "5"]);
        let options = read(&[("command", text("a; b"))]).unwrap();
        assert_eq!(options.command.unwrap(), ["sh", "-c", "a; b"]);
        for wrong in [
            Value::List(Vec::new()),
            Value::List(vec![text("")]),
            Value::List(vec![Value::Integer(1)]),
            Value::List(vec![text("a"); MOST_WORDS + 1]),
            text("a\0b"),
            Value::Integer(5),
        ] {
            let refused = read(&[("command", wrong.clone())]).unwrap_err();
            assert!(refused.starts_with("command: "), "{wrong:?}: {refused}");
        }
    }

    #[test]
    fn mounts_are_read_short_and_long() {
        let list = Value::List(vec![
            text("/src:/work:ro"),
            text("cache:/cache"),
            text("/scratch"),
            map(&[("type", text("tmpfs")), ("target", text("/run"))]),
            map(&[
                ("type", text("bind")),
                ("source", text("/a")),
                ("target", text("/b")),
                ("readOnly", Value::Bool(true)),
            ]),
        ]);
        let mounts = read(&[("mounts", list)]).unwrap().mounts;
        let sources: Vec<_> = mounts.iter().map(|it| it.source.clone()).collect();
        assert_eq!(
            sources,
            [
                MountSource::Bind("/src".to_owned()),
                MountSource::Volume("cache".to_owned()),
                MountSource::Anonymous,
                MountSource::Tmpfs,
                MountSource::Bind("/a".to_owned()),
            ]
        );
        let read_only: Vec<_> = mounts.iter().map(|it| it.read_only).collect();
        assert_eq!(read_only, [true, false, false, false, true]);
    }

    #[test]
    fn a_wrong_mount_says_which_and_why() {
        for (wrong, why) in [
            (text("a:b:c:d"), "entry 1 is not `source:target[:ro]`"),
            (text("../x:/b"), "neither an absolute path nor"),
            (text("/a:b"), "no absolute path below"),
            (text("/a:/"), "no absolute path below"),
            (map(&[("target", text("/b"))]), "has no `type`"),
            (map(&[("type", text("bind"))]), "has no `source`"),
            (
                map(&[("type", text("nfs"))]),
                "not one of bind, volume, tmpfs",
            ),
            (
                map(&[("readonly", Value::Bool(true))]),
                "did you mean `readOnly`?",
            ),
        ] {
            let refused = read(&[("mounts", Value::List(vec![wrong]))]).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn an_unknown_field_is_refused_with_a_suggestion() {
        let refused = read(&[("privileges", Value::Bool(true))]).unwrap_err();
        assert!(refused.contains("did you mean `privileged`?"), "{refused}");
        let refused = read(&[("privileged", text("yes"))]).unwrap_err();
        assert_eq!(refused, "privileged: is text, not true or false");
    }

    #[test]
    fn rights_are_read_from_their_fields() {
        let rights = read(&[
            ("capabilities", Value::List(vec![text("CAP_NET_ADMIN")])),
            ("dropCapabilities", Value::List(vec![text("MKNOD")])),
            ("seccomp", text("unconfined")),
        ]);
        let rights = rights.unwrap().rights;
        assert_eq!(rights.added(), ["NET_ADMIN"]);
        assert_eq!(rights.dropped(), ["MKNOD"]);
        assert_eq!(rights.security_options(), ["seccomp=unconfined"]);
        let usual = read(&[("seccomp", text("default"))]).unwrap().rights;
        assert_eq!(usual, Rights::default());
        let refused = read(&[("seccomp", text("off"))]).unwrap_err();
        assert!(refused.starts_with("seccomp: is `off`"), "{refused}");
        let refused = read(&[
            ("privileged", Value::Bool(true)),
            ("seccomp", text("default")),
        ]);
        assert!(refused.unwrap_err().starts_with("seccomp: has no meaning"));
    }
}
