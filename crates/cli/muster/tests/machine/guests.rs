//! `muster machine` with virtual machines of a real libvirt.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use muster_lab::machine::{Binaries, Build};
use muster_lab::net::Net;
use muster_lab::poll_until;
use serde_json::{Value, json};

use crate::daemons::{Daemons, PATIENCE, require_libvirt, small_image};
use crate::rig::Site;
use crate::terminal::work_on;
use crate::using::assert_no_commands;

const HELPER: &str = "muster-libvirt-helper";
const BOOT_ID: [&str; 2] = ["cat", "/proc/sys/kernel/random/boot_id"];

/// A libvirt, and a manager that makes machines with it.
struct Guests {
    site: Site,
    libvirt: Daemons,
    _helper: Binaries,
}

impl Guests {
    fn start() -> Self {
        let helper = Binaries::build(Build::Test, &[(HELPER, HELPER)], &[]).expect("the helper");
        let libvirt = Daemons::start(&[]);
        let site = Site::with(json!({
            "templates": ["guests.yaml"],
            "providers": {
                "docker": { "enabled": false },
                "libvirt": {
                    "uri": libvirt.uri(), "helper": helper.path(HELPER), "folder": libvirt.path().join("disks"),
                    "acceleration": "tcg",
                },
            },
        }));
        let image = small_image();
        let template = format!(
            "name: guest\nimage: {}\nuser: builder\nmemoryMB: 256\n",
            image.display()
        );
        site.write("guests.yaml", &template);
        Self {
            site,
            libvirt,
            _helper: helper,
        }
    }

    fn domains(&self) -> Vec<String> {
        let listed = self.libvirt.virsh(&["list", "--all", "--name"]);
        let mut names: Vec<String> = listed.lines().map(ToOwned::to_owned).collect();
        names.sort();
        names
    }

    /// What the libvirt of ours says, while the manager says the same.
    #[track_caller]
    fn assert_state(&self, state: &str, domain: &str) {
        let shown = self.site.json(&["show", "dev"]);
        assert_eq!(shown["state"], state, "{shown}");
        let resource = shown["resource"].as_str().expect("a name");
        assert_eq!(self.libvirt.virsh(&["domstate", resource]), domain);
    }

    /// Which boot of its system it is, once it answers.
    fn boot_id(&self) -> String {
        let words = [&["exec", "dev", "--"], &BOOT_ID[..]].concat();
        muster_lab::poll_for(PATIENCE, "the machine answers", || {
            let run = self.site.run(&words);
            run.status.success().then_some(run.stdout)
        })
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        let machines = self.libvirt.path().join("disks/machines/machines");
        self.libvirt.assert_nothing_left(&machines);
    }
}

/// Inside a network of its own, where the machines' ports are.
fn alone(work: impl FnOnce() + Send) {
    let net = Net::new(&["hypervisor"]).expect("a network");
    let host = net.host("hypervisor");
    host.run(work).expect("inside");
}

fn choose(site: &Site) {
    let providers = site.json(&["providers"]);
    assert_eq!(providers[0]["id"], "libvirt", "{providers}");
    let checks = site.json(&["doctor"]);
    let checks = checks.as_array().expect("checks");
    let libvirt = checks.iter().find(|it| it["check"] == "provider-libvirt");
    assert_eq!(libvirt.expect("one")["state"], "ok", "{checks:?}");
    let plan = site.json(&["plan", "-t", "guest"]);
    assert_eq!(plan[0]["provider"], "libvirt", "{plan}");
    assert_eq!(plan[0]["chosen"], true, "{plan}");
    assert_eq!(site.json(&["list", "--all"]), json!([]), "only a plan");
}

fn use_commands(site: &Site) {
    let script = "echo out; echo err >&2; printf %s \"$A\"; pwd; whoami; exit 42";
    let words = [
        "exec", "-e", "A=a b", "-C", "/usr", "dev", "--", "sh", "-c", script,
    ];
    let run = site.run(&words).code(42);
    let written = (run.stdout.as_str(), run.stderr.as_str());
    assert_eq!(written, ("out\na b/usr\nbuilder\n", "err\n"));
    site.run(&["exec", "dev", "--", "sh", "-c", "kill -KILL $$"])
        .code(137);
    let late = ["exec", "--timeout", "1s", "dev", "--", "sleep", "600"];
    site.run(&late).refused(124, &["sleep"]);
    assert_no_commands(site, "dev", "/etc/passwd");

    let mut shell = site.command(&["ssh", "dev", "--", "sh", "-c", "cat; exit 3"]);
    let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("it runs");
    let mut input = shell.stdin.take().expect("piped");
    input.write_all(b"through").expect("written");
    drop(input);
    let output = shell.wait_with_output().expect("it ends");
    let ended = (output.stdout.as_slice(), output.status.code());
    assert_eq!(ended, (&b"through"[..], Some(3)));
    work_on(site, "dev");

    let run = site.run(&["run", "-m", "dev", "--no-sync", "--", "uname", "-s"]);
    assert_eq!(run.ok().stdout, "Linux\n");
}

