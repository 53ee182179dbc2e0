//! Systems that are installed from a disc.

use std::num::NonZeroU64;

use muster_mapping::ImageType;
use muster_provider::{MachineSpec, ManagerId, Provider as _};

use crate::rig::{Libvirt, PATIENCE, owned, require_libvirt, small_image, spec};

const SECTOR: usize = 2048;

/// Where a PC finds in a sector whether it can be booted.
const SIGNATURE: usize = 510;

/// Writes a word to the first serial port.
fn says(word: &[u8]) -> Vec<u8> {
    let mut program = vec![0xba, 0xf8, 0x03]; // mov dx, 0x3f8
    for &letter in word {
        program.extend([0xb0, letter, 0xee]); // mov al, letter; out dx, al
    }
    program
}

/// What is installed: a sector that says that it was booted.
fn system() -> Vec<u8> {
    let mut sector = says(b"DISK\n");
    sector.extend([0xf4, 0xeb, 0xfd]); // hlt; back to it
    sector.resize(SIGNATURE, 0);
    sector.extend([0x55, 0xaa]);
    sector
}

/// What installs it: says that it was booted, writes the sector that follows it to the start of the first disk, and boots again.
fn installer() -> Vec<u8> {
    let mut program = says(b"DISC\n");
    program.extend([
        0xb8, 0xc0, 0x07, 0x8e, 0xc0, // mov ax, 0x7c0; mov es, ax: that is where it is
        0xbb, 0x00, 0x02, // mov bx, 512
        0xb8, 0x01, 0x03, // mov ax, 0x301: write one sector
        0xb9, 0x01, 0x00, // mov cx, 1: the first
        0xba, 0x80, 0x00, // mov dx, 0x80: of the first disk
        0xcd, 0x13, // int 0x13
        0xea, 0x00, 0x00, 0xff, 0xff, // jmp 0xffff:0, the reset
    ]);
    program.resize(512, 0);
    [program, system()].concat()
}

/// A disc that a PC boots (El Torito), with nothing else on it.
fn disc() -> Vec<u8> {
    let mut disc = vec![0; 24 * SECTOR];
    let mut put = |at: usize, bytes: &[u8]| disc[at..at + bytes.len()].copy_from_slice(bytes);
    put(16 * SECTOR, b"\x01CD001\x01");
    put(17 * SECTOR, b"\x00CD001\x01EL TORITO SPECIFICATION");
    put(17 * SECTOR + 71, &19u32.to_le_bytes());
    put(18 * SECTOR, b"\xffCD001\x01");
    // The catalogue: an entry whose words sum up to nothing, then the one to boot, of four small sectors.
    let mut entry = [0; 32];
    (entry[0], entry[30], entry[31]) = (1, 0x55, 0xaa);
    entry[28..30].copy_from_slice(&0u16.wrapping_sub(0xaa55).wrapping_sub(1).to_le_bytes());
    put(19 * SECTOR, &entry);
    let mut boot = [0; 12];
    (boot[0], boot[6]) = (0x88, 4);
    boot[8..].copy_from_slice(&20u32.to_le_bytes());
    put(19 * SECTOR + 32, &boot);
    put(20 * SECTOR, &installer());
    disc
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_disk_is_installed_from_a_disc() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    let provider = libvirt.provider();
    let path = libvirt.path().join("install.iso");
    std::fs::write(&path, disc()).unwrap();
    let order = libvirt.order(
        &ManagerId::random(),
        MachineSpec {
            image: Some(path.display().to_string()),
            image_type: Some(ImageType::Iso),
            disk_mb: NonZeroU64::new(300),
            ..spec()
        },
    );
    let made = provider.provision(&order).await.unwrap();
    let console = made.details["console"].clone();
    let says = |word: &[u8; 4]| {
        let said = std::fs::read(&console).unwrap_or_default();
        said.windows(4).any(|it| it == word)
    };
    muster_lab::poll_until(PATIENCE, "the disc was booted", || says(b"DISC"));
    // The disc is still there, and is not booted again.
    muster_lab::poll_until(PATIENCE, "what it installed was booted", || says(b"DISK"));
    let blocks = libvirt.virsh(&["domblkinfo", made.resource.as_str(), "vda"]);
    assert!(blocks.contains(&(300 << 20).to_string()), "{blocks}");
    provider.destroy(&owned(&made)).await.unwrap();
    libvirt.assert_nothing_left();
    assert!(path.exists(), "the disc is not ours to remove");
}
