//! Whether KVM works, found out by booting something with it.
//!
//! A device that opens proves nothing: in a machine within a machine it may open, and guests hang. So a boot sector is booted
//! that does nothing but end the emulator with a number that nothing else ends it with.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// The firmware of a guest takes well under a second where KVM works.
pub(crate) const TIME: Duration = Duration::from_secs(10);
/// What the boot sector writes, and what the emulator makes of it: twice that, and one.
const ENDS_WITH: i32 = 0x2a * 2 + 1;
/// Writes 0x2a to port 0x501, where the emulator's exit is, and stands still.
const PROGRAM: [u8; 9] = [0xba, 0x01, 0x05, 0xb0, 0x2a, 0xee, 0xf4, 0xeb, 0xfd];

/// A sector that firmware boots.
fn boot_sector() -> [u8; 512] {
    let mut sector = [0; 512];
    sector[..PROGRAM.len()].copy_from_slice(&PROGRAM);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// The emulator of this host's architecture.
pub(crate) fn default_emulator() -> PathBuf {
    format!("/usr/bin/qemu-system-{}", std::env::consts::ARCH).into()
}

/// Whether something boots. Whatever goes wrong on the way means no: machines are then made without KVM.
pub(crate) async fn boots(
    emulator: &Path,
    accelerator: &str,
    folder: &Path,
    time: Duration,
) -> bool {
    // The sector is x86's; other hosts do without KVM until somebody can try it.
    if std::env::consts::ARCH != "x86_64" {
        return false;
    }
    let disk = folder.join(format!("boot-probe-{}", std::process::id()));
    if tokio::fs::write(&disk, boot_sector()).await.is_err() {
        return false;
    }
    let ended = run(emulator, accelerator, &disk, time).await;
    // It is made anew by the next probe.
    let _ = tokio::fs::remove_file(&disk).await;
    ended == Some(ENDS_WITH)
}

async fn run(emulator: &Path, accelerator: &str, disk: &Path, time: Duration) -> Option<i32> {
    let drive = format!("if=ide,format=raw,readonly=off,file={}", disk.display());
    let mut child = Command::new(emulator)
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-machine",
            "pc",
        ])
        .args(["-m", "16", "-accel", accelerator, "-drive", &drive])
        .args(["-device", "isa-debug-exit,iobase=0x501,iosize=0x02"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let ended = tokio::time::timeout(time, child.wait()).await;
    if ended.is_err() {
        // Killed and reaped, so that nothing is left when the answer is known.
        let _ = child.kill().await;
    }
    ended.ok()?.ok()?.code()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For an emulator without any help, on a machine that may be busy.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn the_probe_tells_what_boots_from_what_does_not() {
        let emulator = default_emulator();
        if !emulator.exists() {
            println!(
                "skipped: the_probe_tells_what_boots_from_what_does_not: no {}",
                emulator.display()
            );
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(boots(&emulator, "tcg", folder.path(), PATIENCE).await);
        assert!(!boots(&emulator, "none-such", folder.path(), PATIENCE).await);
        assert!(!boots(Path::new("/bin/true"), "tcg", folder.path(), PATIENCE).await);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn an_emulator_that_hangs_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let hangs = folder.path().join("hangs");
        std::fs::write(&hangs, "#!/bin/sh\nexec sleep 600\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&hangs, mode).unwrap();
        let late = boots(&hangs, "tcg", folder.path(), Duration::from_millis(200));
        assert!(!tokio::time::timeout(PATIENCE, late).await.unwrap());
    }
}
