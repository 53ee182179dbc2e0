//! Decryption of a blob as it passes, from any position. Pure.
//!
//! Both ciphers can start in the middle: a block of CBC needs the block before it, and GCM encrypts by position. So a download
//! that broke off goes on by range here, too. The price is GCM's tag: it covers everything, and is compared only when everything
//! passes in one go. What decides is the digest of the plain text, which is checked in any case and by who stores it.
//!
//! The end of the plain text is given out only when the end of the encrypted text was seen and makes sense.

use aes::Aes256;
use aes::cipher::{
    Array, BlockCipherEncrypt, BlockModeDecrypt, KeyInit, KeyIvInit, StreamCipher, StreamCipherSeek,
};
use ctr::Ctr32BE;
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use zeroize::Zeroizing;

use crate::cloud::{BlockCipher, DecryptInfo};

const KEY: usize = 32;
const BLOCK: usize = 16;
const BLOCK_BYTES: u64 = BLOCK as u64;
/// Longer starting values of GCM are of no use to anybody.
const LONGEST_IV: usize = 64;
/// What GCM encrypts with one starting value, by its specification: positions are 32 bits of blocks.
const LONGEST_GCM: u64 = ((1 << 32) - 2) * BLOCK_BYTES;

type Block = Array<u8, aes::cipher::consts::U16>;

/// Why something cannot be decrypted. Nothing of keys or content is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecryptBlobError {
    /// The key cannot be one of this cipher.
    #[error("the key has {found} bytes instead of {KEY}")]
    Key {
        /// How long it is.
        found: usize,
    },
    /// The starting value cannot be one of this cipher.
    #[error("the starting value has {found} bytes, which is not right for the cipher")]
    Iv {
        /// How long it is.
        found: usize,
    },
    /// No encrypted text has this length.
    #[error("no encrypted blob has {found} bytes")]
    Length {
        /// The length that was said.
        found: u64,
    },
    /// The plain text ends before this position.
    #[error("the blob ends before position {position}")]
    Beyond {
        /// Where reading was to go on.
        position: u64,
    },
    /// The encrypted text goes on after its end.
    #[error("it has more than the {expected} bytes that were said")]
    TooLong {
        /// The length that was said.
        expected: u64,
    },
    /// The encrypted text ends too early.
    #[error("it broke off {missing} bytes before its end")]
    TooShort {
        /// How much is missing.
        missing: u64,
    },
    /// The padding is none: the key is wrong or the text was changed.
    #[error("its end makes no sense with this key")]
    Padding,
    /// The tag is wrong: the key is wrong or the text was changed.
    #[error("its tag is not right")]
    Tag,
}

/// Decrypts what passes.
pub(crate) struct Decryptor {
    mode: Mode,
    /// Encrypted bytes that still have to come.
    left: u64,
    expected: u64,
    /// Encrypted bytes that wait: for a whole block, or for the end.
    waiting: Vec<u8>,
    /// Decrypted bytes that are not asked for.
    skip: usize,
}

enum Mode {
    /// Waits for the block before the first one.
    CbcBefore(Zeroizing<[u8; KEY]>),
    Cbc(Box<cbc::Decryptor<Aes256>>),
    Gcm {
        stream: Box<Ctr32BE<Aes256>>,
        /// For the tag, if everything passes.
        check: Option<Box<TagCheck>>,
    },
}

struct TagCheck {
    hash: GHash,
    mask: Block,
    bytes: u64,
}

impl std::fmt::Debug for Decryptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decryptor")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Decryptor {
    /// Prepares to decrypt `size` encrypted bytes, from a position of the plain text on. Says from which position of the encrypted
    /// text on bytes are to be pushed.
    pub(crate) fn start(
        info: &DecryptInfo,
        size: u64,
        from: u64,
    ) -> Result<(Self, u64), DecryptBlobError> {
        let found = info.key.len();
        let key: Zeroizing<[u8; KEY]> = match <[u8; KEY]>::try_from(info.key.as_slice()) {
            Ok(key) => Zeroizing::new(key),
            Err(_) => return Err(DecryptBlobError::Key { found }),
        };
        let (mode, start, skip) = match info.cipher {
            BlockCipher::Aes256Cbc => start_cbc(key, &info.iv, size, from)?,
            BlockCipher::Aes256Gcm => start_gcm(&key, &info.iv, size, from)?,
        };
        let decryptor = Self {
            mode,
            left: size - start,
            expected: size,
            waiting: Vec::new(),
            skip,
        };
        Ok((decryptor, start))
    }

    /// Takes encrypted bytes, gives decrypted ones.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, DecryptBlobError> {
        let expected = self.expected;
        self.left = match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => left,
            None => return Err(DecryptBlobError::TooLong { expected }),
        };
        self.waiting.extend_from_slice(bytes);
        if let Mode::CbcBefore(key) = &self.mode
            && self.waiting.len() >= BLOCK
        {
            let before: Vec<u8> = self.waiting.drain(..BLOCK).collect();
            let cbc = cbc::Decryptor::new_from_slices(key.as_slice(), &before);
            self.mode = Mode::Cbc(Box::new(
                cbc.map_err(|_| DecryptBlobError::Iv { found: BLOCK })?,
            ));
        }
        // The last block of the text, and a tag.
        let held = match &self.mode {
            Mode::CbcBefore(_) => return Ok(Vec::new()),
            Mode::Cbc(_) => BLOCK,
            Mode::Gcm { .. } => 2 * BLOCK,
        };
        let whole = self.waiting.len().saturating_sub(held) / BLOCK * BLOCK;
        let mut text: Vec<u8> = self.waiting.drain(..whole).collect();
        self.decrypt(&mut text);
        Ok(self.asked_for(text))
    }

    /// Everything has come: checks its end, and gives the rest.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, DecryptBlobError> {
        if self.left > 0 {
            let missing = self.left;
            return Err(DecryptBlobError::TooShort { missing });
        }
        let mut text = std::mem::take(&mut self.waiting);
        match &mut self.mode {
            Mode::CbcBefore(_) => return Err(DecryptBlobError::Padding),
            Mode::Cbc(_) => {
                self.decrypt(&mut text);
                let padding = text.last().copied().unwrap_or_default();
                let length = text.len().saturating_sub(usize::from(padding));
                let is_padding = (1..=BLOCK).contains(&usize::from(padding))
                    && text[length..].iter().all(|byte| *byte == padding)
                    && text.len() == BLOCK;
                if !is_padding {
                    return Err(DecryptBlobError::Padding);
                }
                text.truncate(length);
            }
            Mode::Gcm { .. } => {
                let tag = text.split_off(text.len().saturating_sub(BLOCK));
                self.decrypt(&mut text);
                if let Mode::Gcm {
                    check: Some(check), ..
                } = self.mode
                    && check.tag().as_slice() != tag
                {
                    return Err(DecryptBlobError::Tag);
                }
                return Ok(text);
            }
        }
        Ok(self.asked_for(text))
    }

    /// Whole blocks, except at the end of GCM's text.
    fn decrypt(&mut self, text: &mut [u8]) {
        match &mut self.mode {
            Mode::CbcBefore(_) => {}
            Mode::Cbc(cbc) => {
                let (blocks, _) = Block::slice_as_chunks_mut(text);
                cbc.decrypt_blocks(blocks);
            }
            Mode::Gcm { stream, check } => {
                if let Some(check) = check {
                    check.hash.update_padded(text);
                    check.bytes += text.len() as u64;
                }
                stream.apply_keystream(text);
            }
        }
    }

    fn asked_for(&mut self, text: Vec<u8>) -> Vec<u8> {
        let skipped = self.skip.min(text.len());
        self.skip -= skipped;
        cut(text, skipped)
    }
}

