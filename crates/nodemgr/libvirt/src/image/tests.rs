use std::sync::atomic::Ordering;

use super::*;
use crate::catalog::Location;
use crate::download::tests::{Manner, Server, checksum};

fn images(cache: &Path, url: &str) -> Images {
    let distribution = Distribution {
        image: Location::unchecked(format!("{url}/system-{{arch}}.qcow2")),
        checksums: Location::unchecked(format!("{url}/SUMS")),
    };
    let mut catalog = Catalog::default();
    catalog.add("system", distribution).unwrap();
    Images {
        cache: cache.to_owned(),
        catalog,
        downloads: Downloads::new(Path::new("/none"), Duration::from_secs(30), 1 << 20).unwrap(),
        qemu_img: "qemu-img".into(),
        known: KnownSums::default(),
        fetches: Fetches::default(),
        patience: PATIENCE,
    }
}

fn wanted<'a>(name: &'a str, digest: Option<&'a str>, arch: Arch) -> Wanted<'a> {
    Wanted {
        name,
        digest,
        arch,
        sum: false,
    }
}

/// A disk of one MiB, as a distribution would publish it.
async fn qcow2(folder: &Path) -> Option<Vec<u8>> {
    let path = folder.join("disk");
    let arguments = ["create", "-f", "qcow2", path.to_str()?, "1M"].map(OsStr::new);
    let made = tool::run(Path::new("qemu-img"), &arguments, LOOK).await;
    if made.is_err() {
        println!("skipped: images of distributions: no qemu-img");
        return None;
    }
    std::fs::read(path).ok()
}

#[tokio::test]
async fn a_known_distribution_is_fetched_once_and_used_while_it_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = qcow2(folder.path()).await else {
        return;
    };
    let digest = checksum(&disk);
    let digits = digest.to_string().replace("sha512:", "");
    let sums = format!("{digits}  system-amd64.qcow2\n").into_bytes();
    let server = Server::start(vec![("/SUMS", sums), ("/system-amd64.qcow2", disk)]).await;
    let images = images(folder.path(), &server.url);
    let image = images
        .image(wanted("system", None, Arch::Amd64))
        .await
        .unwrap();
    assert_eq!((image.format.as_str(), image.size), ("qcow2", 1 << 20));
    let sum = image.sum.clone().unwrap();
    assert_eq!((sum.digest, sum.local), (digest.to_string(), false));
    assert_eq!(server.asked.load(Ordering::SeqCst), 2);
    let again = images
        .image(wanted("system", None, Arch::Amd64))
        .await
        .unwrap();
    assert_eq!(again, image);
    assert_eq!(
        server.asked.load(Ordering::SeqCst),
        3,
        "the image was fetched again"
    );
    // Of another architecture it has none.
    let other = images
        .image(wanted("system", None, Arch::Arm64))
        .await
        .unwrap_err();
    assert!(matches!(other, ImageError::NotListed { .. }), "{other:?}");
    server.be(Manner::Missing);
    let kept = images
        .image(wanted("system", None, Arch::Amd64))
        .await
        .unwrap();
    assert_eq!(kept, image);
    // A pinned digest needs nobody.
    let pinned = images
        .image(wanted("system", Some(&digest.to_string()), Arch::Amd64))
        .await;
    assert_eq!(pinned.unwrap(), image);
}

#[tokio::test]
async fn a_distribution_on_this_host_is_checked_and_kept_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = qcow2(folder.path()).await else {
        return;
    };
    let (cache, mirror) = (folder.path().join("cache"), folder.path().join("mirror"));
    std::fs::create_dir(&cache).unwrap();
    std::fs::create_dir(&mirror).unwrap();
    let digits = checksum(&disk).to_string().replace("sha512:", "");
    std::fs::write(
        mirror.join("SUMS"),
        format!("{digits}  system-amd64.qcow2\n"),
    )
    .unwrap();
    let images = images(&cache, &format!("file://{}", mirror.display()));
    let missing = images
        .image(wanted("system", None, Arch::Amd64))
        .await
        .unwrap_err();
    let ImageError::Fetch(missing) = missing else {
        panic!("{missing:?}");
    };
    assert!(matches!(*missing, DownloadError::File { .. }));
    std::fs::write(mirror.join("system-amd64.qcow2"), b"something else").unwrap();
    let wrong = images
        .image(wanted("system", None, Arch::Amd64))
        .await
        .unwrap_err();
    let ImageError::Fetch(wrong) = wrong else {
        panic!("{wrong:?}");
    };
    assert!(matches!(*wrong, DownloadError::Checksum { .. }));
    std::fs::write(mirror.join("system-amd64.qcow2"), &disk).unwrap();
    let image = images
        .image(wanted("system", None, Arch::Amd64))
        .await
        .unwrap();
    assert!(image.path.starts_with(&cache), "{image:?}");
    // Machines that are made of it do not change with the mirror.
    std::fs::remove_dir_all(&mirror).unwrap();
    let kept = images
        .image(wanted("system", None, Arch::Amd64))
        .await
        .unwrap();
    assert_eq!(kept, image);
}

