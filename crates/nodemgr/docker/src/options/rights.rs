//! What a machine may do beyond, or short of, what Docker lets every container do.

use std::collections::BTreeSet;
use std::fmt;

use muster_config::{nearest, printable};
use muster_template::Value;

use super::word;

/// Every capability that Linux has, as Docker writes them.
const CAPABILITIES: &[&str] = &[
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "PERFMON",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
];
/// Instead of a name, where capabilities are taken away.
const ALL: &str = "ALL";
/// What systemd and the kernel's headers put before a name.
const PREFIX: &str = "CAP_";

/// A capability that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Capability(&'static str);

impl Capability {
    /// By its name, with or without `CAP_`, in any case.
    fn named(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let bare = upper.strip_prefix(PREFIX).unwrap_or(&upper);
        match CAPABILITIES.iter().find(|it| **it == bare) {
            Some(name) => Ok(Self(name)),
            None => {
                let near = nearest(bare, CAPABILITIES);
                let near = near.map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
                let text = printable(text, 40);
                Err(format!("`{text}` is no capability of Linux{near}"))
            }
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Capabilities that a machine is not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// None but those that are named.
    All,
    /// These.
    These(BTreeSet<Capability>),
}

/// A profile that holds for a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Profile {
    /// That of the engine, as for every container.
    #[default]
    Engine,
    /// None.
    Unconfined,
}

/// What keeps a machine from the engine's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Nothing.
    Privileged,
    /// The usual, with these exceptions.
    Confined {
        added: BTreeSet<Capability>,
        dropped: Dropped,
        /// Which system calls it may make.
        seccomp: Profile,
        /// What it may do to files and mounts, where the engine's kernel has AppArmor.
        apparmor: Profile,
    },
}

/// The fields, as a template has them.
#[derive(Debug, Default)]
pub(crate) struct RightsFields {
    pub(crate) privileged: bool,
    pub(crate) added: Option<BTreeSet<Capability>>,
    pub(crate) dropped: Option<Dropped>,
    pub(crate) seccomp: Option<Profile>,
    pub(crate) apparmor: Option<Profile>,
}

impl RightsFields {
    /// Together, or the field that contradicts another, and how.
    pub(crate) fn together(self) -> Result<Rights, (&'static str, String)> {
        let beside_privileged = [
            (super::CAPABILITIES, self.added.is_some()),
            (super::DROP_CAPABILITIES, self.dropped.is_some()),
            (super::SECCOMP, self.seccomp.is_some()),
            (super::APPARMOR, self.apparmor.is_some()),
        ];
        if self.privileged {
            return match beside_privileged.into_iter().find(|(_, given)| *given) {
                Some((field, _)) => Err((
                    field,
                    "has no meaning beside `privileged`, which gives everything".to_owned(),
                )),
                None => Ok(Rights::Privileged),
            };
        }
        let added = self.added.unwrap_or_default();
        let dropped = self.dropped.unwrap_or(Dropped::These(BTreeSet::new()));
        if let Dropped::These(dropped) = &dropped
            && let Some(both) = added.intersection(dropped).next()
        {
            let message = format!("takes {both} away, which `{}` gives", super::CAPABILITIES);
            return Err((super::DROP_CAPABILITIES, message));
        }
        Ok(Rights::Confined {
            added,
            dropped,
            seccomp: self.seccomp.unwrap_or_default(),
            apparmor: self.apparmor.unwrap_or_default(),
        })
    }
}

impl Default for Rights {
    fn default() -> Self {
        Self::Confined {
            added: BTreeSet::new(),
            dropped: Dropped::These(BTreeSet::new()),
            seccomp: Profile::Engine,
            apparmor: Profile::Engine,
        }
    }
}

impl Rights {
    pub(crate) const fn is_privileged(&self) -> bool {
        matches!(self, Self::Privileged)
    }

    /// Capabilities that are given, for the engine.
    pub(crate) fn added(&self) -> Vec<String> {
        match self {
            Self::Privileged => Vec::new(),
            Self::Confined { added, .. } => added.iter().map(Capability::to_string).collect(),
        }
    }

    /// Capabilities that are taken away, for the engine.
    pub(crate) fn dropped(&self) -> Vec<String> {
        match self {
            Self::Confined {
                dropped: Dropped::All,
                ..
            } => vec![ALL.to_owned()],
            Self::Confined {
                dropped: Dropped::These(dropped),
                ..
            } => dropped.iter().map(Capability::to_string).collect(),
            Self::Privileged => Vec::new(),
        }
    }

    /// What else the engine is told about its barriers.
    pub(crate) fn security_options(&self) -> Vec<String> {
        let option = |(name, _): &(&str, &str)| format!("{name}=unconfined");
        self.unconfined().iter().map(option).collect()
    }

    /// The profiles that do not hold, as the engine names them, and what that means.
    fn unconfined(&self) -> Vec<(&'static str, &'static str)> {
        let Self::Confined {
            seccomp, apparmor, ..
        } = self
        else {
            return Vec::new();
        };
        let profiles = [
            (seccomp, ("seccomp", "may make every system call")),
            (apparmor, ("apparmor", "is not confined by AppArmor")),
        ];
        let off = profiles
            .into_iter()
            .filter(|(profile, _)| **profile == Profile::Unconfined);
        off.map(|(_, it)| it).collect()
    }

