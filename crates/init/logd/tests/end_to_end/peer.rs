//! journald and logd are given the same lines by the same clients, and journalctl finds no difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// How many lines each of the two takes.
const LINES: usize = 100_000;
const JOURNALD: &str = "/lib/systemd/systemd-journald";

/// Runs a log daemon and its clients in namespaces of their own; the journal files end up in `$2`.
const SCENE: &str = r#"
set -eu
daemon=$1 out=$2 text=$3 clients=$4 logd=$5
mount -t tmpfs none /run
mount -t tmpfs none /var/log
mount --bind /dev/null /dev/kmsg
mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/muster
cat > /run/systemd/journald.conf.d/all.conf <<END
[Journal]
Storage=volatile
RateLimitIntervalSec=0
RuntimeMaxUse=1G
RuntimeKeepFree=0
ReadKMsg=no
END
if [ "$daemon" = journald ]; then
    /lib/systemd/systemd-journald > /dev/null 2>&1 &
else
    cd /run/systemd/journal
    "$logd" --config /run/systemd/journald.conf.d/all.conf --syslog dev-log --native socket \
        --stdout stdout --varlink io.systemd.journal &
fi
for round in $(seq 500); do
    [ -S /run/systemd/journal/stdout ] && [ -S /run/systemd/journal/io.systemd.journal ] && break
    sleep 0.01
done
systemd-cat -t stream -p notice cat "$text"
python3 "$clients"
# journald answers a request to synchronise before it has looked at all of its sockets, and one to rotate before it is done.
said() { journalctl -q -D "$1" -o cat "_TRANSPORT=$2" -n 5 2>/dev/null | grep -aq "$3"; }
complete() { said "$1" syslog "the last" && said "$1" journal "the last" && said "$1" stdout "the end"; }
for round in $(seq 300); do
    complete /run/log/journal && break
    sleep 0.05
