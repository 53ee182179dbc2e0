//! Getting one blob: places in turn, from where the last one broke off, until all of it has come.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use muster_api::domain::Digest;
use tokio::sync::mpsc;

use crate::source::{BlobPlace, BlobSource, BoxError, OpenBlobError};

/// The largest piece that is handed on.
const PIECE: usize = 64 << 10;
/// Pieces that wait for the disk before the network does.
pub(crate) const QUEUE: usize = 8;
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Why a blob did not come.
#[derive(Debug, thiserror::Error)]
pub enum FetchBlobError {
    /// No place gave anything in any of the tries. The cause is the last one.
    #[error("no place gave anything in {tries} tries")]
    GivenUp {
        /// How many tries.
        tries: u32,
        /// What came of the last one.
        #[source]
        source: BoxError,
    },
    /// There is no place that has it.
    #[error("no place is known for it")]
    NoPlaces,
    /// It is a document, and larger than documents may be.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// Everything came, and is something else, from every place.
    #[error("what came has digest {found} and {bytes} bytes (last from {places:?})")]
    WrongContent {
        /// The digest of what came.
        found: Box<Digest>,
        /// How much came.
        bytes: u64,
        /// Where it came from.
        places: BTreeSet<String>,
    },
}

/// A part of a blob on its way to the disk.
#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Bytes),
    /// All of it has come.
    End,
}

/// What is wanted, and how hard to try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) digest: Digest,
    /// What its descriptor says, if there is one.
    pub(crate) size: Option<u64>,
    /// The most that is taken when there is none.
    pub(crate) limit: u64,
    pub(crate) tries: u32,
    pub(crate) delay: Duration,
    /// Sources may keep documents apart from other blobs.
    pub(crate) is_document: bool,
}

/// How a place did.
enum Turn {
    /// The blob is complete.
    Complete,
    /// It broke off, or gave nothing.
    Broken(BoxError),
    /// It is no longer valid.
    Stale(BoxError),
    /// Nobody takes the bytes any more.
    Unwanted,
}

/// Sends a blob's bytes from position `from` on, and then [`Piece::End`]. Places in `suspects` come last, and so do those that
/// were no longer valid when they were asked. Returns where bytes came from; ends early, without an error, when nobody takes them.
pub(crate) async fn fetch(
    source: &dyn BlobSource,
    wanted: &Wanted,
    from: u64,
    suspects: &BTreeSet<String>,
    out: mpsc::Sender<Piece>,
) -> Result<BTreeSet<String>, FetchBlobError> {
    let mut transfer = Transfer {
        wanted,
        position: from,
        used: BTreeSet::new(),
        stale: BTreeSet::new(),
        out,
    };
    let mut fruitless = 0;
    loop {
        let before = transfer.position;
        let broken = match transfer.round(source, suspects).await? {
            Turn::Complete => {
                // Nobody there to hear it: the taker failed, and says why itself.
                let _ = transfer.out.send(Piece::End).await;
                return Ok(transfer.used);
            }
            Turn::Unwanted => return Ok(transfer.used),
            Turn::Broken(broken) | Turn::Stale(broken) => broken,
        };
        fruitless = match transfer.position > before {
            true => 0,
            false => fruitless + 1,
        };
        tracing::debug!(digest = %wanted.digest, position = transfer.position, fruitless, error = %broken, "download broke off");
        if fruitless >= wanted.tries {
            return Err(FetchBlobError::GivenUp {
                tries: fruitless,
                source: broken,
            });
        }
        if fruitless > 0 {
            let delay = wanted.delay.saturating_mul(1 << (fruitless - 1).min(16));
            tokio::time::sleep(delay.min(LONGEST_DELAY)).await;
        }
    }
}

struct Transfer<'w> {
    wanted: &'w Wanted,
    position: u64,
    used: BTreeSet<String>,
    /// Places that were no longer valid, in whichever round.
    stale: BTreeSet<String>,
    out: mpsc::Sender<Piece>,
}

