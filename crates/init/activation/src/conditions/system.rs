//! The kernel, the distribution, users, the environment.

use muster_unit_file::install::glob;
use muster_unit_file::syntax::{WordRules, Words};
use muster_unit_file::value::environment::parse_environment_file;

use super::compare::Operator;
use super::{Check, EvaluateConditionError};

/// Users and groups up to here are the system's.
const LAST_SYSTEM_ID: u32 = 999;

impl Check<'_> {
    pub(super) fn first_boot(&self) -> Result<bool, EvaluateConditionError> {
        let wanted = self.boolean()?;
        let forced = self.host.kernel_switch("systemd.condition-first-boot");
        Ok(wanted == forced.unwrap_or(self.host.facts.first_boot))
    }

    pub(super) fn kernel_command_line(&self) -> bool {
        let wanted = self.parameter;
        let mut words = self.host.command_line().split_whitespace();
        if wanted.contains('=') {
            words.any(|word| word == wanted)
        } else {
            words.any(|word| {
                word.strip_prefix(wanted)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            })
        }
    }

    /// Every word is a pattern, or an operator with a version that may follow as the next word.
    pub(super) fn kernel_version(&self) -> Result<bool, EvaluateConditionError> {
        let release = self.host.facts.host.kernel_release.as_deref();
        let release = release.unwrap_or_default();
        let expected = "versions such as >=5.10, or patterns";
        let mut words = self.words(expected)?.into_iter();
        while let Some(word) = words.next() {
            let held = match Operator::split(&word) {
                (None, pattern) => glob(pattern, release),
                (Some(operator), "") => {
                    let version = words.next().ok_or_else(|| self.bad_parameter(expected))?;
                    operator.holds_for_versions(release, &version)
                }
                (Some(operator), version) => operator.holds_for_versions(release, version),
            };
            if !held {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every word is `FIELD=value` or another comparison.
    pub(super) fn os_release(&self) -> Result<bool, EvaluateConditionError> {
        let expected = "comparisons such as ID=debian or VERSION_ID>=12";
        let text = ["/etc/os-release", "/usr/lib/os-release"]
            .into_iter()
            .find_map(|path| self.host.read(path))
            .unwrap_or_default();
        let fields = parse_environment_file(text.as_bytes()).variables;
        for word in self.words(expected)? {
            let bad = || self.bad_parameter(expected);
            let end = word
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .filter(|end| *end > 0)
                .ok_or_else(bad)?;
            let (field, rest) = word.split_at(end);
            let (operator, wanted) = Operator::split(rest);
            let operator = operator.ok_or_else(bad)?;
            let found = fields.iter().rev().find(|(name, _)| name == field);
            // A field that is absent is empty.
            let found = found.map_or("", |(_, value)| value);
            if !operator.holds_for_texts(found, wanted) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn words(&self, expected: &'static str) -> Result<Vec<String>, EvaluateConditionError> {
        Words::new(self.parameter, WordRules::LIST)
            .map(|word| word.map_err(|_| self.bad_parameter(expected)))
            .collect()
    }

    pub(super) fn environment(&self) -> bool {
        let mut variables = self.host.facts.environment.iter();
        match self.parameter.split_once('=') {
            Some((name, value)) => {
                variables.any(|(n, v)| (n.as_str(), v.as_str()) == (name, value))
            }
            None => variables.any(|(name, _)| name == self.parameter),
        }
    }

    pub(super) fn user(&self) -> bool {
        let facts = &self.host.facts.host;
        match self.parameter {
            "@system" => facts.uid <= LAST_SYSTEM_ID,
            wanted => match wanted.parse::<u32>() {
                Ok(uid) => uid == facts.uid,
                Err(_) => wanted == &*facts.user,
            },
        }
    }

    pub(super) fn group(&self) -> bool {
        let facts = &self.host.facts.host;
        match self.parameter {
            "@system" => facts.gid <= LAST_SYSTEM_ID,
            wanted => match wanted.parse::<u32>() {
                Ok(gid) => self.is_member(gid),
                Err(_) => {
                    wanted == &*facts.group
                        || self
                            .group_of_name(wanted)
                            .is_some_and(|gid| self.is_member(gid))
                }
            },
        }
    }

    fn is_member(&self, gid: u32) -> bool {
        let groups = self.status_field("Groups").unwrap_or_default();
        let mut groups = groups.split_whitespace();
        gid == self.host.facts.host.gid || groups.any(|known| known.parse() == Ok(gid))
    }

    fn group_of_name(&self, name: &str) -> Option<u32> {
        let text = self.host.read("/etc/group")?;
        text.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
        })
    }

    pub(super) fn controllers(&self) -> bool {
        let facts = &self.host.facts;
        self.parameter.split_whitespace().all(|word| match word {
            "v2" => facts.unified_cgroups,
            "v1" => !facts.unified_cgroups,
            name => facts.controllers.iter().any(|known| &**known == name),
        })
    }
}
