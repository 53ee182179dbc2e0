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
/// Files of the machine are in half of its memory: the largest file of the long runs, and as much again.
const MEMORY_MB: u64 = 4096;

#[derive(Debug)]
struct GuestRig {
    access: SshAccess,
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

/// Minutes, because nothing here has hardware to help it: only in the long runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_a_virtual_machine_keeps_every_promise_of_an_executor() {
    if muster_lab::rounds(0, 1) == 0 {
        println!(
            "skipped: soak_a_virtual_machine_keeps_every_promise_of_an_executor: only with MUSTER_SOAK=1"
        );
        return;
    }
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let provider = libvirt.provider();
    let wanted = MachineSpec {
        memory_mb: NonZeroU64::new(MEMORY_MB),
        user: Some(LOGIN.to_owned()),
        ..spec()
    };
    let order = libvirt.order(&ManagerId::random(), wanted);
    let made = provider.provision(&order).await.unwrap();
    libvirt.ssh_when_up_as(LOGIN, &made, "mkdir -p /tmp/cases");
    let access = libvirt.access(&made, LOGIN);
    let report = in_network_of(&libvirt.first(), GuestRig { access });
    println!("{report}");
    report.assert_passed();
    // Nobody stands in for the power of a machine that has some, no server is beside it, and busybox changes no user.
    assert_eq!(report.skipped().count(), 3, "\n{report}");
    provider.destroy(&owned(&made)).await.unwrap();
    libvirt.assert_nothing_left();
}
