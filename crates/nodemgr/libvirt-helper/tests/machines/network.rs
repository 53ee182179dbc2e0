//! Networks of libvirt's.

use muster_provider::{FailureClass, MachineSpec, ManagerId, Provider as _};

use crate::rig::{Libvirt, owned, require_libvirt, small_image, spec, wait};

const NETWORK: &str = "<network><name>lab</name><bridge name='lab0'/>\
    <ip address='10.77.0.1' netmask='255.255.255.0'>\
    <dhcp><range start='10.77.0.10' end='10.77.0.100'/></dhcp></ip></network>";

fn on(network: &str) -> MachineSpec {
    MachineSpec {
        network: Some(network.to_owned()),
        ..spec()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_on_a_network_has_the_address_of_its_lease() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let file = libvirt.path().join("network.xml");
    std::fs::write(&file, NETWORK).unwrap();
    libvirt.virsh(&["net-define", file.to_str().unwrap()]);
    let provider = libvirt.provider();
    let manager = ManagerId::random();

    let missing = provider
        .provision(&libvirt.order(&manager, on("none")))
        .await;
    let missing = missing.unwrap_err();
    assert_eq!(missing.class, FailureClass::Refused);
    let cause = std::error::Error::source(&missing).unwrap().to_string();
    assert!(cause.contains("lab"), "{cause}");
    let order = libvirt.order(&manager, on("lab"));
    let inactive = provider.provision(&order).await.unwrap_err();
    assert_eq!(inactive.class, FailureClass::Retryable);
    assert_eq!(provider.list(&manager).await.unwrap().len(), 0);

    libvirt.virsh(&["net-start", "lab"]);
    let made = provider.provision(&order).await.unwrap();
    let machine = owned(&made);
    let seen = wait(&*provider, &machine, "addressed", |it| it.address.is_some()).await;
    let address = seen.address.unwrap().to_string();
    assert!(address.starts_with("10.77.0."), "{address}");
    assert!(!seen.details.contains_key("sshPort"));
    let said = libvirt.ssh_when_up(&seen, "hostname");
    assert_eq!(said, order.mark.machine.as_str());
    let listed = provider.list(&manager).await.unwrap();
    assert_eq!(listed[0].address, seen.address);
    provider.destroy(&machine).await.unwrap();
    libvirt.assert_nothing_left();
    assert_eq!(libvirt.virsh(&["net-list", "--name"]), "lab");
}
