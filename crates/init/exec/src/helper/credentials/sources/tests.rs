//! Which source wins, and what is too much.

use super::*;

fn sandbox(credentials: Vec<Credential>) -> Sandbox {
    Sandbox {
        unit: "x.service".into(),
        credentials,
        ..Sandbox::default()
    }
}

fn credential(name: &str, source: CredentialSource) -> Credential {
    Credential {
        name: name.into(),
        source,
    }
}

fn data(text: &str) -> CredentialSource {
    CredentialSource::Data(text.as_bytes().to_vec())
}

fn path(path: &Path) -> CredentialSource {
    CredentialSource::Path(path.to_str().expect("a plain path").into())
}

fn gathered(credentials: Vec<Credential>) -> Vec<(String, String)> {
    let secrets = gather(&sandbox(credentials)).expect("all is there");
    let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
    secrets
        .iter()
        .map(|secret| (secret.name.clone(), text(&secret.data)))
        .collect()
}

fn pair(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn a_file_wins_over_data_wherever_it_stands() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("secret");
    std::fs::write(&file, "of the file").expect("it is ours");
    let both = vec![
        credential("a", data("of the unit")),
        credential("a", path(&file)),
        credential("b", data("only data")),
    ];
    let expected = [pair("a", "of the file"), pair("b", "only data")];
    assert_eq!(gathered(both), expected);
}

#[test]
fn data_is_the_default_for_a_file_that_is_missing() {
    let missing = path(Path::new("/no/such/secret"));
    let with_default = vec![credential("a", missing.clone()), credential("a", data("x"))];
    assert_eq!(gathered(with_default), [pair("a", "x")]);
    let error = gather(&sandbox(vec![credential("a", missing)]))
        .err()
        .expect("it is missing");
    assert_eq!(error.step, Step::Credentials);
    assert!(error.detail.contains("/no/such/secret"), "{error}");
}

#[test]
fn a_folder_stands_for_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("deep")).expect("it is ours");
    std::fs::write(folder.path().join("one"), "1").expect("it is ours");
    std::fs::write(folder.path().join("deep/two"), "2").expect("it is ours");
    let found = gathered(vec![credential("all", path(folder.path()))]);
    assert_eq!(found, [pair("all_deep_two", "2"), pair("all_one", "1")]);
}

#[test]
fn what_the_system_has_is_found_by_name_and_pattern() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("muster.test.a"), "A").expect("it is ours");
    std::fs::write(folder.path().join("muster.test.b"), "B").expect("it is ours");
    std::fs::write(folder.path().join("other"), "C").expect("it is ours");
    let stored = |credentials| Sandbox {
        credential_stores: vec![folder.path().to_str().expect("a plain path").into()],
        ..sandbox(credentials)
    };
    let named = |name: &str| CredentialSource::System(name.into());
    let secrets = gather(&stored(vec![
        credential("mine", named("other")),
        credential("none", named("muster.no.such.credential")),
        credential("muster.test.*", CredentialSource::Matching),
    ]));
    let names = secrets.expect("a missing one is no error").into_iter();
    let names: Vec<String> = names.map(|secret| secret.name).collect();
    assert_eq!(names, ["mine", "muster.test.a", "muster.test.b"]);
    let outside = gather(&stored(vec![credential("x", named("../x"))]));
    assert!(outside.is_err(), "a name must not leave the folder");
}

#[test]
fn what_the_system_has_gets_another_name_where_one_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["muster.old.a", "muster.old.b", "muster.single"] {
        std::fs::write(folder.path().join(name), name).expect("it is ours");
    }
    let renamed = |start: &str| CredentialSource::Renamed(start.into());
    let secrets = gather(&Sandbox {
        credential_stores: vec![folder.path().to_str().expect("a plain path").into()],
        ..sandbox(vec![
            credential("muster.old.*", renamed("new.")),
            credential("muster.single", renamed("one")),
            // That name is taken: the first one has it.
            credential("muster.old.b", renamed("new.a")),
        ])
    });
    let secrets = secrets.expect("all is there").into_iter();
    let secrets = secrets.map(|secret| (secret.name, String::from_utf8_lossy(&secret.data).into()));
    let expected = [
        pair("new.a", "muster.old.a"),
        pair("new.b", "muster.old.b"),
        pair("one", "muster.single"),
    ];
    assert_eq!(secrets.collect::<Vec<(String, String)>>(), expected);
}

/// What does not fit counts for nothing, and what fits is never cut off in silence.
#[test]
fn a_folder_of_more_than_a_unit_may_have_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..=MAX_FILES {
        std::fs::write(folder.path().join(format!("many.{number}")), "").expect("it is ours");
    }
    std::fs::write(folder.path().join("muster.few"), "").expect("it is ours");
    let gathered = |credentials| {
        gather(&Sandbox {
            credential_stores: vec![folder.path().to_str().expect("a plain path").into()],
            ..sandbox(credentials)
        })
    };
    let few = gathered(vec![credential("muster.f*", CredentialSource::Matching)]);
    assert_eq!(few.map(|secrets| secrets.len()).ok(), Some(1));
    for all in [
        credential("many.*", CredentialSource::Matching),
        credential("x", path(folder.path())),
    ] {
        let error = gathered(vec![all]).err().expect("they are too many");
        assert_eq!(error.source.raw_os_error(), Some(libc::E2BIG));
    }
}

#[test]
fn a_service_is_asked_and_told_for_whom() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&place).expect("it is ours");
    let served = std::thread::spawn(move || {
        use std::os::linux::net::SocketAddrExt;
        let (mut stream, address) = listener.accept().expect("it is asked");
        std::io::Write::write_all(&mut stream, b"from afar").expect("it reads");
        String::from_utf8_lossy(address.as_abstract_name().expect("a name")).into_owned()
    });
    let found = gathered(vec![credential("key", path(&place))]);
    assert_eq!(found, [pair("key", "from afar")]);
    let asked = served.join().expect("it served");
    assert!(asked.ends_with("/unit/x.service/key"), "{asked}");
}

#[test]
fn all_together_are_bounded() {
    let half = "x".repeat(MAX_TOTAL / 2);
    let two = vec![credential("a", data(&half)), credential("b", data(&half))];
    assert_eq!(gathered(two.clone()).len(), 2);
    let mut three = two;
    three.push(credential("c", data("x")));
    assert!(gather(&sandbox(three)).is_err());
    let endless = vec![credential("zero", path(Path::new("/dev/zero")))];
    assert!(gather(&sandbox(endless)).is_err());
}

#[test]
fn names_are_those_of_files() {
    for name in ["", ".", "..", "a/b", "a\nb"] {
        let refused = gather(&sandbox(vec![credential(name, data("x"))]));
        assert!(refused.is_err(), "{name:?}");
    }
}
