//! Compiles the contracts in `proto/` into Rust and into a descriptor set, without `protoc`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use protox::Compiler;
use protox::prost::Message;

const PROTO_ROOT: &str = "../../../proto";

const CONTRACTS: [&str; 4] = [
    "common/v2/common.proto",
    "servicemanager/v5/servicemanager.proto",
    "iamanager/version.proto",
    "iamanager/v6/iamanager.proto",
];

/// Messages that carry a password, a secret or an environment value. They get no derived `Debug`:
/// `src/redact.rs` writes one that leaves the secret out.
const SECRET_BEARING: [&str; 7] = [
    ".servicemanager.v5.EnvVarInfo",
    ".iamanager.v6.PermissionsRequest",
    ".iamanager.v6.RegisterInstanceResponse",
    ".iamanager.v6.CreateKeyRequest",
    ".iamanager.v6.StartProvisioningRequest",
    ".iamanager.v6.FinishProvisioningRequest",
    ".iamanager.v6.DeprovisionRequest",
];

/// Fields whose payload is handed on as it is: `Bytes` shares the receive buffer instead of copying.
const BULK_DATA: [&str; 2] = [
    ".servicemanager.v5.LogData.data",
    ".servicemanager.v5.DownloadContent.data",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    // Not the whole folder: other crates' contracts are beside these.
    for contract in CONTRACTS {
        println!("cargo:rerun-if-changed={PROTO_ROOT}/{contract}");
    }

    let mut descriptors = Compiler::new([PROTO_ROOT])?
        .include_imports(true)
        .include_source_info(true)
        .open_files(CONTRACTS)?
        .file_descriptor_set();

    let mut builder = tonic_prost_build::configure()
        // Channels and listeners are muster-rpc's business; without this the crate would pull in
        // tonic's whole transport.
        .build_transport(false)
        .codec_path("crate::codec::SmallBuffers")
        .btree_map(".")
        .skip_debug(SECRET_BEARING);
    for field in BULK_DATA {
        builder = builder.bytes(field);
    }
    builder.compile_fds(descriptors.clone())?;

    // Comments became rustdoc above; reflection clients do not need a second copy of them.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    let out_dir = env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?;
    fs::write(
        Path::new(&out_dir).join("descriptors.bin"),
        descriptors.encode_to_vec(),
    )?;
    Ok(())
}
