use super::*;

fn check(json: &str) -> Result<ModuleConfig, ModuleConfigError> {
    let raw: RawModuleConfig = serde_json::from_str(json).unwrap();
    ModuleConfig::try_from(raw)
}

fn refused(json: &str) -> &'static str {
    check(json).unwrap_err().key
}

#[test]
fn an_entry_for_a_token_is_read() {
    let config = check(
        r#"{"id": "online", "plugin": "pkcs11module", "algorithm": "rsa", "maxItems": 2,
            "extendedKeyUsage": ["clientAuth", "serverAuth", "clientAuth"],
            "alternativeNames": ["main.local", "10.0.0.1", "::1"], "role": "cm",
            "params": {"library": "/usr/lib/p11.so", "tokenLabel": "muster",
                       "userPinPath": "/var/pin", "slotIndex": 1, "uid": 7}}"#,
    )
    .unwrap();
    assert_eq!(config.algorithm, KeyAlgorithm::Rsa2048);
    assert_eq!(config.max_items, 2);
    assert_eq!(
        config.purposes,
        [KeyPurpose::ClientAuth, KeyPurpose::ServerAuth]
    );
    assert_eq!(
        config.alternative_names,
        [
            AlternativeName::Dns("main.local".into()),
            AlternativeName::Ip([10, 0, 0, 1].into()),
            AlternativeName::Ip("::1".parse().unwrap()),
        ]
    );
    assert_eq!(config.role, Some(Role::Cm));
    let Storage::Token(token) = config.storage else {
        panic!("a token: {:?}", config.storage)
    };
    assert_eq!(token.label, "muster");
    assert_eq!(token.place, TokenPlace::SlotIndex(1));
    assert_eq!(token.pin_owner, (Some(7), None));
    assert!(token.module_path_in_url);
}

#[test]
fn an_entry_for_files_needs_little() {
    let entry = r#"{"id": "sm", "plugin": "swmodule", "params": {"storagePath": "/var/keys/sm"}}"#;
    let config = check(entry).unwrap();
    assert_eq!(config.role, Some(Role::Sm), "a type named like a role");
    assert_eq!(config.max_items, 1);
    assert_eq!(config.algorithm, KeyAlgorithm::EcP384);
    let other = entry.replace("\"sm\"", "\"offline\"");
    assert_eq!(check(&other).unwrap().role, None);
}

#[test]
fn what_cannot_work_is_refused_by_key() {
    let files = r#""params": {"storagePath": "/k"}"#;
    for (entry, key) in [
        (
            format!(r#"{{"id": "a/b", "plugin": "file", {files}}}"#),
            "id",
        ),
        (
            format!(r#"{{"id": "a", "plugin": "tpm", {files}}}"#),
            "plugin",
        ),
        (
            format!(r#"{{"id": "a", "plugin": "file", "algorithm": "rsa", {files}}}"#),
            "algorithm",
        ),
        (
            format!(r#"{{"id": "a", "plugin": "file", "algorithm": "dsa", {files}}}"#),
            "algorithm",
        ),
        (
            format!(r#"{{"id": "a", "plugin": "file", "maxItems": 65, {files}}}"#),
            "maxItems",
        ),
        (
            format!(r#"{{"id": "a", "plugin": "file", "role": "A B", {files}}}"#),
            "role",
        ),
        (
            format!(r#"{{"id": "a", "plugin": "file", "extendedKeyUsage": ["x"], {files}}}"#),
            "extendedKeyUsage",
        ),
        (
            format!(r#"{{"id": "a", "plugin": "file", "alternativeNames": ["a b"], {files}}}"#),
            "alternativeNames",
        ),
        (
            r#"{"id": "a", "plugin": "file"}"#.to_owned(),
            "params.storagePath",
        ),
        (
            r#"{"id": "a", "plugin": "file", "params": {"storagePath": "k"}}"#.to_owned(),
            "params.storagePath",
        ),
        (
            r#"{"id": "a", "plugin": "pkcs11", "params": {"library": "/l", "userPinPath": "/p"}}"#
                .to_owned(),
            "params.tokenLabel",
        ),
        (
            r#"{"id": "a", "plugin": "pkcs11", "params": {"library": "/l", "tokenLabel": "t"}}"#
                .to_owned(),
            "params.userPinPath",
        ),
        (
            r#"{"id": "a", "plugin": "pkcs11", "params": {"library": "/l", "tokenLabel": "t",
                "userPinPath": "/p", "slotId": 1, "slotIndex": 1}}"#
                .to_owned(),
            "params.slotId",
        ),
    ] {
        assert_eq!(refused(&entry), key, "{entry}");
    }
}
