//! Items without a cloud: image layouts.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use muster_api::domain::{AosCode, Cause};
use muster_desired::{ImageSource, Trust};
use muster_image::{FetchBlobError, InstallError};
use muster_item::Platform;
use muster_items::{DescribeItemError, DownloadItemError, OpenSourceError, Progress};
use muster_lab::oci::{Blob, BlobDigest, media_type};
use tokio::sync::watch;

use crate::rig::{TestLayout, from_layout, image, item, kept, layer, open, open_with, settings};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn nobody() -> Trust {
    Trust::default()
}

#[tokio::test]
async fn an_item_comes_from_a_folder_and_from_an_archive_for_all_platforms() {
    let mut layout = TestLayout::new();
    let here = layout.add("amd64", &image(1, 50_000).platform("amd64", "linux"));
    let there = layout.add("arm64", &image(2, 50_000).platform("arm64", "linux"));
    let index = layout.index();
    let scratch = tempfile::tempdir().unwrap();
    let archive = scratch.path().join("item.tar");
    let tar = Command::new("tar")
        .arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(layout.path())
        .arg(".")
        .status();
    assert!(tar.unwrap().success());

    for path in [layout.path(), archive] {
        let folder = tempfile::tempdir().unwrap();
        let items = open(folder.path()).await;
        let web = item("web", "1.0.0", from_layout(path, Some(index)));
        let (sender, progress) = watch::channel(Progress::default());
        let found = items.download(&web, &nobody(), Some(sender)).await.unwrap();
        assert_eq!(found, index);
        assert_eq!(kept(&items), layout.blobs(), "everything, and nothing else");
        let progress = *progress.borrow();
        assert_eq!(progress.received_bytes, progress.total_bytes);
        assert_eq!(progress.total_bytes, items.usage().used_bytes);

        let described = items.describe(&web).await.unwrap();
        assert_eq!(described.index, index);
        assert_eq!(described.images.len(), 2);
        let arm = Platform::new("linux", "aarch64");
        let image = described.image_for(&arm).unwrap();
        assert_eq!(image.manifest_digest, there);
        assert_eq!(image.item_config.hostname.as_deref(), Some("host-2"));
        assert_eq!(image.item_config.quotas.ram_limit, Some(1024));
        assert_eq!(image.item_config.resources[0].name, "camera");
        assert_eq!(image.item_config.allowed_connections.len(), 1);
        assert_eq!(image.image_config.exposed_ports.len(), 1);
        let amd = described.image_for(&Platform::new("linux", "amd64"));
        assert_eq!(amd.unwrap().manifest_digest, here);
        let other = described.image_for(&Platform::new("linux", "riscv64"));
        assert_eq!(other, None);
    }
}

#[tokio::test]
async fn an_item_that_is_whole_asks_nobody_also_after_a_restart() {
    let (layout, digest) = TestLayout::of(&image(1, 10_000));
    let web = item("web", "1.0.0", layout.source(None));
    let folder = tempfile::tempdir().unwrap();
    let items = open(folder.path()).await;
    items.download(&web, &nobody(), None).await.unwrap();
    let described = items.describe(&web).await.unwrap();
    drop(items);
    drop(layout);

    let items = open(folder.path()).await;
    let found = items.download(&web, &nobody(), None).await.unwrap();
    assert_eq!(found, digest);
    assert_eq!(items.describe(&web).await.unwrap(), described);
}

#[tokio::test]
async fn a_version_is_one_content_while_it_is_needed() {
    let (layout, first) = TestLayout::of(&image(1, 10_000));
    let path = layout.path();
    let web = item("web", "1.0.0", from_layout(path.clone(), None));
    let folder = tempfile::tempdir().unwrap();
    let items = open(folder.path()).await;
    assert_eq!(items.download(&web, &nobody(), None).await.unwrap(), first);

    // The same path gets another image.
    fs::remove_dir_all(&path).unwrap();
    let (other, second) = TestLayout::of(&image(2, 10_000));
    fs::rename(other.path(), &path).unwrap();
    items.retain(&BTreeSet::from([web.clone()])).await.unwrap();
    assert_eq!(items.download(&web, &nobody(), None).await.unwrap(), first);
    // Not needed for a while: what the source has now is what it is.
    items.retain(&BTreeSet::new()).await.unwrap();
    assert_eq!(items.download(&web, &nobody(), None).await.unwrap(), second);
    assert_eq!(items.describe(&web).await.unwrap().index, second);

    // Without the source, what was kept serves.
    items.retain(&BTreeSet::new()).await.unwrap();
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(items.download(&web, &nobody(), None).await.unwrap(), second);
    items.collect(SystemTime::now() + 60 * DAY).await.unwrap();
    assert_eq!(items.describe(&web).await.unwrap().index, second);
}

