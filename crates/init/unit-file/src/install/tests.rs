use super::*;
use crate::fs::MemoryFs;
use proptest::prelude::*;

const LIB: &str = "/usr/lib/systemd/system";
const ETC: &str = "/etc/systemd/system";
const SERVICE: &str = "[Service]\nExecStart=/bin/true\n";

fn machine() -> MemoryFs {
    let mut fs = MemoryFs::new();
    let service = |install: &str| format!("{SERVICE}[Install]\n{install}\n");
    fs.write(
        &format!("{LIB}/a.service"),
        service("WantedBy=multi-user.target\nAlias=b.service\nAlso=c.socket"),
    )
    .write(
        &format!("{LIB}/c.socket"),
        "[Socket]\nListenStream=1\n[Install]\nWantedBy=sockets.target\nRequiredBy=x.target\n",
    )
    .write(
        &format!("{LIB}/g@.service"),
        service("WantedBy=getty.target\nDefaultInstance=tty1"),
    )
    .write(
        &format!("{LIB}/n@.service"),
        service("WantedBy=multi-user.target"),
    )
    .write(&format!("{LIB}/static.service"), SERVICE)
    .write(&format!("{LIB}/ind.service"), service("Also=a.service"))
    .write(&format!("{LIB}/multi-user.target"), "[Unit]\n")
    .write(&format!("{LIB}/graphical.target"), "[Unit]\n")
    .write("/opt/l.service", service("WantedBy=multi-user.target"))
    .write(
        "/usr/lib/systemd/system-preset/90.preset",
        "enable a.service\ndisable *\n",
    );
    fs
}

fn name(text: &str) -> UnitName {
    UnitName::new(text).unwrap()
}

fn names(list: &[&str]) -> Vec<UnitName> {
    list.iter().map(|text| name(text)).collect()
}

fn installer(fs: &MemoryFs) -> Installer<'_, MemoryFs> {
    Installer::new(fs, InstallPaths::default(), HostFacts::default())
}

fn shown(plan: &Plan) -> Vec<String> {
    plan.changes.iter().map(ToString::to_string).collect()
}

const PERSISTENT: InstallOptions = InstallOptions {
    runtime: false,
    force: false,
};
const RUNTIME: InstallOptions = InstallOptions {
    runtime: true,
    force: false,
};

#[test]
fn enabling_makes_links_and_says_so() {
    let fs = machine();
    let mut installer = installer(&fs);
    let plan = installer
        .enable(&names(&["a.service"]), PERSISTENT)
        .unwrap();
    assert_eq!(
        shown(&plan),
        [
            "Created symlink /etc/systemd/system/b.service \u{2192} /usr/lib/systemd/system/a.service.",
            "Created symlink /etc/systemd/system/multi-user.target.wants/a.service \u{2192} /usr/lib/systemd/system/a.service.",
            "Created symlink /etc/systemd/system/sockets.target.wants/c.socket \u{2192} /usr/lib/systemd/system/c.socket.",
            "Created symlink /etc/systemd/system/x.target.requires/c.socket \u{2192} /usr/lib/systemd/system/c.socket.",
        ]
    );
    assert_eq!(plan.notes.len(), 2, "{:?}", plan.notes);
    assert!(plan.carries_install_info);
    assert!(
        installer
            .enable(&names(&["a.service"]), PERSISTENT)
            .unwrap()
            .changes
            .is_empty()
    );
    let states: Vec<_> = [
        "a.service",
        "b.service",
        "c.socket",
        "static.service",
        "ind.service",
        "g@.service",
        "n@.service",
    ]
    .map(|unit| installer.state(&name(unit)).unwrap().as_str())
    .into();
    assert_eq!(
        states,
        [
            "enabled", "alias", "enabled", "static", "indirect", "disabled", "disabled"
        ]
    );
    assert_eq!(installer.state(&name("nothing.service")), None);
    let plan = installer
        .disable(&names(&["a.service"]), PERSISTENT)
        .unwrap();
    assert_eq!(plan.changes.len(), 4);
    assert_eq!(
        installer.state(&name("a.service")),
        Some(UnitFileState::Disabled)
    );
}

