//! A machine's life: reached, stopped, started, rebooted, put to sleep and woken, ended.

use muster_lifecycle::{Halt, State, Verb};
use muster_provider::{ManagerId, Provider as _};

use crate::rig::{Libvirt, USER, owned, require_libvirt, small_image, spec, wait};

const BOOT_ID: &str = "cat /proc/sys/kernel/random/boot_id";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_is_reached_with_its_own_key_and_obeys_its_power_button() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let provider = libvirt.provider();
    let order = libvirt.order(&ManagerId::random(), spec());
    let made = provider.provision(&order).await.unwrap();
    assert_eq!(made.state, State::Running);
    assert!(made.access.iter().any(|it| it.to_string() == "ssh:exec"));
    let said = libvirt.ssh_when_up(&made, &format!("whoami; hostname; {BOOT_ID}"));
    let (who, first) = said.rsplit_once('\n').unwrap();
    assert_eq!(who, format!("{USER}\n{}", order.mark.machine));
    let machine = owned(&made);

    // It sleeps and goes on: the same system.
    let asleep = provider.act(&machine, Verb::Hibernate).await.unwrap();
    assert_eq!(asleep, State::Stopped(Halt::Hibernated));
    let awake = provider.act(&machine, Verb::Resume).await.unwrap();
    assert_eq!(awake, State::Running);
    assert_eq!(libvirt.ssh_when_up(&made, BOOT_ID), first);

    // Off and on again, without ever being seen as anything but running.
    let rebooting = provider.act(&machine, Verb::Reboot).await.unwrap();
    assert_eq!(rebooting, State::Running);
    let is_new = |said: &String| said != first;
    muster_lab::poll_for(crate::rig::PATIENCE, "it has rebooted", || {
        libvirt.ssh(&made, BOOT_ID).filter(is_new)
    });
    assert_eq!(presses(&made), 1, "the reboot was not by the button");

    // Stopped by the button, not by force: its patience is longer than the test's.
    let stopping = provider.act(&machine, Verb::Stop).await.unwrap();
    assert_eq!(stopping, State::Stopping(Halt::Off));
    let off = State::Stopped(Halt::Off);
    wait(&*provider, &machine, "stopped", |it| it.state == off).await;
    assert_eq!(presses(&made), 2, "the stop was not by the button");
    let started = provider.act(&machine, Verb::Start).await.unwrap();
    assert_eq!(started, State::Running);

    assert_eq!(provider.destroy(&machine).await.unwrap(), State::Terminated);
    libvirt.assert_nothing_left();
}

/// How often the machine has said that it heard its button.
fn presses(made: &muster_provider::Described) -> usize {
    let console = std::fs::read(&made.details["console"]).unwrap();
    let console = String::from_utf8_lossy(&console);
    console.matches("machine: power button").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_somebody_took_meanwhile_is_replaced() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let provider = libvirt.provider();
    let order = libvirt.order(&ManagerId::random(), spec());
    let made = provider.provision(&order).await.unwrap();
    let machine = owned(&made);
    provider.act(&machine, Verb::ForceStop).await.unwrap();
    let port = made.details["sshPort"].clone();
    // Somebody inside, where the emulator listens.
    let taken = libvirt.take_port(&port);
    assert_eq!(
        provider.act(&machine, Verb::Start).await.unwrap(),
        State::Running
    );
    let now = provider.describe(&machine).await.unwrap().unwrap();
    assert_eq!(now.state, State::Running);
    assert_ne!(now.details["sshPort"], port);
    drop(taken);
    provider.destroy(&machine).await.unwrap();
    libvirt.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_domain_that_somebody_removed_is_off_and_can_be_started() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let provider = libvirt.provider();
    let order = libvirt.order(&ManagerId::random(), spec());
    let made = provider.provision(&order).await.unwrap();
    let machine = owned(&made);
    libvirt.virsh(&["destroy", made.resource.as_str()]);
    libvirt.virsh(&["undefine", made.resource.as_str()]);
    let seen = provider.describe(&machine).await.unwrap().unwrap();
    assert_eq!(seen.state, State::Stopped(Halt::Off));
    assert_eq!(seen.reason, Some(muster_lifecycle::Reason::Outside));
    provider.act(&machine, Verb::Start).await.unwrap();
    let seen = provider.describe(&machine).await.unwrap().unwrap();
    assert_eq!(seen.state, State::Running);
    provider.destroy(&machine).await.unwrap();
    libvirt.assert_nothing_left();
}
