use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use muster_api::domain::{
    AlertRules, Digest, EnvVar, Gid, InstanceIdent, InstanceInfo, ItemId, ItemType, RuntimeId,
    SubjectId, Uid,
};
use muster_item::{ImageConfig, ItemConfig};
use muster_runtime::{HostEntry, ImagePaths, NetworkAttachment, ResourceGrant, RunPolicy, Secret};
use proptest::prelude::*;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::*;

fn env(name: &str, value: &str) -> EnvVar {
    EnvVar::new(name.parse().unwrap(), value.to_owned()).unwrap()
}

fn instance() -> InstanceSpec {
    let ident = InstanceIdent {
        item_id: ItemId::new("item").unwrap(),
        subject_id: SubjectId::new("subject").unwrap(),
        instance: 2,
        item_type: ItemType::Service,
        preinstalled: false,
    };
    InstanceSpec {
        info: InstanceInfo {
            instance: ident,
            version: "1.0.0".into(),
            manifest_digest: Digest::from_sha256([1; 32]),
            owner_id: None,
            runtime_id: RuntimeId::new("runtime").unwrap(),
            uid: Uid::new(5001).unwrap(),
            gid: Gid::new(5002).unwrap(),
            priority: 0,
            storage_path: None,
            state_path: None,
            env_vars: Vec::new(),
            network: None,
            alert_rules: AlertRules::default(),
        },
        image: ImagePaths {
            layers: vec!["/layers/1".into()],
        },
        image_config: ImageConfig {
            entrypoint: vec!["/bin/app".into()],
            cmd: vec!["--flag".into()],
            working_dir: "/work".into(),
            ..ImageConfig::default()
        },
        item_config: ItemConfig::default(),
        env_override: Vec::new(),
        secret: None,
        network: None,
        resources: Vec::new(),
        state_file: None,
        storage: None,
        policy: RunPolicy {
            restart_interval: Duration::from_secs(1),
            start_burst: 3,
            start_interval: Duration::from_secs(5),
        },
    }
}

fn host() -> HostFacts {
    HostFacts {
        cores: 4,
        max_dmips: Some(40_000),
        limits_swap: true,
        ..HostFacts::default()
    }
}

static ID: LazyLock<String> = LazyLock::new(|| instance().info.instance.instance_id().to_string());

fn document(instance: &InstanceSpec, host: &HostFacts) -> Result<Value, SpecificationError> {
    let place = Surroundings {
        folder: Path::new("/b"),
        rootfs: Path::new("/b/rootfs"),
        cgroup: "group",
    };
    specification(instance, host, place).map(|spec| serde_json::to_value(&spec).unwrap())
}

fn made(change: impl FnOnce(&mut InstanceSpec)) -> Value {
    let mut spec = instance();
    change(&mut spec);
    document(&spec, &host()).unwrap()
}

fn refused(change: impl FnOnce(&mut InstanceSpec)) -> SpecificationError {
    let mut spec = instance();
    change(&mut spec);
    document(&spec, &host()).unwrap_err()
}

fn mount_at<'d>(document: &'d Value, target: &str) -> Option<&'d Value> {
    let mounts = document["mounts"].as_array().unwrap();
    mounts.iter().find(|mount| mount["destination"] == target)
}

#[test]
fn the_closed_default_is_this() {
    let mut document = made(|_| {});
    // Said in tests of their own.
    let seccomp = document["linux"]
        .as_object_mut()
        .unwrap()
        .remove("seccomp")
        .unwrap();
    assert_eq!(seccomp["defaultAction"], "SCMP_ACT_ERRNO");
    let mounts = document.as_object_mut().unwrap().remove("mounts").unwrap();
    assert_eq!(mounts.as_array().unwrap().len(), 11);
    let devices = document["linux"]["resources"]
        .as_object_mut()
        .unwrap()
        .remove("devices")
        .unwrap();
    assert_eq!(devices[0], json!({"allow": false, "access": "rwm"}));
    assert_eq!(
        document,
        json!({
            "ociVersion": "1.0.2",
            "annotations": {},
            "hostname": *ID,
            "root": {"path": "/b/rootfs", "readonly": true},
            "process": {
                "terminal": false,
                "user": {"uid": 5001, "gid": 5002, "additionalGids": []},
                "args": ["/bin/app", "--flag"],
                "env": [
                    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "AOS_ITEM_ID=item",
                    "AOS_SUBJECT_ID=subject",
                    "AOS_INSTANCE_INDEX=2",
                    format!("AOS_INSTANCE_ID={}", *ID),
                ],
                "cwd": "/work",
                "capabilities": {"bounding": [], "effective": [], "inheritable": [], "permitted": [], "ambient": []},
                "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 4096}],
                "noNewPrivileges": true,
            },
            "linux": {
                "sysctl": {},
                "resources": {},
                "cgroupsPath": "group",
                "namespaces": [
                    {"type": "pid"}, {"type": "mount"}, {"type": "uts"}, {"type": "ipc"}, {"type": "cgroup"},
                    {"type": "network"},
                ],
                "devices": [],
                "rootfsPropagation": "private",
                "maskedPaths": MASKED,
                "readonlyPaths": READ_ONLY,
            },
        })
    );
}