#[test]
fn templates_are_enabled_as_instances() {
    let fs = machine();
    let mut installer = installer(&fs);
    let plan = installer
        .enable(&names(&["g@.service"]), PERSISTENT)
        .unwrap();
    assert_eq!(
        shown(&plan),
        [
            "Created symlink /etc/systemd/system/getty.target.wants/g@tty1.service \u{2192} /usr/lib/systemd/system/g@.service."
        ]
    );
    assert_eq!(
        installer.state(&name("g@.service")),
        Some(UnitFileState::Enabled)
    );
    assert_eq!(
        installer.state(&name("g@tty1.service")),
        Some(UnitFileState::Enabled)
    );
    let refused = installer
        .enable(&names(&["n@.service"]), PERSISTENT)
        .unwrap_err();
    assert!(matches!(
        refused,
        InstallError::TemplateNeedsInstance { .. }
    ));
    installer
        .enable(&names(&["n@x.service"]), PERSISTENT)
        .unwrap();
    assert_eq!(
        installer.state(&name("n@x.service")),
        Some(UnitFileState::Enabled)
    );
    assert_eq!(
        installer.state(&name("n@.service")),
        Some(UnitFileState::Indirect)
    );
    assert_eq!(
        installer
            .disable(&names(&["n@x.service"]), PERSISTENT)
            .unwrap()
            .changes
            .len(),
        1
    );
    assert_eq!(
        installer
            .disable(&names(&["g@.service"]), PERSISTENT)
            .unwrap()
            .changes
            .len(),
        1
    );
}

#[test]
fn masks_come_and_go() {
    let mut fs = machine();
    fs.write(&format!("{ETC}/own.service"), SERVICE);
    let mut installer = installer(&fs);
    let unit = names(&["a.service"]);
    assert_eq!(
        shown(&installer.mask(&unit, PERSISTENT).unwrap()),
        ["Created symlink /etc/systemd/system/a.service \u{2192} /dev/null."]
    );
    assert_eq!(installer.state(&unit[0]), Some(UnitFileState::Masked));
    assert!(matches!(
        installer.enable(&unit, PERSISTENT),
        Err(InstallError::Masked { .. })
    ));
    assert_eq!(
        shown(&installer.unmask(&unit, PERSISTENT).unwrap()),
        ["Removed \"/etc/systemd/system/a.service\"."]
    );
    assert!(
        installer
            .unmask(&unit, PERSISTENT)
            .unwrap()
            .changes
            .is_empty()
    );
    installer.mask(&unit, RUNTIME).unwrap();
    assert_eq!(
        installer.state(&unit[0]),
        Some(UnitFileState::MaskedRuntime)
    );
    let own = installer
        .mask(&names(&["own.service"]), PERSISTENT)
        .unwrap_err();
    assert_eq!(
        own.to_string(),
        "file \"/etc/systemd/system/own.service\" already exists"
    );
}

#[test]
fn runtime_links_are_kept_apart() {
    let fs = machine();
    let mut installer = installer(&fs);
    let unit = names(&["a.service"]);
    installer.enable(&unit, RUNTIME).unwrap();
    assert_eq!(
        installer.state(&unit[0]),
        Some(UnitFileState::EnabledRuntime)
    );
    assert!(
        installer
            .disable(&unit, PERSISTENT)
            .unwrap()
            .changes
            .is_empty()
    );
    assert_eq!(installer.disable(&unit, RUNTIME).unwrap().changes.len(), 4);
}

#[test]
fn files_from_elsewhere_are_linked() {
    let fs = machine();
    let mut installer = installer(&fs);
    let unit = names(&["l.service"]);
    assert_eq!(
        shown(
            &installer
                .link_files(&["/opt/l.service"], PERSISTENT)
                .unwrap()
        ),
        ["Created symlink /etc/systemd/system/l.service \u{2192} /opt/l.service."]
    );
    assert_eq!(installer.state(&unit[0]), Some(UnitFileState::Linked));
    assert_eq!(
        shown(&installer.enable(&unit, PERSISTENT).unwrap()),
        [
            "Created symlink /etc/systemd/system/multi-user.target.wants/l.service \u{2192} /opt/l.service."
        ]
    );
    assert_eq!(installer.state(&unit[0]), Some(UnitFileState::Enabled));
    assert_eq!(
        installer.disable(&unit, PERSISTENT).unwrap().changes.len(),
        2
    );
    for bad in ["relative.service", "/opt/missing.service", "/opt"] {
        assert!(
            matches!(
                installer.link_files(&[bad], PERSISTENT),
                Err(InstallError::BadPath { .. })
            ),
            "{bad}"
        );
    }
}

