//! Archives written byte by byte, so that they can be wrong in every way.

use std::io::Write as _;

use flate2::write::GzEncoder;

/// One entry. Every field may be nonsense.
#[derive(Clone)]
pub(crate) struct Item {
    name: Vec<u8>,
    kind: u8,
    mode: u32,
    owner: (u32, u32),
    mtime: u64,
    link: Vec<u8>,
    content: Vec<u8>,
    pax: Vec<u8>,
    edits: Vec<(usize, Vec<u8>)>,
    good_sum: bool,
}

impl Item {
    pub(crate) fn new(kind: u8, name: impl AsRef<[u8]>) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            kind,
            mode: 0o644,
            owner: (0, 0),
            mtime: 1_000_000_000,
            link: Vec::new(),
            content: Vec::new(),
            pax: Vec::new(),
            edits: Vec::new(),
            good_sum: true,
        }
    }

    pub(crate) fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn owner(mut self, uid: u32, gid: u32) -> Self {
        self.owner = (uid, gid);
        self
    }

    pub(crate) fn content(mut self, content: impl AsRef<[u8]>) -> Self {
        self.content = content.as_ref().to_vec();
        self
    }

    /// A record of an extended header in front of the entry.
    pub(crate) fn pax(mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.pax.extend(record(key.as_ref(), value.as_ref()));
        self
    }

    /// Replaces bytes of the header; the checksum is right all the same.
    pub(crate) fn edit(mut self, at: usize, bytes: impl AsRef<[u8]>) -> Self {
        self.edits.push((at, bytes.as_ref().to_vec()));
        self
    }

    /// Replaces the size, but not the content.
    pub(crate) fn size(self, field: &[u8; 12]) -> Self {
        self.edit(124, field)
    }

    pub(crate) fn device(self, major: u32, minor: u32) -> Self {
        self.edit(329, format!("{major:07o}\0{minor:07o}\0"))
    }

    pub(crate) fn wrong_sum(mut self) -> Self {
        self.good_sum = false;
        self
    }

    fn write(&self, to: &mut Vec<u8>) {
        if !self.pax.is_empty() {
            Self::new(b'x', "pax").content(&self.pax).write(to);
        }
        let mut block = [0; 512];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name[..self.name.len().min(100)]);
        put(100, format!("{:07o}\0", self.mode).as_bytes());
        put(108, format!("{:07o}\0", self.owner.0).as_bytes());
        put(116, format!("{:07o}\0", self.owner.1).as_bytes());
        put(124, format!("{:011o}\0", self.content.len()).as_bytes());
        put(136, format!("{:011o}\0", self.mtime).as_bytes());
        put(148, b"        ");
        put(156, &[self.kind]);
        put(157, &self.link[..self.link.len().min(100)]);
        put(257, b"ustar\x0000");
        for (at, bytes) in &self.edits {
            put(*at, bytes);
        }
        let mut sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        if !self.good_sum {
            sum += 1;
        }
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        to.extend_from_slice(&block);
        to.extend_from_slice(&self.content);
        to.resize(to.len().next_multiple_of(512), 0);
    }
}

pub(crate) fn file(name: impl AsRef<[u8]>) -> Item {
    Item::new(b'0', name).content("content")
}

pub(crate) fn folder(name: impl AsRef<[u8]>) -> Item {
    Item::new(b'5', name).mode(0o755)
}

pub(crate) fn symlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Item {
    let mut item = Item::new(b'2', name).mode(0o777);
    item.link = target.as_ref().to_vec();
    item
}

pub(crate) fn hard_link(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Item {
    Item {
        kind: b'1',
        ..symlink(name, target)
    }
}

/// An empty file.
pub(crate) fn empty(name: impl AsRef<[u8]>) -> Item {
    Item::new(b'0', name)
}

/// GNU's long name (`L`) or long target (`K`) for the entry behind.
pub(crate) fn long(kind: u8, name: impl AsRef<[u8]>) -> Item {
    Item::new(kind, "././@LongLink").content([name.as_ref(), b"\0"].concat())
}

/// An archive with its end marker.
pub(crate) fn tar(items: impl IntoIterator<Item = Item>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in items {
        item.write(&mut bytes);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

pub(crate) fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = [b" ", key, b"=", value, b"\n"].concat();
    // The length counts its own digits.
    let length = (body.len()..)
        .find(|n| n.to_string().len() + body.len() == *n)
        .unwrap();
    [length.to_string().as_bytes(), &body].concat()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}