    /// What is given beyond the usual, for people.
    pub(crate) fn notes(&self) -> Vec<String> {
        if self.is_privileged() {
            return vec!["privileged: nothing keeps it from the engine's machine".to_owned()];
        }
        let added = self.added();
        let given =
            (!added.is_empty()).then(|| format!("has the capabilities {}", added.join(", ")));
        let profiles = self.unconfined();
        let profiles = profiles.into_iter().map(|(_, what)| what.to_owned());
        given.into_iter().chain(profiles).collect()
    }
}

/// A list of names, each once or more often.
pub(crate) fn capabilities(value: &Value) -> Result<BTreeSet<Capability>, String> {
    names(value)?.into_iter().map(Capability::named).collect()
}

/// The same, or `ALL` alone.
pub(crate) fn dropped(value: &Value) -> Result<Dropped, String> {
    let names = names(value)?;
    match names.as_slice() {
        [one] if one.eq_ignore_ascii_case(ALL) => Ok(Dropped::All),
        _ => {
            let dropped: Result<_, String> = names.into_iter().map(Capability::named).collect();
            Ok(Dropped::These(dropped?))
        }
    }
}

fn names(value: &Value) -> Result<Vec<&str>, String> {
    let Value::List(items) = value else {
        return Err(format!("is {}, not a list of capabilities", value.kind()));
    };
    if items.len() > CAPABILITIES.len() {
        return Err("has more entries than there are capabilities".to_owned());
    }
    let entries = items.iter().enumerate();
    entries
        .map(|(nth, item)| word(item).map_err(|message| format!("entry {} {message}", nth + 1)))
        .collect()
}

pub(crate) fn profile(value: &Value) -> Result<Profile, String> {
    match word(value)? {
        "default" => Ok(Profile::Engine),
        "unconfined" => Ok(Profile::Unconfined),
        other => {
            let other = printable(other, 40);
            Err(format!("is `{other}`, not `default` or `unconfined`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(names: &[&str]) -> Value {
        let names = names.iter();
        Value::List(names.map(|it| Value::String((*it).to_owned())).collect())
    }

    #[test]
    fn capabilities_are_named_with_or_without_their_prefix() {
        let read = capabilities(&list(&["CAP_SYS_ADMIN", "net_admin", "NET_ADMIN"])).unwrap();
        let read: Vec<String> = read.iter().map(Capability::to_string).collect();
        assert_eq!(read, ["NET_ADMIN", "SYS_ADMIN"]);
    }

    #[test]
    fn a_capability_that_does_not_exist_is_refused_with_a_suggestion() {
        for (wrong, why) in [
            (list(&["SYS_ADMN"]), "did you mean `SYS_ADMIN`?"),
            (list(&["CAP_CAP_KILL"]), "is no capability"),
            (list(&["ALL"]), "is no capability"),
            (list(&[""]), "is no capability"),
            (Value::List(vec![Value::Integer(1)]), "entry 1 is"),
            (Value::Bool(true), "not a list of capabilities"),
            (list(&["KILL"; 99]), "more entries than there are"),
        ] {
            let refused = capabilities(&wrong).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert!(dropped(&list(&["ALL", "KILL"])).is_err());
        assert_eq!(dropped(&list(&["all"])), Ok(Dropped::All));
    }

    #[test]
    fn all_can_be_taken_away_and_some_given() {
        let fields = RightsFields {
            added: Some(capabilities(&list(&["CHOWN"])).unwrap()),
            dropped: Some(Dropped::All),
            apparmor: Some(profile(&Value::String("unconfined".to_owned())).unwrap()),
            ..RightsFields::default()
        };
        let rights = fields.together().unwrap();
        assert_eq!(rights.added(), ["CHOWN"]);
        assert_eq!(rights.dropped(), ["ALL"]);
        assert_eq!(rights.security_options(), ["apparmor=unconfined"]);
        assert_eq!(
            rights.notes(),
            ["has the capabilities CHOWN", "is not confined by AppArmor"]
        );
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let some = || Some(capabilities(&list(&["KILL"])).unwrap());
        let fields = RightsFields {
            privileged: true,
            added: some(),
            ..RightsFields::default()
        };
        assert_eq!(fields.together().unwrap_err().0, "capabilities");
        let fields = RightsFields {
            added: some(),
            dropped: some().map(Dropped::These),
            ..RightsFields::default()
        };
        let (field, why) = fields.together().unwrap_err();
        assert_eq!(field, "dropCapabilities");
        assert!(why.contains("KILL"), "{why}");
    }

    proptest! {
        /// Whatever is written, only what exists is asked for.
        #[test]
        fn nothing_but_what_exists_reaches_the_engine(text in "(?i)(cap_)?[a-z_]{0,16}|\\PC{0,8}") {
            if let Ok(given) = Capability::named(&text) {
                prop_assert!(CAPABILITIES.contains(&given.0));
                prop_assert!(text.to_ascii_uppercase().ends_with(given.0));
            }
        }
    }
}
