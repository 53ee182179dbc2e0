use super::*;
use crate::config::CommandPhase;
use crate::fs::MemoryFs;

const ETC: &str = "/etc/systemd/system";
const LIB: &str = "/usr/lib/systemd/system";
const SERVICE: &str = "[Service]\nExecStart=/bin/true\n";

fn name(text: &str) -> UnitName {
    UnitName::new(text).unwrap()
}

fn loader(fs: &MemoryFs) -> Loader<MemoryFs> {
    Loader::new(fs.clone(), SearchPath::system(), HostFacts::default())
}

fn load(fs: &MemoryFs, unit: &str) -> UnitConfig {
    loader(fs).load(&name(unit)).config
}

fn names(list: &[UnitName]) -> Vec<&str> {
    list.iter().map(UnitName::as_str).collect()
}

#[test]
fn the_first_folder_of_the_search_path_wins() {
    let mut fs = MemoryFs::new();
    fs.write(
        &format!("{LIB}/a.service"),
        "[Unit]\nDescription=lib\n[Service]\nExecStart=/bin/true\n",
    );
    assert_eq!(load(&fs, "a.service").description.as_deref(), Some("lib"));
    fs.write(
        &format!("{ETC}/a.service"),
        "[Unit]\nDescription=etc\n[Service]\nExecStart=/bin/true\n",
    );
    assert_eq!(load(&fs, "a.service").description.as_deref(), Some("etc"));
    fs.write(
        "/usr/lib/muster/units/a.service",
        "[Unit]\nDescription=own\n[Service]\nExecStart=/bin/true\n",
    );
    let unit = load(&fs, "a.service");
    assert_eq!(unit.description.as_deref(), Some("own"));
    assert_eq!(
        unit.fragment.as_deref(),
        Some("/usr/lib/muster/units/a.service")
    );
    assert_eq!(load(&fs, "b.service").load_state, LoadState::NotFound);
    assert_eq!(load(&fs, "b.slice").load_state, LoadState::Loaded);
}

#[test]
fn aliases_are_links_inside_the_search_path() {
    let mut fs = MemoryFs::new();
    fs.write(&format!("{LIB}/a.service"), SERVICE)
        .link(
            &format!("{ETC}/b.service"),
            "/usr/lib/systemd/system/a.service",
        )
        .link(&format!("{ETC}/c.service"), "b.service")
        .link(
            &format!("{ETC}/bad.socket"),
            "/usr/lib/systemd/system/a.service",
        )
        .link(
            &format!("{ETC}/bad@.service"),
            "/usr/lib/systemd/system/a.service",
        )
        .write("/opt/linked.service", SERVICE)
        .link(&format!("{ETC}/linked.service"), "/opt/linked.service");
    for alias in ["a.service", "b.service", "c.service"] {
        let unit = load(&fs, alias);
        assert_eq!(unit.name.as_str(), "a.service");
        assert_eq!(names(&unit.aliases), ["b.service", "c.service"]);
        assert_eq!(unit.load_state, LoadState::Loaded);
    }
    let linked = load(&fs, "linked.service");
    assert_eq!(linked.load_state, LoadState::Loaded);
    assert_eq!(
        linked.fragment.as_deref(),
        Some("/etc/systemd/system/linked.service")
    );
    let loader = loader(&fs);
    assert_eq!(loader.problems().count(Problem::File), 2);
    assert!(!loader.index().contains(&name("bad.socket")));
}

#[test]
fn masks_are_empty_files_and_links_to_the_null_device() {
    let mut fs = MemoryFs::new();
    fs.write(&format!("{LIB}/a.service"), SERVICE)
        .link(&format!("{ETC}/a.service"), "/dev/null")
        .write(&format!("{LIB}/b.service"), SERVICE)
        .write(&format!("{ETC}/b.service"), "");
    assert_eq!(load(&fs, "a.service").load_state, LoadState::Masked);
    assert_eq!(load(&fs, "b.service").load_state, LoadState::Masked);
}

