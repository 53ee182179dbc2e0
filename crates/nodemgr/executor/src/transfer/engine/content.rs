//! Moves what files hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};

use super::{ExecutorError, FailureClass, Job, Meter, Moved, Operation, Planned, RelPath, part_of};
use crate::files::{Change, Digest, Entry, Kind, SmallFile};
use crate::transfer::patience::Patience;

/// How often a file that arrived as something else is copied again.
const REPAIRS: u32 = 2;

/// The longest file that goes in a batch: one that has grown since it was listed may be longer than those that were chosen.
const MOST: usize = 1024 * 1024;

/// A file is not as long as it was listed.
fn changed(source: &RelPath, came: &str) -> ExecutorError {
    let (object, class) = (source.to_string(), FailureClass::Io);
    let why = format!("it changed while it was copied: {came}; copy it again when it is at rest");
    ExecutorError::new(Operation::Copy, object, class, why)
}

impl Job<'_> {
    /// Copies small files as one, and answers how many bytes that were.
    pub(super) async fn copy_batch(&self, batch: &[Planned]) -> Result<u64, ExecutorError> {
        let paths: Vec<RelPath> = batch.iter().map(|it| self.source_of(&it.path)).collect();
        let contents = self.source.read_small(&paths, MOST).await?;
        let files: Vec<SmallFile> = batch
            .iter()
            .zip(contents)
            .map(|(planned, content)| SmallFile {
                path: planned.path.clone(),
                mode: planned.mode,
                mtime: planned.mtime,
                content,
            })
            .collect();
        let mut left: Vec<SmallFile> = files.clone();
        for _ in 0..=REPAIRS {
            self.target.write_small(&left).await?;
            if self.transfer.checksum {
                left = self.arrived_wrong(left).await?;
            } else {
                left.clear();
            }
            if left.is_empty() {
                return Ok(files.iter().map(|file| file.content.len() as u64).sum());
            }
        }
        Err(self.wrong(&left[0].path))
    }

    /// Those of some small files that the target does not hold as they were sent.
    async fn arrived_wrong(&self, sent: Vec<SmallFile>) -> Result<Vec<SmallFile>, ExecutorError> {
        let wanted: Vec<(RelPath, u64)> = sent
            .iter()
            .map(|file| (file.path.clone(), file.content.len() as u64))
            .collect();
        let there = self.target.digests(&wanted).await?;
        let pairs = sent.into_iter().zip(there);
        let wrong = pairs.filter(|(file, there)| {
            let digest: Digest = Sha256::digest(&file.content).into();
            *there != Some(digest)
        });
        Ok(wrong.map(|(file, _)| file).collect())
    }

    fn wrong(&self, path: &RelPath) -> ExecutorError {
        let why = "what arrived is not what was sent, however often";
        ExecutorError::new(Operation::Write, path.to_string(), FailureClass::Io, why)
    }

    /// Copies a large file: beside its place, from where an earlier copy was cut, and into its place when it is whole.
    pub(super) async fn copy_large(
        &self,
        planned: &Planned,
        meter: &Meter,
    ) -> Result<Moved, ExecutorError> {
        let mut patience = Patience::new(self.transfer.patience);
        // The most that was seen to be there. What was read of the source, or is on its way, may never get there.
        let mut landed: Option<u64> = None;
        let mut repairs = 0;
        let mut moved = Moved::default();
        let before = meter.bytes_done();
        meter.begin(&planned.path);
        loop {
            let sent = Arc::new(AtomicU64::new(0));
            let at = |offset| {
                if landed.is_some_and(|it| it < offset) {
                    patience.renew();
                }
                landed = landed.max(Some(offset));
                meter.set_bytes(before + offset);
            };
            let attempt = self.attempt(planned, meter, at, &sent, &mut moved).await;
            let sent = sent.load(Ordering::Relaxed);
            moved.bytes += sent;
            match attempt {
                Ok(true) => {
                    meter.finish_one();
                    return Ok(moved);
                }
                Ok(false) if repairs < REPAIRS => {
                    repairs += 1;
                    landed = None;
                }
                Ok(false) => return Err(self.wrong(&planned.path)),
                Err(error) if sent > 0 => patience.endure_unseen(error).await?,
                Err(error) => patience.endure(error).await?,
            }
        }
    }

    /// One attempt; answers whether what arrived is what was sent.
    async fn attempt(
        &self,
        planned: &Planned,
        meter: &Meter,
        at: impl FnOnce(u64),
        sent: &Arc<AtomicU64>,
        moved: &mut Moved,
    ) -> Result<bool, ExecutorError> {
        let source = self.source_of(&planned.path);
        let part = part_of(&planned.path);
        let offset = self.resumable(&source, &part, planned.size).await?;
        at(offset);
        if moved.bytes == 0 {
            moved.resumed = offset;
        }
        let content = self.source.read(&source, offset).await?;
        let counted = {
            let (sent, meter) = (Arc::clone(sent), meter.clone());
            let (source, room) = (source.clone(), planned.size - offset);
            content.map(move |piece| {
                let piece = piece?;
                let length = piece.len() as u64;
                let so_far = sent.load(Ordering::Relaxed) + length;
                // Whoever lists a small file and then gives no end of it must not fill the disk here.
                if so_far > room {
                    let came = format!("more than {} bytes came", room + offset);
                    return Err(changed(&source, &came));
                }
                sent.store(so_far, Ordering::Relaxed);
                meter.add_bytes(length);
                Ok(piece)
            })
        };
        self.target.write(&part, offset, counted.boxed()).await?;
        let length = offset + sent.load(Ordering::Relaxed);
        if length != planned.size {
            let came = format!("{length} bytes came, not {}", planned.size);
            return Err(changed(&source, &came));
        }
        if self.transfer.checksum {
            let here = self.source.digests(&[(source, length)]).await?;
            let there = self.target.digests(&[(part.clone(), length)]).await?;
            if here != there || here == [None] {
                let path = part;
                let folder = false;
                self.target
                    .change(&[Change::Remove { path, folder }])
                    .await?;
                return Ok(false);
            }
        }
        let changes = [
            Change::Settle {
                path: part.clone(),
                mode: planned.mode,
                mtime: planned.mtime,
            },
            Change::Rename {
                from: part,
                to: planned.path.clone(),
            },
        ];
        self.target.change(&changes).await?;
        Ok(true)
    }

    /// How much of a file is there already, from a copy that was cut.
    async fn resumable(
        &self,
        source: &RelPath,
        part: &RelPath,
        size: u64,
    ) -> Result<u64, ExecutorError> {
        let have = match self.target.look(part).await? {
            Some(Entry {
                kind: Kind::File { size: have },
                ..
            }) if (1..=size).contains(&have) => have,
            Some(Entry {
                kind: Kind::File { .. },
                ..
            })
            | None => return Ok(0),
            // Nothing that we made.
            Some(_) => {
                let (object, why) = (part.to_string(), "something else has its name");
                let class = FailureClass::Refused;
                return Err(ExecutorError::new(Operation::Write, object, class, why));
            }
        };
        let there = self.target.digests(&[(part.clone(), have)]).await?;
        let here = self.source.digests(&[(source.clone(), have)]).await?;
        Ok(if here == there && here != [None] {
            have
        } else {
            0
        })
    }
}

#[cfg(test)]
mod tests;
