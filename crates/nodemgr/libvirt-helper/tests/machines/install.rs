//! Systems that are installed from a disc.

use std::num::NonZeroU64;

use muster_mapping::ImageType;
use muster_provider::{MachineSpec, ManagerId, Provider as _};

use crate::rig::{Libvirt, PATIENCE, owned, require_libvirt, small_image, spec};

const SECTOR: usize = 2048;

/// Writes `DISC` to the first serial port, again and again: whoever opens it late hears it too.
const PROGRAM: [u8; 23] = [
    0xba, 0xf8, 0x03, // mov dx, 0x3f8
    0xb0, b'D', 0xee, // mov al, 'D'; out dx, al
    0xb0, b'I', 0xee, //
    0xb0, b'S', 0xee, //
    0xb0, b'C', 0xee, //
    0xb0, b'\n', 0xee, //
    0xf4, 0xeb, 0xfd, // hlt; back to it
    0x90, 0x90,
];

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
    put(20 * SECTOR, &PROGRAM);
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
    muster_lab::poll_until(PATIENCE, "the disc was booted", || {
        std::fs::read(&console).is_ok_and(|said| said.windows(4).any(|it| it == b"DISC"))
    });
    let blocks = libvirt.virsh(&["domblkinfo", made.resource.as_str(), "vda"]);
    assert!(blocks.contains(&(300 << 20).to_string()), "{blocks}");
    provider.destroy(&owned(&made)).await.unwrap();
    libvirt.assert_nothing_left();
    assert!(path.exists(), "the disc is not ours to remove");
}