#[test]
fn the_default_target_is_a_link() {
    let fs = machine();
    let mut installer = installer(&fs);
    assert_eq!(installer.default_target(), Err(InstallError::NoDefault));
    installer.set_default(&name("graphical.target")).unwrap();
    assert_eq!(installer.default_target(), Ok(name("graphical.target")));
    assert_eq!(
        installer
            .set_default(&name("multi-user.target"))
            .unwrap()
            .changes
            .len(),
        2
    );
    assert_eq!(installer.default_target(), Ok(name("multi-user.target")));
    assert!(installer.set_default(&name("a.service")).is_err());
}

#[test]
fn presets_enable_and_disable() {
    let fs = machine();
    let mut installer = installer(&fs);
    installer
        .enable(&names(&["g@.service"]), PERSISTENT)
        .unwrap();
    let plan = installer.preset_all(PresetMode::Full, PERSISTENT).unwrap();
    assert_eq!(
        plan.changes
            .iter()
            .filter(|change| matches!(change, Change::Remove { .. }))
            .count(),
        1
    );
    assert_eq!(
        installer.state(&name("a.service")),
        Some(UnitFileState::Enabled)
    );
    assert_eq!(
        installer.state(&name("g@.service")),
        Some(UnitFileState::Disabled)
    );
    let plan = installer
        .preset(&names(&["a.service"]), PresetMode::DisableOnly, PERSISTENT)
        .unwrap();
    assert!(plan.changes.is_empty());
}

#[test]
fn revert_takes_the_administrators_changes_away() {
    let mut fs = machine();
    fs.write(&format!("{ETC}/a.service"), SERVICE)
        .write(&format!("{ETC}/a.service.d/x.conf"), "[Unit]\n")
        .write(&format!("{ETC}/own.service"), SERVICE);
    let mut installer = installer(&fs);
    let plan = installer
        .revert(&names(&["a.service", "own.service"]))
        .unwrap();
    assert_eq!(
        shown(&plan),
        [
            "Removed \"/etc/systemd/system/a.service.d\".",
            "Removed \"/etc/systemd/system/a.service\"."
        ]
    );
    assert_eq!(
        installer.state(&name("a.service")),
        Some(UnitFileState::Disabled)
    );
}

#[test]
fn dependencies_are_added_and_aliases_refused() {
    let fs = machine();
    let mut installer = installer(&fs);
    let plan = installer
        .add_dependency(
            &name("multi-user.target"),
            &names(&["static.service"]),
            false,
            PERSISTENT,
        )
        .unwrap();
    assert_eq!(plan.changes.len(), 1);
    assert_eq!(
        installer.state(&name("static.service")),
        Some(UnitFileState::Enabled)
    );
    installer
        .enable(&names(&["a.service"]), PERSISTENT)
        .unwrap();
    assert!(matches!(
        installer.enable(&names(&["b.service"]), PERSISTENT),
        Err(InstallError::Alias { .. })
    ));
    assert!(matches!(
        installer.enable(&names(&["zz.service"]), PERSISTENT),
        Err(InstallError::NotFound { .. })
    ));
    assert!(
        !installer
            .enable(&names(&["static.service"]), PERSISTENT)
            .unwrap()
            .carries_install_info
    );
}

#[test]
fn what_is_in_the_way_needs_force() {
    let mut fs = machine();
    fs.link(&format!("{ETC}/b.service"), "/opt/l.service");
    let mut installer = installer(&fs);
    let unit = names(&["a.service"]);
    assert!(matches!(
        installer.enable(&unit, PERSISTENT),
        Err(InstallError::LinkExists { .. })
    ));
    assert_eq!(
        installer.state(&unit[0]),
        Some(UnitFileState::Disabled),
        "a refused request changes nothing"
    );
    let forced = InstallOptions {
        force: true,
        ..PERSISTENT
    };
    assert_eq!(installer.enable(&unit, forced).unwrap().changes.len(), 5);
}

