use proptest::prelude::*;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::*;

const TEXT: &[u8] = b"What is encrypted here is 41 bytes long..";

fn info(cipher: BlockCipher, iv: impl Into<Vec<u8>>) -> DecryptInfo {
    DecryptInfo {
        cipher,
        iv: iv.into(),
        key: Zeroizing::new((0..32).collect()),
    }
}

fn cbc() -> DecryptInfo {
    info(BlockCipher::Aes256Cbc, (100..116).collect::<Vec<u8>>())
}

fn gcm() -> DecryptInfo {
    info(BlockCipher::Aes256Gcm, (100..112).collect::<Vec<u8>>())
}

/// An implementation that is not ours, or at least not the one under test.
fn encrypt(info: &DecryptInfo, text: &[u8]) -> Vec<u8> {
    match info.cipher {
        BlockCipher::Aes256Cbc => {
            use aes::cipher::BlockModeEncrypt;
            let padding = BLOCK - text.len() % BLOCK;
            let mut padded = text.to_vec();
            padded.resize(text.len() + padding, u8::try_from(padding).unwrap());
            let (blocks, _) = Block::slice_as_chunks_mut(&mut padded);
            let mut cipher =
                cbc::Encryptor::<Aes256>::new_from_slices(&info.key, &info.iv).unwrap();
            cipher.encrypt_blocks(blocks);
            padded
        }
        BlockCipher::Aes256Gcm => {
            let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &info.key).unwrap());
            let nonce = Nonce::try_assume_unique_for_key(&info.iv).unwrap();
            let mut text = text.to_vec();
            key.seal_in_place_append_tag(nonce, Aad::empty(), &mut text)
                .unwrap();
            text
        }
    }
}

/// Pushes what a server would send, in pieces.
fn decrypt(
    info: &DecryptInfo,
    encrypted: &[u8],
    size: u64,
    from: u64,
    piece: usize,
) -> Result<Vec<u8>, DecryptBlobError> {
    let (mut decryptor, start) = Decryptor::start(info, size, from)?;
    let mut text = Vec::new();
    let start = usize::try_from(start).unwrap();
    for piece in encrypted[start.min(encrypted.len())..].chunks(piece.max(1)) {
        text.extend(decryptor.push(piece)?);
    }
    text.extend(decryptor.finish()?);
    Ok(text)
}

fn whole(info: &DecryptInfo, encrypted: &[u8]) -> Result<Vec<u8>, DecryptBlobError> {
    decrypt(info, encrypted, encrypted.len() as u64, 0, 7)
}

#[test]
fn what_openssl_encrypted_is_decrypted() {
    // OpenSSL 3.0 and 4.0, keys and starting values as above; the last with 16 bytes of starting value.
    let vectors = [
        (
            cbc(),
            "22dfc8795b6d2631f219cf7add3e7e30a404877993ef203867638d8e5cff1621c6afa47611964f594574cb234aedb153",
        ),
        (
            gcm(),
            "1f73bf12598025be5b0c3c9aa3151e9826e26e6ff909d31bd4f19879dbc1dc3cf19a60ac237cfc2ad3f3efbe4a9eaedc74e3d69d08d504c284",
        ),
        (
            info(BlockCipher::Aes256Gcm, (100..116).collect::<Vec<u8>>()),
            "8fdb2225c47d54f8d797cefb3ea798003e5130a5ee8ac062b6a0205fb9957ebc1eb2aea00fa584ef2f8da729f79e4c75041c124e22f47bd19b",
        ),
    ];
    for (info, encrypted) in vectors {
        let encrypted = hex::decode(encrypted).unwrap();
        assert_eq!(whole(&info, &encrypted).unwrap(), TEXT);
        let size = encrypted.len() as u64;
        assert_eq!(
            decrypt(&info, &encrypted, size, 18, 5).unwrap(),
            &TEXT[18..]
        );
    }
}

