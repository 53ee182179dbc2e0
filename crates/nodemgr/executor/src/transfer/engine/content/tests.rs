use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;

use crate::error::{ExecutorError, FailureClass, Operation};
use crate::executor::Answer;
use crate::files::{Change, Content, Digest, Entry, Files, RelPath, SmallFile, Tree};
use crate::local::LocalFiles;
use crate::transfer::Transfer;
use crate::transfer::engine::copy;

const LENGTH: usize = 4_000_000;

/// A machine whose connection is lost in every write, long after it has begun.
#[derive(Debug)]
struct Cut {
    files: LocalFiles,
    /// How many bytes get there before.
    lands: usize,
    /// How often that was tried.
    writes: Arc<AtomicU32>,
}

/// Longer than anybody is patient.
const LONG: Duration = Duration::from_secs(120);

fn lost() -> ExecutorError {
    let class = FailureClass::Interrupted;
    ExecutorError::new(Operation::Write, "a file", class, "it was cut")
}

impl Files for Cut {
    fn list(&self) -> Answer<'_, Option<Tree>> {
        self.files.list()
    }

    fn look<'a>(&'a self, path: &'a RelPath) -> Answer<'a, Option<Entry>> {
        self.files.look(path)
    }

    fn read<'a>(&'a self, path: &'a RelPath, offset: u64) -> Answer<'a, Content> {
        self.files.read(path, offset)
    }

    fn write<'a>(&'a self, path: &'a RelPath, offset: u64, mut content: Content) -> Answer<'a, ()> {
        Box::pin(async move {
            self.writes.fetch_add(1, Ordering::SeqCst);
            let mut came = Vec::new();
            while let Some(piece) = content.next().await {
                came.extend_from_slice(&piece?);
            }
            let whole = came.len() <= self.lands;
            came.truncate(self.lands);
            let came = futures_util::stream::iter([Ok(Bytes::from(came))]);
            self.files.write(path, offset, came.boxed()).await?;
            tokio::time::sleep(LONG).await;
            if whole { Ok(()) } else { Err(lost()) }
        })
    }

    fn change<'a>(&'a self, changes: &'a [Change]) -> Answer<'a, ()> {
        self.files.change(changes)
    }

    fn digests<'a>(&'a self, files: &'a [(RelPath, u64)]) -> Answer<'a, Vec<Option<Digest>>> {
        self.files.digests(files)
    }

    fn write_small<'a>(&'a self, files: &'a [SmallFile]) -> Answer<'a, ()> {
        self.files.write_small(files)
    }

    fn read_small<'a>(&'a self, paths: &'a [RelPath], limit: usize) -> Answer<'a, Vec<Bytes>> {
        self.files.read_small(paths, limit)
    }
}

/// Copies a large file to such a machine, and tells how often it was begun.
async fn copied(lands: usize) -> (Result<Vec<u8>, ExecutorError>, Vec<u8>, u32) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let content: Vec<u8> = (0..=250).cycle().take(LENGTH).collect();
    std::fs::write(&from, &content).unwrap();
    let writes = Arc::new(AtomicU32::new(0));
    let far = |path: &Path| -> Answer<'_, Arc<dyn Files>> {
        let cut = Cut {
            files: LocalFiles::new(path),
            lands,
            writes: Arc::clone(&writes),
        };
        Box::pin(std::future::ready(Ok(Arc::new(cut) as Arc<dyn Files>)))
    };
    let transfer = Transfer::upload(&from, &to);
    // Whoever tries for ever is found out: this takes days.
    let copy = tokio::time::timeout(Duration::from_secs(7 * 86_400), copy(&transfer, far));
    let copied = copy.await.expect("it comes to an end");
    let there = copied.map(|_| std::fs::read(&to).unwrap());
    (there, content, writes.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_large_file_of_which_nothing_ever_arrives_is_given_up() {
    let (copied, _, writes) = copied(0).await;
    let error = copied.unwrap_err();
    assert_eq!(error.class, FailureClass::Interrupted, "{error}");
    assert!(writes < 10, "it was tried {writes} times");
}

#[tokio::test(start_paused = true)]
async fn a_large_file_of_which_more_arrives_each_time_is_never_given_up() {
    let (copied, content, writes) = copied(LENGTH / 20).await;
    assert!(copied.unwrap() == content);
    assert_eq!(writes, 20);
}
