//! What is done in a step, as documents say it.

use std::collections::BTreeMap;

use muster_config::{Problems, printable};
use serde::Deserialize;

use crate::workflow::there::TherePath;
use crate::workflow::{Action, FileContent, Place, Run, Script, Step, Transfer};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum RawAction {
    Run(RawRun),
    Script(RawScript),
    File(RawFile),
    Upload(RawUpload),
    Download(RawDownload),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawRun {
    command: Vec<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    user: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawScript {
    text: String,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    user: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawFile {
    to: String,
    content: String,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    user: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawUpload {
    from: String,
    to: String,
    #[serde(default)]
    delete: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawDownload {
    from: String,
    to: String,
    #[serde(default)]
    delete: bool,
    #[serde(default)]
    only_changes: bool,
}

impl RawAction {
    pub(super) fn validate(
        self,
        machines: u64,
        groups: usize,
        problems: &mut Problems<'_>,
    ) -> Action {
        match self {
            Self::Run(raw) => problems.within("run", |problems| {
                if raw.command.first().is_none_or(String::is_empty) {
                    problems.report("command", "names no program");
                }
                Action::Run(Run {
                    command: raw.command,
                    place: place(raw.cwd, raw.env, raw.user, problems),
                })
            }),
            Self::Script(raw) => problems.within("script", |problems| {
                Action::Script(Script {
                    text: raw.text,
                    place: place(raw.cwd, raw.env, raw.user, problems),
                })
            }),
            Self::File(raw) => problems.within("file", |problems| {
                check_there("to", &raw.to, problems);
                check_user(raw.user.as_deref(), problems);
                let mode = raw.mode.unwrap_or_else(|| "0644".to_owned());
                let octal = |digit| matches!(digit, b'0'..=b'7');
                if !matches!(mode.len(), 3..=4) || !mode.bytes().all(octal) {
                    problems.report("mode", "must be 3 or 4 octal digits in quotes, as `\"0644\"`");
                }
                Action::File(FileContent {
                    to: raw.to,
                    content: raw.content,
                    mode,
                    user: raw.user,
                })
            }),
            Self::Upload(raw) => {
                Action::Upload(problems.within("upload", |problems| raw.validate(problems)))
            }
            Self::Download(raw) => problems.within("download", |problems| {
                let indexed = machines <= 1 || raw.to.contains("{index}");
                let grouped = groups <= 1 || raw.to.contains("{group}");
                if !(raw.to.contains("{machine}") || (indexed && grouped)) {
                    let message = "must hold `{machine}`, or `{group}` and `{index}`: what several machines send would overwrite each other";
                    problems.report("to", message);
                }
                Action::Download(raw.validate(problems))
            }),
        }
    }
}

impl RawUpload {
    fn validate(self, problems: &mut Problems<'_>) -> Transfer {
        check_absolute("from", &self.from, problems);
        check_there("to", &self.to, problems);
        Transfer {
            from: self.from,
            to: self.to,
            delete: self.delete,
            only_changes: false,
        }
    }
}

impl RawDownload {
    fn validate(self, problems: &mut Problems<'_>) -> Transfer {
        check_there("from", &self.from, problems);
        check_absolute("to", &self.to, problems);
        if self.delete && self.only_changes {
            problems.report(
                "delete",
                "cannot stand beside `onlyChanges`, which removes what was removed in the machine",
            );
        }
        Transfer {
            from: self.from,
            to: self.to,
            delete: self.delete,
            only_changes: self.only_changes,
        }
    }
}

/// What changed can be told only of a folder that was brought there before.
pub(super) fn check_changes(before: &[Step], actions: &[Action], problems: &mut Problems<'_>) {
    let earlier = before.iter().flat_map(|step| &step.actions);
    for (nth, action) in actions.iter().enumerate() {
        let Action::Download(download) = action else {
            continue;
        };
        let mut earlier = earlier.clone().chain(&actions[..nth]);
        if download.only_changes && !earlier.any(|it| it.is_upload_for(download)) {
            let text = "needs an earlier `upload` of the same folder, with `from` and `to` the other way round";
            problems.report(&format!("actions[{nth}].download.onlyChanges"), text);
        }
    }
}

fn place(
    cwd: Option<String>,
    env: BTreeMap<String, String>,
    user: Option<String>,
    problems: &mut Problems<'_>,
) -> Place {
    if let Some(cwd) = &cwd {
        check_there("cwd", cwd, problems);
    }
    check_user(user.as_deref(), problems);
    for name in env.keys() {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let starts = name.bytes().next().is_some_and(|it| !it.is_ascii_digit());
        if !starts || !name.bytes().all(plain) {
            let name = printable(name, 64);
            problems.report(
                "env",
                format!("`{name}` is no name of an environment variable"),
            );
        }
    }
    Place { cwd, env, user }
}

fn check_absolute(key: &str, path: &str, problems: &mut Problems<'_>) {
    if !path.starts_with('/') || path.contains('\0') {
        problems.report(key, "must be an absolute path");
    }
}

/// A path of a machine.
fn check_there(key: &str, path: &str, problems: &mut Problems<'_>) {
    if TherePath::read(path).is_none() || path.contains('\0') {
        let text = "must be an absolute path, or one that begins with `~/`, the home of whom the manager logs in as";
        problems.report(key, text);
    }
}

/// Names of users are not looked at by a shell, but they stand on command lines.
fn check_user(user: Option<&str>, problems: &mut Problems<'_>) {
    let plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    let fits = |user: &str| {
        !user.is_empty() && !user.starts_with('-') && user.len() <= 64 && user.chars().all(plain)
    };
    if let Some(user) = user.filter(|it| !fits(it)) {
        let user = printable(user, 64);
        problems.report("user", format!("`{user}` is no name of a user"));
    }
}
