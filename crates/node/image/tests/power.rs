//! Power cuts: what is believed present is whole, what was acknowledged is there. And the proof that the tests would notice: with any
//! one flush left out, they find the loss.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;

use common::{TestLayout, image, open_with, settings};
use muster_api::domain::Digest;
use muster_image::{StoreSettings, Weakness};
use muster_lab::powercut::{
    Ack, CheckFailure, CutReport, CutTest, CutTestError, ack, reexec, role,
};

const IMAGES: u64 = 3;

/// Settings under which blobs of layers stay, so that there are large ones to lose.
fn power_settings(folder: &Path, weakness: Option<Weakness>) -> StoreSettings {
    let mut settings = settings(folder);
    settings.keep_layer_blobs = true;
    match weakness {
        Some(weakness) => settings.weakened(weakness),
        None => settings,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

fn seed(number: u64) -> u64 {
    number * 10 + 1
}

/// The program under test: acknowledges each image after its installation.
fn install_images(folder: &Path, weakness: Option<Weakness>) {
    runtime().block_on(async {
        let (store, _) = open_with(power_settings(folder, weakness)).await;
        for number in 0..IMAGES {
            let mut layout = TestLayout::new();
            let digest = layout.add("web", &image(seed(number), 40_000));
            store.install(digest, layout.source(), None).await.unwrap();
            ack(&digest.to_string()).expect("the rig listens");
        }
    });
}

fn check_images(folder: &Path, acks: &[Ack]) -> Result<(), CheckFailure> {
    if !folder.join("state/sm.db").exists() {
        return match acks {
            [] => Ok(()),
            _ => Err("the database is gone".into()),
        };
    }
    runtime().block_on(async {
        let (store, report) = open_with(power_settings(folder, None)).await;
        // A record is written after its content is flushed.
        if !report.lost.is_empty() {
            return Err(format!("recorded and not there: {:?}", report.lost).into());
        }
        let checked = store.check(u64::MAX).await?;
        if !checked.damaged.is_empty() {
            return Err(format!("believed present and not whole: {:?}", checked.damaged).into());
        }
        for acknowledged in acks {
            let digest: Digest = acknowledged.text.parse()?;
            if store.installed(digest).await?.is_none() {
                return Err(format!("{digest} was installed and is not there").into());
            }
        }
        Ok(())
    })
}

fn cut(test: &'static str, seed: u64, cuts: usize) -> Result<CutReport, CutTestError> {
    CutTest::new(
        |mount: &Path| reexec(test, "installer", mount),
        check_images,
    )
    .rounds(cuts)
    .seed(seed)
    .run()
}

#[test]
fn what_is_believed_present_survives_a_power_cut() {
    if let Some(role) = role() {
        return install_images(&role.folder, None);
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let first = muster_lab::seed();
    for round in 0..muster_lab::rounds(5, 50) {
        let seed = first.wrapping_add(u64::from(round) * 1000);
        let report = cut("what_is_believed_present_survives_a_power_cut", seed, 12).unwrap();
        assert_eq!(report.acks.len() as u64, IMAGES);
    }
}

fn assert_found(test: &'static str, weakness: Weakness) {
    if let Some(role) = role() {
        return install_images(&role.folder, Some(weakness));
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    match cut(test, 1, 60) {
        Err(CutTestError::Lost(cut, loss)) => println!("found: {cut}: {loss}"),
        other => panic!("no loss was found: {other:?}"),
    }
}

#[test]
fn blobs_whose_content_is_not_flushed_are_found() {
    assert_found(
        "blobs_whose_content_is_not_flushed_are_found",
        Weakness::BlobContent,
    );
}

#[test]
fn blobs_whose_name_is_not_flushed_are_found() {
    assert_found(
        "blobs_whose_name_is_not_flushed_are_found",
        Weakness::BlobName,
    );
}

#[test]
fn layers_whose_content_is_not_flushed_are_found() {
    assert_found(
        "layers_whose_content_is_not_flushed_are_found",
        Weakness::LayerContent,
    );
}

#[test]
fn layers_whose_name_is_not_flushed_are_found() {
    assert_found(
        "layers_whose_name_is_not_flushed_are_found",
        Weakness::LayerName,
    );
}
