//! `kill -9` at every fault point: what was acknowledged is there and whole, and the next run reaches the same end.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use muster_api::domain::Digest;
use muster_desired::ImageSource;
use muster_fault::{Action, Point, Trial, matrix, test_program};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::rig::{TestLayout, image, item, kept, layer, open};
use crate::server::{Faults, FileServer};
use crate::test_cloud::encrypt_cbc;

struct Scene {
    folder: TempDir,
    layout: TestLayout,
    server: FileServer,
    old: Digest,
    new: Digest,
}

impl Scene {
    /// An old version from the layout, and a new one from the cloud.
    fn new() -> Self {
        let mut layout = TestLayout::new();
        let shared = layer(50, 30_000);
        let old = layout.add("old", &image(1, 70_000).layer(shared.clone()));
        let new = layout.add("new", &image(2, 90_000).layer(shared));
        let (mut files, mut infos) = (BTreeMap::new(), String::new());
        for digest in layout.blobs() {
            let content = encrypt_cbc(&layout.blob(&digest), &[0; 32], &[0; 16]);
            let hash = Sha256::digest(&content);
            let size = content.len();
            infos += &format!("{digest} {} {size}\n", hex::encode(hash));
            files.insert(format!("/{}", digest.to_hex()), content);
        }
        fs::write(layout.path().join("infos"), infos).unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            layout,
            server: FileServer::start(files, Faults::default()),
            old,
            new,
        }
    }

    fn run(&self, trial: Option<(&Trial, u64)>) -> Vec<String> {
        let mut command = Command::new(test_program("item_keeper"));
        let (old, new) = (self.old.to_string(), self.new.to_string());
        command
            .arg(self.folder.path())
            .arg(self.layout.path())
            .arg(self.server.url())
            .args(["layout", "old", &old, "cloud", "new", &new])
            .args(["retain", "collect"])
            .env_remove("MUSTER_FAULT")
            .stderr(Stdio::inherit());
        if let Some((trial, nth)) = trial {
            trial.arm_at(&mut command, nth, Action::Kill);
        }
        let output = command.output().expect("the keeper starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let said: Vec<String> = said.lines().map(str::to_owned).collect();
        match trial {
            Some((trial, 1)) => trial.assert_killed(output.status),
            // A later time may never come.
            Some(_) if output.status.signal() == Some(9) => {}
            _ => assert!(
                output.status.success(),
                "{:?} after {said:?}",
                output.status
            ),
        }
        said
    }

    /// What a fresh process believes in is there and whole; what was acknowledged is among it.
    fn assert_sound(&self, said: &[String]) {
        let has = |line: &str| said.iter().any(|it| it == line);
        runtime().block_on(async {
            let items = open(self.folder.path()).await;
            kept(&items);
            let path = self.layout.path();
            let old = ImageSource::Layout {
                path,
                name: None,
                index: Some(self.old),
            };
            let old = item("web", "old", old);
            let new = item("web", "new", ImageSource::Cloud { index: self.new });
            // What was marked, was marked by a step that had begun.
            if has("downloaded old") && !has("downloaded new") {
                items.describe(&old).await.expect("acknowledged");
            }
            if has("downloaded new") {
                items.describe(&new).await.expect("acknowledged");
            }
            if has("collected") {
                items.describe(&old).await.expect_err("collected");
            }
        });
    }

    fn end_state(&self) -> Vec<Digest> {
        runtime().block_on(async { kept(&open(self.folder.path()).await) })
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    built.unwrap()
}

/// Those of this crate, and those of the store of blobs that no unpacking and no damage is needed for.
fn reachable() -> Vec<Point> {
    let of_blobs = muster_image::FAULT_POINTS.iter().filter(|point| {
        let name = point.name();
        !name.starts_with("image.layer-") && name != "image.damage-recorded"
    });
    of_blobs
        .chain(muster_items::FAULT_POINTS)
        .copied()
        .collect()
}

#[test]
fn a_kill_at_any_point_loses_nothing_acknowledged_and_the_next_run_ends_the_same() {
    let reference = Scene::new();
    let said = reference.run(None);
    let all = [
        "opened",
        "downloaded old",
        "downloaded new",
        "retained",
        "collected",
        "closed",
    ];
    assert_eq!(said, all);
    let expected = reference.end_state();
    matrix(&reachable(), |trial| {
        for nth in [1, 4] {
            let scene = Scene::new();
            let said = scene.run(Some((trial, nth)));
            scene.assert_sound(&said);
            scene.run(None);
            assert_eq!(
                scene.end_state(),
                expected,
                "{} ({nth})",
                trial.point().name()
            );
        }
    });
}
