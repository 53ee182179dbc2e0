//! A whole distribution, with the real cloud-init.

use muster_lifecycle::{Halt, State, Verb};
use muster_provider::{MachineSpec, ManagerId, Provider as _};

use crate::rig::{Libvirt, USER, image, owned, require_libvirt, spec, wait};

const USER_DATA: &str =
    "#cloud-config\nwrite_files:\n- path: /etc/from-template\n  content: heard\n";

/// Long, because nothing here has hardware to help it: only in the long runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_cloud_init_gives_a_machine_its_keys_user_and_name() {
    if muster_lab::rounds(0, 1) == 0 {
        println!(
            "skipped: soak_cloud_init_gives_a_machine_its_keys_user_and_name: only with MUSTER_SOAK=1"
        );
        return;
    }
    require_libvirt!(image("debian.qcow2"));
    let libvirt = Libvirt::start();
    let provider = libvirt.provider();
    let order = libvirt.order(
        &ManagerId::random(),
        MachineSpec {
            image: Some(image("debian.qcow2").display().to_string()),
            memory_mb: std::num::NonZeroU64::new(768),
            user_data: Some(USER_DATA.to_owned()),
            ..spec()
        },
    );
    let made = provider.provision(&order).await.unwrap();
    let said = libvirt.ssh_within(
        &made,
        "cloud-init status --wait >/dev/null; whoami; hostname; sudo cat /etc/from-template",
        std::time::Duration::from_secs(540),
    );
    assert_eq!(said, format!("{USER}\n{}\nheard", order.mark.machine));
    let machine = owned(&made);
    provider.act(&machine, Verb::Stop).await.unwrap();
    let off = State::Stopped(Halt::Off);
    wait(&*provider, &machine, "stopped", |it| it.state == off).await;
    provider.destroy(&machine).await.unwrap();
    libvirt.assert_nothing_left();
}
