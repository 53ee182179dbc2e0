//! How the provider is set up.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::catalog::Catalog;

/// How processors are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acceleration {
    /// By KVM if something boots with it, else by translation.
    #[default]
    Probe,
    /// By KVM, unseen.
    Kvm,
    /// By QEMU's translator.
    Tcg,
}

/// What a machine has where its order does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// Virtual processors.
    pub cpus: NonZeroU32,
    /// Memory in MiB.
    pub memory_mb: NonZeroU64,
    /// The disk of a machine that is installed from a disc, in MiB. Others are as large as their image.
    pub install_disk_mb: NonZeroU64,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            cpus: NonZeroU32::MIN,
            memory_mb: NonZeroU64::new(1024).expect("it is not zero"),
            install_disk_mb: NonZeroU64::new(20 * 1024).expect("it is not zero"),
        }
    }
}

/// How the provider is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// libvirt's URI. It must be of this host, because disks are files of this host.
    pub uri: String,
    /// The program `muster-libvirt-helper`.
    pub helper: PathBuf,
    /// Where machines are kept. libvirt's QEMU must be able to reach it.
    pub folder: PathBuf,
    /// Where base images are kept.
    pub cache: PathBuf,
    /// The program `qemu-img`.
    pub qemu_img: PathBuf,
    /// The program that KVM is probed with, and that domains run; libvirt's own choice for domains if it is not set.
    pub emulator: Option<PathBuf>,
    /// How processors are made.
    pub acceleration: Acceleration,
    /// What a machine has where its order does not say.
    pub defaults: Defaults,
    /// Distributions that are known by name: none, unless somebody says where they are.
    pub catalog: Catalog,
    /// Whom to trust behind `https`: a file of certificates.
    pub ca_bundle: PathBuf,
    /// How long a call of libvirt's may take before the helper is ended.
    pub call: Duration,
    /// The same for one that writes a machine's memory.
    pub save: Duration,
    /// How long a download may stand still.
    pub stall: Duration,
    /// How long a system may take to shut down before its power is cut.
    pub stop_grace: Duration,
    /// How many helpers may run at once.
    pub helpers: NonZeroUsize,
    /// The largest image that is downloaded, in bytes.
    pub largest_image: u64,
}

impl Settings {
    /// The system's libvirt, machines and images in these folders.
    #[must_use]
    pub fn new(folder: &Path, cache: &Path) -> Self {
        Self {
            uri: "qemu:///system".to_owned(),
            helper: PathBuf::from("muster-libvirt-helper"),
            folder: folder.to_owned(),
            cache: cache.to_owned(),
            qemu_img: PathBuf::from("qemu-img"),
            emulator: None,
            acceleration: Acceleration::default(),
            defaults: Defaults::default(),
            catalog: Catalog::default(),
            ca_bundle: PathBuf::from("/etc/ssl/certs/ca-certificates.crt"),
            call: Duration::from_secs(60),
            save: Duration::from_secs(240),
            stall: Duration::from_secs(60),
            stop_grace: Duration::from_secs(60),
            helpers: NonZeroUsize::new(4).expect("it is not zero"),
            largest_image: 64 << 30,
        }
    }
}
