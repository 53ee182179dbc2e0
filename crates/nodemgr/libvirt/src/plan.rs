//! What is made of an order: everything that a machine's domain is described from, decided once and kept.

use std::path::{Path, PathBuf};

use muster_mapping::ImageType;
use muster_provider::{MachineSpec, Mark, Order, Purchase};
use muster_template::Arch;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::image::FileSum;
use crate::settings::Defaults;

/// The form of `order.json`.
const VERSION: u32 = 1;
/// The network that is QEMU's own.
const USER_NETWORK: &str = "user";
/// The greatest number of processors, and the greatest memory and disk in MiB: more is a mistake.
const MOST_CPUS: u32 = 512;
const MOST_MEMORY_MB: u64 = 16 << 20;
const MOST_DISK_MB: u64 = 256 << 20;
const LONGEST_NAME: usize = 48;

/// Why an order cannot be carried out, whoever is asked.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum RefusedOrder {
    #[error("it names no image: a path, a URL with a digest, or a known distribution")]
    NoImage,
    #[error("an image of the type {0:?} is nothing that libvirt can boot")]
    ImageType(ImageType),
    #[error("{what} {value} is more than the {most} that there can be")]
    TooMuch {
        what: &'static str,
        value: u64,
        most: u64,
    },
    #[error("{what} {text:?} has characters that a domain's description cannot hold")]
    Text { what: &'static str, text: String },
    #[error("machines of the architecture {0} are not made here")]
    Arch(Arch),
    #[error("machines are not sold for less: order one on demand, or allow that as a fallback")]
    Spot,
    #[error("the disk of {disk_mb} MiB is smaller than its image of {image_mb} MiB")]
    SmallDisk { disk_mb: u64, image_mb: u64 },
}

/// How processors are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Accelerator {
    Kvm,
    Tcg,
}

impl Accelerator {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// How a machine is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Network {
    /// By a network of libvirt.
    Named { network: String },
    /// By QEMU's own, with one port forwarded.
    #[serde(rename_all = "camelCase")]
    User { ssh_port: u16 },
}

/// What is on the machine's disk at first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Origin {
    /// What is on this image.
    Image { path: PathBuf, format: String },
    /// Nothing; a system is installed from this disc.
    Disc { path: PathBuf },
}

/// What an order says of the image, before anything has been looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Image(String),
    Disc(String),
}

impl Source {
    pub(crate) fn of(spec: &MachineSpec) -> Result<Self, RefusedOrder> {
        match (spec.image_type, &spec.image, &spec.iso) {
            (Some(kind @ (ImageType::Ami | ImageType::Container)), ..) => {
                Err(RefusedOrder::ImageType(kind))
            }
            (Some(ImageType::Iso), image, iso) => {
                let disc = iso.as_ref().or(image.as_ref());
                disc.cloned().map(Self::Disc).ok_or(RefusedOrder::NoImage)
            }
            (_, Some(image), _) => Ok(Self::Image(image.clone())),
            (None, None, Some(disc)) => Ok(Self::Disc(disc.clone())),
            (_, None, _) => Err(RefusedOrder::NoImage),
        }
    }
}

/// A machine as it is made. Kept in its folder, so that its domain can be described again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MachinePlan {
    pub(crate) version: u32,
    pub(crate) mark: Mark,
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) cpus: u32,
    pub(crate) memory_mb: u64,
    /// As large as the image where it is not set.
    pub(crate) disk_mb: Option<u64>,
    pub(crate) arch: Arch,
    pub(crate) accelerator: Accelerator,
    pub(crate) origin: Origin,
    pub(crate) network: Network,
    /// The user that is given keys.
    pub(crate) ssh_user: Option<String>,
    /// Whether it has a seed disc.
    pub(crate) seed: bool,
    /// What it was made of, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sum: Option<FileSum>,
}

/// What has been found out before an order becomes a plan.
#[derive(Debug, Clone)]
pub(crate) struct Findings {
    pub(crate) arch: Arch,
    pub(crate) accelerator: Accelerator,
    pub(crate) origin: Origin,
    pub(crate) sum: Option<FileSum>,
    /// What the image holds, in bytes.
    pub(crate) image_size: Option<u64>,
    /// A free port.
    pub(crate) ssh_port: u16,
}

/// The architecture that an order wants.
pub(crate) fn arch_of(spec: &MachineSpec) -> Result<Arch, RefusedOrder> {
    let host = match std::env::consts::ARCH {
        "aarch64" => Arch::Arm64,
        _ => Arch::Amd64,
    };
    match spec.arch.unwrap_or(host) {
        arch @ (Arch::Amd64 | Arch::Arm64) => Ok(arch),
        other => Err(RefusedOrder::Arch(other)),
    }
}

