//! What the machine runs in.

use super::ConditionHost;

/// Whether it is a machine or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualizationKind {
    /// A machine of its own, made by software.
    Vm,
    /// A part of another machine.
    Container,
}

/// What a machine is virtualised by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Virtualization {
    /// Nothing: it is hardware.
    None,
    /// Something, by systemd's name for it.
    Some {
        /// Machine or container.
        kind: VirtualizationKind,
        /// The name: `kvm`, `docker` ...
        name: Box<str>,
    },
}

impl Virtualization {
    /// systemd's name for it; `none` on hardware.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Some { name, .. } => name,
        }
    }

    /// Whether a word of `ConditionVirtualization=` stands for it: a name, `vm` or `container`.
    pub(super) fn fits(&self, word: &str) -> bool {
        match self {
            Self::None => false,
            Self::Some { kind, name } => match word {
                "vm" => *kind == VirtualizationKind::Vm,
                "container" => *kind == VirtualizationKind::Container,
                other => **name == *other,
            },
        }
    }

    fn some(kind: VirtualizationKind, name: &str) -> Self {
        Self::Some {
            kind,
            name: name.into(),
        }
    }
}

/// A container in a virtual machine is a container.
pub(super) fn detect(host: &ConditionHost) -> Virtualization {
    container(host)
        .map(|name| Virtualization::some(VirtualizationKind::Container, &name))
        .or_else(|| vm(host).map(|name| Virtualization::some(VirtualizationKind::Vm, name)))
        .unwrap_or(Virtualization::None)
}

fn container(host: &ConditionHost) -> Option<String> {
    let there = |path| host.below(path).exists();
    if there("/proc/vz") && !there("/proc/bc") {
        return Some("openvz".into());
    }
    let release = host.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    if release.contains("Microsoft") || release.contains("WSL") {
        return Some("wsl".into());
    }
    // Whoever made the container says so to its first process.
    let told = host
        .read("/run/host/container-manager")
        .or_else(|| host.read("/run/systemd/container"))
        .or_else(|| {
            let own = host.facts.environment.iter();
            let mut own = own.filter(|(name, _)| name == "container");
            own.next().map(|(_, value)| value.clone())
        })
        .or_else(|| environment_of_first(host));
    let told = told.map(|name| name.trim().to_owned());
    match told.as_deref() {
        None | Some("") => {}
        Some("oci") => return Some(by_marker(host).unwrap_or("container-other").into()),
        Some(
            known @ ("systemd-nspawn" | "lxc" | "lxc-libvirt" | "docker" | "podman" | "rkt" | "wsl"
            | "proot" | "pouch" | "openvz"),
        ) => return Some(known.into()),
        Some(_) => return Some("container-other".into()),
    }
    by_marker(host).map(Into::into)
}

fn environment_of_first(host: &ConditionHost) -> Option<String> {
    let text = crate::files::read_bytes(&host.below("/proc/1/environ"), super::MAX_FILE).ok()?;
    text.split(|byte| *byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok())
        .find_map(|variable| variable.strip_prefix("container="))
        .map(str::to_owned)
}

fn by_marker(host: &ConditionHost) -> Option<&'static str> {
    if host.below("/run/.containerenv").exists() {
        return Some("podman");
    }
    host.below("/.dockerenv").exists().then_some("docker")
}

fn vm(host: &ConditionHost) -> Option<&'static str> {
    let processors = host.read("/proc/cpuinfo").unwrap_or_default();
    let user_mode = processors
        .lines()
        .any(|line| line.starts_with("vendor_id") && line.ends_with("User Mode Linux"));
    if user_mode {
        return Some("uml");
    }
    if let Some(known) = by_firmware(host) {
        return Some(known);
    }
    let hypervisor = host.read("/sys/hypervisor/type").unwrap_or_default();
    match hypervisor.trim() {
        "" => {}
        // Its first domain runs the others, on hardware.
        "xen" if is_first_xen_domain(host) => return None,
        "xen" => return Some("xen"),
        _ => return Some("vm-other"),
    }
    if host
        .below("/proc/device-tree/hypervisor/compatible")
        .exists()
    {
        let text = host.read("/proc/device-tree/hypervisor/compatible");
        return match text.unwrap_or_default().trim_end_matches('\0') {
            "linux,kvm" => Some("kvm"),
            text if text.contains("xen") => Some("xen"),
            text if text.contains("vmware") => Some("vmware"),
            _ => Some("vm-other"),
        };
    }
    let flagged = processors
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    if !flagged {
        return None;
    }
    Some(signature().unwrap_or("vm-other"))
}

fn is_first_xen_domain(host: &ConditionHost) -> bool {
    let capabilities = host.read("/proc/xen/capabilities").unwrap_or_default();
    capabilities.contains("control_d")
}

/// What the firmware calls the machine.
fn by_firmware(host: &ConditionHost) -> Option<&'static str> {
    const FIELDS: [&str; 5] = [
        "product_name",
        "sys_vendor",
        "board_vendor",
        "bios_vendor",
        "product_version",
    ];
    const VENDORS: [(&str, &str); 13] = [
        ("KVM", "kvm"),
        ("OpenStack", "kvm"),
        ("KubeVirt", "kvm"),
        ("Amazon EC2", "amazon"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VMW", "vmware"),
        ("innotek GmbH", "oracle"),
        ("VirtualBox", "oracle"),
        ("Xen", "xen"),
        ("Bochs", "bochs"),
        ("Parallels", "parallels"),
        ("BHYVE", "bhyve"),
    ];
    let named = FIELDS.iter().find_map(|field| {
        let text = host.read(&format!("/sys/class/dmi/id/{field}"))?;
        let vendor = VENDORS.iter().find(|(start, _)| text.starts_with(start))?;
        Some(vendor.1)
    });
    let product = host.read("/sys/class/dmi/id/product_version");
    match named {
        // Its machines without a hypervisor call themselves the same.
        Some("amazon") => {
            let metal = host.read("/sys/class/dmi/id/product_name");
            (!metal.unwrap_or_default().trim().ends_with(".metal")).then_some("amazon")
        }
        Some(name) => Some(name),
        None => product
            .filter(|version| version.starts_with("Hyper-V"))
            .map(|_| "microsoft"),
    }
}

/// What the hypervisor calls itself towards the processor's own question.
#[cfg(target_arch = "x86_64")]
fn signature() -> Option<&'static str> {
    const LEAF: u32 = 0x4000_0000;
    let answer = std::arch::x86_64::__cpuid(LEAF);
    let mut name = [0u8; 12];
    name[..4].copy_from_slice(&answer.ebx.to_ne_bytes());
    name[4..8].copy_from_slice(&answer.ecx.to_ne_bytes());
    name[8..].copy_from_slice(&answer.edx.to_ne_bytes());
    Some(match &name {
        b"XenVMMXenVMM" => "xen",
        b"KVMKVMKVM\0\0\0" | b"Linux KVM Hv" => "kvm",
        b"TCGTCGTCGTCG" => "qemu",
        b"VMwareVMware" => "vmware",
        b"Microsoft Hv" => "microsoft",
        b"bhyve bhyve " => "bhyve",
        b"QNXQVMBSQG\0\0" => "qnx",
        b"ACRNACRNACRN" => "acrn",
        b"SRESRESRESRE" => "sre",
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn signature() -> Option<&'static str> {
    None
}
