//! Who gets a folder, and who waits for it how long.

use std::sync::mpsc;

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn is_ours(claim: &Claim) -> bool {
    matches!(claim, Claim::Ours(_))
}

#[test]
fn one_command_fills_a_folder_and_the_next_waits_for_it() {
    let all = tempfile::tempdir().expect("a folder");
    let path = all.path().join("x.service");
    let first = take(&path, LONG).expect("nobody else is there");
    assert!(is_ours(&first));
    let mode = path.metadata().expect("it is made").mode();
    assert_eq!(mode & 0o7777, MODE, "nobody else can open and lock it");
    let late = take(&path, Duration::ZERO).err();
    assert_eq!(late, Some(Errno::TIMEDOUT), "no wait is without an end");
    let (say, said) = mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let second = take(&path, LONG);
            say.send(second.is_ok_and(|claim| is_ours(&claim)))
        });
        assert!(said.try_recv().is_err(), "it waits");
        drop(first);
        assert_eq!(said.recv(), Ok(true));
    });
}

#[test]
fn a_folder_that_was_put_away_meanwhile_is_made_again() {
    let all = tempfile::tempdir().expect("a folder");
    let path = all.path().join("x.service");
    let first = take(&path, LONG).expect("nobody else is there");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| take(&path, LONG));
        std::fs::remove_dir(&path).expect("it is empty");
        drop(first);
        let second = second.join().expect("no panic").expect("it is made again");
        assert!(is_ours(&second) && path.is_dir());
    });
}

#[test]
fn folders_of_other_units_are_not_waited_for() {
    let all = tempfile::tempdir().expect("a folder");
    let held = take(&all.path().join("server.service"), LONG);
    let other = take(&all.path().join("client.service"), Duration::ZERO);
    assert!(held.is_ok_and(|claim| is_ours(&claim)));
    assert!(other.is_ok_and(|claim| is_ours(&claim)));
}
