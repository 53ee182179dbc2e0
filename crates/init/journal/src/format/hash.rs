//! The two hash functions of the format.
//!
//! Hash tables of current files use SipHash-2-4 keyed by the file's id, so that nobody who can write
//! log lines can aim at one bucket. Older files, and the checksum of an entry in every file, use
//! Bob Jenkins' lookup3.

/// SipHash with two compression and four finalisation rounds.
pub(crate) fn siphash24(key: (u64, u64), bytes: &[u8]) -> u64 {
    let mut state = [
        key.0 ^ 0x736f_6d65_7073_6575,
        key.1 ^ 0x646f_7261_6e64_6f6d,
        key.0 ^ 0x6c79_6765_6e65_7261,
        key.1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        absorb(&mut state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    // The last word carries the length's low byte; the rest of the length is not hashed.
    last[7] = bytes.len().to_le_bytes()[0];
    absorb(&mut state, u64::from_le_bytes(last));
    state[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    round(state);
    state[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

/// lookup3 (`hashlittle2` with both seeds zero): the first result is the high half.
pub(crate) fn jenkins64(bytes: &[u8]) -> u64 {
    // The length takes part modulo 2^32; no value that is stored is that long.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let seed = 0xdead_beef_u32.wrapping_add(length);
    let mut s = [seed; 3];
    let mut rest = bytes;
    // The last block, also a full one, is left to the final mixing.
    while rest.len() > 12 {
        let (block, tail) = rest.split_at(12);
        add_block(&mut s, block);
        mix(&mut s);
        rest = tail;
    }
    if !rest.is_empty() {
        let mut block = [0; 12];
        block[..rest.len()].copy_from_slice(rest);
        add_block(&mut s, &block);
        finish(&mut s);
    }
    u64::from(s[2]) << 32 | u64::from(s[1])
}

fn add_block(s: &mut [u32; 3], block: &[u8]) {
    for (word, at) in s.iter_mut().zip([0, 4, 8]) {
        *word = word.wrapping_add(super::le32(block, at));
    }
}

fn mix(s: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *s;
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    *s = [a, b, c];
}

fn finish(s: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *s;
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    *s = [a, b, c];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vector of SipHash-2-4: key 00..0f, message 00..0e.
    #[test]
    fn siphash_gives_the_published_vector() {
        let key = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash24(key, &message), 0xa129_ca61_49be_45e5);
    }

    /// The vectors in lookup3's own self test, with both seeds zero.
    #[test]
    fn jenkins_gives_the_published_vectors() {
        assert_eq!(jenkins64(b""), 0xdead_beef_dead_beef);
        assert_eq!(
            jenkins64(b"Four score and seven years ago"),
            0x1777_0551_ce72_26e6
        );
    }
}
