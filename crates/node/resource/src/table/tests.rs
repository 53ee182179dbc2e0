use std::fs;

use super::*;

fn load(text: &str) -> Result<ResourceTable, ConfigError> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("resources.json");
    fs::write(&file, text).expect("a file");
    ResourceTable::load(&file)
}

/// What is wrong with a file, without the folder's name.
fn problems(text: &str) -> Vec<String> {
    let ConfigError::Invalid { problems, .. } = load(text).expect_err(text) else {
        panic!("{text}")
    };
    let shown = |problem: &muster_config::Problem| {
        let line = problem
            .origin
            .line
            .map_or_else(String::new, |line| line.to_string());
        format!("{line}: {}: {}", problem.key, problem.message)
    };
    problems.iter().map(shown).collect()
}

const WHOLE: &str = r#"[
    {
        "name": "camera", "sharedCount": 2, "groups": ["video", "render"],
        "devices": ["/dev/video0:/dev/camera", "/dev/null"],
        "mounts": [
            {"source": "/opt/models", "destination": "/models", "type": "bind", "options": ["rbind", "ro"]},
            {"source": "/var/cache/x", "destination": "/cache"}
        ],
        "env": ["CAMERA=/dev/camera", "EMPTY=", "EQUALS=a=b"],
        "hosts": [{"ip": "10.0.0.1", "hostName": "camera.local"}, {"ip": "fd00::1", "hostname": "six"}]
    },
    {"name": "free"}
]"#;

#[test]
fn a_resources_file_is_read_whole() {
    let table = load(WHOLE).expect("a table");
    assert_eq!(table.len(), 2);
    let camera = table.get("camera").expect("the camera");
    assert_eq!(camera.shares(), NonZeroU64::new(2));
    let grant = camera.grant(Access::ReadWrite);
    assert_eq!(grant.name, "camera");
    assert_eq!(grant.groups, ["video", "render"]);
    let null = PathBuf::from("/dev/null");
    assert_eq!(
        grant.devices,
        [
            ("/dev/video0".into(), "/dev/camera".into()),
            (null.clone(), null)
        ]
    );
    let mounts = [
        (PathBuf::from("/opt/models"), PathBuf::from("/models"), true),
        (
            PathBuf::from("/var/cache/x"),
            PathBuf::from("/cache"),
            false,
        ),
    ];
    assert_eq!(grant.mounts, mounts);
    let env: Vec<_> = grant
        .env
        .iter()
        .map(|it| (it.name().as_str(), it.value()))
        .collect();
    assert_eq!(
        env,
        [("CAMERA", "/dev/camera"), ("EMPTY", ""), ("EQUALS", "a=b")]
    );
    assert_eq!(grant.hosts[0].hostname, "camera.local");
    assert!(grant.hosts[1].ip.is_ipv6());
    let free = table.get("free").expect("the other");
    assert_eq!((free.shares(), free.devices().count()), (None, 0));
}

#[test]
fn a_read_only_request_makes_folders_read_only() {
    let table = load(WHOLE).expect("a table");
    let camera = table.get("camera").expect("the camera");
    let [wide, narrow] = [Access::ReadWrite, Access::ReadOnly].map(|access| camera.grant(access));
    assert!(narrow.mounts.iter().all(|(_, _, read_only)| *read_only));
    assert_eq!(
        (wide.devices, wide.env, wide.hosts),
        (narrow.devices, narrow.env, narrow.hosts)
    );
}

#[test]
fn without_a_file_there_are_no_resources() {
    let table = ResourceTable::load(Path::new("/nowhere/resources.json")).expect("a table");
    assert!(table.is_empty());
    assert!(load("[]").expect("a table").is_empty());
}

