//! The hostile layers: names, links, kinds and whiteouts here, everything about formats beside.

mod formats;

use muster_layer::{NameRule, OverlayXattrs, Privilege, Rule, Special, WhiteoutForm};

use super::{Attack, Case, Reason};
use crate::tar::{Item, empty, file, folder, hard_link, long, symlink};

pub(super) use formats::gigabyte_of_zeros;

pub(super) fn all() -> impl Iterator<Item = Case> {
    names()
        .into_iter()
        .chain(links())
        .chain(kinds())
        .chain(whiteouts())
        .chain(formats::all())
}

fn name(rule: NameRule) -> Reason {
    Reason::Rule(Rule::Name(rule))
}

fn target(rule: NameRule) -> Reason {
    Reason::Rule(Rule::Target(rule))
}

/// A path to the canary's file.
fn secret(canary: &[u8]) -> Vec<u8> {
    [canary, b"/secret"].concat()
}

fn names() -> Vec<Case> {
    use NameRule::{Empty, Nul, StepTooLong, TooDeep, TooLong, Traversal};
    vec![
        ("parent", name(Traversal), |_| {
            Attack::items([file("../canary/secret")])
        }),
        ("parent after a step", name(Traversal), |_| {
            Attack::items([file("a/../../canary/secret")])
        }),
        ("parent that comes back", name(Traversal), |_| {
            Attack::items([file("../destination/a")])
        }),
        ("parent as a folder", name(Traversal), |_| {
            Attack::items([folder("..")])
        }),
        ("parent at the end", name(Traversal), |_| {
            Attack::items([folder("a/..")])
        }),
        ("parent behind dots and slashes", name(Traversal), |_| {
            Attack::items([file(".//.//../canary/secret")])
        }),
        ("parent as a symbolic link", name(Traversal), |_| {
            Attack::items([symlink("../x", "y")])
        }),
        ("parent as a hard link", name(Traversal), |_| {
            Attack::items([hard_link("../x", "y")])
        }),
        ("parent in the prefix field", name(Traversal), |_| {
            Attack::items([file("canary/secret").edit(345, "..")])
        }),
        ("parent in an extended header", name(Traversal), |_| {
            Attack::items([file("good").pax("path", "../canary/secret")])
        }),
        ("parent in a long name", name(Traversal), |_| {
            Attack::items([long(b'L', "../canary/secret"), file("good")])
        }),
        ("parent in a sparse name", name(Traversal), |_| {
            let item = file("good")
                .pax("GNU.sparse.size", "7")
                .pax("GNU.sparse.map", "0,7")
                .pax("GNU.sparse.name", "../canary/secret");
            Attack::items([item])
        }),
        ("parent in a whiteout", name(Traversal), |_| {
            Attack::items([empty("../canary/.wh.secret")])
        }),
        ("parent as an opaque folder", name(Traversal), |_| {
            Attack::items([empty("../canary/.wh..wh..opq")])
        }),
        ("parent behind a slash", name(Traversal), |_| {
            Attack::items([file("/../canary/secret")])
        }),
        ("parent behind slashes and dots", name(Traversal), |_| {
            Attack::items([file("//.//../canary/secret")])
        }),
        (
            "parent in the middle of an absolute name",
            name(Traversal),
            |canary| {
                let around = [canary, b"/../canary/secret"].concat();
                Attack::items([long(b'L', around), file("x")])
            },
        ),
        ("empty name", name(Empty), |_| Attack::items([file("")])),
        ("NUL in an extended header", name(Nul), |_| {
            Attack::items([file("x").pax("path", "good\0/../../canary/secret")])
        }),
        ("NUL in a long name", name(Nul), |_| {
            Attack::items([long(b'L', "good\0evil"), file("x")])
        }),
        ("long step", name(StepTooLong), |_| {
            Attack::items([long(b'L', "x".repeat(256)), file("x")])
        }),
        ("long name", name(TooLong { limit: 4095 }), |_| {
            Attack::items([file("x").pax("path", "xxxxxxx/x".repeat(600))])
        }),
        ("deep name", name(TooDeep { limit: 128 }), |_| {
            Attack::items([folder("x").pax("path", "x/".repeat(129))])
        }),
        (
            "deep tree, step by step",
            name(TooDeep { limit: 16 }),
            |_| {
                let items = (1..40).map(|depth| folder("d/".repeat(depth)));
                Attack::items(items).limits(|limits| limits.depth = 16)
            },
        ),
        (
            "file as the root",
            Reason::Rule(Rule::RootNotFolder),
            |_| Attack::items([file("./.")]),
        ),
        (
            "symbolic link as the root",
            Reason::Rule(Rule::RootNotFolder),
            |canary| Attack::items([symlink(".", canary)]),
        ),
    ]
}

