//! Real init systems, real crashes.

use std::path::PathBuf;

use muster_lab::machine::{Build, Machine, MachineBuilder};
use muster_lab::{muster, peer};

use crate::rig::*;

/// Fails twice: by its exit status, and then, when it is started again, by a signal. It lives until its words are in the
/// journal: whose words they are is found out by looking at the process, and journald under systemd does not find out when that is gone.
const FAILS: &str = "\
[Service]
ExecStart=/bin/sh -c 'told() { until grep -rqas \"$$1\" /run/log/journal /var/log/journal; do sleep 0.02; done; }; \
if mkdir /run/was-here; then echo first words; echo last words of the first; told \"words of the fir[s]t\"; exit 3; fi; \
echo words of the second; told \"words of the seco[n]d\"; kill -SEGV $$$$'
Restart=on-failure
RestartSec=100ms
StartLimitBurst=2
StartLimitIntervalSec=1h
";
/// Ends well, and stays as long for the same reason.
const ENDS: &str = "\
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo all is well; \
until grep -rqas \"all is w[e]ll\" /run/log/journal /var/log/journal; do sleep 0.02; done'
";

fn with_units(builder: MachineBuilder) -> MachineBuilder {
    builder.unit(unit(1, 1), FAILS).unit(unit(2, 1), ENDS)
}

/// The crash log has both ends with their words; the instance that ended well has none.
async fn check(machine: &Machine, control: &str) {
    for (number, wait) in [(1, "failed"), (2, "inactive")] {
        let unit = unit(number, 1);
        let started = machine.run([control, "start", "--no-block", &unit]);
        started.expect("a command");
        muster_lab::poll_until(TIME, "the unit has ended", || {
            let shown = machine.run([control, "show", "-P", "ActiveState", &unit]);
            shown.expect("a command").stdout.contains(wait)
        });
    }
    let dirs: Vec<PathBuf> = ["/run/log/journal", "/var/log/journal"]
        .map(|dir| machine.path(dir))
        .into();
    let settings = muster_logs::LogSettings {
        dirs,
        ..muster_logs::LogSettings::default()
    };
    let collector = collector(settings);
    // The log daemon takes words in when it gets to it.
    let ended = std::time::Instant::now() + TIME;
    let log = loop {
        let parts = ask(&collector, crash(1)).await;
        if parts[0].status == "ok" {
            let log: String = parts.iter().map(unpack).collect();
            if log.matches("== ").count() == 2 && log.contains("words of the second") {
                break log;
            }
            assert!(std::time::Instant::now() < ended, "{log}");
        }
        assert!(std::time::Instant::now() < ended, "{parts:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let second = log.rfind("== muster-native").expect("a second end");
    let (first, second) = log.split_at(second);
    assert!(
        first
            .lines()
            .next()
            .is_some_and(|line| line.contains("exit status 3")),
        "{log}"
    );
    assert!(first.contains("result exit-code"), "{log}");
    assert!(
        first.contains(": first words\n") && first.contains(": last words of the first\n"),
        "{log}"
    );
    assert!(!first.contains("words of the second"), "{log}");
    let header = second.lines().next().expect("a header");
    assert!(header.contains("killed by signal 11"), "{log}");
    assert!(
        second.contains(": words of the second\n") && !second.contains("first words"),
        "{log}"
    );
    let parts = ask(&collector, crash(2)).await;
    assert_eq!(parts[0].status, "empty", "{}", unpack(&parts[0]));
    let log = text(&collector, instance(2, (None, None))).await;
    assert!(log.contains(": all is well\n"), "{log}");
}

#[tokio::test]
async fn crashes_under_systemd_are_told_with_their_last_words() {
    muster_lab::require!(Root, Cgroup2, File("/lib/systemd/systemd"));
    let builder = peer::systemd().init([peer::SYSTEMD, "--system", "--log-target=journal"]);
    let machine = peer::boot_systemd(&with_units(builder), TIME).expect("systemd is up");
    let started = machine.run(["systemctl", "start", "systemd-journald.service"]);
    assert!(started.expect("a command").status.success());
    check(&machine, "systemctl").await;
}

#[tokio::test]
async fn crashes_under_muster_are_told_with_their_last_words() {
    muster_lab::require!(Root, Cgroup2);
    let programs = muster::programs(Build::Test, &[]).expect("built");
    let machine = muster::boot(&with_units(muster::machine(&programs)), TIME).expect("up");
    check(&machine, "sctl").await;
}