#[test]
fn templates_are_loaded_as_instances() {
    let mut fs = MemoryFs::new();
    fs.write(
        &format!("{LIB}/a@.service"),
        "[Unit]\nRequires=b@.service %j@x.service\n[Service]\nExecStart=/bin/a %i\n",
    )
    .link(&format!("{LIB}/alias@.service"), "a@.service")
    .write(
        &format!("{ETC}/a@own.service"),
        "[Service]\nExecStart=/bin/own\n",
    );
    let unit = load(&fs, "a@x.service");
    let UnitKind::Service(service) = &unit.kind else {
        panic!("not a service")
    };
    let argv = service.commands(CommandPhase::Start).next().unwrap();
    assert_eq!(argv.argv.iter().collect::<Vec<_>>(), ["/bin/a", "x"]);
    assert_eq!(names(&unit.aliases), ["alias@x.service"]);
    let requires: Vec<_> = unit
        .dependencies(DependencyKind::Requires)
        .map(UnitName::as_str)
        .collect();
    assert_eq!(requires, ["b@x.service", "a@x.service"]);
    assert_eq!(load(&fs, "alias@x.service").name.as_str(), "a@x.service");
    assert_eq!(
        load(&fs, "a@own.service").fragment.as_deref(),
        Some("/etc/systemd/system/a@own.service")
    );
}

#[test]
fn drop_ins_come_from_all_names_and_are_sorted_by_file_name() {
    let mut fs = MemoryFs::new();
    let file = |text: &str| format!("[Unit]\nDescription={text}\n");
    fs.write(&format!("{LIB}/foo-bar@.service"), SERVICE);
    for folder in [
        "service.d",
        "foo-.service.d",
        "foo-bar@.service.d",
        "foo-bar@x.service.d",
    ] {
        fs.write(&format!("{LIB}/{folder}/10-a.conf"), file(folder));
        fs.write(&format!("{LIB}/{folder}/20-{folder}.conf"), file("own"));
        fs.write(&format!("{LIB}/{folder}/ignored.txt"), "x");
    }
    fs.write(&format!("{ETC}/foo-.service.d/30.conf"), file("last"));
    let shown = |fs: &MemoryFs| -> Vec<String> {
        let unit = load(fs, "foo-bar@x.service");
        let strip = |path: &Arc<str>| path.rsplit('/').take(2).collect::<Vec<_>>().join(" ");
        unit.drop_ins.iter().map(strip).collect()
    };
    let rest = [
        "20-foo-.service.d.conf foo-.service.d",
        "20-foo-bar@.service.d.conf foo-bar@.service.d",
        "20-foo-bar@x.service.d.conf foo-bar@x.service.d",
        "20-service.d.conf service.d",
        "30.conf foo-.service.d",
    ];
    assert_eq!(shown(&fs)[0], "10-a.conf foo-bar@x.service.d");
    assert_eq!(shown(&fs)[1..], rest);
    assert_eq!(
        load(&fs, "foo-bar@x.service").description.as_deref(),
        Some("last")
    );
    // The folder of the search path counts before the name: this is what systemd 252 does.
    fs.write(&format!("{ETC}/foo-.service.d/10-a.conf"), file("etc"));
    assert_eq!(shown(&fs)[0], "10-a.conf foo-.service.d");
    fs.link(&format!("{ETC}/foo-.service.d/10-a.conf"), "/dev/null");
    assert_eq!(shown(&fs), rest);
}

#[test]
fn lists_append_across_files_and_are_reset_by_an_empty_value() {
    let mut fs = MemoryFs::new();
    fs.write(
        &format!("{LIB}/a.service"),
        "[Service]\nExecStart=/bin/one\nEnvironment=A=1 B=2\n",
    )
    .write(
        &format!("{ETC}/a.service.d/x.conf"),
        "[Service]\nExecStart=\nExecStart=/bin/two\nEnvironment=B=3\n",
    );
    let unit = load(&fs, "a.service");
    let UnitKind::Service(service) = &unit.kind else {
        panic!("not a service")
    };
    let programs: Vec<_> = service
        .commands(CommandPhase::Start)
        .map(|c| &*c.path)
        .collect();
    assert_eq!(programs, ["/bin/two"]);
    assert_eq!(
        unit.exec.environment.iter().collect::<Vec<_>>(),
        [("A", "1"), ("B", "3")]
    );
}

