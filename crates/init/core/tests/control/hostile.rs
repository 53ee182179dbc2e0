//! Clients that may not, cannot or do not want to behave.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use muster_control::manager::{SubmitCall, error, method};

use crate::rig::Rig;

fn rig(test: &str) -> Option<Rig> {
    Rig::boot(test, |machine| {
        machine.unit("a.service", "[Service]\nExecStart=/bin/sleep 1000\n")
    })
}

/// What another user is answered.
fn as_nobody(rig: &Rig, call: &str) -> String {
    let script = "use Socket; $) = $( = 65534; $> = $< = 65534; \
                  socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die; connect($s, sockaddr_un($ARGV[0])) or die $!; \
                  syswrite($s, $ARGV[1] . \"\\0\"); local $/ = \"\\0\"; print scalar <$s>";
    let output = rig
        .run([
            "/usr/bin/perl",
            "-e",
            script,
            "/run/muster/io.muster.Manager",
            call,
        ])
        .expect("perl is part of Debian's base");
    assert!(output.status.success(), "{}", output.stderr);
    output.stdout
}

#[test]
fn others_may_look_and_not_change_anything() {
    let Some(rig) = rig("others_may_look_and_not_change_anything") else {
        return;
    };
    for (name, parameters) in [
        ("Machine", "{}"),
        ("ListUnits", "{}"),
        ("ListJobs", "{}"),
        ("Status", r#"{"unit":"default.target"}"#),
        ("Show", r#"{"unit":"default.target"}"#),
        ("Why", r#"{"unit":"default.target"}"#),
        ("Environment", "{}"),
    ] {
        let call = format!(r#"{{"method":"io.muster.Manager.{name}","parameters":{parameters}}}"#);
        let answer = as_nobody(&rig, &call);
        assert!(!answer.contains("\"error\""), "{name}: {answer}");
    }
    let before = rig.machine_status();
    for (name, parameters) in [
        ("Submit", r#"{"unit":"a.service","verb":"start"}"#),
        ("Cancel", "{}"),
        ("Kill", r#"{"unit":"a.service","signal":9}"#),
        ("Freeze", r#"{"unit":"a.service","frozen":true}"#),
        ("Clean", r#"{"unit":"a.service"}"#),
        ("ResetFailed", "{}"),
        (
            "SetProperty",
            r#"{"unit":"a.service","properties":[["Nice","5"]]}"#,
        ),
        (
            "StartTransient",
            r#"{"unit":"x.service","properties":[["ExecStart","/bin/true"]]}"#,
        ),
        ("Reload", "{}"),
        ("Reexec", "{}"),
        ("Shutdown", r#"{"how":"poweroff"}"#),
        ("Environment", r#"{"set":["A=1"]}"#),
    ] {
        let call = format!(r#"{{"method":"io.muster.Manager.{name}","parameters":{parameters}}}"#);
        let answer = as_nobody(&rig, &call);
        assert!(answer.contains(error::NOT_PERMITTED), "{name}: {answer}");
    }
    let after = rig.machine_status();
    assert_eq!(
        (before.units, before.core_pid),
        (after.units, after.core_pid)
    );
}

#[test]
fn ten_thousand_connections_do_not_stall_the_manager() {
    let Some(rig) = rig("ten_thousand_connections_do_not_stall_the_manager") else {
        return;
    };
    let socket = rig.socket();
    let mut open = VecDeque::new();
    let mut slowest = Duration::ZERO;
    for n in 0..10_000 {
        open.push_back(UnixStream::connect(&socket).unwrap());
        if open.len() > 3000 {
            open.pop_front();
        }
        if n % 1000 == 500 {
            let from = Instant::now();
            let verb = if n % 2000 == 500 { "start" } else { "stop" };
            assert_eq!(rig.job("a.service", verb).result.as_deref(), Some("done"));
            slowest = slowest.max(from.elapsed());
        }
    }
    println!("slowest job among the crowd: {slowest:?}");
    assert!(slowest < Duration::from_secs(3), "{slowest:?}");
}

#[test]
fn garbage_halves_and_slow_readers_do_not_stall_the_manager() {
    let Some(rig) = rig("garbage_halves_and_slow_readers_do_not_stall_the_manager") else {
        return;
    };
    let connect = || UnixStream::connect(rig.socket()).unwrap();
    let mut halves: Vec<UnixStream> = (0..200).map(|_| connect()).collect();
    for half in &mut halves {
        half.write_all(b"{\"method\":\"io.muster.Mana").unwrap();
    }
    // Readers that ask for much and read nothing.
    let lists =
        "{\"method\":\"io.muster.Manager.ListUnits\",\"parameters\":{\"all\":true}}\0".repeat(500);
    let mut lazy: Vec<UnixStream> = (0..100).map(|_| connect()).collect();
    for reader in &mut lazy {
        reader.set_nonblocking(true).unwrap();
        // What does not fit is not sent: it is the manager's queue that is to be filled.
        let _ = reader.write(lists.as_bytes());
    }
    for garbage in [
        "\0",
        "[]\0",
        "{\"method\":1}\0",
        "{\"method\":\"io.muster.Manager.Status\",\"parameters\":[]}\0",
    ] {
        let mut stream = connect();
        stream.write_all(garbage.as_bytes()).unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        assert!(told.contains("MalformedCall"), "{told}");
    }
    let from = Instant::now();
    assert_eq!(
        rig.job("a.service", "start").result.as_deref(),
        Some("done")
    );
    let took = from.elapsed();
    println!("a job among them: {took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    let unknown = rig.refused("io.muster.Manager.Frobnicate", &SubmitCall::default());
    assert_eq!(unknown.0, "org.varlink.service.MethodNotFound");
    let once = rig.refused(method::SUBSCRIBE, &serde_json::json!({}));
    assert_eq!(once.0, "org.varlink.service.ExpectedMore");
}
