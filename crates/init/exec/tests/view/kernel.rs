//! Devices, processes and what the kernel lets be tuned.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::Command;

use muster_exec::mounts::apply;
use muster_mounts::{ProcOthers, ProtectSystem, View};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::rig::{bind, is_root, list, namespaced, options_at, read, seen, write_into};

#[test]
fn private_devices_are_the_harmless_ones() {
    if !is_root("private_devices_are_the_harmless_ones") {
        return;
    }
    let view = View {
        private_devices: true,
        protect_kernel_logs: true,
        ..View::default()
    };
    seen(&view, || {
        let names = list("/dev").unwrap();
        let must = [
            "core", "fd", "full", "log", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
            "stdout", "tty", "urandom", "zero",
        ];
        let may = ["hugepages", "mqueue"];
        for name in must {
            assert!(names.iter().any(|there| there == name), "{name} is missing");
        }
        for name in &names {
            let expected = must.contains(&name.as_str()) || may.contains(&name.as_str());
            assert!(expected, "{name} should not be there");
        }
        let mut zeros = [1; 8];
        let mut zero = fs::File::open("/dev/zero").unwrap();
        zero.read_exact(&mut zeros).unwrap();
        assert_eq!(zeros, [0; 8]);
        fs::write("/dev/null", "gone").unwrap();
        assert_eq!(write_into("/dev"), Err(Errno::ROFS));
        assert_eq!(write_into("/dev/shm"), Ok(()));
        assert!(fs::metadata("/dev/pts").unwrap().is_dir());
        assert_eq!(
            fs::read_link("/dev/fd").unwrap().to_str(),
            Some("/proc/self/fd")
        );
        for option in ["nosuid", "noexec"] {
            assert!(options_at("/dev").contains(option));
        }
    });
    seen(&View::default(), || {
        assert!(fs::metadata("/dev/loop-control").is_ok())
    });
}

#[test]
fn who_may_not_make_devices_gets_the_machines() {
    if !is_root("who_may_not_make_devices_gets_the_machines") {
        return;
    }
    let view = View {
        private_devices: true,
        ..View::default()
    };
    namespaced(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::MKNOD;
        set_capabilities(None, sets).unwrap();
        assert_eq!(apply(&view, false), Ok(vec![]));
        fs::write("/dev/null", "gone").unwrap();
        assert!(options_at("/dev/null").contains(" /null "));
        assert!(fs::metadata("/dev/loop-control").is_err());
    });
}

#[test]
fn queues_are_those_of_the_own_namespace() {
    if !is_root("queues_are_those_of_the_own_namespace") {
        return;
    }
    let view = View {
        private_devices: true,
        own_queues: true,
        ..View::default()
    };
    seen(&view, || {
        let options = options_at("/dev/mqueue");
        assert!(options.contains(" - mqueue "), "{options}");
        assert_eq!(write_into("/dev/mqueue"), Err(Errno::INVAL));
        fs::File::create("/dev/mqueue/of-a-test").unwrap();
        fs::remove_file("/dev/mqueue/of-a-test").unwrap();
    });
}

#[test]
fn a_device_can_be_bound_among_private_ones() {
    if !is_root("a_device_can_be_bound_among_private_ones") {
        return;
    }
    let view = View {
        private_devices: true,
        protect_system: ProtectSystem::Strict,
        binds: vec![bind("/dev/kmsg", "/dev/kmsg")],
        ..View::default()
    };
    seen(&view, || {
        assert!(fs::File::open("/dev/kmsg").is_ok());
        assert!(fs::metadata("/dev/loop-control").is_err());
        assert_eq!(write_into("/dev"), Err(Errno::ROFS));
    });
}

#[test]
fn tunables_are_read_and_not_written() {
    if !is_root("tunables_are_read_and_not_written") {
        return;
    }
    let name = "/proc/sys/kernel/domainname";
    let write = || fs::OpenOptions::new().write(true).open(name).map(drop);
    for others_processes in [ProcOthers::Default, ProcOthers::NoAccess] {
        let view = View {
            protect_kernel_tunables: true,
            others_processes,
            ..View::default()
        };
        seen(&view, || {
            assert_eq!(write().map_err(crate::rig::errno), Err(Errno::ROFS));
            assert!(read(name).is_ok());
            assert_eq!(read("/proc/kallsyms").as_deref(), Ok(""));
            let enabled = fs::OpenOptions::new()
                .write(true)
                .open("/proc/sysrq-trigger");
            assert!(enabled.is_err());
            assert!(options_at("/sys").starts_with("ro"));
        });
    }
    seen(&View::default(), || assert!(write().is_ok()));
}

#[test]
fn logs_modules_and_groups_are_kept_from_a_process() {
    if !is_root("logs_modules_and_groups_are_kept_from_a_process") {
        return;
    }
    let modules = fs::metadata("/usr/lib/modules").is_ok();
    let view = View {
        protect_kernel_logs: true,
        protect_kernel_modules: true,
        protect_control_groups: true,
        ..View::default()
    };
    seen(&view, || {
        assert!(fs::File::open("/dev/kmsg").is_err());
        assert!(options_at("/sys/fs/cgroup").starts_with("ro"));
        if modules {
            assert_eq!(list("/usr/lib/modules"), Ok(vec![]));
        }
    });
    seen(&View::default(), || {
        assert!(fs::File::open("/dev/kmsg").is_ok())
    });
}

#[test]
fn other_users_processes_are_invisible() {
    if !is_root("other_users_processes_are_invisible") {
        return;
    }
    let own = std::process::id();
    let seen_by_nobody = |others_processes| {
        let view = View {
            others_processes,
            ..View::default()
        };
        seen(&view, || {
            let mut test = Command::new("/usr/bin/test");
            let test = test
                .args(["-d", &format!("/proc/{own}")])
                .uid(65534)
                .gid(65534);
            test.status().unwrap().success()
        })
    };
    assert!(seen_by_nobody(ProcOthers::Default));
    assert!(!seen_by_nobody(ProcOthers::Invisible));
    assert!(!seen_by_nobody(ProcOthers::Ptraceable));
    assert!(seen_by_nobody(ProcOthers::NoAccess));
}

#[test]
fn nothing_but_processes_is_seen() {
    if !is_root("nothing_but_processes_is_seen") {
        return;
    }
    let view = View {
        only_processes: true,
        protect_kernel_tunables: true,
        protect_system: ProtectSystem::Strict,
        ..View::default()
    };
    seen(&view, || {
        assert!(fs::metadata("/proc/self/status").is_ok());
        assert!(fs::metadata("/proc/cpuinfo").is_err());
        assert!(fs::metadata("/proc/sys").is_err());
    });
    seen(&View::default(), || {
        assert!(fs::metadata("/proc/cpuinfo").is_ok())
    });
}
