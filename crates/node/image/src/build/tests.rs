use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;

use super::writer::{LayoutWriter, Unfinished};
use super::*;
use crate::source::{BlobPlace, BlobSource, BoxError, LayoutSource};

fn order(content: Content, output: &Path) -> BuildOrder {
    BuildOrder {
        content,
        run: RunSettings::default(),
        item_config: Some(br#"{"hostname": "web"}"#.to_vec()),
        platform: Platform::of_this_program(),
        format: LayerFormat::TarGzip,
        name: Some("web".to_owned()),
        output: output.to_owned(),
        as_archive: false,
    }
}

fn content(folder: &Path) -> Content {
    let root = folder.join("rootfs");
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("usr/bin/run"), "#!/bin/sh\n").unwrap();
    fs::write(root.join("a.txt"), vec![b'x'; 100_000]).unwrap();
    fs::write(root.join("a/b/").join("n".repeat(200)), "long").unwrap();
    std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
    Content::Folder(root)
}

#[test]
fn the_same_input_gives_the_same_image_in_a_folder_and_in_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for (round, format) in [LayerFormat::TarGzip, LayerFormat::TarZstd, LayerFormat::Tar]
        .into_iter()
        .enumerate()
    {
        for again in 0..2 {
            // Other times and another order of creation.
            let input = folder.path().join(format!("input-{round}-{again}"));
            let output = folder.path().join(format!("output-{round}-{again}"));
            let mut order = order(content(&input), &output);
            order.format = format;
            order.run.entrypoint = vec!["/usr/bin/run".to_owned()];
            order.as_archive = again == 1;
            let built = build(&order).unwrap();
            let layout = LayoutSource::open(&output).unwrap();
            assert_eq!(layout.image(Some("web")).unwrap(), built.digest);
            assert_eq!(validate(&layout, built.digest), []);
            found.push(built);
        }
        assert_eq!(found[2 * round], found[2 * round + 1]);
    }
    let leftovers = fs::read_dir(folder.path()).unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .starts_with(".muster")
    });
    assert_eq!(leftovers.count(), 0);
}

#[test]
fn a_program_becomes_the_entry_point() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hello");
    fs::write(&program, "ELF").unwrap();
    let output = folder.path().join("out");
    let content = Content::Binary {
        program,
        path: None,
    };
    build(&order(content, &output)).unwrap();
    let layout = LayoutSource::open(&output).unwrap();
    let [image] = inspect(&layout, None).unwrap().try_into().unwrap();
    assert_eq!(image.command, ["/bin/hello"]);
    assert_eq!(image.item_config.unwrap()["hostname"], "web");
    assert_eq!(image.name.as_deref(), Some("web"));
    assert_eq!(image.layers.len(), 1);
}

#[test]
fn an_image_of_a_layout_gets_an_item_configuration_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (
        folder.path().join("first"),
        folder.path().join("second.tar"),
    );
    let mut plain = order(content(folder.path()), &first);
    plain.item_config = None;
    plain.run.env = vec!["A=1".to_owned()];
    plain.run.entrypoint = vec!["/usr/bin/run".to_owned()];
    let built = build(&plain).unwrap();
    let layout = LayoutSource::open(&first).unwrap();
    let [warning] = validate(&layout, built.digest).try_into().unwrap();
    assert_eq!(
        (warning.severity, warning.text.as_str()),
        (Severity::Warning, "it has no item configuration")
    );

    let again = Content::Layout {
        layout: first,
        name: None,
    };
    let mut again = order(again, &second);
    again.as_archive = true;
    let rebuilt = build(&again).unwrap();
    assert_eq!(rebuilt.layers, built.layers);
    assert_ne!(rebuilt.digest, built.digest);
    let layout = LayoutSource::open(&second).unwrap();
    assert_eq!(validate(&layout, rebuilt.digest), []);
    assert_eq!(inspect(&layout, None).unwrap()[0].env, ["A"]);
}

