//! `muster machine` with a likeness of EC2 whose machines have a real SSH server.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_aws::testing::{ACCESS_KEY, FakeEc2, FakeSettings, IMAGE, SECRET_KEY};
use muster_lab::net::Net;
use muster_lab::program::{Process, Program};
use serde_json::{Value, json};

use crate::rig::{Site, until};
use crate::terminal::work_on;
use crate::using::assert_no_commands;

/// An SSH server with these keys. It ends with the value.
pub(crate) struct Sshd<'a> {
    /// What its files are called.
    pub(crate) name: &'a str,
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    /// Its private key.
    pub(crate) host: &'a str,
    /// Whom it lets in.
    pub(crate) allowed: &'a str,
    /// More lines of its configuration.
    pub(crate) more: &'a str,
}

impl Sshd<'_> {
    pub(crate) fn start(&self, site: &Site) -> Process {
        let write = |name: &str, text: &str| {
            let name = format!("{}-{name}", self.name);
            site.write(&name, text);
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(site.path(&name), mode).expect("a mode");
            site.path(&name).display().to_string()
        };
        let (host, allowed) = (write("host", self.host), write("allowed", self.allowed));
        let (address, port, more) = (self.address, self.port, self.more);
        let config = format!(
            "ListenAddress {address}:{port}\nHostKey {host}\nAuthorizedKeysFile {allowed}\nPidFile none\nUsePAM no\n\
             StrictModes no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nLogLevel ERROR\n\
             Subsystem sftp internal-sftp\n{more}\n"
        );
        let config = write("config", &config);
        // The server wants it, whoever starts it.
        fs::create_dir_all("/run/sshd").expect("a folder");
        let server = Program::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f", &config])
            .start()
            .expect("it starts");
        until("the SSH server listens", || {
            TcpStream::connect((address, port)).is_ok()
        });
        server
    }
}

/// What cloud-init would do with what the machine was told: the SSH server has the keys that it was given.
pub(crate) fn boot(site: &Site, told: &Value, address: Ipv4Addr, more: &str) -> Process {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let allowed = told["users"][0]["ssh_authorized_keys"].as_array();
    let allowed: Vec<String> = allowed.expect("keys").iter().map(text).collect();
    let server = Sshd {
        name: "machine",
        address,
        port: 22,
        host: &text(&told["ssh_keys"]["ed25519_private"]),
        allowed: &allowed.join("\n"),
        more,
    };
    server.start(site)
}

/// What the only machine that there is was told.
pub(crate) fn told(cloud: &FakeEc2) -> Value {
    let machines = cloud.machines();
    let data = STANDARD.decode(&machines[0].made_with["UserData"]);
    let data = String::from_utf8(data.expect("base64")).expect("text");
    let document = data.strip_prefix("#cloud-config\n").expect("a document");
    serde_json::from_str(document).expect("JSON")
}

/// A cloud with one machine at this address, and a site that can make it; `ssh` is how it is reached.
pub(crate) fn cloud_and_site(address: Ipv4Addr, ssh: &Value) -> (FakeEc2, Site) {
    let cloud = FakeEc2::start(FakeSettings {
        private_address: address,
        ..FakeSettings::default()
    });
    let site = Site::with_env(
        json!({
            "templates": ["cloud.yaml"],
            "providers": {
                "docker": { "enabled": false },
                "aws": {
                    "regions": ["eu-central-1"], "endpointUrl": cloud.url(), "privateAddresses": true,
                    "instanceTypes": { "t3.micro": { "cpus": 2, "memoryMB": 1024, "arch": "amd64" } },
                    "ssh": ssh,
                },
            },
        }),
        &[
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ],
    );
    let template =
        "name: web\nuser: root\ncpus: 1\nmemoryMB: 512\noverrides: { aws: { ami: IMAGE } }\n";
    let template = template.replace("IMAGE", IMAGE);
    site.write("cloud.yaml", &template);
    (cloud, site)
}

fn use_a_machine(address: Ipv4Addr) {
    let (cloud, site) = cloud_and_site(address, &json!({}));
    // It runs, as the cloud says, and has not booted yet.
    let provision = ["provision", "-t", "web", "--name", "web", "--key", "k"];
    let impatient = [&provision[..], &["--timeout", "1s"]].concat();
    let words = ["does not answer yet", "refused"];
    site.run(&impatient).refused(6, &words);
    let shown = site.json(&["show", "web"]);
    assert_eq!(shown["state"], "running", "{shown}");
    assert_eq!(shown["address"], address.to_string(), "{shown}");
    assert_eq!(cloud.machines()[0].kind, "t3.micro");
    let words = [&*address.to_string(), "refused"];
    site.run(&["exec", "web", "--", "true"])
        .refused(125, &words);

    // Whoever waits for it has it when it has booted.
    let mut waiting = site.command(&[&provision[..], &["-o", "json"]].concat());
    let waiting = waiting.stdout(Stdio::piped()).spawn();
    let told = told(&cloud);
    let server = boot(&site, &told, address, "");
    let waited = waiting
        .expect("it runs")
        .wait_with_output()
        .expect("it ends");
    assert!(waited.status.success(), "{waited:?}");
    let made: Value = serde_json::from_slice(&waited.stdout).expect("JSON");
    assert_eq!(
        (&made["provider"], &made["id"]),
        (&json!("aws"), &shown["id"])
    );
    let where_to = ["exec", "web", "--", "sh", "-c", "echo $SSH_CONNECTION"];
    let run = site.run(&where_to).ok();
    assert!(run.stdout.contains(&format!("{address} 22")), "{run:?}");
    site.write("here", "text");
    let there = format!("web:{}", site.path("there").display());
    site.run(&["cp", "here", &there]).ok();
    assert_eq!(fs::read_to_string(site.path("there")).expect("it"), "text");
    assert_no_commands(&site, "web", "/etc/passwd");
    work_on(&site, "web");

    // Another machine at the same address is none of ours.
    drop(server);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(site.path("other"))
        .status();
    assert!(made.expect("ssh-keygen runs").success());
    let mut other = told;
    let key = fs::read_to_string(site.path("other")).expect("a key");
    other["ssh_keys"]["ed25519_private"] = key.into();
    let server = boot(&site, &other, address, "");
    site.run(&["exec", "web", "--", "true"])
        .refused(125, &["SHA256:"]);
    drop(server);

    site.run(&["stop", "web"]).ok();
    assert_eq!(cloud.machines()[0].state.ec2_name(), "stopped");
    site.run(&["start", "web"]).ok();
    assert_eq!(cloud.machines()[0].state.ec2_name(), "running");
    site.run(&["destroy", "web"]).ok();
    assert_eq!(cloud.machines(), []);
    assert_eq!(site.json(&["list"]), json!([]));
    assert_eq!(site.json(&["gc"]), json!([]));
}

#[test]
fn a_machine_of_a_cloud_is_made_used_and_destroyed() {
    muster_lab::require!(
        Root,
        File("/usr/sbin/sshd"),
        Tool("ssh-keygen"),
        Tool("setsid")
    );
    let net = Net::new(&["cloud"]).expect("a network");
    let host = net.host("cloud");
    host.run(|| use_a_machine(host.ip())).expect("inside");
}
