use super::*;

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[test]
fn every_common_field_keeps_a_good_value_in_one_form() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA== me@here";
    for (name, written, kept) in [
        ("image", text("ubuntu:24.04"), text("ubuntu:24.04")),
        ("user", text("ubuntu"), text("ubuntu")),
        ("cpu", Value::Integer(2), Value::Integer(2)),
        ("cpus", Value::Integer(4096), Value::Integer(4096)),
        ("memoryMB", Value::Integer(256), Value::Integer(256)),
        ("diskGB", Value::Integer(3), Value::Integer(3072)),
        ("diskMB", Value::Integer(1), Value::Integer(1)),
        ("arch", text("x86_64"), text("amd64")),
        ("region", text("eu-central-1"), text("eu-central-1")),
        ("ssh_keys", text(key), Value::List(vec![text(key)])),
        (
            "sshKeys",
            Value::List(vec![text(key)]),
            Value::List(vec![text(key)]),
        ),
        (
            "user-data",
            text("#cloud-config\n"),
            text("#cloud-config\n"),
        ),
    ] {
        assert!(common(name).is_some(), "{name}");
        assert_eq!(check_common(name, written), Ok(kept), "{name}");
        assert_eq!(check_common(name, Value::Null), Ok(Value::Null), "{name}");
    }
}

#[test]
fn a_bad_value_is_refused_in_words_that_help() {
    for (name, value, words) in [
        (
            "cpus",
            Value::Integer(0),
            "0 processors make no machine; leave the field out",
        ),
        (
            "cpus",
            Value::Integer(-1),
            "-1 is not from 1 to 4096 processors",
        ),
        ("cpus", text("2"), "write 2 without quotes"),
        (
            "memoryMB",
            Value::Integer(0),
            "0 MiB of memory make no machine",
        ),
        ("diskGB", Value::Integer(i64::MAX), "is not from 1 to"),
        (
            "diskMB",
            Value::Bool(true),
            "is a truth value, not a whole number of MiB of disk",
        ),
        ("image", text(""), "must not be empty"),
        ("image", Value::Integer(24), "put it in quotes"),
        ("user", text("0"), "a user's name begins with"),
        ("arch", text("amd"), "did you mean `amd64`?"),
        ("region", text("eu central"), "has no spaces"),
        (
            "sshKeys",
            text("-----BEGIN OPENSSH PRIVATE KEY-----"),
            "this is a private key",
        ),
        (
            "sshKeys",
            Value::List(vec![text("ssh-dss AAAA")]),
            "key 1: not a public key",
        ),
        ("userData", text("\0"), "no control characters"),
    ] {
        let message = check_common(name, value).expect_err(name);
        assert!(message.contains(words), "{name}: {message}");
    }
}

#[test]
fn a_private_key_is_never_repeated_in_a_message() {
    let message = check_common("sshKeys", text("PRIVATE KEY hunter2")).expect_err("private");
    assert!(!message.contains("hunter2"));
}

#[test]
fn only_what_is_nearly_a_known_field_counts_as_misspelt() {
    for (name, meant) in [
        ("memoryMb", "memoryMB"),
        ("memory_mb", "memoryMB"),
        ("memoyMB", "memoryMB"),
        ("amiLookup", "ami_lookup"),
        ("imgae", "image"),
        ("lables", "labels"),
        ("CPUS", "cpus"),
    ] {
        assert_eq!(misspelt(name), Some(meant), "{name}");
    }
    for name in [
        "cpus",
        "cpu",
        "image_type",
        "labels",
        "instance_type",
        "shm_size",
        "isos",
        "net",
    ] {
        assert_eq!(misspelt(name), None, "{name}");
    }
}

#[test]
fn labels_are_text_with_plain_keys() {
    assert_eq!(check_label("team/tier", text("a b")), Ok(text("a b")));
    assert_eq!(check_label("a", Value::Null), Ok(Value::Null));
    assert!(
        check_label("a", Value::Integer(1))
            .expect_err("a number")
            .contains("quotes")
    );
    for key in ["", "-a", "a.", "ä", "a b"] {
        assert!(check_label(key, text("x")).is_err(), "{key}");
    }
}
