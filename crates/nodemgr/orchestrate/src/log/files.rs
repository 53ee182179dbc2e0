//! The files of one run's log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{LogPage, LogRecord};

/// Appends to a log.
#[derive(Debug)]
pub(super) struct LogFiles {
    folder: PathBuf,
    /// How large a file grows.
    file_bytes: u64,
    /// How many there may be.
    most: usize,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    file: File,
    start: u64,
    length: u64,
}

fn name(start: u64) -> String {
    format!("log-{start:020}.jsonl")
}

/// The files that there are, by where they start.
fn starts(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut starts = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let start: Option<u64> = name.to_str().and_then(|name| {
            let digits = name.strip_prefix("log-")?.strip_suffix(".jsonl")?;
            digits.parse().ok()
        });
        starts.extend(start);
    }
    starts.sort_unstable();
    Ok(starts)
}

impl LogFiles {
    pub(super) const fn new(folder: PathBuf, file_bytes: u64, most: usize) -> Self {
        Self {
            folder,
            file_bytes,
            most,
            current: None,
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends whole lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.open()?,
        };
        if current.length >= self.file_bytes {
            current = self.begin(current.start.saturating_add(current.length))?;
        }
        // After a failure the file is opened again, and what was written in part is cut off.
        current.file.write_all(lines)?;
        current.length += u64::try_from(lines.len()).unwrap_or(u64::MAX);
        self.current = Some(current);
        Ok(())
    }

    /// Goes on with the newest file.
    fn open(&self) -> io::Result<Current> {
        muster_durable::make_folder(&self.folder)?;
        let Some(&start) = starts(&self.folder)?.last() else {
            return self.begin(0);
        };
        let file = open(&self.folder.join(name(start)))?;
        let length = whole_lines(&file)?;
        file.set_len(length)?;
        Ok(Current {
            file,
            start,
            length,
        })
    }

    /// Begins a file, and removes the oldest ones.
    fn begin(&self, start: u64) -> io::Result<Current> {
        let file = open(&self.folder.join(name(start)))?;
        let starts = starts(&self.folder)?;
        let surplus = starts.len().saturating_sub(self.most.max(1));
        for &old in &starts[..surplus] {
            fs::remove_file(self.folder.join(name(old)))?;
        }
        Ok(Current {
            file,
            start,
            length: 0,
        })
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true).mode(0o600);
    options.open(path)
}

/// How long a file is without what comes after its last line's end: a writer died there.
fn whole_lines(mut file: &File) -> io::Result<u64> {
    const PIECE: u64 = 64 * 1024;
    let mut end = file.metadata()?.len();
    let mut piece = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        file.seek(SeekFrom::Start(start))?;
        piece.clear();
        file.take(end - start).read_to_end(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + u64::try_from(at).unwrap_or_default() + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Reads whole lines from a position on, until so many bytes are read.
pub(crate) fn read(folder: &Path, from: u64, most: usize) -> io::Result<LogPage> {
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    let starts = starts(folder)?;
    let newest_before = starts.partition_point(|&start| start <= from);
    let first = newest_before.saturating_sub(1);
    let mut page = LogPage {
        next: from,
        ..LogPage::default()
    };
    let mut taken = 0;
    for &start in starts.get(first..).unwrap_or_default() {
        let mut file = match File::open(folder.join(name(start))) {
            // It was removed meanwhile: what was in it is lost.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        if start > page.next {
            if !page.records.is_empty() {
                // What is missing is told before what comes after it.
                page.more = true;
                return Ok(page);
            }
            page.lost += start - page.next;
            page.next = start;
        }
        let inside = page.next - start;
        if inside > file.metadata()?.len() {
            continue;
        }
        file.seek(SeekFrom::Start(inside))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line)?;
            if length == 0 || line.last() != Some(&b'\n') {
                break;
            }
            if taken >= most {
                page.more = true;
                return Ok(page);
            }
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            taken += length;
            page.next += length;
            // A position inside a line, or a line of a newer version, is passed over.
            let record: Option<LogRecord> = serde_json::from_slice(&line).ok();
            page.records.extend(record.map(|record| LogRecord {
                next: page.next,
                ..record
            }));
        }
    }
    Ok(page)
}
