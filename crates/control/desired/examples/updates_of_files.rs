//! Updates of a Unit whose downloads and nodes are files, for tests that kill it.
//!
//! `updates_of_files FOLDER [SET]`: with a set (`1=2,3=1`: item 1 in version 2, item 3 in version 1) that is what is wanted;
//! without, the last one holds. Prints what became of it when the update is over, and ends. Items that are there are files in
//! `FOLDER/items`, what runs on the two nodes are files in `FOLDER/node-1` and `FOLDER/node-2`, which outlive the program as
//! real nodes would. A file of an instance is written only when its content changes, and its second line counts the writes.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{
    AlertRules, AosError, Digest, Gid, InstanceIdent, InstanceInfo, InstanceState, InstanceStatus,
    NodeId, Uid,
};
use muster_desired::seams::{
    Assignment, Balancer, DownloadMeter, Downloads, NodeShare, Nodes, Question, Reports,
};
use muster_desired::{
    Accepted, DesiredStatus, Document, ImageEntry, InstancesEntry, Item, ItemEntry, Limits, Origin,
    Parts, Progress, SCHEMA, UpdateStep, Updates,
};
use muster_store::{OnDamage, Store, StoreConfig};

const NODES: [&str; 2] = ["node-1", "node-2"];

#[derive(Debug)]
struct Files {
    folder: PathBuf,
    updates: OnceLock<Updates>,
}

impl Files {
    fn item(&self, item: &Item) -> PathBuf {
        let name = format!("{}-{}", item.id, item.version);
        self.folder.join("items").join(name)
    }

    fn running(&self, node: &NodeId) -> Vec<(PathBuf, String)> {
        let entries = fs::read_dir(self.folder.join(node.as_str())).expect("the node's folder");
        let paths = entries.map(|it| it.expect("an entry").path());
        let files = paths.map(|path| {
            let text = fs::read_to_string(&path).expect("a file");
            (path, text)
        });
        files.collect()
    }

    fn statuses(&self, node: &NodeId) -> Vec<InstanceStatus> {
        let running = self.running(node).into_iter();
        let status = |(path, text): (PathBuf, String)| InstanceStatus {
            instance: ident(path.file_name().and_then(|it| it.to_str()).expect("a name")),
            version: text.lines().next().unwrap_or_default().to_owned(),
            runtime_id: None,
            manifest_digest: None,
            env_vars: Vec::new(),
            state: InstanceState::Active,
            error: None,
        };
        running.map(status).collect()
    }
}

fn ident(item: &str) -> InstanceIdent {
    InstanceIdent {
        item_id: item.parse().expect("an item"),
        subject_id: "local".parse().expect("a subject"),
        instance: 0,
        item_type: muster_api::domain::ItemType::Service,
        preinstalled: false,
    }
}

/// Never half a file.
fn write(path: &Path, text: &str) {
    let temporary = path
        .parent()
        .and_then(Path::parent)
        .expect("a folder")
        .join("new");
    fs::write(&temporary, text).expect("it is written");
    fs::rename(&temporary, path).expect("it is put in place");
}

impl Downloads for Files {
    fn download(
        &self,
        item: Item,
        _: Arc<DesiredStatus>,
        meter: DownloadMeter,
    ) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async move {
            meter.set(1, 2);
            tokio::task::yield_now().await;
            write(&self.item(&item), "");
            Ok(())
        })
    }

    fn retain(&self, items: BTreeSet<Item>) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async move {
            let kept: BTreeSet<PathBuf> = items.iter().map(|it| self.item(it)).collect();
            for entry in fs::read_dir(self.folder.join("items")).expect("the folder") {
                let path = entry.expect("an entry").path();
                if !kept.contains(&path) {
                    fs::remove_file(path).expect("it goes");
                }
            }
            Ok(())
        })
    }
}

impl Balancer for Files {
    fn plan(&self, question: Question) -> BoxFuture<'_, Result<Assignment, AosError>> {
        Box::pin(async move {
            let mut assignment = Assignment::default();
            for item in question.items.values() {
                assert!(self.item(item).exists(), "{} is not here", item.id);
                let number: usize = item.id.as_str().parse().expect("a number");
                let node: NodeId = NODES[number % 2].parse().expect("a node");
                let share = assignment.nodes.entry(node).or_default();
                share.instances.push(InstanceInfo {
                    instance: ident(item.id.as_str()),
                    version: item.version.clone(),
                    manifest_digest: Digest::from_sha256([1; 32]),
                    owner_id: None,
                    runtime_id: "files".parse().expect("a runtime"),
                    uid: Uid::new(5000).expect("a user"),
                    gid: Gid::new(5000).expect("a group"),
                    priority: 0,
                    storage_path: None,
                    state_path: None,
                    env_vars: Vec::new(),
                    network: None,
                    alert_rules: AlertRules::default(),
                });
            }
            Ok(assignment)
        })
    }
}

