//! Cases: folders go over and come back as they were.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::bench::{Bench, ensure, expect_class, same};
use super::{Case, CaseResult, case};
use crate::error::FailureClass;
use crate::files::{Entry, Files as _, RelPath, Tree};
use crate::local::LocalFiles;
use crate::transfer::plan::part_of;
use crate::transfer::{Progress, Transfer};

pub(super) const TEN_THOUSAND: &str = "ten thousand small files go over and come back";

pub(super) const CASES: &[Case] = &[
    case!(Copy, "a folder comes back as it was", round_trip),
    case!(
        Copy,
        "a folder is synchronised both ways as it is",
        sync_round_trip
    ),
    case!(Copy, TEN_THOUSAND, ten_thousand),
    case!(Copy, "what is the same is left alone", unchanged),
    case!(Copy, "only what changed is moved", only_changes),
    case!(
        Copy,
        "a change in the second of the last copy is copied",
        same_second
    ),
    case!(
        Copy,
        "what a copy that was cut has left is nobody's file",
        left_parts
    ),
    case!(
        Copy,
        "what is only in the target stays, unless deletion is asked for",
        delete
    ),
    case!(
        Copy,
        "a synchronisation deletes if it is told to",
        sync_delete
    ),
    case!(
        Copy,
        "a folder is not replaced by a file without leave",
        conflict
    ),
    case!(
        Copy,
        "a folder that is closed to writing is copied, twice",
        closed
    ),
    case!(Copy, "special files are named, not copied", special),
    case!(Copy, "progress ends where it should", progress),
];

fn io<T>(result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Names that lines, shells and texts trip over.
fn odd_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        "plain",
        "with space",
        " ",
        "-n",
        "--",
        "it's",
        "\"",
        "\\",
        "\n",
        "a\nb",
        "*",
        "~",
        "$x",
        "`id`",
        ".hidden",
        "...",
        "é",
        "日本",
        "a:b",
        "#",
        ";",
        "&",
    ]
    .map(|it| it.as_bytes().to_vec())
    .into();
    names.push(vec![b'x'; 255]);
    names.push(vec![0xff, 0xfe, b'z', 0x80]);
    names
}

pub(super) fn at(path: &Path, seconds: u64) -> Result<(), String> {
    let file = io(fs::File::open(path))?;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    io(file.set_modified(time))
}

fn mode(path: &Path, mode: u32) -> Result<(), String> {
    io(fs::set_permissions(path, fs::Permissions::from_mode(mode)))
}

/// A folder with everything that a folder can hold.
fn make_tree(root: &Path) -> Result<(), String> {
    io(fs::create_dir_all(root.join("deep/er/est")))?;
    io(fs::create_dir(root.join("empty")))?;
    for (index, name) in (1_000_000_000u64..).zip(odd_names()) {
        let path = root.join(OsStr::from_bytes(&name));
        io(fs::write(&path, &name))?;
        at(&path, index)?;
        let folder = root.join("deep/er").join(OsStr::from_bytes(&name));
        io(fs::create_dir(&folder))?;
        io(fs::write(folder.join("in"), b"x"))?;
    }
    for bits in [0o400, 0o600, 0o644, 0o755, 0o777] {
        let path = root.join(format!("mode-{bits:o}"));
        io(fs::write(&path, b"m"))?;
        mode(&path, bits)?;
    }
    io(fs::write(root.join("empty-file"), b""))?;
    io(fs::write(root.join("large"), vec![7; 700_000]))?;
    io(symlink("plain", root.join("link")))?;
    io(symlink("/nowhere/at all", root.join("dangling")))?;
    io(symlink("../../..", root.join("deep/up")))?;
    io(symlink(
        OsStr::from_bytes(b"odd\n'\xff"),
        root.join("odd-link"),
    ))?;
    mode(&root.join("deep/er"), 0o700)?;
    at(&root.join("empty"), 1_234_567_890)
}

/// What a folder here holds, without the times of links, which cannot be set everywhere.
async fn tree_of(root: &Path) -> Result<Vec<(RelPath, Entry)>, String> {
    let tree = LocalFiles::new(root).list().await;
    let tree: Tree = tree.map_err(|error| error.to_string())?.unwrap_or_default();
    let entries = tree.iter().map(|(path, entry)| {
        let mut entry = entry.clone();
        if matches!(entry.kind, crate::files::Kind::Link { .. }) {
            entry.mtime = 0;
        }
        (path.clone(), entry)
    });
    Ok(entries.collect())
}

async fn same_trees(one: &Path, other: &Path) -> CaseResult {
    let (one, other) = (tree_of(one).await?, tree_of(other).await?);
    for (is, wanted) in other.iter().zip(&one) {
        same("an entry", is, wanted)?;
    }
    same("how many entries", &other.len(), &one.len())
}

