//! `kill -9` at every fault point: no byte is lost, and none counted twice.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use muster_fault::{Trial, matrix, test_program};
use muster_firewall::{Change, Firewall, Nft};
use muster_traffic::FAULT_POINTS;

use crate::flood;
use crate::rig::{self, OUTSIDE, Rig};

/// Lets the keeper count one flood. Answers how it ended, whether the flood was sent while it counted, and what it said in the end.
fn keeper(
    rig: &Rig,
    folder: &Path,
    end: &str,
    trial: Option<&Trial>,
) -> (ExitStatus, u64, Option<u64>) {
    let mut command = rig.host("node").command(test_program("traffic_keeper"));
    command
        .arg(folder.join("sm.db"))
        .arg(folder.join("lock"))
        .arg(end)
        .env_remove("MUSTER_FAULT")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if let Some(trial) = trial {
        trial.arm(&mut command);
    }
    let mut child = command.spawn().expect("the keeper starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut sent = 0;
    let mut last = None;
    if let Some(Ok(line)) = lines.next() {
        assert_eq!(line, "counting");
        sent = flood(rig.host("a"), OUTSIDE, 100);
        let _ = child.stdin.take().expect("a pipe").write_all(b"go on\n");
        last = lines.next().and_then(Result::ok);
    }
    let upload = last.map(|line| {
        line.split(' ')
            .nth(1)
            .expect("two numbers")
            .parse()
            .expect("a number")
    });
    (child.wait().expect("its end"), sent, upload)
}

#[test]
fn a_kill_at_any_point_loses_no_byte() {
    muster_lab::require!(Root, NetNs);
    matrix(FAULT_POINTS, |trial| {
        let rig = Rig::new();
        let folder = tempfile::tempdir().expect("a folder");
        let rules = [
            Change::PutNetwork(rig::network("br1")),
            Change::PutInstance(rig::policy("a")),
        ];
        rig.on_node(&Firewall::with(Nft::new()), |firewall| {
            firewall.apply(&rules)
        })
        .expect("rules");

        let (status, first, _) = keeper(&rig, folder.path(), "stop", None);
        assert!(status.success());
        let (status, second, _) = keeper(&rig, folder.path(), "remove", Some(trial));
        trial.assert_killed(status);
        let (status, third, counted) = keeper(&rig, folder.path(), "stop", None);
        assert!(status.success());
        assert_eq!(counted, Some(first + second + third), "{}", trial.point());
    });
}