fn links() -> Vec<Case> {
    use NameRule::{Empty, Nul, Reserved, TooLong, Traversal};
    let through = || Reason::Rule(Rule::ThroughSymlink);
    let missing = || Reason::Rule(Rule::TargetMissing);
    vec![
        ("file through a symbolic link", through(), |canary| {
            Attack::items([symlink("out", canary), file("out/secret")])
        }),
        ("file through a relative symbolic link", through(), |_| {
            Attack::items([symlink("out", "../canary"), file("out/secret")])
        }),
        ("file through a symbolic link to inside", through(), |_| {
            Attack::items([folder("in"), symlink("out", "in"), file("out/x")])
        }),
        ("file through two symbolic links", through(), |_| {
            Attack::items([
                symlink("a", "b"),
                symlink("b", "../canary"),
                file("a/secret"),
            ])
        }),
        ("file through a symbolic link below", through(), |canary| {
            Attack::items([
                folder("d"),
                symlink("d/out", canary),
                file("d/out/inner/secret"),
            ])
        }),
        ("file through a symbolic link to /proc", through(), |_| {
            Attack::items([symlink("root", "/proc/self/root"), file("root/tmp/x")])
        }),
        ("folder through a symbolic link", through(), |canary| {
            Attack::items([symlink("out", canary), folder("out/inner").mode(0o777)])
        }),
        ("whiteout through a symbolic link", through(), |canary| {
            Attack::items([symlink("out", canary), empty("out/.wh.secret")])
        }),
        (
            "opaque folder through a symbolic link",
            through(),
            |canary| Attack::items([symlink("out", canary), empty("out/.wh..wh..opq")]),
        ),
        ("folder swapped for a symbolic link", through(), |canary| {
            Attack::items([
                folder("d"),
                file("d/x"),
                symlink("d", canary),
                file("d/secret"),
            ])
        }),
        (
            "parent folder swapped for a symbolic link",
            through(),
            |canary| {
                Attack::items([
                    folder("inner/d"),
                    file("inner/d/x"),
                    symlink("inner", canary),
                    file("inner/d/x"),
                ])
            },
        ),
        (
            "hard link to a symbolic link, then through it",
            through(),
            |canary| {
                Attack::items([
                    symlink("out", canary),
                    hard_link("again", "out"),
                    file("again/secret"),
                ])
            },
        ),
        (
            "file through a file",
            Reason::Rule(Rule::ThroughFile),
            |_| Attack::items([file("a"), file("a/b")]),
        ),
        (
            "folder through a file",
            Reason::Rule(Rule::ThroughFile),
            |_| Attack::items([file("a"), folder("a/b/c")]),
        ),
        ("hard link to outside", target(Traversal), |_| {
            Attack::items([hard_link("x", "../canary/secret")])
        }),
        (
            "hard link to an absolute name that the layer does not have",
            missing(),
            |canary| Attack::items([long(b'K', secret(canary)), hard_link("x", "y")]),
        ),
        (
            "hard link to an absolute name with a parent",
            target(Traversal),
            |_| Attack::items([hard_link("x", "/../canary/secret")]),
        ),
        (
            "hard link to the root by its name",
            Reason::Rule(Rule::TargetIsFolder),
            |_| Attack::items([hard_link("x", "/")]),
        ),
        (
            "absolute file through a symbolic link",
            through(),
            |canary| Attack::items([symlink("/out", canary), file("/out/secret")]),
        ),
        (
            "hard link to outside in an extended header",
            target(Traversal),
            |_| {
                let link = hard_link("x", "y").pax("linkpath", "a/../../canary/secret");
                Attack::items([link])
            },
        ),
        (
            "hard link through a symbolic link",
            Reason::Rule(Rule::TargetThroughSymlink),
            |canary| Attack::items([symlink("out", canary), hard_link("x", "out/secret")]),
        ),
        (
            "hard link through a symbolic link above",
            Reason::Rule(Rule::TargetThroughSymlink),
            |canary| Attack::items([symlink("out", canary), hard_link("x", "out/inner/secret")]),
        ),
        (
            "hard link, folder swapped in between",
            Reason::Rule(Rule::TargetThroughSymlink),
            |canary| {
                Attack::items([
                    file("d/secret"),
                    hard_link("first", "d/secret"),
                    symlink("d", canary),
                    hard_link("x", "d/secret"),
                ])
            },
        ),
        (
            "hard link to a folder",
            Reason::Rule(Rule::TargetIsFolder),
            |_| Attack::items([folder("d"), hard_link("x", "d")]),
        ),
        (
            "hard link to the root",
            Reason::Rule(Rule::TargetIsFolder),
            |_| Attack::items([hard_link("x", ".")]),
        ),
        ("hard link to nothing", missing(), |_| {
            Attack::items([hard_link("x", "lower")])
        }),
        ("hard link to nothing in nothing", missing(), |_| {
            Attack::items([hard_link("x", "a/b/c")])
        }),
        ("hard link to itself", missing(), |_| {
            Attack::items([hard_link("x", "x")])
        }),
        ("hard link through a file", missing(), |_| {
            Attack::items([file("a"), hard_link("x", "a/b")])
        }),
        (
            "hard link that replaces its target's folder",
            missing(),
            |_| Attack::items([file("d/x"), hard_link("d", "d/x")]),
        ),
        ("hard link to a whiteout's name", target(Reserved), |_| {
            Attack::items([empty(".wh.x"), hard_link("y", ".wh.x")])
        }),
        (
            "hard link to a whiteout",
            Reason::Rule(Rule::TargetIsWhiteout),
            |_| Attack::items([empty(".wh.x"), hard_link("y", "x")]),
        ),
        (
            "hard link to a whiteout that is a file",
            Reason::Rule(Rule::TargetIsWhiteout),
            |_| {
                Attack::items([empty(".wh.x"), hard_link("y", "x")])
                    .options(|options| options.whiteouts.form = WhiteoutForm::EmptyFile)
            },
        ),
        ("symbolic link to nowhere", target(Empty), |_| {
            Attack::items([symlink("x", "")])
        }),
        ("symbolic link with NUL", target(Nul), |_| {
            Attack::items([symlink("x", "y").pax("linkpath", "a\0b")])
        }),
        (
            "long symbolic link",
            target(TooLong { limit: 4095 }),
            |_| Attack::items([symlink("x", "y").pax("linkpath", "z".repeat(5000))]),
        ),
        (
            "hard link with content",
            Reason::Rule(Rule::Content),
            |_| Attack::items([file("a"), hard_link("x", "a").content("more")]),
        ),
    ]
}

