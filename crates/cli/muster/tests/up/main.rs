//! `muster up` and `muster down` on a whole machine: what a newcomer does first, and everything that can go wrong with it.

/// Ends the test here, with a line that says why, where no Unit of two nodes can run; `$more` is needed besides.
macro_rules! require_unit {
    ($($more:expr),*) => {
        muster_lab::require!(
            Root,
            Cgroup2,
            NetNs,
            Tool("nft"),
            Tool("runc"),
            File("/usr/lib/cni/bridge"),
            $($more),*
        )
    };
}

mod impatient;
mod install;
mod join;
mod rig;
mod rootless;

use std::time::Duration;

use serde_json::Value;

use rig::{Site, TIME};

/// A link that is cut is noticed by keepalives, which take some seconds.
const LINK_TIME: Duration = Duration::from_secs(120);

/// What the demo is, by name, with state and version.
pub(crate) fn all_active(instances: &[Value]) -> bool {
    instances.len() == 3 && instances.iter().all(|it| it["state"] == "active")
}

/// Everything that a visitor is told to try, and everything that is promised to heal.
#[test]
fn a_unit_comes_up_heals_by_itself_and_leaves_nothing() {
    require_unit!(Tool("curl"));
    let site = Site::boot();
    let before = site.picture();
    let said = site.up(&[]);
    assert!(said.contains("muster down"), "{said}");

    let instances = site.instances();
    assert!(all_active(&instances), "{instances:#?}");
    let nodes: Vec<&str> = instances
        .iter()
        .filter_map(|it| it["node"].as_str())
        .collect();
    assert!(
        nodes.contains(&"main") && nodes.contains(&"second"),
        "{nodes:?}"
    );
    for web in instances.iter().filter(|it| it["item"] == "web") {
        let answer = site.curl(web);
        assert!(answer.starts_with("Hello!"), "{answer}");
    }
    site.wait_until("the worker is answered", TIME, |site| {
        site.worker_log().contains("says: Hello!")
    });

    // A process of the demo dies: that one comes back, the others are not touched.
    let pids = site.demo_pids();
    let victim = *pids["muster-demo-web"]
        .iter()
        .next()
        .expect("a web service");
    site.kill9(victim);
    site.wait_until("another web service", TIME, |site| {
        let now = site.demo_pids();
        let web = &now["muster-demo-web"];
        web.len() == 2 && !web.contains(&victim) && all_active(&site.instances())
    });
    let pids_after = site.demo_pids();
    assert_eq!(pids["muster-demo-wor"], pids_after["muster-demo-wor"]);
    assert_eq!(
        pids["muster-demo-web"]
            .intersection(&pids_after["muster-demo-web"])
            .count(),
        1
    );

    // Every manager dies, one after the other: nothing that runs is touched.
    let pids = site.demo_pids();
    for daemon in [
        "muster-sm",
        "muster-cm",
        "muster-iam",
        "muster-core",
        "muster-logd",
    ] {
        for old in site.pids_of(daemon) {
            site.kill9(old);
            site.wait_until(&format!("another {daemon}"), TIME, |site| {
                let now = site.pids_of(daemon);
                !now.contains(&old) && !now.is_empty()
            });
        }
        site.wait_until(
            &format!("the Unit is well without the old {daemon}"),
            TIME,
            Site::is_well,
        );
        assert_eq!(site.demo_pids(), pids, "after the death of {daemon}");
    }

    // The link between the nodes is cut and comes back.
    let link = site.link();
    site.machine_ok(&["ip", "link", "set", &link, "down"]);
    site.wait_until("the second node is missed", LINK_TIME, |site| {
        !site.is_connected("second")
    });
    assert_eq!(site.demo_pids(), pids, "a node goes on by itself");
    site.machine_ok(&["ip", "link", "set", &link, "up"]);
    site.wait_until("the second node is back", LINK_TIME, Site::is_well);
    assert_eq!(site.demo_pids(), pids, "nothing was started anew for it");

    // A change of the file changes what it says, and nothing else.
    let workers = site.demo_pids()["muster-demo-wor"].clone();
    site.edit_desired("GREETING: Hello", "GREETING: Ahoy");
    let done = site.muster(&["apply", "--wait", rig::DESIRED]);
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    site.wait_until("the web service says something else", TIME, |site| {
        let instances = site.instances();
        let mut webs = instances.iter().filter(|it| it["item"] == "web");
        all_active(&instances) && webs.all(|web| site.curl(web).starts_with("Ahoy!"))
    });
    assert_eq!(site.demo_pids()["muster-demo-wor"], workers);
    let webs = site.demo_pids()["muster-demo-web"].clone();
    site.edit_desired("count: 1}", "count: 2}");
    let done = site.muster(&["apply", "--wait", rig::DESIRED]);
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    site.wait_until("another worker", TIME, |site| {
        site.instances().len() == 4 && site.is_well()
    });
    let pids = site.demo_pids();
    assert_eq!(pids["muster-demo-web"], webs);
    assert!(pids["muster-demo-wor"].is_superset(&workers) && pids["muster-demo-wor"].len() == 2);

    site.down();
    site.assert_as(&before);
    let again = site.muster(&["down"]);
    assert!(
        again.status.success() && again.stderr.contains("there is no Unit"),
        "{}",
        again.stderr
    );
}

