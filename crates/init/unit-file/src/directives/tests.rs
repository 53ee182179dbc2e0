use super::*;
use crate::config::{PrivateUsers, ProtectControlGroups};
use crate::load::{Loader, SearchPath};
use crate::name::UnitName;
use crate::specifier::HostFacts;

#[test]
fn no_section_has_a_directive_twice() {
    for (section, groups) in SECTIONS {
        let mut seen = std::collections::HashSet::new();
        for row in groups.iter().flat_map(|rows| rows.iter()) {
            assert!(seen.insert(row.name), "[{section}] {}", row.name);
        }
    }
}

/// What `systemd --dump-configuration-items` prints, without the value types: every directive of
/// systemd 252 by section, shared ones once.
const SYSTEMD_252: &str = include_str!("systemd-252.txt");

#[test]
fn every_directive_of_systemd_252_is_in_the_table() {
    let mut missing = Vec::new();
    let mut count = 0;
    for line in SYSTEMD_252.lines().filter(|line| !line.starts_with('#')) {
        let (sections, names) = line.split_once(':').unwrap();
        for section in sections.split_whitespace() {
            for name in names.split_whitespace() {
                count += 1;
                if lookup(section, name).is_none() {
                    missing.push(format!("[{section}] {name}"));
                }
            }
        }
    }
    assert_eq!(count, 1191);
    assert!(missing.is_empty(), "{missing:?}");
}

/// Feeds a value to every directive of the table.
fn feed(value: &str) {
    for kind in UnitType::ALL {
        let name = UnitName::new(&format!("a@b.{kind}")).unwrap();
        for (section, row) in table().filter(|(section, _)| has_section(kind, section)) {
            let mut fs = crate::fs::MemoryFs::new();
            fs.write(
                &format!("/u/a@.{kind}"),
                format!("[{section}]\n{}={value}\n", row.name),
            );
            let loaded = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default()).load(&name);
            assert_eq!(
                loaded.diagnostics.count(Problem::UnknownDirective),
                0,
                "{}",
                row.name
            );
        }
    }
}

#[test]
fn every_directive_takes_any_value_without_panic() {
    for value in [
        "",
        "yes",
        "1",
        "-1",
        "infinity",
        "/a /b",
        "~a b",
        "%i",
        "a:b:c",
        "'",
        "99999999999999999999",
        "50%",
        "\u{e9}",
    ] {
        feed(value);
    }
}

#[test]
fn musters_own_directives_are_typed() {
    let mut fs = crate::fs::MemoryFs::new();
    fs.write(
        "/u/a.service",
        "[Service]\nExecStart=/bin/a\nHealthCheckExec=/bin/check -q\nHealthCheckInterval=5\nHealthCheckTimeout=2s\nHealthCheckRetries=4\nHealthCheckStartPeriod=1min\nHealthCheckAction=restart\nHealthCheckReadiness=yes\n",
    );
    let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
    let loaded = loader.load(&UnitName::new("a.service").unwrap());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    let crate::config::UnitKind::Service(service) = &loaded.config.kind else {
        panic!("not a service")
    };
    assert_eq!(
        service.health.commands[0].argv.iter().collect::<Vec<_>>(),
        ["/bin/check", "-q"]
    );
    assert_eq!(service.health.interval.to_string(), "5s");
    assert_eq!(service.health.timeout.to_string(), "2s");
    assert_eq!(
        (
            service.health.retries,
            service.health.start_period.to_string()
        ),
        (4, "1min".to_owned())
    );
    assert_eq!(
        (service.health.action, service.health.readiness),
        (crate::config::HealthAction::Restart, true)
    );
}

#[test]
fn newer_kinds_of_a_protection_do_not_take_it_away() {
    let mut fs = crate::fs::MemoryFs::new();
    fs.write(
        "/u/a.service",
        "[Service]\nExecStart=/bin/a\nPrivateTmp=disconnected\nPrivateUsers=identity\nProtectControlGroups=strict\n",
    );
    let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
    let loaded = loader.load(&UnitName::new("a.service").unwrap());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    let sandbox = &loaded.config.exec.sandbox;
    assert!(sandbox.private_tmp);
    assert_eq!(sandbox.private_users, PrivateUsers::Identity);
    assert_eq!(sandbox.protect_control_groups, ProtectControlGroups::Strict);
}

