//! What a service may use: capabilities, namespaces, devices, system calls, address families.

use std::fmt;

use super::number::parse_boolean;
use super::path::check_path;
use super::words::list_words;
use super::{AssignError, Setting, ValueContext, ValueError, scalar_setting};
use crate::syntax::{WordRules, Words};

/// Names of capabilities; the index is the number.
const CAPABILITIES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// A set of capabilities as the kernel numbers them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Every capability, also ones that are not invented yet.
    pub const ALL: Self = Self(u64::MAX >> 1);
    /// No capability.
    pub const NONE: Self = Self(0);

    /// The number of a capability.
    #[must_use]
    pub fn number(name: &str) -> Option<u8> {
        let lower = name.to_ascii_lowercase();
        let short = lower.strip_prefix("cap_")?;
        (0u8..)
            .zip(CAPABILITIES)
            .find(|(_, known)| *known == short)
            .map(|(n, _)| n)
    }

    /// Names of the known ones in the set, as in `cap_chown`.
    pub fn names(self) -> impl Iterator<Item = String> {
        let known = CAPABILITIES
            .iter()
            .enumerate()
            .filter(move |(n, _)| self.0 & (1 << n) != 0);
        known.map(|(_, name)| format!("cap_{name}"))
    }

    /// Merges a line: what is assigned first replaces `initial`, later lines add or, with `~`, take
    /// away.
    fn merge(
        self,
        text: &str,
        initial: Self,
        context: &mut ValueContext<'_>,
    ) -> Result<Self, ValueError> {
        let (inverted, rest) = strip_tilde(text);
        let mut sum = 0u64;
        for word in list_words(rest)? {
            match Self::number(&word) {
                Some(number) => sum |= 1 << number,
                None => context.warn(ValueError::invalid(&word, "a capability such as CAP_CHOWN")),
            }
        }
        let all = Self::ALL.0;
        Ok(Self(if sum == 0 || self == initial {
            if inverted { all & !sum } else { sum }
        } else if inverted {
            self.0 & !sum
        } else {
            self.0 | sum
        }))
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Capabilities that a service keeps; all by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundingSet(pub Capabilities);

impl Default for BoundingSet {
    fn default() -> Self {
        Self(Capabilities::ALL)
    }
}

impl Setting for BoundingSet {
    const KIND: &'static str = "capabilities";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        self.0 = self.0.merge(text, Capabilities::ALL, context)?;
        Ok(())
    }
}

/// Capabilities that a service gets; none by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmbientSet(pub Capabilities);

impl Default for AmbientSet {
    fn default() -> Self {
        Self(Capabilities::NONE)
    }
}

impl Setting for AmbientSet {
    const KIND: &'static str = "capabilities";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        self.0 = self.0.merge(text, Capabilities::NONE, context)?;
        Ok(())
    }
}

const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "net", "mnt", "pid", "user", "uts"];

/// Kinds of namespaces that a service may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedNamespaces {
    bits: u8,
    /// Nothing was assigned yet.
    initial: bool,
}

impl AllowedNamespaces {
    const EVERY: u8 = 0x7f;

    /// Names of the allowed kinds.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMESPACES
            .into_iter()
            .enumerate()
            .filter(move |(n, _)| self.bits & (1 << n) != 0)
            .map(|(_, name)| name)
    }

    /// Whether nothing is restricted.
    #[must_use]
    pub fn is_everything(self) -> bool {
        self.bits == Self::EVERY
    }
}

impl Default for AllowedNamespaces {
    fn default() -> Self {
        Self {
            bits: Self::EVERY,
            initial: true,
        }
    }
}

