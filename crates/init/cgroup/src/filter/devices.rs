//! Which devices may be used.

use super::assembly::{Assembly, If, Label};
use super::{Hook, Program};

/// Most rules of one filter; more are not looked at, and so refuse.
const MAX_RULES: usize = 2048;

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Block devices.
    Block,
    /// Character devices.
    Character,
}

impl DeviceKind {
    fn number(self) -> u32 {
        match self {
            Self::Block => 1,
            Self::Character => 2,
        }
    }
}

/// What is done with a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceAccess {
    /// Opened to be read.
    pub read: bool,
    /// Opened to be written.
    pub write: bool,
    /// Its node is made.
    pub mknod: bool,
}

impl DeviceAccess {
    /// As the kernel numbers it.
    #[must_use]
    pub fn bits(self) -> u32 {
        u32::from(self.mknod) | u32::from(self.read) << 1 | u32::from(self.write) << 2
    }
}

/// Devices that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRule {
    /// Of this kind.
    pub kind: DeviceKind,
    /// With this first number; `None` is any.
    pub major: Option<u32>,
    /// With this second number; `None` is any.
    pub minor: Option<u32>,
    /// In these ways.
    pub access: DeviceAccess,
}

/// Devices that may be used; no other may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFilter {
    /// One fits, and it is allowed.
    pub rules: Vec<DeviceRule>,
}

impl DeviceFilter {
    /// Rules that are looked at.
    pub(crate) fn looked_at(&self) -> impl Iterator<Item = &DeviceRule> {
        self.rules.iter().take(MAX_RULES)
    }

    /// Whether this may be done with this device.
    #[must_use]
    pub fn allows(&self, kind: DeviceKind, numbers: (u32, u32), access: DeviceAccess) -> bool {
        self.looked_at().any(|rule| {
            rule.kind == kind
                && rule.major.is_none_or(|major| major == numbers.0)
                && rule.minor.is_none_or(|minor| minor == numbers.1)
                && access.bits() & !rule.access.bits() == 0
        })
    }

    /// The same for the kernel, which hands over three numbers: access and kind in one, and those of the device.
    pub(crate) fn program(&self) -> Program {
        const REQUEST: u8 = 1;
        const KIND: u8 = 2;
        const ACCESS: u8 = 3;
        const MAJOR: u8 = 4;
        const MINOR: u8 = 5;
        const SCRATCH: u8 = 6;
        let mut code = Assembly::default();
        code.load(KIND, REQUEST, 0);
        code.copy(ACCESS, KIND);
        code.mask(KIND, 0xffff);
        code.shift_right(ACCESS, 16);
        code.load(MAJOR, REQUEST, 4);
        code.load(MINOR, REQUEST, 8);
        for rule in self.looked_at() {
            let mut next = Label::default();
            code.jump_if(KIND, If::Differs, rule.kind.number(), &mut next);
            if let Some(major) = rule.major {
                code.jump_if(MAJOR, If::Differs, major, &mut next);
            }
            if let Some(minor) = rule.minor {
                code.jump_if(MINOR, If::Differs, minor, &mut next);
            }
            code.copy(SCRATCH, ACCESS);
            code.mask(SCRATCH, !rule.access.bits());
            code.jump_if(SCRATCH, If::Differs, 0, &mut next);
            code.end(true);
            code.place(next);
        }
        code.end(false);
        Program {
            settings: vec!["DevicePolicy"],
            hook: Hook::Device,
            counts: false,
            function: None,
            instructions: code.finish(),
        }
    }
}