#[test]
fn wrong_input_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let content = content(folder.path());
    let output = folder.path().join("out");
    let item = BuildOrder {
        item_config: Some(b"{\"quotas\": 5}".to_vec()),
        ..order(content.clone(), &output)
    };
    assert!(matches!(
        build(&item),
        Err(BuildError::Document {
            what: "item configuration",
            ..
        })
    ));
    let mut port = order(content.clone(), &output);
    port.run.exposed_ports = vec!["http".to_owned()];
    assert!(matches!(
        build(&port),
        Err(BuildError::Document {
            what: "image configuration",
            ..
        })
    ));
    assert!(!output.exists());
    fs::create_dir(&output).unwrap();
    fs::write(output.join("mine"), "").unwrap();
    assert!(matches!(
        build(&order(content, &output)),
        Err(BuildError::OutputInUse(_))
    ));
}

#[test]
fn what_no_layer_can_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("rootfs");
    fs::create_dir(&root).unwrap();
    fs::write(root.join(".wh.x"), "").unwrap();
    let refused = build(&order(
        Content::Folder(root.clone()),
        &folder.path().join("out1"),
    ));
    assert!(
        matches!(refused, Err(BuildError::Unpackable { .. })),
        "{refused:?}"
    );
    fs::remove_file(root.join(".wh.x")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let refused = build(&order(Content::Folder(root), &folder.path().join("out2")));
    assert!(
        matches!(refused, Err(BuildError::Unpackable { .. })),
        "{refused:?}"
    );
}

#[test]
fn validation_names_what_is_wrong_with_which_blob() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let mut order = order(content(folder.path()), &output);
    order.run.entrypoint = vec!["/usr/bin/run".to_owned()];
    let built = build(&order).unwrap();
    let blob = output.join("blobs/sha256").join(built.layers[0].to_hex());
    let mut bytes = fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&blob, &bytes).unwrap();
    let layout = LayoutSource::open(&output).unwrap();
    let findings = validate(&layout, built.digest);
    assert!(
        findings
            .iter()
            .all(|finding| finding.digest == built.layers[0].to_string()),
        "{findings:?}"
    );
    assert!(
        findings
            .iter()
            .any(|finding| finding.text.starts_with("its content is sha256:")),
        "{findings:?}"
    );
    fs::remove_file(&blob).unwrap();
    let [missing] = validate(&layout, built.digest).try_into().unwrap();
    assert_eq!(missing.severity, Severity::Error);
}

#[tokio::test]
async fn an_image_is_copied_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let mut order = order(content(folder.path()), &first);
    order.run.entrypoint = vec!["/usr/bin/run".to_owned()];
    let built = build(&order).unwrap();
    let layout = LayoutSource::open(&first).unwrap();
    pull(&layout, built.digest, Some("copy"), &second, false)
        .await
        .unwrap();
    let copy = LayoutSource::open(&second).unwrap();
    assert_eq!(copy.image(Some("copy")).unwrap(), built.digest);
    assert_eq!(validate(&copy, built.digest), []);
}

/// An image that names a program.
fn runnable(content: Content, output: &Path) -> BuildOrder {
    let mut order = order(content, output);
    order.run.entrypoint = vec!["/usr/bin/run".to_owned()];
    order
}

/// Everything beside the input that a build left.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn a_result_in_the_folder_that_is_packed_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let Content::Folder(root) = content(folder.path()) else {
        unreachable!("it is a folder");
    };
    let outside = folder.path().join("outside");
    let expected = build(&runnable(Content::Folder(root.clone()), &outside)).unwrap();
    // As an archive, as a folder, further down, by another name of the same folder, and again.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&root, &link).unwrap();
    for (from, to, as_archive) in [
        (&root, root.join("image.tar"), true),
        (&root, root.join("image"), false),
        (&root, root.join("a/b/image.tar"), true),
        (&link, root.join("image.tar"), true),
        (&root, link.join("image.tar"), true),
        (&root, link.join("image"), false),
    ] {
        let mut order = runnable(Content::Folder(from.clone()), &to);
        order.as_archive = as_archive;
        let built = build(&order).unwrap();
        assert_eq!(built, expected, "{}", to.display());
        let layout = LayoutSource::open(&to).unwrap();
        assert_eq!(validate(&layout, built.digest), []);
        match as_archive {
            true => fs::remove_file(&to).unwrap(),
            false => fs::remove_dir_all(&to).unwrap(),
        }
    }
    assert_eq!(
        names(&root),
        ["a", "a.txt", "bin", "usr"],
        "nothing is left"
    );
}

