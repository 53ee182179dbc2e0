//! Any bytes as a layer: unpacked into a folder in memory, beside which nothing may change and which can always be removed.

#![no_main]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use muster_layer::{
    Compression, Durability, EndOfLayer, Limits, Options, OverlayXattrs, Ownership, Privilege,
    Special, WhiteoutForm, Whiteouts, remove_contents, unpack,
};

const BLOCK: usize = 512;
const CHECKSUM: std::ops::Range<usize> = 148..156;

fn folder() -> PathBuf {
    PathBuf::from(format!("/dev/shm/layer-fuzz-{}", std::process::id()))
}

/// Every block gets the checksum of a header: what would be data is none the worse for it, and headers are reached.
fn fix_checksums(layer: &mut [u8]) {
    for block in layer.chunks_exact_mut(BLOCK) {
        // An extended header's content stays as it is.
        if block.iter().all(|byte| *byte == 0) || !block[257..].starts_with(b"ustar") {
            continue;
        }
        block[CHECKSUM].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

fn options(choice: u8) -> Options {
    let bit = |n: u8| choice & (1 << n) != 0;
    Options {
        limits: Limits {
            entries: 200,
            total_bytes: 1 << 20,
            file_bytes: 1 << 20,
            ratio_free_bytes: 1 << 20,
            depth: 16,
            pax_bytes: 8 << 10,
            sparse_pieces: 100,
            folder_table_bytes: 16 << 10,
            ..Limits::default()
        },
        ownership: if bit(0) {
            Ownership::Keep
        } else {
            Ownership::Caller
        },
        set_id: if bit(1) {
            Privilege::Keep
        } else {
            Privilege::Strip
        },
        fifos: if bit(2) { Special::Make } else { Special::Skip },
        whiteouts: Whiteouts {
            form: if bit(3) {
                WhiteoutForm::EmptyFile
            } else {
                WhiteoutForm::CharDevice
            },
            xattrs: if bit(4) {
                OverlayXattrs::User
            } else {
                OverlayXattrs::Trusted
            },
        },
        end: if bit(5) {
            EndOfLayer::Lenient
        } else {
            EndOfLayer::Strict
        },
        durability: Durability::None,
        ..Options::default()
    }
}

// Two bytes of choices, then the layer.
fuzz_target!(|input: &[u8]| {
    let &[choice, compression, ref layer @ ..] = input else {
        return;
    };
    let mut layer = layer.to_vec();
    let compression = match compression % 8 {
        0 => Compression::Gzip,
        1 => Compression::Zstd,
        _ => {
            fix_checksums(&mut layer);
            Compression::None
        }
    };
    let folder = folder();
    let destination = folder.join("in");
    if !destination.exists() {
        fs::create_dir_all(&destination).expect("make the folder");
        fs::write(folder.join("canary"), "untouched").expect("write the canary");
    }
    let opened = File::open(&destination).expect("open the folder");
    let _ = unpack(
        layer.as_slice(),
        compression,
        opened.as_fd(),
        &options(choice),
    );
    let beside = fs::read_dir(&folder)
        .expect("read the folder beside")
        .count();
    assert_eq!(beside, 2, "the destination and the canary");
    assert_eq!(
        fs::read_to_string(folder.join("canary")).expect("read the canary"),
        "untouched"
    );
    remove_contents(opened.as_fd()).expect("remove what was made");
});
