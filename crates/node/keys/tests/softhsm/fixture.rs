//! A process of its own for each test, since a PKCS#11 library reads its configuration once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::session::Session;
use muster_keys::{
    CertHandler, CertInfo, CertType, Csr, CsrSubject, ModuleConfig, RawModuleConfig,
    RawModuleParams,
};
use muster_lab::pki::{CertSpec, Pki};
use muster_lab::preflight::Need;

/// Where Debian puts it.
pub(crate) const LIBRARY: &str = "/usr/lib/softhsm/libsofthsm2.so";
/// Set for the process in which a test really runs, to the folder that is the test's own.
const FOLDER: &str = "MUSTER_KEYS_TEST_FOLDER";

/// Runs the body of the test `name` in a process with tokens of its own. Everything is removed when
/// that process has ended, however it ended.
#[track_caller]
pub(crate) fn with_token(name: &str, body: impl FnOnce(&Place)) {
    if !muster_lab::preflight::ready(name, &[Need::File(LIBRARY)]) {
        return;
    }
    if let Some(folder) = std::env::var_os(FOLDER) {
        return body(&Place {
            folder: PathBuf::from(folder),
        });
    }
    let folder = tempfile::tempdir().expect("a folder for tokens");
    let place = Place {
        folder: folder.path().to_owned(),
    };
    let config = place.write_softhsm_config();
    let status = Command::new(std::env::current_exe().expect("the test's program"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder.path())
        .env("SOFTHSM2_CONF", config)
        .status()
        .expect("the test's program starts again");
    assert!(status.success(), "{name}: {status}");
}

/// What belongs to one test.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
}

impl Place {
    fn write_softhsm_config(&self) -> PathBuf {
        fs::create_dir(self.tokens()).expect("the folder of tokens");
        let path = self.folder.join("softhsm2.conf");
        let text = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            self.tokens().display()
        );
        fs::write(&path, text).expect("the configuration of SoftHSM");
        path
    }

    pub(crate) fn tokens(&self) -> PathBuf {
        self.folder.join("tokens")
    }

    pub(crate) fn pin_file(&self) -> PathBuf {
        self.folder.join("pin")
    }

    pub(crate) fn config(&self, id: &str, change: impl Fn(&mut RawModuleConfig)) -> ModuleConfig {
        let mut raw = RawModuleConfig {
            id: id.into(),
            plugin: "pkcs11module".into(),
            extended_key_usage: vec!["clientAuth".into(), "serverAuth".into()],
            params: RawModuleParams {
                library: Some(LIBRARY.into()),
                token_label: Some("muster test".into()),
                user_pin_path: Some(self.pin_file()),
                ..RawModuleParams::default()
            },
            ..RawModuleConfig::default()
        };
        change(&mut raw);
        raw.try_into().expect("a good configuration")
    }

    pub(crate) fn open(&self, modules: Vec<ModuleConfig>) -> CertHandler {
        CertHandler::new(modules, &self.folder.join("index")).expect("a handler")
    }

    /// A handler for `types` with an owned token.
    pub(crate) fn owned(&self, types: &[&str], algorithm: &str) -> CertHandler {
        let modules = types
            .iter()
            .map(|id| self.config(id, |raw| raw.algorithm = algorithm.into()));
        let handler = self.open(modules.collect());
        for id in types {
            handler.set_owner(&cert_type(id), "").expect("an owner");
        }
        handler
    }
}

pub(crate) fn cert_type(id: &str) -> CertType {
    CertType::new(id).expect("a certificate type")
}

pub(crate) fn subject(role: &str) -> CsrSubject {
    CsrSubject::new("system-1").uri(format!("spiffe://system-1/node/n1/{role}"))
}

pub(crate) fn sign(pki: &Pki, csr: &Csr, role: &str) -> String {
    let spec = CertSpec::node("n1", role).localhost();
    pki.sign_request(csr.as_pem(), &spec)
        .expect("a certificate")
}

/// Makes a key and has it certified.
pub(crate) fn renew(handler: &CertHandler, pki: &Pki, role: &str) -> CertInfo {
    let csr = handler
        .create_key(&cert_type(role), &subject(role))
        .expect("a request");
    let chain = sign(pki, &csr, role);
    handler
        .apply_cert(&cert_type(role), &chain)
        .expect("applied")
}

/// What SoftHSM keeps: one file for each object of each token.
pub(crate) fn objects(tokens: &Path) -> usize {
    let mut count = 0;
    for token in fs::read_dir(tokens).expect("the tokens") {
        let token = token.expect("a token").path();
        let files = fs::read_dir(token).expect("the token's objects");
        count += files
            .filter(|file| {
                let name = file.as_ref().expect("an object").file_name();
                name.to_string_lossy().ends_with(".object") && name != "token.object"
            })
            .count();
    }
    count
}

/// A session of another user of the library in this process.
pub(crate) fn stranger() -> Session {
    let library = Pkcs11::new(LIBRARY).expect("the library");
    // The crate under test may have done so already.
    let _ = library.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK));
    let slots = library.get_slots_with_initialized_token().expect("slots");
    library.open_rw_session(slots[0]).expect("a session")
}

/// As anybody in the process can do, for all of it.
pub(crate) fn log_out_everybody() {
    stranger().logout().expect("somebody was logged in");
}