/// The name that newer versions give the unit behind the protection is said to be missing, the protection is there.
#[test]
fn a_protected_host_name_is_protected_whatever_it_is_to_be() {
    let load = |value: &str| {
        let mut fs = crate::fs::MemoryFs::new();
        let text = format!("[Service]\nExecStart=/bin/a\nProtectHostname={value}\n");
        fs.write("/u/a.service", text);
        let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
        let loaded = loader.load(&UnitName::new("a.service").unwrap());
        let bad = loaded.diagnostics.count(Problem::BadValue);
        (loaded.config.exec.sandbox.protect_hostname, bad)
    };
    for (value, expected) in [
        ("yes", (true, 0)),
        ("private", (true, 0)),
        ("yes:box", (true, 1)),
        ("private:box", (true, 1)),
        ("no", (false, 0)),
        ("sometimes", (false, 1)),
    ] {
        assert_eq!(load(value), expected, "{value}");
    }
}

#[test]
fn architectures_that_there_are_not_are_named_and_allow_nothing() {
    let mut fs = crate::fs::MemoryFs::new();
    let text = "[Service]\nExecStart=/bin/a\nSystemCallArchitectures=native x86-46\n";
    fs.write("/u/a.service", text);
    let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
    let loaded = loader.load(&UnitName::new("a.service").unwrap());
    assert_eq!(loaded.diagnostics.count(Problem::BadValue), 1);
    let listed = &loaded.config.exec.sandbox.syscall_architectures;
    assert_eq!(listed.iter().collect::<Vec<_>>(), ["native", "x86-46"]);
}

#[test]
fn images_that_must_be_checked_are_not_mounted_unchecked() {
    let state = |lines: &str| {
        let mut fs = crate::fs::MemoryFs::new();
        fs.write(
            "/u/a.service",
            format!("[Service]\nExecStart=/bin/a\n{lines}\n"),
        );
        let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
        let loaded = loader.load(&UnitName::new("a.service").unwrap());
        let said: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
        (loaded.config.load_state, said.join("\n"))
    };
    use crate::config::LoadState::{BadSetting, Loaded};
    for (images, policy) in [
        ("RootImage=/a.raw", "RootImagePolicy"),
        ("ExtensionImages=/a.raw", "ExtensionImagePolicy"),
        ("MountImages=/a.raw:/mnt", "MountImagePolicy"),
    ] {
        let (refused, said) = state(&format!("{images}\n{policy}=root=verity+signed"));
        assert_eq!(refused, BadSetting, "{policy}: {said}");
        assert!(said.contains(&format!("{policy}= wants")), "{said}");
        assert_eq!(
            state(&format!("{images}\n{policy}=root=unprotected")).0,
            Loaded
        );
        assert_eq!(
            state(&format!("{policy}=root=verity")).0,
            Loaded,
            "no image"
        );
        let (forgiven, said) = state(&format!(
            "{images}\n{policy}=root=verity\nSandboxBestEffort=yes"
        ));
        assert_eq!(forgiven, Loaded);
        assert!(said.contains("which nobody checks"), "{said}");
    }
}

#[test]
fn a_forking_service_cannot_have_processes_of_its_own() {
    let load = |kind: &str| {
        let mut fs = crate::fs::MemoryFs::new();
        let text = format!("[Service]\nType={kind}\nExecStart=/bin/a\nPrivatePIDs=yes\n");
        fs.write("/u/a.service", text);
        let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
        loader.load(&UnitName::new("a.service").unwrap())
    };
    assert!(load("exec").diagnostics.is_empty());
    let forking = load("forking");
    assert_eq!(
        forking.config.load_state,
        crate::config::LoadState::BadSetting
    );
    let said: Vec<String> = forking
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(said[0].contains("PrivatePIDs=yes"), "{said:?}");
}

