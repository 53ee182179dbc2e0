//! The root file system of the engine's image.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DockerError, unprepared};
use crate::command::run_tool;
use crate::oci::LayerBuilder;

const BUSYBOX: &str = "/bin/busybox";
/// Busybox's own shell prefers its own tools to those that are there, and its own `sleep` does not know `infinity`.
const PROGRAMS: [&str; 2] = ["/bin/dash", "/bin/sleep"];

const USERS: &str = "root:x:0:0::/root:/bin/sh
worker:x:1000:1000::/tmp:/bin/sh
nobody:x:65534:65534::/:/bin/sh
";
const GROUPS: &str = "root:x:0:\nworker:x:1000:\nnogroup:x:65534:\n";

/// As a tar archive.
pub(super) fn archive() -> Result<Vec<u8>, DockerError> {
    let mut layer = LayerBuilder::new()
        .folder("bin", 0o755)
        .folder("etc", 0o755)
        .folder("root", 0o700)
        .folder("tmp", 0o1777)
        .file("etc/passwd", USERS, 0o644)
        .file("etc/group", GROUPS, 0o644)
        .link("dash", "bin/sh");
    let mut files = BTreeSet::from([PathBuf::from(BUSYBOX)]);
    for program in PROGRAMS {
        files.extend(with_libraries(program)?);
    }
    for file in files {
        let content = fs::read(&file).map_err(unprepared(&file))?;
        layer = layer.file(&file, content, 0o755);
    }
    let names = run_tool(Command::new(BUSYBOX).arg("--list"), "").map_err(DockerError::Image)?;
    let others = ["busybox", "sh", "sleep"];
    for name in names.lines().filter(|name| !others.contains(name)) {
        layer = layer.link("busybox", format!("bin/{name}"));
    }
    layer.archive().map_err(unprepared(Path::new("image.tar")))
}

/// A program of this machine, and the libraries that it needs.
fn with_libraries(program: &str) -> Result<Vec<PathBuf>, DockerError> {
    let listed = run_tool(Command::new("ldd").arg(program), "").map_err(DockerError::Image)?;
    let words = listed.split_whitespace();
    let libraries = words.filter(|word| word.starts_with('/'));
    Ok(libraries.chain([program]).map(PathBuf::from).collect())
}
