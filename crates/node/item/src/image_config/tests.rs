use proptest::prelude::*;

use super::*;

fn read(json: &str) -> Result<ImageConfig, ReadDocumentError> {
    ImageConfig::read(json.as_bytes(), &Limits::default())
}

#[test]
fn keys_are_found_in_every_spelling() {
    let [docker, camel] = [
        r#"{"architecture": "amd64", "os": "linux", "os.features": ["x"], "rootfs": {"diff_ids": []},
            "config": {"Entrypoint": ["/run"], "Cmd": ["-v"], "Env": ["A=1", "B=x=y"], "WorkingDir": "/srv",
                       "ExposedPorts": {"80": {}, "8000-8010/udp": {}}}}"#,
        r#"{"Architecture": "amd64", "OS": "linux", "os.Features": ["x"], "rootFS": {"Diff_Ids": []},
            "Config": {"entrypoint": ["/run"], "cmd": ["-v"], "env": ["A=1", "B=x=y"], "workingDir": "/srv",
                       "exposedPorts": {"80": {}, "8000-8010/udp": {}}}}"#,
    ]
    .map(|json| read(json).unwrap());
    assert_eq!(docker, camel);
    assert_eq!(docker.command().collect::<Vec<_>>(), ["/run", "-v"]);
    assert_eq!(docker.env[1].name().as_str(), "B");
    assert_eq!(docker.env[1].value(), "x=y");
    assert_eq!(docker.working_dir, "/srv");
    assert_eq!(
        docker.exposed_ports[1].ports,
        PortRange::new(8000, 8010).unwrap()
    );
    assert_eq!(docker.exposed_ports[1].protocol, TransportProtocol::Udp);
    assert_eq!(docker.platform.unwrap().to_string(), "linux/amd64");
}

#[test]
fn an_empty_document_says_nothing() {
    assert_eq!(read("{}").unwrap(), ImageConfig::default());
    assert_eq!(
        read(r#"{"config": null, "rootfs": null}"#).unwrap(),
        ImageConfig::default()
    );
    let nulls =
        r#"{"config": {"Entrypoint": null, "Cmd": null, "Env": null, "ExposedPorts": null}}"#;
    assert_eq!(read(nulls).unwrap(), ImageConfig::default());
}

#[test]
fn relative_working_folders_start_at_the_root() {
    assert_eq!(
        read(r#"{"config": {"WorkingDir": "srv/x"}}"#)
            .unwrap()
            .working_dir,
        "/srv/x"
    );
    assert_eq!(
        read(r#"{"config": {"WorkingDir": ""}}"#)
            .unwrap()
            .working_dir,
        "/"
    );
}

#[test]
fn what_is_wrong_is_named_with_its_path_and_without_secrets() {
    let cases = [
        (
            r#"{"config": {"Env": ["A=1", "topsecret"]}}"#,
            "config.env[1]: (redacted) is not of the form NAME=value",
        ),
        (
            r#"{"config": {"Env": ["=topsecret"]}}"#,
            "config.env[0]: (redacted) has no valid name",
        ),
        (
            r#"{"config": {"Env": ["A=topsecret\u0000"]}}"#,
            "config.env[0]: (redacted) holds a NUL",
        ),
        (
            r#"{"config": {"Cmd": "sh"}}"#,
            "config.cmd: is a text, expected a list",
        ),
        (
            r#"{"config": {"Cmd": ["a", "b\u0000"]}}"#,
            "config.cmd[1]: \"b\\0\" holds a NUL",
        ),
        (
            r#"{"config": {"WorkingDir": "/a/../../b"}}"#,
            "config.workingDir: \"/a/../../b\" leads upwards",
        ),
        (
            r#"{"rootfs": {"diff_ids": [5]}}"#,
            "rootfs.diff_ids[0]: is a number, expected a text",
        ),
        (
            r#"{"config": {"cmd": [], "Cmd": []}}"#,
            "config.cmd: stands there in several spellings",
        ),
    ];
    for (json, expected) in cases {
        let error = read(json).unwrap_err().to_string();
        assert_eq!(error, format!("the image configuration: {expected}"));
    }
    let port = read(r#"{"config": {"ExposedPorts": {"0/tcp": {}}}}"#)
        .unwrap_err()
        .to_string();
    assert!(
        port.starts_with("the image configuration: config.exposedPorts.\"0/tcp\": "),
        "{port}"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(text in ".{0,200}") {
        let _ = read(&text);
        let _ = read(&format!(r#"{{"config": {{"Env": [{text}], "WorkingDir": "{text}"}}}}"#));
    }

    #[test]
    fn a_working_folder_never_leads_out(path in "[a./]{0,12}") {
        if let Ok(image) = read(&format!(r#"{{"config": {{"WorkingDir": "{path}"}}}}"#)) {
            prop_assert!(image.working_dir.starts_with('/'));
            prop_assert!(!image.working_dir.split('/').any(|part| part == ".."));
        }
    }
}
