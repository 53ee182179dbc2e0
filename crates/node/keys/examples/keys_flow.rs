//! A small identity manager's use of keys, for tests that kill it.
//!
//! `keys_flow PLUGIN FOLDER COMMAND...`, with the keys of the type `sm` in files or in a SoftHSM token
//! (`file`, `pkcs11`) below FOLDER. What a command prints has happened:
//! * `own`: gives the store an owner;
//! * `key NAME`: makes a key for a subject, prints its request;
//! * `cert`: reads a chain from standard input and applies it, prints `serial HEX`;
//! * `newest`: prints `serial HEX` of the newest certificate, or `none`;
//! * `clear`.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use muster_keys::{
    CertHandler, CertType, CsrSubject, FindCertError, ModuleConfig, RawModuleConfig,
    RawModuleParams,
};

fn config(plugin: &str, folder: &Path) -> ModuleConfig {
    let raw = RawModuleConfig {
        id: "sm".into(),
        plugin: plugin.into(),
        params: RawModuleParams {
            storage_path: Some(folder.join("keys")),
            library: Some("/usr/lib/softhsm/libsofthsm2.so".into()),
            token_label: Some("muster test".into()),
            user_pin_path: Some(folder.join("pin")),
            ..RawModuleParams::default()
        },
        ..RawModuleConfig::default()
    };
    raw.try_into().expect("a good configuration")
}

/// Written past every buffer, so that a kill cannot hide what was said.
fn say(words: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{words}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

fn main() {
    muster_fault::init(&[muster_keys::FAULT_POINTS]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [plugin, folder, command, rest @ ..] = arguments.as_slice() else {
        panic!("PLUGIN FOLDER COMMAND")
    };
    let folder = Path::new(folder);
    let handler = CertHandler::new(vec![config(plugin, folder)], &folder.join("index"))
        .expect("the handler opens");
    let sm = CertType::new("sm").expect("a certificate type");
    match command.as_str() {
        "own" => handler.set_owner(&sm, "").expect("an owner"),
        "key" => {
            let subject = CsrSubject::new(rest.first().expect("a subject").as_str());
            say(handler.create_key(&sm, &subject).expect("a key").as_pem());
        }
        "cert" => {
            let mut chain = String::new();
            io::stdin().read_to_string(&mut chain).expect("a chain");
            let info = handler.apply_cert(&sm, &chain).expect("applied");
            say(&format!("serial {}", info.serial_hex()));
        }
        "newest" => match handler.cert(&sm, None, None) {
            Ok(info) => say(&format!("serial {}", info.serial_hex())),
            Err(FindCertError::NotFound { .. }) => say("none"),
            Err(error) => panic!("{error:?}"),
        },
        "clear" => handler.clear(&sm).expect("cleared"),
        other => panic!("no such command: {other}"),
    }
}
