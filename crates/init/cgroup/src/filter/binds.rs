//! Which ports may be bound.

use super::assembly::{Assembly, If, Label};
use super::{Hook, Program};

/// Most rules of one filter. Of one with more, the first are looked at, and what none of them is about is refused.
const MAX_RULES: usize = 2048;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Protocol {
    fn number(self) -> u32 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// Ports from the first to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// Sockets that a rule is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindRule {
    /// Of this family; `None` is any.
    pub family: Option<Family>,
    /// Of this protocol; `None` is any.
    pub protocol: Option<Protocol>,
    /// With one of these ports; `None` is any.
    pub ports: Option<Ports>,
}

impl BindRule {
    /// Reads `ipv4:tcp:80-90` and its parts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut rule = Self::default();
        if text.is_empty() {
            return None;
        }
        for part in text.split(':') {
            match part {
                "ipv4" => rule.family = Some(Family::V4),
                "ipv6" => rule.family = Some(Family::V6),
                "tcp" => rule.protocol = Some(Protocol::Tcp),
                "udp" => rule.protocol = Some(Protocol::Udp),
                "any" => {}
                ports => {
                    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                    let ports = Ports {
                        first: first.parse().ok()?,
                        last: last.parse().ok()?,
                    };
                    if ports.first > ports.last || ports.first == 0 {
                        return None;
                    }
                    rule.ports = Some(ports);
                }
            }
        }
        Some(rule)
    }

    fn fits(&self, family: Family, protocol: Protocol, port: u16) -> bool {
        self.family.is_none_or(|wanted| wanted == family)
            && self.protocol.is_none_or(|wanted| wanted == protocol)
            && self
                .ports
                .is_none_or(|ports| (ports.first..=ports.last).contains(&port))
    }
}

/// What is allowed, what is not, and everything else is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindFilter {
    /// Looked at first.
    pub allow: Vec<BindRule>,
    /// Looked at then.
    pub deny: Vec<BindRule>,
}

impl BindFilter {
    fn rules(&self) -> impl Iterator<Item = (&BindRule, bool)> {
        let allow = self.allow.iter().map(|rule| (rule, true));
        let deny = self.deny.iter().map(|rule| (rule, false));
        allow.chain(deny).take(MAX_RULES)
    }

    /// Whether there are more rules than are looked at.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.allow.len() + self.deny.len() > MAX_RULES
    }

    /// Whether such a socket may be bound to this port.
    #[must_use]
    pub fn allows(&self, family: Family, protocol: Protocol, port: u16) -> bool {
        let mut rules = self.rules();
        let first = rules.find(|(rule, _)| rule.fits(family, protocol, port));
        first.map_or(!self.is_cut(), |(_, allowed)| allowed)
    }

    /// The same for the kernel.
    pub(crate) fn programs(&self) -> [Program; 2] {
        [(Hook::Bind4, Family::V4), (Hook::Bind6, Family::V6)]
            .map(|(hook, family)| self.program(hook, family))
    }

    fn program(&self, hook: Hook, family: Family) -> Program {
        const SOCKET: u8 = 1;
        const PORT: u8 = 2;
        const PROTOCOL: u8 = 3;
        let mut code = Assembly::default();
        code.load(PORT, SOCKET, 24);
        code.turn_around(PORT);
        code.load(PROTOCOL, SOCKET, 36);
        let mut is_decided = false;
        for (rule, allowed) in self.rules() {
            if rule.family.is_some_and(|wanted| wanted != family) {
                continue;
            }
            let mut next = Label::default();
            if let Some(protocol) = rule.protocol {
                code.jump_if(PROTOCOL, If::Differs, protocol.number(), &mut next);
            }
            if let Some(ports) = rule.ports {
                code.jump_if(PORT, If::Below, ports.first.into(), &mut next);
                code.jump_if(PORT, If::Above, ports.last.into(), &mut next);
            }
            code.end(allowed);
            if !next.is_used() {
                // The kernel takes no program with a part that is never reached.
                is_decided = true;
                break;
            }
            code.place(next);
        }
        if !is_decided {
            code.end(!self.is_cut());
        }
        Program {
            settings: vec!["SocketBindDeny"],
            hook,
            counts: false,
            function: None,
            instructions: code.finish(),
        }
    }
}