fn cut(mut text: Vec<u8>, skipped: usize) -> Vec<u8> {
    text.drain(..skipped.min(text.len()));
    text
}

fn start_cbc(
    key: Zeroizing<[u8; KEY]>,
    iv: &[u8],
    size: u64,
    from: u64,
) -> Result<(Mode, u64, usize), DecryptBlobError> {
    if size < BLOCK_BYTES || !size.is_multiple_of(BLOCK_BYTES) {
        return Err(DecryptBlobError::Length { found: size });
    }
    // There is always at least one byte of padding.
    if from >= size {
        return Err(DecryptBlobError::Beyond { position: from });
    }
    let cbc = cbc::Decryptor::new_from_slices(key.as_slice(), iv);
    let cbc = cbc.map_err(|_| DecryptBlobError::Iv { found: iv.len() })?;
    let skip = usize::try_from(from % BLOCK_BYTES).unwrap_or_default();
    match from / BLOCK_BYTES {
        0 => Ok((Mode::Cbc(Box::new(cbc)), 0, skip)),
        block => Ok((Mode::CbcBefore(key), (block - 1) * BLOCK_BYTES, skip)),
    }
}

fn start_gcm(
    key: &[u8; KEY],
    iv: &[u8],
    size: u64,
    from: u64,
) -> Result<(Mode, u64, usize), DecryptBlobError> {
    let length = size.checked_sub(BLOCK_BYTES);
    let length = length.filter(|length| *length <= LONGEST_GCM);
    let length = length.ok_or(DecryptBlobError::Length { found: size })?;
    if from > length {
        return Err(DecryptBlobError::Beyond { position: from });
    }
    if iv.is_empty() || iv.len() > LONGEST_IV {
        return Err(DecryptBlobError::Iv { found: iv.len() });
    }
    let aes = Aes256::new(key.into());
    let mut hash_key = Block::default();
    aes.encrypt_block(&mut hash_key);
    let hash = GHash::new(&hash_key);
    let first = first_counter(hash.clone(), iv);
    let mut mask = first;
    aes.encrypt_block(&mut mask);
    let mut counter = first;
    let number = u32::from_be_bytes([counter[12], counter[13], counter[14], counter[15]]);
    counter[12..].copy_from_slice(&number.wrapping_add(1).to_be_bytes());
    let mut stream = Box::new(Ctr32BE::<Aes256>::new(key.into(), &counter));
    stream.seek(from);
    let check = (from == 0).then(|| {
        let bytes = 0;
        Box::new(TagCheck { hash, mask, bytes })
    });
    Ok((Mode::Gcm { stream, check }, from, 0))
}

/// The block that counting starts from: of the usual 12 bytes the number 1, of others their hash.
fn first_counter(mut hash: GHash, iv: &[u8]) -> Block {
    let mut counter = Block::default();
    if iv.len() == 12 {
        counter[..12].copy_from_slice(iv);
        counter[15] = 1;
        return counter;
    }
    hash.update_padded(iv);
    let bits = iv.len() as u64 * 8;
    counter[8..].copy_from_slice(&bits.to_be_bytes());
    hash.update(&[counter]);
    hash.finalize()
}

impl TagCheck {
    fn tag(self) -> Block {
        let Self {
            mut hash,
            mask,
            bytes,
        } = self;
        let mut lengths = Block::default();
        lengths[8..].copy_from_slice(&(bytes * 8).to_be_bytes());
        hash.update(&[lengths]);
        let mut tag = hash.finalize();
        for (byte, mask) in tag.iter_mut().zip(mask) {
            *byte ^= mask;
        }
        tag
    }
}

#[cfg(test)]
mod tests;
