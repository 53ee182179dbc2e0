use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::*;
use crate::command::run_tool;

fn sample() -> Image {
    let base = LayerBuilder::new()
        .folder("etc", 0o755)
        .file("etc/old", "old", 0o644)
        .file("etc/kept", "kept", 0o640)
        .folder("hidden", 0o755)
        .file("hidden/below", "", 0o644)
        .file("bin/busybox", fs::read("/bin/busybox").unwrap(), 0o755)
        .link("busybox", "bin/sh");
    let top = LayerBuilder::new()
        .whiteout("etc/old")
        .folder("hidden", 0o755)
        .opaque("hidden")
        .file("hidden/above", "", 0o644);
    Image::new()
        .layer(base.build(Compression::Gzip).unwrap())
        .layer(top.build(Compression::None).unwrap())
        .entrypoint(["/bin/sh", "-c"])
        .cmd(["echo $GREETING from $(pwd); ls /etc"])
        .env(["PATH=/bin", "GREETING=hello"])
        .exposed_ports(["8080/tcp"])
        .working_dir("/hidden")
        .item_config(json!({ "runtimes": [{ "codename": "crun" }] }))
}

fn layout_of(folder: &Path, image: &Image) -> Layout {
    let mut layout = Layout::create(folder).unwrap();
    layout.add("v1", image.build()).unwrap();
    layout
}

fn tool(program: &str, args: &[&str]) -> String {
    run_tool(Command::new(program).args(args), "").unwrap()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn digests_do_not_depend_on_time_or_order() {
    crate::require!(Tool("busybox"));
    assert_eq!(sample().build(), sample().build());
    let one = LayerBuilder::new()
        .file("a", "1", 0o644)
        .file("b", "2", 0o644);
    let two = LayerBuilder::new()
        .file("b", "2", 0o644)
        .file("a", "1", 0o644);
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let layer = one.clone().build(compression).unwrap();
        assert_eq!(layer, two.clone().build(compression).unwrap());
    }
}

#[test]
fn a_folder_becomes_the_same_layer_as_its_entries() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::set_permissions(folder.path().join("sub"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::write(folder.path().join("sub/program"), "content").unwrap();
    let program = fs::Permissions::from_mode(0o4755);
    fs::set_permissions(folder.path().join("sub/program"), program).unwrap();
    symlink("sub/program", folder.path().join("link")).unwrap();
    let expected = LayerBuilder::new()
        .folder("sub", 0o750)
        .file("sub/program", "content", 0o4755)
        .link("sub/program", "link");
    assert_eq!(
        Layer::from_folder(folder.path(), Compression::Zstd).unwrap(),
        expected.build(Compression::Zstd).unwrap()
    );
}

#[test]
fn skopeo_reads_what_was_written() {
    crate::require!(Tool("skopeo"), Tool("busybox"));
    let folder = tempfile::tempdir().unwrap();
    let layer = Layer::from_binary(Path::new("/bin/busybox"), "/bin/busybox", Compression::Zstd);
    let image = sample().layer(layer.unwrap());
    let layout = layout_of(&folder.path().join("layout"), &image);
    let reference = format!("oci:{}:v1", layout.folder().display());
    let seen: Value = serde_json::from_str(&tool("skopeo", &["inspect", &reference])).unwrap();
    let parts = layout.image("v1").unwrap();
    assert_eq!(seen["Digest"], parts.manifest.descriptor.digest.as_str());
    assert_eq!(seen["Env"], json!(["PATH=/bin", "GREETING=hello"]));
    let layers: Vec<&str> = parts
        .layers
        .iter()
        .map(|blob| blob.descriptor.digest.as_str())
        .collect();
    assert_eq!(seen["Layers"], json!(layers));
    // Copying reads every blob and compares digests and sizes.
    let copy = format!("dir:{}", folder.path().join("copy").display());
    tool("skopeo", &["--insecure-policy", "copy", &reference, &copy]);
}

#[test]
fn skopeo_refuses_a_lying_descriptor() {
    crate::require!(Tool("skopeo"));
    let layer = LayerBuilder::new().file("a", "1", 0o644);
    let liar = layer
        .build(Compression::None)
        .unwrap()
        .claim_digest(BlobDigest::of(b"something else"));
    let folder = tempfile::tempdir().unwrap();
    let layout = layout_of(&folder.path().join("layout"), &Image::new().layer(liar));
    let reference = format!("oci:{}:v1", layout.folder().display());
    let copy = format!("dir:{}", folder.path().join("copy").display());
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["--insecure-policy", "copy", &reference, &copy]);
    let output = skopeo.output().unwrap();
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("igest"),
        "{output:?}"
    );
}