#[test]
fn what_cannot_be_right_is_refused_before_anything_comes() {
    let refused = |info: &DecryptInfo, size, from| Decryptor::start(info, size, from).err();
    let mut short = cbc();
    short.key.truncate(16);
    assert_eq!(
        refused(&short, 16, 0),
        Some(DecryptBlobError::Key { found: 16 })
    );
    for found in [0, 1, 15, 17, u64::MAX] {
        assert_eq!(
            refused(&cbc(), found, 0),
            Some(DecryptBlobError::Length { found })
        );
    }
    for found in [0, 15, LONGEST_GCM + 17, u64::MAX] {
        assert_eq!(
            refused(&gcm(), found, 0),
            Some(DecryptBlobError::Length { found })
        );
    }
    let iv = |cipher, length: usize| info(cipher, vec![1; length]);
    for found in [0, 12, 17] {
        let wrong = iv(BlockCipher::Aes256Cbc, found);
        assert_eq!(refused(&wrong, 16, 0), Some(DecryptBlobError::Iv { found }));
    }
    for found in [0, 65] {
        let wrong = iv(BlockCipher::Aes256Gcm, found);
        assert_eq!(refused(&wrong, 16, 0), Some(DecryptBlobError::Iv { found }));
    }
    Decryptor::start(&gcm(), LONGEST_GCM + 16, LONGEST_GCM).expect("the very end");
    let beyond = Some(DecryptBlobError::Beyond { position: 16 });
    assert_eq!(refused(&cbc(), 16, 16), beyond);
    assert_eq!(refused(&gcm(), 31, 16), beyond);
}

#[test]
fn the_last_bytes_come_only_when_the_end_makes_sense() {
    for info in [cbc(), gcm()] {
        let mut encrypted = encrypt(&info, TEXT);
        let size = encrypted.len() as u64;
        *encrypted.last_mut().unwrap() ^= 0xff;
        let (mut decryptor, _) = Decryptor::start(&info, size, 0).unwrap();
        let early = decryptor.push(&encrypted).unwrap();
        assert!(early.len() < TEXT.len());
        assert_eq!(early, TEXT[..early.len()]);
        decryptor.finish().unwrap_err();
    }
}

proptest! {
    #[test]
    fn any_text_is_decrypted_from_anywhere_in_any_pieces(
        text in prop::collection::vec(any::<u8>(), 0..600),
        from in any::<prop::sample::Index>(),
        piece in 1_usize..100,
        is_gcm in any::<bool>(),
    ) {
        let info = if is_gcm { gcm() } else { cbc() };
        let encrypted = encrypt(&info, &text);
        let size = encrypted.len() as u64;
        let from = from.index(text.len() + 1);
        let found = decrypt(&info, &encrypted, size, from as u64, piece).unwrap();
        prop_assert_eq!(found, &text[from..]);
    }

    #[test]
    fn a_length_that_is_not_the_right_one_is_an_error(
        text in prop::collection::vec(any::<u8>(), 0..200),
        cut in any::<prop::sample::Index>(),
        is_gcm in any::<bool>(),
    ) {
        let info = if is_gcm { gcm() } else { cbc() };
        let mut encrypted = encrypt(&info, &text);
        let size = encrypted.len() as u64;
        let missing = cut.index(encrypted.len()) + 1;
        let early = decrypt(&info, &encrypted[..encrypted.len() - missing], size, 0, 9);
        prop_assert_eq!(early, Err(DecryptBlobError::TooShort { missing: missing as u64 }));
        encrypted.push(0);
        let late = decrypt(&info, &encrypted, size, 0, 9);
        prop_assert_eq!(late, Err(DecryptBlobError::TooLong { expected: size }));
    }

    #[test]
    fn a_tag_notices_every_change(
        text in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let mut encrypted = encrypt(&gcm(), &text);
        let at = at.index(encrypted.len());
        encrypted[at] ^= 1 << bit;
        prop_assert_eq!(whole(&gcm(), &encrypted), Err(DecryptBlobError::Tag));
    }

    #[test]
    fn no_bytes_panic(
        encrypted in prop::collection::vec(any::<u8>(), 0..300),
        size in prop::option::of(any::<u64>()),
        from in any::<u64>(),
        is_gcm in any::<bool>(),
    ) {
        let info = if is_gcm { gcm() } else { cbc() };
        let length = encrypted.len() as u64;
        let _ = decrypt(&info, &encrypted, size.unwrap_or(length), from % (length + 2), 11);
    }
}
