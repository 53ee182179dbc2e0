//! Filters of devices, peers and ports, as the kernel carries them out.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use muster_cgroup::{
    BindFilter, BindRule, CgroupPath, Controllers, DeviceAccess, DeviceFilter, DeviceKind,
    DeviceRule, Hierarchy, Hook, Interfaces, Mode, Network, Occasion, Offer, Pid, Plan, Program,
    Resources, Subsystems, TrafficFilter, Tree,
};
use muster_exec::bpf;

/// For what takes a moment on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A group of the test's own, gone with everything in it when it is dropped.
struct Rig {
    tree: Tree,
    group: OwnedFd,
}

impl Rig {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let place = format!("muster-filters-{}-{number}", std::process::id());
        let place = CgroupPath::root().child(&place).unwrap();
        let tree = Tree::open(&Hierarchy::detect().unwrap(), &place).unwrap();
        let group = tree.open_group(&CgroupPath::root()).unwrap();
        Self { tree, group }
    }

    /// Puts the filters in their places, and takes away what is not wanted any more.
    fn filter(&self, resources: &Resources) {
        let offer = Offer {
            mode: Mode::Unified,
            controllers: Controllers::NONE,
            legacy: Subsystems::NONE,
        };
        let plan = Plan::new(resources, offer, Occasion::New);
        for hook in Hook::ALL {
            let program: Option<&Program> =
                plan.programs.iter().find(|program| program.hook == hook);
            bpf::replace(self.group.as_fd(), hook, program).unwrap();
        }
    }

    /// A shell in the group, which begins once it is there.
    fn begin(&self, script: &str) -> Child {
        let mut child = Command::new("bash")
            .args(["-c", &format!("read line; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        self.tree.attach(&CgroupPath::root(), pid).unwrap();
        drop(child.stdin.take());
        child
    }

    /// Whether a script succeeds in the group; if not, because it is not permitted.
    #[track_caller]
    fn can(&self, script: &str) -> bool {
        let mut child = self.begin(script);
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let succeeded = child.wait().unwrap().success();
        assert!(
            succeeded || said.to_lowercase().contains("operation not permitted"),
            "{script}: {said}"
        );
        succeeded
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let root = CgroupPath::root();
        let _ = self.tree.kill(&root);
        let folder = self.tree.folder(&root).unwrap();
        let end = std::time::Instant::now() + PATIENCE;
        while let Err(error) = std::fs::remove_dir(&folder) {
            if std::time::Instant::now() > end {
                eprintln!("{} is left: {error}", folder.display());
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn character(major: u32, minor: Option<u32>, read: bool, write: bool) -> DeviceRule {
    DeviceRule {
        kind: DeviceKind::Character,
        major: Some(major),
        minor,
        access: DeviceAccess {
            read,
            write,
            mknod: false,
        },
    }
}

#[test]
fn devices_that_are_not_listed_cannot_be_opened() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::new();
    let (zero, null) = (": </dev/zero", ": >/dev/null");
    assert!(rig.can(zero) && rig.can(null));
    // The numbers of /dev/null and /dev/zero are the same on every Linux.
    let rules = vec![
        character(1, Some(3), true, true),
        character(1, Some(5), true, false),
    ];
    rig.filter(&Resources {
        devices: Some(DeviceFilter { rules }),
        ..Resources::default()
    });
    assert!(rig.can(zero) && rig.can(null));
    assert!(!rig.can(": >/dev/zero"), "it may only be read");
    assert!(!rig.can(": </dev/full"));
    let folder = tempfile::tempdir().unwrap();
    let node = format!("mknod {}/node c 1 3", folder.path().display());
    assert!(!rig.can(&node), "no node may be made");
    // One program takes the place of the other.
    rig.filter(&Resources {
        devices: Some(DeviceFilter {
            rules: vec![character(1, None, true, true)],
        }),
        ..Resources::default()
    });
    assert!(rig.can(": </dev/full"));
    rig.filter(&Resources::default());
    assert!(rig.can(&node));
}

fn loopback(length: u8) -> Network {
    Network {
        address: Ipv4Addr::LOCALHOST.into(),
        length,
    }
}

fn everybody() -> Vec<Network> {
    let v6 = std::net::Ipv6Addr::UNSPECIFIED.into();
    vec![
        Network {
            address: Ipv4Addr::UNSPECIFIED.into(),
            length: 0,
        },
        Network {
            address: v6,
            length: 0,
        },
    ]
}

fn traffic(allow: Vec<Network>, deny: Vec<Network>, counts: bool) -> Resources {
    Resources {
        traffic: Some(TrafficFilter::new(allow, deny, Interfaces::Any, counts).unwrap()),
        ..Resources::default()
    }
}

#[test]
fn peers_that_are_denied_are_not_reached_and_others_are_counted() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::new();
    let ear = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    ear.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = ear.local_addr().unwrap().port();
    let send = format!("echo hello >/dev/udp/127.0.0.1/{port}");
    rig.filter(&traffic(Vec::new(), everybody(), true));
    assert!(!rig.can(&send));
    let counted = |hook| bpf::traffic(rig.group.as_fd(), hook).unwrap();
    assert_eq!(
        counted(Hook::Egress).packets,
        0,
        "what is dropped is not counted"
    );
    rig.filter(&traffic(vec![loopback(8)], everybody(), true));
    assert!(rig.can(&send));
    let mut bytes = [0; 16];
    assert_eq!(ear.recv(&mut bytes).unwrap(), 6);
    // Header of IPv4, header of UDP, six bytes.
    let one = bpf::Traffic {
        packets: 1,
        bytes: 20 + 8 + 6,
    };
    assert_eq!(counted(Hook::Egress), one);
    // A peer that is allowed answers, and that is counted too.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(rig.can(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}")));
    assert!(counted(Hook::Ingress).packets > 0);
    // What was counted goes on being counted under another filter.
    let before = counted(Hook::Egress);
    rig.filter(&traffic(vec![loopback(32)], everybody(), true));
    assert_eq!(counted(Hook::Egress), before);
    // The loopback is the first interface of every network.
    let by = |interfaces| Resources {
        traffic: Some(TrafficFilter::new(Vec::new(), Vec::new(), interfaces, true).unwrap()),
        ..Resources::default()
    };
    for (interfaces, reached) in [
        (Interfaces::Only(vec![1]), true),
        (Interfaces::Only(vec![2, 3]), false),
        (Interfaces::Only(Vec::new()), false),
        (Interfaces::Not(vec![1]), false),
        (Interfaces::Not(vec![2]), true),
    ] {
        rig.filter(&by(interfaces.clone()));
        assert_eq!(rig.can(&send), reached, "{interfaces:?}");
    }
    rig.filter(&Resources::default());
    assert_eq!(bpf::traffic(rig.group.as_fd(), Hook::Egress), None);
    assert!(rig.can(&send));
}

#[test]
fn the_longest_list_of_networks_is_taken_by_the_kernel() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::new();
    // Networks of odd lengths, which take the most instructions each, and none of which is one of the others.
    let networks = |from: u16| -> Vec<Network> {
        (from..from + 1024)
            .map(|number| Network {
                address: std::net::Ipv6Addr::new(0x2001, number, 1, 2, 3, 4, 5, 6).into(),
                length: 121,
            })
            .collect()
    };
    rig.filter(&traffic(networks(0), networks(2000), true));
    assert!(bpf::traffic(rig.group.as_fd(), Hook::Ingress).is_some());
}

#[test]
fn ports_that_are_denied_cannot_be_bound() {
    muster_lab::require!(Root, Cgroup2, Tool("busybox"));
    let rig = Rig::new();
    // A port that is free at the moment.
    let free = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let port = free();
    let rule = |text: String| BindRule::parse(&text).unwrap();
    rig.filter(&Resources {
        binds: Some(BindFilter {
            allow: vec![rule(format!("ipv4:tcp:{port}"))],
            deny: vec![rule("any".to_owned())],
        }),
        ..Resources::default()
    });
    let serve = |port: u16| format!("exec busybox httpd -f -p 127.0.0.1:{port}");
    assert!(!rig.can(&serve(free())));
    let mut child = rig.begin(&serve(port));
    let end = std::time::Instant::now() + PATIENCE;
    let mut stream = loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(
                std::time::Instant::now() < end && child.try_wait().unwrap().is_none(),
                "{error}"
            ),
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP");
    child.kill().unwrap();
    child.wait().unwrap();
}