#[test]
fn an_image_without_a_program_is_refused() {
    assert_eq!(
        refused(|spec| spec.image_config = ImageConfig::default()),
        SpecificationError::NoCommand
    );
}

#[test]
fn limits_are_the_kernels_words_for_the_quotas() {
    let document = made(|spec| {
        let quotas = &mut spec.item_config.quotas;
        quotas.cpu_dmips_limit = Some(5_000);
        quotas.ram_limit = Some(64 << 20);
        quotas.pids_limit = Some(17);
        quotas.no_file_limit = Some(99);
        quotas.tmp_limit = Some(4096);
    });
    let resources = &document["linux"]["resources"];
    // 5000 of 40000 DMIPS are an eighth of four processors.
    assert_eq!(
        resources["cpu"],
        json!({"quota": 50_000, "period": 100_000})
    );
    assert_eq!(
        resources["memory"],
        json!({"limit": 64 << 20, "swap": 64 << 20})
    );
    assert_eq!(resources["pids"], json!({"limit": 17}));
    assert_eq!(
        document["process"]["rlimits"],
        json!([{"type": "RLIMIT_NOFILE", "soft": 99, "hard": 99}])
    );
    let tmp = mount_at(&document, "/tmp").unwrap();
    assert_eq!(
        tmp["options"],
        json!(["nosuid", "nodev", "mode=1777", "size=4096"])
    );
}

#[test]
fn a_cpu_share_is_never_nothing_and_never_more_than_all() {
    assert_eq!(limits::cpu_quota(1, &host()), Ok(1_000));
    assert_eq!(limits::cpu_quota(40_000, &host()), Ok(400_000));
    assert_eq!(limits::cpu_quota(u64::MAX, &host()), Ok(400_000));
    let unknown = HostFacts {
        max_dmips: None,
        ..host()
    };
    assert_eq!(
        limits::cpu_quota(7, &unknown),
        Err(SpecificationError::UnknownDmips(7))
    );
}

#[test]
fn swap_is_not_mentioned_where_it_is_not_counted() {
    let mut spec = instance();
    spec.item_config.quotas.ram_limit = Some(1000);
    let host = HostFacts {
        limits_swap: false,
        ..host()
    };
    let document = document(&spec, &host).unwrap();
    assert_eq!(
        document["linux"]["resources"]["memory"],
        json!({"limit": 1000})
    );
}

#[test]
fn limits_can_be_left_out_as_a_whole() {
    let document = made(|spec| {
        spec.item_config.skip_resource_limits = true;
        spec.item_config.quotas.ram_limit = Some(1);
        spec.item_config.quotas.cpu_dmips_limit = Some(1);
        spec.item_config.quotas.pids_limit = Some(1);
        spec.item_config.quotas.no_file_limit = Some(1);
        spec.item_config.quotas.tmp_limit = Some(1);
    });
    let resources = document["linux"]["resources"].as_object().unwrap();
    assert_eq!(resources.keys().collect::<Vec<_>>(), ["devices"]);
    assert_eq!(document["process"]["rlimits"][0]["soft"], 1024);
}

