//! A machine behind another, its ports, and its own power switch.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use muster_lab::net::Net;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cloud::{Sshd, boot, cloud_and_site, told};
use crate::rig::{Site, until};

/// The port at which the machine in between listens.
const BASTION: u16 = 2222;

/// A key pair in a folder.
fn keygen(folder: &Path, name: &str) -> (String, String) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
        .arg(folder.join(name))
        .status();
    assert!(made.expect("ssh-keygen runs").success());
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a key");
    (read(name), read(&format!("{name}.pub")))
}

/// Programs in the place of those that switch the power of this very machine. They say what they are asked.
fn stand_ins(site: &Site) -> String {
    let programs = site.path("programs");
    fs::create_dir(&programs).expect("a folder");
    for name in ["systemctl", "shutdown", "poweroff", "reboot", "halt"] {
        let log = site.path("power.log");
        let script = format!("#!/bin/sh\necho \"${{0##*/}} $*\" >>'{}'\n", log.display());
        let path = programs.join(name);
        fs::write(&path, script).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    format!(
        "SetEnv PATH={}:/usr/local/bin:/usr/bin:/bin",
        programs.display()
    )
}

/// A server that sends back what it is sent, once.
fn echo() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("heard");
        stream.write_all(&heard).expect("said");
    });
    port
}

/// A port here leads there as long as the command runs, and no longer.
fn forward(site: &Site) {
    let to = echo();
    let mut command = site.command(&["forward", "web", &format!("0:127.0.0.1:{to}")]);
    let mut process = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert!(line().contains("HERE"));
    let said = line();
    let (here, there) = said.split_once(' ').expect("two columns");
    assert_eq!(there.trim(), format!("127.0.0.1:{to}"));
    let mut stream = TcpStream::connect(here).expect("it listens");
    stream.write_all(b"through two machines").expect("said");
    stream.shutdown(Shutdown::Write).expect("said all");
    let mut heard = String::new();
    stream.read_to_string(&mut heard).expect("heard");
    assert_eq!(heard, "through two machines");
    let pid = i32::try_from(process.id()).expect("a process id");
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::INT).expect("told");
    assert_eq!(process.wait().expect("it ends").code(), Some(130));
    TcpStream::connect(here).expect_err("nobody listens any more");
    site.run(&["forward", "web", "80:there"])
        .refused(2, &["PORT:HOST:PORT"]);
}

fn go_through_another(address: Ipv4Addr) {
    let keys = tempfile::tempdir().expect("a folder");
    let (host, host_public) = keygen(keys.path(), "host");
    let (_, client_public) = keygen(keys.path(), "client");
    let jump = json!({
        "host": address.to_string(), "port": BASTION, "user": "root",
        "hostKey": host_public.trim(), "key": keys.path().join("client"),
    });
    let (cloud, site) = cloud_and_site(address, &json!({ "jumps": [jump] }));
    site.run(&["provision", "-t", "web", "--name", "web", "--no-wait"])
        .ok();
    until("it runs", || site.state("web") == "running");
    let machine = boot(&site, &told(&cloud), address, &stand_ins(&site));
    // The machine listens, and the one in between does not.
    let words = [&*format!("{address}:{BASTION}"), "refused"];
    site.run(&["exec", "web", "--", "true"])
        .refused(125, &words);
    let bastion = Sshd {
        name: "bastion",
        address,
        port: BASTION,
        host: &host,
        allowed: &client_public,
        more: "AllowTcpForwarding yes",
    };
    let running = bastion.start(&site);
    let run = site.run(&["exec", "web", "--", "sh", "-c", "echo $SSH_CONNECTION"]);
    assert!(run.ok().stdout.contains(&format!("{address} 22")));
    // The manager goes the same way.
    let words = [
        "run",
        "--machine",
        "web",
        "--no-sync",
        "--",
        "echo",
        "there",
    ];
    assert_eq!(site.run(&words).ok().stdout, "there\n");
    forward(&site);

    site.run(&["reboot", "--from-inside", "web"]).ok();
    site.run(&["stop", "--from-inside", "web"]).ok();
    let log = fs::read_to_string(site.path("power.log")).expect("they were asked");
    assert_eq!(
        log,
        "systemctl --no-block reboot\nsystemctl --no-block poweroff\n"
    );

    // Another one in its place is not trusted.
    drop(running);
    until("the port is free", || {
        TcpStream::connect((address, BASTION)).is_err()
    });
    let (other, _) = keygen(keys.path(), "other");
    let running = Sshd {
        host: &other,
        ..bastion
    }
    .start(&site);
    site.run(&["exec", "web", "--", "true"])
        .refused(125, &["SHA256:"]);
    drop((running, machine));
    site.run(&["destroy", "web"]).ok();
}

#[test]
fn a_machine_behind_another_is_used_through_it() {
    muster_lab::require!(Root, File("/usr/sbin/sshd"), Tool("ssh-keygen"));
    let net = Net::new(&["cloud"]).expect("a network");
    let host = net.host("cloud");
    host.run(|| go_through_another(host.ip())).expect("inside");
}
