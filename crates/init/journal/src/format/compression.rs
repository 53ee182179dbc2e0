use std::io::Read;

use super::DATA_SIZE_MAX;

/// In so many bytes of a frame zstd tells how long its content is.
pub(crate) const ZSTD_HEADER_MAX: usize = 18;

/// How a data object's payload is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Xz,
    Lz4,
    Zstd,
}

impl Compression {
    /// Reads the object's flags; more than one algorithm, or an unknown one, is none at all.
    pub(crate) fn from_flags(flags: u8) -> Option<Self> {
        match flags {
            0 => Some(Self::None),
            1 => Some(Self::Xz),
            2 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    pub(crate) fn flags(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Xz => 1,
            Self::Lz4 => 2,
            Self::Zstd => 4,
        }
    }
}

/// Why a payload could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// Files of that age were written before 2015.
    #[error("payload is compressed with xz, which is not supported")]
    Xz,
    /// The compressed bytes claim to become larger than any value may be.
    #[error("payload would unpack to {size} bytes, the limit is {DATA_SIZE_MAX}")]
    TooLarge {
        /// The size that the payload claims.
        size: u64,
    },
    /// The compressed bytes are not what the algorithm writes.
    #[error("compressed payload is damaged")]
    Damaged,
}

/// Unpacks a stored payload, at most [`DATA_SIZE_MAX`] bytes of it.
pub(crate) fn decompress(how: Compression, stored: &[u8]) -> Result<Vec<u8>, DecompressError> {
    match how {
        Compression::None => Ok(stored.to_vec()),
        Compression::Xz => Err(DecompressError::Xz),
        Compression::Lz4 => {
            // systemd puts the unpacked size before the block.
            let (size, block) = stored
                .split_first_chunk::<8>()
                .ok_or(DecompressError::Damaged)?;
            let size = bounded(u64::from_le_bytes(*size), block.len(), 255)?;
            let unpacked =
                lz4_flex::block::decompress(block, size).map_err(|_| DecompressError::Damaged)?;
            if unpacked.len() == size {
                Ok(unpacked)
            } else {
                Err(DecompressError::Damaged)
            }
        }
        Compression::Zstd => {
            let size = zstd_length(stored)?;
            // A run of one byte packs very well: the only bound on the ratio is the block size.
            let size = bounded(size, stored.len(), 128 << 10)?;
            zstd::bulk::decompress(stored, size).map_err(|_| DecompressError::Damaged)
        }
    }
}

/// How long the content of a zstd frame is, by its first bytes.
pub(crate) fn zstd_length(head: &[u8]) -> Result<u64, DecompressError> {
    let size = zstd::zstd_safe::get_frame_content_size(head)
        .ok()
        .flatten()
        .ok_or(DecompressError::Damaged)?;
    if size > DATA_SIZE_MAX {
        return Err(DecompressError::TooLarge { size });
    }
    Ok(size)
}

/// The first `max` bytes of what a zstd frame holds. Memory is used for these, not for all.
pub(crate) fn unzstd_start(stored: impl Read, max: usize) -> Result<Vec<u8>, DecompressError> {
    let mut decoder =
        zstd::stream::read::Decoder::new(stored).map_err(|_| DecompressError::Damaged)?;
    let mut bytes = vec![0; max];
    decoder
        .read_exact(&mut bytes)
        .map_err(|_| DecompressError::Damaged)?;
    Ok(bytes)
}

/// Refuses sizes that no such payload can unpack to, so that a few bytes cannot ask for much memory.
fn bounded(size: u64, stored: usize, ratio: u64) -> Result<usize, DecompressError> {
    let reachable = u64::try_from(stored)
        .unwrap_or(u64::MAX)
        .saturating_mul(ratio);
    if size > DATA_SIZE_MAX {
        return Err(DecompressError::TooLarge { size });
    }
    if size > reachable {
        return Err(DecompressError::Damaged);
    }
    usize::try_from(size).map_err(|_| DecompressError::TooLarge { size })
}

/// Packs payloads with zstd, keeping its working memory.
pub(crate) struct Compressor {
    context: zstd::bulk::Compressor<'static>,
}

impl Compressor {
    /// Fast rather than small: log lines are packed while their writer waits.
    const LEVEL: i32 = 1;

    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            context: zstd::bulk::Compressor::new(Self::LEVEL)?,
        })
    }

    /// The packed payload, or none when it would not be smaller.
    pub(crate) fn pack(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        self.context
            .compress(payload)
            .ok()
            .filter(|packed| packed.len() < payload.len())
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zstd_round_trips_and_leaves_noise_alone() {
        let mut compressor = Compressor::new().expect("context");
        let text = b"MESSAGE=".repeat(1000);
        let packed = compressor.pack(&text).expect("repetition packs");
        assert_eq!(
            decompress(Compression::Zstd, &packed).expect("unpack"),
            text
        );
        assert!(compressor.pack(b"x").is_none());
    }

    #[test]
    fn lz4_blocks_carry_their_size() {
        let text = b"MESSAGE=".repeat(100);
        let mut stored = 800_u64.to_le_bytes().to_vec();
        stored.extend(lz4_flex::block::compress(&text));
        assert_eq!(decompress(Compression::Lz4, &stored).expect("unpack"), text);
        stored[0] = 0xff;
        assert!(matches!(
            decompress(Compression::Lz4, &stored),
            Err(DecompressError::Damaged)
        ));
        stored[7] = 1;
        assert!(matches!(
            decompress(Compression::Lz4, &stored),
            Err(DecompressError::TooLarge { .. })
        ));
    }

    #[test]
    fn xz_says_so() {
        assert!(matches!(
            decompress(Compression::Xz, b"x"),
            Err(DecompressError::Xz)
        ));
    }
}
