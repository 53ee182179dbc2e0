use muster_unit_file::fs::MemoryFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::HostFacts;

use super::*;

fn assessed(settings: &str) -> Assessment {
    let mut fs = MemoryFs::new();
    let text = format!("[Service]\nExecStart=/bin/true\n{settings}\n");
    fs.write("/etc/systemd/system/a.service", text.into_bytes());
    let facts = HostFacts::default();
    let mut loader = Loader::new(fs, SearchPath::system(), facts);
    let name = UnitName::new("a.service").expect("a name");
    assess(&loader.load(&name).config)
}

fn finding(settings: &str, setting: &str) -> (String, Option<Exposure>) {
    let all = assessed(settings).findings;
    let found = all.into_iter().find(|finding| finding.setting == setting);
    let found = found.expect("the setting is looked at");
    (found.text.into_owned(), found.exposure)
}

#[test]
fn a_service_that_says_nothing_is_unsafe() {
    let assessment = assessed("");
    assert_eq!(assessment.exposure.to_string(), "9.6");
    assert_eq!(assessment.level().as_str(), "UNSAFE");
}

/// Each protection on its own, with the figures of systemd 252.
#[test]
fn each_protection_counts_as_with_systemd() {
    for (settings, exposure) in [
        ("ProtectProc=noaccess", "9.5"),
        ("ProtectProc=invisible", "9.4"),
        ("ProtectSystem=yes", "9.5"),
        ("ProtectHome=tmpfs", "9.4"),
        ("SystemCallArchitectures=native x86", "9.5"),
        ("User=nobody", "9.5"),
        ("DevicePolicy=closed", "9.4"),
        ("DynamicUser=yes", "8.4"),
        ("IPAddressDeny=any", "9.4"),
        ("SystemCallFilter=@system-service", "8.2"),
        ("SystemCallFilter=~@mount", "9.4"),
        ("RestrictAddressFamilies=none", "8.9"),
        ("RestrictAddressFamilies=~AF_INET", "9.3"),
        ("PrivateDevices=yes", "9.0"),
    ] {
        let found = assessed(settings).exposure.to_string();
        assert_eq!(found, exposure, "{settings}");
    }
}

#[test]
fn a_finding_says_what_the_service_can_do() {
    let calls = "SystemCallFilter=~@mount";
    assert_eq!(
        finding("SystemCallFilter=@system-service", calls).0,
        "It cannot make system calls of @mount"
    );
    assert_eq!(
        finding("SystemCallFilter=~mount", calls).0,
        "It can make system calls of @mount, for example chroot"
    );
    assert_eq!(
        finding(
            "CapabilityBoundingSet=CAP_CHOWN",
            "CapabilityBoundingSet=~CAP_SYS_ADMIN"
        ),
        (
            "It cannot administer the machine".to_owned(),
            Some(Exposure(0))
        )
    );
    let groups = "SupplementaryGroups=";
    assert_eq!(finding("SupplementaryGroups=adm", groups).1, None);
    assert_eq!(
        finding("User=daemon\nSupplementaryGroups=adm", groups).0,
        "It is in further groups: adm"
    );
}

#[test]
fn what_exposes_most_comes_first() {
    let assessment = assessed("");
    assert_eq!(assessment.findings[0].setting, "PrivateNetwork=");
    let exposures = assessment.findings.iter().map(|finding| finding.exposure);
    assert!(exposures.is_sorted_by(|a, b| a >= b));
}

#[test]
fn a_service_with_everything_shut_is_safe() {
    let assessment = assessed(
        "DynamicUser=yes\nPrivateDevices=yes\nPrivateMounts=yes\nPrivateNetwork=yes\nPrivateUsers=yes\n\
         ProtectControlGroups=yes\nProtectKernelModules=yes\nProtectKernelTunables=yes\nProtectKernelLogs=yes\n\
         ProtectClock=yes\nProtectHome=yes\nProtectHostname=yes\nLockPersonality=yes\nMemoryDenyWriteExecute=yes\n\
         CapabilityBoundingSet=\nUMask=0077\nProtectProc=invisible\nProcSubset=pid\nRestrictRealtime=yes\n\
         RestrictNamespaces=yes\nRestrictAddressFamilies=none\nSystemCallArchitectures=native\n\
         SystemCallFilter=@basic-io\nIPAddressDeny=any\nRootDirectory=/srv/a",
    );
    let open: Vec<&str> = assessment
        .findings
        .iter()
        .filter(|finding| {
            finding
                .exposure
                .is_some_and(|exposure| exposure > Exposure(0))
        })
        .map(|finding| finding.setting)
        .collect();
    // The clock is protected by leaving its device readable.
    assert_eq!(open, ["DeviceAllow="]);
    assert_eq!(assessment.exposure.to_string(), "0.1");
    assert_eq!(assessment.level().as_str(), "SAFE");
}

#[test]
fn words_stand_for_ranges_of_exposure() {
    for (tenths, word) in [
        (0, "PERFECT"),
        (1, "SAFE"),
        (9, "SAFE"),
        (10, "OK"),
        (49, "OK"),
        (50, "MEDIUM"),
        (75, "EXPOSED"),
        (90, "UNSAFE"),
        (99, "UNSAFE"),
        (100, "DANGEROUS"),
    ] {
        assert_eq!(Level::of(Exposure(tenths)).as_str(), word, "{tenths}");
    }
}
