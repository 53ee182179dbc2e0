//! The two kinds of guests as programs of the host.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::pack_initramfs;
use super::assemble::{INIT, ModuleTree, assemble};
use super::registers;
use super::running::{GuestError, Results, RunningGuest};
use super::{Disk, Guest, Kind, Start};
use crate::command::run_tool;
use crate::program::Program;

const UML: &str = "linux.uml";
const UML_MODULES: &str = "/usr/lib/uml/modules";
const QEMU: &str = "qemu-system-x86_64";
/// Names a folder with `vmlinuz` and `modules/`, as made by `scripts/lab-kernel`.
const KERNEL_VARIABLE: &str = "MUSTER_LAB_KERNEL";
/// Bound on what a QEMU guest can hand back.
const RESULTS_SIZE: u64 = 64 << 20;

/// Finds User-Mode Linux and its modules.
pub(super) fn uml_kernel() -> Result<ModuleTree, GuestError> {
    let release = run_tool(Command::new(UML).arg("--version"), "").map_err(GuestError::Tool)?;
    let folder = Path::new(UML_MODULES).join(release.trim());
    Ok(ModuleTree { folder })
}

/// Finds QEMU and the kernel for its guests, with its modules.
pub(super) fn qemu_kernel() -> Result<(PathBuf, ModuleTree), GuestError> {
    run_tool(Command::new(QEMU).arg("--version"), "").map_err(GuestError::Tool)?;
    let cache = || {
        env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
            .map(|cache| cache.join("muster/lab-kernel"))
    };
    let folder = env::var_os(KERNEL_VARIABLE)
        .map(PathBuf::from)
        .or_else(cache)
        .unwrap_or_default();
    // Written last by the script, so the rest is there, too.
    if !folder.join("version").is_file() {
        return Err(GuestError::NoKernel(folder));
    }
    let modules = ModuleTree {
        folder: folder.join("modules"),
    };
    Ok((folder.join("vmlinuz"), modules))
}

pub(super) fn boot(guest: &Guest) -> Result<RunningGuest, GuestError> {
    let folder = tempfile::Builder::new()
        .prefix("muster-guest-")
        .tempdir()
        .map_err(|source| GuestError::Prepare {
            path: env::temp_dir(),
            source,
        })?;
    for disk in &guest.disks {
        // Missing, it would only show as a guest without a disk.
        fs::metadata(&disk.file).map_err(|source| GuestError::Prepare {
            path: disk.file.clone(),
            source,
        })?;
    }
    let (program, results) = match guest.kind {
        Kind::Uml => prepare_uml(guest, folder.path())?,
        Kind::Qemu => prepare_qemu(guest, folder.path())?,
    };
    let process = program.start().map_err(GuestError::Program)?;
    let has_script = matches!(guest.start, Start::Script(_));
    Ok(RunningGuest::new(process, results, has_script, folder))
}

fn init_path(guest: &Guest) -> String {
    match &guest.start {
        Start::Script(_) => INIT.to_owned(),
        Start::Init(path) => path.display().to_string(),
    }
}

fn prepare_uml(guest: &Guest, folder: &Path) -> Result<(Program, Results), GuestError> {
    let tree = uml_kernel()?;
    let (root, control) = (folder.join("root"), folder.join("uml"));
    for folder in [&root, &control] {
        fs::create_dir(folder).map_err(|source| GuestError::Prepare {
            path: folder.clone(),
            source,
        })?;
    }
    assemble(guest, &guest.modules, &tree, &root)?;
    let mut program = Program::new(UML)
        .arg(format!("mem={}M", guest.memory_mib))
        .args(["root=/dev/root", "rootfstype=hostfs", "rw"])
        .arg(format!("rootflags={}", root.display()))
        .args([
            "con=null",
            "con0=fd:0,fd:1",
            "quiet",
            "loglevel=0",
            "panic=-1",
        ])
        .arg(format!("uml_dir={}", control.display()))
        .arg(format!("init={}", init_path(guest)));
    if let Some(library) = registers::completion(folder)? {
        program = program.env("LD_PRELOAD", library);
    }
    for (letter, disk) in ('a'..='z').zip(&guest.disks) {
        let sync = if disk.write_through { "s" } else { "" };
        program = program.arg(format!("ubd{letter}{sync}={}", disk.file.display()));
    }
    let out = root.join("out");
    Ok((program.args(&guest.kernel_args), Results::Folder(out)))
}

fn prepare_qemu(guest: &Guest, folder: &Path) -> Result<(Program, Results), GuestError> {
    if !guest.shares.is_empty() {
        return Err(GuestError::ShareUnsupported);
    }
    let (kernel, tree) = qemu_kernel()?;
    let (root, initramfs) = (folder.join("root"), folder.join("initramfs"));
    let results = folder.join("results");
    let failed = |source| GuestError::Prepare {
        path: folder.to_owned(),
        source,
    };
    fs::create_dir(&root).map_err(failed)?;
    let disk_modules = ["virtio_pci", "virtio_blk"].map(str::to_owned);
    let modules = [&disk_modules, &*guest.modules].concat();
    assemble(guest, &modules, &tree, &root)?;
    File::create_new(&initramfs)
        .and_then(|file| pack_initramfs(&root, file))
        .and_then(|()| File::create_new(&results)?.set_len(RESULTS_SIZE))
        .map_err(failed)?;
    let kernel_line = format!(
        "console=ttyS0 quiet loglevel=0 panic=-1 rdinit={} {}",
        init_path(guest),
        guest.kernel_args.join(" ")
    );
    let mut program = Program::new(QEMU)
        // Not KVM, even where its device is there: that says nothing about guests working with it.
        .args(["-machine", "q35", "-accel", "tcg", "-cpu", "max"])
        .args(["-m".to_owned(), format!("{}M", guest.memory_mib)])
        .args([
            "-nodefaults",
            "-no-reboot",
            "-display",
            "none",
            "-serial",
            "stdio",
        ])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        .args(["-append", &kernel_line]);
    let results_disk = Disk {
        file: results.clone(),
        write_through: false,
    };
    for (index, disk) in guest.disks.iter().chain([&results_disk]).enumerate() {
        // QEMU takes a doubled comma for one in a file's name.
        let file = disk.file.display().to_string().replace(',', ",,");
        let cache = if disk.write_through {
            "writethrough"
        } else {
            "writeback"
        };
        let drive = format!("if=none,id=d{index},format=raw,cache={cache},file={file}");
        let device = format!("virtio-blk-pci,drive=d{index}");
        program = program.args(["-drive", &drive, "-device", &device]);
    }
    Ok((program, Results::Archive(results)))
}