#[test]
fn the_environment_is_set_in_order_and_identity_last() {
    let document = made(|spec| {
        spec.image_config.env = vec![env("A", "image"), env("B", "image"), env("PATH", "/p")];
        let grant = ResourceGrant {
            env: vec![env("B", "resource"), env("C", "resource")],
            ..ResourceGrant::default()
        };
        spec.resources = vec![grant];
        spec.info.env_vars = vec![
            env("C", "controller"),
            env("D", "controller"),
            env("AOS_ITEM_ID", "faked"),
        ];
        spec.env_override = vec![env("D", "operator"), env("AOS_SECRET", "faked")];
    });
    assert_eq!(
        document["process"]["env"],
        json!([
            "PATH=/p",
            "A=image",
            "B=resource",
            "C=controller",
            "D=operator",
            "AOS_ITEM_ID=item",
            "AOS_SUBJECT_ID=subject",
            "AOS_INSTANCE_INDEX=2",
            format!("AOS_INSTANCE_ID={}", *ID),
        ])
    );
    let document = made(|spec| spec.secret = Some(Secret(Zeroizing::new("s3cret".into()))));
    let env = document["process"]["env"].as_array().unwrap();
    assert_eq!(env.last().unwrap(), "AOS_SECRET=s3cret");
}

#[test]
fn capabilities_are_asked_for_and_granted() {
    let ask = |spec: &mut InstanceSpec, name: &str| {
        spec.item_config.sandbox.capabilities = vec![name.into()];
    };
    assert_eq!(
        refused(|spec| ask(spec, "CAP_NET_BIND_SERVICE")),
        SpecificationError::CapabilityNotGranted("CAP_NET_BIND_SERVICE".into())
    );
    let host = HostFacts {
        granted_capabilities: ["CAP_NET_BIND_SERVICE".into(), "CAP_NONE".into()].into(),
        ..host()
    };
    let mut spec = instance();
    ask(&mut spec, "CAP_NET_BIND_SERVICE");
    let document = document(&spec, &host).unwrap();
    for set in [
        "bounding",
        "effective",
        "inheritable",
        "permitted",
        "ambient",
    ] {
        assert_eq!(
            document["process"]["capabilities"][set],
            json!(["CAP_NET_BIND_SERVICE"])
        );
    }
    ask(&mut spec, "CAP_NONE");
    let place = Surroundings {
        folder: Path::new("/b"),
        rootfs: Path::new("/r"),
        cgroup: "g",
    };
    assert_eq!(
        specification(&spec, &host, place),
        Err(SpecificationError::UnknownCapability("CAP_NONE".into()))
    );
}

#[test]
fn mounts_are_shown_where_they_were_asked_for() {
    let document = made(|spec| {
        spec.state_file = Some("/states/x".into());
        spec.storage = Some("/storages/x".into());
        spec.resources = vec![ResourceGrant {
            mounts: vec![
                ("/host/a".into(), "/a".into(), true),
                ("/host/b".into(), "/b".into(), false),
            ],
            ..ResourceGrant::default()
        }];
    });
    let options = |target| mount_at(&document, target).unwrap()["options"].clone();
    assert_eq!(
        options("/state.dat"),
        json!(["rbind", "rprivate", "rw", "nosuid", "nodev", "noexec"])
    );
    assert_eq!(
        options("/storage"),
        json!(["rbind", "rprivate", "rw", "nosuid", "nodev"])
    );
    assert_eq!(
        options("/a"),
        json!(["rbind", "rprivate", "ro", "nosuid", "nodev"])
    );
    assert_eq!(
        options("/b"),
        json!(["rbind", "rprivate", "rw", "nosuid", "nodev"])
    );
    assert_eq!(mount_at(&document, "/a").unwrap()["source"], "/host/a");
    for target in ["a", "/a/../b", "/"] {
        let refused = refused(|spec| {
            let mounts = vec![("/host/a".into(), target.into(), true)];
            spec.resources = vec![ResourceGrant {
                mounts,
                ..ResourceGrant::default()
            }];
        });
        assert_eq!(refused, SpecificationError::BadTarget(target.into()));
    }
}

#[test]
fn devices_are_made_and_allowed_and_no_others() {
    let mut host = host();
    host.devices = vec![DeviceNode {
        path: "/dev/cam".into(),
        is_block: false,
        major: 81,
        minor: 3,
        mode: 0o660,
        uid: 0,
        gid: 44,
    }];
    let document = document(&instance(), &host).unwrap();
    assert_eq!(
        document["linux"]["devices"],
        json!([{"path": "/dev/cam", "type": "c", "major": 81, "minor": 3, "fileMode": 0o660, "uid": 0, "gid": 44}])
    );
    let rules = document["linux"]["resources"]["devices"]
        .as_array()
        .unwrap();
    assert_eq!(
        rules.last().unwrap(),
        &json!({"allow": true, "type": "c", "major": 81, "minor": 3, "access": "rw"})
    );
}

