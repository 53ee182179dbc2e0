//! `kill -9` at every fault point: what was acknowledged is there and whole, and the next run reaches the same end.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use common::{TestLayout, image, layer, open_with, settings, tree};
use muster_api::domain::Digest;
use muster_fault::{Action, Trial, matrix, test_program};
use muster_image::FAULT_POINTS;
use muster_lab::oci::{Compression, Image};
use tempfile::TempDir;

struct Scene {
    folder: TempDir,
    layout: TestLayout,
    old: Digest,
    new: Digest,
}

impl Scene {
    fn new() -> Self {
        let mut layout = TestLayout::new();
        let shared = layer(50, 30_000, Compression::Gzip);
        let old = Image::new()
            .layer(shared.clone())
            .layer(layer(60, 70_000, Compression::Zstd));
        let old = layout.add("old", &old);
        let new = layout.add("new", &image(1, 90_000).layer(shared));
        Self {
            folder: tempfile::tempdir().unwrap(),
            layout,
            old,
            new,
        }
    }

    fn steps(&self) -> Vec<String> {
        let words = [
            "install",
            &self.old.to_string(),
            "install",
            &self.new.to_string(),
            "check",
            "keep",
            &self.new.to_string(),
            "collect",
            "check",
        ];
        words.map(str::to_owned).to_vec()
    }

    fn run(&self, steps: &[String], trial: Option<(&Trial, u64)>) -> Vec<String> {
        let mut command = Command::new(test_program("image_installer"));
        command
            .arg(self.folder.path())
            .arg(self.layout.folder.path())
            .args(steps);
        command.env_remove("MUSTER_FAULT").stderr(Stdio::inherit());
        if let Some((trial, nth)) = trial {
            trial.arm_at(&mut command, nth, Action::Kill);
        }
        let output = command.output().expect("the installer starts");
        let said: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect();
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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (store, report) = open_with(settings(self.folder.path())).await;
            assert_eq!(
                report.lost,
                [],
                "a record without its content, with no power cut"
            );
            assert_eq!(store.check(u64::MAX).await.unwrap().damaged, []);
            let is_kept = said
                .iter()
                .any(|line| line == "kept" || line == "collected");
            for item in [self.old, self.new] {
                let acknowledged = said.contains(&format!("installed {item}"));
                let may_be_gone = item == self.old && is_kept;
                if acknowledged && !may_be_gone {
                    assert!(
                        store.installed(item).await.unwrap().is_some(),
                        "{item} is lost"
                    );
                }
            }
        });
        let left = tree(&self.folder.path().join("images"));
        let is_leftover = |path: &std::path::PathBuf| {
            path.starts_with("unpacking") && path.components().count() > 1
                || path.starts_with("trash") && path.components().count() > 1
        };
        assert!(!left.iter().any(is_leftover), "{left:?}");
    }

    fn end_state(&self) -> Vec<String> {
        let images = self.folder.path().join("images");
        tree(&images)
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }
}

#[test]
fn a_kill_at_any_point_loses_nothing_acknowledged_and_the_next_run_ends_the_same() {
    muster_lab::require!(Root);
    let reference = Scene::new();
    reference.run(&reference.steps(), None);
    let expected = reference.end_state();
    let reachable: Vec<_> = FAULT_POINTS
        .iter()
        .copied()
        .filter(|point| point.name() != "image.damage-recorded")
        .collect();
    matrix(&reachable, |trial| {
        for nth in [1, 3] {
            let scene = Scene::new();
            let said = scene.run(&scene.steps(), Some((trial, nth)));
            scene.assert_sound(&said);
            scene.run(&scene.steps(), None);
            assert_eq!(
                scene.end_state(),
                expected,
                "{} ({nth})",
                trial.point().name()
            );
        }
    });
}

#[test]
fn a_kill_while_damage_is_taken_away_leaves_it_to_be_repaired() {
    muster_lab::require!(Root);
    let points: Vec<_> = FAULT_POINTS
        .iter()
        .copied()
        .filter(|point| point.name() == "image.damage-recorded")
        .collect();
    matrix(&points, |trial| {
        let scene = Scene::new();
        let install = ["install".to_owned(), scene.new.to_string()];
        scene.run(&install, None);
        let layers = scene.folder.path().join("images/layers/sha256");
        let damaged = fs::read_dir(&layers)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for layer in damaged {
            fs::write(layer.join("opt/more"), "damage").unwrap();
        }
        scene.run(&["check".to_owned()], Some((trial, 1)));
        scene.run(
            &[
                "check".to_owned(),
                "install".to_owned(),
                scene.new.to_string(),
            ],
            None,
        );
        scene.assert_sound(&[format!("installed {}", scene.new)]);
        let left = scene.end_state();
        let is_damaged = |path: &String| path.starts_with("layers/") && path.ends_with("opt/more");
        assert!(!left.iter().any(is_damaged), "{left:?}");
    });
}