#[test]
fn a_folder_with_two_names_is_one_folder() {
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("usr/lib/systemd/system");
    std::fs::create_dir_all(&units).unwrap();
    std::fs::create_dir_all(root.path().join("etc/systemd/system")).unwrap();
    std::os::unix::fs::symlink("usr/lib", root.path().join("lib")).unwrap();
    std::fs::write(
        units.join("a.service"),
        format!("{SERVICE}[Install]\nAlias=b.service\n"),
    )
    .unwrap();
    let old = root.path().join("etc/systemd/system/b.service");
    std::os::unix::fs::symlink("/lib/systemd/system/a.service", old).unwrap();
    let fs = crate::fs::RealFs::with_root(root.path());
    let mut installer = Installer::new(&fs, InstallPaths::default(), HostFacts::default());
    assert_eq!(
        installer.state(&name("a.service")),
        Some(UnitFileState::Enabled)
    );
    assert_eq!(
        installer.state(&name("b.service")),
        Some(UnitFileState::Alias)
    );
    assert!(
        installer
            .enable(&names(&["a.service"]), PERSISTENT)
            .unwrap()
            .changes
            .is_empty()
    );
    assert_eq!(
        installer
            .disable(&names(&["a.service"]), PERSISTENT)
            .unwrap()
            .changes
            .len(),
        1
    );
}

proptest! {
    /// Whatever the order of requests: enabling twice changes nothing the second time, what is enabled
    /// says so, and disabling all leaves no link behind.
    #[test]
    fn requests_are_idempotent_and_can_be_undone(
        picks in prop::collection::vec((0usize..7, any::<bool>(), 0usize..4), 1..12),
    ) {
        let all = ["a.service", "c.socket", "g@.service", "n@x.service", "static.service", "ind.service", "g@tty5.service"];
        let fs = machine();
        let mut installer = installer(&fs);
        for (pick, runtime, verb) in picks {
            let unit = names(&[all[pick]]);
            let options = InstallOptions { runtime, force: true };
            let request = |installer: &mut Installer<'_, MemoryFs>| match verb {
                0 | 1 => installer.enable(&unit, options),
                2 => installer.disable(&unit, options),
                _ => installer.preset(&unit, PresetMode::Full, options),
            };
            request(&mut installer).unwrap();
            prop_assert!(request(&mut installer).unwrap().changes.is_empty());
            if verb < 2 && !matches!(all[pick], "static.service" | "ind.service") {
                let state = installer.state(&unit[0]).unwrap();
                prop_assert!(matches!(state, UnitFileState::Enabled | UnitFileState::EnabledRuntime), "{:?}", state);
            }
        }
        for runtime in [false, true] {
            installer.disable(&names(&all), InstallOptions { runtime, force: false }).unwrap();
        }
        for unit in ["a.service", "c.socket", "g@.service", "n@.service"] {
            prop_assert_eq!(installer.state(&name(unit)), Some(UnitFileState::Disabled));
        }
        let left = installer.fs().overlay().into_values().flatten().count();
        prop_assert_eq!(left, 0);
    }
}

#[test]
fn an_alias_of_its_own_name_is_no_link() {
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("lib/systemd/system");
    std::fs::create_dir_all(&units).unwrap();
    let text = format!("{SERVICE}[Install]\nAlias=a.service b.service\n");
    std::fs::write(units.join("a.service"), text).unwrap();
    let fs = crate::fs::RealFs::with_root(root.path());
    let mut installer = Installer::new(&fs, InstallPaths::default(), HostFacts::default());
    let plan = installer
        .enable(&names(&["a.service"]), PERSISTENT)
        .unwrap();
    assert_eq!(plan.changes.len(), 1, "{plan:?}");
}

#[test]
fn an_instance_of_an_alias_is_one_instance() {
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("lib/systemd/system");
    std::fs::create_dir_all(&units).unwrap();
    let text = format!("{SERVICE}[Install]\nAlias=b@.service\nWantedBy=x.target\n");
    std::fs::write(units.join("a@.service"), text).unwrap();
    std::fs::write(units.join("x.target"), "[Unit]\n").unwrap();
    let fs = crate::fs::RealFs::with_root(root.path());
    let mut installer = Installer::new(&fs, InstallPaths::default(), HostFacts::default());
    installer
        .enable(&names(&["a@x.service", "a@y.service"]), PERSISTENT)
        .unwrap();
    installer
        .disable(&names(&["b@x.service"]), PERSISTENT)
        .unwrap();
    assert_eq!(
        installer.state(&name("a@y.service")),
        Some(UnitFileState::Enabled)
    );
    assert_eq!(
        installer.state(&name("a@x.service")),
        Some(UnitFileState::Disabled)
    );
}
