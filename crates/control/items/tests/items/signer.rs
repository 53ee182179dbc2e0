//! Certificates and signatures as OpenSSL makes them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_desired::Trust;
use tempfile::TempDir;

/// What a key is for `openssl genpkey`.
pub(crate) const RSA_2048: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
pub(crate) const EC_P256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];

const CONFIG: &str = "[req]\ndistinguished_name=name\n[name]\n\
    [authority]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n\
    [signer]\nbasicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=clientAuth\n";

/// For `openssl ca`.
const LISTS: &str = "[ca]\ndefault_ca=lists\n[lists]\ndatabase=index\ncrlnumber=number\n\
    default_md=sha256\ndefault_crl_days=30\ncrl_extensions=list\n\
    [list]\nauthorityKeyIdentifier=keyid\n";

/// An authority, an intermediate one below it, and signers that the intermediate one certifies.
pub(crate) struct Signers {
    folder: TempDir,
    trust: Trust,
}

impl Signers {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let signers = Self {
            folder,
            trust: Trust::default(),
        };
        fs::write(signers.path("config"), CONFIG).unwrap();
        fs::write(signers.path("lists"), LISTS).unwrap();
        fs::write(signers.path("number"), "1000\n").unwrap();
        signers.key("root", EC_P256);
        let words = [
            "req",
            "-x509",
            "-config",
            "config",
            "-extensions",
            "authority",
        ];
        let more = [
            "-key", "root.key", "-subj", "/CN=root", "-days", "3650", "-out", "root.pem",
        ];
        signers.openssl(&[&words[..], &more].concat());
        signers.key("middle", EC_P256);
        signers.certify("middle", "root", "authority", 3650);
        signers
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn openssl(&self, words: &[&str]) {
        let mut command = Command::new("openssl");
        let output = command.args(words).current_dir(self.folder.path()).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {words:?}: {said}");
    }

    fn key(&self, name: &str, kind: &[&str]) {
        let file = format!("{name}.key");
        self.openssl(&[&["genpkey", "-out", &file], kind].concat());
    }

    fn certify(&self, name: &str, by: &str, section: &str, days: u32) {
        let file = |suffix: &str| format!("{name}.{suffix}");
        let (key, request) = (file("key"), file("csr"));
        let subject = format!("/CN={name}");
        self.openssl(&[
            "req", "-new", "-config", "config", "-key", &key, "-subj", &subject, "-out", &request,
        ]);
        let (authority, authority_key) = (format!("{by}.pem"), format!("{by}.key"));
        let (days, certificate) = (days.to_string(), file("pem"));
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            &authority,
            "-CAkey",
            &authority_key,
            "-CAcreateserial",
            "-days",
            &days,
            "-extfile",
            "config",
            "-extensions",
            section,
            "-out",
            &certificate,
        ]);
    }

    fn der(&self, name: &str) -> Vec<u8> {
        let (from, to) = (format!("{name}.pem"), format!("{name}.der"));
        self.openssl(&["x509", "-in", &from, "-outform", "DER", "-out", &to]);
        fs::read(self.path(&to)).unwrap()
    }

    /// The authority, in DER.
    pub(crate) fn root(&self) -> Vec<u8> {
        self.der("root")
    }

    /// A signer with a chain of its own name.
    pub(crate) fn add(&mut self, name: &str, kind: &[&str]) {
        self.key(name, kind);
        self.certify(name, "middle", "signer", 30);
        for part in [name, "middle"] {
            let certificate = STANDARD.encode(self.der(part));
            let certificates = &mut self.trust.certificates;
            certificates.insert(format!("print of {part}"), certificate);
        }
        let chain = [name, "middle"].map(|part| format!("print of {part}"));
        self.trust.chains.insert(name.to_owned(), chain.to_vec());
    }

    /// The revocation list of an authority with these on it, in DER.
    pub(crate) fn list(&self, authority: &str, revoked: &[&str]) -> Vec<u8> {
        fs::write(self.path("index"), "").unwrap();
        let (certificate, key) = (format!("{authority}.pem"), format!("{authority}.key"));
        let by = [
            "ca",
            "-config",
            "lists",
            "-cert",
            &certificate,
            "-keyfile",
            &key,
        ];
        for name in revoked {
            let certificate = format!("{name}.pem");
            self.openssl(&[&by[..], &["-revoke", &certificate]].concat());
        }
        self.openssl(&[&by[..], &["-gencrl", "-out", "list.pem"]].concat());
        self.openssl(&[
            "crl", "-in", "list.pem", "-outform", "DER", "-out", "list.der",
        ]);
        fs::read(self.path("list.der")).unwrap()
    }

    /// What a desired status says about all signers.
    pub(crate) fn trust(&self) -> Trust {
        self.trust.clone()
    }

    /// A signature over some content.
    pub(crate) fn sign(&self, name: &str, content: &[u8]) -> Vec<u8> {
        fs::write(self.path("content"), content).unwrap();
        let key = format!("{name}.key");
        let words = [
            "dgst",
            "-sha256",
            "-sign",
            &key,
            "-out",
            "signature",
            "content",
        ];
        self.openssl(&words);
        fs::read(self.path("signature")).unwrap()
    }
}
