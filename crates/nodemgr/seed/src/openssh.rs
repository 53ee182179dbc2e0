//! Keys as OpenSSH writes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use zeroize::Zeroizing;

const ALGORITHM: &str = "ssh-ed25519";
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// What an unencrypted key is filled up to.
const BLOCK: usize = 8;
const LINE: usize = 70;

/// An ed25519 key.
pub(crate) struct Pair {
    seed: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl Pair {
    pub(crate) fn from_seed(seed: Zeroizing<[u8; 32]>) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_slice())
            .expect("32 bytes are a seed of ed25519");
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        Self { seed, public }
    }

    /// The line of a `known_hosts` or `authorized_keys` file, without a comment.
    pub(crate) fn public_line(&self) -> String {
        format!("{ALGORITHM} {}", STANDARD.encode(self.public_blob()))
    }

    fn public_blob(&self) -> Vec<u8> {
        let mut blob = Vec::with_capacity(51);
        put(&mut blob, ALGORITHM.as_bytes());
        put(&mut blob, &self.public);
        blob
    }

    /// The private key, as `ssh-keygen` writes it without a passphrase.
    pub(crate) fn private_pem(&self) -> Zeroizing<String> {
        // Enough from the start: a vector that grows leaves copies behind.
        let mut secret = Zeroizing::new(Vec::with_capacity(256));
        // Two equal numbers show a decrypter that its passphrase was right; here is none.
        for _ in 0..2 {
            secret.extend_from_slice(&self.public[..4]);
        }
        put(&mut secret, ALGORITHM.as_bytes());
        put(&mut secret, &self.public);
        let mut both = Zeroizing::new([0; 64]);
        both[..32].copy_from_slice(self.seed.as_slice());
        both[32..].copy_from_slice(&self.public);
        put(&mut secret, both.as_slice());
        put(&mut secret, b"");
        let mut filler = 1;
        while secret.len() % BLOCK != 0 {
            secret.push(filler);
            filler += 1;
        }

        let mut file = Zeroizing::new(Vec::with_capacity(512));
        file.extend_from_slice(MAGIC);
        put(&mut file, b"none");
        put(&mut file, b"none");
        put(&mut file, b"");
        file.extend_from_slice(&1_u32.to_be_bytes());
        put(&mut file, &self.public_blob());
        put(&mut file, &secret);

        let text = Zeroizing::new(STANDARD.encode(file.as_slice()));
        let mut pem = Zeroizing::new(String::with_capacity(1024));
        pem.push_str("-----BEGIN OPENSSH PRIVATE KEY-----\n");
        for begin in (0..text.len()).step_by(LINE) {
            pem.push_str(&text[begin..text.len().min(begin + LINE)]);
            pem.push('\n');
        }
        pem.push_str("-----END OPENSSH PRIVATE KEY-----\n");
        pem
    }
}

/// A text of ssh's: its length, then its bytes.
fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a key is short");
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn ssh_keygen_reads_the_private_key_and_finds_the_same_public_one() {
        let pair = Pair::from_seed(Zeroizing::new([7; 32]));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, pair.private_pem().as_bytes()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let output = Command::new("ssh-keygen").arg("-yf").arg(&path).output();
        let output = output.expect("ssh-keygen is installed");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        let public = String::from_utf8(output.stdout).unwrap();
        assert_eq!(public.trim(), pair.public_line());
    }
}