#[test]
fn dependency_folders_add_dependencies() {
    let mut fs = MemoryFs::new();
    fs.write(&format!("{LIB}/a.target"), "[Unit]\nWants=c.service\n")
        .link(
            &format!("{ETC}/a.target.wants/c.service"),
            "/usr/lib/systemd/system/c.service",
        )
        .link(&format!("{LIB}/a.target.wants/d@.service"), "../d@.service")
        .link(
            &format!("{LIB}/a.target.wants/masked.service"),
            "../masked.service",
        )
        .link(&format!("{ETC}/a.target.wants/masked.service"), "/dev/null")
        .link(
            &format!("{LIB}/a.target.requires/r.service"),
            "../r.service",
        )
        .link(&format!("{LIB}/a.target.upholds/u.service"), "../u.service")
        .link(&format!("{LIB}/a.target.wants/nonsense"), "../nonsense");
    let loaded = loader(&fs).load(&name("a.target"));
    let of = |kind| {
        loaded
            .config
            .dependencies(kind)
            .map(UnitName::as_str)
            .collect::<Vec<_>>()
    };
    assert_eq!(of(DependencyKind::Wants), ["c.service", "d@a.service"]);
    assert_eq!(of(DependencyKind::Requires), ["r.service"]);
    assert_eq!(of(DependencyKind::Upholds), ["u.service"]);
    assert_eq!(loaded.diagnostics.count(Problem::File), 1);
}

#[test]
fn what_is_wrong_is_reported_with_file_and_line() {
    let mut fs = MemoryFs::new();
    fs.write(
        &format!("{LIB}/a.service"),
        "[Unit]\nDescrption=x\nExecStart=/bin/x\nX-Own=1\n[Service]\nExecStart=/bin/true\nNice=99\nLogNamespace=x\nAfter=b\n[X-Other]\na=b\n[Timer]\nOnBootSec=1\n",
    );
    let loaded = loader(&fs).load(&name("a.service"));
    let shown: Vec<_> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    let at = |line: u32, text: &str| {
        let start = format!("{LIB}/a.service:{line}: ");
        assert!(
            shown
                .iter()
                .any(|d| d.starts_with(&start) && d.contains(text)),
            "{line} {text}: {shown:#?}"
        );
    };
    at(2, "unknown directive Descrption=");
    at(3, "belongs into section [Service]");
    at(7, "Nice= is ignored");
    at(8, "has no effect yet: execution environment");
    at(9, "belongs into section [Unit]");
    at(12, "has no section [Timer]");
    assert_eq!(shown.len(), 6);
    assert_eq!(loaded.config.load_state, LoadState::Loaded);
    assert_eq!(loaded.diagnostics.count(Problem::UnknownDirective), 3);
}

#[test]
fn units_that_make_no_sense_are_refused() {
    let cases = [
        ("a.service", "[Service]\n"),
        ("a.service", "[Service]\nExecStart=/a\nExecStart=/b\n"),
        (
            "a.service",
            "[Service]\nType=oneshot\nExecStart=/a\nRestart=always\n",
        ),
        ("a.service", "[Service]\nType=dbus\nExecStart=/a\n"),
        ("a.service", "[Service]\nExecStart=relative/path\n"),
        ("a.service", "[Service]\nExecStart=/a\nUser=a:b\n"),
        ("a.socket", "[Socket]\nAccept=yes\n"),
        ("a.timer", "[Timer]\nPersistent=yes\n"),
        ("a.path", "[Path]\nMakeDirectory=yes\n"),
        ("a.mount", "[Mount]\nWhat=/dev/x\nWhere=/b\n"),
        ("a.mount", "[Mount]\nWhere=/a\n"),
        ("a.swap", "[Swap]\nWhat=/b\n"),
        ("a--b.slice", "[Unit]\nDescription=x\n"),
        ("a.scope", "[Scope]\nTimeoutStopSec=1\n"),
    ];
    for (unit, text) in cases {
        let mut fs = MemoryFs::new();
        fs.write(&format!("{LIB}/{unit}"), text);
        let loaded = loader(&fs).load(&name(unit));
        assert_eq!(loaded.config.load_state, LoadState::BadSetting, "{text}");
        assert!(
            loaded
                .diagnostics
                .iter()
                .any(|d| d.severity == Severity::Error),
            "{text}"
        );
    }
    let mut fs = MemoryFs::new();
    fs.write(&format!("{LIB}/a.service"), "[Service\nExecStart=/a\n");
    assert_eq!(load(&fs, "a.service").load_state, LoadState::Error);
}

#[test]
fn a_scope_may_have_a_file_only_where_the_manager_makes_units() {
    let mut fs = MemoryFs::new();
    fs.write(
        "/run/muster/units/transient/a.scope",
        "[Scope]\nRuntimeMaxSec=5\n",
    );
    let path = SearchPath::new(["/run/muster/units/transient", LIB]);
    let mut loader = Loader::new(fs, path, HostFacts::default());
    let loaded = loader.load(&name("a.scope"));
    assert_eq!(loaded.config.load_state, LoadState::Loaded);
}