#[test]
fn umoci_unpacks_and_runc_runs_it() {
    crate::require!(Root, Tool("umoci"), Tool("runc"), Tool("busybox"));
    let folder = tempfile::tempdir().unwrap();
    let layout = layout_of(&folder.path().join("layout"), &sample());
    let image = format!("{}:v1", layout.folder().display());
    let bundle = folder.path().join("bundle");
    tool(
        "umoci",
        &["unpack", "--image", &image, bundle.to_str().unwrap()],
    );
    let root = bundle.join("rootfs");
    assert!(!root.join("etc/old").exists() && root.join("etc/kept").exists());
    assert!(!root.join("hidden/below").exists() && root.join("hidden/above").exists());
    let mode = fs::metadata(root.join("etc/kept"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o640);

    let mut config = read_json(&bundle.join("config.json"));
    config["process"]["terminal"] = false.into();
    fs::write(bundle.join("config.json"), config.to_string()).unwrap();
    let id = format!("muster-lab-oci-{}", std::process::id());
    let state = folder.path().join("state");
    let bundle = bundle.to_str().unwrap();
    let said = tool(
        "runc",
        &["--root", state.to_str().unwrap(), "run", "-b", bundle, &id],
    );
    assert!(said.starts_with("hello from /hidden\n"), "{said}");
    assert!(said.contains("kept") && !said.contains("old"), "{said}");
}

#[test]
fn the_manifest_describes_the_item_config() {
    crate::require!(Tool("busybox"));
    let folder = tempfile::tempdir().unwrap();
    let mut layout = layout_of(folder.path(), &sample());
    let blob = |digest: &str| {
        let name = digest.strip_prefix("sha256:").unwrap();
        read_json(&folder.path().join("blobs/sha256").join(name))
    };
    let index = blob(layout.add_index_blob().unwrap().as_str());
    assert_eq!(index, read_json(&folder.path().join("index.json")));
    let manifest = blob(index["manifests"][0]["digest"].as_str().unwrap());
    let item = &manifest["aosItemConfig"];
    assert_eq!(item["mediaType"], media_type::ITEM_CONFIG);
    let config = blob(item["digest"].as_str().unwrap());
    assert_eq!(config, json!({ "runtimes": [{ "codename": "crun" }] }));
    // The same tag again replaces the image.
    layout.add("v1", Image::new().build()).unwrap();
    let index = read_json(&folder.path().join("index.json"));
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    assert!(matches!(layout.image("v2"), Err(LayoutError::NoSuchImage { tag, .. }) if tag == "v2"));
}

#[test]
fn documents_can_be_wrong_on_purpose() {
    let layer = Layer::from_tar_bytes(media_type::LAYER, b"not a tar".to_vec())
        .claim_diff_id(BlobDigest::claimed("sha256:zz"))
        .claim_size(7);
    let parts = Image::new()
        .layer(layer)
        .edit_manifest(|manifest| manifest["schemaVersion"] = 9.into())
        .edit_config(|config| config["os"] = "plan9".into())
        .build();
    let manifest: Value = serde_json::from_slice(&parts.manifest.bytes).unwrap();
    let config: Value = serde_json::from_slice(&parts.config.bytes).unwrap();
    assert_eq!(
        (&manifest["schemaVersion"], &config["os"]),
        (&json!(9), &json!("plan9"))
    );
    assert_eq!(config["rootfs"]["diff_ids"], json!(["sha256:zz"]));
    assert_eq!(manifest["layers"][0]["size"], 7);
}
