//! A machine with core and both managers, and images that sleep.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use muster_api::domain::{InstanceIdent, ItemType};
use muster_control_api::v1;
use muster_control_api::v1::control_service_client::ControlServiceClient;
use muster_image::build::{BuildOrder, Content, RunSettings, build};
use muster_item::{LayerFormat, Platform};
use muster_lab::instances::instances;
use muster_lab::machine::{Binaries, Build, Machine};
use muster_lab::{muster, poll_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::Endpoint;

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(120);
const ITEMS: [&str; 2] = ["web", "worker"];
const SOCKET: &str = "/run/muster/cm.sock";
/// What a running node consists of.
const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-buswatch", "muster-buswatch"),
    ("muster-exec", "muster-exec"),
    ("muster-sctl", "sctl"),
    ("muster-cm", "muster-cm"),
    ("muster-sm", "muster-sm"),
    ("muster-runtime-container", "muster-container"),
    ("muster-runtime-native", "muster-native-exec"),
    ("muster-firewall", "muster-firewall"),
];

pub(crate) struct Rig {
    machine: Machine,
    runtime: Runtime,
    // The machine sees them until it ends.
    _files: TempDir,
}

/// Layouts of busybox that sleeps, in two versions.
fn images(folder: &Path) {
    let content = folder.join("content");
    fs::create_dir_all(content.join("bin")).unwrap();
    fs::copy("/bin/busybox", content.join("bin/busybox")).unwrap();
    symlink("busybox", content.join("bin/sleep")).unwrap();
    let item = json!({"runtimes": [{"codename": "runc"}], "quotas": {"pidsLimit": 16, "stateLimit": 4096}});
    for version in 0..2 {
        fs::write(content.join("version"), version.to_string()).unwrap();
        let order = BuildOrder {
            content: Content::Folder(content.clone()),
            run: RunSettings {
                entrypoint: vec!["/bin/sleep".into(), "1000000".into()],
                ..RunSettings::default()
            },
            item_config: Some(item.to_string().into_bytes()),
            platform: Platform::of_this_program(),
            format: LayerFormat::TarGzip,
            name: None,
            output: folder.join(format!("image-{version}")),
            as_archive: false,
        };
        build(&order).unwrap();
    }
}

