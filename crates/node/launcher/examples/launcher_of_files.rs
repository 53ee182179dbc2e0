//! A launcher whose instances are files, for tests that kill it.
//!
//! `launcher_of_files FOLDER [SET]`: with a set (`1=2,3=1`: item 1 in version 2, item 3 in version 1) that is what the controller
//! wants; without, the last one holds. Prints the statuses when everything has settled, and ends. What "runs" are the files in
//! `FOLDER/running`, which outlive the program as units of an init system would: the run, the version, and, where somebody adds
//! it, how often it has ended, and anything for that it waits to be started again.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{
    AlertRules, ArchInfo, Digest, Gid, InstanceIdent, InstanceInfo, InstanceStatus, ItemType,
    OsInfo, RuntimeInfo, Uid,
};
use muster_item::{ImageConfig, ItemConfig};
use muster_launcher::seams::{Absent, Images, InstalledImage, SeamError};
use muster_launcher::{Launcher, Limits, Parts, Report, Reports, SCHEMA};
use muster_runtime::{
    AdoptError, Adopted, EVENT_QUEUE, Ended, ImagePaths, InstanceSpec, RunEvent, RunId, RunPlace,
    RunState, Runtime, RuntimeError,
};
use muster_store::{OnDamage, Store, StoreConfig};
use tokio::sync::mpsc;

#[derive(Debug)]
struct Files {
    running: PathBuf,
}

impl Files {
    fn path(&self, ident: &InstanceIdent) -> PathBuf {
        self.running.join(ident.item_id.as_str())
    }

    /// Every number that was ever used is on record, whoever died since.
    fn use_number(&self, run: RunId) {
        let numbers = self.running.with_file_name("numbers");
        fs::create_dir_all(&numbers).expect("a folder");
        fs::File::create_new(numbers.join(run.0.to_string())).expect("a number is used once");
    }
}

fn refuse(instance: InstanceIdent, step: &'static str, error: std::io::Error) -> RuntimeError {
    RuntimeError {
        instance,
        step,
        source: error.into(),
    }
}

impl Runtime for Files {
    fn info(&self) -> RuntimeInfo {
        RuntimeInfo {
            runtime_id: "files".parse().expect("an id"),
            runtime_type: "files".parse().expect("a type"),
            max_dmips: None,
            allowed_dmips: None,
            total_ram: None,
            allowed_ram: None,
            max_instances: 100,
            os_info: OsInfo::new("linux", "", Vec::new()).expect("an operating system"),
            arch_info: ArchInfo::new("amd64", "").expect("an architecture"),
        }
    }

    fn adopt(
        &self,
        known: Vec<InstanceIdent>,
        _: Duration,
    ) -> BoxFuture<'_, Result<Vec<Adopted>, AdoptError>> {
        Box::pin(async move {
            let mut adopted = Vec::new();
            let names: BTreeSet<PathBuf> = known.iter().map(|ident| self.path(ident)).collect();
            for instance in known {
                if let Ok(text) = fs::read_to_string(self.path(&instance)) {
                    let mut lines = text.lines();
                    let run = lines.next().and_then(|line| line.parse().ok());
                    let restarts = lines
                        .nth(1)
                        .map_or(0, |line| line.parse().expect("a number"));
                    let waits = lines.next().is_some();
                    adopted.push(Adopted {
                        instance,
                        run: RunId(run.expect("a run")),
                        restarts,
                        state: if waits {
                            let last = Ended::Exited(1);
                            RunState::Restarting { last, restarts }
                        } else {
                            RunState::Running
                        },
                    });
                }
            }
            for entry in fs::read_dir(&self.running).expect("the folder") {
                let path = entry.expect("an entry").path();
                if !names.contains(&path) {
                    fs::remove_file(path).expect("it goes");
                }
            }
            Ok(adopted)
        })
    }

    fn prepare(&self, _: Arc<InstanceSpec>) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async { Ok(()) })
    }

    fn start(
        &self,
        spec: Arc<InstanceSpec>,
        run: RunId,
    ) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            let ident = &spec.info.instance;
            let text = format!("{}\n{}\n", run.0, spec.info.version);
            let temporary = self.running.with_file_name("new");
            // Never half a file, and never two runs of one instance.
            assert!(!self.path(ident).exists(), "{ident} runs already");
            self.use_number(run);
            fs::write(&temporary, text)
                .and_then(|()| fs::rename(&temporary, self.path(ident)))
                .map_err(|error| refuse(ident.clone(), "start", error))
        })
    }

    fn stop(
        &self,
        instance: InstanceIdent,
        _: Duration,
    ) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            match fs::remove_file(self.path(&instance)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(refuse(instance, "stop", error))
                }
                _ => Ok(()),
            }
        })
    }

    fn place(&self, instance: &InstanceIdent, run: RunId) -> Option<RunPlace> {
        self.path(instance).exists().then(|| RunPlace {
            unit: format!("{}-{}.service", instance.item_id, run.0),
            cgroup: None,
            instance_cgroup: None,
            written: None,
            lacks: Vec::new(),
        })
    }

    fn events(&self) -> mpsc::Receiver<RunEvent> {
        let (sender, events) = mpsc::channel(EVENT_QUEUE);
        // Nothing ever happens to a file; the channel stays open as that of a real runtime does.
        std::mem::forget(sender);
        events
    }
}

