//! Native programs, driven by [`muster_bundle::testing`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use muster_bundle::testing::{Driven, drive, info};
use muster_runtime_native::{NativeConfig, Natives, UNIT_PREFIX};
use muster_unit_runner::{InitSystem, detect};

const FOLDER: &str = "/run/muster/native";

#[tokio::main]
async fn main() -> ExitCode {
    let unit_program = std::env::var_os("DRIVER_UNIT_PROGRAM")
        .unwrap_or_else(|| "/usr/local/lib/muster-native-exec".into());
    let config = NativeConfig {
        info: info("native"),
        folder: FOLDER.into(),
        unit_program: PathBuf::from(unit_program),
        beside: None,
        host_network: false,
        strict: std::env::var_os("DRIVER_STRICT").is_some(),
    };
    let init = detect(&InitSystem::Detect).expect("an init system");
    let runner = init.runner();
    let runtime = Natives::runtime(config, runner);
    drive(Driven {
        runtime: &runtime,
        folder: Path::new(FOLDER),
        prefix: UNIT_PREFIX,
    })
    .await
}
