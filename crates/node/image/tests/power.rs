//! Power cuts: what is believed present is whole, what was acknowledged is there. And the proof that the tests would notice: with any
//! one flush left out, they find the loss.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{TestLayout, image, settings};
use muster_api::domain::Digest;
use muster_image::{ImageStore, OpenReport, SCHEMA, StoreSettings, Weakness};
use muster_lab::powercut::{
    Ack, CheckFailure, CutReport, CutTest, CutTestError, ack, reexec, role,
};
use muster_store::{OnDamage, Store, StoreConfig};

const IMAGES: u64 = 3;

fn power_settings(folder: &Path, weakness: Option<Weakness>) -> StoreSettings {
    let settings = settings(folder);
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

/// Where the database is.
///
/// On ext4 a flush of any file also makes earlier renames durable, so a database on the same disk hides a missing flush of a
/// folder. With the database on a disk of its own, which never fails, nothing does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Database {
    SameDisk,
    OtherDisk,
}

const OTHER_DISK: &str = "IMAGE_POWER_OTHER_DISK";

async fn open(settings: StoreSettings, database: &Path) -> (ImageStore, OpenReport) {
    let config = StoreConfig::new(database.join("sm.db"), "power-test 1", OnDamage::Refuse);
    let db = Store::open(&config.schema(&SCHEMA))
        .expect("the database opens")
        .store;
    ImageStore::open(settings, db)
        .await
        .expect("the store opens")
}

fn copy_database(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, PermissionsExt::from_mode(0o700))?;
    for file in fs::read_dir(from)? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}

/// The program under test: acknowledges each image after its installation.
fn install_images(folder: &Path, weakness: Option<Weakness>) {
    let other = std::env::var_os(OTHER_DISK).map(PathBuf::from);
    let database = match &other {
        Some(other) => other.join("live"),
        None => folder.join("state"),
    };
    runtime().block_on(async {
        let mut settings = power_settings(folder, weakness);
        // What is stored last is followed by no other flush that would cover for a missing one: blobs of layers, or layers.
        settings.keep_layer_blobs = match weakness {
            Some(Weakness::LayerName) => false,
            Some(_) => true,
            None => other.is_none(),
        };
        let (store, _) = open(settings, &database).await;
        for number in 0..IMAGES {
            let mut layout = TestLayout::new();
            let digest = layout.add("web", &image(seed(number), 40_000));
            store.install(digest, layout.source(), None).await.unwrap();
            if let Some(other) = &other {
                // The database as it is at this moment; nobody writes to it now.
                copy_database(&database, &other.join(digest.to_hex())).unwrap();
            }
            ack(&digest.to_string()).expect("the rig listens");
        }
    });
}

fn check_images(folder: &Path, other: Option<&Path>, acks: &[Ack]) -> Result<(), CheckFailure> {
    let scratch = tempfile::tempdir()?;
    let database = match (other, acks.last()) {
        (Some(_), None) => return Ok(()),
        (Some(other), Some(last)) => {
            let digest: Digest = last.text.parse()?;
            let database = scratch.path().join("db");
            copy_database(&other.join(digest.to_hex()), &database)?;
            database
        }
        (None, _) => folder.join("state"),
    };
    if !database.join("sm.db").exists() {
        return match acks {
            [] => Ok(()),
            _ => Err("the database is gone".into()),
        };
    }
    runtime().block_on(async {
        let (store, report) = open(power_settings(folder, None), &database).await;
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

fn cut(
    test: &'static str,
    database: Database,
    seed: u64,
    cuts: usize,
) -> Result<CutReport, CutTestError> {
    let other = tempfile::tempdir().unwrap();
    let other = (database == Database::OtherDisk).then_some(other.path());
    let program = |mount: &Path| {
        let mut command = reexec(test, "installer", mount)?;
        if let Some(other) = other {
            command.env(OTHER_DISK, other);
        }
        Ok(command)
    };
    CutTest::new(program, |folder: &Path, acks: &[Ack]| {
        check_images(folder, other, acks)
    })
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
    let test = "what_is_believed_present_survives_a_power_cut";
    let first = muster_lab::seed();
    let (mut sound, mut unmountable) = (0, 0);
    for round in 0..muster_lab::rounds(5, 50) {
        let seed = first.wrapping_add(u64::from(round) * 1000);
        for database in [Database::SameDisk, Database::OtherDisk] {
            match cut(test, database, seed, 12) {
                Ok(report) => {
                    assert_eq!(report.acks.len() as u64, IMAGES);
                    sound += 1;
                }
                // The disk tears blocks; once in a while that is the file system's own first block.
                Err(CutTestError::Unmountable(..)) => unmountable += 1,
                Err(error) => panic!("seed {seed}: {error:?}"),
            }
        }
    }
    assert!(
        unmountable <= sound,
        "{unmountable} of {} disks",
        sound + unmountable
    );
}

fn assert_found(test: &'static str, database: Database, weakness: Weakness) {
    if let Some(role) = role() {
        return install_images(&role.folder, Some(weakness));
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    for seed in 1..=10 {
        match cut(test, database, seed, 40) {
            Err(CutTestError::Lost(cut, loss)) => return println!("found: {cut}: {loss}"),
            Err(CutTestError::Unmountable(..)) | Ok(_) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("no loss was found");
}

#[test]
fn blobs_whose_content_is_not_flushed_are_found() {
    assert_found(
        "blobs_whose_content_is_not_flushed_are_found",
        Database::SameDisk,
        Weakness::BlobContent,
    );
}

#[test]
fn blobs_whose_name_is_not_flushed_are_found() {
    assert_found(
        "blobs_whose_name_is_not_flushed_are_found",
        Database::OtherDisk,
        Weakness::BlobName,
    );
}

#[test]
fn layers_whose_content_is_not_flushed_are_found() {
    assert_found(
        "layers_whose_content_is_not_flushed_are_found",
        Database::SameDisk,
        Weakness::LayerContent,
    );
}

#[test]
fn layers_whose_name_is_not_flushed_are_found() {
    assert_found(
        "layers_whose_name_is_not_flushed_are_found",
        Database::OtherDisk,
        Weakness::LayerName,
    );
}