#[test]
fn a_second_up_touches_nothing_and_one_after_kills_starts_what_is_missing() {
    require_unit!();
    let site = Site::boot();
    let before = site.picture();
    site.up(&[]);
    let (pids, daemons) = (site.demo_pids(), site.daemon_pids());
    site.up(&[]);
    assert_eq!((site.demo_pids(), site.daemon_pids()), (pids, daemons));

    // The init of the second node dies, and with it the node; then all of both.
    let second = site.init_of("second");
    site.kill9(second);
    let main_daemons = site.init_of("main");
    site.up(&[]);
    assert_ne!(site.init_of("second"), second);
    assert_eq!(site.init_of("main"), main_daemons);
    assert!(all_active(&site.instances()));
    for node in ["main", "second"] {
        site.kill9(site.init_of(node));
    }
    site.up(&[]);
    assert!(all_active(&site.instances()));

    // Whatever has died, everything goes.
    for node in ["main", "second"] {
        site.kill9(site.init_of(node));
    }
    site.down();
    site.assert_as(&before);
}

#[test]
fn down_works_after_an_up_that_failed_half_way() {
    require_unit!();
    let site = Site::boot();
    let before = site.picture();
    // The Communication Manager cannot run: everything before it is there.
    site.break_program("muster-cm");
    let failed = site.try_up(&["--timeout", "2s"]);
    assert_eq!(
        failed.status.code(),
        Some(5),
        "{}{}",
        failed.stdout,
        failed.stderr
    );
    assert!(
        failed.stderr.contains("Communication Manager"),
        "{}",
        failed.stderr
    );
    assert_eq!(site.pids_of("muster-sm").len(), 2);
    site.mend_program("muster-cm");
    site.down();
    site.assert_as(&before);

    // The same again, and this time the next `up` goes on from there.
    site.break_program("muster-iam");
    let failed = site.try_up(&["--timeout", "2s"]);
    assert!(!failed.status.success());
    site.mend_program("muster-iam");
    site.up(&[]);
    assert!(all_active(&site.instances()));
    site.down();
    site.assert_as(&before);
}

#[test]
fn folders_of_somebody_else_are_left_alone() {
    require_unit!();
    let site = Site::boot();
    site.write("/var/lib/other/precious", "data");
    for verb in ["up", "down"] {
        let refused = site.muster(&[verb, "--dir", "/var/lib/other"]);
        assert_eq!(refused.status.code(), Some(3), "{}", refused.stderr);
    }
    assert_eq!(site.read("/var/lib/other/precious"), "data");
    let refused = site.muster(&["up", "--dir", "relative"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    let refused = site.muster(&["up", "--programs", "/nowhere"]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("/nowhere/muster-init"),
        "{}",
        refused.stderr
    );
}