async fn round_trip(bench: &Bench<'_>) -> CaseResult {
    let (from, back) = (bench.here("from"), bench.here("back"));
    make_tree(&from)?;
    let there = bench.there("a/b/tree");
    let report = bench.copy(&Transfer::upload(&from, &there)).await?;
    same("what was skipped", &report.skipped, &Vec::new())?;
    bench.copy(&Transfer::download(&there, &back)).await?;
    same_trees(&from, &back).await?;
    for name in odd_names() {
        let read = io(fs::read(back.join(OsStr::from_bytes(&name))))?;
        same("what a file holds", &read, &name)?;
    }
    let root = io(fs::metadata(&back))?.mode() & 0o777;
    let wanted = io(fs::metadata(&from))?.mode() & 0o777;
    same("the folder's own mode", &root, &wanted)
}

async fn sync_round_trip(bench: &Bench<'_>) -> CaseResult {
    let (from, back) = (bench.here("from"), bench.here("back"));
    make_tree(&from)?;
    let there = bench.there("a/b/tree");
    bench.sync(&Transfer::upload(&from, &there)).await?;
    bench.sync(&Transfer::download(&there, &back)).await?;
    same_trees(&from, &back).await
}

async fn ten_thousand(bench: &Bench<'_>) -> CaseResult {
    let (from, back) = (bench.here("from"), bench.here("back"));
    for folder in 0..100 {
        let folder = from.join(format!("folder-{folder}"));
        io(fs::create_dir_all(&folder))?;
        for file in 0..100 {
            io(fs::write(
                folder.join(format!("file-{file}")),
                format!("content {file}"),
            ))?;
        }
    }
    let there = bench.there("many");
    let report = bench.copy(&Transfer::upload(&from, &there)).await?;
    same("how many went over", &report.files, &10_000)?;
    let report = bench.copy(&Transfer::download(&there, &back)).await?;
    same("how many came back", &report.files, &10_000)?;
    same_trees(&from, &back).await
}

async fn unchanged(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from");
    make_tree(&from)?;
    let upload = Transfer::upload(&from, bench.there("tree"));
    let first = bench.copy(&upload).await?;
    let again = bench.copy(&upload).await?;
    same(
        "what was copied again",
        &(again.files, again.bytes),
        &(0, 0),
    )?;
    same("what was the same", &again.unchanged, &first.files)
}

async fn only_changes(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from");
    io(fs::create_dir(&from))?;
    for index in 0..200 {
        io(fs::write(
            from.join(format!("f{index}")),
            vec![b'x'; 20_000],
        ))?;
    }
    let upload = Transfer::upload(&from, bench.there("tree"));
    bench.sync(&upload).await?;
    io(fs::write(from.join("f7"), b"other"))?;
    io(fs::write(from.join("new"), b"new"))?;
    let report = bench.sync(&upload).await?;
    // rsync lists both sides; a copy moves what files hold.
    ensure(report.bytes < 20_000, || {
        format!("{} bytes were moved", report.bytes)
    })?;
    same(
        "the new",
        &bench.script("cat tree/f7 tree/new").await?,
        &"othernew".to_owned(),
    )
}

async fn same_second(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from");
    io(fs::create_dir(&from))?;
    io(fs::write(from.join("f"), b"a"))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let second = now.map_err(|error| error.to_string())?.as_secs();
    at(&from.join("f"), second)?;
    let upload = Transfer::upload(&from, bench.there("tree"));
    bench.copy(&upload).await?;
    let changed = format!("cd tree && printf b >f && touch -d @{second} f");
    bench.script(&changed).await?;
    bench
        .copy(&Transfer::download(bench.there("tree"), &from))
        .await?;
    let came = io(fs::read(from.join("f")))?;
    same("what came back", &came, &b"b".to_vec())?;
    io(fs::write(from.join("f"), b"c"))?;
    at(&from.join("f"), second)?;
    bench.copy(&upload).await?;
    let there = bench.script("cat tree/f").await?;
    same("what went over", &there, &"c".to_owned())
}

async fn left_parts(bench: &Bench<'_>) -> CaseResult {
    let (from, back) = (bench.here("from"), bench.here("back"));
    io(fs::create_dir_all(from.join("deep")))?;
    for name in ["large", "deep/large"] {
        io(fs::write(from.join(name), vec![7; 700_000]))?;
    }
    let upload = Transfer::upload(&from, bench.there("tree"));
    bench.copy(&upload).await?;
    let path = RelPath::new("large").map_err(|error| error.to_string())?;
    let part = part_of(&path);
    // A part comes and goes in its folder, whose times are compared, too.
    let leave = format!(
        "touch -r tree top && touch -r tree/deep deep && echo x >'tree/{part}' && cp 'tree/{part}' tree/deep/ \
         && touch -r deep tree/deep && touch -r top tree"
    );
    bench.script(&leave).await?;
    for sync in [false, true] {
        let download = Transfer::download(bench.there("tree"), &back);
        match sync {
            true => bench.sync(&download).await?,
            false => bench.copy(&download).await?,
        };
        same_trees(&from, &back).await?;
    }
    let report = bench.copy(&upload).await?;
    same("what was removed", &report.removed, &0)?;
    let left = bench.script("find tree -name '.muster*'").await?;
    same("what is left", &left, &String::new())
}