#[test]
fn a_program_is_followed_checked_and_made_executable() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut elf = vec![0; 64 + 56];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    elf[32] = 64;
    elf[54] = 56;
    elf[56] = 1;
    fs::write(at("static"), &elf).unwrap();
    elf[64] = 3;
    fs::write(at("dynamic"), &elf).unwrap();
    std::os::unix::fs::symlink("static", at("link")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let program = |name: &str| Content::Binary {
        program: at(name),
        path: None,
    };
    for (name, reason) in [
        ("dynamic", "linked dynamically"),
        ("folder", "regular file"),
    ] {
        let error = build(&order(program(name), &at("none"))).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert!(!at("none").exists());
    }
    // Nobody may execute it here, and it is a link.
    let mut order = order(program("link"), &at("out"));
    order.format = LayerFormat::Tar;
    let built = build(&order).unwrap();
    let blob = at("out")
        .join("blobs/sha256")
        .join(built.layers[0].to_hex());
    let mut archive = tar::Archive::new(fs::File::open(blob).unwrap());
    let entry = archive.entries().unwrap().next().unwrap().unwrap();
    assert_eq!(entry.path().unwrap(), Path::new("bin/link"));
    assert_eq!(entry.header().entry_type(), tar::EntryType::Regular);
    assert_eq!(entry.header().mode().unwrap(), 0o755);
    assert_eq!(entry.size(), 120);
}

#[test]
fn a_build_that_failed_does_not_keep_the_next_one_from_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let Content::Folder(root) = content(folder.path()) else {
        unreachable!("it is a folder");
    };
    for as_archive in [false, true] {
        let output = folder.path().join(format!("out-{as_archive}.tar"));
        let mut order = runnable(Content::Folder(root.clone()), &output);
        order.as_archive = as_archive;
        fs::write(root.join(".wh.x"), "").unwrap();
        assert!(build(&order).is_err());
        // As a kill leaves it: with a part of something else.
        if !as_archive {
            fs::write(output.join(".muster-coming/part"), "part").unwrap();
            fs::write(output.join("blobs/sha256").join("0".repeat(64)), "x").unwrap();
        }
        fs::remove_file(root.join(".wh.x")).unwrap();
        let built = build(&order).unwrap();
        let layout = LayoutSource::open(&output).unwrap();
        assert_eq!(validate(&layout, built.digest), []);
        if !as_archive {
            assert_eq!(names(&output), ["blobs", "index.json", "oci-layout"]);
            // Layer, two configurations and the manifest.
            assert_eq!(names(&output.join("blobs/sha256")).len(), 4);
        }
        assert!(matches!(build(&order), Err(BuildError::OutputInUse(_))));
    }
    let left = ["out-false.tar", "out-true.tar", "rootfs"];
    assert_eq!(names(folder.path()), left);
}

/// A layout that gives one of its blobs once.
#[derive(Debug)]
struct Once {
    layout: LayoutSource,
    blob: Digest,
    was_asked: AtomicBool,
}

impl BlobSource for Once {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        if digest == self.blob && self.was_asked.swap(true, Ordering::SeqCst) {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        self.layout.places(digest)
    }
}

#[tokio::test]
async fn a_copy_that_broke_off_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut order = runnable(content(folder.path()), &at("from"));
    order.format = LayerFormat::Tar;
    let built = build(&order).unwrap();
    let layer = at("from/blobs/sha256").join(built.layers[0].to_hex());
    let whole = fs::read(&layer).unwrap();
    for as_archive in [false, true] {
        let to = at(&format!("to-{as_archive}.tar"));
        fs::write(&layer, &whole[..5000]).unwrap();
        let layout = LayoutSource::open(at("from")).unwrap();
        let breaking = Once {
            layout: LayoutSource::open(at("from")).unwrap(),
            blob: built.layers[0],
            was_asked: AtomicBool::new(false),
        };
        let broken = pull(&breaking, built.digest, Some("web"), &to, as_archive).await;
        assert!(matches!(broken, Err(PullError::Fetch { .. })), "{broken:?}");
        let parts = if as_archive {
            at(".to-true.tar.parts")
        } else {
            to.clone()
        };
        assert_eq!(names(&parts), [".muster-coming", "blobs", "oci-layout"]);
        assert_eq!(
            names(&parts.join(".muster-coming")).len(),
            1,
            "a part of the layer"
        );
        // What came before is not asked for again: there is nothing but zeros in its place, and only the layer is left.
        let mut rest = whole.clone();
        rest[..5000].fill(0);
        fs::write(&layer, &rest).unwrap();
        for blob in names(&at("from/blobs/sha256")) {
            if blob != built.layers[0].to_hex() {
                let blob = at("from/blobs/sha256").join(blob);
                fs::rename(&blob, blob.with_extension("away")).unwrap();
            }
        }
        pull(&layout, built.digest, Some("web"), &to, as_archive)
            .await
            .unwrap();
        let copy = LayoutSource::open(&to).unwrap();
        assert_eq!(validate(&copy, built.digest), []);
        for blob in names(&at("from/blobs/sha256")) {
            let blob = at("from/blobs/sha256").join(blob);
            fs::rename(&blob, blob.with_extension("")).unwrap();
        }
        fs::write(&layer, &whole).unwrap();
    }
    let left = ["from", "rootfs", "to-false.tar", "to-true.tar"];
    assert_eq!(names(folder.path()), left);
}