impl Setting for AllowedNamespaces {
    const KIND: &'static str = "kinds of namespaces";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            *self = Self::default();
            return Ok(());
        }
        if let Ok(restrict) = parse_boolean(text) {
            *self = Self {
                bits: if restrict { 0 } else { Self::EVERY },
                initial: !restrict,
            };
            return Ok(());
        }
        let (inverted, rest) = strip_tilde(text);
        let mut named = 0u8;
        for word in list_words(rest)? {
            match NAMESPACES.iter().position(|known| *known == word) {
                Some(bit) => named |= 1 << bit,
                None => context.warn(ValueError::invalid(&word, "a kind of namespace")),
            }
        }
        self.bits = match (self.initial, inverted) {
            (true, false) => named,
            (_, true) => self.bits & !named,
            (false, false) => self.bits | named,
        };
        self.initial = false;
        Ok(())
    }
}

/// One name in a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRule {
    /// The name; a leading `@` makes it a group.
    pub name: Box<str>,
    /// Taken off the list rather than put on it.
    pub removed: bool,
    /// For system calls: the error to answer with, or `kill`.
    pub action: Option<Box<str>>,
}

/// Names that are allowed or denied. The first line decides which of the two; later lines add to
/// the list or, when they are of the other kind, take from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameFilter {
    /// `None` when nothing was assigned.
    pub allow: Option<bool>,
    /// The rules in their order. Groups are not expanded.
    pub rules: Vec<FilterRule>,
}

impl NameFilter {
    fn add(
        &mut self,
        text: &str,
        check: impl Fn(&str) -> Result<FilterRule, ValueError>,
        context: &mut ValueContext<'_>,
    ) -> Result<(), AssignError> {
        if text.is_empty() {
            *self = Self::default();
            return Ok(());
        }
        let (inverted, rest) = strip_tilde(text);
        let allow = *self.allow.get_or_insert(!inverted);
        for word in Words::new(rest, WordRules::LIST) {
            let word = word.map_err(|error| ValueError::words(text, error))?;
            match check(&word) {
                Ok(rule) => self.rules.push(FilterRule {
                    removed: allow == inverted,
                    ..rule
                }),
                Err(error) => context.warn(error),
            }
        }
        Ok(())
    }
}

fn rule(name: &str) -> FilterRule {
    FilterRule {
        name: name.into(),
        removed: false,
        action: None,
    }
}

/// System calls. Names and groups are kept as written; which of them a machine has depends on its architecture and is decided
/// where the filter is made. A name that no architecture has is left out: it is misspelt, or newer than this program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyscallFilter(pub NameFilter);

impl Setting for SyscallFilter {
    const KIND: &'static str = "system calls";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        let check = |word: &str| {
            let (name, action) = word
                .split_once(':')
                .map_or((word, None), |(n, a)| (n, Some(a)));
            if !muster_seccomp::is_known(name) {
                let expected = "a known system call or a group such as @mount";
                return Err(ValueError::invalid(name, expected));
            }
            if let Some(action) = action {
                check_refusal(action)?;
            }
            Ok(FilterRule {
                action: action.map(Into::into),
                ..rule(name)
            })
        };
        self.0.add(text, check, context)
    }
}

/// What a refused system call comes to: `kill`, or the name or the number of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyscallError(pub Box<str>);

scalar_setting!(
    SyscallError,
    "error of refused system calls",
    |text: &str| -> Result<SyscallError, AssignError> {
        check_refusal(text)?;
        Ok(SyscallError(text.into()))
    }
);

fn check_refusal(text: &str) -> Result<(), ValueError> {
    match muster_seccomp::Refusal::from_text(text) {
        Some(_) => Ok(()),
        None => Err(ValueError::invalid(
            text,
            "an error such as EPERM, its number, or kill",
        )),
    }
}

/// Socket address families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressFamilies(pub NameFilter);

impl Setting for AddressFamilies {
    const KIND: &'static str = "address families";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text == "none" {
            self.0 = NameFilter {
                allow: Some(true),
                rules: Vec::new(),
            };
            return Ok(());
        }
        let check = |word: &str| {
            if muster_seccomp::family(word).is_some() {
                Ok(rule(word))
            } else {
                Err(ValueError::invalid(
                    word,
                    "an address family such as AF_UNIX",
                ))
            }
        };
        self.0.add(text, check, context)
    }
}

