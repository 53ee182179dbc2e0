use proptest::prelude::*;

use super::*;

/// A description in the making.
#[derive(Default)]
struct Blob {
    types: Vec<u8>,
    names: Vec<u8>,
}

impl Blob {
    fn new() -> Self {
        Self {
            types: Vec::new(),
            names: vec![0],
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        let at = u32::try_from(self.names.len()).unwrap();
        self.names.extend_from_slice(name.as_bytes());
        self.names.push(0);
        at
    }

    fn record(&mut self, name: &str, kind: u32, count: u32, has_widths: bool, follows: &[u32]) {
        let name = self.name(name);
        let what = u32::from(has_widths) << 31 | kind << 24 | count;
        for word in [name, what, 8].iter().chain(follows) {
            self.types.extend_from_slice(&word.to_ne_bytes());
        }
    }

    fn structure(&mut self, name: &str, has_widths: bool, members: &[(&str, u32)]) {
        let members: Vec<u32> = members
            .iter()
            .flat_map(|(member, bits)| [self.name(member), 1, *bits])
            .collect();
        let count = u32::try_from(members.len() / 3).unwrap();
        self.record(name, 4, count, has_widths, &members);
    }

    fn bytes(&self) -> Vec<u8> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let (types, names) = (length(&self.types), length(&self.names));
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types, types, names] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        bytes.extend(&self.types);
        bytes.extend(&self.names);
        bytes
    }
}

/// Every kind of record, and the wanted ones between them.
fn whole() -> Blob {
    let mut blob = Blob::new();
    blob.record("int", 1, 0, false, &[32]);
    blob.record("", 2, 0, false, &[]);
    blob.record("", 3, 0, false, &[1, 1, 4]);
    blob.structure("inode", false, &[("i_mode", 0), ("i_sb", 40 * 8)]);
    blob.record("either", 5, 1, false, &[0, 1, 0]);
    blob.record("choice", 6, 2, false, &[0, 1, 0, 2]);
    // Members of another structure are no member of the one that is looked for.
    blob.structure("file_lock", false, &[("f_inode", 8)]);
    // A place beside a width of bits.
    blob.structure("file", true, &[("f_lock", 0), ("f_inode", 32 * 8)]);
    for kind in [7, 8, 9, 10, 11, 16, 18] {
        blob.record("other", kind, 0, false, &[]);
    }
    blob.record("", 13, 2, false, &[0, 1, 0, 2]);
    blob.record("file_open", 12, 0, false, &[]);
    blob.record("bpf_lsm_file_open", 12, 0, false, &[]);
    blob.record("variable", 14, 0, false, &[1]);
    blob.record(".data", 15, 1, false, &[1, 0, 4]);
    blob.record("tag", 17, 0, false, &[0]);
    blob.record("wide", 19, 1, false, &[0, 1, 0]);
    blob.structure(
        "super_block",
        false,
        &[("s_list", 0), ("s_magic_other", 8), ("s_magic", 96 * 8)],
    );
    blob
}

#[test]
fn everything_is_found_among_records_of_every_kind() {
    let layout = FileLayout::read(&whole().bytes()).unwrap();
    let expected = FileLayout {
        function: 18,
        inode: 32,
        super_block: 40,
        magic: 96,
    };
    assert_eq!(layout, expected);
}

#[test]
fn what_is_missing_is_named() {
    let mut blob = Blob::new();
    let said = |blob: &Blob| FileLayout::read(&blob.bytes()).unwrap_err().to_string();
    assert_eq!(
        said(&blob),
        "the kernel has no hook for files that are opened"
    );
    blob.record("bpf_lsm_file_open", 12, 0, false, &[]);
    blob.structure("file", false, &[("f_inode", 32 * 8)]);
    blob.structure("inode", false, &[("i_sb", 40 * 8)]);
    // A place that is no whole byte, and one that no instruction reaches, are none.
    blob.structure("super_block", false, &[("s_magic", 3)]);
    blob.structure("super_block", false, &[("s_magic", 8 * 40_000)]);
    assert_eq!(said(&blob), "the kernel has no number of a file system");
}

#[test]
fn damage_is_found_wherever_it_is() {
    let whole = whole().bytes();
    for length in 0..whole.len() {
        let read = FileLayout::read(&whole[..length]);
        assert!(
            matches!(read, Err(LayoutError::Damaged(_))),
            "{length}: {read:?}"
        );
    }
    let mut other_order = whole.clone();
    other_order.swap(0, 1);
    assert!(FileLayout::read(&other_order).is_err());
    let mut blob = Blob::new();
    blob.record("new", 20, 0, false, &[]);
    let said = FileLayout::read(&blob.bytes()).unwrap_err().to_string();
    assert!(said.contains("unknown kind"), "{said}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(at in 0usize..600, byte in any::<u8>()) {
        let mut bytes = whole().bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = FileLayout::read(&bytes);
    }
}

#[test]
fn the_description_of_this_kernel_is_understood() {
    // Where there is none, there is nothing to understand.
    if let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") {
        match FileLayout::read(&bytes) {
            Ok(layout) => assert!(layout.function > 0 && layout.inode > 0, "{layout:?}"),
            Err(error) => assert!(matches!(error, LayoutError::Missing(_)), "{error}"),
        }
    }
}
