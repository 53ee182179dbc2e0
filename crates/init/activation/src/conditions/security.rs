//! Security modules, capabilities, credentials.

use std::fs;

use muster_unit_file::value::access::Capabilities;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink};

use super::{Check, EvaluateConditionError};

/// The variable of the firmware that tells whether it checks what it boots; its value follows four bytes of attributes.
const SECURE_BOOT: &str =
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

impl Check<'_> {
    pub(super) fn security(&self) -> bool {
        let there = |path| self.host.below(path).exists();
        match self.parameter {
            "selinux" => there("/sys/fs/selinux/enforce"),
            "smack" => there("/sys/fs/smackfs"),
            "apparmor" => self
                .host
                .read("/sys/module/apparmor/parameters/enabled")
                .is_some_and(|enabled| enabled.trim() == "Y"),
            "audit" => has_audit(),
            "ima" => there("/sys/kernel/security/ima"),
            "tomoyo" => there("/sys/kernel/security/tomoyo/version"),
            "uefi-secureboot" => {
                let value = crate::files::read_bytes(&self.host.below(SECURE_BOOT), 64);
                value.is_ok_and(|value| value.get(4) == Some(&1))
            }
            "tpm2" => {
                let devices = fs::read_dir(self.host.below("/sys/class/tpmrm"));
                devices.is_ok_and(|mut devices| devices.next().is_some())
            }
            // A module that nobody has heard of is not active.
            _ => false,
        }
    }

    pub(super) fn capability(&self) -> Result<bool, EvaluateConditionError> {
        let number = Capabilities::number(self.parameter)
            .ok_or_else(|| self.bad_parameter("a capability such as CAP_SYS_ADMIN"))?;
        let bounding = self.status_field("CapBnd").unwrap_or_default();
        let bounding = u64::from_str_radix(&bounding, 16).unwrap_or(0);
        Ok(bounding & (1 << number) != 0)
    }

    pub(super) fn credential(&self) -> bool {
        let name = self.parameter;
        let valid = name.len() < 256 && !matches!(name, "." | "..") && !name.contains('/');
        let folders = ["CREDENTIALS_DIRECTORY", "ENCRYPTED_CREDENTIALS_DIRECTORY"];
        let environment = &self.host.facts.environment;
        valid
            && environment
                .iter()
                .filter(|(variable, _)| folders.contains(&variable.as_str()))
                .any(|(_, folder)| self.host.below(folder).join(name).exists())
    }
}

/// Whether the kernel audits: it lets us open the socket, or says that we may not.
fn has_audit() -> bool {
    let opened = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::AUDIT),
    );
    opened.is_ok()
}