#[test]
fn directives_newer_than_systemd_252_are_typed() {
    let mut fs = crate::fs::MemoryFs::new();
    fs.write(
        "/u/a.service",
        "[Service]\nType=notify-reload\nExecStart=/bin/a\nReloadSignal=SIGUSR2\nRestartSec=1\nRestartSteps=5\nRestartMaxDelaySec=1min\nPrivatePIDs=yes\nSetLoginEnvironment=no\nImportCredential=net.*\nSandboxBestEffort=yes\n",
    );
    let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
    let loaded = loader.load(&UnitName::new("a.service").unwrap());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    let crate::config::UnitKind::Service(service) = &loaded.config.kind else {
        panic!("not a service")
    };
    assert_eq!(service.service_type().as_str(), "notify-reload");
    assert_eq!(service.notify_access().as_str(), "main");
    assert_eq!(service.reload_signal.to_string(), "SIGUSR2");
    assert_eq!(service.restart_steps, 5);
    assert_eq!(service.restart_max_delay.to_string(), "1min");
    let exec = &loaded.config.exec;
    assert_eq!(exec.set_login_environment, Some(false));
    assert!(exec.sandbox.private_pids && exec.sandbox.best_effort);
    assert!(exec.credentials.import.0.contains("net.*"));
}

/// Every directive is carried out but these. Whoever makes one of them real takes it off the list.
#[test]
fn what_has_no_effect_is_said_and_nothing_else() {
    const WITHOUT_EFFECT: &[&str] = &[
        "JobTimeoutRebootArgument",
        "LogNamespace",
        "ManagedOOMMemoryPressure",
        "ManagedOOMMemoryPressureLimit",
        "ManagedOOMPreference",
        "ManagedOOMSwap",
        "USBFunctionDescriptors",
        "USBFunctionStrings",
    ];
    const REFUSED: &[&str] = &[
        "LoadCredentialEncrypted",
        "RootHash",
        "RootHashSignature",
        "RootVerity",
        "SetCredentialEncrypted",
    ];
    let named = |is_named: fn(Status) -> bool| {
        let rows = table().filter(|(_, row)| is_named(row.status));
        let names: std::collections::BTreeSet<&str> = rows.map(|(_, row)| row.name).collect();
        names.into_iter().collect::<Vec<_>>()
    };
    let without = named(|status| matches!(status, Status::NotApplied(_)));
    assert_eq!(without, WITHOUT_EFFECT);
    let refused = named(|status| matches!(status, Status::Refused(_)));
    assert_eq!(refused, REFUSED);
}

#[test]
fn what_fails_the_start_is_said_with_the_reason() {
    let mut fs = crate::fs::MemoryFs::new();
    fs.write(
        "/u/a.service",
        "[Service]\nExecStart=/bin/a\nRootHash=abcd\nUtmpIdentifier=tty1\nUtmpMode=login\nLogNamespace=b\n",
    );
    let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
    let loaded = loader.load(&UnitName::new("a.service").unwrap());
    let said: Vec<(Severity, &str)> = loaded
        .diagnostics
        .iter()
        .map(|one| (one.severity, &*one.message))
        .collect();
    let expected = [
        (
            Severity::Warning,
            "RootHash= cannot be carried out, commands fail with it: images are not verified",
        ),
        (
            Severity::Note,
            "LogNamespace= is accepted, but has no effect yet: execution environment",
        ),
    ];
    assert_eq!(said, expected);
}

#[test]
fn programs_of_others_are_types_and_absolute_paths() {
    let mut fs = crate::fs::MemoryFs::new();
    fs.write(
        "/u/a.service",
        "[Service]\nExecStart=/bin/a\nBPFProgram=egress:/b/gone\nBPFProgram=\nBPFProgram=egress:/b//%N\n\
         BPFProgram=egress:/b/a\nBPFProgram=sysctl:/b/x y\nBPFProgram=nothing:/b/a\nBPFProgram=egress\n\
         BPFProgram=egress:a\nIPIngressFilterPath=/b/in\nIPIngressFilterPath=/b/./in\nIPIngressFilterPath=in\n\
         IPEgressFilterPath=/b/../out\n",
    );
    let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
    let loaded = loader.load(&UnitName::new("a.service").unwrap());
    let resources = &loaded.config.resources;
    let programs: Vec<&str> = resources.bpf_program.iter().collect();
    assert_eq!(programs, ["egress:/b/a", "sysctl:/b/x y"]);
    let incoming: Vec<&str> = resources.ip_ingress_filter_path.iter().collect();
    assert_eq!(incoming, ["/b/in"]);
    assert!(resources.ip_egress_filter_path.is_empty());
    assert_eq!(loaded.diagnostics.count(Problem::BadValue), 5);
}