#[test]
fn groups_of_resources_are_joined_by_number() {
    let ask = |spec: &mut InstanceSpec| {
        let groups = vec!["video".into()];
        spec.resources = vec![ResourceGrant {
            name: "camera".into(),
            groups,
            ..ResourceGrant::default()
        }];
    };
    let mut spec = instance();
    ask(&mut spec);
    let known = HostFacts {
        groups: [("video".to_owned(), 44)].into(),
        ..host()
    };
    assert_eq!(
        document(&spec, &known).unwrap()["process"]["user"]["additionalGids"],
        json!([44])
    );
    let missing = SpecificationError::UnknownGroup {
        resource: "camera".into(),
        group: "video".into(),
    };
    assert_eq!(document(&spec, &host()), Err(missing));
}

#[test]
fn a_network_gives_a_namespace_names_and_servers() {
    let network = NetworkAttachment {
        namespace: "/run/netns/x".into(),
        address: "10.0.0.2".parse().unwrap(),
        hostname: "web".into(),
        hosts: vec![HostEntry {
            ip: "10.0.0.3".parse().unwrap(),
            hostname: "db\n1.2.3.4 bank".into(),
        }],
        name_servers: vec!["10.0.0.1".parse().unwrap()],
    };
    let mut spec = instance();
    spec.network = Some(network);
    let document = document(&spec, &host()).unwrap();
    assert_eq!(
        document["linux"]["namespaces"][5],
        json!({"type": "network", "path": "/run/netns/x"})
    );
    assert_eq!(document["hostname"], "web");
    let [(_, hosts), (_, resolv), (_, hostname)] = etc::files(&spec);
    assert_eq!(
        hosts,
        "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n10.0.0.2 web\n10.0.0.3 db1.2.3.4bank\n"
    );
    assert_eq!(
        (resolv.as_str(), hostname.as_str()),
        ("nameserver 10.0.0.1\n", "web\n")
    );
}

#[test]
fn sysctls_are_those_of_its_own_namespaces() {
    let with = |name: &'static str| {
        move |spec: &mut InstanceSpec| {
            spec.item_config.sysctl = BTreeMap::from([(name.to_owned(), "1".to_owned())]);
        }
    };
    assert_eq!(
        made(with("net.ipv4.ip_forward"))["linux"]["sysctl"],
        json!({"net.ipv4.ip_forward": "1"})
    );
    assert_eq!(
        made(with("kernel/shmmax"))["linux"]["sysctl"],
        json!({"kernel.shmmax": "1"})
    );
    for shared in [
        "kernel.panic",
        "vm.swappiness",
        "kernel.hostname",
        "fs.file-max",
    ] {
        assert_eq!(
            refused(with(shared)),
            SpecificationError::SharedSysctl(shared.into())
        );
    }
}

#[test]
fn a_user_namespace_shifts_everybody_but_the_instance() {
    let ask = |spec: &mut InstanceSpec| spec.item_config.sandbox.user_namespace = true;
    assert_eq!(refused(ask), SpecificationError::NoMappedIds);
    let mut spec = instance();
    ask(&mut spec);
    let host = HostFacts {
        first_mapped_id: Some(100_000),
        ..host()
    };
    let document = document(&spec, &host).unwrap();
    assert_eq!(
        document["linux"]["uidMappings"],
        json!([
            {"containerID": 0, "hostID": 100_000, "size": 5001},
            {"containerID": 5001, "hostID": 5001, "size": 1},
            {"containerID": 5002, "hostID": 105_002, "size": 60_534},
        ])
    );
    assert_eq!(document["linux"]["namespaces"][6], json!({"type": "user"}));
    let low = HostFacts {
        first_mapped_id: Some(1000),
        ..host
    };
    let place = Surroundings {
        folder: Path::new("/b"),
        rootfs: Path::new("/r"),
        cgroup: "g",
    };
    assert_eq!(
        specification(&spec, &low, place),
        Err(SpecificationError::NoMappedIds)
    );
}

