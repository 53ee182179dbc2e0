//! A folder as an initramfs: a gzip-compressed cpio archive in the "newc" format.

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Packs everything below `root`, owned by root, into `output`.
pub(super) fn pack_initramfs(root: &Path, output: impl Write) -> io::Result<()> {
    let mut archive = Archive {
        output: GzEncoder::new(output, Compression::fast()),
        entries: 0,
    };
    archive.folder(root, root)?;
    archive.entry(b"TRAILER!!!", 0, &[])?;
    archive.output.finish()?.flush()
}

struct Archive<W: Write> {
    output: GzEncoder<W>,
    entries: u32,
}

impl<W: Write> Archive<W> {
    fn folder(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
        let mut paths = fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        for path in paths {
            let metadata = fs::symlink_metadata(&path)?;
            let name = path.strip_prefix(root).map_err(io::Error::other)?;
            let content = content(&path, &metadata)?;
            self.entry(name.as_os_str().as_bytes(), metadata.mode(), &content)?;
            if metadata.is_dir() {
                self.folder(root, &path)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, name: &[u8], mode: u32, content: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let links = 1;
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let name_size = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        // inode, mode, uid, gid, links, mtime, size, device (4 fields), name size, checksum
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ];
        let mut header = "070701".to_owned();
        for field in fields {
            header.push_str(&format!("{field:08x}"));
        }
        self.output.write_all(header.as_bytes())?;
        self.output.write_all(name)?;
        self.pad(1, header.len() + name.len() + 1)?;
        self.output.write_all(content)?;
        self.pad(0, content.len())
    }

    /// Writes zeros: so many, and then up to a multiple of four.
    fn pad(&mut self, zeros: usize, written: usize) -> io::Result<()> {
        let padding = written.next_multiple_of(4) - written;
        self.output.write_all(&[0; 4][..zeros + padding])
    }
}

fn content(path: &Path, metadata: &Metadata) -> io::Result<Vec<u8>> {
    if metadata.is_symlink() {
        Ok(fs::read_link(path)?.as_os_str().as_bytes().to_owned())
    } else if metadata.is_file() {
        fs::read(path)
    } else {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn another_implementation_reads_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        // Every remainder by four, for names and contents.
        for length in 0..5 {
            fs::write(root.join("x".repeat(length + 1)), vec![b'c'; length]).unwrap();
        }
        fs::set_permissions(root.join("x"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("../x", root.join("a/link")).unwrap();
        let archive = folder.path().join("archive");
        pack_initramfs(&root, fs::File::create(&archive).unwrap()).unwrap();

        let unpacked = folder.path().join("unpacked");
        fs::create_dir(&unpacked).unwrap();
        let mut cpio = Command::new("sh");
        cpio.args(["-c", r#"zcat "$1" | busybox cpio -i"#, "sh"])
            .arg(&archive);
        let output = cpio.current_dir(&unpacked).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let listing = |root: &Path| {
            let script =
                r#"find . -printf '%p %y %m %l\n' | sort; find . -type f -exec cksum {} + | sort"#;
            let mut find = Command::new("sh");
            let output = find
                .args(["-c", script])
                .current_dir(root)
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(listing(&root).lines().count() > 10);
        assert!(unpacked.join("a/link").is_symlink());
        assert_eq!(listing(&unpacked), listing(&root));
    }
}