/// File systems, network interfaces: any name.
impl Setting for NameFilter {
    const KIND: &'static str = "names, ~ for all but these";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        self.add(text, |word| Ok(rule(word)), context)
    }
}

/// One device, or class of devices, that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRule {
    /// `/dev/...`, `char-...` or `block-...`.
    pub device: Box<str>,
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// Its node may be made.
    pub mknod: bool,
}

/// Devices that may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceRules(pub Vec<DeviceRule>);

impl Setting for DeviceRules {
    const KIND: &'static str = "device with r, w, m";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        let words = list_words(text)?;
        let device = context.expand(words.first().map_or("", String::as_str))?;
        let class = ["char-", "block-"]
            .iter()
            .any(|prefix| device.starts_with(prefix));
        if !class {
            let path = check_path(&device, true)?;
            let inside = ["/dev/", "/run/systemd/inaccessible/"]
                .iter()
                .any(|dir| path.starts_with(dir));
            if !inside {
                return Err(ValueError::invalid(
                    &device,
                    "a device below /dev, char-NAME or block-NAME",
                )
                .into());
            }
        }
        let access = words.get(1).map_or("rwm", String::as_str);
        if words.len() > 2 || access.is_empty() || !access.bytes().all(|b| b"rwm".contains(&b)) {
            return Err(ValueError::invalid(text, "a device followed by some of r, w, m").into());
        }
        self.0.push(DeviceRule {
            device: device.into(),
            read: access.contains('r'),
            write: access.contains('w'),
            mknod: access.contains('m'),
        });
        Ok(())
    }
}

/// Bits of `SecureBits=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecureBits(pub u8);

impl Setting for SecureBits {
    const KIND: &'static str = "secure bits";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        const NAMES: [&str; 6] = [
            "noroot",
            "noroot-locked",
            "no-setuid-fixup",
            "no-setuid-fixup-locked",
            "keep-caps",
            "keep-caps-locked",
        ];
        if text.is_empty() {
            *self = Self::default();
            return Ok(());
        }
        for word in list_words(text)? {
            match NAMES.iter().position(|known| *known == word) {
                Some(bit) => self.0 |= 1 << bit,
                None => context.warn(ValueError::invalid(&word, "a secure bit such as noroot")),
            }
        }
        Ok(())
    }
}