#[tokio::test]
async fn what_cannot_be_an_image_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let images = images(folder.path(), "http://127.0.0.1:1");
    let get = |name: &'static str, digest: Option<&'static str>| {
        let images = &images;
        async move {
            images
                .image(wanted(name, digest, Arch::Amd64))
                .await
                .unwrap_err()
        }
    };
    let unknown = get("sistem", None).await;
    let said = unknown.to_string();
    assert!(said.contains("there are system;"), "{said}");
    assert!(said.contains("providers.libvirt.distributions"), "{said}");
    assert_eq!(unknown.class(), FailureClass::Refused);
    assert!(matches!(get("/none", None).await, ImageError::Missing(_)));
    assert!(matches!(
        get("https://x/y", None).await,
        ImageError::NoDigest { .. }
    ));
    assert!(matches!(
        get("https://x/y", Some("md5:1")).await,
        ImageError::Digest(_)
    ));
    assert_eq!(get("system", None).await.class(), FailureClass::Retryable);
}

#[test]
fn a_downloaded_image_reads_no_file_of_the_host() {
    let path = PathBuf::from("/cache/a.img");
    let plain = br#"{"format":"qcow2","virtual-size":7,"other":1}"#;
    let image = examine(path.clone(), Trust::Elsewhere, plain).unwrap();
    assert_eq!(image.size, 7);
    let hostile: [&[u8]; 2] = [
        br#"{"format":"qcow2","virtual-size":7,"backing-filename":"/etc/shadow"}"#,
        br#"{"format":"qcow2","virtual-size":7,"format-specific":{"type":"qcow2","data":{"data-file":"/etc/shadow"}}}"#,
    ];
    for said in hostile {
        let refused = examine(path.clone(), Trust::Elsewhere, said).unwrap_err();
        assert!(matches!(refused, ImageError::Refers { .. }));
        examine(path.clone(), Trust::Host, said).unwrap();
    }
    let vmdk = br#"{"format":"vmdk","virtual-size":7}"#;
    let refused = examine(path.clone(), Trust::Host, vmdk).unwrap_err();
    assert!(matches!(refused, ImageError::Format { .. }));
    let refused = examine(path, Trust::Host, b"no").unwrap_err();
    assert!(matches!(refused, ImageError::Described { .. }));
}

#[tokio::test]
async fn a_file_of_this_host_is_checked_and_its_checksum_is_told_where_it_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = qcow2(folder.path()).await else {
        return;
    };
    let path = folder.path().join("disk");
    let name = path.to_str().unwrap();
    let images = images(folder.path(), "none:");
    let plain = wanted(name, None, Arch::Amd64);
    assert_eq!(images.image(plain).await.unwrap().sum, None);
    let with_sum = Wanted { sum: true, ..plain };
    let sum = images.image(with_sum).await.unwrap().sum.unwrap();
    assert!(sum.local && sum.digest.starts_with("sha256:"), "{sum:?}");
    assert_eq!(images.disc(with_sum).await.unwrap().1, Some(sum.clone()));
    // It can be ordered with what was told, and nothing else with that.
    let pinned = wanted(name, Some(&sum.digest), Arch::Amd64);
    assert_eq!(images.image(pinned).await.unwrap().sum, Some(sum.clone()));
    let long = checksum(&disk).to_string();
    assert!(
        images
            .image(wanted(name, Some(&long), Arch::Amd64))
            .await
            .is_ok()
    );
    std::fs::write(&path, [disk.as_slice(), &[0]].concat()).unwrap();
    let refused = images.image(pinned).await.unwrap_err();
    assert!(
        matches!(
            refused,
            ImageError::Download(DownloadError::Checksum { .. })
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_download_that_takes_longer_than_a_call_goes_on_and_is_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(vec![("/disc.iso", b"a disc".to_vec())]).await;
    let name = format!("{}/disc.iso", server.url);
    let digest = checksum(b"a disc").to_string();
    let disc = wanted(&name, Some(&digest), Arch::Amd64);
    let mut images = images(folder.path(), &server.url);
    images.patience = Duration::ZERO;
    let early = images.disc(disc).await.unwrap_err();
    assert_eq!(early.class(), FailureClass::Underway, "{early:?}");
    images.patience = PATIENCE;
    let (path, _) = images.disc(disc).await.unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"a disc");
    assert_eq!(server.asked.load(Ordering::SeqCst), 1);
}