/// The network that an order names; none is QEMU's own.
pub(crate) fn network_of(spec: &MachineSpec) -> Option<&str> {
    spec.network.as_deref().filter(|name| *name != USER_NETWORK)
}

/// The identity of an order's machine: it follows from whose it is and for which order it is made.
pub(crate) fn uuid_of(mark: &Mark) -> Uuid {
    let mut hash = Sha256::new();
    for part in [mark.manager.as_str(), mark.token.as_str()] {
        hash.update(part);
        // No name holds it, so two marks never run into one another.
        hash.update([0]);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

impl MachinePlan {
    pub(crate) fn new(
        order: &Order,
        defaults: &Defaults,
        findings: Findings,
    ) -> Result<Self, RefusedOrder> {
        let spec = &order.spec;
        if let Purchase::Spot {
            fallback: false, ..
        } = order.purchase
        {
            return Err(RefusedOrder::Spot);
        }
        let uuid = uuid_of(&order.mark);
        let cpus = spec.cpus.unwrap_or(defaults.cpus).get();
        let memory_mb = spec.memory_mb.unwrap_or(defaults.memory_mb).get();
        let disk_mb = match (&findings.origin, spec.disk_mb) {
            (_, Some(disk)) => Some(disk.get()),
            (Origin::Disc { .. }, None) => Some(defaults.install_disk_mb.get()),
            (Origin::Image { .. }, None) => None,
        };
        within("processors:", cpus.into(), MOST_CPUS.into())?;
        within("memory in MiB:", memory_mb, MOST_MEMORY_MB)?;
        within("disk in MiB:", disk_mb.unwrap_or(0), MOST_DISK_MB)?;
        if let (Some(disk_mb), Some(image)) = (disk_mb, findings.image_size) {
            let image_mb = image.div_ceil(1 << 20);
            if disk_mb < image_mb {
                return Err(RefusedOrder::SmallDisk { disk_mb, image_mb });
            }
        }
        let network = match network_of(spec) {
            Some(name) => Network::Named {
                network: plain("the network", name)?,
            },
            None => Network::User {
                ssh_port: findings.ssh_port,
            },
        };
        let ssh_user = order.ssh.as_ref().map(|seed| plain("the user", &seed.user));
        let path = match &findings.origin {
            Origin::Image { path, .. } | Origin::Disc { path } => path,
        };
        plain("the path of the image", &path.to_string_lossy())?;
        Ok(Self {
            version: VERSION,
            mark: order.mark.clone(),
            uuid,
            name: name_of(&order.mark, uuid),
            cpus,
            memory_mb,
            disk_mb,
            arch: findings.arch,
            accelerator: findings.accelerator,
            origin: findings.origin,
            network,
            ssh_user: ssh_user.transpose()?,
            seed: order.ssh.is_some() || spec.user_data.is_some(),
            sum: findings.sum,
        })
    }

    pub(crate) fn is_of_this_form(&self) -> bool {
        self.version == VERSION && self.uuid == uuid_of(&self.mark)
    }

    pub(crate) fn install_from(&self) -> Option<&Path> {
        match &self.origin {
            Origin::Disc { path } => Some(path),
            Origin::Image { .. } => None,
        }
    }

    pub(crate) fn ssh_port(&self) -> Option<u16> {
        match self.network {
            Network::User { ssh_port } => Some(ssh_port),
            Network::Named { .. } => None,
        }
    }

    /// The card's address: it stays, so that the machine keeps its lease.
    pub(crate) fn mac(&self) -> String {
        let [.., a, b, c] = self.uuid.into_bytes();
        format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
    }
}

/// What people see in libvirt's lists: the machine's id, and enough of the identity to be alone.
fn name_of(mark: &Mark, uuid: Uuid) -> String {
    let machine: String = mark.machine.as_str().chars().take(LONGEST_NAME).collect();
    format!("{machine}-{}", &uuid.simple().to_string()[..12])
}

fn within(what: &'static str, value: u64, most: u64) -> Result<(), RefusedOrder> {
    match value <= most {
        true => Ok(()),
        false => Err(RefusedOrder::TooMuch { what, value, most }),
    }
}

/// XML cannot hold control characters, escaped or not.
fn plain(what: &'static str, text: &str) -> Result<String, RefusedOrder> {
    let wrong = |letter: char| letter.is_control() || matches!(letter, '\u{fffd}'..='\u{ffff}');
    match text.is_empty() || text.len() > 4096 || text.chars().any(wrong) {
        true => Err(RefusedOrder::Text {
            what,
            text: text.chars().take(100).collect(),
        }),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