impl Transfer<'_> {
    fn is_complete(&self) -> bool {
        self.wanted.size.is_some_and(|size| self.position >= size)
    }

    /// Asks for places, and tries each once.
    async fn round(
        &mut self,
        source: &dyn BlobSource,
        suspects: &BTreeSet<String>,
    ) -> Result<Turn, FetchBlobError> {
        if self.is_complete() {
            return Ok(Turn::Complete);
        }
        let places = match self.wanted.is_document {
            true => source.places(self.wanted.digest),
            false => source.content_places(self.wanted.digest),
        };
        let mut places = match places.await {
            Ok(places) if places.is_empty() => return Err(FetchBlobError::NoPlaces),
            Ok(places) => places,
            Err(error) => return Ok(Turn::Broken(error)),
        };
        // Stable, so that the order of the source stays otherwise.
        places.sort_by_key(|place| {
            let name = place.name();
            (suspects.contains(name), self.stale.contains(name))
        });
        let mut last = Turn::Broken("no place was tried".into());
        for place in &places {
            last = self.turn(place.as_ref()).await?;
            match last {
                Turn::Broken(_) => {}
                // New ones are asked for in the next round; the others of this one may be good.
                Turn::Stale(_) => {
                    self.stale.insert(place.name().to_owned());
                }
                Turn::Complete | Turn::Unwanted => return Ok(last),
            }
        }
        Ok(last)
    }

    /// Takes what one place gives.
    async fn turn(&mut self, place: &dyn BlobPlace) -> Result<Turn, FetchBlobError> {
        let mut stream = match place.open(self.position).await {
            Ok(stream) => stream,
            Err(error @ OpenBlobError::Stale { .. }) => return Ok(Turn::Stale(error.into())),
            Err(error) => return Ok(Turn::Broken(error.into())),
        };
        // A place that cannot start in the middle gives again what is there.
        let mut known = self.position.saturating_sub(stream.from);
        while let Some(piece) = stream.bytes.next().await {
            let mut piece = match piece {
                Ok(piece) => piece,
                Err(error) => return Ok(Turn::Broken(broken(place, error))),
            };
            let skipped =
                usize::try_from(known).map_or(piece.len(), |known| known.min(piece.len()));
            let _ = piece.split_to(skipped);
            known -= skipped as u64;
            if !self.hand_on(place, piece).await? {
                return Ok(Turn::Unwanted);
            }
            if self.is_complete() {
                return Ok(Turn::Complete);
            }
        }
        match self.wanted.size {
            None => Ok(Turn::Complete),
            Some(_) => Ok(Turn::Broken(broken(
                place,
                io::ErrorKind::UnexpectedEof.into(),
            ))),
        }
    }

    /// Hands on what is wanted of a piece. `false` if nobody takes it.
    async fn hand_on(
        &mut self,
        place: &dyn BlobPlace,
        mut piece: Bytes,
    ) -> Result<bool, FetchBlobError> {
        let all = self.wanted.size.unwrap_or(self.wanted.limit);
        let room = all.saturating_sub(self.position);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if piece.len() > room {
            if self.wanted.size.is_none() {
                let limit = self.wanted.limit;
                return Err(FetchBlobError::TooLarge { limit });
            }
            piece.truncate(room);
        }
        if !piece.is_empty() && !self.used.contains(place.name()) {
            self.used.insert(place.name().to_owned());
        }
        while !piece.is_empty() {
            let part = piece.split_to(piece.len().min(PIECE));
            self.position += part.len() as u64;
            if self.out.send(Piece::Bytes(part)).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn broken(place: &dyn BlobPlace, source: io::Error) -> BoxError {
    OpenBlobError::Failed {
        place: place.name().to_owned(),
        source: source.into(),
    }
    .into()
}

#[cfg(test)]
mod tests;