#[test]
fn what_is_no_file_or_too_large_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("a fifo");
    for path in [fifo.as_path(), folder.path(), Path::new("/dev/zero")] {
        let refused = ResourceTable::load(path).expect_err("no file");
        assert!(matches!(refused, ConfigError::ReadFile { .. }), "{refused}");
    }
    let large = format!("[{}]", " ".repeat(2 << 20));
    assert!(problems(&large)[0].contains("larger than"));
}

#[test]
fn every_problem_is_told_with_its_line_and_key() {
    let text = r#"[
        {"name": "a", "devices": ["/dev/x:relative"]},
        {"name": "a"},
        {"name": ""},
        {"name": "b", "mounts": [{"source": "x", "destination": "/", "type": "tmpfs", "options": ["noexec"]}]},
        {"name": "c", "hosts": [{"ip": "10.0.0.300", "hostname": "a b"}], "groups": ["a:b"]}
    ]"#;
    let mut found = problems(text);
    found.sort();
    let expected = [
        "2: resources[0].devices: ",
        "3: resources[1].name: `a` stands in two resources",
        "4: resources[2].name: `` must be given",
        "5: resources[3].mounts[0].destination: `/` must be",
        "5: resources[3].mounts[0].options: ",
        "5: resources[3].mounts[0].source: `x` must be",
        "5: resources[3].mounts[0].type: `tmpfs` cannot be given",
        "6: resources[4].groups: ",
        "6: resources[4].hosts[0].hostname: `a b`",
        "6: resources[4].hosts[0].ip: `10.0.0.300`",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}, expected {expected}");
    }
}

#[test]
fn an_unknown_key_is_named_and_a_near_one_suggested() {
    let found = problems("[{\"name\": \"a\",\n\"sharedCounts\": 1}]");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("2: resources[0].sharedCounts: unknown key"),
        "{found:?}"
    );
    assert!(
        found[0].ends_with("did you mean `sharedCount`?"),
        "{found:?}"
    );
    for text in [
        "{}",
        "{\"name\": \"a\"}",
        "[{\"name\": 5}]",
        "[{\"sharedCount\": -1}]",
        "[",
    ] {
        assert!(!problems(text).is_empty(), "{text}");
    }
}

#[test]
fn paths_that_could_be_something_else_are_refused() {
    for device in [
        "",
        ":",
        "/dev/x:",
        ":/dev/x",
        "dev/x",
        "/dev/../x",
        "/:/x",
        "/dev/x:/",
        "/dev/x:/y:z/..",
    ] {
        let text = format!("[{{\"name\": \"a\", \"devices\": [{device:?}]}}]");
        assert_eq!(problems(&text).len(), 1, "{device}");
    }
}

#[test]
fn values_of_variables_are_not_shown() {
    for variable in ["=hunter2", "hunter2", "A=hunter2\\u0000"] {
        let found = problems(&format!("[{{\"name\": \"a\", \"env\": [\"{variable}\"]}}]"));
        assert_eq!(found.len(), 1, "{variable}");
        assert!(
            found[0].contains("resources[0].env[0]: must be NAME=value")
                && !found[0].contains("hunter2"),
            "{found:?}"
        );
    }
    let table = load("[{\"name\": \"a\", \"env\": [\"TOKEN=hunter2\"]}]").expect("a table");
    assert!(!format!("{table:?}").contains("hunter2"));
}

#[test]
fn only_what_is_whole_is_announced() {
    let device = |name: &str| PathBuf::from(format!("/dev/{name}"));
    let table = ResourceTable::of(&[
        ("both".into(), 1, vec![device("a"), device("b")]),
        ("one".into(), 0, vec![device("b")]),
        ("none".into(), 3, vec![]),
    ]);
    let names = |missing: &[&str]| {
        let absent = |name: &&str| (device(name), crate::presence::Absence::NotThere);
        let announced = table.announced(&missing.iter().map(absent).collect());
        announced
            .iter()
            .map(|it| it.name().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["both", "none", "one"]);
    assert_eq!(names(&["a"]), ["none", "one"]);
    assert_eq!(names(&["a", "b"]), ["none"]);
}