fn kinds() -> Vec<Case> {
    vec![
        ("character device", Reason::Rule(Rule::Device), |_| {
            Attack::items([Item::new(b'3', "mem").device(1, 1)])
        }),
        ("block device", Reason::Rule(Rule::Device), |_| {
            Attack::items([Item::new(b'4', "disk").device(8, 0)])
        }),
        ("named pipe", Reason::Rule(Rule::Fifo), |_| {
            Attack::items([Item::new(b'6', "pipe")])
        }),
        (
            "whiteout as a device, where devices are made",
            Reason::Rule(Rule::WhiteoutDevice),
            |_| {
                Attack::items([Item::new(b'3', "x").device(0, 0)])
                    .options(|options| options.devices = Special::Make)
            },
        ),
        ("device with content", Reason::Rule(Rule::Content), |_| {
            Attack::items([Item::new(b'3', "x").device(1, 3).content("more")])
        }),
        ("folder with content", Reason::Rule(Rule::Content), |_| {
            Attack::items([folder("d").content("more")])
        }),
        (
            "old folder with content",
            Reason::Rule(Rule::Content),
            |_| Attack::items([file("d/")]),
        ),
        (
            "symbolic link with content",
            Reason::Rule(Rule::Content),
            |_| Attack::items([symlink("x", "y").content("more")]),
        ),
        ("unknown type", Reason::Rule(Rule::Type(b'Z')), |_| {
            Attack::items([Item::new(b'Z', "x")])
        }),
        ("volume label", Reason::Rule(Rule::Type(b'V')), |_| {
            Attack::items([Item::new(b'V', "x")])
        }),
        ("part of a volume", Reason::Rule(Rule::Type(b'M')), |_| {
            Attack::items([Item::new(b'M', "x")])
        }),
        (
            "set-user-id, where refused",
            Reason::Rule(Rule::SetId),
            |_| {
                Attack::items([file("sh").mode(0o4755)])
                    .options(|options| options.set_id = Privilege::Refuse)
            },
        ),
        (
            "set-group-id, where refused",
            Reason::Rule(Rule::SetId),
            |_| {
                Attack::items([file("sh").mode(0o2755)])
                    .options(|options| options.set_id = Privilege::Refuse)
            },
        ),
    ]
}