#[tokio::test]
async fn a_part_that_is_something_else_is_dropped_and_the_whole_comes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let built = build(&runnable(content(folder.path()), &at("from"))).unwrap();
    let writer = LayoutWriter::create(&at("to"), false, Unfinished::Keep).unwrap();
    fs::write(writer.coming(&built.layers[0]), "something else").unwrap();
    fs::write(writer.blob_path(&built.digest), "{}").unwrap();
    let layout = LayoutSource::open(at("from")).unwrap();
    let busy = pull(&layout, built.digest, None, &at("to"), false).await;
    assert!(
        matches!(busy, Err(PullError::Write(BuildError::OutputBusy(_)))),
        "{busy:?}"
    );
    drop(writer);
    pull(&layout, built.digest, None, &at("to"), false)
        .await
        .unwrap();
    let copy = LayoutSource::open(at("to")).unwrap();
    assert_eq!(validate(&copy, built.digest), []);
}

#[test]
fn validation_compares_sizes_in_the_index_and_refuses_diff_ids_that_nodes_do_not_compute() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let mut order = order(content(folder.path()), &output);
    order.run.entrypoint = vec!["/usr/bin/run".to_owned()];
    let built = build(&order).unwrap();
    let edit = |path: &Path, change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, value.to_string()).unwrap();
    };
    let index = output.join("index.json");
    edit(&index, &|index| index["manifests"][0]["size"] = 7.into());
    let layout = LayoutSource::open(&output).unwrap();
    let [finding] = validate(&layout, built.digest).try_into().unwrap();
    assert_eq!(finding.severity, Severity::Error);
    assert!(finding.text.ends_with("its descriptor says 7"), "{finding}");

    // The same image with a diff id of another algorithm, which is right as far as it goes.
    let blobs = output.join("blobs/sha256");
    let rename = |from: &str, change: &dyn Fn(&mut serde_json::Value)| {
        edit(&blobs.join(from), change);
        let bytes = fs::read(blobs.join(from)).unwrap();
        let digest = crate::hash::sha256(&bytes);
        fs::rename(blobs.join(from), blobs.join(digest.to_hex())).unwrap();
        (digest, bytes.len())
    };
    let manifest = fs::read(blobs.join(built.digest.to_hex())).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let config: Digest = manifest["config"]["digest"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let diff_id = format!("sha512:{}", "a".repeat(128));
    let (config, size) = rename(&config.to_hex(), &|config| {
        config["rootfs"]["diff_ids"] = serde_json::json!([diff_id]);
    });
    let (digest, size) = rename(&built.digest.to_hex(), &|manifest| {
        manifest["config"]["digest"] = config.to_string().into();
        manifest["config"]["size"] = size.into();
    });
    edit(&index, &|index| {
        index["manifests"][0]["digest"] = digest.to_string().into();
        index["manifests"][0]["size"] = size.into();
    });
    let layout = LayoutSource::open(&output).unwrap();
    let [finding] = validate(&layout, digest).try_into().unwrap();
    assert_eq!(finding.digest, built.layers[0].to_string());
    assert!(finding.text.contains("not of SHA-256"), "{finding}");
}