#[derive(Debug)]
struct AllImages;

impl Images for AllImages {
    fn install(&self, _: Digest) -> BoxFuture<'_, Result<InstalledImage, SeamError>> {
        Box::pin(async {
            Ok(InstalledImage {
                paths: ImagePaths { layers: Vec::new() },
                image_config: ImageConfig::default(),
                item_config: ItemConfig::default(),
            })
        })
    }

    fn installed(&self, manifest: Digest) -> BoxFuture<'_, Option<InstalledImage>> {
        Box::pin(async move { self.install(manifest).await.ok() })
    }

    fn keep(&self, _: BTreeSet<Digest>) {}
}

fn wanted(set: &str) -> Result<Vec<InstanceInfo>, Box<dyn Error>> {
    let mut instances = Vec::new();
    for pair in set.split(',').filter(|pair| !pair.is_empty()) {
        let (item, version) = pair.split_once('=').ok_or("ITEM=VERSION")?;
        let version: u8 = version.parse()?;
        instances.push(InstanceInfo {
            instance: InstanceIdent {
                item_id: item.parse()?,
                subject_id: "subject".parse()?,
                instance: 0,
                item_type: ItemType::Service,
                preinstalled: false,
            },
            version: version.to_string(),
            manifest_digest: Digest::from_sha256([version; 32]),
            owner_id: None,
            runtime_id: "files".parse()?,
            uid: Uid::new(5000)?,
            gid: Gid::new(5000)?,
            priority: 0,
            storage_path: None,
            state_path: None,
            env_vars: Vec::new(),
            network: None,
            alert_rules: AlertRules::default(),
        });
    }
    Ok(instances)
}

async fn settled(reports: &Reports) -> Result<Vec<InstanceStatus>, Box<dyn Error>> {
    loop {
        match reports.next().await {
            Some(Report::Settled(all)) => return Ok(all),
            Some(Report::Changed(_)) => {}
            None => return Err("the launcher ended".into()),
        }
    }
}

async fn run(folder: &Path, set: Option<&str>) -> Result<(), Box<dyn Error>> {
    let running = folder.join("running");
    fs::create_dir_all(&running)?;
    let config = StoreConfig::new(folder.join("node.db"), "test 1", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA))?.store;
    let absent = || Arc::new(Absent);
    let parts = Parts {
        store,
        runtimes: vec![Arc::new(Files { running })],
        images: Arc::new(AllImages),
        permissions: absent(),
        network: absent(),
        resources: absent(),
        observers: Vec::new(),
        state_folder: folder.join("state"),
        storage_folder: folder.join("storage"),
    };
    let (launcher, reports, task) = Launcher::start(parts, Limits::default()).await?;
    let task = tokio::spawn(task);
    // First what was taken over, then the new set.
    let mut statuses = settled(&reports).await?;
    if let Some(set) = set {
        launcher.update(wanted(set)?).await?;
        statuses = settled(&reports).await?;
    }
    for status in statuses {
        let item = &status.instance.item_id;
        println!("{item}={} {}", status.version, status.state.as_str());
    }
    drop(launcher);
    task.await?;
    println!("ended");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    muster_fault::init(&[muster_launcher::FAULT_POINTS]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.first().ok_or("which folder?")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(Path::new(folder), arguments.get(1).map(String::as_str)))
}