fn unit(program: &str, restart: &str) -> String {
    format!(
        "[Unit]\nDescription={program}\nStartLimitIntervalSec=0\n[Service]\nType=notify\n\
         ExecStart=/usr/lib/muster/{program} --config /etc/muster/{restart}.json\nRestart=always\nRestartSec=0\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

impl Rig {
    pub(crate) fn boot() -> Self {
        let files = tempfile::tempdir().unwrap();
        images(files.path());
        let programs = Binaries::build(
            Build::Test,
            PROGRAMS,
            &[
                "muster-core/fault-points",
                "muster-sm/fault-points",
                "muster-cm/fault-points",
            ],
        )
        .unwrap();
        let insecure = "a test on one machine";
        let cm = json!({
            "insecure": insecure,
            "cmServerUrl": "127.0.0.1:8093",
            "fileServerUrl": "127.0.0.1:8094",
            "networks": {"mode": "off"},
        });
        let sm = json!({
            "insecure": insecure,
            "cmServerUrl": "127.0.0.1:8093",
            "maxDmips": 10000,
            "runtimes": [{"type": "runc"}],
            // As the first process of its namespace, the program does not hear the request to end.
            "launcher": {"stopTimeout": "100ms"},
        });
        let builder = muster::machine(&programs)
            .hybrid_cgroups()
            .bind(files.path(), "/test")
            .file("/etc/muster/cm.json", cm.to_string(), 0o644)
            .file("/etc/muster/sm.json", sm.to_string(), 0o644)
            .unit("muster-cm.service", unit("muster-cm", "cm"))
            .unit("muster-sm.service", unit("muster-sm", "sm"));
        let machine = muster::boot(&builder, TIME).unwrap();
        let up = machine.run(["ip", "link", "set", "lo", "up"]).unwrap();
        assert!(up.status.success());
        for service in ["muster-cm.service", "muster-sm.service"] {
            let started = machine
                .run_within(TIME, ["sctl", "start", service])
                .unwrap();
            assert!(started.status.success(), "{}", started.stderr);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Self {
            machine,
            runtime: runtime.unwrap(),
            _files: files,
        }
    }

    async fn control(&self) -> ControlServiceClient<tonic::transport::Channel> {
        let path = self.machine.path(SOCKET);
        let endpoint = Endpoint::try_from(format!("unix://{}", path.display())).unwrap();
        ControlServiceClient::new(endpoint.connect_lazy())
    }

    /// Wants these items in these versions.
    pub(crate) fn apply(&self, items: &[(&str, u32)]) {
        let entry = |(item, version): &(&str, u32)| json!({"id": item, "version": format!("{version}.0.0"), "image": {"layout": format!("/test/image-{version}")}});
        let entries: Vec<_> = items.iter().map(entry).collect();
        let instances: Vec<_> = items
            .iter()
            .map(|(item, _)| json!({"item": item}))
            .collect();
        let document = json!({"items": entries, "instances": instances});
        let request = v1::ApplyRequest {
            document: document.to_string().into_bytes(),
            format: v1::DocumentFormat::Json.into(),
            name: "/test.json".into(),
            dry_run: false,
        };
        self.runtime
            .block_on(async { self.control().await.apply(request).await })
            .unwrap();
    }

    /// Items and the states of their instances, as an operator sees them; nothing while nobody answers.
    pub(crate) fn states(&self) -> BTreeMap<String, String> {
        let request = v1::ListInstancesRequest::default();
        let listed = self
            .runtime
            .block_on(async { self.control().await.list_instances(request).await });
        let instances = listed.map_or_else(|_| Vec::new(), |it| it.into_inner().instances);
        instances
            .into_iter()
            .map(|it| (it.ident.unwrap().item_id, it.state))
            .collect()
    }

    #[track_caller]
    pub(crate) fn wait_for_states(&self, wanted: &[(&str, &str)]) {
        let wanted: BTreeMap<String, String> = wanted
            .iter()
            .map(|(item, state)| ((*item).to_owned(), (*state).to_owned()))
            .collect();
        poll_until(TIME, &format!("{wanted:?}"), || self.states() == wanted);
    }

    #[track_caller]
    pub(crate) fn wait_for_pids(&self, count: usize) -> BTreeMap<String, i32> {
        let wanted: Vec<(&str, &str)> = ITEMS[..count].iter().map(|it| (*it, "active")).collect();
        self.wait_for_states(&wanted);
        let pids = self.pids();
        assert_eq!(pids.len(), count, "{pids:?}");
        pids
    }

    /// The process of each item's instance.
    pub(crate) fn pids(&self) -> BTreeMap<String, i32> {
        let named = |(unit, pid): (String, i32)| {
            let item = ITEMS.iter().find(|item| unit.contains(&instance_id(item)));
            item.map(|item| ((*item).to_owned(), pid))
        };
        let processes = instances(&self.machine, "sleep", TIME).unwrap();
        processes.into_iter().filter_map(named).collect()
    }

    /// The process of a manager, as the host counts.
    pub(crate) fn process(&self, program: &str) -> Option<i32> {
        let processes = self.machine.processes().unwrap();
        let mut found = processes
            .iter()
            .filter(|it| it.name == program && !it.zombie);
        found.next().map(|it| it.host_pid)
    }

    pub(crate) fn kill(&self, program: &str) -> i32 {
        let pid = self.process(program).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        pid
    }
}

fn instance_id(item: &str) -> String {
    let ident = InstanceIdent {
        item_id: item.parse().unwrap(),
        subject_id: "local".parse().unwrap(),
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    };
    ident.instance_id().to_string()
}