#[test]
fn a_user_namespace_leaves_groups_of_resources_their_numbers() {
    let mut spec = instance();
    spec.item_config.sandbox.user_namespace = true;
    spec.resources = vec![ResourceGrant {
        name: "camera".into(),
        groups: vec!["video".into(), "root".into()],
        ..ResourceGrant::default()
    }];
    let host = HostFacts {
        first_mapped_id: Some(100_000),
        groups: [("video".to_owned(), 44), ("root".to_owned(), 0)].into(),
        ..host()
    };
    assert_eq!(
        document(&spec, &host).unwrap()["linux"]["gidMappings"],
        json!([
            {"containerID": 0, "hostID": 100_000, "size": 44},
            {"containerID": 44, "hostID": 44, "size": 1},
            {"containerID": 45, "hostID": 100_045, "size": 4957},
            {"containerID": 5002, "hostID": 5002, "size": 1},
            {"containerID": 5003, "hostID": 105_003, "size": 60_533},
        ])
    );
}

#[test]
fn what_is_read_only_is_so_with_all_that_is_mounted_within() {
    let mut spec = instance();
    spec.item_config.sandbox.user_namespace = true;
    spec.network = Some(NetworkAttachment {
        namespace: "/run/netns/x".into(),
        address: "10.0.0.2".parse().unwrap(),
        hostname: "web".into(),
        hosts: Vec::new(),
        name_servers: Vec::new(),
    });
    spec.resources = vec![ResourceGrant {
        mounts: vec![("/host/a".into(), "/a".into(), true)],
        ..ResourceGrant::default()
    }];
    for has_mount_setattr in [true, false] {
        let host = HostFacts {
            first_mapped_id: Some(100_000),
            has_mount_setattr,
            binds: vec!["/opt/shared".into()],
            ..host()
        };
        let document = document(&spec, &host).unwrap();
        for target in ["/sys", "/a", "/opt/shared"] {
            let options = &mount_at(&document, target).unwrap()["options"];
            let options = options.as_array().unwrap();
            assert!(options.contains(&json!("ro")), "{target}: {options:?}");
            assert_eq!(
                options.contains(&json!("rro")),
                has_mount_setattr,
                "{target}: {options:?}"
            );
        }
    }
}

#[test]
fn a_writable_root_is_asked_for() {
    assert_eq!(
        made(|spec| spec.item_config.sandbox.writable_rootfs = true)["root"]["readonly"],
        false
    );
}

#[test]
fn system_calls_are_allowed_by_name_and_opened_by_capability() {
    let names =
        |profile: &LinuxSeccompNames, name: &str| profile.0.iter().any(|known| known == name);
    let closed = LinuxSeccompNames::of(&[]);
    for needed in [
        "execve",
        "openat",
        "futex",
        "clone",
        "socket",
        "rt_sigreturn",
        "statx",
        "epoll_wait",
    ] {
        assert!(names(&closed, needed), "{needed}");
    }
    for shut in [
        "mount",
        "unshare",
        "setns",
        "bpf",
        "ptrace",
        "reboot",
        "keyctl",
        "init_module",
        "kexec_load",
        "io_uring_setup",
    ] {
        assert!(!names(&closed, shut), "{shut}");
    }
    let open = LinuxSeccompNames::of(&["CAP_SYS_PTRACE".to_owned()]);
    assert!(names(&open, "ptrace") && !names(&open, "mount"));
}

/// Whether the closed profile lets a call with this first argument through.
fn lets_through(call: &str, first: u64) -> bool {
    let profile = serde_json::to_value(seccomp::profile(&[])).unwrap();
    let rules = profile["syscalls"].as_array().unwrap().clone();
    rules.iter().any(|rule| {
        if !rule["names"].as_array().unwrap().contains(&json!(call)) {
            return false;
        }
        let arguments = rule.get("args").and_then(Value::as_array);
        let fits = arguments.into_iter().flatten().all(|argument| {
            assert_eq!(argument["index"], 0);
            let value = argument["value"].as_u64().unwrap();
            match argument["op"].as_str().unwrap() {
                "SCMP_CMP_EQ" => first == value,
                "SCMP_CMP_GT" => first > value,
                other => panic!("{other}"),
            }
        });
        fits && rule["action"] == "SCMP_ACT_ALLOW"
    })
}

