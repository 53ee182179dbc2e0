//! Programs that somebody else loaded, attached to the groups of units that name their files.

use muster_lab::poll_until;
use rustix::process::Signal;

use crate::rig::{Rig, TIME};
use crate::upgrade;

/// Loads a program that lets no packet out, and leaves it in a file. Of another type it cannot be attached.
const PIN: &str = r#"
my $path = "$ARGV[0]\0";
my $type = $ARGV[1] // 8;
my $code = pack 'CCsl CCsl', 0xb7, 0, 0, 0, 0x95, 0, 0, 0;
my $licence = "GPL\0";
my $load = pack 'L2 P P L2 Q L2 a16 L2', $type, 2, $code, $licence, 0, 0, 0, 0, 0, 'closed', 0, 1;
my $program = syscall 321, 5, $load, length $load;
$program >= 0 or die "load: $!";
my $pin = pack 'P L2', $path, $program, 0;
syscall(321, 6, $pin, length $pin) == 0 or die "pin: $!";
"#;
/// A type of program that is not asked about packets of groups.
const SOCKET_FILTER: &str = "1";
const FOLDER: &str = "/run/bpf";
const CLOSED: &str = "/run/bpf/closed";

/// A service that says by its reload whether it can send something.
fn service(lines: &str) -> String {
    format!(
        "[Service]\n{lines}\nExecStart=/bin/sleep infinity\n\
         ExecReload=/bin/bash -c 'echo x >/dev/udp/127.0.0.1/9'\n"
    )
}

fn boot(units: &[(&str, &str)]) -> Rig {
    let rig = Rig::boot(|builder| {
        units.iter().fold(builder, |builder, (name, lines)| {
            builder.unit(*name, service(lines))
        })
    });
    rig.write("/run/pin", PIN).unwrap();
    run(&rig, &["mkdir", FOLDER]);
    run(&rig, &["mount", "-t", "bpf", "bpf", FOLDER]);
    rig
}

#[track_caller]
fn run(rig: &Rig, words: &[&str]) {
    let output = rig.run(words).unwrap();
    assert!(output.status.success(), "{words:?}: {}", output.stderr);
}

fn is_open(rig: &Rig, unit: &str) -> bool {
    rig.sctl(&["reload", unit]).status.success()
}

fn status(rig: &Rig, unit: &str) -> String {
    rig.sctl(&["status", unit]).stdout
}

/// They hold for the unit, for nobody else, and as long as the unit, whoever manages it and whether or not the file is there.
#[test]
fn programs_of_others_hold_as_long_as_the_unit_whichever_manager_there_is() {
    muster_lab::require!(Root, Cgroup2, Tool("perl"), Tool("bash"));
    let egress = format!("IPEgressFilterPath={CLOSED}\nIPEgressFilterPath={CLOSED}");
    let any = format!("BPFProgram=egress:{CLOSED}");
    let both = format!("{egress}\n{any}");
    let rig = boot(&[
        ("free.service", ""),
        ("egress.service", &egress),
        ("any.service", &any),
        ("both.service", &both),
    ]);
    run(&rig, &["perl", "/run/pin", CLOSED]);
    let all = ["free", "egress", "any", "both"];
    for name in all {
        rig.ok(&["start", &format!("{name}.service")]);
    }
    let assert_closed = |after: &str| {
        for name in all {
            let unit = format!("{name}.service");
            assert_eq!(is_open(&rig, &unit), name == "free", "{unit} after {after}");
            let status = status(&rig, &unit);
            assert!(!status.contains("Not applied"), "{after}: {status}");
        }
    };
    assert_closed("the start");
    run(&rig, &["rm", CLOSED]);
    assert_closed("the end of the file");
    let core = rig.core().unwrap();
    rig.kill(&core, Signal::KILL);
    rig.wait_for_another_core(&core, "a kill");
    assert_closed("a kill");
    upgrade::upgrade(&rig);
    assert_closed("an upgrade");

    // A manager that did not attach it takes it away when it is told to.
    rig.ok(&["set-property", "--runtime", "any.service", "BPFProgram="]);
    assert!(is_open(&rig, "any.service"));
    // Another program in its place comes to those who name it, once they are asked for it again.
    run(&rig, &["perl", "/run/pin", CLOSED]);
    let again = format!("BPFProgram=egress:{CLOSED}");
    rig.ok(&["set-property", "--runtime", "free.service", &again]);
    assert!(!is_open(&rig, "free.service"));
    rig.ok(&[
        "set-property",
        "--runtime",
        "egress.service",
        "TasksMax=100",
    ]);
    assert!(!is_open(&rig, "egress.service"));

    rig.ok(&["stop", "both.service"]);
    rig.ok(&["start", "both.service"]);
    assert!(!is_open(&rig, "both.service"));

    // One that the kernel refuses takes nobody's place.
    run(&rig, &["rm", CLOSED]);
    run(&rig, &["perl", "/run/pin", CLOSED, SOCKET_FILTER]);
    rig.ok(&["set-property", "--runtime", "egress.service", "TasksMax=99"]);
    let said = status(&rig, "egress.service");
    assert!(said.contains("cannot attach"), "{said}");
    assert!(!is_open(&rig, "egress.service"));
}

