//! The description of a domain, as libvirt reads it.

use std::path::Path;

use muster_template::Arch;
use quick_xml::escape::escape;

use crate::metadata::{ELEMENT, Metadata, NAMESPACE};
use crate::plan::{Accelerator, MachinePlan, Network};

/// Where QEMU's own network card sits: a slot that libvirt, which counts from the first, does not come to.
const USER_CARD_SLOT: &str = "0x10";

/// The files of a machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) disk: &'a Path,
    pub(crate) seed: Option<&'a Path>,
    pub(crate) console: &'a Path,
    pub(crate) emulator: Option<&'a Path>,
}

/// Writes elements; every text that comes from outside is escaped on its way.
#[derive(Debug, Default)]
struct Xml(String);

impl Xml {
    fn open(&mut self, name: &str, attributes: &[(&str, &str)]) -> &mut Self {
        self.begin(name, attributes);
        self.0.push('>');
        self
    }

    fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) -> &mut Self {
        self.begin(name, attributes);
        self.0.push_str("/>");
        self
    }

    fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) -> &mut Self {
        self.open(name, attributes);
        self.0.push_str(&escape(text));
        self.close(name)
    }

    fn close(&mut self, name: &str) -> &mut Self {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
        self
    }

    fn begin(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.0.push('<');
        self.0.push_str(name);
        for (key, value) in attributes {
            self.0.push(' ');
            self.0.push_str(key);
            self.0.push_str("=\"");
            self.0.push_str(&escape(*value));
            self.0.push('"');
        }
    }
}

/// The description of a machine's domain. Paths and names have been checked to be text that XML can hold.
pub(crate) fn describe(plan: &MachinePlan, files: Files<'_>) -> String {
    let mut xml = Xml::default();
    let kind = match plan.accelerator {
        Accelerator::Kvm => "kvm",
        Accelerator::Tcg => "qemu",
    };
    let qemu = "http://libvirt.org/schemas/domain/qemu/1.0";
    xml.open("domain", &[("type", kind), ("xmlns:qemu", qemu)]);
    xml.text("name", &[], &plan.name);
    xml.text("uuid", &[], &plan.uuid.to_string());
    metadata(&mut xml, plan);
    let memory = plan.memory_mb.to_string();
    xml.text("memory", &[("unit", "MiB")], &memory);
    xml.text("vcpu", &[], &plan.cpus.to_string());
    system(&mut xml, plan);
    xml.empty("clock", &[("offset", "utc")]);
    xml.text("on_poweroff", &[], "destroy");
    xml.text("on_reboot", &[], "restart");
    xml.text("on_crash", &[], "destroy");
    xml.open("devices", &[]);
    if let Some(emulator) = files.emulator {
        xml.text("emulator", &[], &emulator.to_string_lossy());
    }
    disks(&mut xml, plan, files);
    if let Network::Named { network } = &plan.network {
        xml.open("interface", &[("type", "network")]);
        xml.empty("mac", &[("address", &plan.mac())]);
        xml.empty("source", &[("network", network)]);
        xml.empty("model", &[("type", "virtio")]);
        xml.close("interface");
    }
    xml.open("serial", &[("type", "file")]);
    // libvirt's log daemon writes it, and keeps it from growing without end.
    let console = files.console.to_string_lossy();
    xml.empty("source", &[("path", &console), ("append", "on")]);
    xml.close("serial");
    xml.open("channel", &[("type", "unix")]);
    xml.empty(
        "target",
        &[("type", "virtio"), ("name", "org.qemu.guest_agent.0")],
    );
    xml.close("channel");
    // Without it a new system waits long for chance enough to make keys of.
    xml.open("rng", &[("model", "virtio")]);
    xml.text("backend", &[("model", "random")], "/dev/urandom");
    xml.close("rng");
    xml.empty("controller", &[("type", "usb"), ("model", "none")]);
    xml.close("devices");
    if let Network::User { ssh_port } = plan.network {
        user_network(&mut xml, ssh_port, &plan.mac());
    }
    xml.close("domain");
    xml.0
}

fn metadata(xml: &mut Xml, plan: &MachinePlan) {
    let metadata = Metadata {
        mark: plan.mark.clone(),
        ssh_port: plan.ssh_port(),
        ssh_user: plan.ssh_user.clone(),
    };
    let ours = format!("muster:{ELEMENT}");
    let attributes = metadata.attributes();
    let mut written = vec![("xmlns:muster", NAMESPACE)];
    written.extend(attributes.iter().map(|(key, value)| (*key, value.as_str())));
    xml.open("metadata", &[]);
    xml.empty(&ours, &written).close("metadata");
}

/// Firmware, processor and what boots first.
fn system(xml: &mut Xml, plan: &MachinePlan) {
    let arch = plan.arch.kernel_name();
    let (machine, firmware): (_, &[_]) = match plan.arch {
        Arch::Arm64 => ("virt", &[("firmware", "efi")]),
        _ => ("q35", &[]),
    };
    xml.open("os", firmware);
    xml.text("type", &[("arch", arch), ("machine", machine)], "hvm");
    // An empty disk does not boot, so a machine that is installed goes on to the disc, once.
    xml.empty("boot", &[("dev", "hd")]);
    if plan.install_from().is_some() {
        xml.empty("boot", &[("dev", "cdrom")]);
    }
    xml.close("os");
    xml.open("features", &[]).empty("acpi", &[]);
    xml.close("features");
    let mode = match plan.accelerator {
        Accelerator::Kvm => "host-passthrough",
        Accelerator::Tcg => "maximum",
    };
    xml.empty("cpu", &[("mode", mode)]);
}

fn disks(xml: &mut Xml, plan: &MachinePlan, files: Files<'_>) {
    xml.open("disk", &[("type", "file"), ("device", "disk")]);
    xml.empty(
        "driver",
        &[("name", "qemu"), ("type", "qcow2"), ("discard", "unmap")],
    );
    xml.empty("source", &[("file", &files.disk.to_string_lossy())]);
    xml.empty("target", &[("dev", "vda"), ("bus", "virtio")]);
    xml.close("disk");
    if let Some(seed) = files.seed {
        // A disk, not a drive: kernels of clouds have no driver for drives.
        raw(xml, "disk", seed, ("vdb", "virtio"));
    }
    if let Some(disc) = plan.install_from() {
        raw(xml, "cdrom", disc, ("sda", "sata"));
    }
}

fn raw(xml: &mut Xml, device: &str, file: &Path, (name, bus): (&str, &str)) {
    xml.open("disk", &[("type", "file"), ("device", device)]);
    xml.empty("driver", &[("name", "qemu"), ("type", "raw")]);
    xml.empty("source", &[("file", &file.to_string_lossy())]);
    xml.empty("target", &[("dev", name), ("bus", bus)]);
    xml.empty("readonly", &[]).close("disk");
}

/// QEMU's own network. libvirt forwards ports only with a program of its own beside it, so QEMU is told directly.
fn user_network(xml: &mut Xml, ssh_port: u16, mac: &str) {
    let network = format!("user,id=muster0,hostfwd=tcp:127.0.0.1:{ssh_port}-:22");
    let card = format!("virtio-net-pci,netdev=muster0,bus=pcie.0,addr={USER_CARD_SLOT},mac={mac}");
    xml.open("qemu:commandline", &[]);
    for argument in ["-netdev", &network, "-device", &card] {
        xml.empty("qemu:arg", &[("value", argument)]);
    }
    xml.close("qemu:commandline");
}

#[cfg(test)]
mod tests;
