//! Headers, extended headers, sparse maps, attributes, sizes and compressed streams that are not what they should be.

use std::io::Write as _;

use muster_layer::{Compression, DamageKind, IdRange, Ownership, Privilege, Rule};

use super::super::{Attack, Case, Reason};
use super::name;
use crate::tar::{self, Item, empty, file, folder, long, tar};

pub(crate) fn all() -> impl Iterator<Item = Case> {
    headers()
        .into_iter()
        .chain(extended())
        .chain(sparse())
        .chain(attributes())
        .chain(sizes())
        .chain(streams())
}

fn headers() -> Vec<Case> {
    let size = || Reason::Rule(Rule::Number("size"));
    vec![
        ("wrong checksum", Reason::Rule(Rule::Checksum), |_| {
            Attack::items([file("x").wrong_sum()])
        }),
        ("garbage for a header", Reason::Rule(Rule::Checksum), |_| {
            Attack::bytes(vec![0xa5; 4096], Compression::None)
        }),
        ("negative size in digits", size(), |_| {
            Attack::items([file("x").size(b"-0000000001\0")])
        }),
        ("negative size in binary", size(), |_| {
            Attack::items([file("x").size(&[0xff; 12])])
        }),
        ("size beyond all numbers", size(), |_| {
            Attack::items([file("x").size(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")])
        }),
        ("size that is no number", size(), |_| {
            Attack::items([file("x").size(b"00000000z00\0")])
        }),
        (
            "size of more than there is",
            Reason::Damage(DamageKind::Truncated),
            |_| Attack::items([file("x").size(b"00000077777\0")]),
        ),
        (
            "size that wraps around",
            Reason::Rule(Rule::FileBytes { limit: 16 << 30 }),
            |_| Attack::items([file("x").size(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff")]),
        ),
        (
            "negative user id",
            Reason::Rule(Rule::Number("user id")),
            |_| Attack::items([file("x").edit(108, [0xff; 8])]),
        ),
        (
            "user id that means no change",
            Reason::Rule(Rule::Owner {
                which: "user",
                id: 0xffff_ffff,
            }),
            |_| Attack::items([file("x").edit(108, b"\x80\0\0\0\xff\xff\xff\xff")]),
        ),
        (
            "group id beyond all ids",
            Reason::Rule(Rule::Owner {
                which: "group",
                id: 1 << 32,
            }),
            |_| Attack::items([file("x").pax("gid", "4294967296")]),
        ),
        (
            "owner that the map does not have",
            Reason::Rule(Rule::Owner {
                which: "user",
                id: 70_000,
            }),
            |_| {
                let range = IdRange {
                    inside: 0,
                    outside: 100_000,
                    count: 65_536,
                };
                Attack::items([file("x").owner(70_000, 0)]).options(|options| {
                    options.ownership = Ownership::Map {
                        users: vec![range],
                        groups: vec![range],
                    };
                })
            },
        ),
        (
            "mode that is no number",
            Reason::Rule(Rule::Number("mode")),
            |_| Attack::items([file("x").edit(100, "rwxr-xr-")]),
        ),
        (
            "time beyond all times",
            Reason::Rule(Rule::Number("modification time")),
            |_| Attack::items([file("x").edit(136, [0xbf; 12])]),
        ),
        (
            "device number beyond all",
            Reason::Rule(Rule::Number("device number")),
            |_| Attack::items([Item::new(b'3', "x").edit(329, [0x9f; 8])]),
        ),
    ]
}

fn extended() -> Vec<Case> {
    let twice = |key: &str| Reason::Rule(Rule::PaxTwice(key.to_owned()));
    let value = |key: &str| Reason::Rule(Rule::PaxValue(key.to_owned()));
    let malformed = || Reason::Rule(Rule::PaxRecord);
    vec![
        (
            "huge extended header",
            Reason::Rule(Rule::ExtensionSize { limit: 1 << 20 }),
            |_| Attack::items([file("x").pax("comment", "c".repeat(2 << 20))]),
        ),
        (
            "extended header that says it is huge",
            Reason::Rule(Rule::ExtensionSize { limit: 1 << 20 }),
            |_| {
                Attack::items([
                    Item::new(b'x', "x").size(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff")
                ])
            },
        ),
        (
            "huge global header",
            Reason::Rule(Rule::ExtensionSize { limit: 1 << 20 }),
            |_| Attack::items([Item::new(b'g', "g").content("c".repeat(2 << 20))]),
        ),
        (
            "huge long name",
            Reason::Rule(Rule::ExtensionSize { limit: 4096 }),
            |_| Attack::items([long(b'L', "x".repeat(5000)), file("x")]),
        ),
        (
            "huge long target",
            Reason::Rule(Rule::ExtensionSize { limit: 4096 }),
            |_| Attack::items([long(b'K', "x".repeat(1 << 20)), file("x")]),
        ),
        ("two names", twice("path"), |_| {
            Attack::items([file("x").pax("path", "a").pax("path", "../b")])
        }),
        ("a name and no name", twice("path"), |_| {
            Attack::items([file("x").pax("path", "").pax("path", "b")])
        }),
        ("two sizes", twice("size"), |_| {
            Attack::items([file("x").pax("size", "7").pax("size", "512")])
        }),
        (
            "two extended headers",
            Reason::Rule(Rule::ExtensionTwice),
            |_| {
                let header = Item::new(b'x', "x").content(tar::record(b"path", b"../b"));
                Attack::items([header, file("x").pax("path", "a")])
            },
        ),
        ("two long names", Reason::Rule(Rule::ExtensionTwice), |_| {
            Attack::items([long(b'L', "a"), long(b'L', "b"), file("x")])
        }),
        (
            "extended header for nothing",
            Reason::Rule(Rule::ExtensionAlone),
            |_| Attack::items([Item::new(b'x', "x").content(tar::record(b"path", b"a"))]),
        ),
        ("record that says it is longer", malformed(), |_| {
            Attack::items([Item::new(b'x', "x").content("99 path=a\n"), file("x")])
        }),
        ("record without end", malformed(), |_| {
            Attack::items([Item::new(b'x', "x").content("8 path=a"), file("x")])
        }),
        ("record without length", malformed(), |_| {
            Attack::items([Item::new(b'x', "x").content("path=a\n"), file("x")])
        }),
        ("record of length nothing", malformed(), |_| {
            Attack::items([Item::new(b'x', "x").content("0 path=a\n"), file("x")])
        }),
        ("negative size in an extended header", value("size"), |_| {
            Attack::items([file("x").pax("size", "-1")])
        }),
        (
            "size in an extended header beyond all numbers",
            value("size"),
            |_| Attack::items([file("x").pax("size", "18446744073709551616")]),
        ),
        ("time that is none", value("mtime"), |_| {
            Attack::items([file("x").pax("mtime", "1e9")])
        }),
        (
            "one name for all",
            Reason::Rule(Rule::PaxGlobal("path".to_owned())),
            |_| {
                Attack::items([
                    Item::new(b'g', "g").content(tar::record(b"path", b"a")),
                    file("x"),
                ])
            },
        ),
        (
            "one size for all",
            Reason::Rule(Rule::PaxGlobal("size".to_owned())),
            |_| {
                Attack::items([
                    Item::new(b'g', "g").content(tar::record(b"size", b"0")),
                    file("x"),
                ])
            },
        ),
    ]
}

/// A file whose map is in an extended header.
fn mapped(size: &str, map: &str) -> Attack {
    Attack::items([file("x")
        .pax("GNU.sparse.size", size)
        .pax("GNU.sparse.map", map)])
}

/// A file whose map is in its content.
fn content_mapped(map: &str, data: &str) -> Attack {
    let mut content = map.as_bytes().to_vec();
    content.resize(content.len().next_multiple_of(512), 0);
    content.extend_from_slice(data.as_bytes());
    let item = Item::new(b'0', "GNUSparseFile.0/x").content(content);
    let item = item
        .pax("GNU.sparse.major", "1")
        .pax("GNU.sparse.minor", "0");
    Attack::items([item
        .pax("GNU.sparse.name", "x")
        .pax("GNU.sparse.realsize", "100")])
}

fn sparse() -> Vec<Case> {
    let wrong = || Reason::Rule(Rule::SparseMap);
    vec![
        ("pieces that overlap", wrong(), |_| mapped("100", "0,4,2,3")),
        ("pieces that go back", wrong(), |_| {
            mapped("100", "50,4,0,3")
        }),
        ("piece behind the end", wrong(), |_| mapped("100", "98,7")),
        ("piece that wraps around", wrong(), |_| {
            mapped("100", "18446744073709551615,7")
        }),
        ("pieces of more than there is", wrong(), |_| {
            mapped("100", "0,8")
        }),
        ("pieces of less than there is", wrong(), |_| {
            mapped("100", "0,6")
        }),
        ("map without size", wrong(), |_| {
            Attack::items([file("x").pax("GNU.sparse.map", "0,7")])
        }),
        ("map of another length", wrong(), |_| {
            let item = file("x")
                .pax("GNU.sparse.size", "7")
                .pax("GNU.sparse.numblocks", "2");
            Attack::items([item.pax("GNU.sparse.map", "0,7")])
        }),
        ("map of an unknown form", wrong(), |_| {
            let item = file("x")
                .pax("GNU.sparse.size", "7")
                .pax("GNU.sparse.major", "9");
            Attack::items([item.pax("GNU.sparse.minor", "0")])
        }),
        (
            "map with half a piece",
            Reason::Rule(Rule::PaxValue("GNU.sparse.map".to_owned())),
            |_| mapped("100", "0,7,20"),
        ),
        ("offsets without lengths", wrong(), |_| {
            let item = file("x")
                .pax("GNU.sparse.size", "7")
                .pax("GNU.sparse.offset", "0");
            Attack::items([item.pax("GNU.sparse.offset", "0")])
        }),
        (
            "huge sparse file",
            Reason::Rule(Rule::FileBytes { limit: 16 << 30 }),
            |_| mapped("9223372036854775807", "0,7"),
        ),
        (
            "many sparse files",
            Reason::Rule(Rule::TotalBytes { limit: 32 << 30 }),
            |_| {
                let items = (0..3).map(|n| {
                    let item =
                        file(format!("x{n}")).pax("GNU.sparse.size", (16_u64 << 30).to_string());
                    item.pax("GNU.sparse.map", "0,7")
                });
                Attack::items(items)
            },
        ),
        (
            "map of too many pieces",
            Reason::Rule(Rule::SparsePieces { limit: 64 << 10 }),
            |_| mapped("100", &["0,0"; 70_000].join(",")),
        ),
        ("map in the content that overlaps", wrong(), |_| {
            content_mapped("2\n0\n4\n2\n3\n", "content")
        }),
        ("map in the content that is no number", wrong(), |_| {
            content_mapped("1\n0x0\n7\n", "content")
        }),
        ("map in the content without end", wrong(), |_| {
            content_mapped("9999\n0\n0\n", "content")
        }),
        ("map in the content of endless digits", wrong(), |_| {
            content_mapped(&"1".repeat(600), "")
        }),
        ("old map that overlaps", wrong(), |_| {
            let map = b"00000000000\x0000000000004\x0000000000002\x0000000000003\0";
            let item = Item::new(b'S', "x").content("content").edit(386, map);
            Attack::items([item.edit(483, "00000000144\0")])
        }),
        (
            "old map without end",
            Reason::Rule(Rule::SparsePieces { limit: 1000 }),
            |_| {
                let item = Item::new(b'S', "x").edit(482, [1]);
                let mut layer = tar([item]);
                layer.truncate(512);
                for _ in 0..1100 {
                    let mut block = [0; 512];
                    block[504] = 1;
                    layer.extend_from_slice(&block);
                }
                Attack::bytes(layer, Compression::None).limits(|limits| limits.sparse_pieces = 1000)
            },
        ),
    ]
}

fn xattr(name: &str) -> Item {
    file("x").pax(format!("SCHILY.xattr.{name}"), "y")
}

fn attributes() -> Vec<Case> {
    let refused = |name: &str| Reason::Rule(Rule::XattrName(name.to_owned()));
    vec![
        (
            "attribute that overlayfs trusts",
            refused("trusted.overlay.redirect"),
            |_| Attack::items([xattr("trusted.overlay.redirect")]),
        ),
        (
            "attribute that a user's overlayfs trusts",
            refused("user.overlay.redirect"),
            |_| Attack::items([xattr("user.overlay.redirect")]),
        ),
        (
            "opaque folder by attribute",
            refused("trusted.overlay.opaque"),
            |_| Attack::items([folder("d").pax("SCHILY.xattr.trusted.overlay.opaque", "y")]),
        ),
        ("access list", refused("system.posix_acl_access"), |_| {
            Attack::items([xattr("system.posix_acl_access")])
        }),
        ("attribute without a name", refused(""), |_| {
            Attack::items([xattr("")])
        }),
        (
            "capabilities, where refused",
            Reason::Rule(Rule::Capabilities),
            |_| {
                Attack::items([xattr("security.capability")])
                    .options(|options| options.capabilities = Privilege::Refuse)
            },
        ),
        (
            "many attributes",
            Reason::Rule(Rule::XattrCount { limit: 64 }),
            |_| {
                let add = |item: Item, n| item.pax(format!("SCHILY.xattr.user.{n}"), "y");
                Attack::items([(0..65).fold(file("x"), add)])
            },
        ),
        (
            "large attributes",
            Reason::Rule(Rule::XattrBytes { limit: 64 << 10 }),
            |_| Attack::items([file("x").pax("SCHILY.xattr.user.a", "y".repeat(65 << 10))]),
        ),
        (
            "attribute twice",
            Reason::Rule(Rule::PaxTwice("SCHILY.xattr.user.a".to_owned())),
            |_| Attack::items([xattr("user.a").pax("SCHILY.xattr.user.a", "z")]),
        ),
    ]
}

fn sizes() -> Vec<Case> {
    vec![
        (
            "many entries",
            Reason::Rule(Rule::Entries { limit: 1000 }),
            |_| {
                let items = (0..1100).map(|n| empty(format!("{n}")));
                Attack::items(items).limits(|limits| limits.entries = 1000)
            },
        ),
        (
            "many times the same entry",
            Reason::Rule(Rule::Entries { limit: 1000 }),
            |_| Attack::items(vec![empty("x"); 1100]).limits(|limits| limits.entries = 1000),
        ),
        (
            "large file",
            Reason::Rule(Rule::FileBytes { limit: 1000 }),
            |_| {
                Attack::items([file("x").content([7; 1001])])
                    .limits(|limits| limits.file_bytes = 1000)
            },
        ),
        (
            "large layer",
            Reason::Rule(Rule::TotalBytes { limit: 100_000 }),
            |_| {
                let items = (0..200).map(|n| file(format!("{n}")).content([7; 1000]));
                Attack::items(items).limits(|limits| limits.total_bytes = 100_000)
            },
        ),
        (
            "large layer of nothing but headers",
            Reason::Rule(Rule::TotalBytes { limit: 1 << 20 }),
            |_| {
                let globals = vec![Item::new(b'g', "g"); 5000];
                Attack::items(globals).limits(|limits| limits.total_bytes = 1 << 20)
            },
        ),
        (
            "many folders in one name",
            Reason::Rule(Rule::FolderTable { limit: 1 << 20 }),
            |_| {
                // Long names, so that the table is full long before any other limit.
                let path = |n| format!("{n}/{}", "ddddddddddddddddddd/".repeat(100));
                let items = (0..200).map(|n| folder("x").pax("path", path(n)));
                Attack::items(items).limits(|limits| limits.folder_table_bytes = 1 << 20)
            },
        ),
        (
            "gigabyte of zeros",
            Reason::Rule(Rule::Ratio { limit: 250 }),
            |_| gigabyte_of_zeros(),
        ),
        (
            "bomb of zstd",
            Reason::Rule(Rule::Ratio { limit: 250 }),
            |_| {
                let layer = tar([file("zeros").content(vec![0; 8 << 20])]);
                Attack::bytes(tar::zstd(&layer), Compression::Zstd)
                    .limits(|limits| limits.ratio_free_bytes = 1 << 20)
            },
        ),
        (
            "bomb behind the end of the archive",
            Reason::Rule(Rule::Ratio { limit: 250 }),
            |_| {
                let mut layer = tar([file("x")]);
                layer.resize(8 << 20, 0);
                Attack::bytes(tar::gzip(&layer), Compression::Gzip)
                    .limits(|limits| limits.ratio_free_bytes = 1 << 20)
            },
        ),
    ]
}

/// A file of a gigabyte, of many members that are all the same.
pub(crate) fn gigabyte_of_zeros() -> Attack {
    let header = tar([Item::new(b'0', "zeros").size(b"10000000000\0")]);
    let zeros = tar::gzip(&vec![0; 16 << 20]);
    let layer = [
        tar::gzip(&header[..512]),
        zeros.repeat(64),
        tar::gzip(&[0; 1024]),
    ]
    .concat();
    assert!(layer.len() < 2 << 20);
    Attack::bytes(layer, Compression::Gzip).limits(|limits| limits.ratio_free_bytes = 1 << 20)
}

fn streams() -> Vec<Case> {
    use Compression::{Gzip, None, Zstd};
    let damage = Reason::Damage;
    let cut = || Reason::Damage(DamageKind::CompressedTruncated);
    fn layer() -> Vec<u8> {
        tar([folder("d"), file("d/x").content(vec![0x5a; 5000])])
    }
    vec![
        ("wrong digest", Reason::Digest, |_| {
            Attack::bytes(tar::gzip(&layer()), Gzip)
                .options(|options| options.digest = Some([1; 32]))
        }),
        ("wrong diff id", Reason::DiffId, |_| {
            Attack::bytes(tar::gzip(&layer()), Gzip)
                .options(|options| options.diff_id = Some([1; 32]))
        }),
        ("gzip cut in the data", cut(), |_| {
            let gzip = tar::gzip(&layer());
            Attack::bytes(gzip[..gzip.len() / 2].to_vec(), Gzip)
        }),
        ("gzip cut in the trailer", cut(), |_| {
            let gzip = tar::gzip(&layer());
            Attack::bytes(gzip[..gzip.len() - 1].to_vec(), Gzip)
        }),
        ("gzip cut in the header", cut(), |_| {
            Attack::bytes(tar::gzip(&layer())[..5].to_vec(), Gzip)
        }),
        ("gzip of nothing", cut(), |_| Attack::bytes(vec![], Gzip)),
        (
            "gzip with a wrong checksum",
            damage(DamageKind::Gzip),
            |_| {
                let mut gzip = tar::gzip(&layer());
                let at = gzip.len() - 6;
                gzip[at] ^= 1;
                Attack::bytes(gzip, Gzip)
            },
        ),
        ("gzip that is none", damage(DamageKind::Gzip), |_| {
            Attack::bytes(layer(), Gzip)
        }),
        (
            "junk behind gzip",
            damage(DamageKind::CompressedTrailer),
            |_| Attack::bytes([tar::gzip(&layer()), b"junk".to_vec()].concat(), Gzip),
        ),
        (
            "zeros behind gzip",
            damage(DamageKind::CompressedTrailer),
            |_| Attack::bytes([tar::gzip(&layer()), vec![0; 512]].concat(), Gzip),
        ),
        ("half a member behind gzip", cut(), |_| {
            Attack::bytes(
                [tar::gzip(&layer()), tar::gzip(b"")[..8].to_vec()].concat(),
                Gzip,
            )
        }),
        ("zstd cut in the data", cut(), |_| {
            let zstd = tar::zstd(&layer());
            Attack::bytes(zstd[..zstd.len() - 3].to_vec(), Zstd)
        }),
        ("zstd of nothing", cut(), |_| Attack::bytes(vec![], Zstd)),
        (
            "junk behind zstd",
            damage(DamageKind::CompressedTrailer),
            |_| Attack::bytes([tar::zstd(&layer()), b"junk".to_vec()].concat(), Zstd),
        ),
        (
            "zstd with a huge window",
            damage(DamageKind::ZstdWindow { limit: 23 }),
            |_| {
                let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
                encoder.window_log(27).unwrap();
                encoder.write_all(&layer()).unwrap();
                Attack::bytes(encoder.finish().unwrap(), Zstd)
            },
        ),
        (
            "archive cut in a header",
            damage(DamageKind::Truncated),
            |_| Attack::bytes(layer()[..700].to_vec(), None),
        ),
        (
            "archive cut in a file",
            damage(DamageKind::Truncated),
            |_| Attack::bytes(layer()[..2000].to_vec(), None),
        ),
        (
            "archive cut in a file, compressed well",
            damage(DamageKind::Truncated),
            |_| Attack::bytes(tar::gzip(&layer()[..2048]), Gzip),
        ),
        (
            "archive cut in an extended header",
            damage(DamageKind::Truncated),
            |_| {
                let layer = tar([file("x").pax("path", "y".repeat(600))]);
                Attack::bytes(layer[..1024].to_vec(), None)
            },
        ),
        (
            "archive cut between entries",
            damage(DamageKind::NoEndMarker),
            |_| Attack::bytes(layer()[..512].to_vec(), None),
        ),
        (
            "archive with half an end",
            damage(DamageKind::NoEndMarker),
            |_| {
                let layer = layer();
                Attack::bytes(layer[..layer.len() - 512].to_vec(), None)
            },
        ),
        (
            "archive of nothing",
            damage(DamageKind::NoEndMarker),
            |_| Attack::bytes(vec![], None),
        ),
        (
            "archive behind the archive",
            damage(DamageKind::Trailer),
            |_| Attack::bytes([layer(), tar([file("hidden")])].concat(), None),
        ),
        (
            "name of the archive's own making",
            name(muster_layer::NameRule::Traversal),
            |_| Attack::bytes(tar::gzip(&tar([file("d/../../x")])), Gzip),
        ),
    ]
}
