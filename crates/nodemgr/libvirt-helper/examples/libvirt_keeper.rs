//! A small manager of virtual machines, for tests that kill it.
//!
//! `libvirt_keeper URI HELPER IMAGE FOLDER STEP...`: keeps machines of a libvirt, which boot an image, in FOLDER. Steps are those of
//! [`Keeper::carry_out`]. What it prints has happened.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_libvirt::{Acceleration, LibvirtProvider};
use muster_machines::testing::{Keeper, KeeperError, order};
use muster_machines::{MachineOrder, Settings};
use muster_provider::{MachineSpec, ProviderId};

/// Fast, so that many runs fit into a test.
fn settings() -> Settings {
    let short = Duration::from_millis(20);
    Settings {
        poll: short,
        sweep: Duration::from_millis(200),
        retry: short,
        retry_longest: Duration::from_millis(200),
        settle: Duration::from_secs(1),
        attempts: 20,
        ..Settings::default()
    }
}

fn machine(image: &str, key: &str) -> MachineOrder {
    let spec = MachineSpec {
        image: Some(image.to_owned()),
        memory_mb: NonZeroU64::new(256),
        ..MachineSpec::default()
    };
    order(ProviderId::Libvirt, spec, Some(key))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), KeeperError> {
    muster_fault::init(&[
        muster_machines::FAULT_POINTS,
        muster_libvirt::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [uri, helper, image, folder, steps @ ..] = arguments.as_slice() else {
        return Err("URI HELPER IMAGE FOLDER STEP...".into());
    };
    let folder = Path::new(folder);
    let mut hypervisor =
        muster_libvirt::Settings::new(&folder.join("libvirt"), &folder.join("cache"));
    hypervisor.uri = uri.clone();
    hypervisor.helper = helper.into();
    hypervisor.acceleration = Acceleration::Tcg;
    // What boots need not know of a power button.
    hypervisor.stop_grace = Duration::from_secs(1);
    let provider = Arc::new(LibvirtProvider::open(hypervisor)?);
    let keeper = Keeper::start(folder, provider, None, settings()).await?;
    keeper.carry_out(steps, |key| machine(image, key)).await?;
    keeper.close().await
}
