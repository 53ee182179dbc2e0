//! A Service Manager in small, for tests: one command, then it ends, as one does that is killed a moment later.
//!
//! `start NAME RUN SCRIPT [OPTIONS]`, `again NAME RUN SCRIPT`, `stop NAME MILLISECONDS`, `adopt NAME...`, `watch NAME...`
//! (until it is killed), `leftovers NAME...`, `start-stop NAME OTHERS...` (for fault points), `start-many COUNT` and
//! `stop-many COUNT`. `OPTIONS` is JSON: what is different from the closed default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{
    AlertRules, ArchInfo, Digest, Gid, InstanceIdent, InstanceInfo, ItemId, ItemType, OsInfo,
    RuntimeId, RuntimeInfo, RuntimeType, SubjectId, Uid,
};
use muster_item::{ImageConfig, ItemConfig};
use muster_runtime::{
    AdoptError, ImagePaths, InstanceSpec, ResourceGrant, RunId, RunPolicy, Runtime, RuntimeError,
    Secret,
};
use muster_telemetry::ErrorChain;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::{FAULT_POINTS, leftovers};

/// What a test wants different.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Processing power.
    pub dmips: Option<u64>,
    /// Memory in bytes.
    pub ram: Option<u64>,
    /// Processes.
    pub pids: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// Bytes of `/tmp`.
    pub tmp: Option<u64>,
    /// Settings of the kernel.
    pub sysctl: BTreeMap<String, String>,
    /// Capabilities that it asks for.
    pub capabilities: Vec<String>,
    /// Whether it asks for a user namespace.
    pub user_namespace: bool,
    /// Whether it asks for a writable root.
    pub writable: bool,
    /// Its storage.
    pub storage: Option<PathBuf>,
    /// Its state file.
    pub state: Option<PathBuf>,
    /// Its secret.
    pub secret: Option<String>,
    /// So many starts are too many.
    pub burst: u32,
    /// User and group.
    pub uid: u32,
    /// Its image.
    pub layers: Vec<PathBuf>,
    /// Devices that a resource gives it, as `(on the host, in the instance)`.
    pub devices: Vec<(PathBuf, PathBuf)>,
    /// Groups that a resource lets it join.
    pub groups: Vec<String>,
    /// Folders that a resource gives it, as `(on the host, in the instance, read-only)`.
    pub mounts: Vec<(PathBuf, PathBuf, bool)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dmips: None,
            ram: None,
            pids: None,
            files: None,
            tmp: None,
            sysctl: BTreeMap::new(),
            capabilities: Vec::new(),
            user_namespace: false,
            writable: false,
            storage: None,
            state: None,
            secret: None,
            burst: 3,
            uid: 5001,
            layers: vec!["/image".into()],
            devices: Vec::new(),
            groups: Vec::new(),
            mounts: Vec::new(),
        }
    }
}

/// The instance of this name.
///
/// # Panics
/// If the name is no id.
#[must_use]
pub fn ident(name: &str) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new(name).expect("an id"),
        subject_id: SubjectId::new("test").expect("an id"),
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

/// An instance that runs a script of the shell.
///
/// # Panics
/// If the name is no id.
#[must_use]
pub fn spec(name: &str, script: &str, options: Options) -> InstanceSpec {
    let mut item_config = ItemConfig::default();
    item_config.quotas.cpu_dmips_limit = options.dmips;
    item_config.quotas.ram_limit = options.ram;
    item_config.quotas.pids_limit = options.pids;
    item_config.quotas.no_file_limit = options.files;
    item_config.quotas.tmp_limit = options.tmp;
    item_config.sysctl = options.sysctl;
    item_config.sandbox.capabilities = options.capabilities;
    item_config.sandbox.user_namespace = options.user_namespace;
    item_config.sandbox.writable_rootfs = options.writable;
    InstanceSpec {
        info: InstanceInfo {
            instance: ident(name),
            version: "1.0.0".into(),
            manifest_digest: Digest::from_sha256([0; 32]),
            owner_id: None,
            runtime_id: RuntimeId::new("container").expect("an id"),
            uid: Uid::new(options.uid).expect("an id"),
            gid: Gid::new(options.uid).expect("an id"),
            priority: 0,
            storage_path: None,
            state_path: None,
            env_vars: Vec::new(),
            network: None,
            alert_rules: AlertRules::default(),
        },
        image: ImagePaths {
            layers: options.layers,
        },
        image_config: ImageConfig {
            entrypoint: vec!["/bin/sh".into(), "-c".into(), script.into()],
            ..ImageConfig::default()
        },
        item_config,
        env_override: Vec::new(),
        secret: options.secret.map(|secret| Secret(Zeroizing::new(secret))),
        network: None,
        resources: vec![ResourceGrant {
            name: "test".to_owned(),
            devices: options.devices,
            groups: options.groups,
            mounts: options.mounts,
            ..ResourceGrant::default()
        }],
        state_file: options.state,
        storage: options.storage,
        policy: RunPolicy {
            restart_interval: Duration::from_millis(100),
            start_burst: options.burst,
            start_interval: Duration::from_secs(60),
        },
    }
}

