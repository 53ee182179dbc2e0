use std::os::unix::fs::PermissionsExt as _;

use muster_lab::pki::{CertSpec, Pki};
use rustls::SignatureScheme;

use super::*;

fn id(number: u8) -> KeyId {
    KeyId::from_bytes([number; KeyId::LEN])
}

fn module() -> (tempfile::TempDir, FileModule) {
    let folder = tempfile::tempdir().unwrap();
    let module = FileModule::new(folder.path().join("deep/keys of sm"));
    (folder, module)
}

fn chain() -> Vec<CertificateDer<'static>> {
    let pki = Pki::new("s").unwrap().intermediate().unwrap();
    let issued = pki.issue(&CertSpec::node("n", "sm")).unwrap();
    CertificateDer::pem_slice_iter(issued.cert_pem.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn keys_and_certificates_are_kept_as_files() {
    let (_folder, module) = module();
    assert_eq!(module.contents().unwrap(), Contents::default());
    module.set_owner("ignored").unwrap();
    assert_eq!(mode(&module.folder), 0o700);

    let key = module.create_key(id(1), KeyAlgorithm::EcP384).unwrap();
    assert_eq!(mode(&module.key_path(id(1))), 0o600);
    let again = module.key(id(1)).unwrap().unwrap();
    assert_eq!(again.public_key(), key.public_key());
    assert!(
        again
            .choose_scheme(&[SignatureScheme::ECDSA_NISTP384_SHA384])
            .is_some()
    );
    assert!(module.key(id(2)).unwrap().is_none());

    let chain = chain();
    module.store_cert(id(1), &chain).unwrap();
    assert_eq!(mode(&module.cert_path(id(1))), 0o644);
    let contents = module.contents().unwrap();
    assert_eq!(contents.keys, [id(1)].into());
    assert_eq!(contents.certs, [(id(1), chain)].into());
    assert_eq!(
        module.key_url(id(1)).parse(),
        Ok(url::CertUrl::File(module.key_path(id(1))))
    );
    assert!(module.cert_url(id(1)).contains("keys%20of%20sm"));

    module.remove_cert(id(1)).unwrap();
    module.remove_key(id(1)).unwrap();
    module.remove_key(id(1)).unwrap();
    assert_eq!(module.contents().unwrap(), Contents::default());
}

#[test]
fn half_written_files_are_cleared_and_foreign_ones_left_alone() {
    let (_folder, module) = module();
    module.create_key(id(1), KeyAlgorithm::EcP384).unwrap();
    let half = module.folder.join(format!("key_{}.pem.new", id(2)));
    let foreign = ["notes.new", "key_.pem", "key_zz.pem", "README"];
    fs::write(&half, "half").unwrap();
    for name in foreign {
        fs::write(module.folder.join(name), "x").unwrap();
    }
    fs::write(module.cert_path(id(3)), "junk").unwrap();
    let contents = module.contents().unwrap();
    assert_eq!(contents.keys, [id(1)].into());
    assert!(contents.certs.is_empty());
    assert!(!half.exists());

    module.clear().unwrap();
    let mut left: Vec<_> = fs::read_dir(&module.folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    let mut expected = foreign.map(std::ffi::OsString::from);
    expected.sort();
    assert_eq!(left, expected);
}

#[test]
fn what_cannot_be_done_is_said_without_the_key() {
    let (_folder, module) = module();
    let refused = module.create_key(id(1), KeyAlgorithm::Rsa2048).unwrap_err();
    assert!(refused.to_string().contains("EC P-384"), "{refused}");

    module.create_key(id(1), KeyAlgorithm::EcP384).unwrap();
    let pem = fs::read_to_string(module.key_path(id(1))).unwrap();
    let secret = pem.lines().nth(1).unwrap();
    fs::write(module.key_path(id(1)), pem.replace('\n', " ")).unwrap();
    let refused = module.key(id(1)).unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains(secret));

    let blocked = FileModule::new("/proc/muster/keys");
    let refused = blocked.set_owner("").unwrap_err();
    assert!(
        refused.to_string().contains("/proc/muster/keys"),
        "{refused}"
    );
}
