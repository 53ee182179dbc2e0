//! The suite that every provider passes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use muster_libvirt::LibvirtProvider;
use muster_provider::testing::{Rig, run};
use muster_provider::{ClientToken, MachineSpec, Owned, Provider, ResourceId, SshSeed};
use muster_seed::ManagerKeys;

use crate::rig::{Libvirt, PATIENCE, require_libvirt, small_image, spec};

#[derive(Debug)]
struct LibvirtRig<'a> {
    libvirt: &'a Libvirt,
    provider: Arc<LibvirtProvider>,
}

impl Rig for LibvirtRig<'_> {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    fn spec(&self) -> MachineSpec {
        spec()
    }

    fn ssh(&self) -> Option<SshSeed> {
        let keys = ManagerKeys::from_secret(&[5; 32]);
        Some(keys.seed(&ClientToken::random(), &self.spec()))
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn add_foreign(&self) -> BoxFuture<'_, Option<ResourceId>> {
        let foreign = self.libvirt.add_foreign();
        ready(Some(ResourceId::new(foreign).unwrap())).boxed()
    }

    /// libvirt counts how often it has started domains.
    fn boot<'a>(&'a self, machine: &'a Owned) -> BoxFuture<'a, Option<String>> {
        let id = self.libvirt.virsh(&["domid", machine.resource.as_str()]);
        let id = id.trim().to_owned();
        // One that is off has none.
        ready(id.parse::<u32>().is_ok().then_some(id)).boxed()
    }

    fn is_untouched<'a>(&'a self, _: &'a ResourceId) -> BoxFuture<'a, bool> {
        ready(self.libvirt.end_foreign()).boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libvirt_keeps_every_promise() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    // Systems that are still booting do not hear the button; that one which does is obeyed, another test shows.
    let mut settings = libvirt.settings();
    settings.stop_grace = Duration::from_millis(500);
    let rig = LibvirtRig {
        provider: Arc::new(LibvirtProvider::open(settings).unwrap()),
        libvirt: &libvirt,
    };
    let report = run(&rig).await;
    println!("{report}");
    // libvirt's machines can do everything, and nobody takes them back.
    report.assert_skipped_only(&[
        (
            "start is refused where it is not offered",
            "it can start machines",
        ),
        (
            "stop is refused where it is not offered",
            "it can stop machines",
        ),
        (
            "a forced stop is refused where it is not offered",
            "it can force-stop machines",
        ),
        (
            "reboot is refused where it is not offered",
            "it can reboot machines",
        ),
        (
            "hibernation is refused where it is not offered",
            "it can hibernate machines",
        ),
        (
            "resuming is refused where it is not offered",
            "it can resume machines",
        ),
        (
            "a verb is refused where it is not offered by one machine alone",
            "it offers whatever its provider can do",
        ),
        (
            "a verb is refused where it is not offered by spot machines alone",
            "it has no spot machines",
        ),
    ]);
    report.assert_at_least(40);
    libvirt.assert_nothing_left();
}
