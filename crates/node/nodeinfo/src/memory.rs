//! Memory: what the system may use, and what is built in.

use crate::tree::{SMALL, Tree};

/// `MemTotal`, in bytes.
pub(crate) fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let mut words = line.split_whitespace();
    let kibibytes: u64 = words.next()?.parse().ok()?;
    if words.next() != Some("kB") {
        return None;
    }
    kibibytes.checked_mul(1024)
}

/// Built-in memory in bytes, if the firmware or the kernel tells. Less than `total` cannot be true,
/// and is taken for not known.
pub(crate) fn physical(tree: Tree<'_>, total: u64) -> Option<u64> {
    let believable = |bytes: &u64| *bytes >= total;
    modules(tree)
        .filter(believable)
        .or_else(|| blocks(tree).filter(believable))
}

/// The sum over the firmware's memory modules. Readable by root only.
fn modules(tree: Tree<'_>) -> Option<u64> {
    const ENTRIES: &str = "/sys/firmware/dmi/entries";
    let mut sum: u64 = 0;
    let names = tree.names(ENTRIES);
    for name in names.iter().filter(|name| name.starts_with("17-")) {
        let raw = tree.bytes(format!("{ENTRIES}/{name}/raw"), SMALL).ok()?;
        // One module of unknown size makes the sum unknown.
        sum = sum.checked_add(module_size(&raw)?)?;
    }
    Some(sum)
}

/// The size of one memory module in bytes (SMBIOS, type 17); 0 for an empty slot.
fn module_size(raw: &[u8]) -> Option<u64> {
    const SIZE: usize = 0x0c;
    const EXTENDED_SIZE: usize = 0x1c;
    const UNKNOWN: u16 = 0xffff;
    const SEE_EXTENDED: u16 = 0x7fff;
    const KIBIBYTES: u16 = 0x8000;
    if raw.first() != Some(&17) {
        return None;
    }
    let size = raw.get(SIZE..SIZE + 2)?;
    match u16::from_le_bytes([size[0], size[1]]) {
        UNKNOWN => None,
        SEE_EXTENDED => {
            let size = raw.get(EXTENDED_SIZE..EXTENDED_SIZE + 4)?;
            let mebibytes = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) & 0x7fff_ffff;
            Some(u64::from(mebibytes) << 20)
        }
        size if size & KIBIBYTES != 0 => Some(u64::from(size & !KIBIBYTES) << 10),
        size => Some(u64::from(size) << 20),
    }
}

/// The memory blocks that the kernel manages, on or off.
fn blocks(tree: Tree<'_>) -> Option<u64> {
    const MEMORY: &str = "/sys/devices/system/memory";
    let size = tree.text_if_any(format!("{MEMORY}/block_size_bytes"))?;
    let size = u64::from_str_radix(size.trim().trim_start_matches("0x"), 16).ok()?;
    let names = tree.names(MEMORY);
    let is_block = |name: &&String| {
        name.strip_prefix("memory")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let count = u64::try_from(names.iter().filter(is_block).count()).ok()?;
    size.checked_mul(count)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn module(size: u16, extended: u32) -> Vec<u8> {
        let mut raw = vec![0; 0x28];
        raw[0] = 17;
        raw[0x0c..0x0e].copy_from_slice(&size.to_le_bytes());
        raw[0x1c..0x20].copy_from_slice(&extended.to_le_bytes());
        raw
    }

    #[test]
    fn total_memory_of_meminfo() {
        assert_eq!(
            total("MemTotal:       24682416 kB\nMemFree: 1 kB\n"),
            Some(24_682_416 * 1024)
        );
        for text in [
            "",
            "MemTotal:",
            "MemTotal: x kB",
            "MemTotal: 5",
            "MemTotal: 99999999999999999999 kB",
        ] {
            assert_eq!(total(text), None, "{text:?}");
        }
        assert_eq!(total(&format!("MemTotal: {} kB", u64::MAX)), None);
    }

    #[test]
    fn sizes_of_modules() {
        assert_eq!(module_size(&module(0, 0)), Some(0));
        assert_eq!(module_size(&module(8192, 0)), Some(8 * GIB));
        assert_eq!(module_size(&module(0x8000 | 512, 0)), Some(512 * 1024));
        assert_eq!(module_size(&module(0x7fff, 65536)), Some(64 * GIB));
        assert_eq!(module_size(&module(0xffff, 0)), None);
        assert_eq!(module_size(&[]), None);
        assert_eq!(module_size(&module(0x7fff, 1)[..0x1d]), None);
    }

    #[test]
    fn firmware_comes_before_blocks_and_must_be_believable() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let tree = Tree::new(root.path());
        assert_eq!(physical(tree, GIB), None);

        write("sys/devices/system/memory/block_size_bytes", b"8000000\n");
        for number in 0..16 {
            write(
                &format!("sys/devices/system/memory/memory{number}/online"),
                b"1",
            );
        }
        write("sys/devices/system/memory/memory_failure/x", b"");
        assert_eq!(physical(tree, GIB), Some(2 * GIB));

        write("sys/firmware/dmi/entries/17-0/raw", &module(2048, 0));
        write("sys/firmware/dmi/entries/17-1/raw", &module(2048, 0));
        write("sys/firmware/dmi/entries/16-0/raw", b"other");
        assert_eq!(physical(tree, GIB), Some(4 * GIB));
        assert_eq!(physical(tree, 5 * GIB), None);

        write("sys/firmware/dmi/entries/17-1/raw", &module(0xffff, 0));
        assert_eq!(physical(tree, GIB), Some(2 * GIB), "back to the blocks");
    }

    proptest! {
        #[test]
        fn nothing_panics(text in any::<String>(), raw in any::<Vec<u8>>()) {
            let _ = total(&text);
            let _ = module_size(&raw);
        }
    }
}