fn carry_files(site: &Site) {
    fs::create_dir_all(site.path("tree/inner")).expect("a folder");
    site.write("tree/a", "one");
    site.write("tree/inner/b", "two");
    site.run(&["cp", "tree", "dev:tree"]).ok();
    let change = "cat inner/b; echo three >c; rm a";
    let words = ["exec", "-C", "tree", "dev", "--", "sh", "-c", change];
    assert_eq!(site.run(&words).ok().stdout, "two");
    let copied = site.json(&["sync", "dev:tree", "tree", "--delete"]);
    assert_eq!(copied["files"], 1, "only what changed: {copied}");
    assert_eq!(copied["removed"], 1, "{copied}");
    let read = |name: &str| fs::read_to_string(site.path(name)).expect("a file");
    assert_eq!(read("tree/c"), "three\n");
    site.run(&["cp", "dev:tree/inner/b", "back"]).ok();
    assert_eq!(read("back"), "two");
}

fn live(guests: &mut Guests) {
    choose(&guests.site);
    // It is made, and nobody has written that down.
    let order = ["provision", "-t", "guest", "--name", "dev", "--key", "k"];
    guests.site.dies_at("machines.provision-answered", |site| {
        let run = site.run(&order);
        assert!(!run.status.success(), "{run:?}");
    });
    let made = guests.site.json(&order);
    let id = made["id"].as_str().expect("an id").to_owned();
    assert_eq!(made["state"], "running", "{made}");
    assert_eq!(made["details"]["accelerator"], "tcg", "{made}");
    assert_eq!(guests.domains().len(), 1, "{:?}", guests.domains());
    let listed = guests.site.json(&["list"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["address"], "127.0.0.1", "{listed}");

    let first = guests.boot_id();
    use_commands(&guests.site);
    carry_files(&guests.site);

    // It sleeps and goes on: the same system.
    for wake in ["resume", "start"] {
        guests.site.run(&["hibernate", "dev"]).ok();
        guests.assert_state("hibernated", "shut off");
        guests
            .site
            .run(&["exec", "dev", "--", "true"])
            .refused(3, &["it can be used when it runs"]);
        guests.site.run(&[wake, "dev"]).ok();
        guests.assert_state("running", "running");
        assert_eq!(guests.boot_id(), first);
    }
    guests.site.run(&["reboot", "dev"]).ok();
    poll_until(PATIENCE, "it has rebooted", || guests.boot_id() != first);

    // The button is pressed, and nobody has written that down.
    guests.site.dies_at("machines.act-answered", |site| {
        let run = site.run(&["stop", "dev"]);
        assert!(!run.status.success(), "{run:?}");
    });
    poll_until(PATIENCE, "it is stopped", || {
        guests.site.state("dev") == "stopped"
    });
    guests.assert_state("stopped", "shut off");
    guests.site.run(&["start", "dev"]).ok();
    guests.assert_state("running", "running");
    guests.site.run(&["stop", "--force", "dev"]).ok();
    guests.assert_state("stopped", "shut off");

    guests.site.dies_at("machines.destroy-answered", |site| {
        let run = site.run(&["destroy", "dev"]);
        assert!(!run.status.success(), "{run:?}");
    });
    poll_until(PATIENCE, "it is gone", || {
        guests.site.json(&["list"]) == json!([])
    });
    let events = guests.site.json(&["events", &id]);
    let events = events.as_array().expect("events");
    let kinds: Vec<&str> = events.iter().filter_map(|it| it["kind"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"ordered"), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"gone"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|it| **it == "made").count(), 1);
    guests.assert_nothing_left();
}

#[test]
fn a_virtual_machine_is_made_used_put_to_sleep_and_destroyed_through_deaths_of_the_manager() {
    require_libvirt!(small_image());
    alone(|| live(&mut Guests::start()));
}

fn collect(guests: &mut Guests) {
    let made = guests.site.json(&["provision", "-t", "guest"]);
    guests.libvirt.add_foreign();
    let domains = guests.domains();
    assert_eq!(domains.len(), 2, "{domains:?}");
    assert_eq!(guests.site.json(&["gc"]), json!([]), "it is known");

    // A manager that has lost its records knows its own machines by their mark.
    guests.site.lose_records();
    let found = guests.site.json(&["gc"]);
    let resources = |found: &Value| -> Vec<Value> {
        let found = found.as_array().expect("orphans").iter();
        found.map(|it| it["resource"].clone()).collect()
    };
    assert_eq!(resources(&found), [made["resource"].clone()], "{found}");
    assert_eq!(guests.domains(), domains, "it was only looked for");
    let destroyed = guests.site.json(&["gc", "--destroy"]);
    assert_eq!(resources(&destroyed), resources(&found));
    assert_eq!(guests.domains(), ["theirs"]);
    assert_eq!(guests.site.json(&["gc"]), json!([]));
    assert!(guests.libvirt.end_foreign(), "it was touched");
    guests.assert_nothing_left();
}

#[test]
fn orphans_among_virtual_machines_are_collected_and_those_of_others_left_alone() {
    require_libvirt!(small_image());
    alone(|| collect(&mut Guests::start()));
}
