//! Helpers, daemons and managers that die in the middle.

use std::time::Duration;

use futures_util::future::join_all;
use muster_libvirt::LibvirtProvider;
use muster_lifecycle::{Halt, State, Verb};
use muster_provider::{FailureClass, ManagerId, Provider as _};

use crate::rig::{Libvirt, PATIENCE, owned, require_libvirt, small_image, spec, wait};

/// Every helper of this test's libvirt.
fn helpers(libvirt: &Libvirt) -> Vec<i32> {
    let wanted = libvirt.path().display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            (line.contains("muster-libvirt-helper") && line.contains(&wanted)).then_some(pid)
        })
        .collect()
}

fn kill9(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    // One that has ended meanwhile is as dead.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helpers_killed_in_the_middle_of_calls_lose_and_double_nothing() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let provider = libvirt.provider();
    let manager = ManagerId::random();
    let orders: Vec<_> = (0..4).map(|_| libvirt.order(&manager, spec())).collect();
    let make = |order| {
        let provider = provider.clone();
        async move {
            loop {
                match provider.provision(order).await {
                    Ok(made) => return made,
                    Err(error) => assert_eq!(error.class, FailureClass::Retryable, "{error:?}"),
                }
            }
        }
    };
    let making = async {
        let made = join_all(orders.iter().map(make)).await;
        // A few more calls to be killed in.
        for machine in made.iter().map(owned) {
            while provider.describe(&machine).await.is_err() {}
        }
        made
    };
    let mut killed = 0;
    let killing = async {
        loop {
            for pid in helpers(&libvirt) {
                kill9(pid);
                killed += 1;
            }
            // Later and later, so that something gets done between two.
            tokio::time::sleep(Duration::from_millis(20 * (killed + 1))).await;
        }
    };
    let made = tokio::select! {
        made = tokio::time::timeout(PATIENCE, making) => made.unwrap(),
        never = killing => never,
    };
    assert!(killed >= 4, "only {killed} helpers were killed");
    let listed = provider.list(&manager).await.unwrap();
    assert_eq!(listed.len(), orders.len(), "{listed:?}");
    assert_eq!(
        libvirt.virsh(&["list", "--all", "--name"]).lines().count(),
        orders.len()
    );
    for machine in made.iter().map(owned) {
        provider.destroy(&machine).await.unwrap();
    }
    libvirt.assert_nothing_left();
    drop(provider);
    muster_lab::poll_until(PATIENCE, "no helper is left", || {
        helpers(&libvirt).is_empty()
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_away_says_nothing_about_machines_and_is_found_again() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let provider = libvirt.provider();
    let manager = ManagerId::random();
    let order = libvirt.order(&manager, spec());
    let machine = owned(&provider.provision(&order).await.unwrap());
    libvirt.kill_daemon(true);
    let away = provider.describe(&machine).await.unwrap_err();
    assert_eq!(away.class, FailureClass::Retryable, "{away:?}");
    let away = provider.list(&manager).await.unwrap_err();
    assert_eq!(away.class, FailureClass::Retryable, "{away:?}");
    libvirt.let_daemon_go();
    let seen = provider.describe(&machine).await.unwrap().unwrap();
    assert_eq!(seen.state, State::Running);
    assert_eq!(seen.mark, order.mark);
    // And once more, with a helper that has a connection of before.
    libvirt.kill_daemon(false);
    let back = || async { provider.destroy(&machine).await.is_ok() };
    let deadline = std::time::Instant::now() + PATIENCE;
    while !back().await {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    libvirt.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_hangs_is_not_waited_for() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let mut settings = libvirt.settings();
    settings.call = Duration::from_secs(3);
    let provider = LibvirtProvider::open(settings).unwrap();
    let manager = ManagerId::random();
    assert_eq!(provider.list(&manager).await.unwrap().len(), 0);
    libvirt.signal_daemon("-STOP");
    let hung = tokio::time::timeout(PATIENCE, provider.list(&manager)).await;
    let hung = hung.unwrap().unwrap_err();
    assert_eq!(hung.class, FailureClass::Retryable, "{hung:?}");
    muster_lab::poll_until(PATIENCE, "the helper was ended", || {
        helpers(&libvirt).is_empty()
    });
    libvirt.signal_daemon("-CONT");
    let deadline = std::time::Instant::now() + PATIENCE;
    while provider.list(&manager).await.is_err() {
        assert!(std::time::Instant::now() < deadline);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_dies_while_it_makes_machines_leaks_none() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let manager = ManagerId::random();
    let mut cut = 0;
    for round in 0..muster_lab::rounds(12, 100) {
        let order = libvirt.order(&manager, spec());
        // Whoever makes it is gone after a while, a little later each time.
        let time = Duration::from_millis(u64::from(round) * 60 % 900);
        {
            let provider = libvirt.provider();
            let made = tokio::time::timeout(time, provider.provision(&order)).await;
            cut += u32::from(made.is_err());
        }
        let provider = libvirt.provider();
        if round % 2 == 0 {
            // The order is repeated: one machine, and it runs.
            let made = owned(&provider.provision(&order).await.unwrap());
            wait(&*provider, &made, "running", |it| {
                it.state == State::Running
            })
            .await;
        }
        let listed = provider.list(&manager).await.unwrap();
        assert!(listed.len() <= 1, "{listed:?}");
        for machine in listed.iter().map(owned) {
            assert_eq!(machine.mark, order.mark);
            provider.destroy(&machine).await.unwrap();
        }
        let late = provider.provision(&order).await;
        if !listed.is_empty() {
            assert_eq!(late.unwrap_err().class, FailureClass::Refused);
        } else {
            provider.destroy(&owned(&late.unwrap())).await.unwrap();
        }
        libvirt.assert_nothing_left();
    }
    assert!(cut > 2, "only {cut} orders were cut off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_goes_on_under_another_manager() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    // It is still booting and does not hear the button, so its power is cut when patience ends: by whoever is there then.
    let patient = || {
        let mut settings = libvirt.settings();
        settings.stop_grace = Duration::from_secs(4);
        LibvirtProvider::open(settings).unwrap()
    };
    let order = libvirt.order(&ManagerId::random(), spec());
    let machine = {
        let provider = patient();
        let machine = owned(&provider.provision(&order).await.unwrap());
        provider.act(&machine, Verb::Stop).await.unwrap();
        machine
    };
    let provider = patient();
    let seen = provider.describe(&machine).await.unwrap().unwrap();
    assert_eq!(seen.state, State::Stopping(Halt::Off));
    let off = State::Stopped(Halt::Off);
    wait(&provider, &machine, "stopped", |it| it.state == off).await;
    provider.destroy(&machine).await.unwrap();
    libvirt.assert_nothing_left();
}
