//! Compiles the operator's contract into Rust and into a descriptor set, without `protoc`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use protox::Compiler;
use protox::prost::Message;

const PROTO_ROOT: &str = "../../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={PROTO_ROOT}/muster/control");

    let mut descriptors = Compiler::new([PROTO_ROOT])?
        .include_imports(true)
        .include_source_info(true)
        .open_files(["muster/control/v1/control.proto"])?
        .file_descriptor_set();

    tonic_prost_build::configure()
        // Channels and listeners are muster-rpc's business.
        .build_transport(false)
        .btree_map(".")
        // What both contracts share is the same type in both.
        .extern_path(".common.v2", "::muster_api::common::v2")
        .compile_fds(descriptors.clone())?;

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