#[tokio::test]
async fn what_is_not_needed_goes_when_its_time_is_over_and_what_is_needed_stays() {
    let mut layout = TestLayout::new();
    let shared = layer(9, 30_000);
    let old = layout.add("old", &image(1, 10_000).layer(shared.clone()));
    let new = layout.add("new", &image(2, 10_000).layer(shared));
    let old = item("web", "1.0.0", layout.source(Some(old)));
    let new = item("web", "2.0.0", layout.source(Some(new)));
    let folder = tempfile::tempdir().unwrap();
    let items = open(folder.path()).await;
    for version in [&old, &new] {
        items.download(version, &nobody(), None).await.unwrap();
    }
    items.retain(&BTreeSet::from([new.clone()])).await.unwrap();
    let now = SystemTime::now();
    items.collect(now + 29 * DAY).await.unwrap();
    items.describe(&old).await.unwrap();
    let before = kept(&items).len();
    items.collect(now + 31 * DAY).await.unwrap();
    let gone = items.describe(&old).await.unwrap_err();
    assert!(matches!(gone, DescribeItemError::Absent { .. }), "{gone:?}");
    items.describe(&new).await.unwrap();
    assert!(kept(&items).len() < before);
    drop(items);
    let items = open(folder.path()).await;
    let gone = items.describe(&old).await.unwrap_err();
    assert!(matches!(gone, DescribeItemError::Absent { .. }), "{gone:?}");
    items.describe(&new).await.unwrap();
}

/// Whatever happens at the same time, what was downloaded last is needed, until it is said that it is not.
#[tokio::test]
async fn what_is_needed_may_be_said_while_it_comes() {
    let (layout, _) = TestLayout::of(&image(1, 10_000));
    let web = item("web", "1.0.0", layout.source(None));
    let needed = BTreeSet::from([web.clone()]);
    let folder = tempfile::tempdir().unwrap();
    let items = open(folder.path()).await;
    for _ in 0..50 {
        let trust = nobody();
        let (downloaded, retained, collected) = tokio::join!(
            items.download(&web, &trust, None),
            items.retain(&needed),
            items.collect(SystemTime::now() + 60 * DAY),
        );
        downloaded.unwrap();
        retained.unwrap();
        collected.unwrap();
        items.collect(SystemTime::now() + 60 * DAY).await.unwrap();
        items.describe(&web).await.unwrap();
        // It goes, and comes again.
        items.retain(&BTreeSet::new()).await.unwrap();
        items.collect(SystemTime::now() + 60 * DAY).await.unwrap();
        items.describe(&web).await.unwrap_err();
    }
}