fn strip_tilde(text: &str) -> (bool, &str) {
    text.strip_prefix('~')
        .map_or((false, text), |rest| (true, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};

    fn names(set: Capabilities) -> Vec<String> {
        set.names().collect()
    }

    #[test]
    fn bounding_sets_shrink_and_merge() {
        let one: BoundingSet = read(&["CAP_CHOWN", "cap_kill"]);
        assert_eq!(names(one.0), ["cap_chown", "cap_kill"]);
        let most: BoundingSet = read(&["~CAP_CHOWN", "~CAP_KILL"]);
        assert_eq!(names(most.0).len(), 39);
        assert_eq!(read::<BoundingSet>(&[""]).0, Capabilities::NONE);
        assert_eq!(read::<BoundingSet>(&["~"]).0, Capabilities::ALL);
        assert_eq!(
            read::<BoundingSet>(&["CAP_CHOWN CAP_KILL", "~CAP_KILL"]).0,
            Capabilities(1)
        );
        assert_eq!(
            names(read::<AmbientSet>(&["CAP_CHOWN", "CAP_KILL"]).0).len(),
            2
        );
        assert_eq!(
            assign(&mut BoundingSet::default(), &["CAP_NONSENSE CHOWN"]).len(),
            2
        );
    }

    #[test]
    fn namespaces_are_a_boolean_or_a_list() {
        let allowed = |texts: &[&str]| {
            read::<AllowedNamespaces>(texts)
                .names()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(allowed(&["yes"]), "");
        assert!(read::<AllowedNamespaces>(&["no"]).is_everything());
        assert_eq!(allowed(&["user mnt"]), "mnt user");
        assert_eq!(allowed(&["~user mnt"]), "cgroup ipc net pid uts");
        assert_eq!(allowed(&["user", "net"]), "net user");
        assert_eq!(allowed(&["user net", "~net"]), "user");
        assert_eq!(
            assign(&mut AllowedNamespaces::default(), &["nothing"]).len(),
            1
        );
    }

    #[test]
    fn the_first_line_of_a_filter_decides() {
        let filter: SyscallFilter = read(&["@system-service open:EPERM", "~@privileged"]);
        assert_eq!(filter.0.allow, Some(true));
        let shown: Vec<_> = filter
            .0
            .rules
            .iter()
            .map(|r| (&*r.name, r.removed, r.action.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("@system-service", false, None),
                ("open", false, Some("EPERM")),
                ("@privileged", true, None)
            ]
        );
        assert_eq!(read::<SyscallFilter>(&["~mount"]).0.allow, Some(false));
        assert_eq!(
            read::<SyscallFilter>(&["mount", ""]),
            SyscallFilter::default()
        );
        assert_eq!(
            assign(&mut SyscallFilter::default(), &["@ a/b x:"]).len(),
            3
        );
        assert_eq!(read::<AddressFamilies>(&["none"]).0.allow, Some(true));
        assert_eq!(
            read::<AddressFamilies>(&["AF_UNIX AF_INET6"]).0.rules.len(),
            2
        );
        assert_eq!(assign(&mut AddressFamilies::default(), &["unix"]).len(), 1);
    }

    /// What is misspelt is named, and the rest of the list counts.
    #[test]
    fn names_that_mean_nothing_are_named() {
        let mut calls = SyscallFilter::default();
        let said = assign(&mut calls, &["~moutn swapon @mout open:EPRM"]);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].starts_with("\"moutn\" is not a known system call"));
        assert!(said[2].starts_with("\"EPRM\" is not an error"), "{said:?}");
        assert_eq!((calls.0.allow, calls.0.rules.len()), (Some(false), 1));
        let mut families = AddressFamilies::default();
        let said = assign(&mut families, &["~AF_PACKT AF_INET"]);
        assert_eq!(
            said,
            ["\"AF_PACKT\" is not an address family such as AF_UNIX"]
        );
        assert_eq!(families.0.rules.len(), 1);
        let mut error: Option<SyscallError> = None;
        assert_eq!(assign(&mut error, &["EACCES", "EPRM", "4096"]).len(), 2);
        assert_eq!(error, Some(SyscallError("EACCES".into())));
        assert_eq!(assign(&mut error, &["kill", "255", ""]), [""; 0]);
        assert_eq!(error, None);
    }

    #[test]
    fn devices_have_access_letters() {
        let rules: DeviceRules = read(&["/dev/null rw", "char-tty", "/dev/x r"]);
        let shown: Vec<_> = rules
            .0
            .iter()
            .map(|r| (&*r.device, r.read, r.write, r.mknod))
            .collect();
        assert_eq!(
            shown,
            [
                ("/dev/null", true, true, false),
                ("char-tty", true, true, true),
                ("/dev/x", true, false, false)
            ]
        );
        assert_eq!(
            assign(
                &mut DeviceRules::default(),
                &["/etc/x rw", "/dev/x q", "/dev/x r w", "x"]
            )
            .len(),
            4
        );
    }

    #[test]
    fn secure_bits_add_up() {
        assert_eq!(
            read::<SecureBits>(&["noroot keep-caps", "noroot-locked"]).0,
            0b1_0011
        );
        assert_eq!(assign(&mut SecureBits::default(), &["root"]).len(), 1);
    }
}
