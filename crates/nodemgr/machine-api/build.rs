//! Compiles the node manager's contract into Rust and into a descriptor set, without `protoc`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use protox::Compiler;
use protox::prost::Message;

const PROTO_ROOT: &str = "../../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={PROTO_ROOT}/muster/nodemgr");

    let mut descriptors = Compiler::new([PROTO_ROOT])?
        .include_imports(true)
        .include_source_info(true)
        .open_files(["muster/nodemgr/v1/nodemgr.proto"])?
        .file_descriptor_set();

    tonic_prost_build::configure()
        // Channels and listeners are muster-rpc's business.
        .build_transport(false)
        .btree_map(".")
        // Large beside what else could stand there.
        .boxed(".muster.nodemgr.v1.MachineNews.news.machine")
        .boxed(".muster.nodemgr.v1.StartRunRequest.what.command")
        // They hold private keys: their `Debug` is written by hand.
        .skip_debug([".muster.nodemgr.v1.SshAccess", ".muster.nodemgr.v1.SshJump"])
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
