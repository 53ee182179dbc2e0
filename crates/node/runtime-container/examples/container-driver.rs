//! Containers, driven by [`muster_bundle::testing`].

use std::path::PathBuf;
use std::process::ExitCode;

use muster_bundle::testing::{Driven, drive, info};
use muster_runtime_container::{ContainerConfig, Containers, UNIT_PREFIX, WRITABLE_ROOT};
use muster_unit_runner::{InitSystem, detect};

#[tokio::main]
async fn main() -> ExitCode {
    let folder = std::env::var_os("DRIVER_FOLDER");
    let folder = folder.map_or("/run/muster/container".into(), PathBuf::from);
    let unit_program = std::env::var_os("DRIVER_UNIT_PROGRAM");
    let config = ContainerConfig {
        info: info("runc"),
        folder: folder.clone(),
        oci_runtime: std::env::var_os("DRIVER_OCI_RUNTIME").map(PathBuf::from),
        unit_program: unit_program.map_or("/usr/local/lib/muster-container".into(), PathBuf::from),
        granted_capabilities: ["CAP_NET_BIND_SERVICE".to_owned()].into(),
        first_mapped_id: Some(100_000),
        host_binds: Vec::new(),
        writable_root: WRITABLE_ROOT,
    };
    let init = detect(&InitSystem::Detect).expect("an init system");
    let runner = init.runner();
    let runtime = Containers::runtime(config, runner).expect("an OCI runtime");
    drive(Driven {
        runtime: &runtime,
        folder: &folder,
        prefix: UNIT_PREFIX,
    })
    .await
}
