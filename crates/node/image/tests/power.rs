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

/// What is installed, and how.
///
/// On ext4 a flush of any file also makes earlier renames durable, so a database on the same disk, or whatever is stored later,
/// hides a missing flush of a folder. No one of these shows all that could be missing; together they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    /// The database is on the same disk, as it is on a node. Layers stay as blobs, too.
    AsOnANode,
    /// The database is on a disk of its own, which never fails. What is stored last is blobs.
    BlobsLast,
    /// The same, and what is stored last is layers.
    LayersLast,
}

impl Scenario {
    const ALL: [Self; 3] = [Self::AsOnANode, Self::BlobsLast, Self::LayersLast];

    fn keeps_layer_blobs(self) -> bool {
        matches!(self, Self::AsOnANode | Self::BlobsLast)
    }
}

/// Which of [`Scenario::ALL`].
const SCENARIO: &str = "IMAGE_POWER_SCENARIO";
/// A folder on the disk that never fails.
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
    let scenario = std::env::var(SCENARIO).unwrap();
    let scenario = Scenario::ALL[scenario.parse::<usize>().unwrap()];
    let other = PathBuf::from(std::env::var_os(OTHER_DISK).unwrap());
    let database = match scenario {
        Scenario::AsOnANode => folder.join("state"),
        _ => other.join("live"),
    };
    let acknowledge = |digest: Digest| {
        if scenario != Scenario::AsOnANode {
            // The database as it is at this moment; nobody writes to it now.
            copy_database(&database, &other.join(digest.to_hex())).unwrap();
        }
        ack(&digest.to_string()).expect("the rig listens");
    };
    runtime().block_on(async {
        let mut settings = power_settings(folder, weakness);
        settings.keep_layer_blobs = scenario.keeps_layer_blobs();
        let (store, _) = open(settings, &database).await;
        for number in 0..IMAGES {
            let mut layout = TestLayout::new();
            let digest = layout.add("web", &image(seed(number), 40_000));
            store.install(digest, layout.source(), None).await.unwrap();
            acknowledge(digest);
        }
    });
}

fn check_images(
    folder: &Path,
    scenario: Scenario,
    other: &Path,
    acks: &[Ack],
) -> Result<(), CheckFailure> {
    let scratch = tempfile::tempdir()?;
    let database = match (scenario, acks.last()) {
        (Scenario::AsOnANode, _) => folder.join("state"),
        (_, None) => return Ok(()),
        (_, Some(last)) => {
            let digest: Digest = last.text.parse()?;
            let database = scratch.path().join("db");
            copy_database(&other.join(digest.to_hex()), &database)?;
            database
        }
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
    (number, scenario): (usize, Scenario),
    seed: u64,
) -> Result<CutReport, CutTestError> {
    let other = tempfile::tempdir().unwrap();
    let program = |mount: &Path| {
        let mut command = reexec(test, "installer", mount)?;
        command.env(SCENARIO, number.to_string());
        command.env(OTHER_DISK, other.path());
        Ok(command)
    };
    CutTest::new(program, |folder: &Path, acks: &[Ack]| {
        check_images(folder, scenario, other.path(), acks)
    })
    .rounds(12)
    .seed(seed)
    .run()
}

/// Cuts the power in every scenario. The first loss, if there is one; the same work is done to find a weakness as to find none.
fn first_loss(test: &'static str) -> Option<String> {
    let first = muster_lab::seed();
    let (mut sound, mut unmountable) = (0, 0);
    for round in 0..muster_lab::rounds(5, 50) {
        let seed = first.wrapping_add(u64::from(round) * 1000);
        for scenario in Scenario::ALL.into_iter().enumerate() {
            match cut(test, scenario, seed) {
                Ok(report) => {
                    assert_eq!(report.acks.len() as u64, IMAGES);
                    sound += 1;
                }
                // The disk tears blocks; once in a while that is the file system's own first block.
                Err(CutTestError::Unmountable(..)) => unmountable += 1,
                Err(CutTestError::Lost(cut, loss)) => {
                    return Some(format!("seed {seed}, {:?}: {cut}: {loss}", scenario.1));
                }
                Err(error) => panic!("seed {seed}, {scenario:?}: {error:?}"),
            }
        }
    }
    assert!(
        unmountable <= sound,
        "{unmountable} of {} disks",
        sound + unmountable
    );
    None
}

#[test]
fn what_is_believed_present_survives_a_power_cut() {
    if let Some(role) = role() {
        return install_images(&role.folder, None);
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let loss = first_loss("what_is_believed_present_survives_a_power_cut");
    assert_eq!(loss, None);
}

fn assert_found(test: &'static str, weakness: Weakness) {
    if let Some(role) = role() {
        return install_images(&role.folder, Some(weakness));
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let loss = first_loss(test).expect("a loss is found");
    println!("found: {loss}");
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
