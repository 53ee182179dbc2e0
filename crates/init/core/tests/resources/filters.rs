//! Filters of sockets that somebody is started for, and filters that close off whoever runs already.

use muster_lab::machine::Machine;

use crate::host::{TIME, boot, sctl};

const RECEIVER: &str = "[Service]\nExecStart=/bin/sleep 1000\n";

fn shell(machine: &Machine, script: &str) -> String {
    let output = machine.run(["bash", "-ec", script]).unwrap();
    assert!(output.status.success(), "{script}: {}", output.stderr);
    output.stdout
}

#[test]
fn sockets_of_units_are_under_the_filters_of_their_groups() {
    muster_lab::require!(Root, Cgroup2, Tool("bash"));
    let socket =
        |port: u16, lines: &str| format!("[Socket]\nListenDatagram=127.0.0.1:{port}\n{lines}\n");
    let (denied, inside) = (
        socket(7201, "IPAddressDeny=any"),
        socket(7202, "Slice=closed.slice"),
    );
    let (counted, bound) = (
        socket(7203, "IPAccounting=yes"),
        socket(7204, "SocketBindDeny=any"),
    );
    let machine = boot(&[
        ("closed.slice", "[Slice]\nIPAddressDeny=any\n"),
        ("denied.socket", &denied),
        ("inside.socket", &inside),
        ("counted.socket", &counted),
        ("bound.socket", &bound),
        ("denied.service", RECEIVER),
        ("inside.service", RECEIVER),
        ("counted.service", RECEIVER),
        ("bound.service", RECEIVER),
    ]);
    machine.run(["ip", "link", "set", "lo", "up"]).unwrap();
    let sockets = ["denied.socket", "inside.socket", "counted.socket"];
    for socket in sockets {
        sctl(&machine, &["start", socket]);
    }
    let refused = machine.run(["sctl", "start", "bound.socket"]).unwrap();
    assert!(!refused.status.success(), "{}", refused.stdout);
    let active = |unit: &str| {
        let show = ["show", "--value", "-p", "ActiveState", unit];
        sctl(&machine, &show).trim_end() == "active"
    };
    let knock = |count: &str| {
        for port in [7201, 7202, 7203] {
            shell(&machine, &format!("echo x >/dev/udp/127.0.0.1/{port}"));
        }
        let packets = [
            "show",
            "--value",
            "-p",
            "IPIngressPackets",
            "counted.socket",
        ];
        assert_eq!(sctl(&machine, &packets).trim_end(), count);
    };
    // What is dropped never arrives; what comes to the last one comes after the others.
    knock("1");
    muster_lab::poll_until(TIME, "a datagram starts its service", || {
        active("counted.service")
    });
    assert!(!active("denied.service") && !active("inside.service"));
    // The next manager has the same sockets.
    sctl(&machine, &["daemon-reexec"]);
    knock("2");
    assert!(!active("denied.service") && !active("inside.service"));
    // Without the filter the same socket starts its service.
    sctl(&machine, &["stop", "denied.socket"]);
    sctl(
        &machine,
        &[
            "set-property",
            "--runtime",
            "denied.socket",
            "IPAddressDeny=",
        ],
    );
    sctl(&machine, &["start", "denied.socket"]);
    shell(&machine, "echo x >/dev/udp/127.0.0.1/7201");
    muster_lab::poll_until(TIME, "a datagram starts its service", || {
        active("denied.service")
    });
}

#[test]
fn lists_that_are_too_long_close_off_whoever_runs_already() {
    const TALKER: &str = "ExecStart=/bin/bash -c 'while read -r word </run/ask; do \
        if (echo x >/dev/udp/127.0.0.1/9) 2>/dev/null; then echo yes; else echo no; fi >/run/said; done'\n";
    muster_lab::require!(Root, Cgroup2, Tool("bash"));
    let talker = format!("[Service]\nSlice=many.slice\n{TALKER}");
    let machine = boot(&[
        ("talker.service", &talker),
        (
            "later.service",
            "[Service]\nSlice=many.slice\nExecStart=/bin/sleep 1000\n",
        ),
    ]);
    machine.run(["ip", "link", "set", "lo", "up"]).unwrap();
    shell(&machine, "mkfifo /run/ask /run/said");
    sctl(&machine, &["start", "talker.service"]);
    let talks = || shell(&machine, "echo go >/run/ask; cat /run/said");
    assert_eq!(talks(), "yes\n");
    let list: Vec<String> = (0..9 * 256)
        .map(|number| format!("10.{}.{}.0/24", number / 256, number % 256))
        .collect();
    let long = format!("IPAddressDeny={}", list.join(" "));
    for unit in ["talker.service", "many.slice"] {
        sctl(&machine, &["set-property", "--runtime", unit, &long]);
        assert_eq!(talks(), "no\n", "{unit}");
        let status = sctl(&machine, &["status", "talker.service"]);
        assert!(status.contains("2304 networks"), "{status}");
        let said = ["sctl", "logs", "--unit=talker.service"];
        muster_lab::poll_until(TIME, "the log says that it is closed off", || {
            let logs = machine.run(said).unwrap().stdout;
            logs.contains("Lets NO traffic through")
        });
        if unit == "many.slice" {
            let started = machine.run(["sctl", "start", "later.service"]).unwrap();
            assert!(!started.status.success(), "{}", started.stdout);
        }
        sctl(
            &machine,
            &["set-property", "--runtime", unit, "IPAddressDeny="],
        );
        assert_eq!(talks(), "yes\n", "{unit}");
    }
    sctl(&machine, &["start", "later.service"]);
}