#[tokio::test]
async fn short_space_takes_what_is_not_needed_at_once_and_never_what_is() {
    // Documents of an item are counted with their limit while they come.
    const DOCUMENT: u64 = 4 << 20;
    let mut layout = TestLayout::new();
    let mut version = |number: u64| {
        let digest = layout.add(&number.to_string(), &image(number, 5 << 20));
        item("web", &number.to_string(), layout.source(Some(digest)))
    };
    let (first, second, third) = (version(1), version(2), version(3));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    settings.max_bytes = Some(DOCUMENT + (11 << 20));
    let items = open_with(settings, None).await;
    items.download(&first, &nobody(), None).await.unwrap();
    items.download(&second, &nobody(), None).await.unwrap();
    let error = items.download(&third, &nobody(), None).await.unwrap_err();
    assert_eq!(
        error.fault().cause,
        Cause::Code {
            code: AosCode::NoMemory,
            exit_code: 0
        }
    );
    items.describe(&first).await.unwrap();
    items.describe(&second).await.unwrap();

    items
        .retain(&BTreeSet::from([second.clone()]))
        .await
        .unwrap();
    items.describe(&first).await.unwrap();
    items.download(&third, &nobody(), None).await.unwrap();
    items.describe(&first).await.unwrap_err();
    items.describe(&second).await.unwrap();
    items.describe(&third).await.unwrap();
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let items = open(folder.path()).await;

    let missing = item("gone", "1", from_layout("/nowhere/at/all".into(), None));
    let error = items.download(&missing, &nobody(), None).await.unwrap_err();
    assert!(
        matches!(
            &error,
            DownloadItemError::Source {
                source: OpenSourceError::Layout(_),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.fault().message.contains("/nowhere/at/all"));

    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let pipe = item("pipe", "1", from_layout(pipe, None));
    let error = items.download(&pipe, &nobody(), None).await.unwrap_err();
    assert!(error.fault().message.contains("neither"), "{error:?}");

    let cloud = item(
        "cloud",
        "1",
        ImageSource::Cloud {
            index: "sha256:5b0bcabd1ed22e9fb1310cf6c2dec7cdef19f0ad69efa1f392e94a4333501270"
                .parse()
                .unwrap(),
        },
    );
    let error = items.download(&cloud, &nobody(), None).await.unwrap_err();
    assert!(error.fault().message.contains("no cloud"), "{error:?}");

    // A blob that is something else than its name says.
    let (layout, digest) = TestLayout::of(&image(1, 10_000));
    let largest = layout
        .blobs()
        .into_iter()
        .max_by_key(|it| layout.blob(it).len());
    let largest = largest.unwrap();
    let file = layout.layout.blob_folder().join(largest.to_hex());
    let mut content = fs::read(&file).unwrap();
    content[77] ^= 1;
    fs::write(&file, content).unwrap();
    let wrong = item("wrong", "1", layout.source(None));
    let error = items.download(&wrong, &nobody(), None).await.unwrap_err();
    let DownloadItemError::Content { source, .. } = &error else {
        panic!("{error:?}")
    };
    let InstallError::Fetch {
        digest: named,
        source: FetchBlobError::WrongContent { .. },
    } = source
    else {
        panic!("{source:?}")
    };
    assert_eq!(*named, largest);
    assert_ne!(*named, digest);
    assert!(!kept(&items).contains(&largest));
    items.describe(&wrong).await.unwrap_err();
}

#[tokio::test]
async fn hostile_documents_cost_an_error_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let items = open(folder.path()).await;
    let refused = async |layout: &TestLayout, digest: &str| {
        let hostile = item("hostile", "1", layout.source(Some(digest.parse().unwrap())));
        let error = items.download(&hostile, &nobody(), None).await.unwrap_err();
        error.fault().message
    };
    let add = |layout: &TestLayout, content: Vec<u8>| {
        let blob = Blob::new(media_type::INDEX, content);
        layout.layout.add_blob(&blob).unwrap();
        blob.descriptor.digest.as_str().to_owned()
    };

    let layout = TestLayout::new();
    let empty = add(&layout, br#"{"schemaVersion":2,"manifests":[]}"#.to_vec());
    assert!(refused(&layout, &empty).await.contains("leads to no image"));
    let garbage = add(&layout, b"\xff\xfe{".to_vec());
    assert!(
        refused(&layout, &garbage)
            .await
            .contains("cannot use document")
    );
    let entry = |nr: u64| {
        serde_json::json!({"mediaType": media_type::MANIFEST, "size": 1,
            "digest": BlobDigest::of(&nr.to_le_bytes()).as_str()})
    };
    let many: Vec<_> = (0..1500).map(entry).collect();
    let many = serde_json::json!({"schemaVersion": 2, "manifests": many});
    let many = add(&layout, serde_json::to_vec(&many).unwrap());
    assert!(refused(&layout, &many).await.contains("more than"));
    let large = add(&layout, vec![b' '; (4 << 20) + 1]);
    assert!(refused(&layout, &large).await.contains("more than 4194304"));

    // Layers that claim more than all disks of the world have.
    for sizes in [[u64::MAX, u64::MAX], [u64::MAX / 2, u64::MAX / 2]] {
        let [one, other] = sizes;
        let lying = image(1, 100)
            .layer(layer(2, 100).claim_size(one))
            .layer(layer(3, 100).claim_size(other));
        let (layout, digest) = TestLayout::of(&lying);
        let message = refused(&layout, &digest.to_string()).await;
        assert!(message.contains("are missing"), "{message}");
    }
    // Of a download that was given up, the disk's half ends a little later.
    let deadline = Instant::now() + Duration::from_secs(60);
    while items.usage().reserved_bytes > 0 {
        assert!(Instant::now() < deadline, "{:?}", items.usage());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