impl Nodes for Files {
    fn configure(&self, _: Arc<DesiredStatus>) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async { Ok(()) })
    }

    fn update(
        &self,
        node: NodeId,
        share: NodeShare,
        _: Vec<InstanceIdent>,
    ) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async move {
            let folder = self.folder.join(node.as_str());
            let wanted: BTreeSet<PathBuf> = (share.instances.iter())
                .map(|it| folder.join(it.instance.item_id.as_str()))
                .collect();
            for (path, _) in self.running(&node) {
                if !wanted.contains(&path) {
                    fs::remove_file(path).expect("it stops");
                }
            }
            for info in &share.instances {
                let path = folder.join(info.instance.item_id.as_str());
                let before = fs::read_to_string(&path).unwrap_or_default();
                let mut lines = before.lines();
                if lines.next() != Some(&info.version) {
                    let starts: u64 = lines.next().map_or(0, |it| it.parse().expect("a count"));
                    write(&path, &format!("{}\n{}\n", info.version, starts + 1));
                }
            }
            // The node tells on its own stream, and takes its time, so that waiting for it is seen on disk.
            let updates = self.updates.get().expect("the handle").clone();
            let statuses = self.statuses(&node);
            tokio::spawn(async move {
                let mut progress = updates.progress();
                let waits = |it: &Arc<Progress>| it.step != UpdateStep::Launching;
                if progress.wait_for(waits).await.is_ok() {
                    updates.instances(node, true, statuses).await;
                }
            });
            Ok(())
        })
    }
}

impl Reports for Files {
    fn changed(&self, _: &Arc<Progress>) {}
    fn finished(&self, _: &Arc<Progress>) {}
}

fn desired(set: &str) -> Result<DesiredStatus, Box<dyn Error>> {
    let mut document = Document::default();
    for pair in set.split(',').filter(|pair| !pair.is_empty()) {
        let (item, version) = pair.split_once('=').ok_or("ITEM=VERSION")?;
        document.items.push(ItemEntry {
            id: item.to_owned(),
            version: version.to_owned(),
            image: ImageEntry {
                registry: Some(format!("files/{item}")),
                ..ImageEntry::default()
            },
            ..ItemEntry::default()
        });
        document.instances.push(InstancesEntry {
            item: item.to_owned(),
            ..InstancesEntry::default()
        });
    }
    Ok(document.check()?)
}

async fn run(folder: &Path, set: Option<&str>) -> Result<(), Box<dyn Error>> {
    for name in NODES.iter().chain(&["items"]) {
        fs::create_dir_all(folder.join(name))?;
    }
    let config = StoreConfig::new(folder.join("unit.db"), "test 1", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA))?.store;
    let files = Arc::new(Files {
        folder: folder.to_owned(),
        updates: OnceLock::new(),
    });
    let parts = Parts {
        store,
        downloads: files.clone(),
        balancer: files.clone(),
        nodes: files.clone(),
        reports: files.clone(),
    };
    let limits = Limits {
        report_period: Duration::ZERO,
        ..Limits::default()
    };
    let (updates, task) = Updates::start(parts, limits).await?;
    files
        .updates
        .set(updates.clone())
        .map_err(|_| "set twice")?;
    let task = tokio::spawn(task);
    let mut newest = None;
    if let Some(set) = set {
        let accepted = updates
            .apply(desired(set)?, Origin::Operator, "test")
            .await?;
        let (Accepted::New(update) | Accepted::Unchanged(update)) = accepted;
        newest = Some(update);
        println!("accepted");
    }
    // Nodes come only when everything is there, so that every step is seen on disk.
    let mut progress = updates.progress();
    let waits = |it: &Arc<Progress>| it.update >= newest && it.step != UpdateStep::Downloading;
    progress.wait_for(waits).await?;
    for node in NODES {
        let node: NodeId = node.parse()?;
        updates.node_up(node.clone(), false).await;
        let statuses = files.statuses(&node);
        updates.instances(node, true, statuses).await;
    }
    let over = |it: &Arc<Progress>| {
        let settled = it
            .instances
            .values()
            .all(|it| it.condition.to_string() == "active");
        it.update.is_none() || it.done && settled
    };
    let last = progress.wait_for(over).await?.clone();
    for failure in last.failures() {
        println!("failed: {failure}");
    }
    let versions = updates.versions().await?.len();
    println!("{versions} versions");
    println!("ended");
    // The task ends with its process: the seams hold a handle.
    task.abort();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    muster_fault::init(&[muster_desired::FAULT_POINTS]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.first().ok_or("which folder?")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(Path::new(folder), arguments.get(1).map(String::as_str)))
}