fn whiteouts() -> Vec<Case> {
    let reserved = || name(NameRule::Reserved);
    let not_empty = || Reason::Rule(Rule::WhiteoutNotEmpty);
    vec![
        ("whiteout of nothing", reserved(), |_| {
            Attack::items([empty(".wh.")])
        }),
        ("whiteout of the folder itself", reserved(), |_| {
            Attack::items([empty("d/.wh..")])
        }),
        ("whiteout of the folder above", reserved(), |_| {
            Attack::items([empty("d/.wh...")])
        }),
        ("whiteout of a whiteout", reserved(), |_| {
            Attack::items([empty(".wh..wh.x")])
        }),
        ("whiteout as a folder's name", reserved(), |_| {
            Attack::items([file(".wh.d/x")])
        }),
        (
            "whiteout with a slash behind",
            Reason::Rule(Rule::WhiteoutNotEmpty),
            |_| Attack::items([empty(".wh.x/")]),
        ),
        ("names of another union file system", reserved(), |_| {
            Attack::items([folder(".wh..wh.plnk")])
        }),
        ("opaque marker as a folder's name", reserved(), |_| {
            Attack::items([file("d/.wh..wh..opq/x")])
        }),
        ("whiteout with content", not_empty(), |_| {
            Attack::items([file(".wh.x")])
        }),
        ("whiteout as a folder", not_empty(), |_| {
            Attack::items([folder(".wh.x")])
        }),
        ("whiteout as a symbolic link", not_empty(), |canary| {
            Attack::items([symlink(".wh.x", canary)])
        }),
        ("whiteout as a hard link", not_empty(), |_| {
            Attack::items([empty("a"), hard_link(".wh.x", "a")])
        }),
        ("opaque marker with content", not_empty(), |_| {
            Attack::items([file("d/.wh..wh..opq")])
        }),
        ("opaque root", Reason::Rule(Rule::OpaqueRoot), |_| {
            Attack::items([empty(".wh..wh..opq")])
        }),
        (
            "opaque root, spelled otherwise",
            Reason::Rule(Rule::OpaqueRoot),
            |_| Attack::items([empty(".//./.wh..wh..opq")]),
        ),
    ]
}