/// A filter that is asked for while a service runs and is not there keeps nobody from stopping it, and counts once it is there.
#[test]
fn a_filter_that_comes_late_is_attached_and_what_ends_a_service_does_not_wait_for_it() {
    muster_lab::require!(Root, Cgroup2, Tool("perl"), Tool("bash"));
    let stop = "ExecStop=/bin/touch /run/stopped";
    let rig = boot(&[("late.service", ""), ("never.service", stop)]);
    let filter = format!("IPEgressFilterPath={CLOSED}");
    for unit in ["late.service", "never.service"] {
        rig.ok(&["start", unit]);
        rig.ok(&["set-property", "--runtime", unit, &filter]);
        assert!(is_open(&rig, unit), "{unit}");
    }
    rig.ok(&["stop", "never.service"]);
    run(&rig, &["test", "-e", "/run/stopped"]);
    run(&rig, &["perl", "/run/pin", CLOSED]);
    assert!(!is_open(&rig, "late.service"));
}

#[test]
fn a_program_that_is_not_there_is_missed_as_its_setting_says() {
    muster_lab::require!(Root, Cgroup2, Tool("perl"), Tool("bash"));
    let egress = format!("IPEgressFilterPath={CLOSED}");
    let any = format!("BPFProgram=egress:{CLOSED}\nBPFProgram=sysctl:/dev/null");
    let rig = boot(&[("egress.service", &egress), ("any.service", &any)]);

    // Nothing that is to be kept from talking runs without what keeps it from that.
    let failed = rig.sctl(&["start", "egress.service"]);
    assert!(!failed.status.success());
    assert_eq!(rig.property("egress.service", "Result"), "resources");
    let said = status(&rig, "egress.service");
    assert!(said.contains(CLOSED), "{said}");
    assert!(rig.named("sleep").is_empty());

    // Others begin without it, and say so.
    rig.ok(&["start", "any.service"]);
    assert!(is_open(&rig, "any.service"));
    let missed = format!("BPFProgram: cannot attach {CLOSED} as egress: No such file");
    let no_program = "BPFProgram: cannot attach /dev/null as sysctl: ";
    for text in [&*missed, no_program] {
        let said = status(&rig, "any.service");
        assert!(said.contains(text), "{text}: {said}");
        let logged = || {
            let lines = rig.ok(&["logs", "--unit", "any.service", "--output", "cat"]);
            lines.contains(&missed)
        };
        poll_until(TIME, "the log has it", logged);
    }
    // The next manager knows it too.
    let core = rig.core().unwrap();
    rig.kill(&core, Signal::KILL);
    rig.wait_for_another_core(&core, "a kill");
    let said = status(&rig, "any.service");
    assert!(
        said.contains(&missed) && said.contains(no_program),
        "{said}"
    );

    // Once it is there, so is what it holds.
    run(&rig, &["perl", "/run/pin", CLOSED]);
    rig.ok(&["start", "egress.service"]);
    assert!(!is_open(&rig, "egress.service"));
    rig.ok(&["restart", "any.service"]);
    assert!(!is_open(&rig, "any.service"));
}