done
journalctl --sync
journalctl --rotate
for round in $(seq 100); do
    rm -rf "$out"/*
    cp -r /run/log/journal/. "$out"
    complete "$out/$(ls "$out")" && break
    sleep 0.05
done
"#;

/// Clients that write what well-behaved programs and others do.
const CLIENTS: &str = r##"
import socket, struct
syslog = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
syslog.connect("/run/systemd/journal/dev-log")
for datagram in [
    b"<13>Feb  3 04:05:06 tag[77]: usual",
    b"<30>daemon: without a time",
    b"no header at all",
    b"<6>kern facility: x",
    b"<191>local7: debug",
    b"<13>Feb 13 04:05:06 tag: newline\n",
    b"<13>tag:   three blanks",
    b"<13>tag: trailing blanks   \n",
    b"<13>tag: zero\0behind",
    b"<13>tag[x]: no number",
    b"<1234>tag: no priority",
    b"<13>",
    b"<13>tag:",
    b"<13>Feb  3 04:05:06 host tag: five words",
    "<13>tag: \u00fcml\u00e4ut \u2713".encode(),
    b"<13>tag: \xff\xfe",
    b"<13>tag: the last",
]:
    syslog.send(datagram)
native = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
native.connect("/run/systemd/journal/socket")
binary = b"two\nlines"
for datagram in [
    b"MESSAGE=native\nPRIORITY=5\nSYSLOG_IDENTIFIER=lib\nCODE_FILE=x.c\n",
    b"MESSAGE\n" + struct.pack("<Q", len(binary)) + binary + b"\nOTHER=1\n",
    b"MESSAGE=first\n\nMESSAGE=second\nPRIORITY=2\n",
    b"MESSAGE=forged\n_PID=1\n_UID=0\n__CURSOR=x\nlower=1\n9DIGIT=1\nFINE_1=1\n",
    b"# comment\nMESSAGE=comment\n.command\n",
    b"MESSAGE=twice\nMESSAGE=again\n",
    b"MESSAGE=same\nA=1\nA=1\n",
    b"PRIORITY=3\nNOTHING=to say\n",
    b"MESSAGE=bad priority\nPRIORITY=high\n",
    b"MESSAGE=no newline at the end",
    b"MESSAGE=the last\n",
]:
    native.send(datagram)
"##;

/// Lines of all kinds, the rest numbers.
fn text() -> Vec<u8> {
    let mut text = String::new();
    for line in [
        "plain",
        "<3>with a level",
        "<31>with a facility",
        "<x>no level",
        "  blanks around  ",
        "",
        "   ",
        "\ttab",
        "<7>",
        "<5> ",
        "\u{fc}ml\u{e4}ut \u{2713}",
    ] {
        let _ = writeln!(text, "{line}");
    }
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(b"zero\0behind\n\xff\xfe not UTF-8\n");
    for length in [48 << 10, (48 << 10) + 1, 100_000] {
        bytes.extend(std::iter::repeat_n(b'x', length));
        bytes.push(b'\n');
    }
    let rest = LINES - bytes.split(|byte| *byte == b'\n' || *byte == 0).count();
    for number in 0..rest {
        bytes.extend_from_slice(format!("line {number}\n").as_bytes());
    }
    bytes.extend_from_slice(b"the end without a newline");
    bytes
}

fn play(folder: &Path, daemon: &str) -> PathBuf {
    let out = folder.join(daemon);
    std::fs::create_dir(&out).expect("made");
    let output = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args([
            "--propagation",
            "private",
            "timeout",
            "120",
            "bash",
            "-c",
            SCENE,
            "scene",
        ])
        .arg(daemon)
        .args([&out, &folder.join("text"), &folder.join("clients.py")])
        .arg(env!("CARGO_BIN_EXE_muster-logd"))
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{daemon}: {text}");
    out
}

fn journalctl(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let inner = std::fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .next()
        .expect("a machine");
    let output = Command::new("journalctl")
        .arg("-D")
        .arg(inner.path())
        .args(["--no-pager", "-q", "-a"])
        .args(arguments)
        .output()
        .expect("journalctl");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "journalctl {arguments:?}: {text}");
    output.stdout
}

/// The entries of one transport without what differs from run to run.
fn entries(folder: &Path, matches: &[&str]) -> Vec<BTreeMap<String, Value>> {
    const VARYING: &[&str] = &["_PID", "_STREAM_ID", "_SOURCE_REALTIME_TIMESTAMP"];
    // Whether a client that ends soon is still there to be looked at is a matter of luck.
    const LUCK: &[&str] = &["_COMM", "_EXE", "_CMDLINE", "_CAP_EFFECTIVE"];
    let is_stream = matches.contains(&"_TRANSPORT=stdout");
    let varies = |name: &str| {
        name.starts_with("__") || VARYING.contains(&name) || is_stream && LUCK.contains(&name)
    };
    let text = journalctl(folder, &[matches, &["-o", "json"]].concat());
    String::from_utf8_lossy(&text)
        .lines()
        .map(|line| {
            let mut entry: BTreeMap<String, Value> = serde_json::from_str(line).expect("JSON");
            entry.retain(|name, _| !varies(name));
            entry
        })
        .collect()
}

#[test]
fn the_same_lines_give_the_same_answers_as_with_journald() {
    muster_lab::require!(Root);
    if !Path::new(JOURNALD).exists() {
        println!("the_same_lines_give_the_same_answers_as_with_journald: there is no {JOURNALD}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("text"), text()).expect("written");
    std::fs::write(folder.path().join("clients.py"), CLIENTS).expect("written");
    let theirs = play(folder.path(), "journald");
    let ours = play(folder.path(), "logd");
    journalctl(&ours, &["--verify"]);
    for matches in [
        vec!["_TRANSPORT=syslog"],
        vec!["_TRANSPORT=journal"],
        vec!["_TRANSPORT=stdout", "-n", "300"],
        vec!["_TRANSPORT=stdout", "-p", "3"],
        vec![
            "_TRANSPORT=stdout",
            "_LINE_BREAK=line-max",
            "_LINE_BREAK=nul",
            "_LINE_BREAK=eof",
        ],
    ] {
        let (theirs, ours) = (entries(&theirs, &matches), entries(&ours, &matches));
        for (theirs, ours) in theirs.iter().zip(&ours) {
            assert_eq!(theirs, ours, "{matches:?}");
        }
        assert_eq!(theirs.len(), ours.len(), "{matches:?}");
        assert!(!ours.is_empty(), "{matches:?}");
    }
    let all = ["_TRANSPORT=stdout", "-o", "cat"];
    let (theirs, ours) = (journalctl(&theirs, &all), journalctl(&ours, &all));
    assert!(
        theirs == ours,
        "{} and {} bytes of text differ",
        theirs.len(),
        ours.len()
    );
}
