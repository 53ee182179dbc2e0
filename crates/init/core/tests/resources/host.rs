//! On a machine whose cgroup v2 tree has no controllers: filters work, and limits are named as not applied.

use std::time::Duration;

use muster_lab::machine::{Build, Machine};
use muster_lab::muster;

pub(crate) const TIME: Duration = Duration::from_secs(60);

/// A machine with these units.
pub(crate) fn boot(units: &[(&str, &str)]) -> Machine {
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let builder = muster::machine(&programs);
    let builder = units
        .iter()
        .fold(builder, |builder, (name, text)| builder.unit(*name, *text));
    muster::boot(&builder, TIME).unwrap()
}

#[track_caller]
pub(crate) fn sctl(machine: &Machine, words: &[&str]) -> String {
    let output = machine.run(["sctl"].iter().chain(words)).unwrap();
    let (stdout, stderr) = (&output.stdout, &output.stderr);
    assert!(
        output.status.success(),
        "sctl {words:?}: {}\n{stdout}{stderr}",
        output.status
    );
    output.stdout
}

/// What was not there when a unit was started is not believed to be given to it because it is there now.
#[test]
fn a_device_that_comes_late_is_given_when_it_is_looked_for() {
    muster_lab::require!(Root, Cgroup2, Tool("bash"));
    let machine = boot(&[(
        "late.service",
        "[Service]\nDevicePolicy=strict\nDeviceAllow=/dev/late rw\n\
         ExecStart=/bin/bash -c 'until (: </dev/full); do sleep 0.05; done; touch /run/opened; exec sleep 1000'\n",
    )]);
    sctl(&machine, &["start", "late.service"]);
    let status = sctl(&machine, &["status", "late.service"]);
    assert!(status.contains("DeviceAllow: /dev/late"), "{status}");
    machine.run(["ln", "-s", "/dev/full", "/dev/late"]).unwrap();
    assert!(!machine.path("/run/opened").exists(), "nobody has looked");
    let status = sctl(&machine, &["status", "late.service"]);
    assert!(!status.contains("DeviceAllow: /dev/late"), "{status}");
    muster_lab::poll_until(TIME, "it may be opened now", || {
        machine.path("/run/opened").exists()
    });
}