async fn delete(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from");
    io(fs::create_dir(&from))?;
    io(fs::write(from.join("kept"), b"1"))?;
    bench
        .script("mkdir -p tree/gone/deep; touch tree/gone/deep/x tree/y; ln -s / tree/gone/root")
        .await?;
    let mut upload = Transfer::upload(&from, bench.there("tree"));
    bench.copy(&upload).await?;
    let list = "cd tree && find . | sort | tr '\\n' ' '";
    let all = "./ ./gone ./gone/deep ./gone/deep/x ./gone/root ./kept ./y".replace("./ ", ". ");
    same("before", &bench.script(list).await?, &all)?;
    upload.delete = true;
    let report = bench.copy(&upload).await?;
    same("what was removed", &report.removed, &5)?;
    same("after", &bench.script(list).await?, &". ./kept".to_owned())
}

async fn sync_delete(bench: &Bench<'_>) -> CaseResult {
    let to = bench.here("to");
    io(fs::create_dir_all(to.join("gone/deep")))?;
    bench.script("mkdir tree; echo 1 >tree/kept").await?;
    let mut download = Transfer::download(bench.there("tree"), &to);
    bench.sync(&download).await?;
    ensure(to.join("gone/deep").exists(), || {
        "it was removed".to_owned()
    })?;
    download.delete = true;
    bench.sync(&download).await?;
    ensure(!to.join("gone").exists(), || "it is still there".to_owned())?;
    same(
        "the file",
        &io(fs::read(to.join("kept")))?,
        &b"1\n".to_vec(),
    )
}

async fn conflict(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from");
    io(fs::create_dir(&from))?;
    io(fs::write(from.join("x"), b"file"))?;
    bench
        .script("mkdir -p tree/x/full; touch tree/x/full/y")
        .await?;
    let mut upload = Transfer::upload(&from, bench.there("tree"));
    expect_class(bench.executor.copy(&upload).await, FailureClass::Refused)?;
    same(
        "it is there",
        &bench.script("ls tree/x/full").await?,
        &"y".to_owned(),
    )?;
    upload.delete = true;
    bench.copy(&upload).await?;
    same(
        "it is the file",
        &bench.script("cat tree/x").await?,
        &"file".to_owned(),
    )
}

async fn closed(bench: &Bench<'_>) -> CaseResult {
    let (from, back) = (bench.here("from"), bench.here("back"));
    let folder = from.join("closed");
    io(fs::create_dir_all(&folder))?;
    io(fs::write(folder.join("one"), b"1"))?;
    mode(&folder, 0o555)?;
    let there = bench.there("tree");
    bench.copy(&Transfer::upload(&from, &there)).await?;
    mode(&folder, 0o755)?;
    io(fs::write(folder.join("two"), b"2"))?;
    mode(&folder, 0o555)?;
    bench.copy(&Transfer::upload(&from, &there)).await?;
    bench.copy(&Transfer::download(&there, &back)).await?;
    let compared = same_trees(&from, &back).await;
    // So that the folders can be removed.
    for root in [&from, &back] {
        mode(&root.join("closed"), 0o755)?;
    }
    compared
}

async fn special(bench: &Bench<'_>) -> CaseResult {
    bench
        .script("mkdir tree; mkfifo tree/pipe; echo x >tree/file")
        .await?;
    let to = bench.here("to");
    let report = bench
        .copy(&Transfer::download(bench.there("tree"), &to))
        .await?;
    let pipe = RelPath::new("pipe").map_err(|error| error.to_string())?;
    same("what was skipped", &report.skipped, &vec![pipe])?;
    ensure(!to.join("pipe").exists(), || "it was copied".to_owned())?;
    same(
        "the file",
        &io(fs::read(to.join("file")))?,
        &b"x\n".to_vec(),
    )
}

async fn progress(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from");
    io(fs::create_dir(&from))?;
    io(fs::write(from.join("small"), b"123"))?;
    io(fs::write(from.join("large"), vec![1; 1_000_000]))?;
    let (sender, mut seen) = watch::channel(Progress::default());
    let mut upload = Transfer::upload(&from, bench.there("tree"));
    upload.progress = Some(sender);
    bench.copy(&upload).await?;
    let wanted = Progress {
        files: 2,
        files_done: 2,
        bytes: 1_000_003,
        bytes_done: 1_000_003,
        current: None,
    };
    let last = seen.borrow_and_update().clone();
    same("the last", &last, &wanted)
}
