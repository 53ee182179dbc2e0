//! The end of a machine: swap off, file systems unmounted, then `reboot(2)`.

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;

use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};
use rustix::system::{RebootCommand, reboot};

use crate::launch::c_string;
use crate::report::{Level, say};

/// Unmounting one makes another free; a device under a file system that is itself on a loop device takes two.
const UNMOUNT_ROUNDS: usize = 10;
/// What init itself needs until the end; none of it keeps data.
const NEEDED: [&[u8]; 4] = [b"/proc", b"/sys", b"/dev", b"/run"];

/// Detaches a loop device from its file; from the kernel's `linux/loop.h`.
const LOOP_CLR_FD: libc::Ioctl = 0x4C01;

/// How the machine ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineEnd {
    /// Power off.
    PowerOff,
    /// Restart; the argument is for the firmware.
    Reboot(String),
    /// Stop.
    Halt,
    /// Start the kernel that was loaded before.
    Kexec,
}

/// Leaves the disks as they should be: everything written, nothing mounted that can be written.
pub fn leave_disks() {
    rustix::fs::sync();
    swap_off();
    for _ in 0..UNMOUNT_ROUNDS {
        let unmounted = unmount_all();
        let detached = detach_loops();
        if unmounted + detached == 0 {
            break;
        }
    }
    remount_read_only();
    rustix::fs::sync();
}

/// Ends the machine, or in a container the PID namespace. Returns only if the kernel refuses.
pub fn end_machine(end: &MachineEnd) {
    let result = match end {
        MachineEnd::Reboot(argument) if !argument.is_empty() => restart_with(argument),
        MachineEnd::Reboot(_) => reboot(RebootCommand::Restart).map_err(Into::into),
        MachineEnd::PowerOff => reboot(RebootCommand::PowerOff).map_err(Into::into),
        MachineEnd::Halt => reboot(RebootCommand::Halt).map_err(Into::into),
        // Without a kernel that was loaded, a restart comes closest.
        MachineEnd::Kexec => reboot(RebootCommand::Kexec)
            .or_else(|_| reboot(RebootCommand::Restart))
            .map_err(Into::into),
    };
    if let Err(error) = result {
        say(
            Level::Error,
            format_args!("cannot end the machine: {error}"),
        );
    }
}

#[expect(unsafe_code, reason = "rustix cannot pass an argument to the firmware")]
fn restart_with(argument: &str) -> io::Result<()> {
    let argument = c_string(argument.as_bytes());
    // SAFETY: the argument is a string that ends with NUL and outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_reboot,
            libc::LINUX_REBOOT_MAGIC1,
            libc::LINUX_REBOOT_MAGIC2,
            libc::LINUX_REBOOT_CMD_RESTART2,
            argument.as_ptr(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    reboot(RebootCommand::Restart).map_err(Into::into)
}

#[expect(unsafe_code, reason = "rustix has no swapoff")]
fn swap_off() {
    let swaps = fs::read("/proc/swaps").unwrap_or_default();
    for path in swap_paths(&swaps) {
        // SAFETY: the path is a string that ends with NUL and outlives the call.
        if unsafe { libc::swapoff(path.as_ptr()) } != 0 {
            let error = io::Error::last_os_error();
            let path = path.to_string_lossy();
            say(
                Level::Warning,
                format_args!("cannot stop swapping to {path}: {error}"),
            );
        }
    }
}

/// Unmounts what can be; how many that were.
fn unmount_all() -> usize {
    let targets = mount_targets();
    // A mount that covers another comes later in the table, and so does one within another.
    targets
        .iter()
        .rev()
        .filter(|target| unmount(target.as_c_str(), UnmountFlags::NOFOLLOW).is_ok())
        .count()
}

/// What is still mounted can at least not be written to any more.
fn remount_read_only() {
    for target in mount_targets().iter().chain([&c"/".to_owned()]) {
        let flags = MountFlags::RDONLY;
        if let Err(error) = mount_remount(target.as_c_str(), flags, c"") {
            let target = target.to_string_lossy();
            say(
                Level::Warning,
                format_args!("cannot make {target} read-only: {error}"),
            );
        }
    }
}

fn mount_targets() -> Vec<CString> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    targets_in(&table)
}

/// Detaches loop devices that nothing uses any more; how many that were.
#[expect(unsafe_code, reason = "rustix has no call for loop devices")]
fn detach_loops() -> usize {
    let Ok(devices) = fs::read_dir("/sys/block") else {
        return 0;
    };
    let bound = devices
        .flatten()
        .filter(|device| device.path().join("loop/backing_file").exists());
    bound
        .filter(|device| {
            let node = std::path::Path::new("/dev").join(device.file_name());
            fs::File::open(node).is_ok_and(|file| {
                // SAFETY: the call takes no argument. It fails while the device is in use.
                unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CLR_FD) == 0 }
            })
        })
        .count()
}

/// The mount points of a mountinfo table that are to be unmounted, in its order.
fn targets_in(table: &[u8]) -> Vec<CString> {
    let lines = table.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
        .filter(|target| target != b"/" && !is_needed(target))
        .map(|target| c_string(&target))
        .collect()
}

fn is_needed(target: &[u8]) -> bool {
    NEEDED.iter().any(|needed| {
        target
            .strip_prefix(*needed)
            .is_some_and(|rest| rest.is_empty() || (rest[0] == b'/' && *needed != b"/run"))
    })
}

/// The files and devices in a table of swaps.
fn swap_paths(table: &[u8]) -> Vec<CString> {
    let lines = table.split(|byte| *byte == b'\n').skip(1);
    lines
        .filter_map(|line| line.split(|byte| *byte == b' ').next())
        .filter(|path| !path.is_empty())
        .map(|path| c_string(&unescape(path)))
        .collect()
}

/// The kernel writes spaces, tabs, line ends and backslashes as octal numbers.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) if *first == b'\\' => {
                out.push(byte);
                rest = &behind[3..];
            }
            _ => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}

/// The command line of the kernel.
pub(crate) fn kernel_command_line() -> String {
    let bytes = fs::read("/proc/cmdline").unwrap_or_default();
    OsString::from_vec(bytes).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_that_init_needs_stay() {
        let table = b"22 1 0:21 / /proc rw - proc proc rw\n\
            23 1 0:22 / / rw - ext4 /dev/vda rw\n\
            24 1 0:23 / /mnt/a\\040b rw - ext4 /dev/vdb rw\n\
            25 1 0:23 / /sys/fs/cgroup rw - cgroup2 none rw\n\
            26 1 0:23 / /run rw - tmpfs none rw\n\
            27 1 0:23 / /run/media/x rw - vfat /dev/sda1 rw\n\
            28 1 0:23 / /developers rw - ext4 /dev/sda2 rw\n\
            cut\n";
        let expected = [c"/mnt/a b", c"/run/media/x", c"/developers"];
        assert_eq!(targets_in(table), expected.map(ToOwned::to_owned));
    }

    #[test]
    fn swaps_are_read_without_the_heading() {
        let table =
            b"Filename\tType\tSize\n/dev/vdc                partition\t1\n/swap\\040file file 1\n";
        let expected = [c"/dev/vdc", c"/swap file"];
        assert_eq!(swap_paths(table), expected.map(ToOwned::to_owned));
        assert_eq!(unescape(b"a\\04"), b"a\\04");
    }
}