#[test]
fn a_reload_reads_only_what_changed() {
    let mut fs = MemoryFs::new();
    fs.write(&format!("{LIB}/a.service"), SERVICE)
        .write(&format!("{LIB}/b.service"), SERVICE);
    let mut loader = loader(&fs);
    let (a, b) = (name("a.service"), name("b.service"));
    let mut known = loader.load(&a).fingerprint;
    let other = loader.load(&b).fingerprint;
    assert!(loader.load_if_changed(&a, known).is_none());
    type Change = fn(&mut MemoryFs);
    let changes: [Change; 5] = [
        |fs| {
            fs.write(
                &format!("{LIB}/a.service"),
                "[Service]\nExecStart=/bin/false\n",
            );
        },
        |fs| {
            fs.write(&format!("{ETC}/a.service.d/x.conf"), "[Unit]\n");
        },
        |fs| {
            fs.write(
                &format!("{ETC}/a.service.d/x.conf"),
                "[Unit]\nDescription=x\n",
            );
        },
        |fs| {
            fs.link(&format!("{ETC}/a.service.wants/b.service"), "../b.service");
        },
        |fs| {
            fs.link(
                &format!("{ETC}/alias.service"),
                "/usr/lib/systemd/system/a.service",
            );
        },
    ];
    for change in changes {
        change(loader.fs_mut());
        loader.rescan();
        let loaded = loader
            .load_if_changed(&a, known)
            .expect("the change is seen");
        assert_ne!(loaded.fingerprint, known);
        known = loaded.fingerprint;
        assert!(
            loader.load_if_changed(&b, other).is_none(),
            "the other unit is not read again"
        );
    }
}

#[test]
fn loading_twice_gives_the_same_unit() {
    let mut fs = MemoryFs::new();
    fs.write(
        &format!("{LIB}/a.service"),
        "[Unit]\nAfter=b.target b.target\n[Service]\nExecStart=/bin/a\nNice=5\n",
    );
    let mut loader = loader(&fs);
    let first = loader.load(&name("a.service"));
    assert_eq!(first.config, loader.load(&name("a.service")).config);
    assert_eq!(
        first.config.dependencies.len(),
        1,
        "doubled dependencies count once"
    );
}

#[test]
fn time_grows_with_the_length_not_its_square() {
    let lines = [
        ("[Unit]", "After=a%.target\n"),
        ("[Unit]", "ConditionPathExists=/%\nAssertHost=\n"),
        ("[Service]", "Environment=A%=1\n"),
        ("[Service]", "ExecStartPre=/bin/%\nExecStart=\n"),
        ("[Service]", "IPAddressAllow=10.%.0.0/16\n"),
        ("[Service]", "IOReadBandwidthMax=/dev/% 1M\n"),
        ("[Service]", "Unknown%=1\n"),
        ("[Service]", "LimitNOFILE=%\n"),
        ("[Service]", "SystemCallFilter=~a%\n"),
    ];
    for (section, line) in lines {
        let mut text = format!("{section}\n");
        for n in 0..60_000 {
            text.push_str(&line.replace('%', &(n % 250).to_string()));
        }
        let mut fs = MemoryFs::new();
        fs.write(&format!("{LIB}/a.service"), text);
        let started = std::time::Instant::now();
        load(&fs, "a.service");
        // A quadratic step needs minutes for this.
        let took = started.elapsed();
        assert!(
            took < std::time::Duration::from_secs(20),
            "{line} took {took:?}"
        );
    }
}

#[test]
fn a_file_that_is_told_of_is_as_good_as_one_that_a_scan_found() {
    const FOLDER: &str = "/run/systemd/transient";
    let mut fs = MemoryFs::new();
    fs.write(&format!("{LIB}/a.service"), SERVICE);
    let mut told = loader(&fs);
    let (unit, file) = (name("b.service"), format!("{FOLDER}/b.service"));
    assert_eq!(told.load(&unit).config.load_state, LoadState::NotFound);
    told.fs_mut().write(&file, SERVICE);
    told.file_made(&unit, &file);
    let mut scanned = loader(told.fs());
    let (a, b) = (told.load(&unit), scanned.load(&unit));
    assert_eq!(a.config.load_state, LoadState::Loaded);
    assert_eq!((a.config, a.fingerprint), (b.config, b.fingerprint));
    // What is gone elsewhere is not gone here.
    told.file_removed(&unit, &format!("{ETC}/b.service"));
    assert!(told.index().contains(&unit));
    told.file_removed(&unit, &file);
    assert!(!told.index().contains(&unit) && told.index().contains(&name("a.service")));
}