type Harmless = (&'static str, fn(&[u8]) -> Attack, &'static [&'static str]);

/// What looks like an attack and is only a name or a change of mind.
pub(super) fn harmless() -> Vec<Harmless> {
    vec![
        (
            "an absolute name is below the destination",
            |canary| {
                let long_name = long(b'L', secret(canary));
                Attack::items([
                    long_name,
                    file("x"),
                    file("/no-such-place/y"),
                    file("//no-such-place/z"),
                ])
            },
            &["no-such-place/y", "no-such-place/z"],
        ),
        (
            "what ko and kaniko write",
            |_| {
                Attack::items([
                    folder("/"),
                    folder("/ko-app"),
                    file("/ko-app/web"),
                    hard_link("/ko-app/again", "/ko-app/web"),
                    empty("/ko-app/.wh.old"),
                    symlink("/web", "/ko-app/web"),
                ])
            },
            &["ko-app/web", "ko-app/again", "web"],
        ),
        (
            "links to anywhere are data",
            |canary| {
                let items = [
                    symlink("a", canary),
                    symlink("b", "../../.."),
                    symlink("c", "c"),
                ];
                Attack::items(items)
            },
            &["a", "b", "c"],
        ),
        (
            "a file replaces a link instead of writing through it",
            |canary| Attack::items([symlink("x", secret(canary)), file("x")]),
            &["x"],
        ),
        (
            "a folder replaces a link",
            |canary| {
                Attack::items([
                    symlink("x", canary),
                    folder("x").mode(0o777),
                    file("x/secret"),
                ])
            },
            &["x/secret"],
        ),
        (
            "a whiteout beside a link does not follow it",
            |canary| Attack::items([symlink("x", secret(canary)), empty(".wh.x")]),
            &["x"],
        ),
        (
            "a file replaces one of two hard links",
            |canary| Attack::items([symlink("x", secret(canary)), hard_link("y", "x"), file("y")]),
            &["x", "y"],
        ),
        (
            "a file replaces a folder with a link in it",
            |canary| Attack::items([symlink("d/e/f", canary), file("d")]),
            &["d"],
        ),
        (
            "dots that are no steps",
            |_| {
                Attack::items([
                    file("..."),
                    file("..a"),
                    file("a.."),
                    file(". ./x"),
                    file("..\\x"),
                ])
            },
            &["...", "..a", "a..", ". ./x", "..\\x"],
        ),
        (
            "letters that look like dots and slashes",
            |_| {
                Attack::items([
                    file("\u{2024}\u{2024}\u{2215}x"),
                    file("\u{ff0e}\u{ff0e}/x"),
                    file("\u{202e}x"),
                ])
            },
            &[
                "\u{2024}\u{2024}\u{2215}x",
                "\u{ff0e}\u{ff0e}/x",
                "\u{202e}x",
            ],
        ),
        (
            "bytes that are no text",
            |_| Attack::items([file(b"\xc0\xae\xc0\xae/x"), file(b"\xff\n\x1b")]),
            &[],
        ),
        (
            "names behind a NUL are not read",
            |_| Attack::items([file("good\0../../evil")]),
            &["good"],
        ),
        (
            "a long chain of hard links",
            |_| {
                let chain = (1..500).map(|n| hard_link(format!("l{n}"), format!("l{}", n - 1)));
                Attack::items(std::iter::once(file("l0")).chain(chain))
            },
            &["l0", "l499"],
        ),
        (
            "a long chain of symbolic links",
            |_| Attack::items((0..500).map(|n| symlink(format!("l{n}"), format!("l{}", n + 1)))),
            &["l0", "l499"],
        ),
        (
            "file and folder take turns",
            |_| Attack::items((0..20).flat_map(|_| [folder("a"), file("a/b/c"), file("a")])),
            &["a"],
        ),
        (
            "whiteouts in files for mounts by users",
            |_| {
                Attack::items([empty("d/.wh.x"), empty("d/.wh..wh..opq"), empty("d/.wh.x")])
                    .options(|options| {
                        options.whiteouts.form = WhiteoutForm::EmptyFile;
                        options.whiteouts.xattrs = OverlayXattrs::User;
                    })
            },
            &["d/x"],
        ),
    ]
}