/// What a runtime of this type tells the controller: 10,000 DMIPS, and no other limits.
///
/// # Panics
/// If the type is none.
#[must_use]
pub fn info(runtime_type: &str) -> RuntimeInfo {
    RuntimeInfo {
        runtime_id: RuntimeId::new("test").expect("an id"),
        runtime_type: RuntimeType::new(runtime_type).expect("a type"),
        max_dmips: 10_000.try_into().ok(),
        allowed_dmips: None,
        total_ram: None,
        allowed_ram: None,
        max_instances: 100,
        os_info: OsInfo::new("linux", "", Vec::new()).expect("a system"),
        arch_info: ArchInfo::new("amd64", "").expect("an architecture"),
    }
}

async fn run(driven: &Driven<'_>, words: &[String]) -> Result<(), String> {
    let fail = |error: RuntimeError| ErrorChain(&error).to_string();
    let unadopted = |error: AdoptError| ErrorChain(&error).to_string();
    let runtime = driven.runtime;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["start", name, run, script, options @ ..] => {
            let options = options.first().map_or("{}", |options| options);
            let options = serde_json::from_str(options).map_err(|error| error.to_string())?;
            let run = RunId(run.parse().map_err(|_| "no number".to_owned())?);
            let spec = Arc::new(spec(name, script, options));
            runtime.prepare(spec.clone()).await.map_err(fail)?;
            runtime.start(spec, run).await.map_err(fail)
        }
        ["again", name, run, script] => {
            let run = RunId(run.parse().map_err(|_| "no number".to_owned())?);
            let spec = Arc::new(spec(name, script, Options::default()));
            runtime.start(spec, run).await.map_err(fail)
        }
        ["stop", name, grace] => {
            let grace = Duration::from_millis(grace.parse().map_err(|_| "no number".to_owned())?);
            runtime.stop(ident(name), grace).await.map_err(fail)
        }
        ["adopt", names @ ..] => {
            let known = names.iter().map(|name| ident(name)).collect();
            for one in runtime
                .adopt(known, Duration::ZERO)
                .await
                .map_err(unadopted)?
            {
                println!(
                    "adopted {} {} {:?}",
                    one.instance.item_id, one.run.0, one.state
                );
            }
            Ok(())
        }
        ["place", name, run] => {
            let run = RunId(run.parse().map_err(|_| "no number".to_owned())?);
            match runtime.place(&ident(name), run) {
                Some(place) => {
                    let cgroup = place.cgroup.unwrap_or_default();
                    let own = place.instance_cgroup.unwrap_or_default();
                    let written = place.written.unwrap_or_default();
                    println!("place {} {cgroup} {own} {}", place.unit, written.display());
                }
                None => println!("nowhere"),
            }
            Ok(())
        }
        ["watch", names @ ..] => {
            let known = names.iter().map(|name| ident(name)).collect();
            runtime
                .adopt(known, Duration::ZERO)
                .await
                .map_err(unadopted)?;
            let mut events = runtime.events();
            println!("watching");
            while let Some(event) = events.recv().await {
                println!(
                    "event {} {} {:?}",
                    event.instance.item_id, event.run.0, event.state
                );
            }
            Ok(())
        }
        ["leftovers", names @ ..] => {
            let running: Vec<String> = names
                .iter()
                .map(|name| ident(name).instance_id().to_string())
                .collect();
            for leftover in leftovers(driven.folder, driven.prefix, &running) {
                println!("leftover {leftover}");
            }
            Ok(())
        }
        ["start-stop", name, others @ ..] => {
            let spec = Arc::new(spec(name, "exec sleep 1000", Options::default()));
            let known = others.iter().map(|name| ident(name)).collect();
            runtime
                .adopt(known, Duration::ZERO)
                .await
                .map_err(unadopted)?;
            runtime.prepare(spec.clone()).await.map_err(fail)?;
            runtime.start(spec, RunId(1)).await.map_err(fail)?;
            runtime
                .stop(ident(name), Duration::ZERO)
                .await
                .map_err(fail)
        }
        ["start-many", count] => {
            let count: u64 = count.parse().map_err(|_| "no number".to_owned())?;
            let start = |number: u64| async move {
                let spec = Arc::new(spec(
                    &format!("many-{number}"),
                    "exec sleep 1000",
                    Options::default(),
                ));
                runtime.prepare(spec.clone()).await?;
                runtime.start(spec, RunId(1)).await
            };
            let all = futures_util::future::try_join_all((0..count).map(start)).await;
            all.map(drop).map_err(fail)
        }
        ["stop-many", count] => {
            let count: u64 = count.parse().map_err(|_| "no number".to_owned())?;
            let stop = |number: u64| runtime.stop(ident(&format!("many-{number}")), Duration::ZERO);
            let all = futures_util::future::try_join_all((0..count).map(stop)).await;
            all.map(drop).map_err(fail)
        }
        _ => Err(format!("no such command: {words:?}")),
    }
}

/// What is driven.
#[derive(Debug)]
pub struct Driven<'a> {
    /// The runtime.
    pub runtime: &'a dyn Runtime,
    /// Where its instances have their folders.
    pub folder: &'a Path,
    /// What its units are called.
    pub prefix: &'a str,
}

/// Carries out what the command line says.
pub async fn drive(driven: Driven<'_>) -> ExitCode {
    muster_fault::init(&[FAULT_POINTS]);
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&driven, &words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
