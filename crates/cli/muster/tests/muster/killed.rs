//! Commands that are killed at every lasting step are finished by running them again.

use muster_fault::{Action, Trial, matrix};
use muster_pki::{FAULT_POINTS as AUTHORITY_POINTS, Snapshot};

use super::rig::{Run, Site, run};

fn armed(site: &Site, trial: &Trial, nth: u64, arguments: &[&str]) -> Run {
    let mut command = site.command(arguments);
    trial.arm_at(&mut command, nth, Action::Kill);
    run(&mut command)
}

/// Points of provisioning: those of the command, and those of issuing.
fn provisioning_points() -> Vec<muster_fault::Point> {
    let issuing = [
        "pki.signed",
        "pki.record-torn",
        "pki.record-written",
        "pki.recorded",
    ];
    let of_authority = AUTHORITY_POINTS
        .iter()
        .filter(|point| issuing.contains(&point.name()));
    let own = muster_cli::FAULT_POINTS
        .iter()
        .filter(|point| **point != muster_cli::KEY_FILE_WRITTEN);
    own.chain(of_authority).copied().collect()
}

#[test]
fn provisioning_killed_at_any_step_is_finished_by_the_next_run() {
    let site = Site::new();
    let _daemon = site.iam();
    matrix(&provisioning_points(), |trial| {
        let killed = armed(&site, trial, 1, &["node", "provision"]);
        trial.assert_killed(killed.status);
        let state = site.run(&["node", "show", "-o", "json"]).json();
        assert_eq!(state["state"], "unprovisioned", "{}", trial.point());
        let done = site.run(&["node", "provision", "-o", "json"]).json();
        assert_eq!(done[0]["state"], "provisioned", "{}", trial.point());
        let issued = Snapshot::read(&site.path("pki")).expect("readable");
        for cert in done[0]["certificates"].as_array().expect("a list") {
            let serial = cert["serial"]
                .as_str()
                .expect("text")
                .parse()
                .expect("a serial number");
            assert!(
                issued.ledger().get(serial).is_some(),
                "{}: {serial}",
                trial.point()
            );
        }
        site.run(&["node", "deprovision", "main"]).ok();
    });
}

#[test]
fn a_renewal_killed_between_key_and_certificate_is_finished_by_the_next_run() {
    let points = [muster_cli::KEY_FILE_WRITTEN];
    matrix(&points, |trial| {
        let site = Site::new();
        site.run(&["pki", "issue", "--node", "desk", "--role", "operator"])
            .ok();
        let (cert, key) = (
            site.text("desk-operator.crt.pem"),
            site.text("desk-operator.key.pem"),
        );
        let killed = armed(&site, trial, 1, &["pki", "renew", "desk-operator.crt.pem"]);
        trial.assert_killed(killed.status);
        let new_key = site.text("desk-operator.key.pem");
        assert_ne!(new_key, key);
        assert_eq!(site.text("desk-operator.crt.pem"), cert);
        // Even though nothing is due: the two do not belong together.
        let done = site
            .run(&[
                "pki",
                "renew",
                "desk-operator.crt.pem",
                "--due",
                "30d",
                "-o",
                "json",
            ])
            .json();
        assert_eq!(done[0]["renewed"], true);
        assert_eq!(site.text("desk-operator.key.pem"), new_key);
        let kept = site
            .run(&[
                "pki",
                "renew",
                "desk-operator.crt.pem",
                "--due",
                "30d",
                "-o",
                "json",
            ])
            .json();
        assert_eq!(kept[0]["renewed"], false);
    });
}