#[test]
fn no_way_of_making_a_socket_goes_round_the_families() {
    let (inet, vsock) = (2, 40);
    for call in ["socket", "socketpair"] {
        assert!(
            lets_through(call, inet) && !lets_through(call, vsock),
            "{call}"
        );
    }
    // Which family `socketcall` means is in memory: all of its calls but those that make sockets go through.
    let refused: Vec<u64> = (0..=20)
        .filter(|call| !lets_through("socketcall", *call))
        .collect();
    assert_eq!(refused, [0, 1, 8]);
}

/// Names that a profile allows.
struct LinuxSeccompNames(Vec<String>);

impl LinuxSeccompNames {
    fn of(capabilities: &[String]) -> Self {
        let profile = serde_json::to_value(seccomp::profile(capabilities)).unwrap();
        let rules = profile["syscalls"].as_array().unwrap().clone();
        let allowed = rules
            .into_iter()
            .filter(|rule| rule["action"] == "SCMP_ACT_ALLOW");
        let names = allowed.flat_map(|rule| rule["names"].as_array().unwrap().clone());
        Self(
            names
                .map(|name| name.as_str().unwrap().to_owned())
                .collect(),
        )
    }
}

prop_compose! {
    fn any_instance()(
        uid in 0..70_000_u32,
        quotas in proptest::array::uniform5(proptest::option::of(any::<u64>())),
        flags in any::<[bool; 3]>(),
        targets in proptest::collection::vec("[/.a-z]{0,12}", 0..4),
        words in proptest::collection::vec("[ -~]{0,20}", 0..4),
    ) -> InstanceSpec {
        let mut spec = instance();
        spec.info.uid = Uid::new(uid).unwrap();
        spec.image_config.entrypoint = words;
        spec.image_config.cmd.clear();
        let item = &mut spec.item_config;
        [
            item.quotas.cpu_dmips_limit, item.quotas.ram_limit, item.quotas.pids_limit, item.quotas.no_file_limit,
            item.quotas.tmp_limit,
        ] = quotas;
        [item.skip_resource_limits, item.sandbox.user_namespace, item.sandbox.writable_rootfs] = flags;
        let mounts = targets.into_iter().map(|target| ("/host".into(), target.into(), true)).collect();
        spec.resources = vec![ResourceGrant { mounts, ..ResourceGrant::default() }];
        spec
    }
}

proptest! {
    /// Whatever an item asks for: it is refused, or the document keeps the promises of the closed default.
    #[test]
    fn no_document_opens_what_is_closed(spec in any_instance()) {
        let host = HostFacts { first_mapped_id: Some(200_000), ..host() };
        let Ok(document) = document(&spec, &host) else { return Ok(()) };
        prop_assert_eq!(&document["process"]["noNewPrivileges"], true);
        prop_assert_eq!(&document["process"]["capabilities"]["bounding"], &json!([]));
        let read_only = !spec.item_config.sandbox.writable_rootfs;
        prop_assert_eq!(&document["root"]["readonly"], read_only);
        prop_assert_eq!(&document["linux"]["resources"]["devices"][0]["allow"], false);
        for mount in document["mounts"].as_array().unwrap() {
            let target = mount["destination"].as_str().unwrap();
            prop_assert!(target.starts_with('/') && target != "/" && !target.split('/').any(|part| part == ".."));
            prop_assert!(mount["options"].as_array().unwrap().contains(&json!("nosuid")));
        }
        if let Some(ids) = document["linux"].get("uidMappings") {
            let ids = ids.as_array().unwrap();
            let size: u64 = ids.iter().map(|range| range["size"].as_u64().unwrap()).sum();
            prop_assert_eq!(size, 65_536);
            prop_assert!(ids.iter().all(|range| range["hostID"] != 0));
        }
        let quotas = &spec.item_config.quotas;
        let limited = |name: &str| document["linux"]["resources"].get(name).is_some();
        let asked = !spec.item_config.skip_resource_limits;
        prop_assert_eq!(limited("memory"), asked && quotas.ram_limit.is_some());
        prop_assert_eq!(limited("cpu"), asked && quotas.cpu_dmips_limit.is_some());
        prop_assert_eq!(limited("pids"), asked && quotas.pids_limit.is_some());
    }
}
