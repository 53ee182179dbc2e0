//! What folders held when they were brought to machines, kept beside a run's log: what comes back is compared with it, also by a
//! manager that took the run over.
//!
//! A file of JSON lines, one for each file or folder of either side. It is there whole or not at all.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use muster_executor::back::{Look, Uploaded};
use muster_executor::files::{Digest, Entry, Kind, RelPath};
use serde::{Deserialize, Serialize};

use crate::job::Slot;

/// The most that is kept of one folder, in bytes: more than a million files of usual names.
const MOST: u64 = 256 << 20;

/// Why it cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadedError {
    #[error(
        "there is too much in the folder to remember ({} MiB of names): bring a smaller one, or none back",
        MOST >> 20
    )]
    TooMuch,
    #[error("cannot write down what was brought to the machine, at {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    #[error("cannot read what was brought to the machine, at {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("line {line} of {} says nothing about a file", path.display())]
    Line { path: PathBuf, line: usize },
}

/// The file about a folder of a machine; folders of a workflow are numbered.
pub(crate) fn path(run_folder: &Path, number: usize, slot: &Slot) -> PathBuf {
    let (group, index) = (slot.group(), slot.index());
    run_folder.join(format!("uploaded.{number}.{group}.{index}.jsonl"))
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    /// Whether it is about the folder in the machine.
    there: bool,
    path: String,
    kind: LineKind,
    mode: u32,
    mtime: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum LineKind {
    Folder,
    File(u64),
    Link(String),
    Special,
}

/// Names are bytes, and texts are not: each byte is a character.
fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let bytes = text.chars().map(|it| u8::try_from(u32::from(it)).ok());
    bytes.collect()
}

fn line(there: bool, path: &RelPath, entry: &Entry, digest: Option<&Digest>) -> Line {
    Line {
        there,
        path: text_of(path.as_bytes()),
        kind: match &entry.kind {
            Kind::Folder => LineKind::Folder,
            Kind::File { size } => LineKind::File(*size),
            Kind::Link { target } => LineKind::Link(text_of(target)),
            Kind::Special => LineKind::Special,
        },
        mode: entry.mode,
        mtime: entry.mtime,
        digest: digest.copied(),
    }
}

/// Takes a line in; nothing if it says nothing.
fn take(line: &[u8], uploaded: &mut Uploaded) -> Option<()> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let path = RelPath::new(bytes_of(&line.path)?).ok()?;
    let entry = Entry {
        kind: match line.kind {
            LineKind::Folder => Kind::Folder,
            LineKind::File(size) => Kind::File { size },
            LineKind::Link(target) => Kind::Link {
                target: bytes_of(&target)?,
            },
            LineKind::Special => Kind::Special,
        },
        mode: line.mode,
        mtime: line.mtime,
    };
    let look = match line.there {
        true => &mut uploaded.there,
        false => &mut uploaded.here,
    };
    if let Some(digest) = line.digest {
        look.digests.insert(path.clone(), digest);
    }
    look.tree.add(path, entry).ok()
}

/// Keeps it, in place of what was kept before.
pub(crate) fn write(path: &Path, uploaded: &Uploaded) -> Result<(), UploadedError> {
    let mut text = Vec::new();
    let mut put = |there: bool, look: &Look| {
        for (path, entry) in look.tree.iter() {
            let line = line(there, path, entry, look.digests.get(path));
            serde_json::to_writer(&mut text, &line).expect("texts and numbers can be written");
            text.push(b'\n');
            if text.len() as u64 > MOST {
                return Err(UploadedError::TooMuch);
            }
        }
        Ok(())
    };
    put(false, &uploaded.here)?;
    put(true, &uploaded.there)?;
    let made = path.parent().map_or(Ok(()), muster_durable::make_folder);
    let written = made.and_then(|()| muster_durable::write(path, &text, 0o600));
    written.map_err(|source| UploadedError::Write(path.to_owned(), source))
}

/// What was kept; nothing if nothing was.
pub(crate) fn read(path: &Path) -> Result<Option<Uploaded>, UploadedError> {
    let failed = |source| UploadedError::Read(path.to_owned(), source);
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let mut uploaded = Uploaded::default();
    let lines = BufReader::new(file.take(MOST)).split(b'\n');
    for (nth, text) in lines.enumerate() {
        let text = text.map_err(failed)?;
        if take(&text, &mut uploaded).is_none() {
            let (path, line) = (path.to_owned(), nth + 1);
            return Err(UploadedError::Line { path, line });
        }
    }
    Ok(Some(uploaded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Kind) -> Entry {
        Entry {
            kind,
            mode: 0o640,
            mtime: -7,
        }
    }

    #[test]
    fn what_is_kept_reads_back_whatever_files_are_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = path(&folder.path().join("r-1"), 3, &Slot::new("machine", 0));
        assert!(read(&path).expect("it can be read").is_none());
        let mut uploaded = Uploaded::default();
        let names: [&[u8]; 4] = [b"a", b"a/\n\"x\\", b"a/\xff\xc3\xa4", "ä".as_bytes()];
        let kinds = [
            Kind::Folder,
            Kind::File { size: u64::MAX },
            Kind::Link {
                target: b"../\xfe".to_vec(),
            },
            Kind::Special,
        ];
        for (name, kind) in names.into_iter().zip(kinds) {
            let name = RelPath::new(name).expect("a name");
            let added = uploaded.here.tree.add(name.clone(), entry(kind.clone()));
            added.expect("there is room");
            uploaded.there.tree.add(name, entry(kind)).expect("room");
        }
        let racy = RelPath::new(names[1]).expect("a name");
        uploaded.there.digests.insert(racy, [0xab; 32]);
        write(&path, &uploaded).expect("it is kept");
        assert_eq!(read(&path).expect("it is read"), Some(uploaded));
    }

    #[test]
    fn what_was_damaged_is_told_by_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("uploaded");
        let text = r#"{"there":true,"path":"../a","kind":"folder","mode":1,"mtime":1}"#;
        std::fs::write(&path, text).expect("it is written");
        let error = read(&path).expect_err("it leads away");
        assert!(matches!(error, UploadedError::Line { line: 1, .. }));
    }
}
