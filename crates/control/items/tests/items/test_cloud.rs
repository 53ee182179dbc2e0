//! A cloud that says where blobs are, as tests want it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aes::Aes256;
use aes::cipher::{Array, BlockModeEncrypt, KeyIvInit};
use futures_util::future::BoxFuture;
use jiff::{Timestamp, ToSpan};
use muster_api::domain::Digest;
use muster_items::{
    BlobInfo, BlobInfos, BlockCipher, BoxError, Cloud, DecryptInfo, DownloadEvent, DownloadEvents,
    DownloadState, SignInfo, SignatureAlgorithm,
};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::{Digest as _, Sha256};

use crate::rig::TestLayout;
use crate::signer::{EC_P256, RSA_2048, Signers};

/// Which key everything is encrypted with.
pub(crate) const KEY: [u8; 32] = *b"the key that nobody should see..";

/// What is said about blobs, and what was asked and told.
#[derive(Debug, Default)]
pub(crate) struct TestCloud {
    pub(crate) infos: Mutex<BTreeMap<Digest, BlobInfo>>,
    pub(crate) asked: Mutex<Vec<Digest>>,
    pub(crate) events: Mutex<Vec<DownloadEvent>>,
}

impl BlobInfos for TestCloud {
    fn info(&self, digest: Digest) -> BoxFuture<'_, Result<BlobInfo, BoxError>> {
        self.asked.lock().unwrap().push(digest);
        let info = self.infos.lock().unwrap().get(&digest).cloned();
        let info = info.ok_or_else(|| BoxError::from("the cloud is away"));
        Box::pin(std::future::ready(info))
    }
}

impl DownloadEvents for TestCloud {
    fn happened(&self, event: DownloadEvent) {
        self.events.lock().unwrap().push(event);
    }
}

impl TestCloud {
    pub(crate) fn link(self: &Arc<Self>) -> Cloud {
        Cloud {
            infos: self.clone(),
            events: self.clone(),
        }
    }

    /// Everything that was said about a blob.
    pub(crate) fn told(&self, digest: &Digest) -> Vec<&'static str> {
        let events = self.events.lock().unwrap();
        let of_blob = events.iter().filter(|event| event.digest == *digest);
        of_blob
            .map(|event| match event.state {
                DownloadState::Started => "started",
                DownloadState::Paused => "paused",
                DownloadState::Interrupted(_) => "interrupted",
                DownloadState::Finished => "finished",
            })
            .collect()
    }

    pub(crate) fn edit(&self, edit: impl FnMut(&mut BlobInfo)) {
        self.infos.lock().unwrap().values_mut().for_each(edit);
    }
}

/// How a blob is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    None,
    Cbc,
    Gcm,
}

pub(crate) const ALL: [Protection; 3] = [Protection::Cbc, Protection::Gcm, Protection::None];

/// AES-256 in CBC, with padding.
pub(crate) fn encrypt_cbc(content: &[u8], key: &[u8; 32], iv: &[u8; 16]) -> Vec<u8> {
    let padding = 16 - content.len() % 16;
    let mut text = content.to_vec();
    text.resize(content.len() + padding, u8::try_from(padding).unwrap());
    let (blocks, _) = Array::slice_as_chunks_mut(&mut text);
    let mut cipher = cbc::Encryptor::<Aes256>::new_from_slices(key, iv).unwrap();
    cipher.encrypt_blocks(blocks);
    text
}

fn encrypt(content: &[u8], protection: Protection) -> (Vec<u8>, Option<DecryptInfo>) {
    let info = |cipher, iv: &[u8]| DecryptInfo {
        cipher,
        iv: iv.to_vec(),
        key: KEY.to_vec().into(),
    };
    match protection {
        Protection::None => (content.to_vec(), None),
        Protection::Cbc => {
            let iv = [7; 16];
            let text = encrypt_cbc(content, &KEY, &iv);
            (text, Some(info(BlockCipher::Aes256Cbc, &iv)))
        }
        Protection::Gcm => {
            let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &KEY).unwrap());
            let iv = [9; 12];
            let mut text = content.to_vec();
            let nonce = Nonce::assume_unique_for_key(iv);
            key.seal_in_place_append_tag(nonce, Aad::empty(), &mut text)
                .unwrap();
            (text, Some(info(BlockCipher::Aes256Gcm, &iv)))
        }
    }
}

/// What a cloud would upload: files by path, and what it says about them. Servers and signatures are added by tests.
pub(crate) fn upload(
    layout: &TestLayout,
    protection: impl Fn(usize) -> Protection,
) -> (BTreeMap<String, Vec<u8>>, BTreeMap<Digest, BlobInfo>) {
    let (mut files, mut infos) = (BTreeMap::new(), BTreeMap::new());
    for (number, digest) in layout.blobs().into_iter().enumerate() {
        let (content, decrypt) = encrypt(&layout.blob(&digest), protection(number));
        let info = BlobInfo {
            urls: Vec::new(),
            sha256: Sha256::digest(&content).into(),
            size: content.len() as u64,
            decrypt,
            sign: None,
        };
        files.insert(format!("/{}", digest.to_hex()), content);
        infos.insert(digest, info);
    }
    (files, infos)
}

/// A cloud with everything of a layout behind these servers, the best first.
pub(crate) fn cloud(infos: BTreeMap<Digest, BlobInfo>, servers: &[&str]) -> Arc<TestCloud> {
    let mut infos = infos;
    for (digest, info) in &mut infos {
        let urls = servers.iter();
        info.urls = urls
            .map(|server| format!("{server}/{}?secret=abc", digest.to_hex()))
            .collect();
    }
    Arc::new(TestCloud {
        infos: Mutex::new(infos),
        ..TestCloud::default()
    })
}

/// Two signers, of both kinds.
pub(crate) fn signers() -> Signers {
    let mut signers = Signers::new();
    signers.add("rsa", RSA_2048);
    signers.add("ec", EC_P256);
    signers
}

/// Signs everything, with both in turn.
pub(crate) fn sign(cloud: &TestCloud, layout: &TestLayout, signers: &Signers) {
    let both = [
        ("rsa", SignatureAlgorithm::RsaSha256),
        ("ec", SignatureAlgorithm::EcSha256),
    ];
    let mut infos = cloud.infos.lock().unwrap();
    for ((digest, info), (name, algorithm)) in infos.iter_mut().zip(both.into_iter().cycle()) {
        info.sign = Some(SignInfo {
            chain: name.to_owned(),
            algorithm,
            value: signers.sign(name, &layout.blob(digest)),
            at: Timestamp::now() + 2.seconds(),
        });
    }
}
