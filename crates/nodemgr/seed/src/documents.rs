//! Documents of cloud-init.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_mapping::MachineSpec;
use muster_provider::{MachineId, SshSeed};
use serde_json::json;

/// Who commands are run as where nobody says.
pub const DEFAULT_USER: &str = "muster";
const ROOT: &str = "root";
/// How the template's own document is joined with ours: lists grow, and nothing of ours is replaced.
const MERGE: &str = "list(append)+dict(no_replace,recurse_list)+str()";
const LINE: usize = 76;

/// What the machine is called.
#[must_use]
pub fn meta_data(machine: &MachineId) -> String {
    // JSON is YAML, and needs no thought about quotes.
    let document = json!({ "instance-id": machine.as_str(), "local-hostname": machine.as_str() });
    format!("{document}\n")
}

/// Who may log in, which keys the machine has, and whatever the template says beside that.
#[must_use]
pub fn user_data(spec: &MachineSpec, seed: &SshSeed) -> String {
    let ours = format!("#cloud-config\n{}\n", keys(seed));
    match spec.user_data.as_deref() {
        None | Some("") => ours,
        Some(theirs) => join(&ours, theirs),
    }
}

fn keys(seed: &SshSeed) -> serde_json::Value {
    let mut user = json!({
        "name": seed.user,
        "ssh_authorized_keys": seed.authorized_keys,
        "lock_passwd": true,
    });
    if seed.user != ROOT {
        user["sudo"] = json!("ALL=(ALL) NOPASSWD:ALL");
        user["shell"] = json!("/bin/sh");
    }
    json!({
        "users": [user],
        "disable_root": seed.user != ROOT,
        "ssh_pwauth": false,
        // Keys that came with the image are known to everybody who has the image.
        "ssh_deletekeys": true,
        "ssh_keys": {
            "ed25519_private": seed.host_private.reveal(),
            "ed25519_public": seed.host_public,
        },
    })
}

/// Both as parts of one message, ours first.
fn join(ours: &str, theirs: &str) -> String {
    let boundary = boundary(theirs);
    let mut message =
        format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\nMIME-Version: 1.0\n\n");
    message.push_str(&format!(
        "--{boundary}\n{}",
        part("cloud-config", None, ours)
    ));
    let theirs = match is_message(theirs) {
        // A message within a message stands as it is: its own headers say what it is.
        true => format!("{theirs}\n"),
        false => {
            let (kind, merge) = kind(theirs);
            part(kind, merge, theirs)
        }
    };
    message.push_str(&format!("--{boundary}\n{theirs}--{boundary}--\n"));
    message
}

fn part(kind: &str, merge: Option<&str>, text: &str) -> String {
    let merge = merge.map_or_else(String::new, |how| format!("Merge-Type: {how}\n"));
    let body = STANDARD.encode(text);
    let mut lines = String::with_capacity(body.len() + body.len() / LINE + 1);
    for begin in (0..body.len()).step_by(LINE) {
        lines.push_str(&body[begin..body.len().min(begin + LINE)]);
        lines.push('\n');
    }
    format!(
        "Content-Type: text/{kind}; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\n{merge}\n{lines}"
    )
}

/// What cloud-init makes of a document, by how it begins.
fn kind(text: &str) -> (&'static str, Option<&'static str>) {
    const KINDS: [(&str, &str); 6] = [
        ("#!", "x-shellscript"),
        ("#cloud-boothook", "cloud-boothook"),
        ("#include", "x-include-url"),
        ("#upstart-job", "upstart-job"),
        ("#part-handler", "part-handler"),
        ("## template: jinja", "jinja2"),
    ];
    let known = KINDS.iter().find(|(begin, _)| text.starts_with(begin));
    known.map_or(("cloud-config", Some(MERGE)), |&(_, kind)| (kind, None))
}

fn is_message(text: &str) -> bool {
    let begin = text.get(..13).unwrap_or_default();
    begin.eq_ignore_ascii_case("content-type:") || text.starts_with("MIME-Version:")
}

/// A line that the other document does not have.
fn boundary(theirs: &str) -> String {
    let mut number = 0_u32;
    loop {
        let boundary = format!("==muster-{number}==");
        if !theirs.contains(&boundary) {
            return boundary;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use muster_provider::ClientToken;
    use proptest::prelude::*;

    use super::*;
    use crate::ManagerKeys;

    fn seed(user: &str) -> SshSeed {
        let spec = MachineSpec {
            user: Some(user.to_owned()),
            ..MachineSpec::default()
        };
        ManagerKeys::from_secret(&[9; 32]).seed(&ClientToken::new("order").unwrap(), &spec)
    }

    fn with(user_data: &str) -> String {
        let spec = MachineSpec {
            user_data: Some(user_data.to_owned()),
            ..MachineSpec::default()
        };
        user_data_of(&spec)
    }

    fn user_data_of(spec: &MachineSpec) -> String {
        user_data(spec, &seed("builder"))
    }

    #[test]
    fn a_machine_is_told_its_keys_and_its_user() {
        let text = user_data_of(&MachineSpec::default());
        let json = text.strip_prefix("#cloud-config\n").unwrap();
        let told: serde_json::Value = serde_json::from_str(json).unwrap();
        let seed = seed("builder");
        assert_eq!(told["users"][0]["name"], "builder");
        assert_eq!(
            told["users"][0]["ssh_authorized_keys"][0],
            *seed.authorized_keys[0]
        );
        assert_eq!(
            told["ssh_keys"]["ed25519_private"],
            seed.host_private.reveal()
        );
        assert_eq!(told["disable_root"], true);
        let root = keys(&super::tests::seed("root"));
        assert_eq!(root["disable_root"], false);
        assert!(root["users"][0].get("sudo").is_none());
    }

    #[test]
    fn a_document_of_the_template_is_a_second_part_of_its_own_kind() {
        let cases = [
            ("#cloud-config\npackages: [git]\n", "text/cloud-config"),
            ("#!/bin/sh\ntrue\n", "text/x-shellscript"),
            ("#include\nhttp://x\n", "text/x-include-url"),
        ];
        for (document, kind) in cases {
            let text = with(document);
            assert!(text.contains(kind), "{text}");
            assert!(text.contains(&STANDARD.encode(document)), "{text}");
        }
        let merged = with("#cloud-config\nusers: [default]\n");
        assert!(merged.contains("Merge-Type: list(append)"), "{merged}");
        let message = "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\n\n--x--\n";
        assert!(with(message).contains(message));
    }

    proptest! {
        #[test]
        fn no_document_ends_the_message_early(theirs in "(==muster-[0-9]==|[a-z\n-]){0,40}") {
            let text = with(&theirs);
            if !theirs.is_empty() {
                let line = text.lines().next().unwrap();
                let boundary = line.split('"').nth(1).unwrap();
                prop_assert_eq!(text.matches(&format!("--{boundary}\n")).count(), 2);
                prop_assert!(!theirs.contains(boundary));
            }
        }
    }
}
