//! Whoever uses a machine keeps it, whatever happens to the manager.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::rig::{Site, until};

#[test]
fn a_session_and_a_command_are_known_to_a_manager_that_was_started_anew() {
    let mut site = Site::new();
    site.run(&["provision", "-p", "local", "--name", "here"])
        .ok();
    let script = "echo up; read line; echo $line";
    let ssh = ["ssh", "here", "--", "sh", "-c", script];
    let exec = ["exec", "-i", "here", "--", "sh", "-c", script];
    let counts = |site: &Site| {
        let shown = site.json(&["show", "here"]);
        (shown["sessions"].as_u64(), shown["commands"].as_u64())
    };
    let mut used: Vec<_> = [&ssh[..], &exec]
        .into_iter()
        .map(|words| {
            let mut command = site.command(words);
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
            assert_eq!(output.next().unwrap().unwrap(), "up");
            (child, output)
        })
        .collect();
    assert_eq!(counts(&site), (Some(1), Some(1)));
    // Twice: who came back once can do so again.
    for _ in 0..2 {
        site.kill();
        site.start();
        until("both are known again", || {
            counts(&site) == (Some(1), Some(1))
        });
    }
    for (child, output) in &mut used {
        child.stdin.take().unwrap().write_all(b"bye\n").unwrap();
        assert_eq!(output.next().unwrap().unwrap(), "bye", "it ran on");
        assert!(child.wait().unwrap().success());
    }
    until("nobody uses it", || counts(&site) == (Some(0), Some(0)));
}