#[test]
fn filters_hold_and_what_cannot_be_had_is_named() {
    muster_lab::require!(Root, Cgroup2, Tool("bash"));
    let machine = boot(&[
        (
            "limited.service",
            "[Service]\nExecStart=/bin/sleep 1000\nCPUWeight=50\nDeviceAllow=/dev/no-such\n",
        ),
        ("plain.service", "[Service]\nExecStart=/bin/sleep 1000\n"),
        (
            "owned.service",
            "[Service]\nUser=nobody\nExecStart=/bin/sleep 1000\n",
        ),
        (
            "once.service",
            "[Service]\nType=oneshot\nIPAccounting=yes\n\
             ExecStart=/bin/bash -c 'for ((i = 0; i < 20000; i++)); do :; done; echo hello >/dev/udp/127.0.0.1/9'\n",
        ),
        (
            "closed.service",
            "[Service]\nType=oneshot\nDevicePolicy=closed\n\
             ExecStart=/bin/bash -c ': </dev/zero && : >/dev/null'\nExecStart=/bin/bash -c 'mknod /run/node c 1 11; [ ! -e /run/node ]'\n",
        ),
        (
            "denied.service",
            "[Service]\nType=oneshot\nIPAddressDeny=any\nIPAddressAllow=127.0.0.2\n\
             ExecStart=/bin/bash -c '! (echo x >/dev/udp/127.0.0.1/9)'\nExecStart=/bin/bash -c 'echo x >/dev/udp/127.0.0.2/9'\n",
        ),
        (
            "counted.service",
            "[Service]\nIPAccounting=yes\n\
             ExecStart=/bin/bash -c 'echo hello >/dev/udp/127.0.0.1/9; exec sleep 1000'\n",
        ),
    ]);
    // A machine of its own has a loopback of its own.
    machine.run(["ip", "link", "set", "lo", "up"]).unwrap();
    sctl(&machine, &["start", "limited.service", "plain.service"]);
    let status = sctl(&machine, &["status", "limited.service"]);
    assert!(status.contains("DeviceAllow: /dev/no-such"), "{status}");
    // Where the kernel has it to give, it is given; where not, that is said.
    let offered = machine.run(["cat", "/sys/fs/cgroup/cgroup.controllers"]);
    let offered = offered.unwrap().stdout;
    assert_eq!(
        status.contains("CPUWeight: the"),
        !offered.split_whitespace().any(|name| name == "cpu"),
        "{status}"
    );
    // A default that cannot be had is no news.
    let plain = sctl(&machine, &["status", "plain.service"]);
    assert!(!plain.contains("Not applied"), "{plain}");

    // Who it runs as is known by its number.
    sctl(&machine, &["start", "owned.service"]);
    let shown = |unit: &str, name: &str| {
        let value = sctl(&machine, &["show", "--value", "-p", name, unit]);
        value.trim_end().to_owned()
    };
    assert_eq!(shown("owned.service", "UID"), "65534");
    assert_eq!(shown("owned.service", "GID"), "65534");
    assert_eq!(shown("plain.service", "UID"), "[not set]");

    // What a run has used up is known when it is over, also by the next manager.
    sctl(&machine, &["start", "once.service"]);
    let cpu = shown("once.service", "CPUUsageNSec");
    assert!(cpu.parse::<u64>().is_ok_and(|cpu| cpu > 1_000_000), "{cpu}");
    assert_eq!(shown("once.service", "IPEgressPackets"), "1");
    sctl(&machine, &["daemon-reexec"]);
    assert_eq!(shown("once.service", "CPUUsageNSec"), cpu);
    let status = machine.run(["sctl", "status", "once.service"]).unwrap();
    let status = status.stdout;
    assert!(status.contains("IP: 0B in, 34B out\n"), "{status}");
    assert!(status.contains(" CPU: "), "{status}");
    let said = ["sctl", "logs", "--unit=once.service"];
    muster_lab::poll_until(TIME, "the log says what was used up", || {
        let logs = machine.run(said).unwrap().stdout;
        logs.contains("Consumed 0.") && logs.contains("34B outgoing IP traffic")
    });

    sctl(&machine, &["start", "closed.service"]);
    sctl(&machine, &["start", "denied.service"]);
    sctl(&machine, &["start", "counted.service"]);
    muster_lab::poll_until(TIME, "a packet is counted", || {
        let count = [
            "show",
            "--value",
            "-p",
            "IPEgressPackets",
            "counted.service",
        ];
        sctl(&machine, &count) == "1\n"
    });
    let bytes = ["show", "--value", "-p", "IPEgressBytes", "counted.service"];
    assert_eq!(sctl(&machine, &bytes), "34\n");
    let status = sctl(&machine, &["status", "counted.service"]);
    assert!(status.contains("IP: 0B in, 34B out\n"), "{status}");

    // What is more than a filter can have keeps nobody out, so nobody may run with it.
    let lists = |count: u8| {
        let lines = (0..count).map(|network| {
            let list: Vec<String> = (0..=255)
                .map(|part| format!("10.{network}.{part}.0/24"))
                .collect();
            format!("IPAddressDeny={}\\n", list.join(" "))
        });
        let script = format!(
            "printf '[Service]\\nExecStart=/bin/sleep 1000\\n{}' >/run/systemd/system/many.service",
            lines.collect::<String>()
        );
        assert!(machine.run(["sh", "-c", &script]).unwrap().status.success());
        sctl(&machine, &["daemon-reload"]);
    };
    assert!(
        machine
            .run(["mkdir", "-p", "/run/systemd/system"])
            .unwrap()
            .status
            .success()
    );
    lists(9);
    let started = machine.run(["sctl", "start", "many.service"]).unwrap();
    assert!(!started.status.success(), "{}", started.stdout);
    let status = machine
        .run(["sctl", "status", "many.service"])
        .unwrap()
        .stdout;
    assert!(
        status.contains("Result: resources") && status.contains("2304 networks"),
        "{status}"
    );
    lists(8);
    sctl(&machine, &["start", "many.service"]);

    // Filters go as they came, while the service runs.
    let lift = [
        "set-property",
        "--runtime",
        "counted.service",
        "IPAccounting=no",
    ];
    sctl(&machine, &lift);
    assert_eq!(sctl(&machine, &bytes), "[no data]\n");
}
