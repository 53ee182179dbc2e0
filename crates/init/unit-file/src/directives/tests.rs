use super::*;
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
fn directives_newer_than_systemd_252_are_typed() {
    let mut fs = crate::fs::MemoryFs::new();
    fs.write(
        "/u/a.service",
        "[Service]\nType=notify-reload\nExecStart=/bin/a\nReloadSignal=SIGUSR2\nRestartSec=1\nRestartSteps=5\nRestartMaxDelaySec=1min\n",
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
}
