//! The suite that every executor passes, over SSH into a virtual machine.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use muster_executor::Executor;
use muster_executor::ssh::{SshAccess, SshExecutor};
use muster_executor::testing::{Report, Rig, run};
use muster_provider::{MachineSpec, ManagerId, Provider as _};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::rig::{Libvirt, owned, require_libvirt, small_image, spec};

const LOGIN: &str = "root";
/// Files of the machine are in half of its memory: the largest file, and as much again.
const MEMORY_MB: u64 = 512;
const SOAK_MEMORY_MB: u64 = 4096;

/// Nobody stands in for the power of a machine that has some, no server is beside it, and busybox changes no user.
const LEFT_OUT: [(&str, &str); 3] = [
    (
        "the machine is switched off and booted from inside",
        "nothing stands in the place of its power",
    ),
    (
        "a port leads into the machine",
        "there is no server to reach",
    ),
    (
        "a command runs as another user",
        "cannot run \"sh\": it cannot be started: the machine offers no way to become that user (setpriv, chroot or sudo without a \
         password)",
    ),
];
/// What takes minutes, because nothing here has hardware to help it: only in the long runs.
const BULKY: [(&str, &str); 2] = [
    (
        "ten thousand small files go over and come back",
        "it moves much",
    ),
    ("a large file goes over and comes back", "it moves much"),
];

#[derive(Debug)]
struct GuestRig {
    access: SshAccess,
    is_soak: bool,
}

impl Rig for GuestRig {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(SshExecutor::new(self.access.clone()))
    }

    fn folder(&self) -> PathBuf {
        "/tmp/cases".into()
    }

    fn echo(&self) -> Option<(String, u16)> {
        None
    }

    fn power_log(&self) -> Option<PathBuf> {
        None
    }

    fn is_slow(&self) -> bool {
        !self.is_soak
    }
}

/// Runs the suite where the emulators listen: in their network.
fn in_network_of(process: &str, rig: GuestRig) -> Report {
    let network = File::open(format!("/proc/{process}/ns/net")).unwrap();
    let thread = std::thread::spawn(move || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run(&rig))
    });
    thread.join().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_virtual_machine_keeps_every_promise_of_an_executor() {
    require_libvirt!(small_image());
    let is_soak = muster_lab::rounds(0, 1) > 0;
    let memory = if is_soak { SOAK_MEMORY_MB } else { MEMORY_MB };
    let libvirt = Libvirt::start();
    let provider = libvirt.provider();
    let wanted = MachineSpec {
        memory_mb: NonZeroU64::new(memory),
        user: Some(LOGIN.to_owned()),
        ..spec()
    };
    let order = libvirt.order(&ManagerId::random(), wanted);
    let made = provider.provision(&order).await.unwrap();
    libvirt.ssh_when_up_as(LOGIN, &made, "mkdir -p /tmp/cases");
    let access = libvirt.access(&made, LOGIN);
    let report = in_network_of(&libvirt.first(), GuestRig { access, is_soak });
    println!("{report}");
    let bulky = BULKY.iter().filter(|_| !is_soak);
    let left_out: Vec<_> = LEFT_OUT.iter().chain(bulky).copied().collect();
    report.assert_skipped_only(&left_out);
    provider.destroy(&owned(&made)).await.unwrap();
    libvirt.assert_nothing_left();
}
